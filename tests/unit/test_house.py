"""Rules of the house that no linter knows: sizes, names, promises, reasons, and no trace of one machine."""

from __future__ import annotations

import ast
import itertools
import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "terrazzo"
MOST_LINES = 399
VAGUE = {"util", "utils", "common", "manager", "managers", "helper", "helpers"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
ROOMS = sorted(file.parent.name for file in PACKAGE.glob("*/__init__.py"))

REGISTRY = re.compile(
    r"\b(?:pypi|pythonhosted|npmjs|crates)\.(?:org|com|io)\b|\bproxy\.golang\b|\brepo\d?\.maven\b|\bdeb\.debian\b"
)
MACHINE_PATH = re.compile(r"(?<![\w.~*-])/(?:work|root|home|Users)/(?!\s)")
"""A path that starts at the root of somebody's disk; ``../shared/…`` and ``https://host/work/…`` are none."""
BARE_NOQA = re.compile(r"#\s*(?:ruff:\s*)?noqa(?!: ?[A-Z]+\d+(?:, ?[A-Z]+\d+)* +- \S|: ARG002$)")
"""ARG002 is its own reason: the method's signature is its parent's."""
PIN = re.compile(r"^([A-Za-z0-9._-]+)==\S+( ;.*)? \\$")


def vague(path: Path) -> bool:
    return bool(VAGUE & set(re.split(r"[_\W]+", path.stem.lower())))


@cache
def ours() -> tuple[Path, ...]:
    """Return the text files of this checkout that are, or would be, committed."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607 - whichever git there is
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listing.returncode:
        pytest.skip("this is no git checkout, so nobody says which files are the project's")
    files = (ROOT / name for name in listing.stdout.decode().split("\0") if name)
    return tuple(file for file in files if file.is_file())


def found(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for file in ours()
        if file != Path(__file__)
        for number, line in enumerate(file.read_text("utf-8", errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]


def test_modules_are_short() -> None:
    lengths = {file.relative_to(ROOT): len(file.read_text("utf-8").splitlines()) for file in PACKAGE.rglob("*.py")}
    assert {file: lines for file, lines in lengths.items() if lines > MOST_LINES} == {}
    assert len(lengths) > len(ROOMS)


def test_no_file_has_a_name_that_says_nothing() -> None:
    assert [str(file.relative_to(ROOT)) for file in ours() if vague(file)] == []


@pytest.mark.parametrize("name", ["utils.py", "pod_utils.py", "Manager.py", "cli-helper.sh", "common.toml"])
def test_names_that_say_nothing_are_known(name: str) -> None:
    assert vague(Path(name))
    assert not vague(Path("commonality.py"))


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_states_its_promise(room: str) -> None:
    text = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text("utf-8"))) or ""
    assert re.search(r"^Promise: \S", text, re.MULTILINE)
    empty = not any(file.name != "__init__.py" for file in (PACKAGE / room).rglob("*.py"))
    assert ("(not built yet)" in text) == empty


def test_every_room_has_its_layer() -> None:
    layers = PROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
    listed = {room.removeprefix("terrazzo.") for layer in layers for room in layer.split(" | ")}
    assert listed == set(ROOMS) - {"testing"}


def test_what_is_shipped_does_not_need_the_test_tools() -> None:
    needs = {"terrazzo.testing", "hypothesis", "pytest"}
    for file in PACKAGE.rglob("*.py"):
        if file.is_relative_to(PACKAGE / "testing"):
            continue
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
            for name in names:
                assert not any(f"{name}.".startswith(f"{need}.") for need in needs), f"{file}: {name}"


def test_no_registry_is_named() -> None:
    assert found(REGISTRY) == []


def test_no_path_of_one_machine_is_left() -> None:
    assert found(MACHINE_PATH) == []


def test_every_exception_to_a_rule_has_its_code_and_reason() -> None:
    assert [line for line in found(BARE_NOQA) if line.split(":")[0].endswith(".py")] == []


def test_every_ignore_of_the_linter_has_its_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    lines = [line for line in text.splitlines() if re.match(r'\s+"[A-Z]+\d*",', line)]
    assert lines
    assert [line for line in lines if not re.search(r",\s+# \S", line)] == []


@pytest.mark.parametrize(
    ("pattern", "bad", "good"),
    [
        (REGISTRY, "https://pypi" + ".org/simple", "a pypi mirror of your own"),
        (REGISTRY, "files.pythonhosted" + ".org", "pythonhosted"),
        (REGISTRY, "registry.npmjs" + ".org", "an npmjs account"),
        (MACHINE_PATH, 'open("/home' + '/me/pods.yaml")', "../home/me"),
        (MACHINE_PATH, "/work" + "/main/src", "../shared/work/main"),
        (MACHINE_PATH, "cd /root" + "/.cache", "https://host/root/page"),
        (BARE_NOQA, "x = 1  # noqa", "x = 1  # noqa: F401 - kept for its side effect"),
        (BARE_NOQA, "x = 1  # noqa: ARG002, F401", "def grow(self, unused: int) -> int:  # noqa: ARG002"),
        (BARE_NOQA, "x = 1  # noqa: F401", "# ruff: noqa: S603, S607 - the processes are ours"),
    ],
)
def test_what_must_not_be_there_would_be_found(pattern: re.Pattern[str], bad: str, good: str) -> None:
    assert pattern.search(bad)
    assert not pattern.search(good)


@pytest.mark.parametrize("name", ["run", "dev", "docs"])
def test_requirements_are_pinned_hashed_and_name_no_place(name: str) -> None:
    lines = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8").splitlines()
    starts = [line for line in lines if line and not line[0].isspace() and not line.startswith("#")]
    assert starts
    for line in starts:
        assert PIN.match(line), f"requirements/{name}.txt: {line}"
    for line, after in itertools.pairwise(lines):
        assert not line.endswith("\\") or after.startswith("    --hash=sha256:")
    assert not any("://" in line or line.lstrip().startswith("--index") for line in lines)


def test_requirements_cover_what_the_package_needs() -> None:
    text = (ROOT / "requirements" / "run.txt").read_text("utf-8")
    pinned = {match[1].lower() for line in text.splitlines() if (match := PIN.match(line))}
    needed = {re.split(r"[<>=!~ ]", need)[0].lower() for need in PROJECT["project"]["dependencies"]}
    assert needed <= pinned
    assert set(PROJECT["build-system"]["requires"]) <= pinned


def test_make_help_lists_every_target_with_a_sentence() -> None:
    text = (ROOT / "Makefile").read_text("utf-8")
    phony = set(re.findall(r"^\.PHONY:(.*)$", text, re.MULTILINE)[0].split())
    assert set(re.findall(r"^([a-z-]+):.*## \S", text, re.MULTILINE)) == phony
    assert {"demo", "test", "test-long", "bench", "lint", "docs", "help"} <= phony


@pytest.mark.parametrize("name", [".ci/run", "tools/venv.sh"])
def test_scripts_stop_at_the_first_fault_and_can_be_run(name: str) -> None:
    script = ROOT / name
    assert script.stat().st_mode & 0o111
    assert re.search(r"^set -euo pipefail$", script.read_text("utf-8"), re.MULTILINE)
