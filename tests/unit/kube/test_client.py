from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from server import answer, pod, serving, status

from terrazzo.kube import client as clients
from terrazzo.kube.credentials import FileToken
from terrazzo.kube.errors import (
    ApiError,
    Conflict,
    Forbidden,
    Garbled,
    Gone,
    Invalid,
    NotFound,
    ServerFault,
    TooMany,
    Unauthorized,
    Unreachable,
)  # fmt: skip
from terrazzo.kube.kinds import CLAIM, NODE, POD
from terrazzo.wire import kubernetes as k8s


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "FIRST_WAIT_S", 0.01)


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(work())


def test_paths() -> None:
    assert POD.path("d", "p", "status") == "/api/v1/namespaces/d/pods/p/status"
    assert POD.path() == "/api/v1/pods"
    assert NODE.path("ignored", "n") == "/api/v1/nodes/n"
    assert CLAIM.path("d", "c", "status") == "/apis/resource.k8s.io/v1/namespaces/d/resourceclaims/c/status"


def test_a_list_is_read_page_by_page_and_what_is_damaged_is_left_out() -> None:
    async def work() -> None:
        async def handle(request: web.Request) -> web.Response:
            assert request.query["limit"] == str(clients.PAGE)
            if "continue" not in request.query:
                items = [pod("a", 1), {"metadata": {"name": "broken", "labels": 7}}]
                return answer({"metadata": {"resourceVersion": "9", "continue": "more"}, "items": items})
            assert request.query["continue"] == "more"
            return answer({"metadata": {"resourceVersion": "9"}, "items": [pod("b", 2)]})

        async with serving(handle) as client:
            found = await client.list(POD, k8s.Pod)
        assert [each.metadata.name for each in found.items] == ["a", "b"]
        assert found.version == "9"
        assert "broken" in found.damaged[0]

    run(work)


def test_a_page_that_came_too_late_is_gone() -> None:
    async def work() -> None:
        async def handle(request: web.Request) -> web.Response:
            if "continue" in request.query:
                return status(410, "Expired", "the provided continue parameter is too old")
            return answer({"metadata": {"resourceVersion": "9", "continue": "more"}, "items": []})

        async with serving(handle) as client:
            with pytest.raises(Gone):
                await client.list(POD, k8s.Pod)

    run(work)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, Invalid),
        (403, Forbidden),
        (404, NotFound),
        (409, Conflict),
        (410, Gone),
        (422, Invalid),
        (503, ServerFault),
    ],
)
def test_each_status_is_an_error_of_its_own_in_the_servers_words(code: int, kind: type[ApiError]) -> None:
    async def work() -> None:
        async def handle(_: web.Request) -> web.Response:
            return status(code, "Why", 'pods "p" cannot be had')

        async with serving(handle) as client:
            with pytest.raises(kind) as caught:
                await client.create(POD, {}, "d")
        assert caught.value.status == code
        assert caught.value.reason == "Why"
        assert str(caught.value) == 'POST /api/v1/namespaces/d/pods: pods "p" cannot be had.'

    run(work)


def test_a_proxy_that_answers_html_is_garbled_or_a_fault_and_never_an_object() -> None:
    async def work() -> None:
        seen = iter((200, 502, 502, 502, 502, 502))

        async def handle(_: web.Request) -> web.Response:
            return web.Response(text="<html>sign in</html>", content_type="text/html", status=next(seen))

        async with serving(handle) as client:
            with pytest.raises(Garbled, match="sign in"):
                await client.get(POD, k8s.Pod, "p", "d")
            with pytest.raises(ServerFault, match="502"):
                await client.get(POD, k8s.Pod, "p", "d")

    run(work)


def test_turned_away_calls_are_made_again_when_the_server_says_so() -> None:
    async def work() -> None:
        seen: list[str] = []

        async def handle(request: web.Request) -> web.Response:
            seen.append(request.method)
            if len(seen) == 1:
                return answer({"kind": "Status", "code": 429, "message": "later"}, 429, Retry_After="0")
            return answer(pod("p", 1))

        async with serving(handle) as client:
            await client.create(POD, {}, "d")
            assert seen == ["POST", "POST"]
            assert client.calls == {"POST": 2}

    run(work)


