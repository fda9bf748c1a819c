"""What is refused at declaration: the smallest class that breaks each rule, and the class that does not."""

from __future__ import annotations

import linecache
import textwrap
import warnings
from typing import Any

import pytest
from carriers import cell

from sharedstate_lite.entities import EntityError, EntityWarning, Program, entity

HEAD = """
from __future__ import annotations
import random
LIMIT = 3
SEEN = []
class Late(Exception): ...
class Date: ...
@entity
class Item:
    def __init__(self, name: str, price: int):
        self.name, self.price, self.stock, self.lines, self.sizes = name, price, 0, [0], {"s": 1}
    def __key__(self):
        return self.name
    def put(self, n: int):
        self.stock += n
    def left(self, n: int) -> int:
        return self.stock - n
@entity
class User:
    friend: User
    cart: list[Item]
    rows: list[list[int]]
    def __init__(self, name: str):
        self.name = name
        self.total = 0
        self.notes = ["a"]
    def __key__(self):
        return self.name
"""

CASES = {
    "KeyChanges: User.rename changes self.name, its key; create another entity": (
        "def rename(self, name: str):\n    self.name = name  # here",
        "def retotal(self, total: int):\n    self.total = total",
    ),
    "NotPlain: User.mark stores set() in self.tags, which is no data; write list(...)": (
        "def mark(self):\n    self.tags = set()  # here",
        "def mark(self):\n    self.tags = sorted({3, 1})",
    ),
    "NotPlain: User.mark declares Date, which is no data; data are int, str": (
        "def mark(self, at: Date):  # here\n    self.total = 1",
        "def mark(self, at: str):\n    self.total = 1",
    ),
    "NotPlain: declares a dict with keys of int; keys are str": (
        "def mark(self, at: dict[int, str]):  # here\n    self.total = 1",
        "def mark(self, at: dict[str, int]):\n    self.total = 1",
    ),
    "NotPlain: has b'x'; data are numbers, strings, lists, dicts": (
        'def mark(self):\n    self.total = b"x"  # here',
        'def mark(self):\n    self.note = "x"',
    ),
    "NotPlain: User.sees still needs pairs after this question, and pairs is no data; write list(...)": (
        "def sees(self, item: Item) -> int:\n    pairs = zip([1], [2])\n    n = item.price  # here\n"
        "    return sum(a for a, _ in pairs) + n",
        "def sees(self, item: Item) -> int:\n    pairs = list(zip([1], [2]))\n    n = item.price\n"
        "    return sum(a for a, _ in pairs) + n",
    ),
    "Untyped: User.sees uses item.price, and item has no declared class; declare it, as in 'item: Item'": (
        "def sees(self, item):\n    return item.price  # here",
        "def sees(self, item: Item):\n    return item.price",
    ),
    "Untyped: User.sees uses n.left, and n has no declared class": (
        "def sees(self, items: list):\n    return [n for n in items if n.left(1)]  # here",
        "def sees(self, items: list[Item]):\n    for n in items:\n        n.put(1)",
    ),
    "Untyped: User.sees declares Itm, which is no class of the program; did you mean Item?": (
        "def sees(self, item: Itm):  # here\n    return 1",
        "def sees(self, item: Item):\n    return 1",
    ),
    "Retyped: item is a reference, and is given something else too; use another name": (
        "def sees(self, item: Item):\n    item = 3  # here",
        "def sees(self, item: Item):\n    item = Item['x']",
    ),
    "Retyped: a is a reference, and is given something else too; use another name": (
        "def sees(self, item: Item):\n    a = item\n    a = User['x']  # here",
        "def sees(self, item: Item):\n    a = item\n    b = User['x']",
    ),
    "Retyped: self.last is a reference, and is given something else too; use another name": (
        "def sees(self, item: Item):\n    self.last = item\n    self.last = 0  # here",
        "def sees(self, item: Item):\n    self.last = item\n    self.last = None",
    ),
    "NoMethod: User.sees calls Item.putt, which does not exist; did you mean put?": (
        "def sees(self, item: Item):\n    item.putt(1)  # here",
        "def sees(self, item: Item):\n    item.put(1)",
    ),
    "NoMethod: User.sees calls Item.put with 2 arguments; it takes 1": (
        "def sees(self, item: Item):\n    item.put(1, 2)  # here",
        "def sees(self, item: Item):\n    item.put(1)",
    ),
    "NoMethod: User.sees reads Item.prize, which does not exist; did you mean price?": (
        "def sees(self, item: Item):\n    return item.prize  # here",
        "def sees(self, item: Item):\n    return item.price",
    ),
    "NoMethod: User.sees reads Item.put, which is a method; call it": (
        "def sees(self, item: Item):\n    return item.put  # here",
        "def sees(self, item: Item):\n    return item.left(0)",
    ),
    "NoMethod: User.sees reads self.totle, which has no value; did you mean total?": (
        "def sees(self):\n    return self.totle  # here",
        "def sees(self):\n    return self.total",
    ),
    "NoMethod: User.sees calls Item.__init__ with 1 arguments; it takes 2": (
        "def sees(self):\n    return Item('x')  # here",
        "def sees(self):\n    return Item('x', 1)",
    ),
    "NoMethod: User.sees asks Item for __key__; a special method is not asked": (
        "def sees(self, item: Item):\n    return item.__key__()  # here",
        "def sees(self, item: Item):\n    return item.key",
    ),
    "Reach: User.sees changes item.price; an entity changes its own state only: give the other a method for it": (
        "def sees(self, item: Item):\n    item.price = 3  # here",
        "def sees(self, item: Item):\n    item.put(3)",
    ),
    "Reach: User.sees changes item.price": (
        "def sees(self, item: Item):\n    item.price += 3  # here",
        "def sees(self, item: Item):\n    self.total += item.price",
    ),
    "Reach: User.sees changes item.lines": (
        "def sees(self, item: Item):\n    item.lines.append(3)  # here",
        "def sees(self, item: Item):\n    return item.lines + [3]",
    ),
    "Reach: User.sees changes item.sizes": (
        "def sees(self, item: Item):\n    item.sizes['m'] = 3  # here",
        "def sees(self, item: Item):\n    return item.sizes['m']",
    ),
    "Inside: a comprehension or a lambda asks no entity; write a for loop": (
        "def sees(self, items: list[Item]):\n    return sum(i.price for i in items)  # here",
        "def sees(self, items: list[Item]):\n    s = 0\n    for i in items:\n        s += i.price\n    return s",
    ),
    "Inside: f is a function in a method: it asks no entity; make it a method": (
        "def sees(self, item: Item):\n    def f():  # here\n        return item.price\n    return f()",
        "def sees(self, item: Item):\n    def f(n):\n        return n + 1\n    return f(self.total)",
    ),
    "Inside: User.sees uses i.price, and i is a parameter of a lambda or of a function in a method, which asks "
    "no entity; ask in a for loop": (
        "def sees(self, items: list[Item]):\n    return sorted(items, key=lambda i: i.price)  # here",
        "def sees(self, items: list[Item]):\n    found = []\n    for i in items:\n"
        "        found.append((i.price, i.key))\n"
        "    return sorted(found, key=lambda pair: pair[0])",
    ),
    "Inside: User.sees uses i.left, and i is a parameter of a lambda or of a function in a method, which asks no "
    "entity": (
        "def sees(self, items: list[Item]):\n    def f(i: Item):\n        return i.left(1)  # here\n"
        "    return list(map(f, items))",
        "def sees(self, items: list[Item]):\n    def f(i: str):\n        return i.upper()\n"
        "    return list(map(f, ['a']))",
    ),
    "Chain: a chain of comparisons asks no entity; write a < b and b < c": (
        "def sees(self, item: Item):\n    return 0 < item.price < 9  # here",
        "def sees(self, item: Item):\n    return 0 < item.price and 0 < self.total < 9",
    ),
    "Else: a loop with an else asks no entity; set a name in the loop, and test it": (
        "def sees(self, cart: list[Item]):\n    for i in cart:  # here\n        i.put(1)\n    else:\n        return 1",
        "def sees(self, items: list[Item]):\n    for i in [1]:\n        pass\n    else:\n        self.total = 1",
    ),
    "Finally: a try with finally or else asks no entity; use except alone": (
        "def sees(self, item: Item):\n    try:  # here\n        item.put(1)\n    finally:\n        self.total = 1",
        "def sees(self, item: Item):\n    try:\n        item.put(1)\n    except Refused:\n        self.total = 1",
    ),
    "With: a with block asks no entity: it would stay open meanwhile; ask before it": (
        "def sees(self, item: Item, x: str):\n    with x:  # here\n        item.put(1)",
        "def sees(self, item: Item, x: str):\n    item.put(1)\n    with x:\n        pass",
    ),
    "Form: := asks no entity; assign in a line of its own": (
        "def sees(self, item: Item):\n    return (n := item.price) + n  # here",
        "def sees(self, item: Item):\n    return (n := self.total) + n + item.price",
    ),
    "Form: User.sees has Yield; methods are plain functions: no async, yield, global, class": (
        "def sees(self, item: Item):\n    yield 3  # here",
        "def sees(self, item: Item):\n    return [3]",
    ),
    "Form: Match asks no entity; ask in a line before it": (
        "def sees(self, item: Item):\n    match item.price:  # here\n        case 1:\n            self.total = 1",
        "def sees(self, item: Item):\n    p = item.price\n    match p:\n        case 1:\n            self.total = 1",
    ),
    "Form: User.sees uses self as a value; only as an argument of a question is it a reference; write "
    "User[self.name]": (
        "def sees(self):\n    me = self  # here",
        "def sees(self):\n    self.friend.meets(self)\ndef meets(self, other: User):\n    self.total += 1",
    ),
    "Form: User.sees uses __dict__; special attributes are the runtime's": (
        "def sees(self):\n    return self.__dict__  # here",
        "def sees(self):\n    return {'total': self.total}",
    ),
    "Form: User.sees catches everything; write except Exception": (
        "def sees(self):\n    try:\n        self.total += 1\n    except:  # here\n        pass",
        "def sees(self):\n    try:\n        self.total += 1\n    except Exception:\n        pass",
    ),
    "Form: User.sees deletes a name; set it to None": (
        "def sees(self, item: Item):\n    n = 1\n    del n  # here",
        "def sees(self, item: Item):\n    del self.notes[0]",
    ),
    "Form: this target asks an entity; ask in a line before it": (
        "def sees(self, item: Item):\n    [self.notes, self.notes[item.price]] = [], 1  # here",
        "def sees(self, item: Item):\n    self.notes[item.price] = 1",
    ),
    "Form: User.key has the name of a reference's own part; choose another": (
        "def key(self):\n    return 1",
        "def keys(self):\n    return 1",
    ),
    "Form: User.sees is not a plain method; the only decorator is @transactional": (
        "@staticmethod\ndef sees():  # here\n    return 1",
        "@transactional\ndef sees(self):\n    return 1",
    ),
    "Keywords: put of an entity is asked with arguments by position": (
        "def sees(self, item: Item):\n    item.put(n=1)  # here",
        "def sees(self, item: Item):\n    item.put(1)\n    self.add(n=1)\ndef add(self, n: int):\n    self.total += n",
    ),
    "Star: put of an entity is asked without * and **; name each argument": (
        "def sees(self, item: Item):\n    item.put(*[1])  # here",
        "def sees(self, item: Item):\n    return max(*[1, 2], item.price)",
    ),
    "Unset: n has no value on one way through User.sees; give it one before": (
        "def sees(self, item: Item):\n    if self.total:\n        n = 1\n    item.put(n)  # here",
        "def sees(self, item: Item):\n    n = 0\n    if self.total:\n        n = 1\n    item.put(n)",
    ),
    "Unset: User.sees uses e after its except clause, where Python deletes it": (
        "def sees(self, item: Item):\n    e = None\n    try:\n        item.put(1)\n    except Refused as e:  # here\n"
        "        pass\n    return e",
        "def sees(self, item: Item):\n    try:\n        item.put(1)\n    except Refused as e:\n        raise e",
    ),
    "Never: User.sees never reaches this line: line 30 leaves before it": (
        "def sees(self, item: Item):\n    return item.price\n    self.total = 1  # here",
        "def sees(self, item: Item):\n    self.total = 1\n    return item.price",
    ),
    "Never: User.sees never reaches this line": (
        "def sees(self, items: list[Item]):\n    while True:\n        if self.total:\n            continue\n"
        "        else:\n            break\n        items[0].put(1)  # here",
        "def sees(self, items: list[Item]):\n    while True:\n        if self.total:\n            break\n"
        "        items[0].put(1)",
    ),
    "Draws: User.sees uses random (module): a replay could see another value; pass it in as an argument": (
        "def sees(self):\n    return random.random()  # here",
        "def sees(self, drawn: float):\n    return drawn",
    ),
    "Draws: User.sees uses open (builtin_function_or_method): a replay could see another value; pass it in as an "
    "argument": ("def sees(self):\n    return open('x')  # here", "def sees(self):\n    return len('x')"),
    "Draws: User.sees uses hash (builtin_function_or_method): a replay could see another value": (
        "def sees(self):\n    return hash(self.name)  # here",
        "def sees(self):\n    return len(self.name)",
    ),
    "Draws: User.sees uses id (builtin_function_or_method): a replay could see another value": (
        "def sees(self):\n    return id(self.notes)  # here",
        "def sees(self):\n    return str(self.notes)",
    ),
    "Draws: User.sees uses SEEN (list): a replay could see another value; pass it in as an argument": (
        "def sees(self):\n    SEEN.append(1)  # here",
        "def sees(self):\n    return LIMIT",
    ),
    "Draws: User.sees uses totel, which has no value": (
        "def sees(self):\n    return totel  # here",
        "def sees(self, totel: int):\n    return totel",
    ),
    "Draws: User.sees imports a module; pass the values in as arguments": (
        "def sees(self):\n    import time  # here\n    return 1",
        "def sees(self, now: int):\n    return now",
    ),
    "Draws: User.sees uses the class Item as a value; write Item[key] or Item(...)": (
        "def sees(self):\n    return str(Item)  # here",
        "def sees(self):\n    return str(Item['x'])",
    ),
    "Is: User.sees compares with is; values are copied at every question; write ==": (
        "def sees(self, item: Item):\n    return item is Item['x']  # here",
        "def sees(self, item: Item):\n    return item == Item['x'] and item is not None",
    ),
    "Alias: still needs notes after this question, and notes can hold a list or dict of self, of which a frame "
    "has a copy; copy it before, as in list(x), or declare what it holds": (
        "def sees(self, item: Item):\n    notes = self.notes\n    item.put(1)  # here\n    notes.append('b')",
        "def sees(self, item: Item):\n    notes = list(self.notes)\n    item.put(1)\n    self.notes.append(notes[0])",
    ),
    "Alias: User.sees still needs a after this question, and a can hold a list or dict of b": (
        "def sees(self, item: Item):\n    a = [1]\n    b = [a, a]\n    item.put(1)  # here\n    a.append(b[0])",
        "def sees(self, item: Item):\n    a = [1]\n    b = [a[0], 2]\n    item.put(1)\n    a.append(b[0])",
    ),
    "Alias: and rest of self.rows can hold a list or dict of": (
        "def sees(self, item: Item):\n    for row in self.rows:\n        item.put(1)  # here\n        row.append(1)",
        "def sees(self, item: Item):\n    for row in self.rows:\n        row.append(1)\n    item.put(1)",
    ),
    "Alias: self.fill gets a copy of out, as it asks, loops with while or calls itself, so out would not see what": (
        "def sees(self, item: Item):\n    out = []\n    self.fill(out, item)  # here\n    return out\n"
        "def fill(self, out: list[int], item: Item):\n    out.append(item.price)",
        "def sees(self, item: Item):\n    out = self.fill([], item)\n    out = self.fill(out, item)\n    return out\n"
        "def fill(self, out: list[int], item: Item) -> list[int]:\n    out.append(item.price)\n    return out",
    ),
    "Alias: self.keep gets a copy of out": (
        "def sees(self, item: Item):\n    out = [0]\n    self.keep(out, item)  # here\n    out.append(1)\n"
        "def keep(self, out: list[int], item: Item):\n    self.kept = out\n    item.put(1)",
        "def sees(self, item: Item):\n    out = [0]\n    self.keep(out, item)\n    out = [1]\n    return out\n"
        "def keep(self, out: list[int], item: Item):\n    self.kept = out\n    item.put(1)",
    ),
    "Alias: self.fill gets a copy of self.notes": (
        "def sees(self, n: int):\n    self.fill(self.notes, n)  # here\n"
        "def fill(self, out: list[str], n: int):\n    while n > 0:\n        n -= 1\n        self.more(out)\n"
        "def more(self, out: list[str]):\n    out += ['b']",
        "def sees(self, n: int):\n    return self.fill(self.notes, n) + self.fill(out=self.notes, n=n)\n"
        "def fill(self, out: list[str], n: int) -> int:\n    return len(out) + self.more(out, n)\n"
        "def more(self, out: list[str], n: int) -> int:\n    return len(out) + n",
    ),
    "Alias: ys is a copy of what User holds, as an own method that asks has returned it": (
        "def sees(self, item: Item):\n    ys = self.mine(item)\n    ys.append('b')  # here\n"
        "def mine(self, item: Item) -> list[str]:\n    item.put(1)\n    return self.notes",
        "def sees(self, item: Item):\n    ys = list(self.mine(item))\n    ys.append('b')\n    return self.mine(item)\n"
        "def mine(self, item: Item) -> list[str]:\n    item.put(1)\n    return self.notes",
    ),
    "Alias: ys is a copy of what User holds, as an own method that asks has returned it, and one of the two "
    "changes here": (
        "def sees(self, item: Item):\n    ys = self.mine(item)\n    self.add()  # here\n    return ys\n"
        "def add(self):\n    self.notes.append('b')\n"
        "def mine(self, item: Item) -> list[str]:\n    item.put(1)\n    return self.notes",
        "def sees(self, item: Item):\n    self.add()\n    ys = self.mine(item)\n    n = len(ys)\n    self.add()\n"
        "    return n\n"
        "def add(self):\n    self.notes.append('b')\n"
        "def mine(self, item: Item) -> list[str]:\n    item.put(1)\n    return self.notes",
    ),
    "Alias: User.sees puts a list or dict of self into self a second time; copy it, as in list(self.x)": (
        "def sees(self, item: Item):\n    self.copies = self.mine(item)  # here\n"
        "def mine(self, item: Item) -> list[str]:\n    item.put(1)\n    return self.notes",
        "def sees(self, item: Item):\n    self.copies = self.mine(item)\n"
        "def mine(self, item: Item) -> list[str]:\n    item.put(1)\n    return list(self.notes)",
    ),
    "Alias: User.sees puts a list or dict of self into self a second time": (
        "def sees(self):\n    self.copies = self.notes  # here",
        "def sees(self):\n    self.copies = list(self.notes)",
    ),
    "Alias: self.notes can be replaced while this statement asks; ask in a line before it": (
        "def sees(self, item: Item):\n    self.notes.append(str(item.price))  # here\n"
        "def clears(self):\n    self.notes = []",
        "def sees(self, item: Item):\n    p = item.price\n    self.notes.append(str(p))\n"
        "def clears(self):\n    self.notes = []",
    ),
    "Alias: self.notes can be replaced while this statement asks": (
        "def sees(self, item: Item):\n    self.notes += [str(item.price)]  # here\n"
        "def clears(self):\n    self.notes = []",
        "def sees(self, item: Item):\n    self.notes += [str(item.price)]\ndef clears(self):\n    self.notes.clear()",
    ),
    "Alias: self.rows[0] can be a list or dict; declare it, or ask in a line before it": (
        "def sees(self, item: Item):\n    self.rows[0] += [item.price]  # here",
        "def sees(self, item: Item):\n    p = item.price\n    self.rows[0] += [p]",
    ),
    "Alias: this changes self.cart in a loop over it, which goes over a copy as it asks; write list(self.cart)": (
        "def sees(self):\n    for item in self.cart:\n        item.put(1)\n        self.cart.append(item)  # here",
        "def sees(self):\n    for item in list(self.cart):\n        item.put(1)\n        self.cart.append(item)",
    ),
}
"""Rule and part of its message: methods of User that break it in the line with ``# here``, and ones that do not."""


