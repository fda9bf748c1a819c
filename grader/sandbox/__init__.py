"""The sandbox of a submission's processes, in three tiers of isolation.

`tiers` chooses the tier that works on this machine. `walls` is tier 1 (bubblewrap), `locked` tier 2 (Landlock), `plain`
tier 3 (limits only). `launch`, `lock`, `hold` and `enter` are small separate programs, `programs` builds the PATH of a
submission, `tree` finds and ends all processes of a service. The small programs cannot import this package, so three of
them repeat a few lines about limits.
"""

from .locked import Locked, landlock
from .plain import Command, Plain
from .programs import search_path
from .tiers import Tier, choose
from .tree import Tree, adopt_orphans
from .walls import Walls

Sandbox = Plain | Walls

__all__ = [
    "Command",
    "Locked",
    "Plain",
    "Sandbox",
    "Tier",
    "Tree",
    "adopt_orphans",
    "Walls",
    "choose",
    "landlock",
    "search_path",
]
