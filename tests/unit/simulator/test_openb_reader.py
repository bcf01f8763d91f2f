from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terrazzo.model.errors import InputError
from terrazzo.model.request import Ask
from terrazzo.simulator import openb
from terrazzo.simulator.generator import Lognormal
from terrazzo.simulator.openb import TracePod

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,8000,16384,2,T4\nn1,4000,8192,0,\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
    "p0,1000,1024,1,460,T4|P100,LS,Running,10,70,10\n"
    "p1,2000,2048,0,0,,LS,Running,0,5,\n"
    "p2,3000,4096,2,1000,,BE,Running,0,100,0\n"
)


def written(folder: Path, text: str) -> Path:
    path = folder / "file.csv"
    path.write_text(text)
    return path


def test_nodes(tmp_path: Path) -> None:
    first, second = openb.read_nodes(written(tmp_path, NODES))
    assert (first.name, first.cpu_milli, first.memory_mib, len(first.devices)) == ("n0", 8000, 16384, 2)
    assert {device.model for device in first.devices} == {"T4"}
    assert len({device.uuid for device in first.devices}) == 2
    assert second.devices == ()


def test_pods(tmp_path: Path) -> None:
    assert openb.read_pods(written(tmp_path, PODS)) == (
        TracePod(1000, 1024, 1, 460, ("T4", "P100"), 60),
        TracePod(2000, 2048, 0, 0, (), 5),
        TracePod(3000, 4096, 2, 1000, (), 100),
    )


def test_pods_without_models_and_times(tmp_path: Path) -> None:
    text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1000,1024,1,\n"
    assert openb.read_pods(written(tmp_path, text)) == (TracePod(1000, 1024, 1, 1000),)


def test_a_share_becomes_percent_of_memory_and_cores() -> None:
    request = TracePod(1000, 1024, 1, 460, ("T4",)).request("p")
    assert request.containers[0].asks == (Ask(memory_percent=46, cores_percent=46),)
    assert request.model.matches("T4")
    assert not request.model.matches("T40")
    assert (request.cpu_milli, request.memory_mib) == (1000, 1024)


def test_whole_devices_and_none() -> None:
    assert TracePod(0, 0, 4, 1000).request("p").containers[0].asks == (Ask(count=4, whole=True),)
    assert not TracePod(1, 1, 0, 0).request("p").asks_devices


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("p,1000,1024,one,460", "num_gpu is 'one'"),
        ("p,-5,1024,1,460", "cpu_milli is '-5'"),
        ("p,1000,1.5,1,460", "memory_mib is '1.5'"),
        ("p,1000,1024,1,1200", "gpu_milli is 1200"),
        ("p,1000,1024,1,0", "for nothing of them"),
        ("p,1000,1024,1", "number of fields"),
        ("p,1000,1024,1,460,7", "number of fields"),
        ("p,1000,1024,65,1000", "num_gpu is 65"),
        ("p,99999999999999999999,1024,1,460", "cpu_milli is"),
    ],
)
def test_wrong_pod_rows_say_where(tmp_path: Path, line: str, says: str) -> None:
    path = written(tmp_path, f"name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,1,500\n{line}\n")
    with pytest.raises(InputError) as caught:
        openb.read_pods(path)
    assert says in str(caught.value)
    assert f"{path}:3" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no column"),
        ("sn,cpu_milli,memory_mib,gpu,model\n", "lists no device"),
        ("sn,cpu_milli,memory_mib,gpu\nn,1,1,1\n", "no column model"),
        (NODES + "n0,1,1,1,T4\n", "listed twice"),
        (NODES + "n2,1,1,1,\n", "no model"),
        (NODES + ",1,1,1,T4\n", "no name"),
        (NODES + '"n9,1,1,1,T4\n', "is not CSV"),
    ],
)
def test_wrong_node_files(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        openb.read_nodes(written(tmp_path, text))


def test_missing_file_names_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.csv.*No such file"):
        openb.read_pods(tmp_path / "nowhere.csv")


def test_not_text(tmp_path: Path) -> None:
    path = tmp_path / "binary.csv"
    path.write_bytes(b"\xff\xfe\x00name")
    with pytest.raises(InputError, match="not UTF-8"):
        openb.read_pods(path)


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(
        st.text(max_size=200),
        st.lists(st.sampled_from([*"0179,-.|\n\r\"' ", "T4", "p", PODS, NODES]), max_size=12).map("".join),
    )
)
def test_any_text_is_read_or_refused_in_a_sentence(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "file.csv"
    path.write_text(text, encoding="utf-8", errors="surrogatepass" if text.isascii() else "replace")
    for read in (openb.read_nodes, openb.read_pods):
        sentence = refusal(read, path)
        assert "\n" not in sentence


def refusal(read: Callable[[Path], object], path: Path) -> str:
    """Return the sentence with which a file is refused, empty when it is read. Anything else escapes."""
    try:
        read(path)
    except InputError as error:
        return str(error)
    return ""


# -- order of arrivals --------------------------------------------------------------------------------------------

PODS_VALUES = (TracePod(1, 1, 1, 500), TracePod(1, 1, 1, 1000), TracePod(1, 1, 0, 0), TracePod(1, 1, 2, 1000))


def test_without_tuning_every_pod_comes_once() -> None:
    order = openb.sequence(PODS_VALUES, 10_000, 0, 7)
    assert sorted(order) == [0, 1, 2, 3]


@given(st.integers(0, 2**31), st.integers(1, 60), st.floats(0.2, 2.0))
@settings(max_examples=60, deadline=None)
def test_tuning_reaches_the_limit_and_stays_below(seed: int, devices: int, tune: float) -> None:
    order = openb.sequence(PODS_VALUES, devices * 1000, tune, seed)
    asked = sum(PODS_VALUES[i].demand_milli for i in order)
    assert asked <= tune * devices * 1000 + 1000  # the last check counts one device of a pod of two
    assert asked > tune * devices * 1000 - 2000
    assert order == openb.sequence(PODS_VALUES, devices * 1000, tune, seed)


def test_order_of_nodes_is_the_published_permutation(tmp_path: Path) -> None:
    nodes = openb.read_nodes(written(tmp_path, NODES)) * 3
    rank = np.random.default_rng(5 + 10_000).permutation(6)
    ordered = openb.node_order(nodes, 5)
    assert [ordered[rank[i]] is nodes[i] for i in range(6)] == [True] * 6


def test_classes_carry_the_counts_of_the_trace() -> None:
    classes = openb.job_classes((*PODS_VALUES, PODS_VALUES[0]), Lognormal(60))
    assert [(each.kind, each.weight) for each in classes] == [
        ("inference", 2.0),
        ("host", 1.0),
        ("training", 1.0),
        ("training", 1.0),
    ]
