"""Ten thousand pods at random."""

from __future__ import annotations

import pytest
from settling import holds

from terrazzo.testing.cluster.stack import Stack
from terrazzo.testing.cluster.stream import Stream


@pytest.mark.parametrize("stack", ["dra"], indirect=True)
def test_ten_thousand_pods_at_random(stack: Stack) -> None:
    with Stream(stack, "default", number=10_000, per_second=400, most=40, burst=16) as stream:
        stream.wait(1500)
        assert stream.created == stream.number
        assert stream.settled() > 5
    assert "terrazzo_invariant_faults_total 0.0" in stack.metrics()
    holds(stack)
