"""Each lab in labs/ is proven: its solution, its stub, its wrong solutions and its notebook."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from without_linux import checked

from grader.__main__ import main

ROOT = Path(__file__).resolve().parents[2]
LABS = sorted(path.parent for path in (ROOT / "labs").glob("*/lab.toml"))
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
    hidden = [one for one in json.loads((out / "bundle" / "lab.json").read_text())["checks"] if one["hidden"]]
    copy = b"".join(path.read_bytes() for path in (out / "student").rglob("*") if path.is_file())
    assert hidden and not list((out / "student").rglob("hidden.py"))
    assert not [one["id"] for one in hidden if one["rule"].encode() in copy]
    if lab.name.startswith("4-"):
        same_bytes(out, tmp_path)
    if lab.name.startswith("1-"):
        as_documented(out, tmp_path)
    shutil.copy(out / "solution" / "solution.py", out / "student")
    done = checked(out / "student")
    visible = len(json.loads((out / "student" / "lab.json").read_text())["points"])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith(f"visible: {visible} of {visible} pass.")


def as_documented(built: Path, tmp_path: Path) -> None:
    """Each command of the section "A student asks why" in docs/teaching.md prints what is below it."""
    right = (built / "solution" / "solution.py").read_text()
    assert right.count("[product, category] += diff") == 1
    lost = "[product, category] = max(0, self.info[product][product, category] + diff)"
    for id, text in {"s0007": right.replace("[product, category] += diff", lost), "s0008": right}.items():
        (tmp_path / "subs" / id).mkdir(parents=True)
        (tmp_path / "subs" / id / "solution.py").write_text(text)
    (tmp_path / "roster.csv").write_text("id,name\ns0007,Student 7\ns0008,Student 8\n")
    (tmp_path / "build" / "labs").mkdir(parents=True)
    (tmp_path / "build" / "labs" / "1-max-and-join").symlink_to(built)
    words = ("class", tmp_path / "subs", "--lab", built, "--out", tmp_path / "grades" / "lab1")
    assert main([*map(str, words), "--roster", str(tmp_path / "roster.csv")]) == 0
    section = (
        (ROOT / "docs" / "teaching.md").read_text().partition("\n## A student asks why\n")[2].partition("\n## ")[0]
    )
    blocks = [textwrap.dedent(block) for block in re.findall(r"(?:^ {7}.*\n)+", section, re.M)]
    assert len(blocks) == 6
    for command, said in zip(blocks[::2], blocks[1::2], strict=True):
        line = re.sub("^python ", f"{sys.executable} ", command)
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(line, shell=True, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True)
        assert textwrap.dedent(done.stdout) == said


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
