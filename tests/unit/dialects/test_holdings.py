"""What running pods hold, from HAMi's annotations and ours."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from terrazzo.dialects import catalogue, holdings
from terrazzo.model.allocation import Allocation, ContainerGrant, DeviceGrant, DeviceUse, Slice
from terrazzo.model.device import Device, SharingMode
from terrazzo.model.errors import InputError
from terrazzo.model.node import Node
from terrazzo.wire import kubernetes as k8s
from terrazzo.wire import state

VGPU = "hami.io/vgpu-devices-allocated"


def pod(
    annotations: dict[str, str], inits: tuple[Any, ...] = (), apps: tuple[str, ...] = ("main",), **more: Any
) -> k8s.Pod:
    spec = {
        "nodeName": "n1",
        "initContainers": [each if isinstance(each, dict) else {"name": each} for each in inits],
        "containers": [{"name": name} for name in apps],
    }
    body = {"metadata": {"name": "p", "uid": "u1", "annotations": annotations}, "spec": spec, **more}
    return msgspec.convert(body, k8s.Pod)


def card(vendor: str, model: str, uuid: str = "D0", **more: Any) -> Device:
    return catalogue.device(vendor, model, node="n1", uuid=uuid, **more)


def held(given: k8s.Pod, *devices: Device) -> Allocation:
    found = holdings.read(given, {"n1": Node(name="n1", devices=devices)})
    assert found is not None
    return found


def grants(found: Allocation) -> dict[str, tuple[DeviceGrant, ...]]:
    return {each.container: each.devices for each in found.containers}


def test_nothing_written_is_nothing_said() -> None:
    assert holdings.read(pod({"hami.io/vgpu-node": "n1", VGPU: ";"}), {}) is None
    assert holdings.read(pod({}), {}) is None


def test_containers_are_counted_init_first_and_empty_places_kept() -> None:
    text = "GPU-0,NVIDIA,1000,10:;;GPU-0,NVIDIA,3000,30:GPU-1,NVIDIA,3000,30:;"
    found = held(
        pod({VGPU: text}, inits=("warm",), apps=("log", "main")),
        card("nvidia", "T4", "GPU-0"),
        card("nvidia", "T4", "GPU-1"),
    )
    assert grants(found) == {
        "warm": (DeviceGrant("GPU-0", 1000, 10),),
        "main": (DeviceGrant("GPU-0", 3000, 30), DeviceGrant("GPU-1", 3000, 30)),
    }
    assert found.uses == (DeviceUse("GPU-0", 3000, 30), DeviceUse("GPU-1", 3000, 30))
    assert (found.pod, found.title, found.node) == ("u1", "default/p", "n1")


def test_books_hold_the_maximum_over_the_pods_life() -> None:
    sidecar = {"name": "side", "restartPolicy": "Always"}
    text = "D0,NVIDIA,100,5:;D0,NVIDIA,1000,10:;D0,NVIDIA,5000,1:;D0,NVIDIA,2000,20:;D0,NVIDIA,2500,20:;"
    found = held(pod({VGPU: text}, inits=("first", sidecar, "second"), apps=("a", "b")), card("nvidia", "A100-80"))
    # second beside the sidecar: 6000 MiB; apps and sidecar: 5500 MiB, 50 units.
    assert found.uses == (DeviceUse("D0", 6000, 50),)


@pytest.mark.parametrize(
    ("key", "vendor", "model", "entry", "grant"),
    [
        (VGPU, "nvidia", "A100-80", "D0,NVIDIA,8192,30", DeviceGrant("D0", 8192, 30)),
        ("hami.io/cambricon-mlu-devices-allocated", "cambricon", "MLU370-X8", "D0,MLU,2560,20",
         DeviceGrant("D0", 2560, 20)),
        ("hami.io/mlu-devices-allocated", "cambricon", "MLU370-X8", "D0,MLU,2560,20", DeviceGrant("D0", 2560, 20)),
        ("hami.io/dcu-devices-allocated", "hygon", "Z100", "D0,DCU,4096,15", DeviceGrant("D0", 4096, 9)),
        ("hami.io/mthreads-vgpu-devices-allocated", "mthreads", "S4000", "D0,Mthreads,4096,3",
         DeviceGrant("D0", 4096, 3)),
        ("hami.io/Ascend310P-devices-allocated", "ascend", "310P3", "D0,Ascend310P,8192,0",
         DeviceGrant("D0", 12288, 4, profile="vir04")),
        ("hami.io/Ascend910B4-devices-allocated", "ascend", "910B4", "D0,Ascend910B4,8192,0",
         DeviceGrant("D0", 8192, 5, profile="vir05_1c_8g")),
        ("hami.io/kunlun-allocated", "kunlunxin", "P800", "D0,kunlun,98304,100",
         DeviceGrant("D0", 98304, 100, whole=True)),
        ("hami.io/metax-sgpu-devices-allocated", "metax", "C500", "D0,Metax-SGPU,1024,10",
         DeviceGrant("D0", 65536, 100, whole=True)),
        ("volcano.sh/vgpu-ids-new", "nvidia", "A100-80", "D0,NVIDIA,8192,30", DeviceGrant("D0", 8192, 30)),
    ],
)  # fmt: skip
def test_every_vendors_key(key: str, vendor: str, model: str, entry: str, grant: DeviceGrant) -> None:
    found = held(pod({key: f"{entry}:;"}), card(vendor, model))
    assert grants(found) == {"main": (grant,)}
    use = found.uses[0]
    assert (use.memory_mib, use.units, use.alone) == (grant.memory_mib, grant.units, grant.whole)
    assert use.slices == ((Slice(grant.profile),) if grant.profile else ())


@pytest.mark.parametrize(
    ("vendor", "model", "entry"),
    [
        ("nvidia", "T4", "D0,NVIDIA,15360,100"),
        ("nvidia", "T4", "D0,NVIDIA,46080,300"),  # scaled by the operator
        ("ascend", "910B3", "D0,Ascend910B3,65536,0"),
        ("ascend", "310P3", "D0,Ascend310P,21527,0"),
        ("hygon", "Z100", "D0,DCU,16384,100"),
        ("mthreads", "S4000", "D0,Mthreads,49152,16"),
        ("cambricon", "MLU370-X8", "D0,MLU,23374,100"),
        ("metax", "C500", "D0,Metax,65536,0"),
    ],
)
def test_all_of_a_device_is_the_whole_device(vendor: str, model: str, entry: str) -> None:
    device = card(vendor, model)
    found = held(pod({VGPU: f"{entry}:;"}), device)
    assert isinstance(device.memory_mib, int)
    assert found.uses == (DeviceUse("D0", device.memory_mib, device.units, alone=True),)


def test_scaled_memory_holds_no_more_than_there_is() -> None:
    found = held(pod({VGPU: "D0,NVIDIA,40000,30:;"}), card("nvidia", "RTX-3090"))
    assert found.uses == (DeviceUse("D0", 24576, 30),)


def test_whole_device_of_unknown_memory_is_held_alone() -> None:
    device = card("metax", "Z9000")
    found = held(pod({"hami.io/metax-gpu-devices-allocated": "D0,Metax,65536,100:;"}), device)
    assert found.uses == (DeviceUse("D0", 1, 100, alone=True),)


def test_devices_that_nobody_lists_are_kept() -> None:
    found = held(pod({VGPU: "GPU-x,NVIDIA,8192,30:;"}))
    assert found.uses == (DeviceUse("GPU-x", 8192, 30),)
    lost = holdings.read(pod({VGPU: "GPU-x,NVIDIA,8192,30:;"}), {})
    assert lost is not None
    assert lost.node == "n1"


def test_ids_that_hami_makes_up_mean_the_counted_device() -> None:
    device = card("cambricon", "MLU370-X8", "n1/cambricon-3", index=3)
    found = held(pod({"hami.io/cambricon-mlu-devices-allocated": "n1-cambricon-mlu-3,MLU,2560,20:;"}), device)
    assert found.uses == (DeviceUse("n1/cambricon-3", 2560, 20),)
    device = card("kunlunxin", "P800", "n1/kunlunxin-0")
    found = held(pod({"hami.io/kunlun-allocated": "n1-kunlun-0,kunlun,98304,100:;"}), device)
    assert found.uses[0].uuid == "n1/kunlunxin-0"


def test_to_allocate_counts_only_without_the_allocated_list() -> None:
    waiting = {"hami.io/vgpu-devices-to-allocate": "D0,NVIDIA,1000,10:;"}
    device = card("nvidia", "A100-80")
    assert held(pod(waiting), device).uses == (DeviceUse("D0", 1000, 10),)
    assert held(pod({**waiting, VGPU: "D0,NVIDIA,2000,20:;"}), device).uses == (DeviceUse("D0", 2000, 20),)


def test_two_keys_about_one_device_count_once_and_two_vendors_both() -> None:
    text = "D0,NVIDIA,2000,20:;"
    found = held(pod({VGPU: text, "volcano.sh/vgpu-ids-new": text}), card("nvidia", "A100-80"))
    assert found.uses == (DeviceUse("D0", 2000, 20),)
    found = held(
        pod({VGPU: text, "hami.io/dcu-devices-allocated": "D1,DCU,1024,0:;"}),
        card("nvidia", "A100-80"),
        card("hygon", "Z100", "D1"),
    )
    assert {use.uuid for use in found.uses} == {"D0", "D1"}


MIG = {"vendor": "nvidia", "model": "A100-40", "mode": SharingMode.GEOMETRY}


def placed(container: int, ordinal: int, profile: str, start: int) -> dict[str, Any]:
    place = {"start": start, "size": 1}
    return {
        "containerIndex": container,
        "deviceIndex": ordinal,
        "gpuUUID": "D0",
        "profile": profile,
        "placement": place,
    }


def test_mig_slices_have_their_place() -> None:
    slices = [placed(0, 0, "1g.5gb", 5), placed(0, 1, "3g.20gb", 0)]
    text = "D0,NVIDIA,4864,14:D0,NVIDIA,19968,42:;"
    found = held(pod({VGPU: text, "hami.io/vgpu-mig-allocations": json.dumps(slices)}), card(**MIG))
    assert grants(found)["main"] == (
        DeviceGrant("D0", 4864, 1, profile="1g.5gb", start=5),
        DeviceGrant("D0", 19968, 3, profile="3g.20gb", start=0),
    )
    assert found.uses == (DeviceUse("D0", 24832, 4, slices=(Slice("1g.5gb", 5), Slice("3g.20gb", 0))),)


def test_mig_slices_of_older_releases_have_a_size_alone() -> None:
    found = held(pod({VGPU: "D0[1-0],NVIDIA,10240,0:;D0[1-1],NVIDIA,10240,0:;"}, apps=("a", "b")), card(**MIG))
    assert grants(found)["a"][0].profile == "1g.10gb"
    assert found.uses[0].slices == (Slice("1g.10gb"), Slice("1g.10gb"))


def test_an_init_containers_slice_serves_the_app_after_it() -> None:
    rows = [placed(0, 0, "1g.5gb", 0), placed(1, 0, "1g.5gb", 0)]
    text = "D0,NVIDIA,4864,14:;D0,NVIDIA,4864,14:;"
    found = held(pod({VGPU: text, "hami.io/vgpu-mig-allocations": json.dumps(rows)}, inits=("init",)), card(**MIG))
    assert found.uses == (DeviceUse("D0", 4864, 1, slices=(Slice("1g.5gb", 0),)),)


def test_a_static_partition_is_held_as_what_it_is() -> None:
    device = catalogue.partition("nvidia", "A100-40", "2g.10gb", node="n1", uuid="D0")
    found = held(pod({VGPU: "D0,NVIDIA,9856,100:;"}), device)
    assert found.containers == (ContainerGrant("main", (DeviceGrant("D0", 9856, 2, profile="2g.10gb"),)),)
    assert found.uses == (DeviceUse("D0", 9856, 2),)


def test_ended_pods_hold_nothing() -> None:
    for phase in ("Succeeded", "Failed"):
        assert holdings.read(pod({VGPU: "D0,NVIDIA,1,1:;"}, status={"phase": phase}), {}) is None


def test_a_pod_that_nobody_could_ask_for_still_holds() -> None:
    given = pod({VGPU: "D0,NVIDIA,1000,10:;"})
    assert given.spec.containers is not None
    given.spec.containers[0].resources = k8s.Resources(limits={"terrazzo.io/gpu-cores": 120})
    assert held(given, card("nvidia", "A100-80")).uses == (DeviceUse("D0", 1000, 10),)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (VGPU, "D0,NVIDIA,1000"),
        (VGPU, "D0,NVIDIA,1000,ten:;"),
        (VGPU, ",NVIDIA,1000,10:;"),
        (VGPU, "D0,NVIDIA,-1,10:;"),
        (VGPU, f"D0,NVIDIA,{10**30},10:;"),
        (VGPU, "D0,NVIDIA,1,1:;D0,NVIDIA,1,1:;"),
        ("hami.io/vgpu-mig-allocations", "[{}]"),
        ("hami.io/vgpu-mig-allocations", "{"),
        ("hami.io/vgpu-mig-allocations", "7"),
        (state.ALLOCATION, "{"),
        (state.ALLOCATION, '{"v":1,"containers":{"main":[{"uuid":"D0","mib":-1,"units":1}]}}'),
        (state.ALLOCATION, '{"v":1,"containers":{"main":[{"uuid":"","mib":1,"units":1}]}}'),
        (state.ALLOCATION, '{"v":1,"uid":"u2","containers":{}}'),
        (state.ALLOCATION, '{"v":1,"node":"n2","containers":{}}'),
        (state.ALLOCATION, '{"v":2,"containers":{}}'),
    ],
)
def test_damage_is_said_with_pod_and_annotation(key: str, text: str) -> None:
    with pytest.raises(InputError) as caught:
        holdings.read(pod({key: text}), {})
    assert caught.value.where == f"pod default/p: annotation {key}"
    assert caught.value.remedy


def test_ours_wins_and_reads_back() -> None:
    written = state.AllocationState(
        node="n1",
        uid="u1",
        containers={
            "main": [state.DeviceState("D0", 9856, 2, profile="2g.10gb", start=2)],
            "side": [state.DeviceState("D1", 500, 5)],
        },
    )
    found = held(
        pod({state.ALLOCATION: state.encode(written), VGPU: "D0,NVIDIA,1,1:;"}, apps=("side", "main")),
        card(**MIG),
        card("nvidia", "T4", "D1"),
    )
    assert grants(found) == {
        "side": (DeviceGrant("D1", 500, 5),),
        "main": (DeviceGrant("D0", 9856, 2, profile="2g.10gb", start=2),),
    }
    assert {use.uuid: use.slices for use in found.uses} == {"D0": (Slice("2g.10gb", 2),), "D1": ()}
