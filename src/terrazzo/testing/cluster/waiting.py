"""Waiting for a condition, with a deadline and a sentence for when it does not come."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from terrazzo.model.errors import TerrazzoError

_T = TypeVar("_T")

DEADLINE_S = 60.0
"""Generous: on two busy cores everything takes its time, and only a failure waits so long."""
STEP_S = 0.05


def wait_until(condition: Callable[[], _T], what: str, *, deadline_s: float = DEADLINE_S, step_s: float = STEP_S) -> _T:
    """Return the condition's first true value.

    Args:
        condition: asked again and again; a TerrazzoError it raises counts as not yet.
        what: the condition as a clause, such as ``pod a runs``, for the error.
        deadline_s: how long to wait at most.
        step_s: between two looks.

    Raises:
        TerrazzoError: the deadline passed; the last value or error is in it.
    """
    until = time.monotonic() + deadline_s
    last: object = None
    while True:
        try:
            value = condition()
        except TerrazzoError as error:
            last = error
        else:
            if value:
                return value
            last = value
        if time.monotonic() > until:
            raise TerrazzoError(f"waited {deadline_s:g} s in vain until {what}; last seen: {last!r:.600}")
        time.sleep(step_s)
