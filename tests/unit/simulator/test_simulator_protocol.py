from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from terrazzo.model.errors import InputError
from terrazzo.simulator import openb, openb_runs, protocol
from terrazzo.simulator.protocol import Curve

ROOT = Path(__file__).parents[3]
REFERENCE = ROOT.parent / "shared" / "tools" / "openb_reference.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A fleet of 14 nodes and 60 pods of our own making, with every kind of pod and tight CPU on some nodes."""
    nodes = ["sn,cpu_milli,memory_mib,gpu,model"]
    for i in range(14):
        gpus, model = (8, "G2") if i % 3 == 0 else ((2, "T4") if i % 3 == 1 else (4, "P100"))
        nodes.append(f"n{i:02d},{16000 + 24000 * (i % 4)},{65536 * (1 + i % 2)},{gpus},{model}")
    pods = ["name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec"]
    shares = (810, 470, 320, 650, 160, 1000, 1000)
    for i in range(60):
        gpus = 0 if i % 9 == 8 else (1 if i % 10 else 2 + 2 * (i % 4 == 0))
        milli = 0 if not gpus else (shares[i % 7] if gpus == 1 else 1000)
        spec = "T4|P100" if gpus == 1 and i % 11 == 3 else ("G2" if gpus and i % 13 == 5 else "")
        pods.append(f"p{i:02d},{1000 * (1 + i % 7)},{2048 * (1 + i % 5)},{gpus},{milli},{spec}")
    (tmp_path / openb.NODES).write_text("\n".join(nodes) + "\n")
    (tmp_path / openb.PODS.format(trace="own")).write_text("\n".join(pods) + "\n")
    return tmp_path


@pytest.fixture
def reference() -> ModuleType:
    if not REFERENCE.is_file():
        pytest.skip(f"the reference program is not at {REFERENCE}")
    spec = importlib.util.spec_from_file_location("openb_reference", REFERENCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["openb_reference"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("policy", ["fgd", "bestfit"])
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_equals_the_reference_program(folder: Path, reference: ModuleType, policy: str, seed: int) -> None:
    nodes = reference.load_nodes(folder / openb.NODES)
    pods = reference.load_pods(folder / openb.PODS.format(trace="own"))
    frag = reference.Frag(reference.typical(pods), nodes["mid"])
    theirs = reference.run(nodes, pods, policy, seed, 1.3, frag, True)
    ours = protocol.replay(
        openb.read_nodes(folder / openb.NODES),
        openb.read_pods(folder / openb.PODS.format(trace="own")),
        policy,
        seed,
    )
    assert ours.pods == theirs["n"]
    assert ours.pods - ours.placed == sum(theirs["fail"].values())
    expected = {percent: value for percent, value in enumerate(theirs["curve"]) if value or percent in ours.percent}
    assert {p: round(v, 2) for p, v in ours.percent.items() if p <= 130} == pytest.approx(
        {p: v for p, v in expected.items() if p in ours.percent}, abs=0.011
    )


@pytest.mark.parametrize("policy", ["fragmentation", "pack", "fgd", "random", "hami", "first-fit"])
def test_same_seed_same_bytes(folder: Path, policy: str) -> None:
    first = openb_runs(folder, "own", policy, [3, 4])
    again = openb_runs(str(folder), "own", policy, [3, 4])
    assert json.dumps(first) == json.dumps(again)
    assert [run["seed"] for run in first] == [3, 4]
    assert set(first[0]) == {"trace", "seed", "policy", "allocation"}
    assert set(first[0]["allocation"]) == {"95", "100", "130"}


def test_what_is_allocated_never_exceeds_what_arrived(folder: Path) -> None:
    nodes = openb.read_nodes(folder / openb.NODES)
    pods = openb.read_pods(folder / openb.PODS.format(trace="own"))
    for policy in ("fragmentation", "fgd", "bestfit", "spread", "whole-cards"):
        curve = protocol.replay(nodes, pods, policy, 1)
        assert all(value <= percent + 0.5 for percent, value in curve.percent.items()), policy
        assert max(curve.percent.values()) <= 100
        assert 0 < curve.placed <= curve.pods


def test_progress_is_told_and_ends_at_the_total(folder: Path) -> None:
    seen: list[tuple[int, int]] = []
    openb_runs(folder, "own", "first-fit", [1, 2], progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1]
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_unknown_policy_and_missing_trace(folder: Path) -> None:
    with pytest.raises(InputError, match="write bestfit"):
        openb_runs(folder, "own", "bestfitt", [1])
    with pytest.raises(InputError, match=r"openb_pod_list_none\.csv"):
        openb_runs(folder, "none", "fgd", [1])


def test_marks_that_nothing_rounds_to() -> None:
    curve = Curve({10: 9.0, 94: 90.0, 101: 91.0}, 3, 3)
    assert curve.at(95) == 90.0
    assert curve.at(100) == 90.0
    assert curve.at(130) is None
    assert curve.at(5) == 9.0
    assert Curve({}, 0, 0).at(95) is None


def test_numpy_seeds_are_what_the_protocol_says() -> None:
    pods = tuple(openb.TracePod(1, 1, 1, 1000) for _ in range(5))
    rng = np.random.default_rng(9)
    shuffled = [int(i) for i in rng.permutation(5)]
    drawn = [int(rng.integers(5)) for _ in range(5)]
    assert list(openb.sequence(pods, 10_000, 1.0, 9)) == shuffled + drawn
