"""What a submission's processes can do: a tier is how much of it is prevented, and what it says it does not stop.

`tiers` names the tiers and tries out which one this machine has, `plain` is tier 3, `launch` is the small
program that gives a process its limits, `tree` finds and ends every process of a service.
"""

from .plain import Command, Plain
from .tiers import Tier, choose
from .tree import Tree, adopt_orphans

__all__ = ["Command", "Plain", "Tier", "Tree", "adopt_orphans", "choose"]
