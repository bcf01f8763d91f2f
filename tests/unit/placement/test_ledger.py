"""What each event does to the books; the rows of the fault table that need no service."""

from __future__ import annotations

import msgspec
import pytest

from terrazzo.model.allocation import Allocation
from terrazzo.model.device import Health
from terrazzo.model.errors import LedgerError
from terrazzo.model.node import Node
from terrazzo.model.request import Ask, PodRequest
from terrazzo.placement import events as ev
from terrazzo.placement import instructions as ins
from terrazzo.placement.engine import Engine
from terrazzo.placement.invariants import check
from terrazzo.placement.ledger import Ledger, Stage
from terrazzo.testing.builders import SHARED, Kind, fraction, make_node, make_request, whole

KINDS = pytest.mark.parametrize("kind", SHARED, ids=str)


def books(*nodes: Node, agent: bool = False) -> Ledger:
    ledger = Ledger()
    for node in nodes:
        ledger.apply(ev.NodeSeen(node, 1, agent))
    return ledger


def decide(ledger: Ledger, request: PodRequest) -> Allocation:
    found = Engine(ledger.fleet).decide(request)
    assert found is not None
    return found


def run(ledger: Ledger, request: PodRequest) -> Allocation:
    found = decide(ledger, request)
    ledger.apply(ev.Committed(found))
    ledger.apply(ev.Written(found))
    check(ledger)
    return found


@KINDS
def test_of_three_that_decided_on_one_picture_exactly_two_get_two_places(kind: Kind) -> None:
    ledger = books(make_node(kind=kind, devices=2))
    decisions = [decide(ledger, make_request(name, whole())) for name in ("a", "b", "c")]
    told = [ledger.apply(ev.Committed(decisions[0]))]
    again = [decide(ledger, make_request(name, whole())) for name in ("b", "c")]
    told += [ledger.apply(ev.Committed(each)) for each in again]
    assert [type(each) for [each] in told] == [ins.Write, ins.Write, ins.Refuse]
    check(ledger)


@KINDS
def test_a_refused_write_gives_everything_back(kind: Kind) -> None:
    ledger = books(make_node(kind=kind))
    before = ledger.fleet.devices("node-0")
    found = decide(ledger, make_request("a", fraction(1024)))
    ledger.apply(ev.Committed(found))
    ledger.apply(ev.WriteFailed(found))
    assert ledger.fleet.devices("node-0") == before
    assert not ledger.stage


@KINDS
@pytest.mark.parametrize("arrived", [True, False])
def test_a_lost_answer_is_settled_by_reading_the_pod_back(kind: Kind, arrived: bool) -> None:
    ledger = books(make_node(kind=kind))
    request = make_request("a", fraction(1024))
    found = decide(ledger, request)
    ledger.apply(ev.Committed(found))
    ledger.apply(ev.WriteUnknown(found))
    assert ledger.stage[found.pod] is Stage.UNKNOWN
    ledger.apply(ev.PodSeen(request, 4))  # told late: settles nothing
    assert ledger.stage[found.pod] is Stage.UNKNOWN
    ledger.apply(ev.ReadBack(request, 4, found.node, found) if arrived else ev.ReadBack(request, 4))
    assert (ledger.fleet.allocation(found.pod) is not None) == arrived
    check(ledger)


@KINDS
def test_a_pod_that_ended_unseen_is_dropped_at_the_next_resync(kind: Kind) -> None:
    node = make_node(kind=kind, devices=8)
    ledger = books(node)
    run(ledger, make_request("old", whole(8)))
    again = make_request("old", whole(8), uid="another-uid")
    assert Engine(ledger.fleet).decide(again) is None
    ledger.apply(ev.Resync((ev.NodeSeen(node, 2),), (ev.PodSeen(again, 3),)))
    assert run(ledger, again).pod == "another-uid"


