"""Which names a vendor's own device plugin serves, too: whole devices and slices, counted as Kubernetes counts.

A pod that says no more than that may run on a node that Terrazzo does not manage, so it must not depend on us. Memory,
compute and our own names mean something to us alone.
"""

from __future__ import annotations

from terrazzo.dialects import names
from terrazzo.dialects.names import Role

_COUNTED = (Role.COUNT, Role.PROFILE)


def served_by_vendors(name: str) -> bool:
    """Return whether a node without Terrazzo can have a resource of this name."""
    word = names.lookup(name)
    return word is not None and word.role in _COUNTED and bool(word.phrase.vendor)


def ours_alone() -> tuple[str, ...]:
    """Return the names that tables spell out and that only we place, sorted; ``terrazzo.io/`` names left out."""
    rest = (name for name in names.all_names() if not name.startswith(names.OURS))
    return tuple(name for name in rest if not served_by_vendors(name))


def vendors_too() -> tuple[str, ...]:
    """Return the names that tables spell out and that vendors' plugins serve as well, sorted."""
    return tuple(name for name in names.all_names() if served_by_vendors(name))
