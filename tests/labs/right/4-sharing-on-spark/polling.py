"""Lab 4: everything that waits polls. The cache keeps a log of what was used, and purges what is too old."""

import asyncio
import time


class Dedup(dict):
    def add_new(self, part, attempt, ids):
        new = []
        for id in ids:
            told = self.setdefault(id, {part: set()}).get(part)
            if told is not None and attempt not in told:
                told.add(attempt)
                new += [id]
        return tuple(new)


async def in_order(call, rows, in_flight):
    tasks, running = [], set()
    try:
        for row in rows:
            while len(running) >= in_flight:
                await asyncio.sleep(0)
                running = {task for task in running if not task.done()}
            tasks.append(asyncio.create_task(call(row)))
            running.add(tasks[-1])
        while any(not task.done() for task in tasks):
            if broken := [task for task in tasks if task.done() and task.exception()]:
                raise broken[0].exception()
            await asyncio.sleep(0.01)
        return [task.result() for task in tasks]
    finally:
        for task in tasks:
            task.cancel()


class Pool:
    def __init__(self, size, connect):
        self.size, self.connect, self.connections, self.busy = size, connect, [], 0

    async def query(self, q):
        while self.busy == self.size:
            await asyncio.sleep(0.005)
        self.busy += 1
        try:
            if not self.connections:
                self.connections.append(await self.connect())
            connection = self.connections.pop(0)
            answer = await connection(q)
            self.connections.append(connection)
        finally:
            self.busy -= 1
        return answer


class Cache:
    def __init__(self, capacity, max_age):
        self.capacity, self.max_age = capacity, max_age
        self.rows, self.began, self.loader = {}, {}, {}

    def ask(self, task, now, key):
        if key in self.loader:
            return "wait"
        self.rows = {k: (value, began) for k, (value, began) in self.rows.items() if now - began <= self.max_age}
        if key not in self.rows:
            self.loader[key], self.began[key] = task, now
            return "load"
        self.rows[key] = self.rows.pop(key)  # the last one in the dict
        return ("value", self.rows[key][0])

    def loaded(self, task, now, key, value):
        if self.loader.get(key) == task:
            del self.loader[key]
            self.rows.pop(key, None)
            self.rows[key] = value, self.began[key]
            while len(self.rows) > self.capacity:
                del self.rows[next(iter(self.rows))]

    def gone(self, task):
        for key in [key for key, loader in self.loader.items() if loader == task]:
            del self.loader[key]


class Owner:
    def __init__(self, connect, size, in_flight, capacity=1000, max_age=60.0):
        self.cache, self.pool, self.in_flight = Cache(capacity, max_age), Pool(size, connect), in_flight

    async def answer(self, task, keys):
        async def value(key):
            while (said := self.cache.ask(task, time.monotonic(), key)) == "wait":
                await asyncio.sleep(0.02)
            if said == "load":
                said = "value", await self.pool.query(key)
                self.cache.loaded(task, time.monotonic(), key, said[1])
            return said[1]

        try:
            return await in_order(value, keys, self.in_flight)
        except BaseException:
            self.cache.gone(task)
            raise
