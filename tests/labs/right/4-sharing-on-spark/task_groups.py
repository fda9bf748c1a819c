"""Lab 4: task groups, a condition, and loads that go on when their request is cancelled."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import time


class Dedup:
    def __init__(self):
        self.parts, self.new = {}, collections.defaultdict(dict)

    def add_new(self, part, attempt, ids):
        mine = [id for id in dict.fromkeys(ids) if self.parts.setdefault(id, part) == part]
        told = self.new[part, attempt]
        answer = [id for id in mine if id not in told]
        told.update(dict.fromkeys(answer))
        return answer


async def in_order(call, rows, in_flight):
    gate, tasks = asyncio.BoundedSemaphore(in_flight), []

    async def one(row):
        try:
            return await call(row)
        finally:
            gate.release()

    try:
        async with asyncio.TaskGroup() as group:
            for row in rows:
                await gate.acquire()
                tasks.append(group.create_task(one(row)))
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
    return [task.result() for task in tasks]


class Pool:
    def __init__(self, size, connect):
        self.size, self.connect = size, connect
        self.free, self.used, self.changed = collections.deque(), 0, asyncio.Condition()

    async def query(self, q):
        async with self.connection() as connection:
            return await connection(q)

    @contextlib.asynccontextmanager
    async def connection(self):
        async with self.changed:
            await self.changed.wait_for(lambda: self.used < self.size)
            self.used += 1
        connection = None
        try:
            connection = self.free.popleft() if self.free else await self.connect()
            yield connection
            self.free.append(connection)
        finally:
            self.used -= 1
            async with self.changed:
                self.changed.notify()


class Cache:
    def __init__(self, capacity, max_age):
        self.capacity, self.max_age = capacity, max_age
        self.entries = collections.OrderedDict()

    def ask(self, task, now, key):
        entry = self.entries.get(key)
        if entry and "loader" in entry:
            return "wait"
        if entry and entry["began"] + self.max_age >= now:
            self.entries.move_to_end(key)
            return "value", entry["value"]
        self.entries[key] = {"loader": task, "began": now}
        return "load"

    def loaded(self, task, now, key, value):
        entry = self.entries.get(key, {})
        if entry.get("loader", self) != task:
            return
        self.entries[key] = {"value": value, "began": entry["began"]}
        self.entries.move_to_end(key)
        ready = [key for key, entry in self.entries.items() if "value" in entry]
        for old in ready[: -self.capacity]:
            del self.entries[old]

    def gone(self, task):
        for key, entry in list(self.entries.items()):
            if entry.get("loader", self) == task:
                del self.entries[key]


class Owner:
    def __init__(self, connect, size, in_flight, capacity=1000, max_age=60.0):
        self.cache, self.pool, self.in_flight = Cache(capacity, max_age), Pool(size, connect), in_flight
        self.loads = {}  # key -> the task of the event loop that loads it

    async def answer(self, task, keys):
        async def value(key):
            while True:
                said = self.cache.ask(task, time.monotonic(), key)
                if said == "load":
                    self.loads[key] = asyncio.create_task(self.load(task, key))
                    return await asyncio.shield(self.loads[key])
                if said != "wait":
                    return said[1]
                await asyncio.wait([self.loads[key]])

        return await in_order(value, keys, self.in_flight)

    async def load(self, task, key):
        try:
            found = await self.pool.query(key)
        except BaseException:
            self.cache.gone(task)
            raise
        self.cache.loaded(task, time.monotonic(), key, found)
        return found
