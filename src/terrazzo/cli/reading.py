"""Files, folders and standard input to Kubernetes objects, with the place of every fault."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from terrazzo.model.errors import InputError

LARGE = 4 << 20
"""Bytes of YAML from which a person is told that it takes a while."""
LARGEST = 20_000_000
"""Values in one document with its aliases written out; 50 MB of YAML hold about two million."""
DEEP = 500
"""Levels of nesting; the API server refuses far less."""
_BRACKET = re.compile(rb"[\[\]{}]")
_DASHES = re.compile(rb"(?:- ){500}")
_DOCUMENT = re.compile(rb"^---(?=\s|$)[^\n]*\n?", re.MULTILINE)
_OBJECT = "an object has apiVersion, kind and metadata"
_SUFFIXES = (".yaml", ".yml", ".json")


class Item(NamedTuple):
    """An object and where it was read."""

    where: str
    body: dict[str, Any]

    @property
    def kind(self) -> str:
        """The object's kind."""
        return str(self.body.get("kind") or "")


def read(paths: Iterable[str]) -> list[Item]:
    """Return all objects of files, folders (their YAML and JSON files) and ``-`` (standard input), Lists taken apart.

    Raises:
        InputError: a file cannot be read, is no YAML or JSON, or holds no object.
    """
    items: list[Item] = []
    for path in paths:
        items += (item for name, text in _texts(path) for item in _items(name, text))
    return items


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


def documents(path: str) -> list[tuple[str, Any]]:
    """Return the parsed documents of one file or standard input, whatever they are, each with its place.

    Raises:
        InputError: it cannot be read or is no YAML or JSON.
    """
    return [found for name, text in _texts(path) for found in parse(name, text)]


def parse(name: str, text: bytes) -> list[tuple[str, Any]]:
    """Return the documents of YAML or JSON text.

    Args:
        name: of the text, for messages.
        text: the bytes.

    Raises:
        InputError: it is empty, no text, or no YAML or JSON.
    """
    if not text.strip():
        raise InputError("is empty", where=name, remedy="give the output of kubectl get … -o yaml, or a manifest")
    if b"\0" in text[:4096]:
        raise InputError("is no text", where=name, remedy="give YAML or JSON")
    return _json(name, text) if text.lstrip()[:1] in b"{[" else _yaml(name, text)


def _items(name: str, text: bytes) -> list[Item]:
    items = [item for where, document in parse(name, text) for item in _apart(where, document)]
    if not items:
        raise InputError("holds no objects", where=name, remedy="check that the list was not empty when it was saved")
    return items


def _apart(where: str, document: Any) -> Iterator[Item]:
    """Yield the objects of a document: itself, or the items of a List."""
    if document is None:
        return
    if isinstance(document, list):
        for index, each in enumerate(document):
            yield from _apart(f"{where}[{index}]", each)
        return
    if not isinstance(document, dict):
        raise InputError("is no Kubernetes object", where=where, remedy=_OBJECT)
    kind, items = document.get("kind"), document.get("items")
    if isinstance(items, list) and (kind is None or str(kind).endswith("List")):
        yield from _listed(where, str(kind or "").removesuffix("List"), items)
    elif not isinstance(kind, str):
        raise InputError("has no kind", where=where, remedy=_OBJECT)
    elif not kind.endswith("List"):
        yield Item(where, _checked(document, where))


def _listed(where: str, kind: str, items: list[Any]) -> Iterator[Item]:
    for index, each in enumerate(items):
        place = f"{where}: items[{index}]"
        if not isinstance(each, dict):
            raise InputError("is no Kubernetes object", where=place, remedy=_OBJECT)
        if kind and not each.get("kind"):
            each["kind"] = kind
        if not isinstance(each.get("kind"), str):
            raise InputError("has no kind", where=place, remedy=_OBJECT)
        yield Item(place, _checked(each, place))


def _checked(body: dict[str, Any], where: str) -> dict[str, Any]:
    metadata = body.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise InputError("metadata is no mapping", where=where)
    return body


def _json(name: str, text: bytes) -> list[tuple[str, Any]]:
    try:
        return [(name, msgspec.json.decode(text))]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        lines = _json_lines(name, text)
        if lines is not None:
            return lines
        raise InputError(f"is damaged JSON: {error}", where=name) from None
    except RecursionError:
        raise InputError("is nested too deeply", where=name) from None


def _json_lines(name: str, text: bytes) -> list[tuple[str, Any]] | None:
    """Several JSON objects one after the other, a line each; None when it is not that."""
    try:
        return [
            (f"{name}:{number}", msgspec.json.decode(line))
            for number, line in enumerate(text.splitlines(), 1)
            if line.strip()
        ]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _yaml(name: str, text: bytes) -> list[tuple[str, Any]]:
    """Return the documents of YAML text, each with the line where it starts."""
    _harmless(name, text)
    if len(text) > LARGE and sys.stderr.isatty():
        sys.stderr.write(f"reading {name} ({len(text) >> 20} MiB of YAML; JSON is read faster) …\n")
    documents: list[tuple[str, Any]] = []
    collecting = gc.isenabled()
    gc.disable()
    try:
        first, start = 1, 0
        for mark in [*_DOCUMENT.finditer(text), None]:
            part = text[start : mark.start() if mark else None]
            documents.append((f"{name}:{first}", _document(name, part, first)))
            first += part.count(b"\n") + (mark is not None)
            start = mark.end() if mark else 0
    finally:
        if collecting:
            gc.enable()
    return documents


def _document(name: str, text: bytes, first: int) -> Any:
    import yaml  # noqa: PLC0415 - an import of 30 ms that JSON users need not wait for

    try:
        loaded = yaml.load(text, _loader())  # noqa: S506 - the loader is a safe one
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}:{mark.line + first}" if mark is not None else name
        raise InputError(f"is damaged YAML: {error.problem or error.context}", where=place) from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, TypeError, AttributeError) as error:
        raise InputError(f"is damaged YAML: {str(error).splitlines()[0]}", where=f"{name}:{first}") from None
    except RecursionError:
        raise InputError("is nested too deeply", where=name) from None
    if b"*" in text and b"&" in text and _expanded(loaded, {}) > LARGEST:
        raise InputError("its aliases expand to more than a cluster could hold", where=name, remedy="write them out")
    return loaded


@cache
def _loader() -> Any:
    """A safe loader that leaves dates as the text they are in Kubernetes."""
    import yaml  # noqa: PLC0415 - see above

    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    resolvers = {
        first: [(tag, pattern) for tag, pattern in each if tag != "tag:yaml.org,2002:timestamp"]
        for first, each in base.yaml_implicit_resolvers.items()
    }
    return type("Loader", (base,), {"yaml_implicit_resolvers": resolvers})


def _harmless(name: str, text: bytes) -> None:
    """Refuse nesting that would exhaust the parser's stack before it could complain."""
    depth = 0
    for bracket in _BRACKET.finditer(text):
        depth += 1 if bracket[0] in b"[{" else -1
        if depth > DEEP:
            raise InputError("is nested too deeply", where=name)
    if _DASHES.search(text):
        raise InputError("is nested too deeply", where=name)


def _expanded(part: Any, known: dict[int, int]) -> int:
    """Return how many values ``part`` has when every alias is written out; shared parts are measured once."""
    if not isinstance(part, dict | list):
        return 1
    size = known.get(id(part))
    if size is None:
        known[id(part)] = LARGEST  # a part within itself never ends
        inner = part.values() if isinstance(part, dict) else part
        size = known[id(part)] = 1 + sum(_expanded(each, known) for each in inner)
    return size
