from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from terrazzo.testing.cluster import Relay, Run, wait_until


class Echo(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        for line in self.rfile:
            self.server.heard.append(line)  # type: ignore[attr-defined]
            self.wfile.write(line)


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Echo)
        self.heard: list[bytes] = []


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def relay(server: Server, tmp_path: Path) -> Iterator[Relay]:
    with Run(tmp_path) as run, Relay(run.port(), server.server_address[1]) as relay:
        yield relay


def connect(relay: Relay, timeout_s: float = 20) -> socket.socket:
    return socket.create_connection(("127.0.0.1", relay.port), timeout_s)


def test_it_passes_on_in_both_directions(relay: Relay) -> None:
    with connect(relay) as wire:
        wire.sendall(b"one\n")
        assert wire.recv(64) == b"one\n"
        assert relay.open == 1
    wait_until(lambda: relay.open == 0, "the end is passed on, too")


def test_held_answers_come_after_the_release(relay: Relay, server: Server) -> None:
    with connect(relay) as wire:
        relay.hold(requests=False)
        wire.sendall(b"one\n")
        wait_until(lambda: server.heard == [b"one\n"], "the server heard it")
        wire.settimeout(0.2)
        with pytest.raises(TimeoutError):
            wire.recv(64)
        relay.release()
        wire.settimeout(20)
        assert wire.recv(64) == b"one\n"


def test_held_requests_are_not_heard_and_lost_by_a_cut(relay: Relay, server: Server) -> None:
    with connect(relay) as wire:
        wire.sendall(b"one\n")
        assert wire.recv(64) == b"one\n"
        relay.hold(answers=False)
        wire.sendall(b"two\n")
        assert relay.cut() == 1
        relay.release()
        with pytest.raises(ConnectionError):
            wire.recv(64)
    with connect(relay) as wire:
        wire.sendall(b"three\n")
        assert wire.recv(64) == b"three\n"
    assert server.heard == [b"one\n", b"three\n"]


def test_without_a_server_the_connection_ends(tmp_path: Path) -> None:
    with Run(tmp_path) as run, Relay(run.port(), run.port()) as relay, connect(relay) as wire:
        assert wire.recv(64) == b""
