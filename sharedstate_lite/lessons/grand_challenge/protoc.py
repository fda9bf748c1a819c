"""Generates challenger_pb2.py and challenger_pb2.pyi from challenger.proto.

    python -m sharedstate_lite.lessons.grand_challenge.protoc [FOLDER]

Both files are in the repository, so the kit runs without the compiler. A test generates them again and compares the
results. The compiler is in the package grpcio-tools, which only the tests need.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def make(folder: Path = HERE) -> None:
    """Write both files to ``folder``. Raises CalledProcessError if the compiler fails."""
    options = [f"-I{HERE}", f"--python_out={folder}", f"--pyi_out={folder}", "challenger.proto"]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *options], check=True, cwd=HERE)


if __name__ == "__main__":
    make(*map(Path, sys.argv[1:]))
