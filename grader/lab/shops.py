"""What is given out to break lab 6: wrong shops, each a system of labs/checkout with changes, as break.toml lists them.

break/README.md       how to start
break/histories.txt   what students write
break/break.json      as for the other labs (`breaking`); the text of a wrong solution is the folder of its shop
break/shop-1/...      the shops, which run

The changes of a shop, and the case that exposes it, are not given out.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..files import as_json
from ..folders import paths
from .breaking import BREAK, HISTORIES, NEAR
from .regions import MasterError

MASTER = "break.toml"
MOST = 12
"""The maximum number of histories. Each runs in all shops that it fits."""
_README = """# Break lab {number}: {title}

A test is good if it fails for wrong programs. The folders `shop-1` to `shop-{wrong}` have {wrong} wrong solutions of
this lab, which run. Find histories that expose them. A history is a case of `python -m grader explore`. It exposes a
shop if a value is still wrong 2 seconds after the last message.

1. Put this folder into the folder of the lab, beside `start`.
2. Read the code of a shop, before you run it. Which message, if it is lost or late or overtaken, or which kill of a
   process leaves money or stock wrong?
3. Write this case into `{histories}`, one a line, and in a comment which value will be wrong. The first lines of the
   file say what you can write.
4. Open a terminal in the folder of the lab. `python` is that of the kit, as in the lab:

       python -m grader break

   It runs each history in all shops that have its messages, which takes about a minute, and prints which of them it
   exposes, and which are at large. This shows each step of a case:

       python -m grader explore break/shop-2 --case "no stock, lose stock->order 400, 1st"

5. Hand in `{histories}`.

`explore --minutes 20` finds a case of each shop by itself. Use it when you are stuck: what you learn here is to see
the case in the code.

At most {longest} histories count. Each fault, or message that is delivered earlier, is a change. Each shop that you
expose is a point. The shortest set of histories known that exposes all of them has {known} changes. If all of your
histories together have at most {most} changes, you have a bonus of a tenth of your points.
"""
_HISTORIES = """# Histories for lab {number}, one a line. A comment begins with a blank and #.
#
# A history is a scenario and what happens in it, in the words that `explore` prints:
#
#     SCENARIO, lose MESSAGE, 1st                  the first of these messages is lost
#     SCENARIO, late MESSAGE, 2nd                  the second of these requests arrives late
#     SCENARIO, kill NAME at MESSAGE, 1st          NAME is killed before the message is delivered
#     SCENARIO, kill NAME after MESSAGE, 1st       NAME is killed when it has sent the message
#     SCENARIO, kill NAME before its 3rd write     NAME is killed before it writes to a file for the 3rd time
#     SCENARIO, at step 4 deliver MESSAGE, 1st     another message than usual is delivered as step 4
#
# A message is order->stock POST /take, or stock->order 200. A path can end earlier: /take stands for /take/#.
# Scenarios: payable; no credit; no stock. With "at step", or alone: the same order twice; two orders, credit for one;
# two orders, stock for one; a checkout and add_funds; a checkout and subtract.
# O and P are the orders, U and V the users, X and Y the items.
"""


@dataclass(frozen=True)
class Shop:
    """A wrong shop. ``base``: the system of labs/checkout that it is, with changes; ``case``: what exposes it.

    A base without changes is wrong by itself. With changes, the base is the right shop to compare with.
    """

    name: str
    base: str
    area: str
    case: str
    says: str
    change: Sequence[Mapping[str, str]] = ()


def read_master(lab: Path) -> tuple[dict[str, Any], list[Shop]]:
    """Return what break.toml says about all shops, and the shops. ``lab``: labs/checkout."""
    about = tomllib.loads((lab / MASTER).read_text(encoding="utf-8"))
    return about, [Shop(**row) for row in about.pop("shop")]


def texts(lab: Path, shop: Shop) -> dict[str, str]:
    """Return the files of a shop. Raises MasterError unless each text that is changed occurs exactly once."""
    found = {path: lab / shop.base / path for path in paths(lab / shop.base, ("__pycache__",))}
    files = {name: path.read_text(encoding="utf-8") for name, path in found.items()}
    for change in shop.change:
        name = change["file"]
        if files[name].count(change["right"]) != 1:
            raise MasterError(f"{MASTER}: {shop.name}: {shop.base}/{name} must contain its text exactly once")
        files[name] = files[name].replace(change["right"], change["wrong"])
    return files


def to_break(lab: Path) -> dict[str, str]:
    """Return the files of break/. ``lab``: labs/checkout."""
    about, shops = read_master(lab)
    folders = [f"shop-{number}" for number in range(1, len(shops) + 1)]
    wrong = [
        {"area": shop.area, "says": shop.says, "text": folder, "parts": [shop.base] if shop.change else []}
        for folder, shop in zip(folders, shops, strict=True)
    ]
    words = {**about, "wrong": len(wrong), "histories": HISTORIES, "longest": MOST, "most": int(about["known"] * NEAR)}
    files = {
        f"{folder}/{name}": text
        for folder, shop in zip(folders, shops, strict=True)
        for name, text in texts(lab, shop).items()
    }
    files |= {"README.md": _README.format(**words), HISTORIES: _HISTORIES.format(**words)}
    return {**files, BREAK: as_json({"version": 1, **about, "solution": "", "wrong": wrong, "shops": True})}


__all__ = ["MASTER", "MOST", "Shop", "read_master", "texts", "to_break"]
