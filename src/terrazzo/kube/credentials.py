"""Bearer tokens: fixed, in a file that somebody rotates, or from a program that prints them."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct, field

from terrazzo.kube.errors import Unauthorized

REREAD_S = 60
"""A token file is read again this often; kubelet rotates projected tokens at 80 % of an hour or more."""
PLUGIN_S = 60
"""What an exec plugin may take; some ask a cloud."""
EARLY_S = 30
"""A token is renewed this long before it ends."""


class Token(Protocol):
    """Where a bearer token comes from."""

    async def get(self) -> str:
        """Return the token to send now, or an empty string for none.

        Raises:
            Unauthorized: there is none to be had.
        """

    def refused(self) -> None:
        """Note that the server did not accept the last one."""


class FixedToken:
    """A token that never changes; empty for none."""

    def __init__(self, text: str = "") -> None:
        self._text = text

    async def get(self) -> str:
        """Return it."""
        return self._text

    def refused(self) -> None:
        """Do nothing: there is no other."""


class FileToken:
    """A token in a file, such as the projected one of a ServiceAccount."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._text = ""
        self._read = -float(REREAD_S)

    async def get(self) -> str:
        """Return what the file holds, read again every minute."""
        now = time.monotonic()
        if now - self._read >= REREAD_S or not self._text:
            try:
                self._text = self._path.read_text("utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                if not self._text:
                    raise Unauthorized(f"cannot read the token ({error})", where=str(self._path)) from None
            self._read = now
        return self._text

    def refused(self) -> None:
        """Read the file again before the next call."""
        self._read = -float(REREAD_S)


class _ExecStatus(Struct, rename="camel"):
    token: str = ""
    expiration_timestamp: str | None = None
    client_certificate_data: str = ""
    client_key_data: str = ""


class _ExecCredential(Struct, rename="camel"):
    status: _ExecStatus = field(default_factory=_ExecStatus)


class PluginToken:
    """A token printed by a program (client.authentication.k8s.io, ``users[].user.exec``).

    Args:
        command: program and arguments.
        env: added to our own environment.
        api_version: of the ExecCredential that it prints.
        folder: of the kubeconfig; a command with a slash is relative to it.
    """

    def __init__(self, command: list[str], env: dict[str, str], api_version: str, folder: Path) -> None:
        program = command[0]
        if "/" in program and not program.startswith("/"):
            program = str(folder / program)
        self._command = [program, *command[1:]]
        info = {"apiVersion": api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
        self._env = {**os.environ, **env, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
        self._token = ""
        self._ends = 0.0
        self._lock = asyncio.Lock()

    async def get(self) -> str:
        """Return the token, run the program when there is none or it ends soon."""
        async with self._lock:
            if not self._token or time.time() >= self._ends - EARLY_S:
                await self._run()
        return self._token

    def refused(self) -> None:
        """Run the program again before the next call."""
        self._token = ""

    async def _run(self) -> None:
        where = f"credential plugin {self._command[0]}"
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command, env=self._env, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise Unauthorized(f"cannot be started ({error.strerror})", where=where) from None
        try:
            out, err = await asyncio.wait_for(process.communicate(), PLUGIN_S)
        except TimeoutError:
            raise Unauthorized(f"said nothing for {PLUGIN_S} s", where=where) from None
        finally:
            if process.returncode is None:
                # Whatever it started goes with it, also when we are the ones who are stopped.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.communicate()
        if process.returncode:
            said = err.decode("utf-8", "replace").strip()[-200:]
            raise Unauthorized(f"ended with {process.returncode}: {said}", where=where)
        try:
            status = msgspec.json.decode(out, type=_ExecCredential).status
        except msgspec.MsgspecError as error:
            raise Unauthorized(f"printed no ExecCredential ({error})", where=where) from None
        if not status.token:
            what = "a client certificate" if status.client_certificate_data else "no token"
            raise Unauthorized(f"printed {what} where a token is needed", where=where)
        self._token = status.token
        self._ends = _moment(status.expiration_timestamp)


def _moment(text: str | None) -> float:
    if not text:
        return float("inf")
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0
