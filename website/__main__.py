"""The command: ``python -m website``. See the package."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sharedstate_lite.errors import Error

from . import __doc__ as about

ROOT = Path(__file__).resolve().parents[1]


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
        paths = found(chosen.executed or ROOT / "notebooks", chosen.names)
        built(paths, chosen.out.absolute(), run=chosen.executed is None)
    except (Error, OSError) as error:
        print(f"site: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nsite: interrupted; run the same command again to continue", file=sys.stderr)
        return 130
    print(chosen.out / "index.html")
    return 0


def found(folder: Path, names: list[str]) -> list[Path]:
    """Return the notebooks of a folder, or those with these numbers. Raises Error if there is none."""
    paths = sorted(folder.glob("*.ipynb"))
    known = {path.name.partition("-")[0]: path for path in paths}
    missing = [name for name in names if name not in known]
    if missing or not paths:
        raise Error(f"{folder} has no notebook {' and no '.join(missing)}".rstrip())
    return [known[name] for name in names] if names else paths


def built(paths: list[Path], target: Path, run: bool) -> None:
    """Write the site with these notebooks, which are run first if ``run`` is True."""
    # These imports take seconds, and Ctrl-C should end them as it ends the rest.
    import nbformat

    from .execution import executed
    from .publish import publish, refuse

    refuse(target)
    notebooks = executed(paths) if run else [nbformat.read(path, as_version=4) for path in paths]
    publish({path.name: each for path, each in zip(paths, notebooks, strict=True)}, target)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
