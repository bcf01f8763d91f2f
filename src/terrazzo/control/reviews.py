"""Admission reviews as they are told: one line and two figures for each."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from terrazzo.control.observed import Figures
from terrazzo.control.serving import Answered, Handler
from terrazzo.control.webhook import Decision, Reviewed


class Reviews:
    """Wraps the webhooks' handlers.

    Args:
        figures: counts.
        log: one line per decision.
    """

    def __init__(self, figures: Figures, log: Any) -> None:
        self._figures = figures
        self._log = log

    def of(self, review: Callable[[bytes], Reviewed]) -> Handler:
        """Return a handler that answers, counts and tells."""

        async def handle(body: bytes) -> Answered:
            began = time.perf_counter()
            answer = review(body)
            self._tell(answer.decision, time.perf_counter() - began)
            return answer

        return handle

    def _tell(self, said: Decision, took_s: float) -> None:
        outcome = "fault" if said.fault else "allowed" if said.allowed else "refused"
        self._figures.admission.labels(said.verb).observe(took_s)
        self._figures.reviews.labels(said.verb, outcome).inc()
        line = {
            "uid": said.uid, "object": said.object, "user": said.user, "outcome": outcome,
            "operations": said.operations, "gated": said.gated, "warnings": len(said.warnings),
            "said": said.sentence, "ms": round(took_s * 1000, 3),
        }  # fmt: skip
        (self._log.error if said.fault else self._log.info)(said.verb, **line)
