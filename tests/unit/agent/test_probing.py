"""A child that hangs, crashes, prints nonsense or goes away is a failure with a reason, and the next one is fresh."""

import asyncio
import sys
from pathlib import Path

import msgspec
import pytest

from terrazzo.agent.vendors.port import Answer, Discovery, Failure, Trouble
from terrazzo.agent.vendors.probing import AskUse, Discover, Probe

CHILD = """
import os, sys, time
sys.path.insert(0, {src!r})
from terrazzo.agent.vendors import probe
from terrazzo.agent.vendors.port import Discovery, Uses
class Backend:
    vendor = "nvidia"
    def discover(self):
        mood = open({mood!r}).read()
        if mood == "hang": time.sleep(600)
        if mood == "crash": print("cannot map the card", file=sys.stderr); os.abort()
        if mood == "chatty": os.write(1, b"WARNING: a library that prints")
        if mood == "raise": raise RuntimeError("GPU is lost")
        return Discovery((), source=str(os.getpid()))
    def use(self):
        return Uses(())
class Module:
    backend = Backend
sys.modules["terrazzo.agent.vendors.nvidia"] = Module
probe.main(sys.argv[1])
"""


@pytest.fixture
def mood(tmp_path: Path) -> Path:
    path = tmp_path / "mood"
    path.write_text("well")
    return path


@pytest.fixture
def program(tmp_path: Path, mood: Path) -> tuple[str, ...]:
    script = tmp_path / "child.py"
    src = str(Path(__file__).resolve().parents[3] / "src")
    script.write_text(CHILD.format(src=src, mood=str(mood)))
    return (sys.executable, str(script))


def _set(mood: Path, word: str) -> None:
    mood.write_text(word)


def _ask(probe: Probe, mood: Path, *moods: str) -> list[Answer]:
    async def run() -> list[Answer]:
        answers = []
        for each in moods:
            _set(mood, each)
            answers.append(await probe.ask(Discover()))
        answers.append(await probe.ask(AskUse()))
        await probe.close()
        return answers

    return asyncio.run(run())


def test_one_child_serves_many_questions(program: tuple[str, ...], mood: Path) -> None:
    first, second, _ = _ask(Probe("nvidia", program=program), mood, "well", "well")
    assert isinstance(first, Discovery)
    assert first == second


@pytest.mark.parametrize(
    ("ill", "trouble", "word", "fresh"),
    [
        ("hang", Trouble.HUNG, "did not answer", True),
        ("crash", Trouble.CRASHED, "signal 6: cannot map the card", True),
        ("raise", Trouble.FAILED, "GPU is lost", False),
    ],
)
def test_ill_then_well(
    program: tuple[str, ...], mood: Path, ill: str, trouble: Trouble, word: str, fresh: bool
) -> None:
    before, during, after, _ = _ask(Probe("nvidia", program=program, deadline_s=2.0), mood, "well", ill, "well")
    assert isinstance(during, Failure)
    assert during.trouble is trouble
    assert word in during.reason
    assert isinstance(after, Discovery)
    assert (before != after) is fresh


def test_a_library_that_prints_does_not_spoil_the_answers(program: tuple[str, ...], mood: Path) -> None:
    told, _ = _ask(Probe("nvidia", program=program), mood, "chatty")
    assert isinstance(told, Discovery)


@pytest.mark.parametrize(
    ("command", "trouble"),
    [
        (("/bin/sh", "-c", "printf '\\377\\377\\377\\377'; sleep 60"), Trouble.GARBLED),
        (("/bin/sh", "-c", "printf '\\000\\000\\000\\001\\301'; sleep 60"), Trouble.GARBLED),
        (("/bin/sh", "-c", "cat >/dev/null & exit 3"), Trouble.CRASHED),
        (("/nowhere/python",), Trouble.FAILED),
    ],
)
def test_no_child_of_ours(command: tuple[str, ...], trouble: Trouble, mood: Path) -> None:
    told, _ = _ask(Probe("nvidia", program=command, deadline_s=5.0), mood, "well")
    assert isinstance(told, Failure)
    assert told.trouble is trouble


def test_a_cancelled_question_does_not_answer_the_next(program: tuple[str, ...], mood: Path) -> None:
    async def run() -> Answer:
        probe = Probe("nvidia", program=program)
        _set(mood, "hang")
        asking = asyncio.create_task(probe.ask(Discover()))
        await asyncio.sleep(0.3)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        _set(mood, "well")
        told = await probe.ask(AskUse())
        await probe.close()
        return told

    assert msgspec.to_builtins(asyncio.run(run()))["type"] == "uses"
