"""The program in the sandbox. It is never imported; its text is run as `python3 ... -c TEXT FOLDER MODULE MOST`.

Descriptor 0 is a socket. With a fourth argument it is the reading end of a pipe, and answers go to descriptor 1. A
message consists of its length in four bytes, followed by JSON. Before the student's code runs, the program sends one
byte to show that the process has started. The program does not protect anything: whatever the student's code does to
it, the process can only send answers or stay silent.

A question is {number, steps}. A step is one of these lists:

    ["import"]                        imports the student's module, if it is not imported yet
    ["forget"]                        drops all objects
    ["new", HANDLE, CLASS, ARGS]      makes an object
    ["call", HANDLE, NAME, ARGS]      calls a method; if HANDLE is "", a function of the module
    ["get", HANDLE, NAME]             reads an attribute

The answer is {number, value}, where ``value`` lists the results of "call" and "get", or {number, error}. In ARGS,
{"(": [...]} is a tuple, and {"?": NAME} is a function of the grader. To call it, the program sends {number, ask, args},
and reads {told} or {refused}.
"""

import importlib
import json
import os
import struct
import sys
from collections.abc import Callable
from typing import Any

FOLDER, MODULE, MOST = sys.argv[1], sys.argv[2], int(sys.argv[3])
LINE_IN = os.dup(0)
LINE_OUT = os.dup(0 if len(sys.argv) < 5 else 1)
OBJECTS: dict[str, Any] = {}


def take(size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = os.read(LINE_IN, size - len(data))
        if not piece:
            os._exit(0)
        data += piece
    return data


def read() -> Any:
    return json.loads(take(struct.unpack("!I", take(4))[0]))


def send(raw: bytes) -> None:
    data = memoryview(struct.pack("!I", len(raw)) + raw)
    while data:
        data = data[os.write(LINE_OUT, data) :]


def plain(value: Any) -> Any:
    """Return the value of an argument."""
    if type(value) is list:
        return [plain(item) for item in value]
    if type(value) is dict:
        if set(value) == {"("}:
            return tuple(plain(item) for item in value["("])
        if set(value) == {"?"}:
            return asker(value["?"])
        return {key: plain(item) for key, item in value.items()}
    return value


def asker(name: str) -> Callable[..., Any]:
    def ask(*args: Any) -> Any:
        send(json.dumps({"number": NUMBER, "ask": name, "args": args}, allow_nan=False).encode())
        told = read()
        if "refused" in told:
            raise ValueError(told["refused"])
        return plain(told["told"])

    ask.__name__ = name
    return ask


def do(step: list[Any], results: list[Any]) -> None:
    kind, *given = step
    if kind == "forget":
        OBJECTS.clear()
        return
    module = importlib.import_module(MODULE)
    if kind == "new":
        handle, name, args = given
        OBJECTS[handle] = getattr(module, name)(*plain(args))
    elif kind == "call":
        handle, name, args = given
        owner = OBJECTS[handle] if handle else module
        results.append(getattr(owner, name)(*plain(args)))
    elif kind == "get":
        handle, name = given
        results.append(getattr(OBJECTS[handle], name))


class Only:
    """Refuses every import but those of the standard library and of the student's module."""

    @staticmethod
    def find_spec(name: str, *where: Any) -> None:
        first = name.partition(".")[0]
        if first not in sys.stdlib_module_names and first != MODULE:
            said = f"{first!r} cannot be imported; a lab's solution can import only Python's standard library"
            raise ModuleNotFoundError(said, name=name)


def answer(asked: Any) -> bytes:
    results: list[Any] = []
    try:
        for step in asked["steps"]:
            do(step, results)
        raw = json.dumps({"number": asked["number"], "value": results}, allow_nan=False).encode()
        if len(raw) > MOST:
            raise ValueError(f"the answer has {len(raw):,} bytes; the limit is {MOST:,}")
        return raw
    except Exception as error:  # an exception is also an answer
        said = f"{type(error).__name__}: {error}{where(error)}"
        return json.dumps({"number": asked["number"], "error": said[:1000]}).encode()


def where(error: BaseException) -> str:
    """Return the last line of the student's module in the traceback, such as " (line 12)"."""
    line, trace = None, error.__traceback__
    while trace is not None:
        if os.path.dirname(trace.tb_frame.f_code.co_filename) == FOLDER:
            line = trace.tb_lineno
        trace = trace.tb_next
    if line is None and isinstance(error, SyntaxError):
        line = error.lineno
    return "" if line is None else f" (line {line})"


os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
if LINE_OUT and len(sys.argv) == 5:
    os.dup2(2, 1)  # what the student's code prints must not reach the line
os.write(LINE_OUT, b".")
sys.path.append(FOLDER)  # last, so that a json.py in it is not imported
sys.meta_path.insert(0, Only)
while True:
    QUESTION = read()
    NUMBER = QUESTION["number"]
    send(answer(QUESTION))
