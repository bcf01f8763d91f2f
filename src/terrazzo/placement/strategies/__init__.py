"""Ways to prefer one node over another. Each sees columns and knows no vendor.

A strategy gives every node a whole number, more is better, and the row of the device it would use there. Numbers are
coarse on purpose: ties exist, and the engine breaks them by the fleet's stable order.
"""

from __future__ import annotations

from terrazzo.placement.strategies.base import Candidates, Strategy
from terrazzo.placement.strategies.filling import Pack, Spread
from terrazzo.placement.strategies.fragmentation import Fragmentation
from terrazzo.placement.strategies.together import Topology

STRATEGIES: dict[str, Strategy] = {
    "fragmentation": Fragmentation(),
    "pack": Pack(),
    "spread": Spread(),
    "topology": Topology(),
}

__all__ = ["STRATEGIES", "Candidates", "Strategy"]