@KINDS
def test_a_ledger_from_lists_alone_knows_everything(kind: Kind) -> None:
    node = make_node(kind=kind, devices=3)
    ledger = books(node)
    requests = [make_request(f"pod-{i}", fraction(2048, 10)) for i in range(4)]
    held = [run(ledger, request) for request in requests]
    fresh = Ledger()
    seen = tuple(ev.PodSeen(r, 2, a.node, a) for r, a in zip(requests, held, strict=True))
    fresh.apply(ev.Resync((ev.NodeSeen(node, 1),), seen))
    check(fresh)
    assert fresh.fleet.devices("node-0") == ledger.fleet.devices("node-0")
    assert fresh.stage == ledger.stage


@KINDS
def test_sick_devices_keep_their_grants_tell_holders_and_come_back(kind: Kind) -> None:
    ledger = books(make_node(kind=kind, devices=1))
    held = run(ledger, make_request("a", fraction(1024)))
    uuid = held.uses[0].uuid
    told = ledger.apply(ev.DeviceChanged("node-0", uuid, 1, Health.DEGRADED, "ECC"))
    assert told == (ins.TellHolders("node-0", uuid, "ECC", (held.pod,)),)
    assert Engine(ledger.fleet).decide(make_request("b", fraction(1))) is None
    assert ledger.apply(ev.DeviceChanged("node-0", uuid, 1, Health.HEALTHY)) == ()
    assert Engine(ledger.fleet).decide(make_request("b", fraction(1))) is None
    ledger.apply(ev.DeviceChanged("node-0", uuid, 2, Health.HEALTHY))
    assert Engine(ledger.fleet).decide(make_request("b", fraction(1))) is not None
    check(ledger)


@KINDS
def test_a_vanished_device_is_lost_not_forgotten(kind: Kind) -> None:
    node = make_node(kind=kind, devices=2)
    ledger = books(node)
    held = run(ledger, make_request("a", whole(2)))
    smaller = msgspec.structs.replace(node, devices=node.devices[:1])
    [told] = ledger.apply(ev.NodeSeen(smaller, 2))
    assert isinstance(told, ins.TellHolders)
    assert told.reason == "the device vanished"
    ledger.apply(ev.NodeSeen(node, 3))
    assert all(view.alone for view in ledger.fleet.devices("node-0"))
    ledger.apply(ev.PodGone(held.pod))
    assert all(not view.holders for view in ledger.fleet.devices("node-0"))
    check(ledger)


@KINDS
def test_devices_of_a_node_with_an_agent_are_free_only_when_it_says_so(kind: Kind) -> None:
    ledger = books(make_node(kind=kind, devices=1), agent=True)
    held = run(ledger, make_request("a", whole()))
    ledger.apply(ev.PodGone(held.pod))
    assert ledger.stage[held.pod] is Stage.LEAVING
    assert Engine(ledger.fleet).decide(make_request("b", whole())) is None
    ledger.apply(ev.Unprepared(held.pod))
    assert Engine(ledger.fleet).decide(make_request("b", whole())) is not None


@KINDS
def test_two_schedulers_that_exceed_a_device_together(kind: Kind) -> None:
    ledger = books(make_node(kind=kind, devices=1))
    first, second = (decide(ledger, make_request(name, whole())) for name in ("a", "b"))
    ledger.apply(ev.PodSeen(make_request("a", whole()), 1, first.node, first))
    told = ledger.apply(ev.PodSeen(make_request("b", whole()), 1, second.node, second))
    assert told == (ins.Retract("uid-b", "uid-a", "node-0", first.uses[0].uuid),)
    check(ledger)
    ledger.apply(ev.PodGone("uid-b"))
    assert not ledger.over
    check(ledger)


@KINDS
def test_what_is_not_written_yet_gives_way_to_what_is(kind: Kind) -> None:
    ledger = books(make_node(kind=kind, devices=1))
    ours, theirs = (decide(ledger, make_request(name, whole())) for name in ("ours", "theirs"))
    ledger.apply(ev.Committed(ours))
    [told] = ledger.apply(ev.PodSeen(make_request("theirs", whole()), 1, theirs.node, theirs))
    assert isinstance(told, ins.Retract)
    assert (told.loser, told.keeper) == ("uid-ours", "uid-theirs")


