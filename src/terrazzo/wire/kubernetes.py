"""Narrow Kubernetes objects: only the fields that anybody here reads.

Narrow structs decode a 10,000-pod list about fifteen times faster than dictionaries do, because what nobody reads is
never made. Field names and types follow the Kubernetes API reference (core/v1, resource.k8s.io/v1). Everything is
optional: a dump may be partial, and a hand-written manifest has no status.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct, field

Quantity = str | int | float


class OwnerReference(Struct, rename="camel"):
    """``metadata.ownerReferences[]``."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Struct, rename="camel"):
    """``metadata``."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    finalizers: list[str] | None = None


class Resources(Struct):
    """``resources`` of a container."""

    limits: dict[str, Quantity] | None = None
    requests: dict[str, Quantity] | None = None


class EnvVar(Struct):
    """One environment variable; values from references are of no interest here."""

    name: str = ""
    value: str | None = None


class SecurityContext(Struct):
    """``securityContext`` of a container."""

    privileged: bool | None = None


class Container(Struct, rename="camel"):
    """A container or init container."""

    name: str = ""
    image: str = ""
    resources: Resources | None = None
    restart_policy: str | None = None
    env: list[EnvVar] | None = None
    security_context: SecurityContext | None = None


class LabelRequirement(Struct):
    """``matchExpressions[]`` or ``matchFields[]``."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class NodeSelectorTerm(Struct, rename="camel"):
    """One term of a node selector."""

    match_expressions: list[LabelRequirement] | None = None
    match_fields: list[LabelRequirement] | None = None


class NodeSelector(Struct, rename="camel"):
    """``requiredDuringSchedulingIgnoredDuringExecution``."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class PreferredTerm(Struct):
    """``preferredDuringSchedulingIgnoredDuringExecution[]``."""

    weight: int = 1
    preference: NodeSelectorTerm | None = None


class NodeAffinity(Struct, rename="camel"):
    """``affinity.nodeAffinity``."""

    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[PreferredTerm] | None = field(default=None, name="preferredDuringSchedulingIgnoredDuringExecution")


class PodAffinity(Struct):
    """``affinity.podAffinity``; what it says is kube-scheduler's business, that it is soft is ours."""

    preferred: list[Raw] | None = field(default=None, name="preferredDuringSchedulingIgnoredDuringExecution")


class Affinity(Struct, rename="camel"):
    """``affinity``; pod (anti-)affinity is kube-scheduler's business."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Spread(Struct, rename="camel"):
    """``topologySpreadConstraints[]``."""

    when_unsatisfiable: str = ""


class SchedulingGate(Struct):
    """``schedulingGates[]``."""

    name: str = ""


class OperatingSystem(Struct):
    """``os``."""

    name: str = ""


class Toleration(Struct):
    """``tolerations[]``."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class PodSpec(Struct, rename="camel"):
    """``spec`` of a pod or pod template."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    node_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    priority: int | None = None
    priority_class_name: str = ""
    scheduler_name: str = ""
    runtime_class_name: str | None = None
    overhead: dict[str, Quantity] | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    topology_spread_constraints: list[Spread] | None = None
    preemption_policy: str | None = None
    os: OperatingSystem | None = None


class Condition(Struct):
    """``status.conditions[]``."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class RequestMapping(Struct, rename="camel"):
    """Which request of a claim gives a container what it asked for by a resource name."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class ExtendedClaim(Struct, rename="camel"):
    """``status.extendedResourceClaimStatus`` of a pod."""

    resource_claim_name: str = ""
    request_mappings: list[RequestMapping] | None = None


class PodStatus(Struct, rename="camel"):
    """``status`` of a pod."""

    phase: str = ""
    nominated_node_name: str = ""
    conditions: list[Condition] | None = None
    extended_resource_claim_status: ExtendedClaim | None = None


class Pod(Struct, rename="camel"):
    """A pod, or the pod that a template would make."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)


class Taint(Struct):
    """``spec.taints[]``."""

    key: str = ""
    value: str | None = None
    effect: str = ""


class NodeSpec(Struct, rename="camel"):
    """``spec`` of a node."""

    taints: list[Taint] | None = None
    unschedulable: bool | None = None
    provider_id: str = field(default="", name="providerID")


class NodeStatus(Struct, rename="camel"):
    """``status`` of a node."""

    allocatable: dict[str, Quantity] | None = None
    capacity: dict[str, Quantity] | None = None
    conditions: list[Condition] | None = None


class Node(Struct, rename="camel"):
    """A node."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)


class ConfigMap(Struct, rename="camel"):
    """A config map (Ascend's device-info lives in one)."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    data: dict[str, str] | None = None


class Pool(Struct, rename="camel"):
    """``spec.pool`` of a ResourceSlice."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class SliceDevice(Struct, rename="camel"):
    """``spec.devices[]`` of a ResourceSlice (v1; v1beta1 wraps it in ``basic``)."""

    name: str = ""
    attributes: dict[str, dict[str, Any]] | None = None
    capacity: dict[str, dict[str, Any]] | None = None
    taints: list[Taint] | None = None
    allow_multiple_allocations: bool | None = None
    consumes_counters: list[dict[str, Any]] | None = None
    basic: dict[str, Any] | None = None


class ResourceSliceSpec(Struct, rename="camel"):
    """``spec`` of a ResourceSlice."""

    driver: str = ""
    node_name: str = ""
    pool: Pool = field(default_factory=Pool)
    devices: list[SliceDevice] | None = None


class ResourceSlice(Struct, rename="camel"):
    """A ResourceSlice of any DRA driver."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: ResourceSliceSpec = field(default_factory=ResourceSliceSpec)


class LabelSelector(Struct, rename="camel"):
    """A label selector."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[LabelRequirement] | None = None


class BudgetSpec(Struct):
    """``spec`` of a PodDisruptionBudget."""

    selector: LabelSelector | None = None


class BudgetStatus(Struct, rename="camel"):
    """``status`` of a PodDisruptionBudget."""

    disruptions_allowed: int = 0


class DisruptionBudget(Struct, rename="camel"):
    """A PodDisruptionBudget (policy/v1)."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: BudgetSpec = field(default_factory=BudgetSpec)
    status: BudgetStatus = field(default_factory=BudgetStatus)


class DeviceClassSpec(Struct, rename="camel"):
    """``spec`` of a DeviceClass."""

    extended_resource_name: str | None = None


class DeviceClass(Struct, rename="camel"):
    """A DeviceClass (resource.k8s.io/v1)."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: DeviceClassSpec = field(default_factory=DeviceClassSpec)
