"""Drafts a checkout.toml from a docker-compose.yml, and lists what it could not decide.

`compose` reads the compose file, `dockerfile` the Dockerfile of a service, and `nginx` the routes of a gateway.
`images` has the commands of the usual database images, `draft` combines everything, and `toml` writes it.

The draft keeps the ports of the containers and gives each process a loopback address of its own, so that the name of a
service can be replaced by an address everywhere.
"""

from .draft import Draft, draft

__all__ = ["Draft", "draft"]
