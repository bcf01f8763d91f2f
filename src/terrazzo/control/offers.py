"""What the API server offers: whether claims can carry parts of devices, or grants must be annotations."""

from __future__ import annotations

import re

from msgspec import Struct

from terrazzo.control.claims import EXTENDED
from terrazzo.dialects.readers.slices import CLASS
from terrazzo.kube.client import Client, decode
from terrazzo.kube.errors import ApiError, NotFound
from terrazzo.kube.kinds import CLAIM

FIRST_MINOR = 36
"""Kubernetes 1.36 is the first whose kubelet serves extended resources by claims with parts of devices."""


class _Version(Struct):
    minor: str = ""


async def offers_dra(client: Client, namespace: str) -> tuple[bool, str]:
    """Return whether the ``dra`` ledger can be used here, and why not.

    Asked of the server itself: a claim that is only tried (dry run) keeps what it asks of a device's capacity only
    where the feature gate DRAConsumableCapacity is on.

    Args:
        client: the API server.
        namespace: where claims may be made.

    Raises:
        ApiError: the server cannot be asked.
    """
    minor = int(re.sub(r"\D.*", "", decode(await client.call("GET", "/version"), _Version).minor) or 0)
    if minor < FIRST_MINOR:
        return False, f"Kubernetes 1.{minor} is older than 1.{FIRST_MINOR}"
    if not await client.serves(CLAIM):
        return False, f"the API server does not serve {CLAIM.group}/{CLAIM.version}"
    exactly = {
        "deviceClassName": CLASS, "allocationMode": "ExactCount", "count": 1,
        "capacity": {"requests": {"memory": "1Gi"}},
    }  # fmt: skip
    body = {
        "apiVersion": CLAIM.api_version,
        "kind": CLAIM.name,
        "metadata": {"generateName": "terrazzo-probe-", "namespace": namespace, "annotations": {EXTENDED: "true"}},
        "spec": {"devices": {"requests": [{"name": "probe", "exactly": exactly}]}},
    }
    try:
        answer = await client.call("POST", CLAIM.path(namespace), body=body, query={"dryRun": "All"}, once=True)
    except NotFound:
        return False, f"namespace {namespace} does not exist"
    except ApiError as error:
        if error.status in {400, 403, 422}:
            return False, f"a claim with a capacity is refused: {error.what}"
        raise
    if b'"capacity"' not in answer:
        return False, "the feature gate DRAConsumableCapacity is off"
    return True, ""
