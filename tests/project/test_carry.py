"""What a maintainer relies on: versions that agree, links, templates that parse, and names that others may change."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import sharedstate_lite

ROOT = Path(__file__).resolve().parents[2]
TRACKED = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
PAGES = [name for name in TRACKED if name.endswith(".md") and not name.startswith("tests/")]
FOLDERS = ("bench", "grader", "labs", "notebooks")
"""Those whose README says what is where."""
FOREIGN = re.compile(
    r"_(?:j(?:vm|sc|df|sparkSession)|sc|gateway\w*|active\w+|instantiated\w+|accumulator\w+|streaming\w+)"
)
"""What a private name of PySpark looks like."""


def test_the_version_is_the_top_entry_of_the_changelog() -> None:
    """The package has it in one place, from which it is built; no other file repeats it."""
    entries = re.findall(r"^## (\S+?),? ", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert entries[0] == sharedstate_lite.__version__
    assert len(entries) == len(set(entries))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"]["path"] == "sharedstate_lite/__init__.py"
    assert not re.search(r"^version:", (ROOT / "CITATION.cff").read_text(), re.M)


def heading(line: str) -> str:
    """The anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", re.sub(r"[`*]|\]\([^)]*\)", "", line).strip().lower()).replace(" ", "-")


def broken(page: str, text: str) -> list[str]:
    """The links of a page that lead to no file of the repository, or to no heading of it."""
    found = []
    plain = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", plain):
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        if re.match(r"[a-z]+:", target):
            continue
        if not file.exists():
            found.append(target)
        elif anchor and file.suffix == ".md":
            lines = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.M)
            found += [] if anchor.lower() in map(heading, lines) else [target]
    return found


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    """Each relative link of a page leads to a file, and to a heading if it names one."""
    assert broken(page, (ROOT / page).read_text(encoding="utf-8")) == []


def test_a_broken_link_is_found() -> None:
    """A file that is not there, and a heading that is not there; not in code."""
    text = "[a](docs/gone.md) [b](CHANGELOG.md#gone) [c](CHANGELOG.md#changed-numbers) `[d](gone)` [e](https://x.y/#z)"
    assert broken("README.md", text) == ["docs/gone.md", "CHANGELOG.md#gone"]


@pytest.mark.parametrize(
    "page", ["CONTRIBUTING.md", "SECURITY.md", "docs/upgrades.md", *(f"{f}/README.md" for f in FOLDERS[1:])]
)
def test_files_that_a_page_names_are_there(page: str) -> None:
    """A path in code that begins with a folder of the repository exists; a glob fits some file."""
    text = (ROOT / page).read_text(encoding="utf-8")
    folders = "bench|docs|grader|labs|notebooks|setup|sharedstate_lite|tests|website"
    paths = re.findall(rf"(?<![\w./-])((?:{folders})/[\w./*-]+)", text)
    named = [path.rstrip(".") for path in paths if not re.search(r"\bNN?\b|N-name", path)]
    assert [path for path in named if not any(ROOT.glob(path))] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_says_what_is_where(folder: str) -> None:
    """Its README names each file and folder in it; all but that of bench/ have at most 25 lines."""
    text = (ROOT / folder / "README.md").read_text(encoding="utf-8")
    there = {name.split("/")[1] for name in TRACKED if name.startswith(f"{folder}/")} - {"README.md"}
    if folder == "notebooks":
        there = {name for name in there if not name.endswith(".ipynb")}
    missing = [name for name in sorted(there) if name.removesuffix(".py") not in text and not name.startswith("__")]
    assert missing == []
    assert folder == "bench" or len(text.splitlines()) <= 25


def private() -> dict[str, set[str]]:
    """The private names of PySpark that the library uses on objects that are not its own: name -> files."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "sharedstate_lite").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and FOREIGN.fullmatch(node.attr) and ast.unparse(node.value) != "self":
                found.setdefault(node.attr, set()).add(path.relative_to(ROOT / "sharedstate_lite").as_posix())
    return found


def test_the_private_names_of_spark_are_listed() -> None:
    """docs/upgrades.md names each private name of PySpark with each file that uses it, and no other."""
    rows = re.findall(r"^\| (`_.+?) \|[^|]*\| (.+?) \|", (ROOT / "docs" / "upgrades.md").read_text(), re.M)
    listed = {
        (name, file)
        for names, files in rows
        for name in re.findall(r"`(\w+)`", names)
        for file in re.findall(r"`([^`]+)`", files)
    }
    used = private()
    assert {name for name, _ in listed} == set(used)
    assert {(name, file) for name, files in used.items() for file in files} <= listed
    assert {file for _, file in listed} == set().union(*used.values())


YAML = [name for name in TRACKED if name.endswith((".yml", ".yaml"))]
JSON = [name for name in TRACKED if name.endswith(".json") and name.startswith((".devcontainer", "website"))]


@pytest.mark.parametrize("name", YAML)
def test_yaml_can_be_read(name: str) -> None:
    """Each file of settings is one document."""

    class Loader(yaml.SafeLoader):
        """Reads the tags of the site's settings as what they contain."""

    Loader.add_multi_constructor("", lambda loader, tag, node: tag)  # type: ignore[no-untyped-call]
    assert yaml.load((ROOT / name).read_text(encoding="utf-8"), Loader)


@pytest.mark.parametrize("name", JSON)
def test_json_can_be_read(name: str) -> None:
    """The container's settings and the browser's packages."""
    assert json.loads((ROOT / name).read_text(encoding="utf-8"))


def settings(name: str) -> Any:
    """A file of YAML."""
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_workflows_use_targets_and_pythons_that_exist() -> None:
    """The matrix has the Pythons of pyproject.toml, and each `make` of a workflow is a target."""
    matrix = settings(".github/workflows/test.yml")["jobs"]["test"]["strategy"]["matrix"]["include"]
    pythons = {str(each["python"]) for each in matrix if each["os"].startswith("ubuntu")}
    assert pythons == {f"3.{minor}" for minor in range(11, 15)}
    assert {each["os"].partition("-")[0] for each in matrix} == {"ubuntu", "macos"}
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M)
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        assert set(re.findall(r"run: make (\w+)", path.read_text())) <= set(targets)


def test_dependabot_watches_every_package_file() -> None:
    """pip at the top, each folder with a package.json, and the actions of the workflows."""
    updates = {(each["package-ecosystem"], each["directory"]) for each in settings(".github/dependabot.yml")["updates"]}
    folders = {f"/{Path(name).parent.as_posix()}" for name in TRACKED if Path(name).name == "package.json"}
    assert updates == {("pip", "/"), ("github-actions", "/"), *(("npm", folder) for folder in folders)}


def test_issue_templates_ask_for_what_is_needed() -> None:
    """Each has a name, a description and a field that must be filled in; nothing else can be reported publicly."""
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    assert [form.stem for form in forms] == ["config", "lesson", "number", "points"]
    for form in forms[1:]:
        content = settings(str(form.relative_to(ROOT)))
        assert {"name", "description", "body"} <= content.keys()
        ids = [field["id"] for field in content["body"] if field["type"] != "markdown"]
        assert len(ids) == len(set(ids)) > 1
        assert any(field.get("validations", {}).get("required") for field in content["body"])
