"""The sandbox for a submission's processes, in three tiers of isolation.

`tiers` chooses the best tier that works on this machine. `walls` is tier 1 (bubblewrap), `locked` is tier 2 (Landlock),
and `plain` is tier 3 (resource limits only). `command` is what they have in common. `enter` and `hold` are small
separate programs. `programs` builds the PATH of a submission, `tree` finds and kills all processes of a service, `ipc`
removes what they shared, and `uids` gives each submission of a lab a uid of its own.
"""

from .command import Command, Sandbox
from .locked import Locked, landlock
from .plain import Plain
from .programs import LAB, Programs, search_path
from .tiers import Tier, choose, make, no_grades
from .tree import Tree, adopt_orphans, keep, kill_trees
from .uids import Uid, own_uid
from .walls import Walls

__all__ = [
    "LAB",
    "Command",
    "Locked",
    "Plain",
    "Programs",
    "Sandbox",
    "Tier",
    "Tree",
    "Uid",
    "Walls",
    "adopt_orphans",
    "choose",
    "keep",
    "kill_trees",
    "landlock",
    "make",
    "no_grades",
    "own_uid",
    "search_path",
]
