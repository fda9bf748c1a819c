"""The hidden checks of lab 3. Students do not get this file."""

import random
from functools import partial

from checks import CHAIN, COUNT, DEEP, MAX, UNION, drawn_orders, evict, possible, races, read, scripts, write

from grader.lab import check, drawn

SECRET = "public"
KEYS = [f"item {n}" for n in drawn(f"{SECRET} keys", 2, 10, 99)]
LENGTHS = drawn(f"{SECRET} lengths", 3, 10, 99)
DRAWN = partial(drawn_orders, 1)


def drawn_scripts(seed, writes, operators):
    """Drawn scripts of 3 to 8 actions. A write is (table, key, ..., diff); the operators can evict."""
    for n in range(18):
        draw = random.Random(f"{SECRET} {seed} {n}")
        key = draw.choice(KEYS)
        actions = [read(key), read(key), *((table, ("write", *row)) for table, *row in writes)]
        actions += [evict(operator, key) for operator in operators]
        script, length = [], 3 + n // 3
        while len(script) < length:
            action = draw.choice(actions)
            if possible([*script, action]):
                script.append(action)
        yield script


@check("every-order", task=3, rule=18)
def every_order(student):
    """The view is right in every order of reads, insertions, deletions and evictions."""
    yield from races(student, COUNT, scripts([read(), write(-1), evict("Count")], 3), before=[write(+1)] * 3)
    writes = [("Table", key, diff) for key in KEYS for diff in (1, 1, -1)]
    yield from races(student, COUNT, drawn_scripts("count", writes, ["Count"]), every=DRAWN)
    yield from races(student, CHAIN, drawn_scripts("chain", writes, ["Count 1", "Count 2"]), every=DRAWN)


@check("max.every-order", task=4, rule=21)
def max_every_order(student):
    """The largest value is right in every order of reads, insertions, deletions and evictions."""
    writes = [("Table", key, value, diff) for key in KEYS for value in LENGTHS for diff in (1, 1, -1, -1)]
    yield from races(student, MAX, drawn_scripts("max", writes, ["Max"]), every=DRAWN)


@check("union.every-order", task=5, rule=22)
def union_every_order(student):
    """The view over a union is right in every order."""
    writes = [(f"{side} Table", key, diff) for side in ("left", "right") for key in KEYS for diff in (1, 1, -1)]
    yield from races(student, UNION, drawn_scripts("union", writes, []), every=DRAWN)
    yield from races(student, DEEP, drawn_scripts("deep", writes, ["left Count", "right Count"]), every=DRAWN)
