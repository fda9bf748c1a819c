"""The command: ``python -m website``. See the package."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import nbformat

from sharedstate_lite.errors import Error

from . import __doc__ as about
from .execution import ROOT, SiteError, executed
from .publish import publish, refuse


def main(arguments: list[str]) -> int:
    """Build the site. Return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m website", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NN", help="numbers of notebooks; all if there is none")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site", help="the folder of the site")
    parser.add_argument("--executed", type=Path, help="a folder with executed notebooks; nothing is run")
    chosen = parser.parse_args(arguments)
    try:
        refuse(chosen.out.absolute())
        paths = found(chosen.executed or ROOT / "notebooks", chosen.names)
        made = executed(paths) if chosen.executed is None else [nbformat.read(p, as_version=4) for p in paths]
        publish({path.name: each for path, each in zip(paths, made, strict=True)}, chosen.out.absolute(), paths)
    except (Error, OSError) as error:
        print(f"site: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nsite: interrupted; run the same command again to continue", file=sys.stderr)
        return 130
    print(chosen.out / "index.html")
    return 0


def found(folder: Path, names: list[str]) -> list[Path]:
    """Return the notebooks of a folder, or those with these numbers. Raises SiteError if there is none."""
    paths = sorted(folder.glob("*.ipynb"))
    known = {path.name.partition("-")[0]: path for path in paths}
    missing = [name for name in names if name not in known]
    if missing or not paths:
        raise SiteError(f"{folder} has no notebook {' and no '.join(missing)}".rstrip())
    return [known[name] for name in names] if names else paths


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
