from __future__ import annotations

import pytest

from terrazzo.dialects import catalogue
from terrazzo.model.device import SharingMode
from terrazzo.model.node import Node
from terrazzo.model.request import Ask, ContainerRequest, PodRequest
from terrazzo.simulator import Arrival, Report, SimulationSpec, partitions, rewrites, simulate


def box(vendor: str = "nvidia", model: str = "A100-80", devices: int = 8) -> Node:
    rows = tuple(catalogue.device(vendor, model, node="n", uuid=f"d{i}", index=i) for i in range(devices))
    return Node(name="n", devices=rows)


def ask_pod(name: str, *asks: Ask) -> PodRequest:
    return PodRequest(name=name, containers=(ContainerRequest("main", asks=asks),))


def placed(policy: str, asks: list[Ask], *nodes: Node) -> Report:
    arrivals = tuple(Arrival(ask_pod(f"p{i}", ask), float(i)) for i, ask in enumerate(asks))
    return simulate(
        SimulationSpec(
            name="t", nodes=nodes or (box(),), arrivals=arrivals, policy=policy, until_s=len(asks) + 1.0, samples=1
        )
    )


def test_whole_cards_takes_a_card_a_pod() -> None:
    found = placed("whole-cards", [Ask(memory_mib=4096, cores_percent=10)] * 20)
    assert found.placed == 8
    assert found.mean.compute_reserved > 0
    assert found.series[-1].devices_held == 8
    assert found.series[-1].memory_granted == 1.0


def test_whole_cards_picks_cards_that_are_large_enough() -> None:
    small = Node(
        name="t", devices=tuple(catalogue.device("nvidia", "T4", node="t", uuid=f"t{i}", index=i) for i in range(4))
    )
    found = placed("whole-cards", [Ask(memory_mib=30_000)] * 12, small, box())
    assert found.placed == 8
    assert placed("whole-cards", [Ask(memory_mib=200_000)] * 2, small, box()).placed == 0


def test_time_slicing_gives_turns_and_other_vendors_whole_devices() -> None:
    assert placed("time-slicing", [Ask(memory_mib=1024)] * 50).placed == 8 * rewrites.REPLICAS
    assert placed("time-slicing", [Ask(memory_mib=1024)] * 50, box("ascend", "910B3")).placed == 8
    assert placed("time-slicing", [Ask(whole=True)] * 50).placed == 8 * rewrites.REPLICAS


@pytest.mark.parametrize(
    ("ask", "pods"),
    [
        (Ask(memory_mib=4096, cores_percent=10), 7),  # 1g.10gb
        (Ask(memory_mib=14_000, cores_percent=10), 3),  # 2g.20gb by memory (1g.20gb where the table has it)
        (Ask(memory_mib=30_000, cores_percent=30), 2),  # 3g.40gb
        (Ask(memory_mib=60_000, cores_percent=10), 1),  # 7g.80gb by memory
        (Ask(whole=True), 1),
    ],
)
def test_mig_rounds_up_to_the_smallest_slice(ask: Ask, pods: int) -> None:
    found = placed("mig", [ask] * 10, box(devices=1))
    assert found.placed in {pods, pods + 1} if ask.memory_mib == 14_000 else found.placed == pods


def test_mig_leaves_cards_that_cannot_be_cut_to_one_pod_each() -> None:
    assert placed("mig", [Ask(memory_mib=1024)] * 9, box(model="T4", devices=4)).placed == 4
    node = rewrites.mig_node(box(model="L40S", devices=1))
    assert node.devices[0].sharers == 1
    assert node.devices[0].mode is SharingMode.CONTINUOUS


def test_hami_whole_cards_and_fractions_share_no_card() -> None:
    found = placed("hami", [Ask(whole=True)] * 2 + [Ask(memory_mib=8192, cores_percent=10)] * 100)
    assert found.placed == 2 + 6 * 9  # nine of 8 GiB on each of the six cards left


def test_the_requests_of_all_policies_keep_their_identity() -> None:
    nodes = (box(),)
    request = ask_pod("p", Ask(memory_mib=1024), Ask(count=2, memory_mib=512))
    for rewrite in (rewrites.whole_cards(nodes), rewrites.time_sliced_ask(nodes), rewrites.mig_ask(nodes)):
        changed = rewrite(request)
        assert changed.key == request.key
        assert [ask.count for ask in changed.containers[0].asks] == [1, 2]


# -- cut beforehand -----------------------------------------------------------------------------------------------


def parts(found: tuple[Node, ...]) -> list[list[str]]:
    cards: dict[str, list[str]] = {}
    for each in found:
        for device in each.devices:
            cards.setdefault(device.uuid.partition("/")[0], []).append(device.profile)
    return list(cards.values())


def test_cards_are_cut_into_what_comes_and_the_rest_into_the_largest() -> None:
    small = ask_pod("s", Ask(memory_mib=4096, cores_percent=10))
    large = ask_pod("l", Ask(memory_mib=30_000, cores_percent=30))
    assert parts(partitions.best_static((box(devices=1),), [small] * 20)) == [["1g.10gb"] * 7]
    assert parts(partitions.best_static((box(devices=1),), [large] * 20)) == [["3g.40gb"] * 2]
    assert parts(partitions.best_static((box(devices=2),), [])) == [["7g.80gb"]] * 2
    one = parts(partitions.best_static((box(devices=1),), [small]))[0]
    assert one[0] == "1g.10gb"
    assert {"4g.40gb", "3g.40gb"} & set(one)


def test_what_cannot_be_cut_stays_and_takes_one_pod() -> None:
    (node,) = partitions.best_static((box(model="T4", devices=3),), [ask_pod("p", Ask(memory_mib=1024))])
    assert [(device.profile, device.sharers) for device in node.devices] == [("", 1)] * 3


def test_static_slices_are_not_recut_and_count_as_their_card() -> None:
    small, large = Ask(memory_mib=4096, cores_percent=10), Ask(memory_mib=60_000, cores_percent=90)
    asks = [small] * 56 + [large] * 4
    dynamic, static = placed("mig", asks), placed("mig-static", asks)
    assert (dynamic.placed, static.placed) == (56, 56)
    assert (static.devices, static.series[-1].devices_held) == (8, 8)
    assert static.series[-1].compute_reserved == 1.0
    assert static.series[-1].memory_granted == pytest.approx(dynamic.series[-1].memory_granted)
