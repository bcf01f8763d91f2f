from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from terrazzo.testing.cluster import Process, Run, sweep, wait_until
from terrazzo.testing.cluster.runs import Recorded, open_runs, started_at

SLEEP = ["sleep", "600"]
SWEEPS = """
import sys
from pathlib import Path
from terrazzo.testing.cluster import sweep
print(sweep(Path(sys.argv[1])))
"""


COMES_AND_GOES = """
import sys
from pathlib import Path
from terrazzo.testing.cluster import Process, Run
for _ in range(8):
    with Run(Path(sys.argv[1])) as run:
        part = Process("part", ["sleep", "600"], run).start()
        assert part.alive
        assert run.folder.exists()
"""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with Run(tmp_path) as run:
        yield run


def left_behind(base: Path, row: Recorded | None = None) -> Path:
    """Make the folder of a run whose owner is gone."""
    folder = base / "run-left"
    for name in ("processes", "kernel"):
        (folder / name).mkdir(parents=True)
    (folder / "owner.lock").touch()
    if row is not None:
        (folder / "processes" / "part").write_bytes(msgspec.json.encode(row))
    return folder


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SLEEP, start_new_session=True) as process:  # noqa: S603 - sleep
        yield process
        process.kill()


def test_a_recorded_process_is_ended(tmp_path: Path, stranger: subprocess.Popen[bytes]) -> None:
    folder = left_behind(tmp_path, Recorded(stranger.pid, started_at(stranger.pid) or 0))
    assert sweep(tmp_path) == ["run-left"]
    assert stranger.wait(20) == -signal.SIGKILL
    assert not folder.exists()


def test_a_process_that_has_the_number_by_chance_is_left_alone(
    tmp_path: Path, stranger: subprocess.Popen[bytes]
) -> None:
    folder = left_behind(tmp_path, Recorded(stranger.pid, (started_at(stranger.pid) or 0) - 1))
    sweep(tmp_path)
    assert not folder.exists()
    assert stranger.poll() is None


@pytest.mark.parametrize("text", [b"", b"{", b'{"pid": "x"}', b"\xff"])
def test_half_written_records_hurt_nobody(tmp_path: Path, text: bytes) -> None:
    folder = left_behind(tmp_path)
    (folder / "processes" / "part").write_bytes(text)
    sweep(tmp_path)
    assert not folder.exists()


def test_a_run_whose_owner_lives_is_left_alone(run: Run, tmp_path: Path) -> None:
    part = Process("part", SLEEP, run).start()
    done = subprocess.run([sys.executable, "-c", SWEEPS, tmp_path], capture_output=True, text=True, check=True)  # noqa: S603 - the program above
    assert done.stdout.strip() == "[]"
    assert part.alive
    assert run.folder.exists()


def test_runs_that_come_and_go_at_once_do_not_hurt_each_other(tmp_path: Path) -> None:
    command = [sys.executable, "-c", COMES_AND_GOES, str(tmp_path)]
    started = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]  # noqa: S603 - the program above
    for process in started:
        said = process.communicate()[1]
        assert process.returncode == 0, said
    sweep(tmp_path)
    assert list(tmp_path.glob("run-*")) == []


def test_nothing_but_runs_is_swept(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    sweep(tmp_path)
    assert (tmp_path / "letters").exists()


def may(*command: str) -> bool:
    return os.getuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0  # noqa: S603 - given below


def test_mounts_under_a_left_folder_are_undone_innermost_first(tmp_path: Path) -> None:
    folder = left_behind(tmp_path)
    outer = folder / "pods here"
    outer.mkdir()
    if not may("mount", "-t", "tmpfs", "none", str(outer)):
        pytest.skip("needs the right to mount")
    (outer / "inner").mkdir()
    assert may("mount", "-t", "tmpfs", "none", str(outer / "inner"))
    sweep(tmp_path)
    assert not folder.exists()
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text("utf-8")


def test_recorded_links_are_removed_and_no_others(run: Run) -> None:
    ours, other = (f"tz{os.getpid()}{letter}" for letter in "ab")
    if not may("ip", "link", "add", ours, "type", "bridge"):
        pytest.skip("needs the right to make a bridge")
    assert may("ip", "link", "add", other, "type", "bridge")
    try:
        run.record_kernel("link", ours)
        run.close()
        assert not may("ip", "link", "show", ours)
        assert may("ip", "link", "show", other)
    finally:
        may("ip", "link", "delete", other)


def test_open_runs_are_those_that_are_not_closed(tmp_path: Path) -> None:
    with Run(tmp_path) as run:
        assert run in open_runs()
    assert run not in open_runs()


def test_closing_twice_is_closing_once(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.close()
    run.close()


def test_the_start_of_nobody_is_none() -> None:
    assert started_at(os.getpid())
    assert started_at(2**22 + 1) is None


def test_a_zombie_counts_as_dead() -> None:
    with subprocess.Popen(["true"]) as process:  # noqa: S607 - whichever true there is
        wait_until(lambda: started_at(process.pid) is None, "it has ended, and nobody asked how")
