"""Every slip that a user can make gets one sentence on standard error, exit code 2, and nothing on standard output."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from terrazzo.cli import main as cli

ROOT = Path(__file__).parents[3]
CLUSTER = ROOT / "tests" / "fixtures" / "cli" / "cluster.yaml"


def run(*args: str | Path, stdin: bytes | None = None) -> Result:
    """Run the whole entry point, error handling included."""
    entry = click.Command("entry", callback=lambda: cli.main([str(arg) for arg in args]))
    return CliRunner().invoke(entry, [], input=stdin)


def refused(result: Result, *words: str) -> str:
    """Assert that the result is one sentence that holds ``words``, and return it."""
    assert result.exit_code == cli.BAD_INPUT, (result.exit_code, result.output)
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("terrazzo: ")
    assert lines[0].endswith((".", "?"))
    assert "Traceback" not in lines[0]
    for word in words:
        assert word in lines[0]
    return lines[0]


def pod(limits: dict[str, object], **spec: object) -> str:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train"},
        "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}], **spec},
    }
    return json.dumps(body)


ASKS: dict[str, tuple[dict[str, object], tuple[str, ...]]] = {
    "unknown name of ours": ({"terrazzo.io/gpus": 1}, ("terrazzo.io/gpus", "terrazzo.io/gpu")),
    "negative": ({"nvidia.com/gpu": -1}, ("nvidia.com/gpu",)),
    "negative of ours": ({"terrazzo.io/gpu": -1}, ("terrazzo.io/gpu",)),
    "half a device": ({"nvidia.com/gpu": "1.5"}, ("1.5",)),
    "8GB": ({"terrazzo.io/gpu-memory": "8GB"}, ("8GB", "write 8Gi")),
    "cores 120": ({"terrazzo.io/gpu-cores": 120}, ("120", "100")),
    "percentage 120": ({"terrazzo.io/gpu-memory-percentage": 120}, ("120", "100")),
    "no number": ({"nvidia.com/gpu": "many"}, ("many",)),
    "both dialects": (
        {"terrazzo.io/gpu-memory": "8Gi", "nvidia.com/gpu": 1, "nvidia.com/gpumem": 1024},
        ("containers[0]",),
    ),
}


@pytest.mark.parametrize("case", ASKS)
def test_asks_that_can_never_be_valid(case: str, tmp_path: Path) -> None:
    limits, words = ASKS[case]
    file = tmp_path / "pods.yaml"
    file.write_text("---\n" + pod(limits))
    refused(run("plan", "-f", file, "--cluster", CLUSTER), "pods.yaml:2", "pod default/train", "resources", *words)


def test_the_sentence_names_file_line_object_field_and_remedy(tmp_path: Path) -> None:
    file = tmp_path / "pods.yaml"
    file.write_text(f"# a comment\n---\n{pod({'terrazzo.io/gpu-cores': 120})}\n")
    sentence = refused(run("plan", "-f", file, "--cluster", CLUSTER))
    place = "pods.yaml:3: pod default/train: spec.containers[0].resources.limits[terrazzo.io/gpu-cores]: "
    assert place in sentence
    assert "; write" in sentence


@pytest.mark.parametrize(
    "annotation",
    ["terrazzo.io/allocation"],
)
def test_forged_grants_and_preset_nodes_are_refused(annotation: str, tmp_path: Path) -> None:
    file = tmp_path / "pod.json"
    forged = json.loads(pod({"nvidia.com/gpu": 1}))
    forged["metadata"]["annotations"] = {annotation: "{}"}
    file.write_text(json.dumps(forged))
    refused(run("plan", "-f", file, "--cluster", CLUSTER), "pod.json", annotation)
    file.write_text(pod({"nvidia.com/gpu": 1}, nodeName="gfd-1"))
    refused(run("plan", "-f", file, "--cluster", CLUSTER), "pod.json", "nodeName")


TEXTS: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "empty": (b"", ("is empty",)),
    "blank": (b" \n\n", ("is empty",)),
    "only comments": (b"# nothing\n", ("holds no objects",)),
    "empty list": (b"apiVersion: v1\nitems: []\nkind: List\n", ("holds no objects",)),
    "empty list in JSON": (b'{"kind":"List","items":[]}', ("holds no objects",)),
    "truncated YAML": (b"kind: Pod\nmetadata:\n  name: [a", (":4", "not valid YAML")),
    "truncated List": (b"items:\n- kind: Pod\n  metadata:\n    name: a\n", ("before the List is closed",)),
    "truncated JSON": (b'{"kind": "Pod",\n"metadata": {"na', (":2", "ends in the middle")),
    "damaged JSON": (b'{"kind": "Pod",\n"metadata" "x"}', (":2", "not valid")),
    "tabs": (b"kind: Pod\n\tmetadata: {}\n", (":2", "not valid YAML")),
    "binary": (bytes(range(256)), ("is no text",)),
    "compressed": (b"\x1f\x8b\x08\x00abc", ("is compressed",)),
    "prose": (b"hello world\n", ("no Kubernetes object",)),
    "a list of words": (b"- a\n- b\n", ("no Kubernetes object",)),
    "no kind": (b"a: 1\n", ("has no kind",)),
    "a number as kind": (b"kind: 5\n", ("has no kind",)),
    "nothing that runs": (b"kind: Service\nmetadata: {name: web}\n", ("makes no pod", "Service")),
    "metadata is text": (b"kind: Pod\nmetadata: web\n", ("metadata",)),
    "key twice": (b"kind: Pod\nkind: Pod\n", (":2", "'kind' stands twice")),
    "label is a number": (
        b"kind: Pod\nmetadata: {name: a, labels: {tier: 1}}\nspec: {containers: [{name: c}]}\n",
        (":1", "Pod default/a", "metadata.labels[tier]", "text is expected"),
    ),
    "containers is text": (b"kind: Pod\nmetadata: {name: a}\nspec: {containers: x}\n", ("spec.containers",)),
    "no containers": (b"kind: Pod\nmetadata: {name: a}\nspec: {}\n", ("has no containers",)),
    "replicas is text": (
        b"kind: Deployment\nmetadata: {name: a}\nspec: {replicas: two, template: {spec: {containers: [{name: c}]}}}\n",
        ("spec.replicas", "'two'"),
    ),
    "deep YAML": (b"[" * 100_000, ("deep",)),
    "deep blocks": (b"- " * 100_000, ("depth",)),
    "deep JSON": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, ("deep",)),
    "a pod twice": (
        2 * b"---\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c}]}\n",
        (":6", "pod default/a is given twice", ":2"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TEXTS)
def test_files_that_cannot_be_read(case: str, tmp_path: Path) -> None:
    text, words = TEXTS[case]
    file = tmp_path / "pods.yaml"
    file.write_bytes(text)
    refused(run("plan", "-f", file, "--cluster", CLUSTER), str(file), *words)
    # The same text on standard input says so.
    refused(run("plan", "-f", "-", "--cluster", CLUSTER, stdin=text), *(w for w in words if "/" not in w))


def test_aliases_that_expand_without_end_are_refused(tmp_path: Path) -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"{n}: &{n} [{', '.join([f'*{p}'] * 10)}]" for p, n in zip("abcdefgh", "bcdefghi", strict=True)]
    file = tmp_path / "bomb.yaml"
    file.write_text("\n".join(lines))
    refused(run("plan", "-f", file, "--cluster", CLUSTER), "bomb.yaml:", "aliases expand")
    file.write_text("a: &a [*a]\n")
    refused(run("plan", "-f", file, "--cluster", CLUSTER), "bomb.yaml:1", "*a names nothing before it")


def test_places_that_are_not_there(tmp_path: Path) -> None:
    missing = tmp_path / "missing.yaml"
    refused(run("plan", "-f", missing, "--cluster", CLUSTER), str(missing), "No such file")
    refused(run("plan", "-f", tmp_path, "--cluster", CLUSTER), str(tmp_path), "holds no .yaml")
    refused(run("inventory", "--cluster", missing), str(missing))
    refused(run("plan", "-f", "-", "--cluster", "-", stdin=b"x"), "standard input is given twice")


NODE = "kind: Node\nmetadata: {{name: n1, annotations: {{terrazzo.io/inventory: '{}'}}}}\n"
DEVICE = '{"uuid":"a","vendor":"nvidia","model":"T4","mib":15360}'
NODES = {
    "no node": (pod({}), ("holds no Node", "kubectl get nodes")),
    "a device twice": (
        NODE.format(f'{{"v":1,"devices":[{DEVICE},{DEVICE}]}}'),
        ("node n1", "lists device a twice"),
    ),
    "a node twice": ("kind: Node\nmetadata: {name: n1}\n---\nkind: Node\nmetadata: {name: n1}\n", ("n1", "twice")),
    "a newer inventory": (NODE.format('{"v":2,"devices":[]}'), ("node n1", "v2", "upgrade")),
    "a damaged inventory": (NODE.format('{"v":1,'), ("node n1", "cannot be read")),
    "cpu is no quantity": ("kind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: lots}}\n", ("n1", "lots")),
    "labels are a list": ("kind: Node\nmetadata: {name: n1, labels: [a]}\n", ("Node n1", "metadata.labels")),
    "no name": ("kind: Node\nmetadata: {}\n", ("metadata.name",)),
}  # fmt: skip


@pytest.mark.parametrize("case", NODES)
def test_clusters_that_cannot_be_read(case: str, tmp_path: Path) -> None:
    text, words = NODES[case]
    file = tmp_path / "nodes.yaml"
    file.write_text(text)
    refused(run("inventory", "--cluster", file), *words)


@pytest.mark.parametrize(
    "size", ["", "0", "0x8Gi", "8GB", "120%", "0%", "-1Gi", "8Gi,9Gi", "65xwhole", "eight", "1e99%", ","]
)
def test_sizes_that_are_none(size: str) -> None:
    refused(run("inventory", "--cluster", CLUSTER, "--request", size), "--request")


POLICIES = {
    "unknown field": ("vendor: [nvidia]\n", ("vendor", "write vendors")),
    "unknown vendor": ("vendors: [nvida]\n", ("nvida",)),
    "unknown strategy": ("strategy: best\n", ("best", "fragmentation")),
    "two documents": ("strategy: pack\n---\nstrategy: pack\n", ("2 documents",)),
    "only comments": ("# nothing\n", ("no policy",)),
    "a config map without it": ("kind: ConfigMap\nmetadata: {name: terrazzo-policy}\ndata: {}\n", ("policy.yaml",)),
}


@pytest.mark.parametrize("case", POLICIES)
def test_policies_that_cannot_be_read(case: str, tmp_path: Path) -> None:
    text, words = POLICIES[case]
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    refused(run("inventory", "--cluster", CLUSTER, "--policy", file), str(file), *words)


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (("plna",), "did you mean plan"),
        (("plan",), "'-f'"),
        (("plan", "-f", "x"), "--cluster"),
        (("plan", "--what"), "--what"),
        (("inventory", "--cluster", "x", "--by", "rack"), "rack"),
        (("explain",), "POD"),
        (("simulate",), "scenario"),
        (("simulate", "--openb", "x", "y"), "scenario"),
        (("simulate", "x", "--trace", "y"), "--trace"),
        (("simulate", "--openb", "x", "--seeds", "9-1"), "--seeds"),
        (("simulate", "--openb", "x", "--policy", "bestfitt"), "bestfit"),
        (("completion", "tcsh"), "tcsh"),
        (("--color", "pink", "plan"), "pink"),
    ],
)
def test_slips_on_the_command_line(args: tuple[str, ...], word: str) -> None:
    refused(run(*args), word)


def test_explain_of_a_pod_that_is_not_there() -> None:
    refused(run("explain", "nb-18", "--cluster", CLUSTER), "no pod nb-18", "did you mean vision/nb-17?")
    refused(run("explain", "zzzzzz", "--cluster", CLUSTER), "no pod zzzzzz", "-f")


NOWHERE: dict[str, tuple[dict[str, object], str]] = {
    "memory beyond any device": ({"nvidia.com/gpumem": 999_999}, "no device in this cluster has 976.6Gi, the largest"),
    "nine on nodes of four": ({"nvidia.com/gpu": 9}, "no node in this cluster has 9 such devices, the most is 4"),
    "a slice that does not exist": ({"nvidia.com/mig-9g.99gb": 1}, "no device in this cluster has a slice 9g.99gb"),
    "unknown memory": ({"huawei.com/Ascend310P": 1}, "0/5 nodes"),
}


@pytest.mark.parametrize("case", NOWHERE)
def test_what_fits_nowhere_is_no_error_and_is_told_why(case: str, tmp_path: Path) -> None:
    limits, sentence = NOWHERE[case]
    file = tmp_path / "pods.json"
    file.write_text(pod(limits))
    result = run("plan", "-f", file, "--cluster", CLUSTER)
    assert (result.exit_code, result.stderr) == (3, "")
    assert sentence in result.stdout
    assert "0 of 1 pod placed, 1 not." in result.stdout
    machine = json.loads(run("plan", "-f", file, "--cluster", CLUSTER, "-o", "json").stdout)
    assert machine["placed"] == []
    assert machine["unplaced"][0]["reasons"]
    assert run("explain", "train", "-f", file, "--cluster", CLUSTER).exit_code == 3


def test_zero_means_absent_and_is_told(tmp_path: Path) -> None:
    file = tmp_path / "pods.json"
    file.write_text(pod({"nvidia.com/gpu": 0}))
    result = run("plan", "-f", file, "--cluster", CLUSTER)
    assert result.exit_code == 0
    assert "0 of 0 pods placed, 1 pod without devices left alone." in result.stdout
    assert "note: " in result.stdout
    assert "nvidia.com/gpu" in result.stdout


def test_a_large_dump_is_read_whole(tmp_path: Path) -> None:
    labels = {f"label-{i}": "x" * 40 for i in range(40)}
    items = [
        {"kind": "Node", "metadata": {"name": f"n{i}", "labels": {**labels, "nvidia.com/gpu.product": "Tesla-T4"}},
         "status": {"allocatable": {"nvidia.com/gpu": "4"}}}
        for i in range(800)
    ]  # fmt: skip
    text = json.dumps({"kind": "List", "items": items}, indent=2)
    assert len(text) > 2_000_000
    for name in ("nodes.json", "nodes.yaml"):  # JSON is YAML, and is read as the former
        file = tmp_path / name
        file.write_text(text)
        assert "800 nodes, 3200 devices" in run("inventory", "--cluster", file).stdout
    file.write_text(text[: len(text) // 2])
    refused(run("inventory", "--cluster", file), "nodes.yaml:")
