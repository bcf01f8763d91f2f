"""The catalogue's rows are complete, consistent and found by the names that tools use."""

from __future__ import annotations

from functools import cache

import pytest

from terrazzo.dialects import catalogue
from terrazzo.model.device import Geometry, SharingMode
from terrazzo.model.unknown import Unknown

CHIPS = list(catalogue.chips())
CUT = sorted({chip.geometry for chip in CHIPS if chip.geometry})


def table(name: str) -> Geometry:
    found = catalogue.geometry(name)
    assert found is not None, name
    return found


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: f"{chip.vendor}-{chip.model}")
def test_row_is_complete(chip: catalogue.Chip) -> None:
    assert chip.source
    assert chip.memory_mib > chip.reserved_mib >= 0
    assert min(chip.units, chip.memory_step_mib, chip.sharers) >= 1
    if chip.mode is SharingMode.WHOLE:
        assert chip.sharers == 1
    if chip.mode is SharingMode.GEOMETRY:
        assert catalogue.geometry(chip.geometry) is not None
        assert chip.units >= max(profile.units for profile in table(chip.geometry).profiles)


@pytest.mark.parametrize("vendor", catalogue.VENDORS)
def test_names_of_a_vendor_are_unique(vendor: str) -> None:
    names = [catalogue._plain(name) for chip in catalogue.chips(vendor) for name in {chip.model, *chip.aliases}]
    doubled = {name for name in names if names.count(name) > 1}
    assert names
    # An alias may differ from the model by a dash alone; two chips may not share one.
    for name in doubled:
        owners = {
            chip.model
            for chip in catalogue.chips(vendor)
            if name in {catalogue._plain(each) for each in (chip.model, *chip.aliases)}
        }
        assert len(owners) == 1, (name, owners)


@pytest.mark.parametrize("name", CUT)
def test_profiles_are_legal(name: str) -> None:
    geometry = table(name)
    assert geometry.source
    assert len({profile.name for profile in geometry.profiles}) == len(geometry.profiles)
    spelled = [each for profile in geometry.profiles for each in (profile.name, *profile.aliases)]
    assert len(set(spelled)) == len(spelled)
    assert [p.memory_mib for p in geometry.profiles] == sorted(p.memory_mib for p in geometry.profiles)
    for profile in geometry.profiles:
        assert min(profile.memory_mib, profile.units, profile.size) >= 1
        assert profile.size <= geometry.slots
        assert all(0 <= start <= geometry.slots - profile.size for start in profile.starts)
    assert len({bool(profile.starts) for profile in geometry.profiles}) == 1


@pytest.mark.parametrize("name", CUT)
def test_no_set_of_slices_exceeds_the_chip(name: str) -> None:
    geometry = table(name)
    chips = [chip for chip in CHIPS if chip.geometry == name]
    units = min(chip.units if chip.mode is SharingMode.GEOMETRY else _compute_slices(geometry) for chip in chips)

    @cache
    def fullest(state: int) -> tuple[int, int]:
        """Return the most memory and the most compute that can still be cut."""
        memory = compute = 0
        for profile in geometry.profiles:
            for start in profile.starts or (-1,):
                if start < 0:
                    after = state + profile.size
                    fits = after <= geometry.slots
                else:
                    mask = ((1 << profile.size) - 1) << start
                    after, fits = state | mask, not state & mask
                if fits:
                    rest = fullest(after)
                    memory = max(memory, profile.memory_mib + rest[0])
                    compute = max(compute, profile.units + rest[1])
        return memory, compute

    memory, compute = fullest(0)
    assert memory <= min(chip.memory_mib for chip in chips)
    assert compute <= units


def _compute_slices(geometry: Geometry) -> int:
    return max(profile.units for profile in geometry.profiles)


@pytest.mark.parametrize(
    ("vendor", "name", "model"),
    [
        ("nvidia", "NVIDIA-A100-SXM4-80GB", "A100-80"),
        ("nvidia", "NVIDIA A100-SXM4-40GB", "A100-40"),
        ("nvidia", "NVIDIA-A100-SXM4-40GB-MIG-7g.40gb", "A100-40"),
        ("nvidia", "NVIDIA-A100-80GB-PCIe-SHARED", "A100-80"),
        ("nvidia", "NVIDIA-NVIDIA GeForce RTX 3090", "RTX-3090"),
        ("nvidia", "NVIDIA-Tesla V100-PCIE-32GB", "V100-32"),
        ("nvidia", "NVIDIA H100 80GB HBM3", "H100-80"),
        ("nvidia", "NVIDIA H200", "H200"),
        ("nvidia", "Tesla-T4", "T4"),
        ("nvidia", "nvidia rtx pro 6000 blackwell server edition", "RTX-PRO-6000"),
        ("ascend", "Ascend910B4", "910B4"),
        ("ascend", "Ascend910B4-1", "910B4-1"),
        ("ascend", "Ascend310P", "310P3"),
        ("cambricon", "MLU-MLU370-X4", "MLU370-X4"),
        ("cambricon", "MLU370-X8", "MLU370-X8"),
        ("hygon", "K100_AI", "K100-AI"),
        ("hygon", "DCU-Z100L", "Z100L"),
        ("mthreads", "MTT S4000", "S4000"),
        ("metax", "MXC500", "C500"),
        ("kunlunxin", "P800 OAM", "P800"),
        ("amd", "AMD_Instinct_MI300X_OAM", "MI300X"),
    ],
)
def test_chip_is_found_by_the_name_a_tool_uses(vendor: str, name: str, model: str) -> None:
    found = catalogue.chip(vendor, name)
    assert found is not None
    assert found.model == model


