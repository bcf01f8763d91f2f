"""What a pod asks for, after the normaliser: the only form in which the rest of the program sees a request."""

from __future__ import annotations

from enum import StrEnum
from fnmatch import fnmatchcase

from msgspec import Struct, field

from terrazzo.model.node import Taint
from terrazzo.model.quantity import format_mib


class ContainerKind(StrEnum):
    """When a container runs. A sidecar is an init container with ``restartPolicy: Always``."""

    APP = "app"
    SIDECAR = "sidecar"
    INIT = "init"


class Ask(Struct, frozen=True, gc=False):
    """``count`` distinct devices for one container, each with the same memory and compute.

    Exactly one of three forms: ``whole`` (all of each device, nobody else on it), ``profile`` (a geometry slice by
    name), or a fraction (``memory_mib`` or ``memory_percent``, and ``cores_percent``).

    Attributes:
        count: distinct devices (for a profile: slices).
        memory_mib: memory on each device; 0 when ``memory_percent`` says it.
        memory_percent: memory on each device as a share; 0 when ``memory_mib`` says it.
        cores_percent: compute on each device; 0 reserves none.
        whole: asks for the whole device.
        profile: name of a geometry slice.
        vendors: vendors that the words imply, or that policy chose; empty = not decided yet.
        models: globs over device names that the words themselves imply (``huawei.com/Ascend910B4`` is that exact
            chip); empty = any.
        words: the resource names this came from, for messages.
    """

    count: int = 1
    memory_mib: int = 0
    memory_percent: int = 0
    cores_percent: int = 0
    whole: bool = False
    profile: str = ""
    vendors: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return the ask for people: ``2×(40Gi, 50%)``, ``1 whole device``, ``1×mig 2g.20gb``."""
        if self.whole:
            return f"{self.count} whole device{'s' if self.count > 1 else ''}"
        if self.profile:
            return f"{self.count}×{self.profile}"
        memory = format_mib(self.memory_mib) if self.memory_mib else f"{self.memory_percent}% of memory"
        cores = f"{self.cores_percent}%" if self.cores_percent else "no cores"
        return f"{self.count}×({memory}, {cores})"


class ContainerRequest(Struct, frozen=True):
    """One container that asks for devices or stands beside one that does.

    Attributes:
        name: container name.
        kind: app, sidecar or init.
        asks: one per form it uses; empty when it asks for nothing.
        image: image reference, for image rules.
    """

    name: str
    kind: ContainerKind = ContainerKind.APP
    asks: tuple[Ask, ...] = ()
    image: str = ""


class Pattern(Struct, frozen=True, gc=False):
    """A comma list of exact names or globs; ``!`` excludes. Never a substring: ``H20`` is not ``H200``.

    Matching ignores case. With no ``include`` everything not excluded matches.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """Return the pattern that ``text`` (``A100*,!A100-40``) writes."""
        words = [word.strip() for word in text.split(",") if word.strip()]
        return cls(
            include=tuple(word for word in words if not word.startswith("!")),
            exclude=tuple(word[1:].strip() for word in words if word.startswith("!")),
        )

    def matches(self, *names: str) -> bool:
        """Return whether any of ``names`` is wanted and none is excluded."""
        folded = [name.casefold() for name in names]
        if any(fnmatchcase(name, glob.casefold()) for glob in self.exclude for name in folded):
            return False
        return not self.include or any(fnmatchcase(name, glob.casefold()) for glob in self.include for name in folded)


class Toleration(Struct, frozen=True, gc=False):
    """A toleration of a pod. Empty ``key`` with operator Exists tolerates everything."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Return whether this toleration covers ``taint`` (Kubernetes API reference, "Toleration")."""
        if self.effect and self.effect != taint.effect:
            return False
        if not self.key:
            return self.operator == "Exists"
        if self.key != taint.key:
            return False
        return self.operator == "Exists" or self.value == taint.value


class LabelTest(Struct, frozen=True, gc=False):
    """One requirement of a node selector term: ``key operator values``.

    Operators: In, NotIn, Exists, DoesNotExist, Gt, Lt. A key of ``metadata.name`` tests the node's name.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, labels: dict[str, str]) -> bool:
        """Return whether a node with ``labels`` passes."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return self._compares(value)
        return False

    def _compares(self, value: str | None) -> bool:
        try:
            have, want = int(value or ""), int(self.values[0])
        except (ValueError, IndexError):
            return False
        return have > want if self.operator == "Gt" else have < want


class Preference(Struct, frozen=True):
    """A preferred node affinity term with its weight (1..100)."""

    weight: int
    tests: tuple[LabelTest, ...]


class NodeRules(Struct, frozen=True):
    """What Kubernetes itself checks about the node, as far as a dump tells.

    Attributes:
        node_name: ``spec.nodeName`` of a pod that is already bound or preset.
        selector: ``spec.nodeSelector``.
        terms: required node affinity: any term must hold, a term holds when all its tests do; empty = no rule.
        preferences: preferred node affinity.
        tolerations: ``spec.tolerations``.
    """

    node_name: str = ""
    selector: dict[str, str] = field(default_factory=dict)
    terms: tuple[tuple[LabelTest, ...], ...] = ()
    preferences: tuple[Preference, ...] = ()
    tolerations: tuple[Toleration, ...] = ()


class PodRequest(Struct, frozen=True, kw_only=True):
    """A pod, normalised.

    Attributes:
        namespace, name, uid: identity; ``uid`` is empty for a manifest that was never created.
        labels: ``metadata.labels`` (PodDisruptionBudgets select by them).
        containers: init containers first, in the order Kubernetes starts them, then app containers.
        vendor, model, device: selectors of the pod; a device passes when all match.
        strategy: placement strategy the pod names, or empty for the namespace's.
        isolation: isolation the pod insists on, or empty.
        compute: ``burst`` (granted cores are a floor) or ``hard`` (also a ceiling).
        exclusive: nobody else may share its devices.
        numa_bind: all devices of a container on one NUMA node.
        priority: pod priority.
        cpu_milli, memory_mib: host CPU and memory, counted as Kubernetes does.
        other: other extended resources by name.
        rules: node rules.
        phase: ``status.phase``; empty for a manifest.
        created_s: creation time in seconds since the epoch, 0 when not stated.
        owner: ``Kind/name`` of the controlling owner, or empty.
    """

    namespace: str = "default"
    name: str
    uid: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    containers: tuple[ContainerRequest, ...] = ()
    vendor: Pattern = Pattern()
    model: Pattern = Pattern()
    device: Pattern = Pattern()
    strategy: str = ""
    isolation: str = ""
    compute: str = "burst"
    exclusive: bool = False
    numa_bind: bool = False
    priority: int = 0
    cpu_milli: int = 0
    memory_mib: int = 0
    other: dict[str, int] = field(default_factory=dict)
    rules: NodeRules = field(default_factory=NodeRules)
    phase: str = ""
    created_s: int = 0
    owner: str = ""

    @property
    def key(self) -> str:
        """Identity in the ledger: the UID, or ``namespace/name`` for a manifest that has none."""
        return self.uid or f"{self.namespace}/{self.name}"

    @property
    def title(self) -> str:
        """``namespace/name``, for messages."""
        return f"{self.namespace}/{self.name}"

    @property
    def asks_devices(self) -> bool:
        """Whether any container asks for a device. A pod that does not is left alone and counted."""
        return any(container.asks for container in self.containers)
