"""Text and JSON of ``mthreads-gmi``: stated values, unknown cells, and three kinds of nothing."""

import json
from pathlib import Path

import pytest

from terrazzo.agent.vendors.mthreadsgmi import Told, read_json, read_table
from terrazzo.agent.vendors.port import Failure, Trouble
from terrazzo.model.unknown import Unknown

SAMPLES = Path(__file__).resolve().parents[4] / "shared" / "samples" / "mthreads"

TABLE = """
    mthreads-gmi:1.14.0          Driver Version:2.7.0
ID   Name           |PCIe                |%GPU  Mem
0    MTT S80        |00000000:04:00.0    |7%    2MiB(16384MiB)
     Physical       |4x(16x)             |49C   YES
                                         |      N/A
1    MTT S80        |00000000:05:00.0    |N/A   N/A(16384MiB)
     Physical  P0   |16x(16x)            |49C   YES
                                         |      On-die, EDC
"""


def _sample(name: str) -> str:
    if not SAMPLES.is_dir():
        pytest.skip("the captures of real tools are not beside this checkout")
    return next(SAMPLES.glob(f"{name}-*")).read_text("utf-8")


def test_table() -> None:
    told = read_table(TABLE)
    assert isinstance(told, Told)
    assert told.driver == "2.7.0"
    first, second = told.cards
    assert (first.pci, first.total_mib, first.used_mib, first.busy_percent) == ("00000000:04:00.0", 16384, 2, 7.0)
    assert second.total_mib == 16384
    assert isinstance(second.used_mib, Unknown)
    assert isinstance(second.busy_percent, Unknown)
    assert [card.kind for card in told.cards] == ["Physical", "Physical"]


@pytest.mark.parametrize(
    ("name", "count", "product", "used", "total", "kind"),
    [
        ("01", 1, "MTT S80", 2, 16384, "Physical"),
        ("02", 1, "MTT S80", 662, 16384, "Physical"),
        ("04", 1, "MTT S3000", 30094, 32768, "MPC Parent"),
        ("05", 8, "MTT S5000", 0, 81920, "Physical"),
    ],
)
def test_captured_tables(name: str, count: int, product: str, used: int, total: int, kind: str) -> None:
    told = read_table(_sample(name))
    assert isinstance(told, Told)
    assert len(told.cards) == count
    for card in told.cards:
        assert (card.product, card.used_mib, card.total_mib, card.kind) == (product, used, total, kind)


def test_captured_json_object() -> None:
    told = read_json(json.dumps({"GPU": [json.loads(_sample("07"))]}))
    assert isinstance(told, Told)
    (card,) = told.cards
    assert (card.product, card.total_mib, card.pci) == ("MTT S4000", 49152, "00000000:12:00.0")
    assert isinstance(card.used_mib, Unknown)


@pytest.mark.parametrize("read", [read_json, read_table])
@pytest.mark.parametrize(
    ("text", "trouble"),
    [(" \n", Trouble.SILENT), ("/bin/sh: 1: mthreads-gmi: not found", Trouble.GARBLED), ("{\x00", Trouble.GARBLED)],
)
def test_nothing_is_not_no_cards(read: type, text: str, trouble: Trouble) -> None:
    told = read(text)
    assert isinstance(told, Failure)
    assert told.trouble is trouble


def test_no_cards_is_an_answer() -> None:
    assert read_json('{"GPU": []}') == Told(())