def test_a_claim_deleted_by_hand_is_rebuilt() -> None:
    ledger = books(make_node())
    request = make_request("a", fraction(1024))
    held = run(ledger, request)
    assert ledger.apply(ev.PodSeen(request, 9, held.node, None)) == (ins.Rebuild(held),)
    assert ledger.fleet.allocation(held.pod) == held


def test_twice_or_late_changes_nothing() -> None:
    ledger = books(make_node())
    request = make_request("a", fraction(1024))
    held = decide(ledger, request)
    late, now = ev.PodSeen(request, 4), ev.PodSeen(request, 5, held.node, held)
    ledger.apply(now)
    for event in (now, late, ev.NodeSeen(make_node(devices=1), 1), ev.NodeGone("node-0", 1)):
        assert ledger.apply(event) == ()
    assert ledger.fleet.allocation(held.pod) == held
    ledger.apply(ev.PodGone(held.pod))
    ledger.apply(ev.PodSeen(request, 99, held.node, held))
    assert ledger.fleet.allocation(held.pod) is None


def test_waiting_pods_are_woken_by_what_they_lack_only() -> None:
    ledger = books(make_node("a", devices=1), make_node("b", devices=1))
    big = run(ledger, make_request("big", whole()))
    run(ledger, make_request("other", whole()))
    ledger.apply(ev.Waiting(make_request("wants-one", whole())))
    ledger.apply(ev.Waiting(make_request("wants-two", whole(2))))
    assert ledger.apply(ev.PodGone(big.pod)) == (ins.Wake(("uid-wants-one",)),)
    run(ledger, make_request("wants-one", whole()))
    assert ledger.apply(ev.NodeSeen(make_node("c", devices=2), 1)) == (ins.Wake(("uid-wants-two",)),)


def test_a_thousand_alike_cost_one_look() -> None:
    ledger = books(make_node(devices=1))
    held = run(ledger, make_request("held", whole()))
    for index in range(1000):
        ledger.apply(ev.Waiting(make_request(f"w-{index}", whole())))
    [told] = ledger.apply(ev.PodGone(held.pod))
    assert isinstance(told, ins.Wake)
    assert len(told.pods) == 1000


def test_foreign_use_is_told_and_counts() -> None:
    ledger = books(make_node(devices=1))
    uuid = ledger.fleet.devices("node-0")[0].device.uuid
    told = ledger.apply(ev.DeviceChanged("node-0", uuid, 1, Health.HEALTHY, foreign_mib=80_000))
    assert told == (ins.TellForeign("node-0", uuid, 80_000),)
    assert Engine(ledger.fleet).decide(make_request("a", fraction(8192))) is None
    check(ledger)


def test_a_lost_node_keeps_the_books_until_its_pods_go() -> None:
    node = make_node()
    ledger = books(node)
    held = run(ledger, make_request("a", whole(2)))
    told = ledger.apply(ev.NodeGone("node-0", 2))
    assert {each.reason for each in told if isinstance(each, ins.TellHolders)} == {"the device vanished"}
    check(ledger)
    ledger.apply(ev.NodeSeen(node, 3))
    assert Engine(ledger.fleet).decide(make_request("b", fraction(1))) is None
    ledger.apply(ev.PodGone(held.pod))
    assert Engine(ledger.fleet).decide(make_request("b", fraction(1))) is not None


def test_invariants_tell_a_story() -> None:
    ledger = books(make_node(devices=1))
    held = run(ledger, make_request("a", whole()))
    seat = ledger.fleet._seats[0][0]
    seat.held["ghost"] = held.uses[0]
    with pytest.raises(LedgerError, match=r"node node-0, device node-0/nvidia-0: is held by .*ghost"):
        check(ledger)


