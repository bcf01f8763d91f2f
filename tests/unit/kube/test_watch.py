from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st
from server import answer, pod, serving

from terrazzo.kube import watch
from terrazzo.kube.errors import ApiError, from_answer
from terrazzo.kube.kinds import POD
from terrazzo.wire import kubernetes as k8s


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "FIRST_WAIT_S", 0.01)


Stream = Callable[[web.StreamResponse, int], Coroutine[Any, Any, None]]


def line(kind: str, item: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"


def heard(stream: Stream, number: int, silence_s: float = 5.0, lists: list[web.Response] | None = None) -> list[Any]:
    """Return the first news of a watch on a server that answers lists with pod ``a`` and streams as told."""
    news: list[Any] = []
    asked: list[dict[str, str]] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.query.get("watch") != "1":
            if lists:
                return lists.pop(0)
            return answer({"metadata": {"resourceVersion": "10"}, "items": [pod("a", 5)]})
        asked.append(dict(request.query))
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await stream(response, len(asked))
        return response

    async def work() -> None:
        async with serving(handle) as client:
            following = watch.follow(client, POD, k8s.Pod, silence_s=silence_s)
            async for each in following:
                news.append(each)
                if len(news) == number:
                    break
            await following.aclose()

    asyncio.run(asyncio.wait_for(work(), 20))
    assert all(query["allowWatchBookmarks"] == "true" for query in asked)
    return [*news, asked]


def test_a_list_then_what_happens_and_bookmarks_keep_the_place() -> None:
    async def stream(response: web.StreamResponse, turn: int) -> None:
        if turn == 1:
            await response.write(line("ADDED", pod("b", 11)) + line("MODIFIED", pod("b", 12))[:20])
            await response.write(line("MODIFIED", pod("b", 12))[20:] + line("DELETED", pod("a", 13)))
            await response.write(line("BOOKMARK", {"metadata": {"resourceVersion": "40"}}))
            return
        await response.write(line("ADDED", pod("c", 41)))

    first, added, changed, deleted, mark, later, asked = heard(stream, 6)
    assert isinstance(first, watch.Listed)
    assert (first.version, first.items[0].metadata.name) == ("10", "a")
    assert isinstance(added, watch.Changed)
    assert isinstance(changed, watch.Changed)
    assert isinstance(deleted, watch.Deleted)
    assert deleted.item.metadata.name == "a"
    assert mark == watch.Mark("40")
    assert later.item.metadata.name == "c"
    assert [query["resourceVersion"] for query in asked] == ["10", "40"]


def test_a_place_that_the_server_forgot_means_a_new_list() -> None:
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}

    async def stream(response: web.StreamResponse, turn: int) -> None:
        if turn == 1:
            await response.write(line("ERROR", gone))
        else:
            await asyncio.sleep(5)

    first, second, _ = heard(stream, 2)
    assert isinstance(first, watch.Listed)
    assert isinstance(second, watch.Listed)


def test_silence_is_noticed_and_the_watch_goes_on_from_its_place() -> None:
    async def stream(response: web.StreamResponse, turn: int) -> None:
        if turn == 1:
            await response.write(line("ADDED", pod("b", 11)))
            await asyncio.sleep(5)
        else:
            await response.write(line("ADDED", pod("c", 12)))

    *_, trouble, later, asked = heard(stream, 4, silence_s=0.2)
    assert isinstance(trouble, watch.Trouble)
    assert later.item.metadata.name == "c"
    assert asked[-1]["resourceVersion"] == "11"


def test_lines_may_be_long_and_cut_anywhere() -> None:
    large = pod("large", 11)
    large["metadata"]["annotations"] = {"x": "y" * 3_000_000}
    whole = line("ADDED", large) + line("ADDED", pod("next", 12))

    async def stream(response: web.StreamResponse, _: int) -> None:
        for start in range(0, len(whole), 70_001):
            await response.write(whole[start : start + 70_001])

    _, first, second, _ = heard(stream, 3)
    assert first.item.metadata.name == "large"
    assert second.item.metadata.name == "next"


def test_an_object_that_cannot_be_read_does_not_stop_the_others() -> None:
    async def stream(response: web.StreamResponse, turn: int) -> None:
        if turn > 1:
            await asyncio.sleep(5)
        await response.write(line("ADDED", {"metadata": {"resourceVersion": "11", "labels": 7}}))
        await response.write(line("ADDED", pod("b", 12)))

    _, trouble, later, asked = heard(stream, 3)
    assert isinstance(trouble, watch.Trouble)
    assert later.item.metadata.name == "b"
    assert len(asked) == 1


def test_a_server_that_is_away_is_asked_again() -> None:
    async def stream(response: web.StreamResponse, _: int) -> None:
        await response.write(line("ADDED", pod("b", 11)))

    news = heard(stream, 3, lists=[web.Response(text="<html>", content_type="text/html")])
    assert isinstance(news[0], watch.Trouble)
    assert isinstance(news[1], watch.Listed)


@given(st.binary(max_size=80), st.sampled_from([400, 401, 403, 404, 409, 410, 418, 422, 429, 500, 503]))
@settings(max_examples=200, deadline=None)
def test_whatever_a_server_says_is_an_error_in_one_line(body: bytes, code: int) -> None:
    error = from_answer(code, body, where="GET /x", retry_after="soon")
    assert isinstance(error, ApiError)
    assert "\n" not in str(error)


@given(st.binary(max_size=120))
@settings(max_examples=200, deadline=None)
def test_whatever_a_watch_says_is_news_or_an_error(body: bytes) -> None:
    with suppress(ApiError):
        watch._read(body, msgspec.json.Decoder(k8s.Pod), POD)
