"""The same asks in the words of HAMi, of the vendors and of others."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import pytest

from terrazzo.dialects import names
from terrazzo.dialects.normalise import Normalised, normalise
from terrazzo.model.device import units_for_percent
from terrazzo.model.errors import RequestError
from terrazzo.model.request import Ask
from terrazzo.wire.kubernetes import Pod


class Vendor(NamedTuple):
    """One vendor's fraction words: name, unit in MiB, and units of compute that 30 % makes of ``whole``."""

    vendor: str
    devices: str
    memory: str
    memory_unit_mib: int
    cores: str
    cores_whole: int


FRACTIONS = [
    Vendor("nvidia", "nvidia.com/gpu", "nvidia.com/gpumem", 1, "nvidia.com/gpucores", 100),
    Vendor("ascend", "huawei.com/Ascend910B3", "huawei.com/Ascend910B3-memory", 1, "huawei.com/Ascend910B3-core", 100),
    Vendor(
        "cambricon", "cambricon.com/vmlu", "cambricon.com/mlu.smlu.vmemory", 256, "cambricon.com/mlu.smlu.vcore", 100
    ),
    Vendor("hygon", "hygon.com/dcunum", "hygon.com/dcumem", 1, "hygon.com/dcucores", 100),
    Vendor("mthreads", "mthreads.com/vgpu", "mthreads.com/sgpu-memory", 512, "mthreads.com/sgpu-core", 16),
]
WHOLE = {
    "nvidia.com/gpu": "nvidia",
    "huawei.com/Ascend910": "ascend",
    "huawei.com/Ascend310P": "ascend",
    "huawei.com/npu": "ascend",
    "ascend.com/npu": "ascend",
    "cambricon.com/mlu": "cambricon",
    "cambricon.com/mlu370": "cambricon",
    "hygon.com/dcu": "hygon",
    "hygon.com/hcu": "hygon",
    "mthreads.com/gpu": "mthreads",
    "metax-tech.com/gpu": "metax",
    "iluvatar.ai/gpu": "iluvatar",
    "enflame.com/gcu": "enflame",
    "kunlunxin.com/xpu": "kunlunxin",
    "amd.com/gpu": "amd",
    "gpu.intel.com/i915": "intel",
    "gpu.intel.com/xe": "intel",
}
SOFT = {"huawei.com/vnpu-mode": "hami-core"}
by_vendor = pytest.mark.parametrize("v", FRACTIONS, ids=[v.vendor for v in FRACTIONS])


def read(limits: dict[str, Any], annotations: dict[str, str] | None = None) -> Normalised:
    container = {"name": "c", "resources": {"limits": limits}}
    return normalise(
        msgspec.convert(
            {"metadata": {"name": "p", "annotations": annotations or {}}, "spec": {"containers": [container]}}, Pod
        )
    )


def one(limits: dict[str, Any], annotations: dict[str, str] | None = None) -> Ask:
    (ask,) = read(limits, annotations).request.containers[0].asks
    return ask