def test_an_agent_may_be_done_before_the_deletion_is_seen() -> None:
    ledger = books(make_node(devices=1), agent=True)
    held = run(ledger, make_request("a", whole()))
    ledger.apply(ev.Unprepared(held.pod))
    assert ledger.fleet.allocation(held.pod) is not None
    ledger.apply(ev.PodGone(held.pod))
    assert ledger.fleet.allocation(held.pod) is None


def test_answers_to_an_earlier_attempt_come_too_late() -> None:
    ledger = books(make_node("a", devices=1), make_node("b", devices=1))
    request = make_request("pod", whole())
    first = decide(ledger, request)
    ledger.apply(ev.Committed(first))
    ledger.apply(ev.WriteFailed(first))
    run(ledger, make_request("other", whole()))
    second = decide(ledger, request)
    ledger.apply(ev.Committed(second))
    for late in (ev.WriteFailed(first), ev.WriteUnknown(first), ev.Written(first)):
        ledger.apply(late)
        assert ledger.stage[request.key] is Stage.DECIDED
    assert ledger.fleet.allocation(request.key) == second


def test_a_pod_created_after_the_list_was_made_stays() -> None:
    node = make_node()
    ledger = books(node)
    request = make_request("young", fraction(1024))
    held = decide(ledger, request)
    ledger.apply(ev.PodSeen(request, 120, held.node, held))
    ledger.apply(ev.Resync((ev.NodeSeen(node, 101),), (), version=110))
    assert ledger.fleet.allocation(held.pod) == held
    ledger.apply(ev.Resync((ev.NodeSeen(node, 131),), (), version=130))
    assert ledger.fleet.allocation(held.pod) is None
    ledger.apply(ev.PodSeen(request, 120, held.node, held))
    assert ledger.fleet.allocation(held.pod) is None


def test_who_exceeds_a_device_is_found_when_its_node_appears() -> None:
    node = make_node(devices=1)
    first, second = (decide(books(node), make_request(name, whole())) for name in ("a", "b"))
    ledger = Ledger()
    for name, held in (("a", first), ("b", second)):
        assert ledger.apply(ev.PodSeen(make_request(name, whole()), 1, held.node, held)) == ()
    [told] = [each for each in ledger.apply(ev.NodeSeen(node, 1)) if isinstance(each, ins.Retract)]
    assert (told.loser, told.keeper) == ("uid-b", "uid-a")
    check(ledger)
    ledger.apply(ev.NodeGone("node-0", 2))
    check(ledger)
    assert not ledger.over


def test_a_heartbeat_costs_nothing() -> None:
    node = make_node()
    ledger = books(node)
    layout, tick = ledger.fleet.layout, ledger.fleet.tick
    assert ledger.apply(ev.NodeSeen(node, 2)) == ()
    assert (ledger.fleet.layout, ledger.fleet.tick) == (layout, tick)


def test_what_was_freed_before_a_pod_began_to_wait_wakes_it() -> None:
    ledger = books(make_node(devices=1))
    held = run(ledger, make_request("held", whole()))
    since = ledger.fleet.tick
    waiting = make_request("waiting", whole())
    assert Engine(ledger.fleet).decide(waiting) is None
    ledger.apply(ev.PodGone(held.pod))
    assert ledger.apply(ev.Waiting(waiting, since)) == (ins.Wake((waiting.key,)),)


def test_damaged_allocations_do_not_stop_the_books() -> None:
    ledger = books(make_node())
    request = make_request("a", fraction(1024))
    held = decide(ledger, request)
    doubled = msgspec.structs.replace(held, pod="somebody-else", uses=held.uses * 2)
    ledger.apply(ev.PodSeen(request, 1, held.node, doubled))
    check(ledger)
    assert ledger.fleet.allocation(request.key) is not None
    ledger.apply(ev.PodGone(request.key))
    assert not list(ledger.fleet.allocations())
    check(ledger)


