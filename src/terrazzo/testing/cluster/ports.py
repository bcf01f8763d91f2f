"""Ports on loopback that nobody else takes meanwhile.

A port that the kernel hands out is free again between asking for it and a server's listening on it, and any outgoing
connection may take it. So ports are chosen below the kernel's range for connections, and a lock file per port keeps
two runs of the harness apart until the run that holds it ends.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
from pathlib import Path

from terrazzo.model.errors import TerrazzoError

FIRST, LAST = 20_000, 31_999
TRIES = 400
_held: dict[int, int] = {}


def reserve_port(folder: Path) -> int:
    """Return a port on 127.0.0.1 that is this process's until it ends.

    Args:
        folder: where the lock files of all runs on this machine lie.

    Raises:
        TerrazzoError: none was found.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for port in random.sample(range(FIRST, LAST + 1), TRIES):
        if port in _held:
            continue
        lock = os.open(folder / str(port), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            os.close(lock)
            continue
        _held[port] = lock
        return port
    raise TerrazzoError(f"no free port was found between {FIRST} and {LAST} on 127.0.0.1")