def declared(methods: str, strict: bool = True) -> Program:
    """A program of Item and User with these methods."""
    scope = cell(HEAD + textwrap.indent(methods, "    ") + "\n")
    return Program(scope["User"], scope["Item"], strict=strict)


def marked(error: EntityError) -> bool:
    """Whether the error's line is the one with the mark."""
    return linecache.getline(error.file, error.line).rstrip().endswith("# here")


@pytest.mark.parametrize("message", CASES, ids=[f"{each.partition(':')[0]}-{i}" for i, each in enumerate(CASES)])
def test_a_rule(message: str) -> None:
    """The class that breaks the rule is refused with rule, line and what to write; the other one is a program."""
    (rule, _, says), (wrong, right) = message.partition(": "), CASES[message]
    with pytest.raises(EntityError) as found:
        declared(wrong)
    error = found.value
    assert (error.rule, says in str(error)) == (rule, True), str(error)
    assert marked(error) or "# here" not in wrong, str(error)
    assert str(error).startswith(f"{error.file}:{error.line}: {error.rule}: ")
    declared(right)


CART = "@entity\nclass Cart:\n    def __init__(self): ...\n    def __key__(self): return 'x'\n"
SEED = """
def buy_item(self, amount: int, item: Item) -> bool:
    if self.total < amount:
        return False
    self.total -= amount  # here
"""


