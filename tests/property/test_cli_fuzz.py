"""Whatever is handed in, the command line answers, or says one sentence; it never breaks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st

from terrazzo.cli import main as cli

ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "tests" / "fixtures" / "cli" / "cluster.yaml"
PODS = ROOT / "tests" / "fixtures" / "cli" / "pods.yaml"
NODES = (ROOT / "examples" / "five-vendors" / "nodes.yaml").read_text("utf-8")


def check(args: tuple[str, ...], text: bytes) -> None:
    entry = click.Command("entry", callback=lambda: cli.main(args))
    result = CliRunner().invoke(entry, [], input=text)
    assert result.exit_code in {0, 2, 3}, (text, result.output)
    if result.exit_code == cli.BAD_INPUT:
        assert result.stdout == ""
        assert result.stderr.startswith("terrazzo: ")
        assert result.stderr.count("\n") == 1
    else:
        assert result.stderr == ""


COMMANDS = [
    ("plan", "-f", "-", "--cluster", f"{ROOT}/examples/one-card/node.yaml", "-o", "json"),
    ("inventory", "--cluster", "-"),
    ("inventory", "--cluster", f"{ROOT}/examples/one-card/node.yaml", "--policy", "-"),
]


@pytest.mark.parametrize("args", COMMANDS)
@settings(max_examples=40, deadline=None)
@given(text=st.one_of(st.binary(max_size=60), st.text(max_size=60).map(lambda text: text.encode(errors="ignore"))))
@example(text=b"\xff\xfe")
@example(text=b"\xff\xfe{\x00")
@example(text=b"--- !!python/object/apply:os.system [ls]\n")
@example(text=b"? {a: b}\n: c\n")
@example(text=b"a: &x 1\n*x : 2\n")
@example(text=b"<<: 1\n")
@example(text=b"%YAML 9.9\n---\n")
@example(text=b"kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c}], priority: 99999999999999999999}\n")
def test_any_bytes(args: tuple[str, ...], text: bytes) -> None:
    check(args, text)


@st.composite
def damaged(draw: st.DrawFn, text: str) -> bytes:
    """Return a real file with some of its lines cut, doubled, swapped or changed."""
    lines = text.splitlines()
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(["cut", "double", "drop", "value", "indent", "character"])):
            case "cut":
                lines = lines[: place + 1]
                lines[-1] = lines[-1][: draw(st.integers(0, len(lines[-1])))]
            case "double":
                lines.insert(place, lines[place])
            case "drop" if len(lines) > 1:
                del lines[place]
            case "value":
                key, colon, _ = lines[place].partition(":")
                worse = ["null", "[]", "{}", "-1", "1.5", "''", '"', "8GB", "&a *a", "1e400", "true", "{a: b}", "\t"]
                lines[place] = f"{key}{colon} {draw(st.sampled_from(worse))}"
            case "indent":
                lines[place] = "  " + lines[place]
            case _:
                at = draw(st.integers(0, len(lines[place])))
                lines[place] = lines[place][:at] + draw(st.characters(codec="utf-8")) + lines[place][at:]
    return "\n".join(lines).encode()


@settings(max_examples=80, deadline=None)
@given(damaged(PODS.read_text("utf-8")))
def test_damaged_manifests(text: bytes) -> None:
    check(COMMANDS[0], text)


@settings(max_examples=80, deadline=None)
@given(damaged(CLUSTER.read_text("utf-8")))
def test_damaged_clusters(text: bytes) -> None:
    check(COMMANDS[1], text)


@settings(max_examples=40, deadline=None)
@given(damaged(NODES))
def test_damaged_inventories(text: bytes) -> None:
    check(COMMANDS[1], text)


FIELDS = st.sampled_from(
    ["metadata", "name", "namespace", "labels", "annotations", "spec", "status", "containers", "initContainers",
     "resources", "limits", "requests", "nodeName", "phase", "allocatable", "capacity", "conditions", "taints",
     "terrazzo.io/gpu", "terrazzo.io/gpu-memory", "nvidia.com/gpu", "nvidia.com/gpumem", "terrazzo.io/inventory",
     "hami.io/node-nvidia-register", "cpu", "devices", "driver", "pool", "data", "items", "template", "replicas"]
)  # fmt: skip
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8),
    st.sampled_from(["8Gi", "1", "50", "gfd-1", "Running", "[{}]", '{"v":1,"devices":[{}]}', "G,10,1,1,T4,0,true:"]),
)  # fmt: skip
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(FIELDS, inner, max_size=4)),
    max_leaves=20,
)
KINDS = [
    "Node",
    "Pod",
    "ConfigMap",
    "ResourceSlice",
    "PriorityClass",
    "List",
    "PodList",
    "Deployment",
    "RayCluster",
    "",
]


@pytest.mark.parametrize("args", COMMANDS[:2])
@settings(max_examples=80, deadline=None)
@given(st.lists(st.dictionaries(FIELDS, TREES, max_size=5), max_size=3), st.sampled_from(KINDS), st.booleans())
def test_objects_of_any_shape(args: tuple[str, ...], bodies: list[dict[str, Any]], kind: str, beside: bool) -> None:
    items = [{"kind": kind, **body} for body in bodies]
    if beside:
        items.append({"kind": "Node", "metadata": {"name": "n1"}})
    check(args, json.dumps({"kind": "List", "items": items}).encode())
