"""Grades one submission from start to end, and stops every process that it started, even after an error."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import sys
import tomllib
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from .errors import SubmissionError, UsageError, VoidError, text_of
from .folders import temporary
from .phases import RUN, Live, duplicates, powercut
from .phases.settle import failed, settle_all
from .processes import Built, Elsewhere, Sampler, Supervisor, closed, left_out, prepare
from .record import Record, save
from .sandbox import adopt_orphans, choose, keep, make
from .shop import Counter, Routes
from .submission import Submission
from .submission.places import Places
from .terms import GRADER, MACHINE, PHASES, POWER_CUT, SUBMISSION, Limits
from .wire.client import Generator

SHARES = {"contract": 0.05, "duplicates": 0.15, "load": 0.12, "scarcity": 0.15, "faults": 0.38, "speed": 0.15}
"""Each phase's share of the run's time."""
BUILDING = "building"
"""The text of the step that builds the submission. The build is not part of the time of a run."""
_LEAST_SPEED = 3.0
"""The minimum length of the speed phase in seconds, even if earlier phases took longer than their share."""


@dataclass(frozen=True)
class Wish:
    """The settings of one run, as given on the command line."""

    submission: Submission
    phases: tuple[str, ...]
    limits: Limits
    seed: int
    rate: int
    command: str
    mode: str
    allow_remote: bool = False
    require: int = 0
    broken: str = ""
    """The error in the submission's archive or checkout.toml, or "". If it is set, the verdict is fail."""
    ways: dict[str, tuple[list[str], list[str]]] = field(default_factory=dict)
    """For a system at --url: the kill command and the restart command of each process, by process name."""
    powercut: bool = False
    """Whether --power-cut was given, which extends the run by the time that the power cuts need."""


def cache_folder() -> Path:
    """Return the folder that caches built submissions."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "checkout-grader" / "builds"


_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Make SIGTERM and SIGHUP stop the run like Ctrl-C, with a KeyboardInterrupt.

    All further signals are ignored, so that they cannot interrupt the cleanup.
    """

    def end(number: int, frame: FrameType | None) -> None:
        for each in _ENDS:
            signal.signal(each, signal.SIG_IGN)  # a second signal must not interrupt the cleanup
        raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in _ENDS}
    interrupted = False
    try:
        yield
    except KeyboardInterrupt:
        interrupted = True
        raise
    finally:
        for number, handler in () if interrupted else before.items():
            signal.signal(number, handler)


def run(wish: Wish, out: Path, say: Callable[[str], None]) -> None:
    """Grade a submission, and write the record into the folder ``out``, even if the submission cannot run.

    ``say`` receives a line of text at each step. Raises UsageError if the command line is invalid. Raises
    KeyboardInterrupt after a signal, once every process has been stopped. In both cases no record is written.
    """
    record = Record()
    record.about.update(_about(wish))
    # The signal handlers are restored last, so that no signal interrupts the cleanup.
    with _ended_by_signals(), temporary("checkout-grader-") as scratch:
        try:
            with contextlib.ExitStack() as ends:
                try:
                    if wish.broken:
                        raise SubmissionError(wish.broken)
                    _live(wish, record, scratch, say, ends)
                except UsageError:
                    raise
                except Exception as error:
                    record.about["failure"] = failure_of(error)
        except UsageError:
            raise
        except SubmissionError as error:  # its processes cannot be ended
            record.about.setdefault("failure", failure_of(error))
        except Exception as error:  # of the cleanup, which comes after everything that is judged
            left = ("the end of all processes", failure_of(error)["why"])
            record.about.setdefault("untested", []).append(left)
    save(record, out)


def failure_of(error: Exception) -> dict[str, str]:
    """Return what run.json says about an error that ended a run: who caused it, why, and a traceback of the grader's.

    An error that the grader does not expect is its own. What was proven before the error is still judged.

    >>> failure_of(SubmissionError("shop is not ready"))
    {'kind': 'submission', 'why': 'shop is not ready'}
    """
    if isinstance(error, SubmissionError | VoidError):
        return {"kind": SUBMISSION if isinstance(error, SubmissionError) else MACHINE, "why": str(error)}
    why = f"the grader itself failed ({text_of(error)}); tell its authors"
    return {"kind": GRADER, "why": why, "trace": "".join(traceback.format_exception(error))}


