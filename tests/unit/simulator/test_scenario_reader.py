from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terrazzo.model.errors import InputError
from terrazzo.model.request import Ask
from terrazzo.simulator import philly, report, scenario, simulate
from terrazzo.simulator.generator import JobClass, Lognormal, Measured, devices_of, generate, rate_for
from terrazzo.simulator.openb import TracePod

FLEET = [{"nodes": 2, "vendor": "nvidia", "model": "A100-80", "devices": 4, "cpu": 64, "memory": "512Gi"}]
CLASS = {"kind": "job", "memory": "8Gi", "cores": 30, "lifetime": {"median": "10m"}}


def document(**changes: Any) -> dict[str, Any]:
    workload = {"load": 0.5, "until": "2h", "classes": [CLASS]}
    return {"name": "own", "fleet": FLEET, "workload": workload, **changes}


def work(**changes: Any) -> dict[str, Any]:
    return document(workload={"load": 0.5, "until": "2h", "classes": [CLASS], **changes})


def one_class(**changes: Any) -> dict[str, Any]:
    return work(classes=[{**CLASS, **changes}])


def test_a_scenario_is_read_and_runs() -> None:
    read = scenario.read(document())
    assert [len(node.devices) for node in read.nodes] == [4, 4]
    assert (read.nodes[0].cpu_milli, read.nodes[0].memory_mib) == (64_000, 512 * 1024)
    assert read.classes[0].request.containers[0].asks == (Ask(memory_mib=8192, cores_percent=30),)
    found = simulate(read.spec())
    assert found.submitted > 20
    assert found.placed == found.submitted


def test_the_same_pods_come_whatever_the_policy() -> None:
    read = scenario.read(document())
    assert read.spec(policy="bestfit").arrivals == read.spec(policy="fgd").arrivals
    assert read.spec(seed=1).arrivals != read.spec(seed=2).arrivals
    assert read.spec(seed=7).seed == 7


def test_pods_at_given_times() -> None:
    pods = [{"at": "1m", "for": "1h", "copies": 2, "whole": True, "devices": 2, "priority": 3, "kind": "t"}]
    read = scenario.read({"name": "own", "fleet": FLEET, "pods": pods})
    assert [(a.arrive_s, a.duration_s, a.kind) for a in read.pods] == [(60, 3600, "t")] * 2
    assert read.pods[0].request.priority == 3
    assert read.pods[0].request.containers[0].asks == (Ask(count=2, whole=True),)
    assert simulate(read.spec()).finished == 2


def test_cores_alone_take_as_much_memory_and_nothing_said_is_whole() -> None:
    read = scenario.read({"name": "own", "fleet": FLEET, "pods": [{"cores": 30}, {}, {"devices": 0, "cpu": 2}]})
    asks = [pod.request.containers[0].asks for pod in read.pods]
    assert asks == [(Ask(memory_percent=30, cores_percent=30),), (Ask(whole=True),), ()]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "scenario: "),
        ([], "scenario: "),
        ({}, "name"),
        (document(flet=[]), "unknown field `flet`"),
        (document(fleet=[]), "no nodes"),
        (document(fleet=[{**FLEET[0], "nodes": "two"}]), r"fleet"),
        (document(fleet=[{**FLEET[0], "model": "A1000"}]), r"fleet\[0\].model.*A100-80"),
        (document(fleet=[{**FLEET[0], "vendor": "nvida"}]), "vendors are nvidia"),
        (document(fleet=[{**FLEET[0], "devices": 65}]), "0 to 64 devices"),
        (document(fleet=[{**FLEET[0], "memory": "8GB"}]), r"fleet\[0\].memory.*write 8Gi"),
        (document(fleet=[{**FLEET[0], "nodes": 10**9}]), "more than"),
        (document(fleet=[{**FLEET[0], "name": "x"}] * 2), "same names"),
        (document(policy="magic"), "no policy 'magic'"),
        (document(seed=-1), "seed"),
        (document(samples=0), "samples"),
        ({"name": "x", "fleet": FLEET}, "submits nothing"),
        (work(load=0), "load is 0"),
        (work(load=None), "one of load and perHour"),
        (work(perHour=5), "one of load and perHour"),
        (work(until="soon"), "'soon' is not a time"),
        (work(warm="3h"), "warm-up"),
        (work(classes=[]), "no class"),
        (work(load=None, perHour=10**12), "would submit"),
        (one_class(cores=120), "cores"),
        (one_class(weight=0), "weight is 0"),
        (one_class(whole=True), "mixes forms"),
        (one_class(memoryPercent=10), "mixes forms"),
        (one_class(vendors=["nvdia"]), "no vendor 'nvdia'"),
        (one_class(lifetime={}), "one of median and philly"),
        (one_class(lifetime={"median": "0s"}), "median is more than 0"),
        (one_class(lifetime={"philly": "nowhere.csv"}), r"nowhere\.csv"),
        (one_class(memory="-1Gi"), "makes no sense"),
        (one_class(devices=0), "no class says"),
        (document(pods=[{"copies": 0}]), r"pods\[0\].copies"),
        (document(pods=[{"at": "-5s"}]), r"pods\[0\].at"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(value: object, says: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=says) as caught:
        scenario.read(value, folder=tmp_path)
    assert "\n" not in str(caught.value)


_ANY = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(),
        st.sampled_from(["1h", "8Gi", "", "nvidia"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["nodes", "load", "for"]), inner)
    ),
    max_leaves=6,
)
_PLACES = st.sampled_from([*document(), "pods", "policy", "seed", "wait", "samples", "more"])
_INNER = st.sampled_from(["load", "perHour", "until", "warm", "classes", "openb", "lifetime"])
_FIELDS = st.sampled_from(
    [*CLASS, "weight", "devices", "whole", "profile", "memoryPercent", "vendors", "model", "cpu", "hostMemory"]
)


