from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from terrazzo.model.errors import TerrazzoError
from terrazzo.testing.cluster import Process, Run, wait_until
from terrazzo.testing.cluster.ports import FIRST, LAST
from terrazzo.testing.cluster.runs import started_at


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with Run(tmp_path) as run:
        yield run


def shell(run: Run, script: str, *, says: str = "", env: dict[str, str] | None = None) -> Process:
    """Return a shell that is ready when its log holds what it says."""
    part = Process("part", ["sh", "-c", script], run, env=env)
    part.ready = lambda: says in part.tail()
    return part


def state(process: Process) -> str:
    return Path(f"/proc/{process.pid}/stat").read_text("utf-8").rsplit(")", 1)[1].split()[0]


def test_it_is_ready_when_it_says_so_and_its_log_is_kept(run: Run) -> None:
    part = shell(run, "echo hello; sleep 600", says="hello")
    part.start()
    assert part.alive
    part.restart()
    wait_until(lambda: part.tail().splitlines() == ["hello", "hello"], "the log of both lives is there")


def test_one_that_never_is_ready_shows_its_log(run: Run) -> None:
    part = shell(run, "echo still trying; sleep 600", says="success").start(wait=False)
    with pytest.raises(TerrazzoError, match=r"part is ready(?s:.)*still trying"):
        part.wait_ready(deadline_s=1)


def test_one_that_ends_shows_its_log_and_its_code(run: Run) -> None:
    with pytest.raises(TerrazzoError, match=r"ended with 7(?s:.)*no disk"):
        shell(run, "echo no disk; exit 7", says="success").start()


def test_it_is_killed_when_asking_does_not_help(run: Run) -> None:
    part = shell(run, "trap '' TERM; echo deaf; while :; do sleep 1; done", says="deaf")
    part.start().stop(grace_s=0.2)
    assert part.code == -signal.SIGKILL


def test_stopping_one_that_is_paused_works_and_twice_is_once(run: Run) -> None:
    part = shell(run, "exec sleep 600").start()
    part.pause()
    wait_until(lambda: state(part) == "T", "it is stopped in its tracks")
    part.resume()
    wait_until(lambda: state(part) == "S", "it goes on")
    part.pause()
    part.stop()
    part.stop()
    part.kill()
    assert part.code == -signal.SIGTERM


def test_what_never_ran_can_be_stopped_and_has_no_number(run: Run) -> None:
    part = shell(run, "exec sleep 600")
    part.stop()
    part.kill()
    assert (part.alive, part.code, part.tail()) == (False, None, "(no log)")
    with pytest.raises(TerrazzoError, match="part: was never started"):
        _ = part.pid


def test_what_runs_is_not_started_again(run: Run) -> None:
    part = shell(run, "exec sleep 600").start()
    with pytest.raises(TerrazzoError, match="runs already"):
        part.start()


def test_the_callers_environment_does_not_leak_in(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    part = shell(run, "env; echo end; exec sleep 600", env={"GIVEN": "yes"}, says="end")
    part.start()
    names = {line.partition("=")[0] for line in part.tail().splitlines()}
    assert {"PATH", "HOME", "GIVEN"} <= names
    assert "HTTPS_PROXY" not in names


def test_its_children_are_killed_along(run: Run) -> None:
    part = shell(run, "sleep 600 & echo child=$!; wait", says="child=").start()
    child = int(part.tail().partition("=")[2])
    assert started_at(child)
    part.kill()
    wait_until(lambda: started_at(child) is None, "the child is dead")


DIES = """
import os, signal, sys
from pathlib import Path
from terrazzo.testing.cluster import Process, Run
print(Process("part", ["sleep", "600"], Run(Path(sys.argv[1]))).start().pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_dies_with_us(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", DIES, tmp_path], capture_output=True, text=True, check=False)  # noqa: S603 - the program above
    assert done.returncode == -signal.SIGKILL, done.stderr
    wait_until(lambda: started_at(int(done.stdout)) is None, "the part is dead")


def test_ports_are_ours_alone_and_below_those_of_connections(run: Run, tmp_path: Path) -> None:
    ports = [run.port() for _ in range(50)]
    assert len(set(ports)) == 50
    assert FIRST <= min(ports) <= max(ports) <= LAST
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("utf-8").split()[0])
    assert low > LAST, "this machine makes connections from ports that tests listen on"
    taken = "import fcntl,os,sys; fcntl.flock(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    command = [sys.executable, "-c", taken, str(tmp_path / "ports" / str(ports[0]))]
    assert subprocess.run(command, capture_output=True, check=False).returncode  # noqa: S603 - the line above


def test_waiting_in_vain_says_for_what_and_what_was_seen_last() -> None:
    with pytest.raises(TerrazzoError, match=r"until the cows come home; last seen: 0"):
        wait_until(lambda: 0, "the cows come home", deadline_s=0)

    def broken() -> bool:
        raise TerrazzoError("the gate is shut")

    with pytest.raises(TerrazzoError, match="the gate is shut"):
        wait_until(broken, "the cows come home", deadline_s=0)


def test_waiting_returns_the_first_true_value() -> None:
    values = iter([0, "", "yes"])
    assert wait_until(lambda: next(values), "it is there", step_s=0) == "yes"