def _live(wish: Wish, record: Record, scratch: Path, say: Callable[[str], None], ends: contextlib.ExitStack) -> None:
    adopt_orphans()
    submission, limits = wish.submission, wish.limits
    built: Built | None = None
    if submission.folder is not None:
        say(BUILDING if submission.build else "copying")
        tier, sandbox = choose(scratch, None)
        sandbox.close()
        built = prepare(submission, cache_folder(), limits.build, tier.number)
        record.about["submission"]["hash"] = built.hash
    now: list[Callable[[], int]] = [lambda: 0]

    def note(process: str, what: str, detail: str) -> None:
        record.events.append(at=now[0](), process=process, what=what, detail=detail)

    supervisor: Supervisor | None = None
    urls = submission.urls
    namespaces: tuple[str, ...] = ()
    if built is not None:
        sandbox = make(tier.number, scratch, built.folder, built.programs)
        ends.callback(sandbox.close)
        record.about["sandbox"] = {"tier": tier.number, "name": tier.name, "why": tier.why, "stops": tier.table()}
        namespaces = sandbox.namespaces
        scout = Generator(namespaces)
        ends.callback(scout.close)
        supervisor = Supervisor(submission, built.folder, scratch, sandbox, scout, limits, note)
        ends.callback(lambda: record.logs.update(supervisor.logs.texts()))
        ends.callback(supervisor.close)
        say(f"starting {', '.join(supervisor.names)}")
        supervisor.start_all()
        urls = {service: supervisor.places.fill(url) for service, url in urls.items()}
    generator = Generator(namespaces)
    keep(generator.pid)
    ends.callback(generator.close)
    routes = Routes(urls, wish.allow_remote)
    counter = Counter(record, generator, routes, limits)
    now[0] = counter.now
    services: Supervisor | Elsewhere | None = supervisor
    if built is None:
        record.about["untested"] = left_out(list(wish.ways))
        say(f"waiting for {submission.name} to accept connections")
    if silent := closed(routes.targets, generator, limits.ready, supervisor.tend if supervisor else None):
        mend = (
            "check base_url or urls in checkout.toml, and set ready for each process, with timeout_s if it needs more "
            f"than {limits.ready:.0f} s to start"
            if supervisor
            else "start the system first, and check the address"
        )
        printed = supervisor.ended() if supervisor else ""
        raise SubmissionError(f"{silent} does not accept connections; {mend}{printed}")
    if wish.ways:
        scout = Generator()
        ends.callback(scout.close)
        services = Elsewhere(wish.ways, routes.targets, scout, limits, note)
    sampler = Sampler(record, generator.pid, supervisor.cpu if supervisor else lambda: 0.0, counter.now)
    counter.tend.append(sampler.tick)
    if supervisor:
        counter.tend.append(supervisor.tend)
    seconds = {phase: limits.budget * share for phase, share in SHARES.items()}
    live = Live(record, counter, limits, wish.seed, wish.rate, seconds, say, services)
    for phase in PHASES:
        if phase not in wish.phases:
            continue
        if record.phases.get("contract", {}).get("silent"):
            why = "the system did not answer four requests in a row in the contract phase"
            record.phases[phase] = {"skipped": why}
            continue
        if phase == "speed":
            left = limits.budget - counter.now() / 1e9
            if failed(live) and left < seconds[phase]:
                record.phases[phase] = {"skipped": "no time was left, because a failed phase did not settle in time"}
                continue
            live.seconds[phase] = min(seconds[phase], max(_LEAST_SPEED, left))
        notes = live.notes(phase)
        notes["begin_s"] = round(counter.now() / 1e9, 1)
        RUN[phase](live)
        notes["end_s"] = round(counter.now() / 1e9, 1)
    if not any(notes.get("stopped") for notes in record.phases.values()):
        duplicates.once_more(live)
        for asked in live.at_the_end:
            asked()
    if (rate := record.phases.get("load", {}).get("rate")) and not wish.rate:
        record.about["repeat"] += f" --rate {rate:.0f}"
    say("taking the final snapshot")
    settle_all(live)
    left = limits.budget - counter.now() / 1e9
    if built is None or supervisor is None:
        why = "the grader does not control the disk of a system at --url"
    elif record.phases.get("contract", {}).get("silent"):
        why = "the system does not answer"
    elif not (why := _no_cut(wish, left)):
        supervisor.close()  # frees the fixed ports in checkout.toml, which the next run needs
        stage = powercut.Stage(submission, built.folder, sandbox, scratch, scout, generator, limits, wish.seed, say)
        try:
            record.powercut = powercut.run(stage, powercut.MOST if wish.powercut else min(left, powercut.MOST))
        except Exception as error:  # the power cuts affect neither the verdict nor the score
            why = failure_of(error)["why"]
    record.about[POWER_CUT] = {"skipped": why} if why else {}


def _no_cut(wish: Wish, left: float) -> str:
    """Return the reason why this run does not test power cuts, or "" if it does. ``left`` is the remaining seconds."""
    if wish.powercut:
        return ""
    if wish.mode == "quick":
        return "--quick does not include it; use --full or --power-cut"
    if wish.phases != PHASES:
        return "not requested; use --power-cut"
    return "" if left >= powercut.LEAST else "no time was left for it; use --power-cut, which adds the time"


def _about(wish: Wish) -> dict[str, Any]:
    submission = wish.submission
    repeat = f"{wish.command} --seed {wish.seed}" if "--seed" not in wish.command else wish.command
    return {
        "command": wish.command,
        "repeat": repeat,
        "mode": wish.mode,
        "seed": wish.seed,
        "asked": list(wish.phases),
        "require": wish.require,
        "rubric": tomllib.loads((Path(__file__).parent / "rubric.toml").read_text()),
        "limits": asdict(wish.limits),
        "submission": {
            "name": submission.name,
            "processes": [{"name": p.name, "role": p.role} for p in submission.processes],
        },
        "machine": {"cores": os.cpu_count(), "system": platform.platform(), "python": sys.version.split()[0]},
        "sandbox": {"tier": 0, "name": "no process was started", "why": "", "stops": []},
    }


__all__ = ["Places", "Wish", "cache_folder", "run"]
