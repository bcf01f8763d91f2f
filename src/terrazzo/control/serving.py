"""HTTP in front of the handlers: paths, sockets, TLS; nothing that decides."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Protocol

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from terrazzo.control.settings import Address
from terrazzo.model.errors import InputError

MOST_BYTES = 16 << 20
"""Bodies beyond this are refused unread; a pod is at most 3 MB, five thousand node names a third of that."""


class Answered(Protocol):
    """What a handler gives back."""

    @property
    def status(self) -> int:
        """HTTP status."""

    @property
    def body(self) -> bytes:
        """JSON."""


Handler = Callable[[bytes], Awaitable[Answered]]


def posts(handlers: Mapping[str, Handler]) -> Starlette:
    """Return an application that answers POST on these paths with what their handlers make of the body."""

    def answer(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            length = request.headers.get("content-length", "0")
            if not length.isdecimal() or int(length) > MOST_BYTES:
                return Response(f"at most {MOST_BYTES} bytes", 413, media_type="text/plain")
            try:
                body = await request.body()
            except ClientDisconnect:
                return Response(status_code=499)
            answered = await handler(body)
            return Response(answered.body, answered.status, media_type="application/json")

        return handle

    return Starlette(routes=[Route(path, answer(handler), methods=["POST"]) for path, handler in handlers.items()])


def probes(waits_for: Callable[[], list[str]], figures: Callable[[], bytes], leads: Callable[[], bool]) -> Starlette:
    """Return an application with ``/healthz``, ``/readyz`` (says what it waits for), ``/leadz`` and ``/metrics``.

    ``/leadz`` is ok where this process may bind: a Service whose endpoints are ready by it has the leader alone.
    """

    async def healthz(_: Request) -> Response:
        return Response("ok\n", media_type="text/plain")

    async def readyz(_: Request) -> Response:
        missing = waits_for()
        text = f"waits for {', '.join(missing)}\n" if missing else "ok\n"
        return Response(text, 503 if missing else 200, media_type="text/plain")

    async def leadz(_: Request) -> Response:
        return Response(
            "ok\n" if leads() else "another replica leads\n", 200 if leads() else 503, media_type="text/plain"
        )

    async def metrics(_: Request) -> Response:
        return Response(figures(), media_type="text/plain; version=0.0.4")

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/livez", healthz),
            Route("/metrics", metrics),
        ]
    )


def listen(address: Address, what: str) -> socket.socket:
    """Return a socket that listens there.

    Raises:
        InputError: the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((address.host, address.port))
    except OSError as error:
        made.close()
        where = f"{what} at {address.host}:{address.port}"
        raise InputError(f"cannot listen ({error.strerror})", where=where, remedy="choose another port") from None
    made.listen(512)
    made.setblocking(False)
    return made


class _Server(uvicorn.Server):
    """A server that leaves signals to the service."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Change no signal handler."""
        yield


def server(app: Starlette, *, tls: ssl.SSLContext | None = None) -> uvicorn.Server:
    """Return a server for an application; ``await server.serve(sockets=[…])`` runs it until ``should_exit``.

    Args:
        app: the application.
        tls: context for HTTPS; a certificate loaded into it later serves new connections.
    """
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="off", timeout_keep_alive=120, timeout_graceful_shutdown=30,
        server_header=False, date_header=False,
    )  # fmt: skip
    config.load()
    if tls is not None:
        config.ssl = tls
    return _Server(config)
