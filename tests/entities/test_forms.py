"""Every form of Python that is accepted around a question: all carriers do what the undecorated classes do."""

from __future__ import annotations

import re
import textwrap
from functools import cache

import pytest
from carriers import Bins, Plain, Split, cell
from generated import HEAD, TAIL, World
from test_generated import ANN, same

from sharedstate_lite.entities import Program, Reference

TEXT = r"""
while_question:
    while x.put(-1) > e:
        self.n += 1
    return self.n
while_true:
    n = 0
    while True:
        n += x.put(1)
        if n > 9:
            break
        if n % 2:
            continue
        n += 1
    return n
while_and:
    n = 0
    while n < 3 and x.put(1) < 5 + e:
        n += 1
    return n
nested_loops:
    n = 0
    for i in items:
        for j in items:
            if i == j:
                continue
            n += i.put(1)
            if n > 7:
                break
        else_ = n
    return n
ranges:
    n = 0
    for i in range(e):
        n += x.put(i)
    for i, item in enumerate(items):
        n += item.put(i)
    return n
zips:
    n = 0
    for item, k in zip(items, self.xs):
        n += item.put(k)
    for y in reversed(items):
        y.put(1)
    return n
dicts:
    d = {'a': e, 'b': 2}
    n = 0
    for k, v in d.items():
        n += x.put(v)
    for k in d:
        n += x.put(len(k))
    for v in sorted(d.values()):
        n += x.put(v)
    return n
dict_display:
    return {f'k{x.put(1)}': x.put(1), f'k{x.put(1)}': x.put(1)}
star_data:
    return max(*[x.put(1), x.put(2)], x.n)
keywords_data:
    return sorted([x.put(1), x.put(-3), e], reverse=bool(x.put(e)), key=lambda q: -q)
slices:
    return [1, 2, 3, 4][x.put(0) % 2 : x.put(1) : 1]
format_spec:
    return f'{x.put(1):>{x.put(2)}} {e!r:>4} {x.n}'
chain_of_references:
    return self.peer.back(self, x.back(self, x.put(self.peer.n)))
target_order:
    self.xs[x.put(1) % 2] = x.put(e)
    self.tags['k'] = self.n = x.put(1)
    return self.xs
aug_order:
    self.n += x.back(self, e)
    self.tags['k'] += x.back(self, 1)
    self.xs[x.put(0) % 2] -= x.back(self, 2)
    self.xs += [x.back(self, 3)]
    return self.n
left_to_right:
    return [self.n, x.back(self, 1), self.n, len(self.xs), x.back(self, 2), len(self.xs)]
compare:
    return self.n < x.back(self, 1), x.put(1) == self.n, e in [x.put(1), x.put(e)], not x.put(0)
unpack:
    (a, b), c = (x.put(1), e), x.put(2)
    *d, f = [a, b, c, x.put(3)]
    return [a, b, c, d, f]
several_targets:
    a = b = x.put(1)
    return a + b
try_reraise:
    try:
        x.take(99)
    except Refused as w:
        self.n += len(str(w))
        x.put(7)
        raise
try_raise_other:
    try:
        x.take(99)
    except Refused as w:
        x.put(7)
        raise ValueError(str(w)) from w
try_nested:
    n = 0
    try:
        try:
            x.take(99)
        except ValueError:
            n = 1
        n += 2
    except (Refused, KeyError) as w:
        n += 4 + len(w.args[0]) + x.put(1)
    return n
try_in_loop:
    n = 0
    for item in items:
        try:
            item.take(e)
        except Refused:
            n += 1
            continue
        n += 10
    return n
loop_in_except:
    taken = []
    try:
        for item in [x, *items]:
            item.take(e)
            taken.append(item)
        x.take(99)
    except Refused:
        for item in taken:
            item.put(e)
        return len(taken)
    return -1
try_sees_what_was_set:
    n = 1
    try:
        n = 2
        n = n + 1 // (e - e)
        x.put(1)
    except ZeroDivisionError:
        return n + x.put(1)
    return 0
try_sees_what_was_asked:
    n = 1
    try:
        n = x.put(1)
        x.take(99)
    except Refused:
        return n + x.n
    return 0
try_break:
    n = 0
    while True:
        try:
            n += x.put(1)
            if n > 5:
                break
        except Refused:
            return -1
    return n
whole_try:
    try:
        n = self.xs[e + 5]
    except IndexError:
        n = -1
    else:
        n = 7
    finally:
        self.n += 1
    return n + x.put(1)
whole_match:
    match e:
        case 1:
            n = 'one'
        case [a, *b]:
            n = 'list'
        case _:
            n = 'else'
    return f'{n}{x.put(1)}'
whole_match_guard:
    match [e, self.n]:
        case [p, q] if p > q:
            n = p
        case [p, q] if (r := p + q) > 3:
            n = r
        case _:
            n = 0
    match (k := n + 1):
        case m:
            n += k
    for i in (ks := [k, m]):
        n += i
    return n + m + k + sum(ks) + x.put(1)
raise_text:
    raise Refused(f'{x.put(1)} and {x.put(2)}')
assert_question:
    assert x.put(e) > 99, 'small'
    return 1
and_or:
    return x.put(0) and x.put(1) or (self.n and x.put(2)), (e or x.put(3)) and x.put(4)
conditional:
    return (x.put(1) if e else x.put(2)) if x.put(3) % 2 else (x.put(4) if self.n else x.put(5))
none_reference:
    y = None
    if e:
        y = x
    if y is not None:
        return y.put(1)
    return 0
none_is_asked:
    y = x
    if e:
        y = None
    try:
        return y.put(1)
    except AttributeError:
        return x.put(2)
references_in_data:
    d = {'a': x, 'b': self.peer}
    self.seen = [(d['a'], e)]
    for item, n in self.seen:
        item.put(n)
    return d['b'].put(1), d['a'].key, sorted({y.key for y in items})
created:
    Item('y', e + 1).put(2)
    y = Item('z', Item['y'].n)
    return y.put(Item('w', y.n).n)
created_refused:
    try:
        Item('v', -e)
    except Refused as w:
        return str(w)
    return Item['v'].n
comprehension_shadows:
    n = [q for q in self.xs]
    q = x.put(1)
    return sum(q for q in n) + q + sum(n[0] for n in [[q]])
lambda_and_function:
    k = x.put(1)
    def f(a, b=2):
        return a * k + b
    return sum(map(lambda a: f(a) + k, self.xs)) + f(e)
walrus:
    if (k := self.n + e) > 1 and (m := k + 1):
        return k + m + x.put(k)
    return k
deletes:
    del self.xs[0]
    self.xs.insert(0, x.put(e))
    return self.xs.pop() + x.put(1)
recursion:
    return self.down(e + 3) + self.own(x, e)
ends_without_a_value:
    x.put(1)
bare_return:
    if x.put(e) > 2:
        return
    self.n = 9
copies:
    ys = x.many(2)
    ys.append(e)
    k = x.total(ys)
    return ys, k
lists_of_own_methods:
    out = [e]
    n = self.length(out, x) + self.length(self.xs, x)
    out = self.filled(out, x)
    self.filled(list(self.mine_too(x)), x)
    for y in self.mine_too(x):
        n += y
    self.xs.append(n)
    n += self.length(self.mine_too(x), x)
    return n, out, self.mine_too(x)
constant:
    return LIMIT + len(NAMES) + x.put(LIMIT)
own_class_is_created:
    other = Account('bob', e, x)
    self.n -= 1
    return other.bump(2) + Account('cat', 1, x).n + self.n
own_class_is_indexed:
    Account('bob', e, x)
    return Account['bob'].bump(1) + Account['ann'].bump(2) + self.n
own_class_exists:
    try:
        Account(self.name, 0, x)
    except Refused as w:
        return str(w)
own_class_in_data:
    found = [Account['ann'], Account('bob', e, x)]
    self.seen = [(found[1], e)]
    return found[0] == Account[self.name], found[1].key
own_class_in_whole_statements:
    made = [Account[name] for name in ('ann', 'bob')]
    return len(made), made[0].key, self.mine('bob') == made[1]
own_class_through_another:
    return x.back(Account('bob', e, x), 2) + Account['bob'].n
mangled:
    self.__hidden = e
    x.put(1)
    return self.__hidden + x.put(self.__hidden)
"""
"""Bodies of methods with an item x, items, and a number e."""
FORMS: dict[str, str] = dict(re.findall(r"^(\w+):\n((?:    .*\n)+)", TEXT, re.MULTILINE))


