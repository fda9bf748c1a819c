"""The environment that Locust runs in: ``python bench/generators/env.py`` makes it, once.

    env.py            make it where it is missing or was locked anew; says where it is
    env.py --check    exit 0 if it is there and complete, else 1 and why; changes nothing

It lies in the caches folder (``make clean`` removes it) and holds exactly what requirements.txt locks. How it is
made and stamped: bench/environment.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":  # a script finds its own folder first, and is to find the checkout, installed or not
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from bench import measure  # noqa: E402
from bench.environment import Environment  # noqa: E402

LOCUST = Environment(
    "Locust", "python bench/generators/env.py", Path(__file__).with_name("requirements.txt"), "about 100 MB"
)

if __name__ == "__main__":
    measure.command(lambda: LOCUST.command_line(__doc__))