@given(_PLACES, _INNER, _FIELDS, _ANY, _ANY, _ANY, st.integers(0, 7))
@settings(max_examples=150, deadline=None)
def test_any_object_is_read_or_refused(place: str, inner: str, field: str, a: Any, b: Any, c: Any, which: int) -> None:
    value: dict[str, Any] = one_class(**({field: c} if which & 4 else {}))
    if which & 1:
        value[place] = a
    if which & 2 and isinstance(value.get("workload"), dict):
        value["workload"] = {**value["workload"], inner: b}
    assert "\n" not in refusal(value)


def refusal(value: object) -> str:
    try:
        scenario.read(value)
    except InputError as error:
        return str(error)
    return ""


# -- generator and lifetimes --------------------------------------------------------------------------------------


def test_load_is_what_was_asked_for() -> None:
    nodes = scenario.read(document()).nodes
    mix = [
        JobClass("a", TracePod(0, 0, 2, 1000).request(""), Lognormal(600, 0.5), 1),
        JobClass("b", TracePod(0, 0, 1, 250).request(""), Lognormal(100, 1.0), 3),
    ]
    rate = rate_for(mix, nodes, 0.8)
    arrivals = generate(mix, rate_per_s=rate, until_s=2_000_000, rng=np.random.default_rng(1))
    asked = sum(devices_of(a.request, nodes) * (a.duration_s or 0) for a in arrivals) / 2_000_000
    assert asked == pytest.approx(0.8 * 8, rel=0.05)
    assert sum(a.kind == "b" for a in arrivals) / len(arrivals) == pytest.approx(0.75, abs=0.02)
    assert len({a.request.key for a in arrivals}) == len(arrivals)


def test_memory_counts_as_part_of_the_mean_device() -> None:
    nodes = scenario.read(document()).nodes
    size = nodes[0].devices[0].memory_mib
    assert isinstance(size, int)
    read = scenario.read(one_class(memory=f"{size // 2}Mi"))
    assert devices_of(read.classes[0].request, nodes) == pytest.approx(0.5, rel=0.001)


def test_lognormal_has_the_stated_median_and_mean() -> None:
    rng = np.random.default_rng(2)
    lifetimes = Lognormal(600, 0.8)
    drawn = [lifetimes.draw(rng) for _ in range(20_000)]
    assert np.median(drawn) == pytest.approx(600, rel=0.03)
    assert np.mean(drawn) == pytest.approx(lifetimes.mean_s, rel=0.03)


def test_measured_lifetimes_are_cut() -> None:
    lifetimes = Measured((10.0, 1000.0), longest_s=100)
    assert lifetimes.mean_s == 55
    assert {lifetimes.draw(np.random.default_rng(seed)) for seed in range(20)} == {10.0, 100}


def test_philly_is_read(tmp_path: Path) -> None:
    path = tmp_path / "philly.csv"
    path.write_text("timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,1,66.0,a\n2017,0,1,0,a\n")
    assert philly.read_lifetimes(path) == (66.0,)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,b\n1,2\n", "no column duration"),
        ("duration\n-4\n", r"philly\.csv:2: duration is '-4'"),
        ("duration\nlong\n", "duration is 'long'"),
        ("duration\nnan\n", "duration is 'nan'"),
        ("duration\n0\n", "no job that ran"),
    ],
)
def test_wrong_philly_files(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "philly.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=says):
        philly.read_lifetimes(path)


# -- reports ------------------------------------------------------------------------------------------------------


def test_waits_are_nearest_rank() -> None:
    assert report.waits_of([]) == report.Waits(0, 0, 0)
    assert report.waits_of([float(i) for i in range(1, 101)]) == report.Waits(50.5, 95, 100)
    assert report.waits_of([7.0]) == report.Waits(7, 7, 7)


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (59.4, "59 s"), (90, "1.5 min"), (3600, "1.0 h"), (90_000, "25.0 h")]
)
def test_times_for_people(seconds: float, words: str) -> None:
    assert report.duration(seconds) == words


def test_openb_as_fleet_and_as_source_of_pods(tmp_path: Path) -> None:
    (tmp_path / "openb_node_list_gpu_node.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn0,8000,16384,2,T4\n")
    (tmp_path / "openb_pod_list_own.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1000,10,1,500\nb,1000,10,1,1000\nc,1,1,0,\n"
    )
    (tmp_path / "philly.csv").write_text("timestamp,duration,num_gpus\nx,60,1\nx,600,1\n")
    value = {
        "name": "own",
        "fleet": {"folder": "."},
        "workload": {
            "openb": {"folder": ".", "trace": "own"},
            "lifetime": {"philly": "philly.csv", "longest": "5m"},
            "load": 0.5,
            "until": "10h",
        },
        "wait": False,
    }
    read = scenario.read(value, folder=tmp_path)
    assert [node.name for node in read.nodes] == ["n0"]
    found = simulate(read.spec())
    assert set(found.kinds) == {"host", "inference", "training"}
    assert found.waiting == 0
    assert found.rejected > 0
    assert any("openb trace own" in note for note in found.notes)
    with pytest.raises(InputError, match="one of median and philly"):
        scenario.read({**value, "workload": {**value["workload"], "lifetime": None}}, folder=tmp_path)  # type: ignore[dict-item]
