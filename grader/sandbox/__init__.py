"""What a submission's processes can do: a tier is how much of it is prevented, and what it says it does not stop.

`tiers` names the tiers and tries out which one this machine has; `walls` is tier 1, `locked` tier 2, `plain` tier 3;
`launch`, `lock`, `hold` and `enter` are small programs of their own, `programs` says where submissions find theirs,
`tree` finds and ends every process of a service. The programs are started by path and with nothing of this package in
reach, so the few lines about limits that three of them need stand in each.
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
