"""The folder of one run of the harness, and clearing what a killed run left.

A run holds a lock on its folder as long as its process lives; the kernel lets go of it however the process ends. A
folder whose lock is free belongs to nobody: the processes recorded in it are killed (a number that meanwhile belongs
to another process is recognised by its start time), and so is whoever is in its control groups; mounts under it are
undone, its network devices removed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

import msgspec

from terrazzo.testing.cluster.cgroups import end_group
from terrazzo.testing.cluster.ports import reserve_port
from terrazzo.testing.cluster.waiting import wait_until

if TYPE_CHECKING:
    from terrazzo.testing.cluster.process import Process

_LOCK = "owner.lock"
_PROCESSES = "processes"
_KERNEL = "kernel"
_open: list[Run] = []


class Recorded(msgspec.Struct, frozen=True):
    """A started process as it stands in the run's folder.

    Attributes:
        pid: number of the process and of its group.
        started: clock ticks from boot to its start, field 22 of ``/proc/PID/stat`` (proc(5)).
    """

    pid: int
    started: int


def base_folder() -> Path:
    """Return the folder under which all runs of this user lie."""
    return Path(tempfile.gettempdir()) / f"terrazzo-cluster-{os.getuid()}"


def started_at(pid: int) -> int | None:
    """Return when a process started, in clock ticks from boot; None when there is none or it is a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()  # the name before it may hold anything
    return None if fields[0] in "ZX" else int(fields[19])


class Run:
    """One run: a folder, the processes and parts of the kernel that belong to it.

    Args:
        base: where runs lie; the machine's temporary folder by default.
    """

    def __init__(self, base: Path | None = None) -> None:
        self.base = base or base_folder()
        sweep(self.base)
        with _creating(self.base):
            self.folder = Path(tempfile.mkdtemp(prefix="run-", dir=self.base))
            self._lock = os.open(self.folder / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        for name in (_PROCESSES, _KERNEL):
            (self.folder / name).mkdir()
        self.processes: dict[str, Process] = {}
        _open.append(self)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def port(self) -> int:
        """Return a free port that stays this run's; see ``ports``."""
        return reserve_port(self.base / "ports")

    def make(self, name: str) -> Path:
        """Return a folder in the run's folder, made if it is not there."""
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def record(self, process: Process) -> None:
        """Note a process that just started, so that a later run can end it."""
        self.processes[process.name] = process
        row = Recorded(process.pid, started_at(process.pid) or 0)
        (self.folder / _PROCESSES / process.name).write_bytes(msgspec.json.encode(row))

    def record_kernel(self, kind: Literal["cgroup", "link"], name: str) -> None:
        """Note a control group or a network device that is about to be made."""
        (self.folder / _KERNEL / f"{kind}.{name}").touch()

    def close(self) -> None:
        """Stop what still runs, last started first, and remove the folder."""
        for process in reversed(self.processes.values()):
            process.stop()
        _clear(self.folder)
        if self in _open:
            _open.remove(self)
            os.close(self._lock)


def open_runs() -> list[Run]:
    """Return the runs of this process that are not closed yet, for who shows their logs."""
    return list(_open)


@contextmanager
def _creating(base: Path) -> Iterator[None]:
    """Hold off other runs that would clear a folder before it is locked."""
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (base / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def sweep(base: Path | None = None) -> list[str]:
    """Clear what killed runs left, and return the names of their folders."""
    base = base or base_folder()
    cleared = []
    with _creating(base):
        for folder in sorted(base.glob("run-*")):
            try:
                lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:
                continue  # its owner just removed it
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _clear(folder)
            except BlockingIOError:
                continue  # its owner lives
            finally:
                os.close(lock)
            cleared.append(folder.name)
    return cleared


def _clear(folder: Path) -> None:
    for file in (folder / _PROCESSES).glob("*"):
        _end(file)
    for file in (folder / _KERNEL).glob("cgroup.*"):
        end_group(file.name.partition(".")[2])
    for point in _mounts(folder):
        _quietly("umount", "--lazy", point)
    for file in (folder / _KERNEL).glob("link.*"):
        _quietly("ip", "link", "delete", file.name.partition(".")[2])
    shutil.rmtree(folder, ignore_errors=True)


def _end(file: Path) -> None:
    try:
        row = msgspec.json.decode(file.read_bytes(), type=Recorded)
    except msgspec.MsgspecError:
        return  # killed while it was written; the process then died with its parent
    if started_at(row.pid) != row.started:
        return
    with suppress(ProcessLookupError):
        os.killpg(row.pid, signal.SIGKILL)
    wait_until(lambda: started_at(row.pid) != row.started, f"process {row.pid} ({file.name}) ends", deadline_s=20)


def _mounts(folder: Path) -> list[str]:
    """Return the mount points under a folder, innermost first (``/proc/self/mountinfo``, proc(5))."""
    points = []
    for line in Path("/proc/self/mountinfo").read_text("utf-8").splitlines():
        point = line.split()[4].encode("ascii", "backslashreplace").decode("unicode_escape")
        if Path(point).is_relative_to(folder):
            points.append(point)
    return sorted(points, key=len, reverse=True)


def _quietly(*command: str) -> None:
    subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - names come from the run's own records
