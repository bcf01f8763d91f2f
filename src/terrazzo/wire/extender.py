"""What kube-scheduler and an extender say to each other.

Source: ``k8s.io/kube-scheduler/extender/v1``. The Go structs carry no JSON tags, so keys are in Pascal case both ways.
With ``nodeCacheCapable`` nodes are sent by name alone.
"""

from __future__ import annotations

from msgspec import Struct, field

from terrazzo.wire.kubernetes import Pod


class FilterArgs(Struct, rename="pascal"):
    """``ExtenderArgs``, of filter and of prioritize."""

    pod: Pod
    node_names: list[str] | None = None


class FilterResult(Struct, rename="pascal", omit_defaults=True):
    """``ExtenderFilterResult``; the second mapping names nodes that no eviction can help."""

    node_names: list[str] = field(default_factory=list)
    failed_nodes: dict[str, str] = field(default_factory=dict)
    failed_and_unresolvable_nodes: dict[str, str] = field(default_factory=dict)
    error: str = ""


class HostPriority(Struct, rename="pascal"):
    """One score."""

    host: str
    score: int


class BindingArgs(Struct, rename="pascal"):
    """``ExtenderBindingArgs``."""

    pod_name: str
    pod_namespace: str
    pod_uid: str = field(name="PodUID")
    node: str = ""


class BindingResult(Struct, rename="pascal"):
    """``ExtenderBindingResult``; an empty error means bound."""

    error: str = ""


class MetaPod(Struct):
    """A victim by its UID."""

    uid: str = field(name="UID")


class MetaVictims(Struct):
    """Victims on one node."""

    pods: list[MetaPod] | None = field(default=None, name="Pods")
    violations: int = field(default=0, name="NumPDBViolations")


class PreemptionArgs(Struct, rename="pascal"):
    """``ExtenderPreemptionArgs`` with ``nodeCacheCapable``."""

    pod: Pod
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None


class PreemptionResult(Struct, rename="pascal"):
    """``ExtenderPreemptionResult``."""

    node_name_to_meta_victims: dict[str, MetaVictims] = field(default_factory=dict)
