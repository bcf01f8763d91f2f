"""A run's own place in the tree of control groups: whoever is in it belongs to the run, whatever it became.

Containers and their shims outlive the daemons that started them and have no parent of ours; but no process leaves its
control group by itself.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from terrazzo.testing.cluster.waiting import wait_until

_INHERITED = ("cpuset.cpus", "cpuset.mems")
"""Of version 1, where a new group of CPUs is empty and takes nobody until somebody fills it."""


def hierarchies() -> list[Path]:
    """Return where control groups are mounted: one place per controller (version 1), one for all (2), or both."""
    rows = (line.split() for line in Path("/proc/self/mounts").read_text("utf-8").splitlines())
    return [Path(row[1]) for row in rows if row[2] in {"cgroup", "cgroup2"}]


def make_group(name: str) -> None:
    """Make a group of this name, with a leaf ``daemons``, in every hierarchy."""
    for root in hierarchies():
        for group in (root / name, root / name / "daemons"):
            group.mkdir(exist_ok=True)
            for file in _INHERITED:
                with suppress(FileNotFoundError):
                    (group / file).write_text((group.parent / file).read_text("utf-8"), "utf-8")


def joining(name: str) -> str:
    """Return shell commands by which a process joins the leaf ``daemons`` of a group in every hierarchy."""
    return "\n".join(f"echo $$ > '{root / name / 'daemons' / 'cgroup.procs'}'" for root in hierarchies())


def end_group(name: str) -> None:
    """Kill every process in a group and below, and remove it."""
    wait_until(lambda: not _kill(name), f"all processes of control group {name} end", deadline_s=20)
    for root in hierarchies():
        for group in _below(root / name):
            with suppress(OSError):
                group.rmdir()


def _kill(name: str) -> int:
    pids = {
        int(word)
        for root in hierarchies()
        for group in _below(root / name)
        for word in _members(group)
    }  # fmt: skip
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(pids)


def _members(group: Path) -> list[str]:
    try:
        return (group / "cgroup.procs").read_text("utf-8").split()
    except OSError:
        return []


def _below(group: Path) -> Iterator[Path]:
    """Yield a group and all below it, innermost first."""
    with suppress(FileNotFoundError):
        for entry in list(group.iterdir()):
            if entry.is_dir():
                yield from _below(entry)
        yield group
