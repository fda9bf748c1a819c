"""The hidden checks of lab 2. Students do not get this file."""

import json
import random

from checks import COMPACT, INFO, PRICE, RESTART, ROWS, TABLES, VISIT, Model, epoch_of, joins, played, trace

from grader.lab import Case, check, drawn_epoch, each

SECRET = "public"


@check("drawn", task=3, rule=12, cpu=4)
def drawn(student):
    """After any history, every epoch from since on returns the rows that were there."""
    for n in range(8):
        draw, steps, there = random.Random(f"arrangement {SECRET} {n}"), [], []
        for _ in range(12):
            model, kind = Model(steps), draw.choice(["insert"] * 5 + ["handle", "advance", "compact"])
            if kind == "insert":
                steps.append(
                    ("insert", drawn_epoch(draw, there, lambda draw=draw: (draw.choice("ABC"), draw.randrange(3))))
                )
            elif kind == "handle" and len(model.handles) < 2:
                steps.append((kind, "b" if "a" in model.handles else "a", draw.randrange(model.since, model.upper)))
            elif kind == "advance" and model.handles:
                name = draw.choice(sorted(model.handles))
                steps.append((kind, name, draw.randrange(model.handles[name], model.upper)))
            elif kind == "compact" and model.upper > 1:
                steps.append(COMPACT)
        if n % 4 == 3:
            steps.insert(8, RESTART)
            steps = [step for at, step in enumerate(steps) if at < 8 or step[0] in ("insert", "restart", "compact")]
        model = Model(steps)
        reads = [(key, time) for key in "ABC" for time in range(model.since, model.upper)]

        def ask(steps=steps, reads=reads):
            made = played(student, steps)[0]
            return [made.at(*one) for one in reads]

        calls = ", ".join(f"at({json.dumps(key)}, {time})" for key, time in reads)
        yield Case(trace(steps, calls), [model.at(*one) for one in reads], ask, each(ROWS))


@check("no-state", task=4, rule=10, cpu=4)
def no_state(student):
    """A delta join stores no rows, so a new one in another process can go on."""
    yield joins(student, [epoch_of((INFO, 1)), epoch_of((VISIT, 1), (PRICE, 1))], again=True)
    for n in range(6):
        draw, there, history = random.Random(f"delta {SECRET} {n}"), {table: [] for table in TABLES}, []
        for _ in range(4 if n else 3):
            kinds = {"info": ("x", "y"), "visit": (1, 2, 3), "price": (10, 20)}
            history.append(
                {
                    table: drawn_epoch(
                        draw, there[table], lambda draw=draw, some=some: (draw.choice("AB"), draw.choice(some))
                    )
                    for table, some in kinds.items()
                }
            )
        yield joins(student, history, again=n == 0)
