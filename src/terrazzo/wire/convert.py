"""Plain data to narrow structs, with faults in words: which field, what it is, what it should be."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from terrazzo.model.errors import InputError

_T = TypeVar("_T")

_EXPECTED = re.compile(r"^Expected `([^`]*)`, got `([^`]*)`(?: - at `([^`]*)`)?$")
_SOMEWHERE = "[...]"
"""How the decoder names "some value of this mapping"."""
_WORDS = {
    "object": "a mapping", "array": "a list", "str": "text", "int": "a whole number", "float": "a number",
    "bool": "true or false", "null": "nothing",
}  # fmt: skip
_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "bool"), (int, "int"), (float, "float"), (str, "str"), (dict, "object"), (list, "array"),
)  # fmt: skip


def convert(value: Any, kind: type[_T], where: str) -> _T:
    """Return plain data as a struct. An entry that is null counts as absent, as Kubernetes has it.

    Args:
        value: what a parser returned.
        kind: the struct.
        where: file and object, for messages.

    Raises:
        InputError: a field has the wrong type.
    """
    try:
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError:
            value = without_nulls(value)
            return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _fault(str(error), value, where) from None
    except RecursionError:
        raise InputError("is nested too deeply", where=where) from None


def without_nulls(value: Any) -> Any:
    """Return ``value`` without the mapping entries that are null."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def _fault(text: str, value: Any, where: str) -> InputError:
    match = _EXPECTED.match(text)
    if match is None:
        return InputError(text[:1].lower() + text[1:].replace("`", "").replace("$.", ""), where=where)
    expected, got, path = match.groups()
    wanted = [kind for kind in expected.split(" | ") if kind != "null"]
    words = " or ".join(_WORDS.get(kind, kind) for kind in wanted)
    field = _path(path or "$", value, frozenset(wanted))
    return InputError(f"is {_WORDS.get(got, got)} where {words} is expected", where=f"{where}: {field}".rstrip(": "))


def _path(path: str, value: Any, wanted: frozenset[str]) -> str:
    """Return the path of the fault from the object's root, with the names of mapping entries filled in."""
    steps = re.findall(r"\.[^.\[]+|\[\.\.\.\]|\[\d+\]", path)
    here, told = value, ""
    for step in steps:
        if step == _SOMEWHERE and isinstance(here, dict):
            key = next((key for key, item in here.items() if not _is(item, wanted)), "…")
            told, here = f"{told}[{key}]", here.get(key)
        elif step.startswith("["):
            told += step
            here = here[int(step[1:-1])] if isinstance(here, list) else None
        else:
            told += step
            here = here.get(step[1:]) if isinstance(here, dict) else None
    return told.lstrip(".")


def _is(item: Any, wanted: frozenset[str]) -> bool:
    return next((name for kind, name in _TYPES if isinstance(item, kind)), "null") in wanted
