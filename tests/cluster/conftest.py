"""Real control planes for tests: one per version and session, a fresh namespace per test.

Whatever lies in this folder is marked ``cluster`` and run by ``make test-cluster``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from terrazzo.kube.kinds import NAMESPACE, NODE
from terrazzo.model.errors import TerrazzoError
from terrazzo.model.node import Node
from terrazzo.testing.builders import SHARED, make_node
from terrazzo.testing.cluster import VERSIONS, ControlPlane, Kwok, part
from terrazzo.testing.cluster.runs import open_runs
from terrazzo.testing.cluster.stack import Stack

HERE = Path(__file__).parent
MUST = "TERRAZZO_MUST_CLUSTER"
"""Set where the parts must be there, so that missing ones fail the tests instead of skipping them."""

AddNodes = Callable[..., None]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker("cluster")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report = yield
    if report.failed and item.path.is_relative_to(HERE):
        for run in open_runs():
            report.sections += [(f"log of {name}", process.tail()) for name, process in run.processes.items()]
    return report


@pytest.fixture(scope="session", autouse=True)
def parts_are_built() -> None:
    try:
        for name in (
            "etcd",
            "kwok",
            "containerd",
            "runc",
            "cni",
            "pause",
            *(f"kubernetes-{version}" for version in VERSIONS),
        ):
            part(name)
    except TerrazzoError as error:
        if os.environ.get(MUST):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session", params=VERSIONS)
def control_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """Give a whole control plane, of each version in turn, whose nodes kwok keeps alive."""
    with ControlPlane(request.param, history=True) as plane:
        Kwok(plane).start()
        yield plane


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """Give a namespace of the test's own; it is deleted afterwards."""
    name = control_plane.new_namespace()
    yield name
    control_plane.admin.delete(NAMESPACE, name)


@pytest.fixture
def add_nodes(control_plane: ControlPlane) -> Iterator[AddNodes]:
    """Give ``ControlPlane.add_nodes``; what was added is deleted afterwards."""
    with ExitStack() as after:

        def add(nodes: Iterable[Node], **more: Any) -> None:
            for node in (nodes := list(nodes)):
                after.callback(control_plane.admin.delete, NODE, node.name)
            control_plane.add_nodes(nodes, **more)

        yield add


@pytest.fixture(params=["dra", "classic"])
def stack(request: pytest.FixtureRequest) -> Iterator[Stack]:
    """Give four nodes with four devices each and Terrazzo, once per ledger; nobody else uses them."""
    with Stack(ledger=request.param, history=True) as made:
        Kwok(made.plane).start()
        made.add_nodes([make_node(f"gpu-{i}", SHARED[0], 4) for i in range(4)])
        yield made
