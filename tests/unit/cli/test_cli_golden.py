"""What a person sees, compared with files. ``UPDATE_GOLDEN=1 pytest …`` writes them anew; then read the difference."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from terrazzo.cli import main as cli

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden" / "cli"
FIXTURES = ROOT / "tests" / "fixtures" / "cli"
CLUSTER = ("--cluster", f"{FIXTURES}/cluster.yaml")
ONE_CARD = ("--cluster", f"{ROOT}/examples/one-card/node.yaml")
VENDORS = (
    "--cluster", f"{ROOT}/examples/five-vendors/nodes.yaml", "--policy", f"{ROOT}/examples/five-vendors/policy.yaml",
)  # fmt: skip
PODS = ("-f", f"{FIXTURES}/pods.yaml")
WIDEST = 110
_LONG = {"plan-neutral-wide.txt"}
"""Asked for as wide."""

CASES: dict[str, tuple[tuple[str, ...], int]] = {
    "help.txt": (("--help",), 0),
    "plan-help.txt": (("plan", "--help"), 0),
    "inventory-help.txt": (("inventory", "--help"), 0),
    "explain-help.txt": (("explain", "--help"), 0),
    "simulate-help.txt": (("simulate", "--help"), 0),
    "inventory-model.txt": (("inventory", *CLUSTER), 0),
    "inventory-vendor.txt": (("inventory", *CLUSTER, "--by", "vendor"), 0),
    "inventory-node.txt": (("inventory", *CLUSTER, "--by", "node"), 0),
    "inventory-namespace.txt": (("inventory", *CLUSTER, "--by", "namespace"), 0),
    "inventory-sizes.txt": (("inventory", *CLUSTER, "--request", "8Gi,30%", "--request", "2xwhole"), 0),
    "inventory.json": (("inventory", *CLUSTER, "--request", "8Gi,30%", "-o", "json"), 0),
    "inventory.yaml": (("inventory", *CLUSTER, "--by", "namespace", "-o", "yaml"), 0),
    "inventory-five-vendors.txt": (("inventory", *VENDORS, "--request", "8Gi,30%"), 0),
    "plan-one-card.txt": (("plan", "-f", f"{ROOT}/examples/one-card/pods.yaml", *ONE_CARD), 0),
    "plan-one-card.json": (("plan", "-f", f"{ROOT}/examples/one-card/more.yaml", *ONE_CARD, "-o", "json"), 0),
    "plan-one-card.yaml": (("plan", "-f", f"{ROOT}/examples/one-card/more.yaml", *ONE_CARD, "-o", "yaml"), 0),
    "plan-own-words.txt": (("plan", "-f", f"{ROOT}/examples/five-vendors/own-words.yaml", *VENDORS), 0),
    "plan-neutral-wide.txt": (
        ("plan", "-f", f"{ROOT}/examples/five-vendors/inference.yaml", *VENDORS, "-o", "wide"),
        0,
    ),
    "plan-mixed.txt": (("plan", *PODS, *CLUSTER), 3),
    "plan-mixed.json": (("plan", *PODS, *CLUSTER, "-o", "json"), 3),
    "explain-waits.txt": (("explain", "waits", *CLUSTER, "--devices"), 3),
    "explain-waits.json": (("explain", "waits", *CLUSTER, "-o", "json"), 3),
    "explain-short.txt": (("explain", "big", "-f", f"{FIXTURES}/unplaced.yaml", *CLUSTER, "--devices"), 3),
    "plan-unplaced.txt": (("plan", "-f", f"{FIXTURES}/unplaced.yaml", *CLUSTER), 3),
    "explain-runs.txt": (("explain", "whole", *CLUSTER), 0),
    "explain-shares.txt": (("explain", "vision/nb-17", *CLUSTER), 0),
    "explain-fits.txt": (("explain", "research/train", *PODS, *CLUSTER), 0),
}


@pytest.mark.parametrize("name", CASES)
def test_output(name: str) -> None:
    args, code = CASES[name]
    entry = click.Command("entry", callback=lambda: cli.main(args))
    result = CliRunner().invoke(entry, [])
    assert (result.exit_code, result.stderr) == (code, "")
    shown = result.stdout.replace(str(ROOT), "…")
    file = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(shown, "utf-8")
    assert shown == file.read_text("utf-8")
    if name.endswith(".txt") and name not in _LONG:
        assert max(map(len, shown.splitlines())) <= WIDEST
    assert "\x1b" not in shown
    assert all(line == line.rstrip() for line in shown.splitlines())


def test_no_golden_file_is_left_behind() -> None:
    assert {file.name for file in GOLDEN.iterdir()} == set(CASES)
