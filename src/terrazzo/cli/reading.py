"""Files, folders and standard input to Kubernetes objects, with the place of every fault."""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from terrazzo.model.errors import InputError

LARGE = 4 << 20
"""Characters of YAML from which a person is told that it takes a while."""
_GZIP = b"\x1f\x8b"
_BYTE = re.compile(r"\(byte (\d+)\)")
_OBJECT = "an object has apiVersion, kind and metadata"
_WHOLE = "check that the file is complete"
_SUFFIXES = (".yaml", ".yml", ".json")


class Item(NamedTuple):
    """An object and where it was read."""

    where: str
    body: dict[str, Any]

    @property
    def kind(self) -> str:
        """The object's kind."""
        return str(self.body.get("kind") or "")


class Parsed(NamedTuple):
    """A document of a text.

    Attributes:
        where: file and line.
        value: plain data.
        items: where each element of its top-level ``items`` begins; empty when the parser does not tell.
    """

    where: str
    value: Any
    items: tuple[str, ...] = ()


def read(paths: Iterable[str]) -> list[Item]:
    """Return all objects of files, folders (their YAML and JSON files) and ``-`` (standard input), Lists taken apart.

    Raises:
        InputError: a file cannot be read, is no YAML or JSON, or holds no object.
    """
    items: list[Item] = []
    for path in paths:
        items += (item for name, text in _texts(path) for item in _items(name, text))
    return items


def only_once(*groups: Iterable[str]) -> None:
    """Refuse standard input given twice: the second reading would be empty.

    Raises:
        InputError: ``-`` stands more than once.
    """
    if sum(path == "-" for group in groups for path in group) > 1:
        raise InputError("standard input is given twice", remedy="give one of them as a file")


def _texts(path: str) -> Iterator[tuple[str, bytes]]:
    if path == "-":
        yield "standard input", sys.stdin.buffer.read()
        return
    place = Path(path)
    try:
        if not place.is_dir():
            yield path, place.read_bytes()
            return
        files = sorted(each for each in place.iterdir() if each.suffix in _SUFFIXES)
        if not files:
            raise InputError("the folder holds no .yaml, .yml or .json file", where=path)
        for each in files:
            yield str(each), each.read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"cannot be read: {reason}", where=path) from None


def documents(path: str) -> list[Parsed]:
    """Return the parsed documents of one file or standard input, whatever they are, each with its place.

    Raises:
        InputError: it cannot be read or is no YAML or JSON.
    """
    return [found for name, text in _texts(path) for found in parse(name, text)]


def parse(name: str, text: bytes) -> list[Parsed]:
    """Return the documents of YAML or JSON text.

    Args:
        name: of the text, for messages.
        text: the bytes: UTF-8, or UTF-16 with a mark, as some shells write it.

    Raises:
        InputError: it is empty, no text, or no YAML or JSON.
    """
    if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = text.decode("utf-16", errors="replace").encode(errors="replace")
    text = text.removeprefix(codecs.BOM_UTF8)
    if not text.strip():
        raise InputError("is empty", where=name, remedy="give the output of kubectl get … -o yaml, or a manifest")
    if text.startswith(_GZIP):
        raise InputError("is compressed", where=name, remedy="unpack it first")
    try:
        decoded = text.decode()
    except UnicodeDecodeError:
        decoded = "\0"
    if "\0" in decoded:
        raise InputError("is no text", where=name, remedy="give YAML or JSON")
    return _json(name, text, decoded) if text.lstrip()[:1] in b"{[" else _yaml(name, decoded)


def _items(name: str, text: bytes) -> list[Item]:
    items = [item for document in parse(name, text) for item in _apart(document)]
    if not items:
        raise InputError("holds no objects", where=name, remedy="check that the list was not empty when it was saved")
    return items


def _apart(document: Parsed) -> Iterator[Item]:
    """Yield the objects of a document: itself, or the items of a List."""
    where, body = document.where, document.value
    if isinstance(body, list):
        for index, each in enumerate(body):
            yield from _apart(Parsed(f"{where}: [{index}]", each))
        return
    if not isinstance(body, dict):
        raise InputError("is no Kubernetes object", where=where, remedy=_OBJECT)
    kind, items = body.get("kind"), body.get("items")
    if "items" in body and (kind is None or str(kind).endswith("List")):
        if kind is None and document.items:
            # kubectl writes the kind of a List after its items.
            raise InputError("ends before the List is closed", where=where, remedy=_WHOLE)
        yield from _listed(document, str(kind or "").removesuffix("List"), items)
    elif not isinstance(kind, str) or not kind:
        raise InputError("has no kind", where=where, remedy=_OBJECT)
    elif not kind.endswith("List"):
        yield Item(where, _checked(body, where))


def _listed(document: Parsed, kind: str, items: Any) -> Iterator[Item]:
    if not isinstance(items, list):
        raise InputError("items is no list", where=document.where, remedy=_OBJECT)
    for index, each in enumerate(items):
        place = document.items[index] if index < len(document.items) else f"{document.where}: items[{index}]"
        if isinstance(each, dict) and kind and not each.get("kind"):
            each["kind"] = kind
        yield from _apart(Parsed(place, each))


def _checked(body: dict[str, Any], where: str) -> dict[str, Any]:
    metadata = body.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise InputError("metadata is no mapping", where=where)
    return body


def _json(name: str, text: bytes, decoded: str) -> list[Parsed]:
    try:
        return [Parsed(name, msgspec.json.decode(text))]
    except RecursionError:
        raise InputError("is nested too deeply", where=name) from None
    except msgspec.DecodeError as error:
        if not name.endswith(".json"):
            with suppress(InputError):
                return _yaml(name, decoded)  # {a: b} is YAML
        lines = _json_lines(name, text)
        if lines is not None:
            return lines
        raise _damaged(name, text, str(error)) from None


def _damaged(name: str, text: bytes, problem: str) -> InputError:
    if "truncated" in problem:
        return InputError("ends in the middle of its JSON", where=f"{name}:{text.count(10) + 1}", remedy=_WHOLE)
    byte = _BYTE.search(problem)
    line = text.count(b"\n", 0, int(byte[1])) + 1 if byte else 1
    problem = _BYTE.sub("", problem).removeprefix("JSON is malformed: ").strip()
    return InputError(f"is not valid JSON ({problem})", where=f"{name}:{line}", remedy=_WHOLE)


def _json_lines(name: str, text: bytes) -> list[Parsed] | None:
    """Several JSON objects one after the other, a line each; None when it is not that."""
    try:
        return [
            Parsed(f"{name}:{number}", msgspec.json.decode(line))
            for number, line in enumerate(text.splitlines(), 1)
            if line.strip()
        ]
    except (msgspec.DecodeError, RecursionError):
        return None


def _yaml(name: str, text: str) -> list[Parsed]:
    from terrazzo.cli import yamltext  # noqa: PLC0415 - an import of 30 ms that JSON users need not wait for

    if len(text) > LARGE and sys.stderr.isatty():
        click.echo(f"reading {name} ({len(text) >> 20} MB of YAML; -o json is read ten times faster) …", err=True)
    return [
        Parsed(f"{name}:{found.line}", found.value, tuple(f"{name}:{line}" for line in found.item_lines))
        for found in yamltext.documents(text, name)
    ]
