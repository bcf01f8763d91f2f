"""What every test of a fault ends with."""

from __future__ import annotations

import time

from terrazzo.testing.cluster.audit import leaks, over_granted
from terrazzo.testing.cluster.stack import Stack
from terrazzo.testing.cluster.waiting import wait_until

SETTLES_S = 10


def holds(stack: Stack) -> None:
    """Nothing was over-granted at any moment, and nothing is left over ten seconds after the dust settles."""
    time.sleep(0.5)
    wait_until(lambda: not leaks(stack.plane), f"nothing is left over: {leaks(stack.plane)}", deadline_s=SETTLES_S)
    assert over_granted(stack.plane).versions
