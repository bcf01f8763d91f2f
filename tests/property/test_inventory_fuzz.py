"""Whatever a dump holds, the readers give devices, unknowns or one sentence; never another error."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from terrazzo.dialects import catalogue, holdings, inventory
from terrazzo.dialects.readers import MOST_DEVICES, MOST_MIB
from terrazzo.model.device import Device, SharingMode
from terrazzo.model.errors import InputError
from terrazzo.model.node import Node
from terrazzo.model.unknown import Unknown
from terrazzo.wire import kubernetes as k8s
from terrazzo.wire import state

quick = settings(max_examples=150, deadline=None)

WORDS = [
    "GPU-0", "10", "0", "-1", "true", "false", "NVIDIA-Tesla T4", "Ascend910B4", "MLU370-X8", "15360", "99999999999999",
    "1e9", "mig", "hami-core", "١", "", " ", "[", "]", "{", "}", '"id"', "null",
]  # fmt: skip
texts = st.text(max_size=60) | st.builds(
    lambda words, glue: glue.join(words),
    st.lists(st.sampled_from(WORDS), max_size=24),
    st.sampled_from([",", ":", ";"]),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
quantities = st.integers() | st.floats() | st.sampled_from(["8", "1E", "8GB", "", "1e9", "0.5", "-3", "eight"]) | texts
HAMI_KEYS = st.sampled_from(
    [
        "hami.io/node-nvidia-register", "hami.io/node-dcu-register", "hami.io/node-register-Ascend910B4",
        "hami.io/node-mlu-register", "hami.io/node-x-register", "volcano.sh/node-vgpu-register",
        "metax-tech.com/node-gpu-devices", "hami.io/device-cordon", "4pd.io/node-nvidia-register",
    ]
)  # fmt: skip
RESOURCES = st.sampled_from(
    [
        "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "huawei.com/Ascend910",
        "huawei.com/Ascend310P", "huawei.com/Ascend310P-memory", "huawei.com/npu-core", "huawei.com/Ascend910-2c",
        "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "cambricon.com/mlu.smlu.vcore", "hygon.com/dcunum",
        "cambricon.com/mlu.smlu.vmemory", "mthreads.com/sgpu-core", "mthreads.com/sgpu-memory", "amd.com/gpu",
        "example.com/npu", "cpu", "memory", "pods",
    ]
)  # fmt: skip
LABELS = st.sampled_from(
    [
        "nvidia.com/gpu.product", "nvidia.com/gpu.count", "nvidia.com/gpu.memory", "nvidia.com/gpu.replicas",
        "nvidia.com/mig-1g.5gb.memory", "nvidia.com/mig-1g.5gb.replicas", "nvidia.com/gpu.slices.ci", "servertype",
        "node.kubernetes.io/npu.chip.name", "mind-cluster/npu-chip-memory", "accelerator-type", "Model",
        "amd.com/gpu.vram", "huawei.com/scheduler.chip1softsharedev.enable",
    ]
)  # fmt: skip
LABEL_VALUES = texts | st.sampled_from(
    ["Tesla-T4", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "-MIG-", "4", "0", "64G", "910B3", "Ascend910-20", "Ascend310P-0",
     "module-a3-16", "true", "192G"]
)  # fmt: skip


def sentence(error: InputError, place: str) -> None:
    assert error.where
    assert error.where.startswith(place)
    assert "\n" not in str(error)


def read(body: dict[str, Any], maps: tuple[Any, ...] = (), slices: tuple[Any, ...] = ()) -> Node | None:
    """Return the node, or None where it was refused in a sentence."""
    node = msgspec.convert(body, k8s.Node)
    try:
        found = inventory.read_nodes(
            [node],
            config_maps=msgspec.convert(maps, list[k8s.ConfigMap]),
            slices=msgspec.convert(slices, list[k8s.ResourceSlice]),
        )[0]
    except InputError as error:
        sentence(error, "")
        return None
    for device in found.devices:
        check(device)
    assert len({device.uuid for device in found.devices}) == len(found.devices)
    assert len(found.devices) <= 4 * MOST_DEVICES
    return found


def check(device: Device) -> None:
    assert device.uuid
    assert device.vendor
    assert isinstance(device.memory_mib, Unknown) or 0 < device.memory_mib <= MOST_MIB
    assert 1 <= device.units <= MOST_MIB
    assert min(device.sharers, device.memory_step_mib) >= 1
    assert device.index >= 0
    if device.mode is SharingMode.WHOLE:
        assert device.sharers == 1


@given(st.dictionaries(HAMI_KEYS, texts | json_values.map(json.dumps), max_size=3))
@example({"hami.io/node-nvidia-register": "[" * 100_000})
@example({"hami.io/node-nvidia-register": "GPU-0," + "9" * 5000 + ",1,1,T4,0,true:"})
@quick
def test_hami_annotations(annotations: dict[str, str]) -> None:
    read({"metadata": {"name": "n1", "annotations": annotations}})


rows = st.fixed_dictionaries(
    {"id": st.sampled_from(["GPU-0", "GPU-1", ""])},
    optional={
        "count": st.integers(-1, 20), "devmem": st.integers(-1, 1 << 60), "devcore": st.integers(0, 400),
        "type": st.sampled_from(WORDS), "mode": st.sampled_from(["mig", "hami-core", ""]), "index": json_values,
        "numa": json_values, "health": json_values,
        "migProfiles": json_values | st.lists(
            st.fixed_dictionaries({
                "name": st.sampled_from(["1g", "2g"]), "memoryMB": st.integers(-1, 99999),
                "sliceCount": st.integers(0, 8),
                "placements": st.lists(st.fixed_dictionaries(
                    {"start": st.integers(-1, 9), "size": st.integers(0, 9)}), max_size=3),
            }), max_size=3),
    },
)  # fmt: skip


@given(st.lists(rows, max_size=3))
@quick
def test_hami_json_that_is_nearly_right(listed: list[Any]) -> None:
    read({"metadata": {"name": "n1", "annotations": {"hami.io/node-nvidia-register": json.dumps(listed)}}})


@given(
    st.dictionaries(RESOURCES, quantities, max_size=6),
    st.dictionaries(RESOURCES, quantities, max_size=6),
    st.dictionaries(LABELS, LABEL_VALUES, max_size=6),
)
@quick
def test_resources_and_labels(allocatable: dict[str, Any], capacity: dict[str, Any], labels: dict[str, str]) -> None:
    read({"metadata": {"name": "n1", "labels": labels}, "status": {"allocatable": allocatable, "capacity": capacity}})


@given(
    texts
    | json_values.map(json.dumps)
    | json_values.map(lambda value: json.dumps({"DeviceInfo": {"DeviceList": value}}))
    | st.dictionaries(
        st.sampled_from(["huawei.com/Ascend910", "huawei.com/Ascend910-Unhealthy", "huawei.com/Ascend910-Fault", "x"]),
        texts | st.just("Ascend910-0,Ascend910-3"),
    ).map(lambda value: json.dumps({"DeviceInfo": {"DeviceList": value}})),
    st.integers(0, 9),
)
@quick
def test_device_info(text: str, chips: int) -> None:
    maps = ({"metadata": {"name": "mindx-dl-deviceinfo-n1"}, "data": {"DeviceInfoCfg": text, "y": "DeviceList"}},)
    read({"metadata": {"name": "n1"}, "status": {"allocatable": {"huawei.com/Ascend910": str(chips)}}}, maps)


fields = st.dictionaries(
    st.sampled_from(["uuid", "productName", "profile", "type", "index", "memory", "vendor", "numaNode", "parentUUID"]),
    st.dictionaries(st.sampled_from(["string", "int", "value"]), json_values | quantities, max_size=2),
    max_size=5,
)  # fmt: skip


@given(
    st.lists(
        st.fixed_dictionaries(
            {"name": st.sampled_from(["a", "b"])},
            optional={
                "attributes": fields,
                "capacity": fields,
                "basic": st.dictionaries(
                    st.sampled_from(["attributes", "capacity", "taints", "consumesCounters"]), json_values | fields
                ),
            },
        ),
        max_size=3,
    ),
    st.sampled_from(["gpu.nvidia.com", "npu.huawei.com", "gpu.terrazzo.io", "gpu.example.com", "dra.net", ""]),
    st.integers(),
    st.integers(-1, 3),
)
@quick
def test_resource_slices(devices: list[Any], driver: str, generation: int, count: int) -> None:
    pool = {"name": "p", "generation": generation, "resourceSliceCount": count}
    body = {"spec": {"driver": driver, "nodeName": "n1", "pool": pool, "devices": devices}}
    read({"metadata": {"name": "n1"}}, (), (body,))


inventories = st.lists(
    st.dictionaries(
        st.sampled_from(["uuid", "vendor", "model", "mib", "units", "mode", "geometry", "step"]), json_values
    )
).map(lambda devices: json.dumps({"v": 1, "devices": devices}))


@given(texts | json_values.map(json.dumps) | inventories)
@quick
def test_our_own_inventory(text: str) -> None:
    read({"metadata": {"name": "n1", "annotations": {state.INVENTORY: text}}})


NODE = Node(
    name="n1",
    devices=(
        catalogue.device("nvidia", "A100-40", node="n1", uuid="GPU-0", mode=SharingMode.GEOMETRY),
        catalogue.device("ascend", "910B4", node="n1", uuid="10"),
        catalogue.device("mthreads", "S4000", node="n1", uuid="0"),
        catalogue.device("metax", "Z9000", node="n1", uuid="true"),
    ),
)
POD_KEYS = st.sampled_from(
    [
        "hami.io/vgpu-devices-allocated", "hami.io/vgpu-devices-to-allocate", "hami.io/Ascend910B4-devices-allocated",
        "hami.io/vgpu-mig-allocations", "volcano.sh/vgpu-ids-new", state.ALLOCATION, "hami.io/vgpu-node",
    ]
)  # fmt: skip
entries = st.lists(
    st.builds(
        lambda uuid, mib, cores: f"{uuid},T,{mib},{cores}:",
        st.sampled_from(["GPU-0", "GPU-0[0-1]", "10", "0", "true", "gone"]),
        st.integers(0, 90000),
        st.integers(0, 300),
    ),
    max_size=3,
).map("".join)
places = st.lists(entries, max_size=3).map(lambda each: "".join(f"{place};" for place in each))
mig = st.lists(
    st.fixed_dictionaries(
        {
            "containerIndex": st.integers(-1, 2) | json_values, "deviceIndex": st.integers(0, 2),
            "gpuUUID": st.just("GPU-0"),
            "profile": st.sampled_from(["1g.5gb", "7g.40gb", "?"]),
            "placement": st.fixed_dictionaries({"start": st.integers(-1, 9)}) | json_values,
        }
    ),
    max_size=3,
).map(json.dumps)  # fmt: skip


@given(
    st.dictionaries(POD_KEYS, places | texts | mig | json_values.map(json.dumps), max_size=4),
    st.integers(0, 3),
    st.booleans(),
)
@quick
def test_what_pods_hold(annotations: dict[str, str], containers: int, init: bool) -> None:
    spec: dict[str, Any] = {"nodeName": "n1", "containers": [{"name": f"c{i}"} for i in range(containers)]}
    if init:
        spec["initContainers"] = [{"name": "i", "restartPolicy": "Always"}, {"name": "j"}]
    pod = msgspec.convert({"metadata": {"name": "p", "annotations": annotations}, "spec": spec}, k8s.Pod)
    try:
        held = holdings.read(pod, {"n1": NODE})
    except InputError as error:
        sentence(error, "pod default/p: annotation ")
        return
    if held is None:
        return
    granted = {grant.uuid for each in held.containers for grant in each.devices}
    assert {use.uuid for use in held.uses} == granted != set()
    for use in held.uses:
        assert min(use.memory_mib, use.units) >= 0
        device = next((device for device in NODE.devices if device.uuid == use.uuid), None)
        if device is not None and device.mode is SharingMode.WHOLE:
            assert use.alone
