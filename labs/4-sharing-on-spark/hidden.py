"""The hidden checks of lab 4. Students do not get this file."""

import itertools

from checks import adds, arrivals, ask, cached, in_order, loaded, queries, requests

from grader.lab import check, drawn

SECRET = "public"
DRAWN = drawn(f"{SECRET} ids", 4, 10, 99)


@check("dedup.long", task=1)
def dedup_long(student):
    """In longer runs, too, each attempt receives its ids once."""
    one, two, three, four = DRAWN
    for calls in itertools.permutations([(0, 5, [one, two]), (1, 6, [two, one, three]), (0, 7, [three, two])]):
        yield from adds(student, [(*calls, (2, 8, [four, one]), (0, 9, [two, one]), *calls, (2, 10, [one, four]))])


@check("order.equal", task=2)
def equal(student):
    """Each row is called, also if another one is equal."""
    one, two, *_ = map(str, DRAWN)
    for in_flight, order in itertools.product((2, 3), ([one, two, one], [two, one, one], [one, one, two])):
        yield in_order(student, [one, two, one], in_flight, order)


@check("pool.two", task=3)
def two(student):
    """If one of two connections is lost or refused, size queries run at the same time again, over both places."""
    for groups, number in itertools.product((["ab", "c", "de"], ["abc", "de"]), (0, 1, 2)):
        yield queries(student, 2, groups, busy=True, cancel=[number])
    for more in ({"refused": 1}, {"connecting": [0]}, {"connecting": [1]}):
        yield queries(student, 2, ["ab", "cd"], busy=True, **more)


@check("cache.keys", task=4)
def keys(student):
    """A late value is ignored, also if its task loads other keys."""
    x, y, z, _ = DRAWN
    calls = [ask("A", x), ask("B", y), ("gone", "A"), ask("A", z), loaded("A", x, 1), ask("B", x), loaded("A", x, 1)]
    calls += [ask("A", x), loaded("B", x, 2), ask("A", x), ask("A", y), loaded("A", y, 3), ask("A", y)]
    calls += [loaded("B", y, 4), ask("A", y), loaded("A", z, 5), ask("B", z)]
    for length in range(6, 18):
        if calls[length - 1][0] == "ask":
            yield cached(student, calls[:length])


@check("owner.waits", task=5)
def waits(student):
    """If a request is cancelled while it waits for the load of another, the load goes on."""
    x, y, *_ = map(str, DRAWN)
    for groups in arrivals([("A", [x]), ("B", [x]), ("C", [x, y])]):
        for cancel in ([1], [0, 1]):
            if len(groups[0]) > 1:
                yield requests(student, 1, 2, groups, cancel=cancel)
