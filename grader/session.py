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
from .phases import RUN, Live, powercut
from .phases.settle import failed, settle_all
from .processes import Built, Elsewhere, Sampler, Supervisor, closed, left_out, prepare
from .record import Record, save
from .record.notes import Contract, Load
from .sandbox import Sandbox, adopt_orphans, choose, keep, make
from .shop import Clock, Counter, Routes
from .submission import Submission
from .submission.places import Places
from .table import PHASES, POWER_CUT, TABLE
from .terms import GRADER, MACHINE, SUBMISSION, Limits
from .wire.client import Generator

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


Note = Callable[[str, str, str], None]
"""Records an event: of which process, what, and a detail."""


@dataclass(frozen=True)
class _System:
    """The processes of a submission, which the grader has built and started."""

    built: Built
    sandbox: Sandbox
    scout: Generator
    """A generator that only probes ports."""
    supervisor: Supervisor


def _live(wish: Wish, record: Record, scratch: Path, say: Callable[[str], None], ends: contextlib.ExitStack) -> None:
    """Start a system, run the phases, and cut its power. ``ends`` gets what must be called at the end."""
    adopt_orphans()
    clock = Clock()

    def note(process: str, what: str, detail: str) -> None:
        record.events.append(at=clock.now(), process=process, what=what, detail=detail)

    system = _start(wish, record, scratch, say, ends, note) if wish.submission.folder is not None else None
    live, generator = _reach(wish, record, clock, say, ends, note, system)
    _run_phases(wish, live)
    why = _power_cut(wish, live, generator, scratch, system)
    record.about[POWER_CUT] = {"skipped": why} if why else {}


def _start(
    wish: Wish, record: Record, scratch: Path, say: Callable[[str], None], ends: contextlib.ExitStack, note: Note
) -> _System:
    """Build a submission and start its processes. Raises SubmissionError if they do not become ready."""
    submission, limits = wish.submission, wish.limits
    say(BUILDING if submission.build else "copying")
    tier, trial = choose(scratch, None)
    trial.close()
    built = prepare(submission, cache_folder(), limits.build, tier.number)
    record.about["submission"]["hash"] = built.hash
    sandbox = make(tier.number, scratch, built.folder, built.programs)
    ends.callback(sandbox.close)
    record.about["sandbox"] = {"tier": tier.number, "name": tier.name, "why": tier.why, "stops": tier.table()}
    scout = ends.enter_context(contextlib.closing(Generator(sandbox.namespaces)))
    supervisor = Supervisor(submission, built.folder, scratch, sandbox, scout, limits, note)
    ends.callback(lambda: record.logs.update(supervisor.logs.texts()))
    ends.callback(supervisor.close)
    say(f"starting {', '.join(supervisor.names)}")
    supervisor.start_all()
    return _System(built, sandbox, scout, supervisor)


def _reach(
    wish: Wish,
    record: Record,
    clock: Clock,
    say: Callable[[str], None],
    ends: contextlib.ExitStack,
    note: Note,
    system: _System | None,
) -> tuple[Live, Generator]:
    """Begin the run, and wait until the system accepts connections. Raises SubmissionError if it does not.

    ``system``: None for one at --url.
    """
    limits, urls, supervisor = wish.limits, wish.submission.urls, system.supervisor if system else None
    if supervisor:
        urls = {service: supervisor.places.fill(url) for service, url in urls.items()}
    generator = ends.enter_context(contextlib.closing(Generator(system.sandbox.namespaces if system else ())))
    keep(generator.pid)
    routes = Routes(urls, wish.allow_remote)
    counter = Counter(record, generator, routes, limits, clock)
    if not supervisor:
        record.about["untested"] = left_out(list(wish.ways))
        say(f"waiting for {wish.submission.name} to accept connections")
    if silent := closed(routes.targets, generator, limits.ready, supervisor.tend if supervisor else None):
        mend = (
            "check base_url or urls in checkout.toml, and set ready for each process, with timeout_s if it needs more "
            f"than {limits.ready:.0f} s to start"
            if supervisor
            else "start the system first, and check the address"
        )
        printed = supervisor.ended() if supervisor else ""
        raise SubmissionError(f"{silent} does not accept connections; {mend}{printed}")
    services: Supervisor | Elsewhere | None = supervisor
    if wish.ways:
        scout = ends.enter_context(contextlib.closing(Generator()))
        services = Elsewhere(wish.ways, routes.targets, scout, limits, note)
    sampler = Sampler(record, generator.pid, supervisor.cpu if supervisor else lambda: 0.0, counter.now)
    counter.tend += [sampler.tick, supervisor.tend] if supervisor else [sampler.tick]
    seconds = {phase: limits.budget * TABLE[phase].share for phase in PHASES}
    return Live(record, counter, limits, wish.seed, wish.rate, seconds, say, services), generator


def _run_phases(wish: Wish, live: Live) -> None:
    """Run the requested phases and what follows the last one, and take the final snapshot."""
    record = live.record
    for phase in (phase for phase in PHASES if phase in wish.phases):
        why = _no_phase(live, phase)
        notes = live.about(phase)
        if why:
            notes.skipped = why
            continue
        notes.begin_s = round(live.counter.now() / 1e9, 1)
        RUN[phase](live)
        notes.end_s = round(live.counter.now() / 1e9, 1)
    finish(live)
    if (rate := record.notes(Load).rate) and not wish.rate:
        record.about["repeat"] += f" --rate {rate:.0f}"


def finish(live: Live) -> None:
    """Repeat what must still be right at the end of the run, unless a phase had to stop, and take the last snapshot."""
    if not any(notes.stopped for notes in live.record.phases.values()):
        for last in live.at_the_end:
            last()
    live.say("taking the final snapshot")
    settle_all(live)


def _no_phase(live: Live, phase: str) -> str:
    """Return the reason why a phase cannot be run, or "". The speed phase gets what is left of the run's time."""
    if live.record.notes(Contract).silent:
        return "the system did not answer four requests in a row in the contract phase"
    if phase == "speed":
        left = live.limits.budget - live.counter.now() / 1e9
        if failed(live) and left < live.seconds[phase]:
            return "no time was left, because a failed phase did not settle in time"
        live.seconds[phase] = min(live.seconds[phase], max(_LEAST_SPEED, left))
    return ""


def _power_cut(wish: Wish, live: Live, generator: Generator, scratch: Path, system: _System | None) -> str:
    """Cut the power of the system's disk in a run of its own. Returns why it was not tested, or ""."""
    left = live.limits.budget - live.counter.now() / 1e9
    if system is None:
        return "the grader does not control the disk of a system at --url"
    if live.record.notes(Contract).silent:
        return "the system does not answer"
    if why := _no_cut(wish, left):
        return why
    system.supervisor.close()  # frees the fixed ports in checkout.toml, which the next run needs
    stage = powercut.Stage(
        wish.submission,
        system.built.folder,
        system.sandbox,
        scratch,
        system.scout,
        generator,
        wish.limits,
        wish.seed,
        live.say,
    )
    try:
        live.record.powercut = powercut.run(stage, powercut.MOST if wish.powercut else min(left, powercut.MOST))
    except Exception as error:  # the power cuts affect neither the verdict nor the score
        return failure_of(error)["why"]
    return ""


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
