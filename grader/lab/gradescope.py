"""gradescope.zip: an autograder for Gradescope, with the bundle of a lab and the modules that `one` needs.

Gradescope unpacks it into /autograder/source, runs setup.sh once, as root, and for each submission run_autograder. See
https://gradescope-autograders.readthedocs.io/en/latest/specs/. What keeps a submission from the grader's files is the
sandbox: Landlock, or, if the kernel has none, an unused uid, to which /autograder/source and results are closed.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

NAME = "gradescope.zip"
_GRADER = Path(__file__).resolve().parents[1]
_ROOMS = ("lab", "sandbox", "worker")
"""Rooms that are packed whole, so that results name the same version of the grader as those of `class`."""
_MODULES = (
    *("__init__", "__main__", "errors", "files", "folders", "outcomes", "proc", "statuses", "toml"),
    *(
        "classroom/__init__",
        "classroom/gradescope",
        "classroom/one",
        "classroom/results",
        "classroom/single",
        "classroom/work",
    ),
    "submission/upload",
    *("processes/__init__", "processes/bounds", "processes/logs"),
    *("submission/__init__", "submission/archive", "submission/model", "submission/places", "submission/reading"),
)
_SETUP = r"""#!/usr/bin/env bash
# Runs once, as root, when the image is built: finds or installs a Python of 3.11 or later.
set -euo pipefail
source=$(cd "$(dirname "$0")" && pwd)

find_python() {
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    return 1
}

if ! python=$(find_python); then
    for name in python3.12 python3.11; do
        if apt-get update && apt-get install -y --no-install-recommends "$name"; then
            break
        fi
    done
    if ! python=$(find_python); then
        echo "This image has no Python of 3.11 or later, and apt-get cannot install one." >&2
        echo "Choose another base image in the settings of the autograder, such as Ubuntu 22.04 or later." >&2
        exit 1
    fi
fi
echo "$python" > "$source/python"
chmod 700 "$source"
"""
_RUN = r"""#!/usr/bin/env bash
# Runs as root for each submission. Its output is shown to teachers only.
set -u
cd /autograder/source
mkdir -p /autograder/results
chmod 700 /autograder/source /autograder/results
rm -f /autograder/results/results.json
export PYTHONHASHSEED=0
"$(cat python)" -s -S -B -m grader one /autograder/submission --lab bundle --results /autograder/results/results.json
test -f /autograder/results/results.json
"""


def packed(bundle: Mapping[str, str]) -> bytes:
    """Return gradescope.zip. ``bundle``: the files of bundle/, by name. The same files give the same bytes."""
    paths = [path for room in _ROOMS for path in (_GRADER / room).glob("*.py")]
    paths += [_GRADER / f"{name}.py" for name in _MODULES]
    files = {f"grader/{path.relative_to(_GRADER).as_posix()}": path.read_text(encoding="utf-8") for path in paths}
    files |= {f"bundle/{name}": text for name, text in bundle.items()}
    files |= {"setup.sh": _SETUP, "run_autograder": _RUN}
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:  # versions of zlib compress differently
        for name, text in sorted(files.items()):
            entry = zipfile.ZipInfo(name)  # of 1980
            entry.create_system = 3  # Unix, also on Windows
            entry.external_attr = (0o100755 if name in ("setup.sh", "run_autograder") else 0o100644) << 16
            archive.writestr(entry, text.encode())
    return made.getvalue()
