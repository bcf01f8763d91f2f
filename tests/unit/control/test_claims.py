from __future__ import annotations

import pytest
from world import books, pod

from terrazzo.control import claims
from terrazzo.dialects import holdings
from terrazzo.model.errors import LedgerError
from terrazzo.testing.builders import CUT, SHARED, Kind, make_node

PART = {"terrazzo.io/gpu": 2, "terrazzo.io/gpu-memory": "4Gi", "terrazzo.io/gpu-cores": 10}


@pytest.mark.parametrize("kind", [*SHARED, CUT[0]], ids=str)
def test_a_claim_says_what_was_granted_on_every_vendor(kind: Kind) -> None:
    made, _ = books([make_node("n0", kind, 3)])
    request = made.resolve(made.request_of(pod("p", PART, annotations={"terrazzo.io/vendor": kind.vendor})))
    found = made.engine.decide(request)
    assert found is not None
    status = claims.status(request, found, made.device_names["n0"])
    results = status["allocation"]["devices"]["results"]
    assert len(results) == 2
    assert {each["pool"] for each in results} == {"n0"}
    assert len({each["shareID"] for each in results}) == 2
    granted = {grant.memory_mib for held in found.containers for grant in held.devices}
    assert {each["consumedCapacity"]["memory"] for each in results} == {f"{mib}Mi" for mib in granted}
    (asked,) = claims.claim("c", request, found, "x", "y")["spec"]["devices"]["requests"]
    assert asked["exactly"]["count"] == 2
    mappings = claims.pod_status("c", request, found)["extendedResourceClaimStatus"]["requestMappings"]
    assert {each["resourceName"] for each in mappings} == set(PART)
    assert {each["requestName"] for each in mappings} == {asked["name"]} == {results[0]["request"]}


def test_names_are_readable_short_enough_and_new_for_each_attempt() -> None:
    first, second = (claims.claim_name("train-7", "uid", attempt) for attempt in ("1", "2"))
    assert first.startswith("train-7-")
    assert first != second
    assert len(claims.claim_name("x" * 253, "uid", "1")) <= 253
    assert ".-" not in claims.claim_name("x" * 199 + ".y", "uid", "1")


def test_a_device_that_no_slice_names_is_said() -> None:
    made, _ = books([make_node("n0")], dra=False)
    request = made.request_of(pod("p", {"terrazzo.io/gpu-memory": "1Gi"}))
    found = made.engine.decide(request)
    assert found is not None
    with pytest.raises(LedgerError, match="not in the ResourceSlices of n0"):
        claims.status(request, found, {})


def test_more_devices_than_a_claim_holds_are_said() -> None:
    made, _ = books([make_node("n0", SHARED[0], 40)])
    request = made.request_of(pod("p", {"terrazzo.io/gpu": 33, "terrazzo.io/gpu-memory": "1Gi"}))
    found = made.engine.decide(request)
    assert found is not None
    with pytest.raises(LedgerError, match="33 devices"):
        claims.slots(request, found)


@pytest.mark.parametrize("kind", [*SHARED, *CUT], ids=str)
def test_what_is_written_on_a_pod_is_read_back(kind: Kind) -> None:
    made, _ = books([make_node("n0", kind, 3)])
    waiting = pod("p", PART, annotations={"terrazzo.io/vendor": kind.vendor})
    found = made.engine.decide(made.resolve(made.request_of(waiting)))
    assert found is not None
    assert waiting.metadata.annotations is not None
    waiting.metadata.annotations["terrazzo.io/allocation"] = holdings.written(found)
    waiting.spec.node_name = "n0"
    again = holdings.read(waiting, {"n0": made.ledger.fleet.node("n0")})  # type: ignore[dict-item]
    assert again is not None
    assert (again.containers, again.uses) == (found.containers, found.uses)
