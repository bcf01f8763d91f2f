"""Kubernetes quantities.

Source: Kubernetes API reference, "Quantity" (``k8s.io/apimachinery/pkg/api/resource``): a signed decimal with an
optional decimal (``k M G T P E``, ``m u n``), binary (``Ki Mi Gi Ti Pi Ei``) or exponent (``1e3``) suffix.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from terrazzo.model.errors import InputError

MIB = 1 << 20

_SUFFIX = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(1 << 10),
    "Mi": Fraction(1 << 20),
    "Gi": Fraction(1 << 30),
    "Ti": Fraction(1 << 40),
    "Pi": Fraction(1 << 50),
    "Ei": Fraction(1 << 60),
}
_LONGEST = 64
"""Characters; nobody means a longer number, and Python refuses to convert very long ones."""
_NUMBER = re.compile(r"^([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d{1,3}))?([A-Za-z]*)$")
_LOOKALIKE = {"B": "", **{f"{letter}{tail}": f"{letter.capitalize()}i" for letter in "KMGT" for tail in ("B", "IB")}}


@lru_cache(maxsize=4096)
def _parse(text: str) -> Fraction:
    match = _NUMBER.match(text.strip()) if len(text) <= _LONGEST else None
    if match is None:
        shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
        raise InputError(f"{shown!r} is not a quantity", remedy="write a number with an optional suffix, such as 8Gi")
    number, exponent, suffix = match.groups()
    if suffix not in _SUFFIX or (exponent and suffix):
        meant = _LOOKALIKE.get(suffix.upper())
        remedy = f"write {number}{meant}" if meant is not None else "write a number with a suffix such as Mi, Gi or G"
        raise InputError(f"{text!r} has the unknown suffix {suffix!r}", remedy=remedy)
    value = Fraction(number) * _SUFFIX[suffix]
    return value * Fraction(10) ** int(exponent) if exponent else value


def parse_quantity(value: str | float) -> Fraction:
    """Return the exact value of a Kubernetes quantity.

    Args:
        value: the string or bare number that stands in a manifest.

    Raises:
        InputError: not a quantity; ``8GB`` is told to become ``8Gi``.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError(f"{value!r} is not a quantity", remedy="write a number with an optional suffix, such as 8Gi")
    if isinstance(value, int) and value.bit_length() > 4 * _LONGEST:
        raise InputError("a number of so many digits is not a quantity", remedy="write a number such as 8Gi")
    return _parse(str(value))


def whole_number(value: str | float) -> int:
    """Return a quantity that must be a whole number, such as a count of devices.

    Raises:
        InputError: not a quantity, or has a fractional part (``1.5``).
    """
    exact = parse_quantity(value)
    if exact.denominator != 1:
        raise InputError(f"{value} is not a whole number", remedy=f"write {-(-exact // 1)}")
    return int(exact)


def bytes_to_mib(amount: Fraction | int) -> int:
    """Return bytes as whole MiB, rounded up: nobody gets less than was asked."""
    return -int(-amount // MIB)


def memory_mib(value: str | float) -> int:
    """Return a memory quantity in bytes (``8Gi``) as whole MiB, rounded up."""
    return bytes_to_mib(parse_quantity(value))


def milli(value: str | float) -> int:
    """Return a quantity in thousandths, rounded up (CPU: ``1500m`` and ``1.5`` are 1500)."""
    return -int(-(parse_quantity(value) * 1000) // 1)


def format_mib(mib: int, *, down: bool = False) -> str:
    """Return MiB for people: ``8Gi`` when whole, ``19.5Gi`` from one GiB up, ``300Mi`` below.

    Args:
        mib: the amount.
        down: round down, for amounts that people will write: what is shown must then fit.
    """
    if abs(mib) < 1024:
        return f"{mib}Mi"
    tenths = mib * 10 // 1024 if down else round(mib * 10 / 1024)
    whole = tenths % 10 == 0 if down else mib % 1024 == 0
    return f"{tenths // 10}Gi" if whole else f"{tenths / 10:.1f}Gi"