def written(name: str, parameters: str, body: str) -> str:
    """A method of Account."""
    return textwrap.indent(f"def {name}(self, {parameters}):\n{body}", "    ")


SOURCE = HEAD + written("own", "x: Item, e: int", "    return x.put(e) + 1\n")
SOURCE += written("length", "xs: list[int], x: Item", "    return len(xs) + x.n\n")
SOURCE += written("filled", "xs: list[int], x: Item", "    xs.append(x.put(1))\n    return xs\n")
SOURCE += written("mine_too", "x: Item", "    x.put(1)\n    return self.xs\n")
SOURCE += written("mine", "name: str", "    return Account[name]\n")
SOURCE += "".join(written(name, "x: Item, items: list[Item], e: int", body) for name, body in FORMS.items()) + TAIL
CONSTANTS = {"LIMIT": 3, "NAMES": ("a", "b")}


@cache
def program() -> Program:
    """All forms in one class."""
    scope = cell(SOURCE, **CONSTANTS)
    return Program(scope["Account"], scope["Item"])


@pytest.mark.parametrize("form", FORMS)
def test_a_form(form: str) -> None:
    """Answers and states are equal: as plain Python, on the plain carrier, in blocks, and over eight bins."""
    for e in (0, 1, 2):
        world = World(SOURCE, CONSTANTS)
        carriers = {kind.__name__: kind(program()) for kind in (Plain, Split, Bins)}
        for cls, args in (("Item", ("i0", 3)), ("Item", ("i1", 2)), ("Account", ("ann", 1, Reference("Item", "i1")))):
            for carrier in (world, *carriers.values()):
                carrier.request(Reference(cls, args[0]), "__init__", *args)
        given = Reference("Item", "i0"), [Reference("Item", "i1"), Reference("Item", "i0")], e
        expected = world.request(ANN, form, *given)
        for name, carrier in carriers.items():
            answer = carrier.request(ANN, form, *given)
            assert same(answer, expected), (name, e, answer, expected)
            assert carrier.state == world.state, (name, e)
