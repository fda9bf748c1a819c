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
from contextlib import AbstractContextManager
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
from .sandbox import Plain, Sandbox, Tier, adopt_orphans, choose, keep, make
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
def ended_by_signals() -> Iterator[None]:
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


Between = Callable[[Submission, Supervisor, Sandbox, Generator], AbstractContextManager[object]]
"""Puts something between the processes of a supervisor, until the run ends. It also gets a generator for ports."""


def run(wish: Wish, out: Path, say: Callable[[str], None], between: Between | None = None) -> None:
    """Grade a submission, and write the record into the folder ``out``, even if the submission cannot run.

    ``say`` receives a line of text at each step. ``between``: called before the processes start. Raises UsageError if
    the command line is invalid. Raises KeyboardInterrupt after a signal, once every process has been stopped. In both
    cases no record is written.
    """
    record = Record()
    record.about.update(about(wish))
    # The signal handlers are restored last, so that no signal interrupts the cleanup.
    with ended_by_signals(), temporary("checkout-grader-") as scratch:
        try:
            with contextlib.ExitStack() as ends:
                try:
                    if wish.broken:
                        raise SubmissionError(wish.broken)
                    _live(Session(wish, record, scratch, say, ends, between))
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


def _live(session: Session) -> None:
    """Start a system, run the phases, and cut its power."""
    adopt_orphans()
    if session.wish.submission.folder is not None:
        session.start()
    live = session.reach()
    run_phases(session.wish, live)
    why = session.power_cut(live)
    session.record.about[POWER_CUT] = {"skipped": why} if why else {}


