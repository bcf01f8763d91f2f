"""``unknown`` is a value with a reason. It is never 0, never an empty list, and never silently dropped."""

from __future__ import annotations

from msgspec import Struct


class Unknown(Struct, frozen=True, gc=False, tag="unknown"):
    """Stands where a number would stand if anybody had told us.

    Attributes:
        reason: why it is not known, as a clause: ``node label nvidia.com/gpu.memory is missing``.
        age_s: seconds since the last good reading, or None when there never was one.
    """

    reason: str
    age_s: int | None = None

    def __str__(self) -> str:
        """Return ``?``, as every table shows it."""
        return "?"