def test_what_the_list_does_not_have_is_gone_and_what_came_after_it_stays() -> None:
    listed, deleted, young = (make_node(name) for name in ("listed", "deleted", "young"))
    ledger = books(listed, deleted)
    ledger.apply(ev.NodeSeen(young, 20))
    ledger.apply(ev.Resync((ev.NodeSeen(listed, 1),), (), version=10))
    ledger.apply(ev.NodeSeen(deleted, 9))  # told late
    assert {node.name for node in ledger.fleet.nodes()} == {"listed", "young"}
    ledger.apply(ev.NodeSeen(deleted, 11))  # made anew
    assert ledger.fleet.node("deleted") is not None


def test_a_pod_that_waits_since_after_the_list_still_waits() -> None:
    node = make_node(devices=1)
    ledger = books(node)
    request, waiting = make_request("held", whole()), make_request("waiting", whole())
    held = run(ledger, request)
    ledger.apply(ev.PodSeen(waiting, 20))
    ledger.apply(ev.Waiting(waiting))
    ledger.apply(ev.Resync((ev.NodeSeen(node, 1),), (ev.PodSeen(request, 5, held.node, held),), version=10))
    assert ledger.apply(ev.PodGone(held.pod)) == (ins.Wake((waiting.key,)),)


@pytest.mark.parametrize("how", ["deleted", "Succeeded"])
def test_a_pod_that_came_and_went_after_the_list_does_not_come_back(how: str) -> None:
    node = make_node()
    ledger = books(node)
    request = make_request("short", fraction(1024))
    held = decide(ledger, request)
    bound = ev.PodSeen(request, 115, held.node, held)
    ledger.apply(bound)
    ended = msgspec.structs.replace(request, phase=how)
    ledger.apply(ev.PodGone(held.pod) if how == "deleted" else ev.PodSeen(ended, 118, held.node, held))
    ledger.apply(ev.Resync((ev.NodeSeen(node, 1),), (), version=110))
    assert ledger.apply(bound) == ()
    assert ledger.fleet.allocation(held.pod) is None


@pytest.mark.parametrize("agent", [True, False])
def test_a_list_that_lacked_a_pod_is_mended_by_one_that_has_it(agent: bool) -> None:
    node = make_node()
    ledger = books(node, agent=agent)
    request = make_request("a", fraction(1024))
    held = decide(ledger, request)
    seen = ev.PodSeen(request, 7, held.node, held)
    ledger.apply(seen)
    ledger.apply(ev.Resync((ev.NodeSeen(node, 2, agent),), ()))
    ledger.apply(ev.Resync((ev.NodeSeen(node, 2, agent),), (seen,)))
    assert ledger.fleet.allocation(held.pod) == held
    assert ledger.stage[held.pod] is Stage.BOUND
    check(ledger)


def test_an_older_list_brings_nobody_back() -> None:
    node = make_node()
    ledger = books(node)
    request = make_request("a", fraction(1024))
    held = decide(ledger, request)
    seen = ev.PodSeen(request, 50, held.node, held)
    ledger.apply(ev.Resync((ev.NodeSeen(node, 1),), (), version=100))
    ledger.apply(ev.Resync((ev.NodeSeen(node, 1),), (seen,), version=60))
    assert not ledger.stage


@KINDS
def test_what_is_still_being_written_survives_a_list_without_it(kind: Kind) -> None:
    node = make_node(kind=kind)
    ledger = books(node)
    request = make_request("a", fraction(1024))
    held = decide(ledger, request)
    ledger.apply(ev.Committed(held))
    for seen in ((), (ev.PodSeen(request, 3),)):
        ledger.apply(ev.Resync((ev.NodeSeen(node, 1),), seen))
        assert ledger.fleet.allocation(held.pod) == held
        assert ledger.stage[held.pod] is Stage.DECIDED
    ledger.apply(ev.Written(held))
    assert ledger.stage[held.pod] is Stage.BOUND


