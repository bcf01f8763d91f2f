"""Requests of pods, read once for all pods of one template.

Pods of one controller are alike but for their names. Reading what they ask for costs far more than seeing that they
are alike, and what they have in common is then kept once.
"""

from __future__ import annotations

import msgspec

from terrazzo.dialects.hostrules import created_s, owner_of
from terrazzo.dialects.normalise import normalise
from terrazzo.model.request import PodRequest
from terrazzo.wire import kubernetes as k8s
from terrazzo.wire.state import ALLOCATION

MOST = 8192
"""Templates remembered."""
OWN = (ALLOCATION, "kubectl.kubernetes.io/last-applied-configuration")
"""Annotations that each pod has of its own and that ask for nothing."""


class Requests:
    """Reads pods."""

    def __init__(self) -> None:
        self._known: dict[bytes, PodRequest] = {}

    def of(self, pod: k8s.Pod) -> PodRequest:
        """Return what a pod asks for, as ``normalise`` does.

        Raises:
            RequestError: it asks for what can never be valid.
        """
        key = _common(pod)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MOST:
                self._known.clear()
            known = self._known[key] = normalise(pod).request
            return known
        meta, rules = pod.metadata, known.rules
        if pod.spec.node_name != rules.node_name:
            rules = msgspec.structs.replace(rules, node_name=pod.spec.node_name)
        return msgspec.structs.replace(
            known,
            namespace=meta.namespace or "default",
            name=meta.name or meta.generate_name or "unnamed",
            uid=meta.uid,
            labels=known.labels if meta.labels == known.labels else dict(meta.labels or {}),
            phase=pod.status.phase,
            created_s=created_s(meta.creation_timestamp),
            owner=owner_of(meta),
            rules=rules,
        )


def _common(pod: k8s.Pod) -> bytes:
    annotations = {name: text for name, text in (pod.metadata.annotations or {}).items() if name not in OWN}
    return msgspec.json.encode((msgspec.structs.replace(pod.spec, node_name=""), annotations))
