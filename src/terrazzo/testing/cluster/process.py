"""A started part: its log, its life and its death."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Self

from terrazzo.model.errors import TerrazzoError
from terrazzo.testing.cluster.runs import Run
from terrazzo.testing.cluster.waiting import DEADLINE_S, wait_until

GRACE_S = 10.0
TAIL_LINES = 40
_LOG_BYTES = 64 * 1024

_starter = ThreadPoolExecutor(1, thread_name_prefix="starter")
"""Starts all processes: a child is told of the death of the *thread* that forked it, and this one lives to the end."""


class Process:
    """A process of one run, in its own session, which dies with us.

    Args:
        name: unique in the run; names log and record.
        command: what to execute.
        run: to which it belongs.
        env: added to a bare environment (PATH and a HOME of the run's own), so that proxies and certificates of the
            caller's shell decide nothing.
        ready: whether it serves; None = as soon as it runs.
        cwd: folder to start it in; the run's by default.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        run: Run,
        *,
        env: Mapping[str, str] | None = None,
        ready: Callable[[], object] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.name = name
        self.command = [str(word) for word in command]
        self.run = run
        self.env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(run.make("home")), **(env or {})}
        self.ready = ready
        self.cwd = cwd or run.folder
        self.log = run.make("logs") / f"{name}.log"
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Number of the process.

        Raises:
            TerrazzoError: it was never started.
        """
        if self._child is None:
            raise TerrazzoError("was never started", where=self.name)
        return self._child.pid

    @property
    def alive(self) -> bool:
        """Whether it runs (or is paused)."""
        return self._child is not None and self._child.poll() is None

    @property
    def code(self) -> int | None:
        """How it ended, as ``subprocess`` counts; None while it runs or before it started."""
        return self._child.poll() if self._child is not None else None

    def start(self, *, wait: bool = True) -> Self:
        """Start it, and by default wait until it is ready.

        Raises:
            TerrazzoError: it ended at once or is not ready in time; the end of its log is in it.
        """
        if self.alive:
            raise TerrazzoError("runs already", where=self.name)
        self._child = _starter.submit(self._spawn).result()
        self.run.record(self)
        if wait:
            self.wait_ready()
        return self

    def _spawn(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(  # noqa: S603 - the parts are ours
                ["setpriv", "--pdeathsig", "KILL", "--", *self.command],  # noqa: S607 - of util-linux
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.env,
                cwd=self.cwd,
                start_new_session=True,
            )

    def wait_ready(self, *, deadline_s: float = DEADLINE_S) -> None:
        """Wait until it is ready.

        Raises:
            TerrazzoError: it ended, or is not ready in time; the end of its log is in it.
        """
        ready = self.ready or (lambda: True)
        try:
            wait_until(lambda: not self.alive or ready(), f"{self.name} is ready", deadline_s=deadline_s)
        except TerrazzoError as error:
            raise TerrazzoError(f"{error.what}\n{self.tail()}", where=self.name) from None
        if not self.alive:
            raise TerrazzoError(f"ended with {self.code}:\n{self.tail()}", where=self.name)

    def stop(self, *, grace_s: float = GRACE_S) -> None:
        """Ask it to end, and kill it when it has not after ``grace_s``; nothing when it does not run."""
        if self._child is None:
            return
        self.signal(signal.SIGTERM)
        self.resume()
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(grace_s)
        self.kill()

    def kill(self) -> None:
        """Kill it and all of its group, as ``kill -9`` does, and wait until it is gone."""
        if self._child is None:
            return
        self.signal(signal.SIGKILL)
        self._child.wait()

    def restart(self) -> Self:
        """Stop it and start it anew with the same command."""
        self.stop()
        return self.start()

    def pause(self) -> None:
        """Stop it in its tracks (SIGSTOP); connections to it stay open and silent."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after ``pause``."""
        self.signal(signal.SIGCONT)

    def signal(self, number: int) -> None:
        """Send a signal to its whole group; nothing when it has ended, for its number may be another's then."""
        if self.alive:
            os.killpg(self.pid, number)

    def tail(self, lines: int = TAIL_LINES) -> str:
        """Return the end of its log."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, self.log.stat().st_size - _LOG_BYTES))
                text = log.read().decode("utf-8", "replace")
        except OSError:
            return "(no log)"
        return "\n".join(text.splitlines()[-lines:])


def output(*command: str | Path, given: str = "", env: Mapping[str, str] | None = None, shown: str = "") -> str:
    """Return what a command prints, its warnings too.

    Args:
        *command: to execute; waited for.
        given: its standard input.
        env: its whole environment; the caller's by default.
        shown: the command as errors show it, where the whole says too much.

    Raises:
        TerrazzoError: it failed; what it said is in it.
    """
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, env=env)  # noqa: S603 - the harness's own words
    if done.returncode:
        where = shown or " ".join(map(str, command))
        raise TerrazzoError(done.stderr.strip() or f"ended with {done.returncode}", where=where)
    return done.stdout + done.stderr
