"""The admission webhooks: bytes of the API server in, bytes out. No I/O, and never an exception.

Three paths. ``/admit`` is asked about pods that name what only we place, and fails closed. ``/admit-whole`` is asked
about pods that name whole devices in vendors' words; it decides alike, but a fault of ours lets the pod pass, because
a node without Terrazzo may serve it. ``/warn`` is asked about workloads and only ever warns, where people look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Raw, Struct

from terrazzo.admission import Admitted, FleetSummary, Refused, decide
from terrazzo.admission.patch import Operation, gate_for
from terrazzo.control.pods import GATE
from terrazzo.dialects.workloads import pods_of
from terrazzo.model.errors import InputError, TerrazzoError
from terrazzo.model.policy import Policy
from terrazzo.model.request import PodRequest
from terrazzo.wire import kubernetes as k8s
from terrazzo.wire import review

WARNING_BYTES = 240
"""An API server cuts a warning at 256 characters."""
WARNINGS_BYTES = 3900
"""… and all warnings of one request at 4096."""
BAD_REQUEST, FORBIDDEN, FAULT = 400, 403, 500


class Decision(Struct, frozen=True, kw_only=True):
    """What was decided, for the log.

    Attributes:
        verb: ``admit``, ``admit-whole`` or ``warn``.
        uid: of the review; empty when it could not be read.
        object: kind, namespace and name as far as there is one.
        user: who asked for the object.
        allowed: whether it may be.
        operations: operations of the patch.
        gated: the pod waits behind our scheduling gate.
        warnings: sentences for its author.
        sentence: why not, or what could not be read.
        fault: the program failed, and ``sentence`` says how.
    """

    verb: str
    uid: str = ""
    object: str = ""
    user: str = ""
    allowed: bool = True
    operations: int = 0
    gated: bool = False
    warnings: tuple[str, ...] = ()
    sentence: str = ""
    fault: bool = False


class Reviewed(Struct, frozen=True):
    """The answer: HTTP status and JSON body, with the decision in them."""

    status: int
    body: bytes
    decision: Decision


class Webhook:
    """Answers the API server.

    Args:
        policy: the cluster's policy as of now.
        fleet: what the cluster has, as of now.
        fits_nowhere_and_crowded: whether a pod would join a crowd that waits already, with no node for it: it is
            created with a scheduling gate, so that waiting costs kube-scheduler nothing.
        system_users: user names of our own services, which may write our annotations.
    """

    def __init__(
        self,
        policy: Callable[[], Policy],
        fleet: Callable[[], FleetSummary],
        fits_nowhere_and_crowded: Callable[[PodRequest], bool] | None = None,
        system_users: frozenset[str] = frozenset(),
    ) -> None:
        self._policy = policy
        self._fleet = fleet
        self._crowded = fits_nowhere_and_crowded
        self._system_users = system_users
        self._pod = msgspec.json.Decoder(k8s.Pod)
        self._thing = msgspec.json.Decoder(dict[str, Any])

    def admit(self, body: bytes) -> Reviewed:
        """Answer about a pod that only we can place; what cannot be understood is refused."""
        return self._answer("admit", body, self._pod_answer)

    def admit_whole(self, body: bytes) -> Reviewed:
        """Answer about a pod that a node without us may serve as well; what cannot be understood passes."""
        return self._answer("admit-whole", body, self._pod_answer)

    def warn(self, body: bytes) -> Reviewed:
        """Answer about a workload: it may be, and its author is told how its pods will fare."""
        return self._answer("warn", body, self._warn_answer)

    # -- one review ----------------------------------------------------------------------------------------------

    def _answer(self, verb: str, body: bytes, decide_on: Callable[[str, review.ReviewRequest], Reviewed]) -> Reviewed:
        try:
            asked = review.decode(body)
        except InputError as error:
            return self._unread(verb, review.uid_in(body), str(error))
        try:
            return decide_on(verb, asked)
        except TerrazzoError as error:
            return self._failed(verb, asked, str(error), BAD_REQUEST)
        except Exception as fault:  # noqa: BLE001 - a fault of ours must not leave the API server without an answer
            return self._failed(verb, asked, f"terrazzo failed: {fault!r}", FAULT)

    def _unread(self, verb: str, uid: str, sentence: str) -> Reviewed:
        """Answer what is no review: within the protocol where there is a UID, else by an HTTP status."""
        if not uid:
            said = Decision(verb=verb, allowed=False, sentence=sentence)
            return Reviewed(BAD_REQUEST, msgspec.json.encode({"error": sentence}), said)
        return self._failed(verb, review.ReviewRequest(uid=uid), sentence, BAD_REQUEST)

    def _failed(self, verb: str, asked: review.ReviewRequest, sentence: str, code: int) -> Reviewed:
        said = Decision(
            verb=verb, uid=asked.uid, object=_title(asked), user=asked.user_info.username, allowed=verb != "admit",
            sentence=sentence, fault=code == FAULT,
        )  # fmt: skip
        if said.allowed:
            return Reviewed(200, review.allow(asked.uid, warnings=_fitted([f"not checked: {sentence}"])), said)
        return Reviewed(200, review.refuse(asked.uid, sentence, code), said)

    # -- pods ----------------------------------------------------------------------------------------------------

    def _pod_answer(self, verb: str, asked: review.ReviewRequest) -> Reviewed:
        if asked.kind.kind != "Pod" or asked.kind.group:
            what = f"is about {asked.kind.kind or 'nothing'}, this path answers about pods"
            raise InputError(what, where="admission review", remedy="register it for CREATE of pods")
        user = asked.user_info.username
        if asked.operation != "CREATE" or asked.sub_resource:
            return _allowed(verb, asked, _title(asked))
        pod = self._read_pod(asked)
        policy = self._policy()
        found = decide(pod, policy, self._fleet(), user_is_system=user in self._system_users)
        title = f"Pod {pod.metadata.namespace}/{pod.metadata.name or pod.metadata.generate_name}"
        if isinstance(found, Refused):
            said = Decision(
                verb=verb, uid=asked.uid, object=title, user=user, allowed=False, sentence=found.sentence
            )  # fmt: skip
            return Reviewed(200, review.refuse(asked.uid, found.sentence, FORBIDDEN), said)
        gate = self._gate(pod, found, policy)
        return _allowed(verb, asked, title, (*found.patch, *gate), _told(found), gated=bool(gate))

    def _read_pod(self, asked: review.ReviewRequest) -> k8s.Pod:
        """Return the pod with the namespace it is created in: its own metadata may leave that out."""
        pod: k8s.Pod = _decoded(self._pod, asked.object, _title(asked))
        pod.metadata.namespace = pod.metadata.namespace or asked.namespace or "default"
        pod.metadata.name = pod.metadata.name or asked.name
        return pod

    def _gate(self, pod: k8s.Pod, found: Admitted, policy: Policy) -> tuple[Operation, ...]:
        # A pod that has a node already runs; a pod that asks for nothing waits for nothing of ours.
        if self._crowded is None or not found.request.asks_devices or pod.spec.node_name:
            return ()
        gate = gate_for(pod, policy, GATE)
        return gate if gate and self._crowded(found.request) else ()

    # -- workloads -----------------------------------------------------------------------------------------------

    def _warn_answer(self, verb: str, asked: review.ReviewRequest) -> Reviewed:
        title = _title(asked)
        if asked.operation not in ("CREATE", "UPDATE") or asked.sub_resource:
            return _allowed(verb, asked, title)
        thing = _decoded(self._thing, asked.object, title)
        warnings: list[str] = []
        for made in pods_of(_one_pod(thing, asked), title):
            found = decide(made.pod, self._policy(), self._fleet())
            where = f"pod {made.pod.metadata.namespace}/{made.pod.metadata.name}: "
            if isinstance(found, Refused):
                warnings.append(f"its pods will be refused: {found.sentence.removeprefix(where)}")
            else:
                warnings += _told(found)
        return _allowed(verb, asked, title, (), warnings)


def _one_pod(thing: dict[str, Any], asked: review.ReviewRequest) -> dict[str, Any]:
    """Return the one template of a workload, under its name; how many pods it makes changes no warning."""
    spec = thing.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    if asked.kind.kind == "CronJob":
        job = spec.get("jobTemplate")
        job = job.get("spec") if isinstance(job, dict) else None
        spec = job if isinstance(job, dict) else {}
    meta = thing.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    meta = {"name": meta.get("name") or asked.name, "namespace": meta.get("namespace") or asked.namespace}
    return {"kind": "PodTemplate", "metadata": meta, "template": spec.get("template")}


def _allowed(
    verb: str, asked: review.ReviewRequest, title: str, patch: tuple[Operation, ...] = (),
    warnings: Iterable[str] = (), *, gated: bool = False,
) -> Reviewed:  # fmt: skip
    told = _fitted(warnings)
    said = Decision(
        verb=verb, uid=asked.uid, object=title, user=asked.user_info.username, operations=len(patch), gated=gated,
        warnings=told,
    )  # fmt: skip
    return Reviewed(200, review.allow(asked.uid, patch, told), said)


def _title(asked: review.ReviewRequest) -> str:
    return f"{asked.kind.kind} {asked.namespace}/{asked.name}" if asked.kind.kind else ""


def _decoded(decoder: msgspec.json.Decoder[Any], raw: Raw, where: str) -> Any:
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        what = f"cannot be read ({' '.join(str(error).replace('`', '').split())[:200]})"
        raise InputError(what, where=where) from None


def _told(found: Admitted) -> list[str]:
    """Warnings without the pod's name before each: they are printed right below the command that made it."""
    return [sentence.removeprefix(f"pod {found.request.title}: ") for sentence in found.warnings]


def _fitted(warnings: Iterable[str]) -> tuple[str, ...]:
    """Return warnings as an API server passes them on: one line each, not too long, not too many."""
    kept: list[str] = []
    left = WARNINGS_BYTES
    rows = [row for text in warnings if (row := "".join(c if c.isprintable() else " " for c in text).strip())]
    for number, row in enumerate(rows):
        cut = _cut(row)
        if (left := left - len(cut.encode())) < 0:
            return (*kept, f"… and {len(rows) - number} more.")
        kept.append(cut)
    return tuple(kept)


def _cut(text: str) -> str:
    raw = text.encode()
    return text if len(raw) <= WARNING_BYTES else raw[: WARNING_BYTES - 3].decode("utf-8", "ignore") + "…"
