"""A log of batches: what is written during one turn of the event loop becomes one line, one write, one fdatasync.

Who waits for a record is called once it is on the disk (group commit; Gray and Reuter, "Transaction Processing").
"""

import asyncio
import json
import os
from pathlib import Path


class Journal:
    def __init__(self, folder, replay):
        """``replay(record)`` for each record that is there; a last line that was cut off was never acknowledged."""
        path = Path(folder) / "log"
        if path.exists():
            whole, end, torn = path.read_bytes().rpartition(b"\n")
            for line in whole.splitlines():
                for record in json.loads(line):
                    replay(record)
            if torn:
                os.truncate(path, len(whole) + len(end))
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.batch, self.waiting = [], []

    def write(self, record, then):
        if not self.batch:
            asyncio.get_running_loop().call_soon(self.flush)
        self.batch.append(record)
        self.waiting.append(then)

    def flush(self):
        if not self.batch:
            return
        data = memoryview(json.dumps(self.batch, separators=(",", ":")).encode() + b"\n")
        while data:
            data = data[os.write(self.file, data) :]
        os.fdatasync(self.file)
        waiting, self.batch, self.waiting = self.waiting, [], []
        for then in waiting:
            then()