def test_no_return() -> None:
    """The seed's method can end without an answer: a warning at its last line, refused if strict."""
    with pytest.warns(EntityWarning, match="NoReturn: User.buy_item is declared -> bool, and can end here without"):
        declared(SEED, strict=False)
    with pytest.raises(EntityError, match="its answer is then None; add a return") as found:
        declared(SEED)
    assert found.value.rule == "NoReturn" and marked(found.value)
    for right in (SEED + "    return True\n", SEED.replace("bool", "bool | None"), SEED.replace("-> bool", "-> None")):
        declared(right)
    with pytest.raises(EntityError) as found:
        declared(SEED.replace("return False", "return  # here") + "    return True\n")
    assert found.value.rule == "NoReturn"


SHAPES = [
    ("NoKey", "class Item:  # here\n    def put(self): ...", "Item has no __key__; write 'def __key__(self): return"),
    ("NoKey", "class Item:\n    def __key__(self, n): ...  # here", "Item.__key__ takes only self"),
    ("NoKey", "class Item:  # here\n    def __key__(self): return 'x'", "Item has no __init__; it sets what __key__"),
    ("Form", "class Item(dict):  # here\n    def __key__(self): ...", "Item inherits; an entity has no base class"),
    ("Form", "class Item:\n    def __key__(self): ...\n    def __eq__(self, o): ...  # here", "no special methods but"),
    (
        "Form",
        "class Item:\n    def __key__(self): ...\n    @property\n    def x(self): ...  # here",
        "not a plain method",
    ),
    (
        "Form",
        "class Item:\n    def __key__(self): ...\n    class Part: ...  # here",
        "ClassDef in the body of an entity",
    ),
    ("Form", "class Item:\n    def __key__(self): ...\n    x = []  # here", "Assign in the body of an entity"),
    ("Form", "class Item:\n    def __key__(self): ...\n    async def x(self): ...  # here", "AsyncFunctionDef in the"),
    ("Form", "class Item:\n    def __key__(self): ...\n    def x(me): ...  # here", "name the first parameter self"),
    ("Form", "class Item:\n    def __key__(self): ...\n    def x(self, n=[]): ...  # here", "a default is a constant"),
    (
        "Star",
        "class Item:\n    def __key__(self): ...\n    def x(self, *n): ...  # here",
        "has *, ** or / in its param",
    ),
]


