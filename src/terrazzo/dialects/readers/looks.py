"""Whether a name that no table has looks like an accelerator's."""

from __future__ import annotations

import re

_LOOKS = re.compile(
    r"(^|[.\-/_])([adevx]?gpu|npu|tpu|xpu|dcu|hcu|mlu|gcu|hpu|ipu|lpu|ppu|accelerator|gaudi|neuron|neuroncore)s?\d*"
    r"([.\-_/]|$)",
    re.IGNORECASE,
)
_NOT_CARDS = re.compile(
    r"(mem|memory|core|cores|percent|percentage|ratio|priority|number|count|shared|share|slots?|license|time|"
    r"monitoring|millicores|tiles)$",
    re.IGNORECASE,
)


def looks_like_accelerator(name: str) -> bool:
    """Return whether a resource or driver name speaks of accelerators as whole devices.

    Args:
        name: such as ``example.com/gpu`` or ``gpu.example.com``; ``example.com/gpu-memory`` counts no devices.
    """
    return bool(_LOOKS.search(name)) and not _NOT_CARDS.search(name)