@pytest.mark.parametrize("asks", [(), (fraction(1024),)], ids=["no device", "a fraction"])
def test_a_decision_for_a_node_that_left_is_refused(asks: tuple[Ask, ...]) -> None:
    ledger = books(make_node())
    found = decide(ledger, make_request("a", *asks))
    ledger.apply(ev.NodeGone("node-0", 2))
    [told] = ledger.apply(ev.Committed(found))
    assert isinstance(told, ins.Refuse)
    assert not ledger.stage
    check(ledger)


@pytest.mark.parametrize("how", ["deleted", "Succeeded", "Failed"])
def test_what_comes_late_for_a_pod_that_ended_is_refused(how: str) -> None:
    ledger = books(make_node(devices=1))
    request = make_request("a", whole())
    found = decide(ledger, request)
    ledger.apply(
        ev.PodGone(request.key) if how == "deleted" else ev.PodSeen(msgspec.structs.replace(request, phase=how), 5)
    )
    assert ledger.apply(ev.Committed(found)) == (ins.Refuse(request.key, "the pod is gone"),)
    ledger.apply(ev.Waiting(request))
    assert ledger.apply(ev.NodeSeen(make_node("more"), 6)) == ()


@KINDS
def test_three_stale_decisions_on_two_places_are_two_writes(kind: Kind) -> None:
    """All three decided before any was taken, two of them for one device: only what still holds is written."""
    ledger = books(make_node(kind=kind, devices=2))
    uuids = [device.device.uuid for device in ledger.fleet.devices("node-0")]
    one = decide(ledger, make_request("a", whole()))
    other = uuids[1 - uuids.index(one.uses[0].uuid)]
    moved = msgspec.structs.replace(one.uses[0], uuid=other)
    grants = tuple(
        msgspec.structs.replace(c, devices=tuple(msgspec.structs.replace(d, uuid=other) for d in c.devices))
        for c in one.containers
    )
    stale = (
        one,
        msgspec.structs.replace(one, pod="uid-b", name="b"),
        msgspec.structs.replace(one, pod="uid-c", name="c", uses=(moved,), containers=grants),
    )
    told = [ledger.apply(ev.Committed(each))[0] for each in stale]
    assert [type(each) for each in told] == [ins.Write, ins.Refuse, ins.Write]
    check(ledger)


def test_committed_again_is_written_again_and_taken_once() -> None:
    ledger = books(make_node(devices=1))
    found = decide(ledger, make_request("a", fraction(1024)))
    assert ledger.apply(ev.Committed(found)) == ledger.apply(ev.Committed(found)) == (ins.Write(found),)
    assert len(list(ledger.fleet.allocations())) == 1
    ledger.apply(ev.Written(found))
    [told] = ledger.apply(ev.Committed(found))
    assert isinstance(told, ins.Refuse)
    check(ledger)


@pytest.mark.parametrize("version", [0, 1, 2**31, 2**64, 2**200])
def test_events_about_what_was_never_there_change_nothing(version: int) -> None:
    ledger = books(make_node())
    held = run(ledger, make_request("a", fraction(1024)))
    nobody = msgspec.structs.replace(held, pod="nobody")
    before = ledger.fleet.devices("node-0")
    for event in (
        ev.DeviceChanged("node-0", "no-such-device", version, Health.LOST, "gone", 1 << 40),
        ev.DeviceChanged("no-such-node", "no-such-device", version, Health.HEALTHY),
        ev.NodeGone("no-such-node", version),
        *(ev.PodGone(pod) for pod in ("nobody", "")),
        *(ev.Unprepared(pod) for pod in ("nobody", "")),
        *(answer(nobody) for answer in (ev.Written, ev.WriteFailed, ev.WriteUnknown)),
    ):
        assert ledger.apply(event) == ()
        check(ledger)
    assert ledger.fleet.devices("node-0") == before
    assert dict(ledger.stage) == {held.pod: Stage.BOUND}


def test_what_was_seen_of_a_device_before_its_node_holds_when_it_comes() -> None:
    node = make_node(devices=1)
    ledger = Ledger()
    ledger.apply(ev.DeviceChanged("node-0", node.devices[0].uuid, 1, Health.LOST, "fell off the bus"))
    ledger.apply(ev.NodeSeen(node, 1))
    assert Engine(ledger.fleet).decide(make_request("a", fraction(1))) is None
    check(ledger)


