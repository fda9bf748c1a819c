"""The program in the sandbox. It is never imported; its text is run as `python3 ... -c TEXT FOLDER MODULE MOST`.

Descriptor 0 is a socket. With a fourth argument it is the reading end of a pipe, and answers go to descriptor 1. A
message consists of its length in four bytes, followed by JSON. Before the student's code runs, the program sends one
byte to show that the process has started. The program does not protect anything: whatever the student's code does to
it, the process can only send answers or stay silent.

A question is {number, steps}. A step is one of these lists:

    ["cells"]                         reads the notebook that was handed in in place of the module, and runs nothing
    ["import"]                        imports the student's module, if it is not imported yet
    ["forget"]                        drops all objects
    ["new", HANDLE, CLASS, ARGS]      makes an object
    ["call", HANDLE, NAME, ARGS]      calls a method; if HANDLE is "", a function of the module
    ["get", HANDLE, NAME]             reads an attribute
    ["together", CLASS, ARGS, CALLS]  makes an object, and calls its async methods, [NAME, ARGS], at the same time;
                                      if CLASS is "", async functions of the module

The answer is {number, value}, where ``value`` lists the results of "call", "get" and "together", or {number, error,
types}, where ``types`` lists the exception's class and its bases. The result of "cells" and "import" is a list of what
was left out of a notebook; it is empty if there is a module. In ARGS,
{"(": [...]} is a tuple, and {"?": NAME} is a function of the grader. To call it, the program sends {number, ask, args},
and reads {told} or {refused}.

{"~": [NAME, ...]} is an async function of the grader, with its first arguments. It returns a number at once, and the
student's code waits. When all of the student's code waits, the program asks ``next``: ["end", N, VALUE] ends the wait
with this number, ["fail", N, TEXT] ends it with a ConnectionError, ["cancel", N] cancels call N, and None means that
nothing will end. So the grader alone decides what ends, and when. Time is simulated. If the student's code cancels a
wait, the program asks ``cancelled``, with its number.
"""

import __future__

import ast
import importlib
import io
import json
import os
import re
import struct
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