def test_an_eviction_that_a_budget_forbids_is_an_answer() -> None:
    async def work() -> None:
        count = 0

        async def handle(_: web.Request) -> web.Response:
            nonlocal count
            count += 1
            return status(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.")

        async with serving(handle) as client:
            with pytest.raises(TooMany, match="budget"):
                await client.create(POD, {}, "d", name="p", subresource="eviction")
        assert count == 1

    run(work)


def test_a_create_that_was_not_answered_is_not_repeated_but_a_read_is() -> None:
    async def work() -> None:
        seen: list[str] = []

        async def handle(request: web.Request) -> web.Response:
            seen.append(request.method)
            if request.method == "POST" or len(seen) < 4:
                assert request.transport is not None
                request.transport.abort()
            return answer(pod("p", 1))

        async with serving(handle) as client:
            with pytest.raises(Unreachable):
                await client.create(POD, {}, "d")
            assert seen == ["POST"]
            assert (await client.get(POD, k8s.Pod, "p", "d")).metadata.name == "p"
        assert seen.count("GET") >= 3

    run(work)


def test_silence_ends_at_the_deadline() -> None:
    async def work() -> None:
        async def handle(_: web.Request) -> web.Response:
            await asyncio.sleep(30)
            return answer({})

        async with serving(handle, deadline_s=0.1) as client:
            with pytest.raises(Unreachable, match="no answer"):
                await client.create(POD, {}, "d")

    run(work)


def test_a_rotated_token_is_read_again_when_the_old_one_is_refused(tmp_path: Path) -> None:
    async def work() -> None:
        path = tmp_path / "token"
        path.write_text("old")
        seen: list[str] = []

        async def handle(request: web.Request) -> web.Response:
            seen.append(request.headers["Authorization"])
            if len(seen) == 2:
                path.write_text("new")
            return (
                answer(pod("p", 1))
                if seen[-1] in {seen[0], "Bearer new"} and len(seen) != 2
                else status(401, "Unauthorized", "Unauthorized")
            )

        async with serving(handle, FileToken(path)) as client:
            await client.get(POD, k8s.Pod, "p", "d")
            await client.get(POD, k8s.Pod, "p", "d")
        assert seen == ["Bearer old", "Bearer old", "Bearer new"]

    run(work)


def test_refused_twice_is_refused() -> None:
    async def work() -> None:
        async def handle(_: web.Request) -> web.Response:
            return status(401, "Unauthorized", "Unauthorized")

        async with serving(handle) as client:
            with pytest.raises(Unauthorized):
                await client.get(POD, k8s.Pod, "p", "d")

    run(work)


def test_a_redirect_is_not_followed() -> None:
    async def work() -> None:
        async def handle(_: web.Request) -> web.Response:
            return web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"})

        async with serving(handle) as client:
            with pytest.raises(ApiError, match="302"):
                await client.get(POD, k8s.Pod, "p", "d")

    run(work)


def test_deleting_what_is_not_there() -> None:
    async def work() -> None:
        async def handle(request: web.Request) -> web.Response:
            body = await request.json()
            assert body["preconditions"] == {"uid": "u"}
            return status(404, "NotFound", "no such pod") if request.path.endswith("/p") else answer({})

        async with serving(handle) as client:
            assert not await client.delete(POD, "p", "d", uid="u")
            assert await client.delete(POD, "q", "d", uid="u")

    run(work)


def test_what_a_server_serves() -> None:
    async def work() -> None:
        async def handle(request: web.Request) -> web.Response:
            if "resource.k8s.io" in request.path:
                return status(404, "NotFound", "no")
            return answer({"resources": [{"name": "pods"}]})

        async with serving(handle) as client:
            assert await client.serves(POD)
            assert not await client.serves(NODE)
            assert not await client.serves(CLAIM)

    run(work)
