#!/bin/sh
# Prints the Python that the environment is to be built with, or says in one
# sentence on stderr why there is none and what to do, and exits 1.
#
# PYTHON=... is obeyed and never second-guessed. Otherwise the first of the usual
# names that runs, is CPython 3.11 to 3.14 and can make environments (Debian ships
# a python3 whose venv is a package of its own).

doors='install one (Debian, Ubuntu: apt install python3 python3-venv; macOS: brew install python@3.13), or name one: PYTHON=/path/to/python3.12, or use conda: conda env create -f environment.yml'

# Exits 0 if it fits, 3 if it is another kind or version (printed), 4 if it cannot make environments.
probe='
import sys
version = "%d.%d.%d" % sys.version_info[:3]
name = getattr(getattr(sys, "implementation", None), "name", "python")
if name != "cpython":
    sys.stdout.write(name + " " + version)
    sys.exit(3)
if not ((3, 11) <= sys.version_info[:2] <= (3, 14)):
    sys.stdout.write("Python " + version)
    sys.exit(3)
import sysconfig
if sysconfig.get_config_var("Py_GIL_DISABLED"):
    sys.stdout.write("a free-threaded Python " + version)
    sys.exit(3)
if sys.maxsize < 2 ** 32:
    sys.stdout.write("a 32-bit Python " + version)
    sys.exit(3)
try:
    import ensurepip, venv
except ImportError:
    sys.stdout.write("%d.%d" % sys.version_info[:2])
    sys.exit(4)
'

if [ -n "${PYTHON:-}" ]; then
    said=$("$PYTHON" -I -c "$probe" </dev/null 2>/dev/null)
    case $? in
        0) printf '%s\n' "$PYTHON"; exit 0 ;;
        3) echo "set-up: PYTHON=$PYTHON is $said, and the locked packages are for CPython 3.11 to 3.14: name one of those, or leave PYTHON out" >&2 ;;
        4) echo "set-up: PYTHON=$PYTHON cannot make environments, its venv module is missing: apt install python$said-venv (Debian, Ubuntu), or use conda: conda env create -f environment.yml" >&2 ;;
        *) echo "set-up: PYTHON=$PYTHON does not run as a Python 3: name the path of a Python 3.11 to 3.14, or leave PYTHON out" >&2 ;;
    esac
    exit 1
fi

seen=''
bare=''
for name in python3.13 python3.12 python3.11 python3.14 python3 python; do
    command -v "$name" >/dev/null 2>&1 || continue
    said=$("$name" -I -c "$probe" </dev/null 2>/dev/null)
    case $? in
        0) printf '%s\n' "$name"; exit 0 ;;
        3) seen="$seen, $name is $said" ;;
        4) [ -n "$bare" ] || bare=$said ;;
    esac
done

if [ -n "$bare" ]; then
    echo "set-up: Python $bare is here but cannot make environments, its venv module is missing: apt install python$bare-venv (Debian, Ubuntu) and run the same command again, or use conda: conda env create -f environment.yml" >&2
else
    [ -n "$seen" ] || seen=', there is no Python at all'
    echo "set-up: no Python 3.11 to 3.14 was found (${seen#, }): $doors" >&2
fi
exit 1