FOLDER, MODULE, MOST = sys.argv[1], sys.argv[2], int(sys.argv[3])
LINE_IN = os.dup(0)
LINE_OUT = os.dup(0 if len(sys.argv) < 5 else 1)
OBJECTS: dict[str, Any] = {}
WAITS: dict[int, Any] = {}
"""The futures that the student's code waits for, by the numbers of the grader."""
TURNS, TURN, DRY = 100, 0.001, 20
"""Between two events of the grader, code that polls can run for so many turns of the loop, and each takes so many
simulated seconds. If nothing has happened for so many times in a row, the code waits for ever."""
NOTEBOOK = os.path.join(FOLDER, f"{MODULE}.ipynb")
KEEP = (
    *(ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
    *(ast.Assign, ast.AnnAssign, ast.AugAssign),
)
"""What is kept of a notebook, of the statements at the top of a cell."""
KEPT: list[tuple[int, str, ast.stmt]] = []
"""These statements, each with the number of its cell and its first line."""
NOTES: list[tuple[int, str]] = []
"""What was left out of the notebook, and which of several definitions counts, each with the number of a cell."""


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
        if set(value) == {"~"}:
            return waiter(*plain(value["~"]))
        return {key: plain(item) for key, item in value.items()}
    return value


def asker(name: str) -> Callable[..., Any]:
    def ask(*args: Any) -> Any:
        message = {"number": NUMBER, "ask": name, "args": args}
        send(encoded(message, lambda: ((f"{name} was called with", arg) for arg in args)))
        told = read()
        if "refused" in told:
            raise ValueError(told["refused"])
        return plain(told["told"])

    ask.__name__ = name
    return ask


def waiter(name: str, *first: Any) -> Callable[..., Any]:
    async def wait(*args: Any) -> Any:
        import asyncio  # labs without async functions need not wait for this import

        number = asker(name)(*first, *args)
        WAITS[number] = asyncio.get_running_loop().create_future()
        try:
            return await WAITS[number]
        except asyncio.CancelledError:
            asker("cancelled")(number)
            raise

    wait.__name__ = name
    return wait


def together(module: Any, name: str, args: list[Any], calls: list[list[Any]]) -> list[Any]:
    """Return the outcome of each call: ["value", VALUE], ["error", TEXT], ["cancelled"], or ["waits"] if it never ends.

    A call begins when its wait for ``begin`` ends. Any exception but a ConnectionError is raised.
    """
    import asyncio
    import selectors

    class Selector(selectors.DefaultSelector):
        """Asks the grader what happens next when the loop has nothing to do."""

        turns, dry, until = 0, 0, 1.0

        def select(self, timeout: float | None = None) -> Any:
            self.turns += 1
            ready = super().select(0)
            if ready or (timeout is not None and self.turns < TURNS and loop.now + timeout < self.until):
                loop.now += max(timeout or 0.0, TURN)
                return ready
            told = asker("next")()
            self.turns, self.dry = 0, self.dry + 1
            if told is not None:
                self.dry = 0
                happen(*told)
            elif timeout is None or self.dry > DRY:
                left = [number for number, task in enumerate(tasks) if not task.done()]
                if waiting or not left:
                    raise RuntimeError("the code goes on waiting after it was cancelled")
                waiting.update(left)
                for number in left:
                    tasks[number].cancel()
            else:
                loop.now += timeout
            self.until = loop.now + 1.0
            return ready

    class Loop(asyncio.SelectorEventLoop):
        """An event loop whose time passes only while its tasks sleep."""

        now = 0.0

        def time(self) -> float:
            return self.now

    def happen(kind: str, number: int, value: Any = None) -> None:
        if kind == "cancel":
            tasks[number].cancel()
        elif not WAITS[number].done():
            WAITS[number].set_result(value) if kind == "end" else WAITS[number].set_exception(ConnectionError(value))

    async def call(number: int, owner: Any, method: str, given: list[Any]) -> Any:
        await waiter("begin")(number)
        return await defined(owner, method)(*given)

    async def main() -> list[Any]:
        owner = defined(module, name)(*args) if name else module
        tasks.extend(asyncio.ensure_future(call(number, owner, *each)) for number, each in enumerate(calls))
        return await asyncio.gather(*tasks, return_exceptions=True)

    tasks: list[asyncio.Task[Any]] = []
    waiting: set[int] = set()
    WAITS.clear()
    loop = Loop(Selector())
    try:
        ended = loop.run_until_complete(main())
        for task in (others := asyncio.all_tasks(loop)):
            task.cancel()
        if others:
            loop.run_until_complete(asyncio.wait(others))
    finally:
        loop.close()
    outcomes = []
    for number, value in enumerate(ended):
        if number in waiting:
            outcomes.append(["waits"])
        elif isinstance(value, asyncio.CancelledError):
            outcomes.append(["cancelled"])
        elif isinstance(value, BaseException) and not isinstance(value, ConnectionError):
            raise value
        else:
            outcomes.append(["error", str(value)] if isinstance(value, ConnectionError) else ["value", value])
    return outcomes


def do(step: list[Any], results: list[Any]) -> None:
    kind, *given = step
    if kind == "forget":
        OBJECTS.clear()
        return
    if kind == "cells":
        read_notebook()
        results.append([text for _, text in sorted(NOTES, key=lambda note: note[0])])
        return
    module = load()
    if kind == "import":
        results.append([text for _, text in sorted(NOTES, key=lambda note: note[0])])
    elif kind == "new":
        handle, name, args = given
        OBJECTS[handle] = defined(module, name)(*plain(args))
    elif kind == "call":
        handle, name, args = given
        owner = OBJECTS[handle] if handle else module
        results.append(defined(owner, name)(*plain(args)))
    elif kind == "get":
        handle, name = given
        results.append(getattr(OBJECTS[handle], name))
    elif kind == "together":
        name, args, calls = given
        results.append(together(module, name, plain(args), plain(calls)))


def defined(owner: Any, name: str) -> Any:
    """Return a name of the module or of an object. If it is missing, raise NameError: the code is not complete."""
    if not hasattr(owner, name):
        of = owner.__name__ if isinstance(owner, types.ModuleType) else type(owner).__name__
        raise NameError(f"{name!r} is not defined in {of}")
    return getattr(owner, name)


def load() -> Any:
    """Return the student's module. It is imported, or made of what is kept of the notebook, when it is first needed."""
    if MODULE in sys.modules or not os.path.isfile(NOTEBOOK):
        return importlib.import_module(MODULE)
    read_notebook()
    module = sys.modules[MODULE] = types.ModuleType(MODULE)
    flags = 0
    for number, line, node in KEPT:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            for alias in node.names:
                flags |= getattr(__future__, alias.name).compiler_flag
        try:
            name = os.path.join(FOLDER, f"cell {number}")
            exec(compile(ast.Module([node], []), name, "exec", flags, True), module.__dict__)
        except Exception as error:  # the definitions of other cells still count
            note(number, f"{line}  ({type(error).__name__}: {error})")
    return module


def read_notebook() -> None:
    """Fill KEPT and NOTES from the notebook, once. Raises ValueError if the file is no notebook of format 4."""
    if KEPT or NOTES:
        return
    with open(NOTEBOOK, encoding="utf-8-sig") as file:
        notebook = json.load(file)
    if type(notebook) is not dict or notebook.get("nbformat") != 4 or type(notebook.get("cells")) is not list:
        raise ValueError("not a notebook of format 4; open it in JupyterLab, save it, and hand it in again")
    texts = []
    for number, cell in enumerate(notebook["cells"], 1):
        code = cell["cell_type"] == "code"
        source = cell["source"] if code else cell.get("source", "")
        text = source if type(source) is str else "".join(source)
        read_cell(number, text) if code else texts.append((number, text))
    cells: dict[str, list[int]] = {}
    for number, _, node in KEPT:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            cells.setdefault(node.name, []).append(number)
    for number, text in texts:
        if names := defines(text) - cells.keys():
            said = f"defines {', '.join(sorted(names))}: make it a code cell"
            NOTES.append((number, f"cell {number} is text, not code, and {said}"))
    for name, numbers in cells.items():
        if len(numbers) > 1:
            NOTES.append((numbers[-1], f"{name} is defined {len(numbers)} times; cell {numbers[-1]} counts"))


def read_cell(number: int, text: str) -> None:
    """Add the statements of a cell to KEPT or to NOTES."""
    lines = re.split("\r\n?|\n", text)  # as Python counts them
    for at, line in enumerate(lines):
        if magic := re.match(r"\s*%%(\w*)", line):
            note(number, line)
            lines[at] = ""
            if magic[1] not in ("time", "timeit", "capture"):  # these run their cell
                return None
        elif line.strip():
            break
    try:
        tree = ast.parse("\n".join(lines))
    except Exception:  # perhaps because of lines that are not Python, such as %time and !ls
        leave_out_magics(number, lines)
        try:
            tree = ast.parse("\n".join(lines))
        except Exception as error:
            return note(number, f"the whole cell  ({type(error).__name__}: {error})")
    for node in tree.body:
        if isinstance(node, KEEP):
            KEPT.append((number, lines[node.lineno - 1], node))
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            note(number, lines[node.lineno - 1])


def leave_out_magics(number: int, lines: list[str]) -> None:
    """Replace the lines that are not Python by an expression, and note them."""
    goes_on = False
    for at, line in enumerate(lines):
        magic = re.match(r"\s*[%!?]|[^#]*\?\s*$|[\w\s.,]+=\s*[%!]", line) and begins("\n".join(lines[:at]))
        if goes_on or magic:
            note(number, line)
            lines[at] = "" if goes_on else line[: len(line) - len(line.lstrip())] + "..."
            goes_on = line.endswith("\\")


def begins(before: str) -> bool:
    """Return whether a statement begins after this text: no bracket and no string is open."""
    import tokenize  # notebooks without magics need not wait for this import

    try:
        list(tokenize.generate_tokens(io.StringIO(f"{before}\n").readline))
    except (tokenize.TokenError, SyntaxError) as error:
        return re.search("EOF|triple-quoted", str(error)) is None  # the words of Python 3.11, and of later ones
    return True


def defines(text: str) -> set[str]:
    """Return the functions and classes that a text defines, if it is Python."""
    try:
        body = ast.parse(text).body
    except Exception:  # it is no Python
        return set()
    return {node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}


def note(number: int, what: str) -> None:
    """Note what is left out of a cell."""
    if len(NOTES) < 100:
        NOTES.append((number, f"cell {number}: left out: {what.strip()[:200]}"))


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
        message = {"number": asked["number"], "value": results}
        raw = encoded(message, lambda: returned(asked["steps"], results))
        if len(raw) > MOST:
            raise ValueError(f"the answer has {len(raw):,} bytes; the limit is {MOST:,}")
        return raw
    except Exception as error:  # an exception is also an answer
        said = f"{type(error).__name__}: {error}{where(error)}"
        types = [one.__name__ for one in type(error).__mro__]
        return json.dumps({"number": asked["number"], "error": said[:1000], "types": types}).encode()


def encoded(message: dict[str, Any], values: Callable[[], Iterable[tuple[str, Any]]]) -> bytes:
    """Return a message as JSON. If a value in it is not JSON, raise TypeError with what was done with which value."""
    try:
        return json.dumps(message, allow_nan=False).encode()
    except (TypeError, ValueError):
        done, value = next((done, value) for done, value in values() if not is_json(value))
    part, inner = value, [value]
    for _ in range(50):
        part = next((one for one in inner if not is_json(one)), part)
        inner = list(part.values() if isinstance(part, dict) else part if isinstance(part, list | tuple) else ())
    shown = re.sub("0x[0-9a-fA-F]+", "0x...", repr(value))[:200]
    kind = part if isinstance(part, float) else type(part).__name__
    may = "numbers, texts, booleans, None, lists, tuples, or dicts with text keys"
    raise TypeError(f"{done} {shown}, and {kind} is no JSON value; use {may}")


def is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def returned(steps: list[list[Any]], results: list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield each value that a method has returned, after the method's name."""
    answered = [step for step in steps if step[0] not in ("new", "forget")]
    for (kind, *given), result in zip(answered, results, strict=True):
        if kind == "together":
            names = (name for name, *_ in given[2])
            yield from ((f"{name} has returned", value) for name, (*_, value) in zip(names, result, strict=True))
        elif given:
            yield f"{given[1]} has returned", result


def where(error: BaseException) -> str:
    """Return the last line of the student's code in the traceback, such as " (line 12)" or " (cell 3, line 12)"."""
    line, cell, trace = None, "", error.__traceback__
    while trace is not None:
        folder, name = os.path.split(trace.tb_frame.f_code.co_filename)
        if folder == FOLDER:
            line, cell = trace.tb_lineno, f"{name}, " if name.startswith("cell ") else ""
        trace = trace.tb_next
    return "" if line is None else f" ({cell}line {line})"


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
