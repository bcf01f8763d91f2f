"""The seed scenarios, told from example files: each a short before and after, with the source of every parameter.

Promise: no figure without saying whether it was measured, modelled or assumed.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from terrazzo.simulator.demo.scene import Scene
from terrazzo.simulator.demo.story import Story

NAMES = ("one-card", "five-vendors", "fleet", "notebooks", "inference", "burst")


def tell(name: str, scene: Scene) -> Story:
    """Return the story of a scenario; its module is imported only now."""
    teller: Callable[[Scene], Story] = import_module(f"{__name__}.{name.replace('-', '_')}").tell
    return teller(scene)
