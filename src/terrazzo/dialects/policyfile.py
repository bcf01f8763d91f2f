"""A cluster's policy as people write it, read strictly: a slip in a policy must not go unseen.

vendors: [nvidia]                 # of neutral requests; without it, only where one vendor is present
strategy: fragmentation
scheduler: terrazzo-scheduler     # for pods that name our resources and chose none
namespaces:
  research: {vendors: [ascend], strategy: pack, allowDeviceEnv: true}
images:                           # first match wins
- image: registry.example/app:*
  vendors: [nvidia, ascend]
  images: {ascend: registry.example/app-cann:1}
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

from terrazzo.dialects import names
from terrazzo.model.errors import InputError
from terrazzo.model.policy import STRATEGIES, ImageRule, NamespacePolicy, Policy

_Reader = Callable[[object, str], Any]


def read(value: object, *, where: str = "policy") -> Policy:
    """Return the policy that an already parsed document writes; an empty document is the default policy.

    Args:
        value: what the YAML or JSON parser returned.
        where: file, or object and key, for messages.

    Raises:
        InputError: unknown field, unknown vendor or strategy, wrong type; one sentence with the field.
    """
    if value is None:
        return Policy()
    fields = {
        "vendors": _vendors,
        "strategy": _strategy,
        "scheduler": _text,
        "namespaces": _namespaces,
        "images": _images,
    }
    return Policy(**_fields(value, fields, where))


def _fields(value: object, readers: Mapping[str, _Reader], where: str) -> dict[str, Any]:
    rows = _mapping(value, where)
    for key in rows:
        if key not in readers:
            close = difflib.get_close_matches(key, readers, n=1)
            remedy = f"write {close[0]}" if close else f"the fields are {', '.join(readers)}"
            raise InputError(f"the field {key!r} does not exist", where=where, remedy=remedy)
    return {_snake(key): readers[key](item, f"{where}.{key}") for key, item in rows.items() if item is not None}


def _snake(key: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)


def _mapping(value: object, where: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise InputError(f"is {_kind(value)} where fields are expected", where=where, remedy="write field: value lines")
    return {_text(key, where): item for key, item in value.items()}


def _sequence(value: object, where: str) -> list[object]:
    if not isinstance(value, list):
        raise InputError(f"is {_kind(value)} where a list is expected", where=where, remedy="write a list")
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise InputError(f"is {_kind(value)} where text is expected", where=where, remedy="write a text")
    return value


def _flag(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise InputError(
            f"is {_kind(value)} where true or false is expected", where=where, remedy="write true or false"
        )
    return value


def _kind(value: object) -> str:
    kinds = {dict: "a mapping", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return "empty" if value in ("", None) else kinds.get(type(value), "something else")


def _one_of(value: object, allowed: tuple[str, ...], noun: str, where: str) -> str:
    word = _text(value, where)
    if word not in allowed:
        raise InputError(f"{word!r} is no {noun}", where=where, remedy=f"write one of {', '.join(allowed)}")
    return word


def _strategy(value: object, where: str) -> str:
    return _one_of(value, STRATEGIES, "strategy", where)


def _vendors(value: object, where: str) -> tuple[str, ...]:
    rows = [value] if isinstance(value, str) else _sequence(value, where)
    return tuple(_one_of(row, names.vendors(), "vendor", f"{where}[{i}]") for i, row in enumerate(rows))


def _namespaces(value: object, where: str) -> dict[str, NamespacePolicy]:
    fields = {"vendors": _vendors, "strategy": _strategy, "allowDeviceEnv": _flag}
    return {
        name: NamespacePolicy(**_fields(item, fields, f"{where}.{name}"))
        for name, item in _mapping(value, where).items()
    }


def _images(value: object, where: str) -> tuple[ImageRule, ...]:
    return tuple(_image(item, f"{where}[{i}]") for i, item in enumerate(_sequence(value, where)))


def _image(value: object, where: str) -> ImageRule:
    fields = _fields(value, {"image": _text, "vendors": _vendors, "images": _builds}, where)
    for needed, remedy in (("image", "write a glob such as registry.example/app:*"), ("vendors", "write a list")):
        if not fields.get(needed):
            raise InputError(f"has no {needed}", where=where, remedy=remedy)
    rule = ImageRule(**fields)
    for vendor in rule.images:
        if vendor not in rule.vendors:
            remedy = f"add {vendor} to vendors or take its image out"
            raise InputError(f"names an image for {vendor}, which vendors leaves out", where=where, remedy=remedy)
    return rule


def _builds(value: object, where: str) -> dict[str, str]:
    rows = _mapping(value, where)
    return {_one_of(v, names.vendors(), "vendor", where): _text(image, f"{where}.{v}") for v, image in rows.items()}
