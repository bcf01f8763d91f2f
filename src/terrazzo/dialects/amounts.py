"""Numbers behind resource names: units, zeros, and the slips that people make with them.

Each function returns 0 for "not asked". What can never be valid is refused with a sentence that says what to write.
"""

from __future__ import annotations

import re
from fractions import Fraction

from terrazzo.dialects.names import Phrase, Role, Word
from terrazzo.dialects.notes import Notes
from terrazzo.model.errors import InputError
from terrazzo.model.quantity import MIB, bytes_to_mib, format_mib, parse_quantity, whole_number

MOST_MIB = 1 << 24
"""16 TiB: no device has as much; a larger number has the wrong unit."""

MOST_DEVICES = 1024
"""No node has as many; a larger number is something else than a count."""

UNSET_PERCENTAGE = 101
"""HAMi's own mark for "no percentage given"."""

_SUFFIXED = re.compile(r"[A-Za-z]\s*$")


def exact(value: str | float, notes: Notes) -> Fraction:
    """Return a quantity exactly.

    Raises:
        RequestError: not a quantity, or negative.
    """
    try:
        amount = parse_quantity(value)
    except InputError as error:
        raise notes.refusal(error.what, error.remedy) from None
    if amount < 0:
        raise notes.refusal(f"{value} is negative", "write a positive number or leave the line out")
    return amount


def whole(value: str | float, notes: Notes) -> int:
    """Return a quantity that must be a whole number.

    Raises:
        RequestError: not a quantity, negative, or has a fractional part.
    """
    exact(value, notes)
    try:
        return whole_number(value)
    except InputError as error:
        raise notes.refusal(error.what, error.remedy) from None


def devices(value: str | float, notes: Notes) -> int:
    """Return a count of devices."""
    count = whole(value, notes)
    if count > MOST_DEVICES:
        raise notes.refusal(f"{value} devices are more than any node has", "write the number of devices")
    return count


def memory(word: Word, value: str | float, notes: Notes) -> int:
    """Return memory on each device in MiB, rounded up."""
    amount = exact(value, notes)
    phrase = word.phrase
    in_bytes = phrase.memory_unit_bytes == 1 or (phrase.memory_suffix and _suffixed(value))
    if not in_bytes and amount.denominator != 1:
        whole(value, notes)
    total = amount if in_bytes else amount * phrase.memory_unit_bytes
    mib = bytes_to_mib(total)
    if mib >= MOST_MIB:
        raise _too_much(word, value, amount, in_bytes, notes)
    if in_bytes and 0 < total < MIB:
        remedy = f"write {value}Gi" if not _suffixed(value) and amount < 1024 else "write a quantity such as 8Gi"
        if not _suffixed(value) and amount >= 1024:
            remedy = f"write {value}Mi"
        notes.warn(f"{value} is {amount} bytes, which is rounded up to 1Mi", remedy)
    return mib


def _suffixed(value: str | float) -> bool:
    return isinstance(value, str) and bool(_SUFFIXED.search(value))


def _too_much(word: Word, value: str | float, amount: Fraction, in_bytes: bool, notes: Notes) -> Exception:
    if in_bytes:
        return notes.refusal(
            f"{value} is more memory than any device has", "write the memory of one device, such as 8Gi"
        )
    meant = -(-amount // word.phrase.memory_unit_bytes)
    unit = word.phrase.memory_unit
    what = f"{value} counts units of {unit}, which is more memory than any device has"
    if meant and meant * word.phrase.memory_unit_bytes < MOST_MIB * MIB:
        size = format_mib(int(meant) * word.phrase.memory_unit_bytes // MIB)
        return notes.refusal(what, f"write {meant}, which is {size}")
    return notes.refusal(what, f"write the memory of one device in units of {unit}")


def percentage(word: Word, value: str | float, notes: Notes) -> int:
    """Return a share of a device's memory, 1..100."""
    percent = whole(value, notes)
    if percent == UNSET_PERCENTAGE and word.phrase.dialect == "hami":
        return 0
    if percent > 100:
        raise notes.refusal(f"{value} is more than 100 percent of a device", "write a number from 1 to 100")
    return percent


def cores(word: Word, value: str | float, clamp: bool, notes: Notes) -> int:
    """Return compute on each device in percent.

    Sixteenths become percent downwards, because percent becomes units upwards when the device is known: 5 of 16 is
    31 %, and 31 % of 16 is 5 again.
    """
    amount = whole(value, notes)
    most = word.phrase.cores_whole
    if amount > most:
        remedy = f"write a number from 1 to {most}"
        if most == 100 and amount % 100 == 0:
            remedy = f"{remedy}; for {amount // 100} devices write {_count_name(word.phrase)}: {amount // 100}"
        if not clamp:
            raise notes.refusal(f"{value} is more than the {most} that one device has", remedy)
        notes.warn(f"{value} is more than the {most} that one device has and counts as {most}", remedy)
        amount = most
    return amount * 100 // most


def _count_name(phrase: Phrase) -> str:
    return phrase.count or "a count"


def amount_of(word: Word, value: str | float, clamp: bool, notes: Notes) -> int:
    """Return the number behind any known name, in the unit of its role (devices, MiB, percent)."""
    match word.role:
        case Role.COUNT | Role.PROFILE:
            number = devices(value, notes)
        case Role.MEMORY:
            number = memory(word, value, notes)
        case Role.PERCENTAGE:
            number = percentage(word, value, notes)
        case Role.CORES:
            number = cores(word, value, clamp, notes)
        case Role.PRIORITY:
            return whole(value, notes)
    if number == 0 and not (word.role is Role.PERCENTAGE and whole(value, notes) == UNSET_PERCENTAGE):
        notes.warn("0 asks for nothing and counts as absent", "leave the line out")
    return number
