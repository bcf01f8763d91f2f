"""The scheduler extender: bytes of kube-scheduler in, bytes out. Never an exception, whatever comes in."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from terrazzo.control.binding import Binder, BindError
from terrazzo.control.observed import Figures
from terrazzo.control.placing import Placer, Verdict
from terrazzo.model.errors import TerrazzoError
from terrazzo.wire import extender as wire

_T = TypeVar("_T")
_NAMES_ONLY = "sent no node names; set nodeCacheCapable: true for this extender"


class Answer(Struct, frozen=True):
    """What goes back: an HTTP status and a JSON body."""

    status: int
    body: bytes


class Extender:
    """Answers kube-scheduler.

    Args:
        placer: decides.
        binder: binds.
        figures: counts.
        log: one line per decision.
        caught_up: awaited before a decision that follows a silence; see ``Service``.
    """

    def __init__(
        self, placer: Placer, binder: Binder, figures: Figures, log: Any, caught_up: Callable[[], Awaitable[None]]
    ) -> None:
        self._placer = placer
        self._binder = binder
        self._figures = figures
        self._log = log
        self._caught_up = caught_up
        self._filter = msgspec.json.Decoder(wire.FilterArgs)
        self._bind = msgspec.json.Decoder(wire.BindingArgs)
        self._preempt = msgspec.json.Decoder(wire.PreemptionArgs)

    async def filter(self, body: bytes) -> Answer:
        """Answer ``filterVerb``."""
        began = time.perf_counter()
        args = _read(self._filter, body)
        if isinstance(args, str):
            return _said(wire.FilterResult(error=args))
        if args.node_names is None:
            return _said(wire.FilterResult(error=_NAMES_ONLY))
        await self._caught_up()
        verdict = self._placer.filter(args.pod, args.node_names)
        self._tell("filter", args.pod.metadata, began, verdict, len(args.node_names))
        return _said(wire.FilterResult(list(verdict.ranks), verdict.failed, verdict.hopeless))

    async def prioritize(self, body: bytes) -> Answer:
        """Answer ``prioritizeVerb``."""
        began = time.perf_counter()
        args = _read(self._filter, body)
        if isinstance(args, str):
            return Answer(400, msgspec.json.encode({"error": args}))
        scores = self._placer.prioritize(args.pod, args.node_names or ())
        answer = _said([wire.HostPriority(name, score) for name, score in scores.items()])
        self._figures.took.labels("prioritize").observe(time.perf_counter() - began)
        return answer

    async def bind(self, body: bytes) -> Answer:
        """Answer ``bindVerb``. The text of an error becomes the pod's event word for word."""
        began = time.perf_counter()
        args = _read(self._bind, body)
        if isinstance(args, str):
            return _said(wire.BindingResult(args))
        line = {"uid": args.pod_uid, "pod": f"{args.pod_namespace}/{args.pod_name}", "node": args.node}
        error = ""
        try:
            bound = await self._binder.bind(args.pod_uid, args.pod_namespace, args.pod_name, args.node)
            line["ledger"] = bound.ledger
            line["devices"] = ",".join(use.uuid for use in bound.allocation.uses)
        except BindError as failed:
            error = str(failed)
        except asyncio.CancelledError:
            raise
        except Exception as fault:  # noqa: BLE001 - a fault of ours must not leave kube-scheduler without an answer
            self._log.error("fault", verb="bind", **line, exc_info=True)
            error = f"terrazzo failed: {fault!r}"
        took = time.perf_counter() - began
        self._figures.took.labels("bind").observe(took)
        self._figures.decisions.labels("bind", "refused" if error else "bound").inc()
        self._log.info("bind", **line, error=error, ms=round(took * 1000, 2))
        return _said(wire.BindingResult(error))

    async def preempt(self, body: bytes) -> Answer:
        """Answer ``preemptVerb``: only nodes on which the devices fit once the victims are gone."""
        args = _read(self._preempt, body)
        if isinstance(args, str):
            return Answer(400, msgspec.json.encode({"error": args}))
        offered = args.node_name_to_meta_victims or {}
        uids = {node: [pod.uid for pod in victims.pods or ()] for node, victims in offered.items()}
        kept = self._placer.survivors(args.pod, uids)
        self._figures.decisions.labels("preempt", "kept" if kept else "dropped").inc()
        self._log.info("preempt", uid=args.pod.metadata.uid, offered=len(offered), kept=len(kept))
        return _said(wire.PreemptionResult({node: offered[node] for node in kept}))

    def _tell(self, verb: str, meta: Any, began: float, verdict: Verdict, nodes: int) -> None:
        took = time.perf_counter() - began
        self._figures.took.labels(verb).observe(took)
        self._figures.decisions.labels(verb, "fits" if verdict.ranks else "rejected").inc()
        why = Counter(verdict.hopeless.values())
        why.update(verdict.failed.values())
        for text, count in why.items():
            self._figures.rejections.labels(text).inc(count)
        best = next(iter(verdict.ranks), "")
        self._log.info(
            verb, uid=meta.uid, pod=f"{meta.namespace}/{meta.name}", asked=nodes, fit=len(verdict.ranks), best=best,
            why=why, ms=round(took * 1000, 3),
        )  # fmt: skip


def _read(decoder: msgspec.json.Decoder[_T], body: bytes) -> _T | str:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return str(TerrazzoError(f"cannot be read ({error})", where="extender call"))


def _said(result: object) -> Answer:
    return Answer(200, msgspec.json.encode(result))
