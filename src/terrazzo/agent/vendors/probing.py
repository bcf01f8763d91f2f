"""Vendor libraries in a child process with a deadline.

A library may block for ever while a card is wedged, or take its process down. The agent therefore never loads one:
it asks a child over a socket that is the child's standard input and output, one question at a time, and kills a
child that does not answer in time. What the last good answer was, and how old it is, is the caller's to keep.

On the socket: four bytes of length, big endian, then MessagePack. A question is a ``Question``, an answer one of
``port.Answer``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, NamedTuple

import msgspec
from msgspec import Struct

from terrazzo.agent.vendors.port import Answer, Failure, Found, Grant, Trouble

LARGEST_ANSWER_BYTES = 16 * 2**20
_LENGTH_BYTES = 4
_LAST_WORDS_BYTES = 4096


class Discover(Struct, frozen=True, tag="discover"):
    """Ask ``Backend.discover``."""


class AskHealth(Struct, frozen=True, tag="health"):
    """Ask ``Backend.health``."""

    wait_s: float


class AskUse(Struct, frozen=True, tag="use"):
    """Ask ``Backend.use``."""


class AskTopology(Struct, frozen=True, tag="topology"):
    """Ask ``Backend.topology``."""


class AskNeeds(Struct, frozen=True, tag="needs"):
    """Ask ``Backend.needs``."""

    grants: tuple[Grant, ...]


class MakeSlice(Struct, frozen=True, tag="make"):
    """Ask ``Cutter.make_slice``."""

    device: Found
    profile: str
    start: int | None = None


class UnmakeSlice(Struct, frozen=True, tag="unmake"):
    """Ask ``Cutter.unmake_slice``."""

    device: Found
    slice_id: str


Question = Discover | AskHealth | AskUse | AskTopology | AskNeeds | MakeSlice | UnmakeSlice

_ANSWERS = msgspec.msgpack.Decoder(Answer)


class _Child(NamedTuple):
    """A running child, our end of its socket, and the file that takes what it prints."""

    process: asyncio.subprocess.Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    words: IO[bytes]


class Probe:
    """One vendor's child process: started when first asked, replaced after it hung, crashed or spoke nonsense."""

    def __init__(
        self,
        vendor: str,
        *,
        deadline_s: float = 10.0,
        env: Mapping[str, str] | None = None,
        program: tuple[str, ...] = (),
    ) -> None:
        """Prepare, start nothing.

        Args:
            vendor: the backend to load in the child.
            deadline_s: how long an answer may take, beyond what a question itself waits for.
            env: environment of the child, by default this process's own.
            program: what to run instead of our own child, with the vendor as last argument.
        """
        self.vendor = vendor
        self._deadline_s = deadline_s
        self._env = dict(os.environ if env is None else env)
        self._program = program or (sys.executable, "-m", "terrazzo.agent.vendors.probe")
        self._child: _Child | None = None
        self._turn = asyncio.Lock()

    async def ask(self, question: Question) -> Answer:
        """Return the child's answer, or a ``Failure`` that says what became of the child."""
        async with self._turn:
            waits_s = question.wait_s if isinstance(question, AskHealth) else 0.0
            try:
                async with asyncio.timeout(self._deadline_s + waits_s):
                    return await self._exchange(question)
            except TimeoutError:
                await self.close()
                return Failure(
                    Trouble.HUNG,
                    f"the {self.vendor} library did not answer within {self._deadline_s + waits_s:g} s",
                    "look for a card that hangs in the kernel log (`dmesg`); its driver may need a reset",
                )
            except (asyncio.IncompleteReadError, BrokenPipeError, ConnectionResetError):
                return await self._obituary()
            except (msgspec.DecodeError, ValueError) as error:
                await self.close()
                return Failure(Trouble.GARBLED, f"the {self.vendor} child process answered nonsense: {error}")
            except OSError as error:
                return Failure(Trouble.FAILED, f"the {self.vendor} child process cannot be started: {error}")
            except asyncio.CancelledError:
                # The answer would otherwise be read as that of the next question.
                self._kill()
                raise

    async def close(self) -> None:
        """Kill the child. One stuck in the kernel cannot be reaped; it is left behind rather than waited for."""
        child = self._kill()
        if child is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await child.process.wait()

    def _kill(self) -> _Child | None:
        child, self._child = self._child, None
        if child is not None:
            child.writer.close()
            child.words.close()
            with contextlib.suppress(ProcessLookupError):
                child.process.kill()
        return child

    async def _start(self) -> _Child:
        ours, theirs = socket.socketpair()
        words = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child, _kill closes it
        try:
            with theirs:
                end = theirs.fileno()
                process = await asyncio.create_subprocess_exec(
                    *self._program, self.vendor, stdin=end, stdout=end, stderr=words, env=self._env, cwd=Path("/")
                )
        except BaseException:
            ours.close()
            words.close()
            raise
        reader, writer = await asyncio.open_connection(sock=ours)
        return _Child(process, reader, writer, words)

    async def _exchange(self, question: Question) -> Answer:
        if self._child is not None and self._child.process.returncode is not None:
            await self.close()
        if self._child is None:
            self._child = await self._start()
        body = msgspec.msgpack.encode(question)
        self._child.writer.write(len(body).to_bytes(_LENGTH_BYTES, "big") + body)
        await self._child.writer.drain()
        size = int.from_bytes(await self._child.reader.readexactly(_LENGTH_BYTES), "big")
        if size > LARGEST_ANSWER_BYTES:
            message = f"{size} bytes are too many for an answer"
            raise ValueError(message)
        return _ANSWERS.decode(await self._child.reader.readexactly(size))

    async def _obituary(self) -> Failure:
        child = self._child
        how, last = "no word", ""
        if child is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await child.process.wait()
            code = child.process.returncode
            how = f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"
            child.words.seek(0)
            words = child.words.read(_LAST_WORDS_BYTES).decode("utf-8", "replace").strip()
            last = f": {words.splitlines()[-1]}" if words else ""
        await self.close()
        return Failure(Trouble.CRASHED, f"the {self.vendor} child process ended with {how}{last}")
