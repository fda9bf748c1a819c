"""Each lab in labs/ is proven: its solution, its stub, its wrong solutions and its notebook."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from without_linux import checked

from grader.__main__ import main

LABS = sorted(path.parent for path in (Path(__file__).resolve().parents[2] / "labs").glob("*/lab.toml"))
BROKEN = ("answer = await connection(q)", "raise RuntimeError(f'{asyncio.current_task()}, {object()}')")


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_a_lab_is_built(lab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The solution has every point, the stub none, and each wrong solution fails where it should.

    In the student's copy, in a path with blanks and umlauts, the solution passes without what other systems lack.
    """
    out = tmp_path / "Übung 1, zweiter Versuch"
    assert main(["lab", "build", str(lab), "--out", str(out)]) == 0, capsys.readouterr().err
    proof = json.loads((out / "proof.json").read_text())
    assert len(proof["mutants"]) >= 8
    if lab.name.startswith("4-"):
        same_bytes(out, tmp_path)
    shutil.copy(out / "solution" / "solution.py", out / "student")
    done = checked(out / "student")
    visible = len(json.loads((out / "student" / "lab.json").read_text())["points"])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith(f"visible: {visible} of {visible} pass.")


def same_bytes(built: Path, tmp_path: Path) -> None:
    """Code that runs on an event loop gives the same files with one process and with two."""
    right = (built / "solution" / "solution.py").read_text()
    assert right.count(BROKEN[0]) == right.count("self.cache.gone(task)") == 1
    texts = {"s01": right, "s02": right.replace(*BROKEN), "s03": right.replace("self.cache.gone(task)", "pass")}
    for id, text in texts.items():
        (tmp_path / "subs" / id).mkdir(parents=True)
        (tmp_path / "subs" / id / "solution.py").write_text(text)
    found = []
    for jobs in ("1", "2"):
        out = tmp_path / f"out-{jobs}"
        assert main(["class", str(tmp_path / "subs"), "--lab", str(built), "--out", str(out), "--jobs", jobs]) == 0
        files = [path for path in sorted(out.rglob("*")) if path.is_file() and path.name not in ("run.json", ".lock")]
        found.append({path.relative_to(out): path.read_bytes() for path in files})
    assert found[0] == found[1]
    said = {id: found[0][Path("submissions", id, "result.json")].decode() for id in texts}
    assert "Task pending" in said["s02"] and "object at 0x..." in said["s02"]
    assert ["wrong" in said[id] for id in texts] == [False, False, True]