@pytest.mark.parametrize(("rule", "source", "says"), SHAPES, ids=[f"{c[0]}-{i}" for i, c in enumerate(SHAPES)])
def test_a_rule_of_the_class_alone(rule: str, source: str, says: str) -> None:
    """What the class alone shows is refused by @entity, with rule and line."""
    with pytest.raises(EntityError) as found:
        cell("@entity\n" + source)
    assert (found.value.rule, says in str(found.value)) == (rule, True), str(found.value)
    assert marked(found.value)


def test_a_right_class() -> None:
    """A class with a key, annotations, constants, a docstring and defaults is an entity."""
    source = 'class Item:\n    """Doc."""\n    MOST = 3\n    size: int\n    def __init__(self): ...\n'
    source += '    def __key__(self): return "x"\n'
    scope = cell("@entity\n" + source + "    def x(self, n: int = 1, m: str = None): return n + self.MOST\n")
    assert Program(scope["Item"], strict=True).machine("x", "Item").defaults == (1, None)


def test_no_source() -> None:
    """A class of exec has no source; one of a notebook's cell has."""
    source = CART.replace("Cart", "Item")
    with pytest.raises(EntityError, match="NoSource: the source of Item is not known; write it in a file or in a note"):
        exec(source, {"entity": entity, "__name__": "x"})
    cell(source)


