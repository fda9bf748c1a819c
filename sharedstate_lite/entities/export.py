"""Exports a program and the runtime to a folder that needs only Python. The folder is a submission for the grader."""

from __future__ import annotations

import ast
import shutil
import sys
from pathlib import Path

from .log import ServeError
from .routes import Routes
from .serve import load

_MARK = "# Written by 'export', which overwrites this folder if it runs again.\n"
_TOML = """name = "{name}"
base_url = "http://127.0.0.1:{{port:{name}}}"

[[process]]
name = "{name}"
role = "other"
command = ["python3", "-I", ".", "serve", "{file}", "--port", "{{port}}", "--data", "{{data}}"]
ready = {{ tcp = "{{port}}" }}
"""
_MAIN = '''"""The commands of the program in this folder: python3 -I . serve {file} --port 8000 --data data"""

from {package}.__main__ import main

main()
'''


def export(source: Path, folder: Path) -> None:
    """Copy a program and the runtime to a folder, and write a checkout.toml.

    Raises ServeError if the folder is not empty and was not written by `export`, or if the program imports anything
    except the standard library and this package.
    """
    package = __package__ or ""
    for node in ast.walk(ast.parse(source.read_bytes())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += ["." if node.level else str(node.module)] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            if name.partition(".")[0] not in sys.stdlib_module_names and not f"{name}.".startswith(f"{package}."):
                text = f"imports {name}; an exported program imports only the standard library and {package}"
                raise ServeError(f"{source}: {text}")
    Routes(load(source))
    toml = folder / "checkout.toml"
    if folder.exists() and any(folder.iterdir()) and not (toml.is_file() and toml.read_text().startswith(_MARK)):
        raise ServeError(f"{folder} is not empty and was not written by 'export'; choose another folder")
    here, runtime = Path(__file__).parent, folder.joinpath(*package.split("."))
    if runtime.exists() and runtime.samefile(here):
        raise ServeError(f"{folder} contains the runtime that runs this command; choose another folder")
    shutil.rmtree(runtime, ignore_errors=True)
    shutil.copytree(here, runtime, ignore=shutil.ignore_patterns("*spark*", "show*", "__pycache__"))
    (runtime.parent / "__init__.py").write_text("")
    shutil.copy(source, folder / source.name)
    (folder / "__main__.py").write_text(_MAIN.format(file=source.name, package=package))
    toml.write_text(_MARK + _TOML.format(name=source.stem, file=source.name))
