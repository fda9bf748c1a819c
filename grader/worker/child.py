"""The program in the sandbox. It is never imported; its text is run as `python3 -I -c TEXT FOLDER MODULE MOST`.

Descriptor 0 is a socket. A message consists of its length in four bytes, followed by JSON. A question is {number,
function, args}, and an answer is {number, value} or {number, error}. Before the student's code runs, the program sends
one byte to show that the process has started. The program does not protect anything: whatever the student's code does
to it, the process can only send answers or stay silent.
"""

import importlib
import json
import os
import socket
import struct
import sys

LINE = socket.socket(fileno=os.dup(0))


def take(size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = LINE.recv(size - len(data))
        if not piece:
            os._exit(0)
        data += piece
    return data


def main() -> None:
    folder, name, most = sys.argv[1], sys.argv[2], int(sys.argv[3])
    LINE.sendall(b".")
    sys.path.insert(0, folder)
    module = None
    while True:
        asked = json.loads(take(struct.unpack("!I", take(4))[0]))
        try:
            if module is None:
                module = importlib.import_module(name)
            said = {"number": asked["number"], "value": getattr(module, asked["function"])(*asked["args"])}
            raw = json.dumps(said, allow_nan=False).encode()
            if len(raw) > most:
                raise ValueError(f"the answer has {len(raw):,} bytes; the limit is {most:,}")
        except Exception as error:  # an exception is also an answer
            said = {"number": asked["number"], "error": f"{type(error).__name__}: {error}"[:1000]}
            raw = json.dumps(said).encode()
        LINE.sendall(struct.pack("!I", len(raw)) + raw)


main()
