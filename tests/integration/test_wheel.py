"""The wheel as a user gets it: built, installed away from the checkout, and run there.

No network: the dependencies of this environment are lent to the new one by a path file, which does not follow the path
files of the folder that it names, so that the checkout itself stays out of reach.
"""

# ruff: noqa: S603 - the processes are this Python and the installed program

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from terrazzo import __version__

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "cli"
FIXTURES = ROOT / "tests" / "fixtures" / "cli"
CLUSTER = ("--cluster", f"{FIXTURES}/cluster.yaml")

COMMANDS: dict[str, tuple[tuple[str, ...], int]] = {
    "inventory.json": (("inventory", *CLUSTER, "--request", "8Gi,30%", "-o", "json"), 0),
    "plan-mixed.txt": (("plan", "-f", f"{FIXTURES}/pods.yaml", *CLUSTER), 3),
    "explain-waits.txt": (("explain", "waits", *CLUSTER, "--devices"), 3),
}
"""Golden file of the checkout's own output: what it must equal, and the exit code."""


def run(*args: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    foreign = ("PYTHON", "PIP_", "TERRAZZO")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return subprocess.run(
        list(map(str, args)), cwd=cwd, env=clean, capture_output=True, text=True, check=False, timeout=120
    )


def succeed(*args: str | Path, cwd: Path) -> str:
    done = run(*args, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    succeed(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a virtual environment that holds the wheel; its path has a space, as users' paths do."""
    folder = tmp_path_factory.mktemp("away") / "a place"
    venv.create(folder, symlinks=True)
    paths = sysconfig.get_paths(vars={"base": str(folder), "platbase": str(folder)})
    lent = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    Path(paths["purelib"], "lent.pth").write_text("\n".join(sorted(lent)) + "\n", "utf-8")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", folder / "bin" / "python")
    succeed(*pip, "install", "-q", "--no-index", "--no-deps", wheel, cwd=folder)
    return folder


def test_the_wheel_carries_the_package_and_the_examples_and_nothing_else(wheel: Path) -> None:
    expected = {
        f"{inside}/{file.relative_to(ROOT / outside).as_posix()}"
        for outside, inside in (("src/terrazzo", "terrazzo"), ("examples", "terrazzo/examples"))
        for file in (ROOT / outside).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in names if ".dist-info/" not in name} == expected
    assert any(name.endswith(".toml") for name in expected)


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    archive = zipfile.ZipFile(wheel)
    about = f"terrazzo-{__version__}.dist-info"
    assert archive.read(f"{about}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    metadata = message_from_bytes(archive.read(f"{about}/METADATA"))
    assert metadata["Version"] == __version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == project["requires-python"]
    needed = set(metadata.get_all("Requires-Dist", []))
    assert {each for each in needed if "extra ==" not in each} == set(project["dependencies"])
    assert {each.partition(";")[0] for each in needed if "extra ==" in each} == {
        each for extra in project["optional-dependencies"].values() for each in extra
    }
    assert metadata.get_payload(decode=True) == (ROOT / "README.md").read_bytes()


def test_what_runs_is_the_installed_package(installed: Path) -> None:
    origin = succeed(installed / "bin" / "python", "-c", "import terrazzo; print(terrazzo.__file__)", cwd=installed)
    assert Path(origin.strip()).is_relative_to(installed)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_the_same_as_in_the_checkout(installed: Path, name: str) -> None:
    args, code = COMMANDS[name]
    done = run(installed / "bin" / "terrazzo", *args, cwd=installed)
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout.replace(str(ROOT), "…") == (GOLDEN / name).read_text("utf-8")


def test_help(installed: Path) -> None:
    shown = succeed(installed / "bin" / "terrazzo", "--help", cwd=installed)
    golden = (GOLDEN / "help.txt").read_text("utf-8")
    assert shown.split() == golden.split()  # lines break elsewhere in a process of its own


def test_the_demo_finds_its_examples(installed: Path) -> None:
    shown = succeed(installed / "bin" / "terrazzo", "demo", "one-card", cwd=installed)
    assert "Terrazzo" in shown
    assert str(ROOT) not in shown
    [line] = [line for line in shown.splitlines() if line.startswith("files: ")]
    assert all((installed / file).exists() for file in shlex.split(line)[1:]), "relative to where it was typed"
