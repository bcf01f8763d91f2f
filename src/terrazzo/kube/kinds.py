"""Where each kind of object lives in the API (Kubernetes API reference, "API groups")."""

from __future__ import annotations

from msgspec import Struct


class Kind(Struct, frozen=True):
    """One kind of object.

    Attributes:
        group: API group, empty for core.
        version: of the group.
        plural: as it stands in paths.
        name: ``kind`` of its objects.
        namespaced: whether its objects live in namespaces.
    """

    group: str
    version: str
    plural: str
    name: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """``apiVersion`` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of an object, of all in a namespace, or of all there are."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        where = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        tail = f"/{name}" if name else ""
        return f"{root}{where}/{self.plural}{tail}" + (f"/{subresource}" if subresource else "")


POD = Kind("", "v1", "pods", "Pod")
NODE = Kind("", "v1", "nodes", "Node", namespaced=False)
NAMESPACE = Kind("", "v1", "namespaces", "Namespace", namespaced=False)
CONFIG_MAP = Kind("", "v1", "configmaps", "ConfigMap")
SECRET = Kind("", "v1", "secrets", "Secret")
EVENT = Kind("events.k8s.io", "v1", "events", "Event")
LEASE = Kind("coordination.k8s.io", "v1", "leases", "Lease")
ENDPOINT_SLICE = Kind("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
BUDGET = Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
CLAIM = Kind("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")
SLICE = Kind("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False)
DEVICE_CLASS = Kind("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False)
MUTATING = Kind(
    "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration",
    namespaced=False,
)  # fmt: skip
VALIDATING = Kind(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration",
    namespaced=False,
)  # fmt: skip
