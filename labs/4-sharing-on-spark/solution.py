"""Lab 4: what the tasks of a Spark job share.

Each object here has one owner, the driver, which all tasks send their requests to. A task can fail at any time, and
Spark then runs its partition again, as another attempt. Two attempts never have the same number.
"""

import asyncio
import time
from collections import OrderedDict, defaultdict


class Dedup:
    """The ids that the partitions of a job have seen. An id belongs to the partition that added it first."""

    def __init__(self):
        self.owner = {}  # id -> the partition that added it first
        self.returned = defaultdict(set)  # attempt -> the ids that it has received as new

    def add_new(self, part, attempt, ids):
        """An attempt of a partition adds ids. Return the list of those that are new to it, in their order.

        An id is new if no other partition owns it, and if this attempt has not received it as new before.
        """
        ### BEGIN SOLUTION task 1: who owns an id, and who has received it?
        new = []
        for id in ids:
            if self.owner.setdefault(id, part) == part and id not in self.returned[attempt]:
                self.returned[attempt].add(id)
                new.append(id)
        return new
        ### END SOLUTION


async def in_order(call, rows, in_flight):
    """Return the list of ``await call(row)`` for each row, in the order of the rows. Rows can be equal.

    The calls begin in the order of the rows. As long as there are rows left, exactly ``in_flight`` calls run at the
    same time. If ``in_order`` itself is cancelled, cancel its calls.

    If a call raises, raise its exception; if several do, that of the call that raised first. ``in_order`` need not wait
    for the other calls then. They may go on or be cancelled, and the calls of further rows may begin.
    """
    ### BEGIN SOLUTION task 2: bounded, and in order
    gate = asyncio.Semaphore(in_flight)

    async def one(row):
        async with gate:
            return await call(row)

    return await asyncio.gather(*map(one, rows))
    ### END SOLUTION


class Pool:
    """At most ``size`` connections to a database.

    ``await connect()`` opens a connection, which is an async function: ``await connection(q)`` returns the answer to
    the query q. A connection can answer one query at a time.
    """

    def __init__(self, size, connect):
        self.connect = connect
        self.free = []  # open connections that no query uses
        self.places = asyncio.Semaphore(size)

    async def query(self, q):
        """Return the answer to a query. Up to ``size`` queries run at the same time, and the others wait.

        Connections are opened when they are needed, and kept for later queries. If a query raises, or is cancelled, its
        connection is broken: forget it. The exception is the caller's; the query is not sent again. A query that still
        waits for a place has nothing to give back.
        """
        ### BEGIN SOLUTION task 3: a connection, or the place of one
        async with self.places:
            connection = self.free.pop() if self.free else await self.connect()
            answer = await connection(q)
            self.free.append(connection)
            return answer
        ### END SOLUTION


class Cache:
    """Values by key, for many tasks. It loads nothing itself: it tells a task to load.

    ``now`` is the time of a call, in seconds. It never decreases.
    """

    def __init__(self, capacity, max_age):
        self.capacity, self.max_age = capacity, max_age
        self.rows = OrderedDict()  # key -> (value, when its load began), the least recently used first
        self.loading = {}  # key -> (the task that loads it, when it began)

    def ask(self, task, now, key):
        """A task needs the value of a key. Return ("value", v), or "load" or "wait" if the cache has none to give.

        "load": this task must load the value. "wait": this task or another one is loading it; ask again later. A value
        whose load began more than ``max_age`` seconds ago is too old to give. (If a load takes longer than this, only
        the task that has loaded the value can use it.)
        """
        ### BEGIN SOLUTION task 4: a value, a load, or a wait
        if key in self.loading:
            return "wait"
        if key in self.rows and now - self.rows[key][1] <= self.max_age:
            self.rows.move_to_end(key)
            return ("value", self.rows[key][0])
        self.loading[key] = (task, now)
        return "load"
        ### END SOLUTION

    def loaded(self, task, now, key, value):
        """A task has loaded a value: store it. If the load is not this task's any more, ignore it.

        If there are more than ``capacity`` values now, forget the one that was least recently stored or given. You
        decide whether values that are too old count.
        """
        ### BEGIN SOLUTION task 4: store the value
        loader, began = self.loading.get(key, (None, None))
        if loader != task:
            return
        del self.loading[key]
        self.rows[key] = (value, began)
        self.rows.move_to_end(key)
        if len(self.rows) > self.capacity:
            self.rows.popitem(last=False)
        ### END SOLUTION

    def gone(self, task):
        """A task has failed. It will not finish its loads, so the next task that asks must load.

        This can be the same task. Then the next value for which it calls `loaded` is stored, even if it comes from the
        load that was given up.
        """
        ### BEGIN SOLUTION task 4: give up its loads
        self.loading = {key: load for key, load in self.loading.items() if load[0] != task}
        ### END SOLUTION


class Owner:
    """A cache and a pool for all tasks of a job. It lives in the driver, on one event loop."""

    def __init__(self, connect, size, in_flight, capacity=1000, max_age=60.0):
        self.cache, self.pool, self.in_flight = Cache(capacity, max_age), Pool(size, connect), in_flight
        self.changed = asyncio.Event()  # is set and replaced when a load has ended

    async def answer(self, task, keys):
        """A task asks for keys. Return the list of their values, in the order of the keys.

        A task has one request at a time. The value of a key is the answer to the query ``key``. Unless a load fails, no
        key is loaded by two tasks at the same time. At most ``in_flight`` keys of the task are looked up at the same
        time. If a load fails, or if the request is cancelled, the exception is this task's alone: tasks that wait for
        the same key get it loaded.
        """

        ### BEGIN SOLUTION task 5: ask the cache, load or wait, and give up what has failed
        async def look_up(key):
            while True:
                changed, said = self.changed, self.cache.ask(task, time.monotonic(), key)
                if said == "wait":
                    await changed.wait()
                elif said == "load":
                    return await load(key)
                else:
                    return said[1]

        async def load(key):
            try:
                value = await self.pool.query(key)
                self.cache.loaded(task, time.monotonic(), key, value)
                return value
            except BaseException:  # asyncio.CancelledError is no Exception
                self.cache.gone(task)
                raise
            finally:
                self.wake()

        return await in_order(look_up, keys, self.in_flight)
        ### END SOLUTION

    def wake(self):
        """Wake all requests that wait for a load. They ask the cache again."""
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()
