"""A wire that can be cut: a relay on loopback between a client and a server."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Self, TypeVar

_T = TypeVar("_T")
_CHUNK = 1 << 16


class Relay:
    """Passes bytes on between whoever connects to ``port`` and a server on 127.0.0.1.

    Args:
        port: where it listens.
        target: the server's port.
    """

    def __init__(self, port: int, target: int) -> None:
        self.port = port
        self.target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)
        self._asked = asyncio.Event()
        self._answered = asyncio.Event()
        self._wires: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        """Start and return itself."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()

    def start(self) -> Self:
        """Listen."""
        self._thread.start()
        self.release()
        self._server = self._run(asyncio.start_server(self._connected, "127.0.0.1", self.port))
        return self

    def stop(self) -> None:
        """Cut everything and listen no more."""
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def hold(self, *, requests: bool = True, answers: bool = True) -> None:
        """Keep back what is sent, in either or both directions; connections stay open and silent."""
        self._run(self._gate(not requests, not answers))

    def release(self) -> None:
        """Pass on what was kept back and all that follows."""
        self._run(self._gate(True, True))

    def cut(self) -> int:
        """Reset all connections, with what was kept back, and return how many; new ones are taken."""
        return self._run(self._reset())

    @property
    def open(self) -> int:
        """How many connections there are."""
        return len(self._wires) // 2

    def _run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _gate(self, asked: bool, answered: bool) -> None:
        for gate, is_open in ((self._asked, asked), (self._answered, answered)):
            if is_open:
                gate.set()
            else:
                gate.clear()

    async def _reset(self) -> int:
        count = self.open
        tasks = set(self._tasks)
        for wire in self._wires:
            # Lingering for no time makes closing a reset, as a cut is, where it otherwise would be a polite end.
            wire.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            wire.transport.abort()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return count

    async def _end(self) -> None:
        self._server.close()
        await self._reset()
        await self._server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine that runs has its task
        self._tasks.add(task)
        wires = {writer}
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
            wires.add(far_writer)
            self._wires |= wires
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(_pump(reader, far_writer, self._asked))
                pumps.create_task(_pump(far_reader, writer, self._answered))
        except* (OSError, asyncio.CancelledError):
            pass  # either side is gone, and with it the other
        finally:
            for wire in wires:
                wire.close()
            self._wires -= wires
            self._tasks.discard(task)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event) -> None:
    while chunk := await reader.read(_CHUNK):
        await gate.wait()
        writer.write(chunk)
        await writer.drain()
    with suppress(OSError):
        writer.write_eof()
