#!/bin/sh
# Makes .venv ready: `setup/environment.sh run` for the lab, `setup/environment.sh dev` for the tests too.
# Where it is ready already this costs a tenth of a second; otherwise a Python is sought and builds it.

python=
cd "$(dirname "$0")/.." || exit 1

if [ -z "${PYTHON:-}" ] && [ -x .venv/bin/python ]; then
    .venv/bin/python -I setup/bootstrap.py --check "$1" 2>/dev/null && exit 0
    # What was chosen once is kept: more packages, or a new lock, are no reason for another Python.
    before=$(.venv/bin/python -I -c 'import sys; print(sys._base_executable)' 2>/dev/null) &&
        python=$(PYTHON=$before sh setup/find-python.sh 2>/dev/null)
fi
[ -n "${python:-}" ] || python=$(sh setup/find-python.sh) || exit 1
exec "$python" -I setup/bootstrap.py "$1"