def test_a_program() -> None:
    """A program consists of entities with different names, and knows every class that its methods name."""
    scope: dict[str, Any] = cell(HEAD)
    with pytest.raises(EntityError, match="Form: Late is no entity; put @entity above it"):
        Program(scope["Late"])
    with pytest.raises(EntityError, match="Form: two classes have the name Item; rename one"):
        Program(scope["Item"], scope["Item"])
    other = cell(CART + "    def f(self, i: Item): ...\n", **scope)
    with pytest.raises(EntityError, match=r"Untyped: Cart.f declares Item, which is not in the program; add it to"):
        Program(other["Cart"])
    other = cell(CART + "    def f(self): return Item['x']\n", **scope)
    with pytest.raises(EntityError, match=r"Draws: Cart.f uses Item, which is not in the program; add it to Program"):
        Program(other["Cart"])


def test_creation_asks_no_entity() -> None:
    """``__init__`` runs before the entity exists, so it asks no other, and does not loop with while."""
    for line in ("self.n = Item['x'].price", "while True: pass"):
        source = CART.replace("...", f" # here\n        {line}")
        scope = cell(HEAD)
        scope |= cell(source, **scope)
        with pytest.raises(
            EntityError, match="Form: Cart.__init__ asks an entity or loops with while; do it in"
        ) as found:
            Program(scope["Cart"], scope["Item"])
        assert marked(found.value)


def test_the_first_class_of_two_in_a_cell() -> None:
    """Each class is read where it stands, even if its name stands twice in a cell."""
    source = CART.replace("Cart", "Item") + "    def f(self): return {}\nfirst = Item\n"
    scope = cell(source.format(1) + source.format(2).replace("first", "second"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, number in (("first", "1"), ("second", "2")):
            block = Program(scope[name]).machine("f", "Item").blocks[0]
            assert block.lines[0][1].strip() == f"def f(self): return {number}"
