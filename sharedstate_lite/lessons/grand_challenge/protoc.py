"""Generate challenger_pb2.py and .pyi: ``python -m sharedstate_lite.lessons.grand_challenge.protoc [FOLDER]``.

Both files are in the repository, so the kit runs without a compiler. A test generates them again and compares. The
compiler is in grpcio-tools, a package of the tests.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def make(folder: Path = HERE) -> None:
    """Write both files into ``folder``. Raises CalledProcessError if the compiler fails."""
    options = [f"-I{HERE}", f"--python_out={folder}", f"--pyi_out={folder}", "challenger.proto"]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *options], check=True, cwd=HERE)


if __name__ == "__main__":
    make(*map(Path, sys.argv[1:]))
