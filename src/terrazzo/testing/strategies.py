"""Hypothesis strategies for the same values. Import this module only where Hypothesis is installed."""

from __future__ import annotations

from hypothesis import strategies as st

from terrazzo.model.node import Node
from terrazzo.model.request import Ask, ContainerKind, PodRequest
from terrazzo.testing.builders import CUT, SHARED, Kind, make_node, make_request

KINDS = (*SHARED, CUT[0])


def fractions(most: int = 3) -> st.SearchStrategy[Ask]:
    """Return asks for parts of up to ``most`` devices, in bytes or percent."""
    return st.one_of(
        st.builds(
            Ask,
            count=st.integers(1, most),
            memory_mib=st.integers(1, 96 * 1024),
            cores_percent=st.sampled_from((0, 0, 1, 10, 25, 30, 50, 75, 100)),
        ),
        st.builds(
            Ask,
            count=st.integers(1, most),
            memory_percent=st.integers(1, 100),
            cores_percent=st.sampled_from((0, 10, 50, 100)),
        ),
    )


def asks() -> st.SearchStrategy[Ask]:
    """Return asks of every form."""
    return st.one_of(
        fractions(),
        st.builds(Ask, count=st.integers(1, 3), whole=st.just(value=True)),
        st.builds(
            Ask, count=st.integers(1, 3), profile=st.sampled_from(("1g.10gb", "2g.20gb", "3g.40gb", "vir05_1c_16g"))
        ),
    )


@st.composite
def requests(draw: st.DrawFn, name: str = "pod", containers: int = 3) -> PodRequest:
    """Return pods of up to ``containers`` containers, init containers and sidecars among them."""
    made = draw(st.lists(asks(), min_size=1, max_size=containers))
    kinds = {i: draw(st.sampled_from(tuple(ContainerKind))) for i in range(len(made) - 1)}
    return make_request(
        name,
        *made,
        kinds=kinds,
        exclusive=draw(st.integers(0, 9)) == 0,
        priority=draw(st.integers(0, 3)),
        cpu_milli=draw(st.integers(0, 8)) * 1000,
        memory_mib=draw(st.integers(0, 8)) * 1024,
        created_s=draw(st.integers(0, 1000)),
    )


@st.composite
def nodes(draw: st.DrawFn, name: str = "node-0") -> Node:
    """Return nodes of one kind of device."""
    kind: Kind = draw(st.sampled_from(KINDS))
    cpu = draw(st.sampled_from((None, 8_000, 64_000)))
    return make_node(name, kind, draw(st.integers(1, 4)), cpu_milli=cpu)
