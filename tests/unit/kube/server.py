"""A small server that answers as a test says: real sockets, real HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from terrazzo.kube.access import Access
from terrazzo.kube.client import Client
from terrazzo.kube.credentials import FixedToken, Token

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler, token: Token | None = None, **more: Any) -> AsyncIterator[Client]:
    """Give a client of a server that answers everything with ``handler``."""
    app = web.Application(client_max_size=1 << 26)
    app.router.add_route("*", "/{tail:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server = site._server
    assert isinstance(server, asyncio.Server)
    port = server.sockets[0].getsockname()[1]
    async with Client(Access(f"http://127.0.0.1:{port}", None, token or FixedToken()), **more) as client:
        yield client
    await runner.cleanup()


def answer(body: Any, status: int = 200, **headers: str) -> web.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return web.Response(body=json.dumps(body).encode(), status=status, content_type="application/json", headers=named)


def status(code: int, reason: str, message: str, **details: Any) -> web.Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}
    return answer(body, code)


def pod(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "d", "uid": f"uid-{name}", "resourceVersion": str(version)}}