def test_a_pod_without_uid_is_known_by_its_name() -> None:
    ledger = books(make_node(devices=1))
    request = make_request("manifest", whole(), uid="")
    held = run(ledger, request)
    assert held.pod == "default/manifest"
    ledger.apply(ev.PodGone("default/manifest"))
    assert not ledger.stage


@KINDS
def test_when_the_taken_back_one_goes_the_next_is_named_while_it_is_still_too_much(kind: Kind) -> None:
    ledger = books(make_node(kind=kind, devices=1))
    requests = [make_request(name, whole()) for name in ("a", "b", "c")]
    found = [decide(ledger, request) for request in requests]
    for request, held in zip(requests, found, strict=True):
        told = ledger.apply(ev.PodSeen(request, 1, held.node, held))
    uuid = found[0].uses[0].uuid
    assert told == (ins.Retract("uid-c", "uid-a", "node-0", uuid),)
    assert ledger.apply(ev.PodGone("uid-c")) == (ins.Retract("uid-b", "uid-a", "node-0", uuid),)
    assert ledger.apply(ev.PodGone("uid-b")) == ()
    assert not ledger.over
    check(ledger)


@KINDS
@pytest.mark.parametrize("written", [True, False])
def test_labels_and_priority_of_a_bound_pod_are_those_it_has_now(kind: Kind, written: bool) -> None:
    ledger = books(make_node(kind=kind))
    request = make_request("a", fraction(1024), priority=1, labels={"tier": "low"})
    found = run(ledger, request)
    renamed = msgspec.structs.replace(request, priority=7, labels={"tier": "high", "app": "x"})
    before = ledger.fleet.devices("node-0")
    ledger.apply(ev.PodSeen(renamed, 5, found.node, found if written else None))
    held = ledger.fleet.allocation(found.pod)
    assert held is not None
    assert (held.priority, held.labels) == (7, (("app", "x"), ("tier", "high")))
    assert ledger.fleet.devices("node-0") == before
    check(ledger)


def test_labels_of_an_adopted_pod_are_its_own_and_not_what_was_written_once() -> None:
    ledger = books(make_node())
    request = make_request("a", fraction(1024))
    found = decide(ledger, request)
    ledger.apply(ev.PodSeen(msgspec.structs.replace(request, labels={"app": "y"}), 5, found.node, found))
    held = ledger.fleet.allocation(found.pod)
    assert held is not None
    assert held.labels == (("app", "y"),)


@pytest.mark.parametrize("version", [4, 50])
def test_what_was_read_of_a_pod_before_a_list_without_it_brings_nobody_back(version: int) -> None:
    node = make_node()
    ledger = books(node)
    request = make_request("a", fraction(1024))
    ledger.apply(ev.PodSeen(request, 4))
    found = decide(ledger, request)
    ledger.apply(ev.Committed(found))
    ledger.apply(ev.WriteUnknown(found))
    ledger.apply(ev.PodGone(found.pod))
    ledger.apply(ev.Resync((ev.NodeSeen(node, 1),), (), 50))
    ledger.apply(ev.ReadBack(request, version, found.node, found))
    assert ledger.fleet.allocation(found.pod) is None
    check(ledger)


def test_what_is_read_back_of_a_pod_in_the_list_counts_though_it_is_older() -> None:
    node = make_node()
    ledger = books(node)
    request = make_request("a", fraction(1024))
    found = decide(ledger, request)
    ledger.apply(ev.Committed(found))
    ledger.apply(ev.WriteUnknown(found))
    ledger.apply(ev.Resync((ev.NodeSeen(node, 1),), (ev.PodSeen(request, 4),), 50))
    ledger.apply(ev.ReadBack(request, 4))
    assert ledger.fleet.allocation(found.pod) is None
    assert not ledger.stage
