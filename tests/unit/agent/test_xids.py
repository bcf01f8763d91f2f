"""Every fault number has a class, and an unknown one is not taken for harmless."""

from pathlib import Path

import pytest

from terrazzo.agent.vendors.xids import Class, health, logged, xid
from terrazzo.model.device import Health

SAMPLES = Path(__file__).resolve().parents[4] / "shared" / "samples" / "nvidia"


@pytest.mark.parametrize(
    ("codes", "kind", "state"),
    [
        ((13, 31, 43, 45, 68, 109), Class.APPLICATION, Health.HEALTHY),
        ((92,), Class.WARNING, Health.HEALTHY),
        ((48, 63, 74, 94, 9999), Class.DEGRADED, Health.DEGRADED),
        ((64, 79, 95, 119, 120, 140), Class.FATAL, Health.LOST),
    ],
)
def test_classes(codes: tuple[int, ...], kind: Class, state: Health) -> None:
    for code in codes:
        assert xid(code).kind is kind
        assert health(code, None) is state
        assert str(code) in xid(code).reason


@pytest.mark.parametrize("code", [110, 143, 154])
@pytest.mark.parametrize(
    ("action", "state"),
    [(None, Health.DEGRADED), (0, Health.HEALTHY), (1, Health.LOST), (2, Health.LOST), (4, Health.DEGRADED)],
)
def test_the_driver_is_asked_what_to_do(code: int, action: int | None, state: Health) -> None:
    assert health(code, action) is state


def test_kernel_log() -> None:
    text = "[ 1.2] NVRM: Xid (PCI:0000:3B:00): 79, pid=7, GPU has fallen off the bus.\n[ 1.3] usb 1-1: new device\n"
    assert logged(text) == (("0000:3b:00", xid(79)),)


def test_captured_kernel_log() -> None:
    if not SAMPLES.is_dir():
        pytest.skip("the captures of real tools are not beside this checkout")
    told = logged(next(SAMPLES.glob("12-*")).read_text("utf-8"))
    assert [(pci, fault.code, fault.kind) for pci, fault in dict.fromkeys(told)] == [
        ("0000:01:00", 79, Class.FATAL),
        ("0000:00:06", 31, Class.APPLICATION),
    ]