@pytest.mark.parametrize(
    ("vendor", "name"),
    [
        ("nvidia", "H2"),
        ("nvidia", "A100"),
        ("nvidia", ""),
        ("nvidia", "nvidia"),
        ("ascend", "Ascend910"),
        ("ascend", "910B"),
        ("cambricon", "MLU370"),
        ("nobody", "A100-80"),
    ],
)
def test_part_of_a_name_is_no_name(vendor: str, name: str) -> None:
    assert catalogue.chip(vendor, name) is None


@pytest.mark.parametrize(
    ("vendor", "model", "mode", "units", "step", "sharers"),
    [
        ("nvidia", "A100-80", SharingMode.CONTINUOUS, 100, 1, 64),
        ("ascend", "910B3", SharingMode.GEOMETRY, 20, 1, 16),
        ("ascend", "910B1", SharingMode.WHOLE, 25, 1, 1),
        ("cambricon", "MLU370-X8", SharingMode.CONTINUOUS, 100, 256, 100),
        ("hygon", "Z100", SharingMode.CONTINUOUS, 60, 1, 4),
        ("hygon", "K100-AI", SharingMode.CONTINUOUS, 120, 1, 4),
        ("mthreads", "S4000", SharingMode.CONTINUOUS, 16, 512, 16),
        ("metax", "C500", SharingMode.WHOLE, 100, 1, 1),
        ("amd", "MI300X", SharingMode.WHOLE, 100, 1, 1),
    ],
)
def test_device_takes_the_vendors_way_of_sharing(
    vendor: str, model: str, mode: SharingMode, units: int, step: int, sharers: int
) -> None:
    made = catalogue.device(vendor, model, node="n", uuid="u")
    assert (made.mode, made.units, made.memory_step_mib, made.sharers) == (mode, units, step, sharers)
    assert (made.geometry is not None) == (mode is SharingMode.GEOMETRY)


def test_node_wins_over_the_table() -> None:
    assert catalogue.device("nvidia", "A100-80", node="n", uuid="u", memory_mib=12345).memory_mib == 12345
    assert catalogue.device("nvidia", "A100-80", node="n", uuid="u").memory_mib == 81920 - 669


def test_unknown_chip_has_unknown_memory_and_is_whole() -> None:
    made = catalogue.device("nvidia", "Z9000-SHARED", node="n", uuid="u")
    assert isinstance(made.memory_mib, Unknown)
    assert "Z9000" in made.memory_mib.reason
    assert (made.model, made.product, made.mode, made.sharers) == ("Z9000", "Z9000-SHARED", SharingMode.WHOLE, 1)


def test_mig_mode_counts_compute_slices() -> None:
    for model, slices in (("A100-80", 7), ("A30", 4), ("H200", 7), ("B200", 7)):
        made = catalogue.device("nvidia", model, node="n", uuid="u", mode=SharingMode.GEOMETRY)
        assert (made.units, made.geometry and made.geometry.name) == (slices, model)


def test_mig_mode_without_a_table_offers_no_slice() -> None:
    made = catalogue.device("nvidia", "L40S", node="n", uuid="u", mode=SharingMode.GEOMETRY)
    assert (made.mode, made.geometry) == (SharingMode.GEOMETRY, None)


@pytest.mark.parametrize("vendor", catalogue.VENDORS)
def test_shared_by_percent_has_no_table(vendor: str) -> None:
    model = next(catalogue.chips(vendor)).model
    made = catalogue.device(vendor, model, node="n", uuid="u", mode=SharingMode.CONTINUOUS)
    assert (made.mode, made.geometry) == (SharingMode.CONTINUOUS, None)
    assert made.sharers > 1


def test_whole_profile_of_an_a100_has_both_spellings() -> None:
    profile = table("A100-80").profile("7g.79gb")
    assert profile is not None
    assert profile.name == "7g.80gb"


def test_chips_of_one_vendor_and_of_all() -> None:
    assert {chip.vendor for chip in catalogue.chips()} == set(catalogue.VENDORS)
    assert {chip.vendor for chip in catalogue.chips("hygon")} == {"hygon"}
    assert list(catalogue.chips("nobody")) == []
    assert catalogue.geometry("nothing") is None
    assert catalogue.usual_mode("nobody") is SharingMode.WHOLE
