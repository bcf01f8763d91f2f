"""The port's values cross a pipe and tell three kinds of nothing apart."""

import msgspec
import pytest

from terrazzo.agent.vendors.port import (
    Answer,
    Condition,
    Conditions,
    Discovery,
    Failure,
    Found,
    Occupant,
    Trouble,
    Use,
    Uses,
    label,
)
from terrazzo.model.device import Device, Health
from terrazzo.model.unknown import Unknown

VENDORS = ("nvidia", "ascend", "cambricon", "hygon", "mthreads")


@pytest.mark.parametrize("vendor", VENDORS)
def test_answers_survive_the_pipe(vendor: str) -> None:
    device = Device(node="", uuid="u0", vendor=vendor, model="x", memory_mib=Unknown("not told"))
    answers: tuple[Answer, ...] = (
        Discovery((Found(device=device, label=label(vendor, "0000:3b:00.0")),), source="library 1"),
        Discovery((), source="library 1"),
        Failure(Trouble.SILENT, "it printed nothing"),
        Conditions((Condition("u0", Health.LOST, "Xid 79", 79, lasting=True),)),
        Uses(
            (Use("u0", 3, Unknown("not told"), (Occupant(7, Unknown("not told")),)), Use("u1", 3, 1.5, Unknown("no")))
        ),
    )
    for answer in answers:
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(answer), type=Answer) == answer


@pytest.mark.parametrize(
    ("pci", "chip", "name"),
    [
        ("00000000:3B:00.0", None, "nvidia-0000-3b-00-0"),
        ("0000:3b:00.0", None, "nvidia-0000-3b-00-0"),
        ("00008ED0:01:00.0", None, "nvidia-8ed0-01-00-0"),
        ("00018ED0:01:00.0", None, "nvidia-00018ed0-01-00-0"),
        ("0000:01:00.0", 1, "nvidia-0000-01-00-0-1"),
    ],
)
def test_label(pci: str, chip: int | None, name: str) -> None:
    assert label("nvidia", pci, chip) == name
