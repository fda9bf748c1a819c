"""Lab 4: worker tasks and queues. Connections are numbered places, and each load has a future."""

import asyncio
import time


class Dedup:
    def __init__(self):
        self.seen = {}  # id -> (part, [attempts that were told])

    def add_new(self, part, attempt, ids):
        return [id for id in ids if self.is_new(id, part, attempt)]

    def is_new(self, id, part, attempt):
        owner, told = self.seen.setdefault(id, (part, []))
        if owner != part or attempt in told:
            return False
        told.append(attempt)
        return True


async def in_order(call, rows, in_flight):
    rows = list(rows)
    results, todo = [None] * len(rows), iter(enumerate(rows))

    async def worker():
        for number, row in todo:
            results[number] = await call(row)

    workers = [asyncio.create_task(worker()) for _ in range(in_flight)]
    try:
        await asyncio.gather(*workers)
    finally:
        for one in workers:
            one.cancel()
    return results


class Pool:
    def __init__(self, size, connect):
        self.places = asyncio.LifoQueue()
        for _ in range(size):
            self.places.put_nowait(None)  # a connection that is not open
        self.connect = connect

    async def query(self, q):
        connection = await self.places.get()
        try:
            if connection is None:
                connection = await self.connect()
            answer = await connection(q)
        except BaseException:
            connection = None
            raise
        finally:
            self.places.put_nowait(connection)
        return answer


class Row:
    def __init__(self, value, began, used):
        self.value, self.began, self.used = value, began, used


class Cache:
    def __init__(self, capacity, max_age):
        self.capacity, self.max_age = capacity, max_age
        self.rows, self.loads, self.clock = {}, set(), 0

    def tick(self):
        self.clock += 1
        return self.clock

    def ask(self, task, now, key):
        if any(loading == key for loading, _, _ in self.loads):
            return ["wait"][0]
        row = self.rows.get(key)
        if row is None or now > row.began + self.max_age:
            self.loads.add((key, task, now))
            return "load"
        row.used = self.tick()
        return ["value", row.value]

    def loaded(self, task, now, key, value):
        mine = [load for load in self.loads if load[:2] == (key, task)]
        for load in mine:
            self.loads.remove(load)
            if key not in self.rows and len(self.rows) == self.capacity:
                del self.rows[min(self.rows, key=lambda other: self.rows[other].used)]
            self.rows[key] = Row(value, load[2], self.tick())

    def gone(self, task):
        for load in list(self.loads):
            if load[1] == task:
                self.loads.remove(load)


class Owner:
    def __init__(self, connect, size, in_flight, capacity=1000, max_age=60.0):
        self.cache, self.pool, self.in_flight = Cache(capacity, max_age), Pool(size, connect), in_flight
        self.waiting = {}  # key -> the future of its load

    async def answer(self, task, keys):
        async def value(key):
            said = self.cache.ask(task, time.monotonic(), key)
            while said == "wait":
                await asyncio.wait([self.waiting[key]])
                said = self.cache.ask(task, time.monotonic(), key)
            if said != "load":
                return said[1]
            self.waiting[key] = done = asyncio.get_running_loop().create_future()
            try:
                found = await self.pool.query(key)
                self.cache.loaded(task, time.monotonic(), key, found)
            except BaseException:
                self.cache.gone(task)
                raise
            finally:
                done.set_result(None)
            return found

        return await in_order(value, keys, self.in_flight)
