"""Explore one system of a class, and write its report. `explored` stores what else is kept of it."""

from __future__ import annotations

import io
import time
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from ..errors import SubmissionError, UsageError, VoidError, text_of
from ..explore.cases import KINDS
from ..explore.explorer import Explorer
from ..explore.world import PHASE
from ..report.explored import write_explored
from ..session import Wish, ended_by_signals
from ..submission import read_submission
from ..terms import Limits
from .checkout import system
from .explored import IMPOSSIBLE, fresh
from .results import VOID, Found


def judge(task: Mapping[str, Any], scratch: Path) -> Found:
    """Explore the system of a task of the pool, write its report, and return what is stored besides."""
    try:
        submission = read_submission(system([(name, Path(path)) for name, path in task["files"]], scratch))
        wish = Wish(submission, (PHASE,), Limits(), 0, 0, "", "explore")
        with redirect_stdout(io.StringIO()), ended_by_signals(), Explorer(wish, submission.name) as explorer:
            explorer.plain()
            if not explorer.found:
                explorer.explore([*KINDS], time.monotonic() + 60 * task["minutes"], lambda: False)
            told = explorer.report("FOLDER", [*KINDS])
        write_explored(told, Path(task["out"]))
    except SubmissionError as error:
        return fresh(task, IMPOSSIBLE, str(error))
    except (UsageError, VoidError, OSError) as error:
        return fresh(task, VOID, str(error))
    except KeyboardInterrupt:  # the class has been interrupted, and the explorer has ended its processes
        raise SystemExit(1) from None
    except Exception as error:  # a mistake in the explorer must not end the exploration of the others
        return fresh(task, VOID, f"the explorer itself failed ({text_of(error)})")
    return fresh(task)
