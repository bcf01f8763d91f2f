"""ResourceClaims (resource.k8s.io/v1) as the ``dra`` ledger reads them."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from terrazzo.wire.kubernetes import ObjectMeta, Quantity


class ClaimResult(Struct, rename="camel", omit_defaults=True):
    """``status.allocation.devices.results[]``: one device, or a part of one."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = field(default=None, name="shareID")
    consumed_capacity: dict[str, Quantity] | None = None


class ClaimDevices(Struct):
    """``status.allocation.devices``."""

    results: list[ClaimResult] | None = None


class ClaimAllocation(Struct, rename="camel"):
    """``status.allocation``."""

    devices: ClaimDevices = field(default_factory=ClaimDevices)
    node_selector: dict[str, Any] | None = None


class Consumer(Struct):
    """``status.reservedFor[]``."""

    resource: str = ""
    name: str = ""
    uid: str = ""


class ClaimStatus(Struct, rename="camel"):
    """``status`` of a ResourceClaim."""

    allocation: ClaimAllocation | None = None
    reserved_for: list[Consumer] | None = None


class Claim(Struct, rename="camel"):
    """A ResourceClaim."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    status: ClaimStatus = field(default_factory=ClaimStatus)