@dataclass
class Session:
    """One run. What is None does not exist for a system at --url. ``ends``: what must be called at the end."""

    wish: Wish
    record: Record
    scratch: Path
    say: Callable[[str], None]
    ends: contextlib.ExitStack
    between: Between | None = None
    plain: bool = False
    """Whether the processes run without a sandbox, so that a debugger can be attached to them."""
    clock: Clock = field(default_factory=Clock)
    built: Built | None = None
    sandbox: Sandbox | None = None
    supervisor: Supervisor | None = None
    scout: Generator | None = None
    """A generator that only probes ports."""
    load: Generator | None = None
    """The generator that sends the requests."""

    def note(self, process: str, what: str, detail: str) -> None:
        """Record an event."""
        self.record.events.append(at=self.clock.now(), process=process, what=what, detail=detail)

    def generator(self, namespaces: tuple[str, ...]) -> Generator:
        """Start a generator, which ends with the run."""
        return self.ends.enter_context(contextlib.closing(Generator(namespaces)))

    def start(self) -> None:
        """Build the submission and start its processes. Raises SubmissionError if they do not become ready."""
        submission, limits, about = self.wish.submission, self.wish.limits, self.record.about
        self.say(BUILDING if submission.build else "copying")
        tier, trial = (Tier(3, "for a debugger", ""), Plain()) if self.plain else choose(self.scratch, None)
        trial.close()
        prefix = f"{self.scratch.name}-build-"  # by which `explore` finds it, if it must clean up
        self.built = prepare(submission, cache_folder(), limits.build, tier.number, prefix)
        about["submission"]["hash"] = self.built.hash
        self.sandbox = make(tier.number, self.scratch, self.built.folder, self.built.programs)
        self.ends.callback(self.sandbox.close)
        about["sandbox"] = {"tier": tier.number, "name": tier.name, "why": tier.why, "stops": tier.table()}
        self.scout = self.generator(self.sandbox.namespaces)
        supervisor = Supervisor(
            submission, self.built.folder, self.scratch, self.sandbox, self.scout, limits, self.note
        )
        self.ends.callback(lambda: self.record.logs.update(supervisor.logs.texts()))
        self.ends.callback(supervisor.close)
        self.supervisor = supervisor
        if self.between is not None:
            self.ends.enter_context(self.between(submission, supervisor, self.sandbox, self.scout))
        self.say(f"starting {', '.join(supervisor.names)}")
        supervisor.start_all()

    def reach(self) -> Live:
        """Begin the run, and wait until the system accepts connections. Raises SubmissionError if it does not."""
        wish, limits, supervisor, urls = self.wish, self.wish.limits, self.supervisor, self.wish.submission.urls
        if supervisor:
            urls = {service: supervisor.places.fill(url) for service, url in urls.items()}
        generator = self.load = self.generator(self.sandbox.namespaces if self.sandbox else ())
        keep(generator.pid)
        routes = Routes(urls, wish.allow_remote)
        counter = Counter(self.record, generator, routes, limits, self.clock)
        if not supervisor:
            self.record.about["untested"] = left_out(list(wish.ways))
            self.say(f"waiting for {wish.submission.name} to accept connections")
        if silent := closed(routes.targets, generator, limits.ready, supervisor.tend if supervisor else None):
            mend = (
                "check base_url or urls in checkout.toml, and set ready for each process, with timeout_s if it needs "
                f"more than {limits.ready:.0f} s to start{supervisor.ended()}"
                if supervisor
                else "start the system first, and check the address"
            )
            raise SubmissionError(f"{silent} does not accept connections; {mend}")
        services: Supervisor | Elsewhere | None = supervisor
        if wish.ways:
            services = Elsewhere(wish.ways, routes.targets, self.generator(()), limits, self.note)
        sampler = Sampler(self.record, generator.pid, supervisor.cpu if supervisor else lambda: 0.0, counter.now)
        counter.tend += [sampler.tick, supervisor.tend] if supervisor else [sampler.tick]
        seconds = {phase: limits.budget * TABLE[phase].share for phase in PHASES}
        return Live(self.record, counter, limits, wish.seed, wish.rate, seconds, self.say, services)

    def power_cut(self, live: Live) -> str:
        """Cut the power of the system's disk in a run of its own. Returns why it was not tested, or ""."""
        wish, left = self.wish, live.limits.budget - live.counter.now() / 1e9
        if not (self.built and self.sandbox and self.supervisor and self.scout and self.load):
            return "the grader does not control the disk of a system at --url"
        if live.record.notes(Contract).silent:
            return "the system does not answer"
        if why := _no_cut(wish, left):
            return why
        self.supervisor.close()  # frees the fixed ports in checkout.toml, which the next run needs
        folder, generators = self.built.folder, (self.scout, self.load)
        stage = powercut.Stage(
            wish.submission, folder, self.sandbox, self.scratch, *generators, wish.limits, wish.seed, self.say
        )
        try:
            live.record.powercut = powercut.run(stage, powercut.MOST if wish.powercut else min(left, powercut.MOST))
        except Exception as error:  # the power cuts affect neither the verdict nor the score
            return failure_of(error)["why"]
        return ""


def run_phases(wish: Wish, live: Live) -> None:
    """Run the requested phases and what follows the last one, and take the final snapshot."""
    record = live.record
    for phase in (phase for phase in PHASES if phase in wish.phases):
        why, notes = _no_phase(live, phase), live.about(phase)
        if why:
            notes.skipped = why
            continue
        notes.begin_s = round(live.counter.now() / 1e9, 1)
        RUN[phase](live)
        notes.end_s = round(live.counter.now() / 1e9, 1)
    if not any(notes.stopped for notes in record.phases.values()):
        for once_more in live.at_the_end:
            once_more()
    if (rate := record.notes(Load).rate) and not wish.rate:
        record.about["repeat"] += f" --rate {rate:.0f}"
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


def _no_cut(wish: Wish, left: float) -> str:
    """Return the reason why this run does not test power cuts, or "" if it does. ``left`` is the remaining seconds."""
    if wish.powercut:
        return ""
    if wish.mode == "quick":
        return "--quick does not include it; use --full or --power-cut"
    if wish.phases != PHASES:
        return "not requested; use --power-cut"
    return "" if left >= powercut.LEAST else "no time was left for it; use --power-cut, which adds the time"


def about(wish: Wish) -> dict[str, Any]:
    """Return what a record says about a run before it begins."""
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
