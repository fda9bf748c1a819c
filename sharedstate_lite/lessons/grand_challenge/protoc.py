"""Makes challenger_pb2.py and challenger_pb2.pyi: ``python -m sharedstate_lite.lessons.grand_challenge.protoc [FOLDER]``.

Both are kept with the sources, so that nobody needs a compiler to run the kit; a test
makes them again and compares. grpcio-tools, which brings the compiler, is among the
packages of the tests.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def make(folder: Path = HERE) -> None:
    """Write both files into ``folder``. Raises CalledProcessError where the compiler refuses the .proto."""
    options = [f"-I{HERE}", f"--python_out={folder}", f"--pyi_out={folder}", "challenger.proto"]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *options], check=True, cwd=HERE)


if __name__ == "__main__":
    make(*map(Path, sys.argv[1:]))