@by_vendor
def test_one_device_8_gib_30_percent_is_the_same_of_every_vendor(v: Vendor) -> None:
    units = units_for_percent(30, v.cores_whole)
    ask = one({v.devices: 1, v.memory: 8192 // v.memory_unit_mib, v.cores: units}, SOFT)
    assert (ask.count, ask.memory_mib, ask.memory_percent, ask.whole) == (1, 8192, 0, False)
    assert units_for_percent(ask.cores_percent, v.cores_whole) == units
    assert ask.cores_percent == pytest.approx(30, abs=100 / v.cores_whole)
    assert ask.vendors == (v.vendor,)
    assert ask.words == (v.devices, v.memory, v.cores)


@by_vendor
def test_compute_units_survive_the_way_to_percent_and_back(v: Vendor) -> None:
    for units in range(1, v.cores_whole + 1):
        ask = one({v.devices: 1, v.memory: 1, v.cores: units}, SOFT)
        assert units_for_percent(ask.cores_percent, v.cores_whole) == units


@by_vendor
def test_count_alone_is_a_whole_device(v: Vendor) -> None:
    ask = one({v.devices: 1})
    assert (ask.count, ask.whole, ask.vendors) == (1, True, (v.vendor,))


@by_vendor
def test_memory_without_count_is_one_device(v: Vendor) -> None:
    ask = one({v.memory: 4096 // v.memory_unit_mib})
    assert (ask.count, ask.memory_mib, ask.whole) == (1, 4096, False)
    assert ask.cores_percent == (100 if v.vendor == "hygon" else 0)


@by_vendor
def test_cores_without_memory_take_all_the_memory(v: Vendor) -> None:
    ask = one({v.devices: 1, v.cores: v.cores_whole // 2}, SOFT)
    assert (ask.memory_mib, ask.memory_percent, ask.cores_percent) == (0, 100, 50)


@by_vendor
def test_all_compute_alone_is_a_whole_device(v: Vendor) -> None:
    result = read({v.cores: v.cores_whole}, SOFT)
    assert result.request.containers[0].asks[0].whole
    assert not result.request.exclusive


@by_vendor
def test_all_compute_with_some_memory_keeps_others_off(v: Vendor) -> None:
    result = read({v.devices: 1, v.memory: 8, v.cores: v.cores_whole}, SOFT)
    assert result.request.exclusive
    assert result.request.containers[0].asks[0].memory_mib == 8 * v.memory_unit_mib
    assert result.warnings == ()


@by_vendor
def test_too_many_cores_are_clamped_with_a_warning(v: Vendor) -> None:
    result = read({v.devices: 1, v.memory: 8, v.cores: v.cores_whole + 1}, SOFT)
    assert result.request.containers[0].asks[0].cores_percent == 100
    assert f"counts as {v.cores_whole}" in result.warnings[0]


@by_vendor
def test_memory_in_units_refuses_a_quantity_in_bytes(v: Vendor) -> None:
    with pytest.raises(RequestError, match=rf"write {8192 // v.memory_unit_mib}, which is 8Gi"):
        read({v.devices: 1, v.memory: "8Gi"})
    with pytest.raises(RequestError, match="not a whole number"):
        read({v.devices: 1, v.memory: "1.5"})
    with pytest.raises(RequestError, match="more memory than any device has"):
        read({v.devices: 1, v.memory: "1000E"})


@by_vendor
def test_a_quantity_that_kubernetes_rewrote_is_still_a_number(v: Vendor) -> None:
    assert one({v.devices: 1, v.memory: "3k"}).memory_mib == 3000 * v.memory_unit_mib


@by_vendor
def test_a_slice_of_several_devices(v: Vendor) -> None:
    result = read({v.devices: 2, v.memory: 8})
    ask = result.request.containers[0].asks[0]
    if v.vendor in {"ascend", "mthreads"}:
        assert (ask.count, ask.whole, ask.memory_mib) == (2, True, 0)
        assert "gives whole devices" in result.warnings[0]
    else:
        assert (ask.count, ask.whole, ask.memory_mib) == (2, False, 8 * v.memory_unit_mib)
        assert result.warnings == ()


@pytest.mark.parametrize(("name", "vendor"), WHOLE.items())
def test_vendors_own_names_are_whole_devices(name: str, vendor: str) -> None:
    ask = one({name: 2})
    assert (ask.count, ask.whole, ask.vendors, ask.words) == (2, True, (vendor,), (name,))


@pytest.mark.parametrize(
    ("name", "models"),
    [
        ("huawei.com/Ascend910", ("910*",)),
        ("huawei.com/Ascend910A", ("910A",)),
        ("huawei.com/Ascend910B4", ("910B4",)),
        ("huawei.com/Ascend910B4-1", ("910B4-1",)),
        ("huawei.com/Ascend310P", ("310P*",)),
        ("cambricon.com/mlu370", ("MLU370*",)),
        ("cambricon.com/mlu", ()),
        ("iluvatar.ai/BI-V150-vgpu", ("BI-V150",)),
    ],
)
def test_names_that_say_the_chip(name: str, models: tuple[str, ...]) -> None:
    assert one({name: 1}).models == models


@pytest.mark.parametrize(
    ("name", "vendor", "profile"),
    [
        ("nvidia.com/mig-1g.10gb", "nvidia", "1g.10gb"),
        ("nvidia.com/mig-7g.80gb", "nvidia", "7g.80gb"),
        ("huawei.com/Ascend910-16c", "ascend", "vir16"),
        ("huawei.com/Ascend910-5c.1cpu.16g", "ascend", "vir05_1c_16g"),
        ("huawei.com/Ascend310P-2c", "ascend", "vir02"),
        ("cambricon.com/mlu.mim-2m.8gb", "cambricon", "2m.8gb"),
        ("hygon.com/dcu-share-4c-16g", "hygon", "4c-16g"),
        ("hygon.com/hcu-mig-4g-31gb", "hygon", "4g-31gb"),
    ],
)
def test_names_that_say_a_profile(name: str, vendor: str, profile: str) -> None:
    ask = one({name: 2})
    assert (ask.count, ask.profile, ask.vendors, ask.whole) == (2, profile, (vendor,), False)


def test_two_profiles_of_one_vendor_are_two_asks() -> None:
    asks = read({"nvidia.com/mig-1g.10gb": 1, "nvidia.com/mig-2g.20gb": 3}).request.containers[0].asks
    assert [(a.profile, a.count) for a in asks] == [("1g.10gb", 1), ("2g.20gb", 3)]


def test_a_seat_on_a_shared_device_has_no_size_and_says_so() -> None:
    for name in ("nvidia.com/gpu.shared", "cambricon.com/mlu.share"):
        result = read({name: 1})
        assert not result.request.containers[0].asks[0].whole
        assert "say how much memory" in result.warnings[0]


class TestNvidia:
    def test_memory_beats_percentage(self) -> None:
        result = read({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 20000, "nvidia.com/gpumem-percentage": 10})
        ask = result.request.containers[0].asks[0]
        assert (ask.memory_mib, ask.memory_percent) == (20000, 0)
        assert "the percentage is not used" in result.warnings[0]

    def test_percentage(self) -> None:
        assert one({"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 50}).memory_percent == 50

    def test_all_memory_by_percentage_is_a_whole_device(self) -> None:
        assert one({"nvidia.com/gpu": 8, "nvidia.com/gpumem-percentage": 100}).whole

    def test_all_memory_with_some_compute_is_not(self) -> None:
        ask = one({"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 100, "nvidia.com/gpucores": 50})
        assert (ask.whole, ask.memory_percent, ask.cores_percent) == (False, 100, 50)

    def test_the_unset_mark_is_absent_without_a_warning(self) -> None:
        result = read({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000, "nvidia.com/gpumem-percentage": 101})
        assert result.request.containers[0].asks[0].memory_mib == 1000
        assert result.warnings == ()

    def test_priority_is_not_about_placement(self) -> None:
        result = read({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000, "nvidia.com/priority": 0})
        assert "changes nothing about where" in result.warnings[0]
        assert len(result.warnings) == 1

    def test_one_container_with_all_compute_makes_the_pod_exclusive_and_says_so(self) -> None:
        pod = msgspec.convert(
            {
                "metadata": {"name": "p"},
                "spec": {
                    "containers": [
                        {"resources": {"limits": {"nvidia.com/gpumem": 1000, "nvidia.com/gpucores": 100}}},
                        {"resources": {"limits": {"nvidia.com/gpumem": 1000}}},
                    ]
                },
            },
            Pod,
        )
        result = normalise(pod)
        assert result.request.exclusive
        assert "none of the pod's devices is shared" in result.warnings[0]


class TestAscend:
    CORE = "huawei.com/Ascend910B3-core"

    def test_core_needs_the_annotation(self) -> None:
        limits = {"huawei.com/Ascend910B3": 1, "huawei.com/Ascend910B3-memory": 8192, self.CORE: 30}
        result = read(limits)
        assert result.request.containers[0].asks[0].cores_percent == 0
        assert "huawei.com/vnpu-mode: hami-core" in result.warnings[0]
        assert one(limits, SOFT).cores_percent == 30

    def test_one_910c_becomes_a_pair(self) -> None:
        result = read({"huawei.com/Ascend910C": 1})
        ask = result.request.containers[0].asks[0]
        assert (ask.count, ask.whole, ask.models) == (2, True, ("910C",))
        assert "1 becomes 2" in result.warnings[0]

    def test_an_odd_number_of_910c_is_refused(self) -> None:
        with pytest.raises(RequestError, match="3 is odd, and its devices come in pairs; write 4"):
            read({"huawei.com/Ascend910C": 3})

    def test_an_even_number_of_910c_stays(self) -> None:
        assert one({"huawei.com/Ascend910C": 4}).count == 4


@pytest.mark.parametrize(
    ("limits", "memory_mib", "vendor"),
    [
        ({"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 3000, "volcano.sh/vgpu-cores": 30}, 3000, "nvidia"),
        ({"volcano.sh/gpu-memory": 2048}, 2048, "nvidia"),
        ({"volcano.sh/gpu-mem.128Mi": 16}, 2048, "nvidia"),
        ({"aliyun.com/gpu-mem": 8}, 8192, "nvidia"),
        ({"metax-tech.com/sgpu": 1, "metax-tech.com/vmemory": 4, "metax-tech.com/vcore": 30}, 4096, "metax"),
        ({"metax-tech.com/sgpu": 1, "metax-tech.com/vmemory": "512Mi"}, 512, "metax"),
        ({"iluvatar.ai/BI-V100-vgpu": 1, "iluvatar.ai/BI-V100.vMem": 16}, 4096, "iluvatar"),
        ({"kunlunxin.com/vxpu": 1, "kunlunxin.com/vxpu-memory": 24576}, 24576, "kunlunxin"),
        ({"enflame.com/gcu-memory": 6144, "enflame.com/gcu-core": 20}, 6144, "enflame"),
        ({"amd.com/gpu": 1, "amd.com/gpumem": 4096}, 4096, "amd"),
        ({"hygon.com/hcunum": 1, "hygon.com/hcumem": 4096, "hygon.com/hcucores": 10}, 4096, "hygon"),
    ],
)
def test_other_dialects_and_vendors(limits: dict[str, Any], memory_mib: int, vendor: str) -> None:
    ask = one(limits)
    assert (ask.count, ask.memory_mib, ask.vendors, ask.whole) == (1, memory_mib, (vendor,), False)


def test_every_table_has_words_and_sources() -> None:
    assert set(WHOLE.values()) <= set(names.vendors())
    assert names.lookup("nvidia.com/mig-") is None
    assert not names.is_device_name("rdma/hca")
    assert names.is_device_name("terrazzo.io/anything")
