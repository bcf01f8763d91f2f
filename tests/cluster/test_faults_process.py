"""Our processes are killed, doubled, and live through jumps of the clock: the books stay right."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

from settling import holds

from terrazzo.testing.cluster.stack import Stack
from terrazzo.testing.cluster.stream import Stream


def test_killed_at_random_instants_under_a_stream(stack: Stack) -> None:
    chance = random.Random(5)  # noqa: S311 - instants that can be had again
    with Stream(stack, "default", number=500, per_second=25) as stream:
        for _ in range(50):
            time.sleep(chance.uniform(0.05, 0.8))
            name = chance.choice(("scheduler", "controller"))
            (stack.extender if name == "scheduler" else stack.controller).kill()
            stack.start_service(name)
        stream.wait()
        assert stream.settled() > 20
    holds(stack)


def test_two_schedulers_at_once(stack: Stack) -> None:
    rival = stack.rival()
    with Stream(stack, "default", number=300, per_second=100) as stream:
        stream.wait()
        assert stream.settled() > 20
    rival.stop()
    holds(stack)


def test_clock_jumps(stack: Stack, tmp_path: Path) -> None:
    source = Path(__file__).parent / "clock.c"
    library, offset = tmp_path / "clock.so", tmp_path / "offset"
    build = ["gcc", "-shared", "-fPIC", "-O2", "-o", str(library), str(source)]
    subprocess.run(build, check=True)  # noqa: S603 - our own file
    offset.write_text("0")
    for name, process in (("scheduler", stack.extender), ("controller", stack.controller)):
        process.stop()
        stack.start_service(name, env={"LD_PRELOAD": str(library), "CLOCK_OFFSET_FILE": str(offset)})
    with Stream(stack, "default", number=150) as stream:
        for jump in (86_400, -86_400, 10, -3600, 0):
            time.sleep(0.6)
            offset.write_text(str(jump))
        stream.wait()
        assert stream.settled() > 20
    holds(stack)
