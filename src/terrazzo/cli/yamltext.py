"""YAML as Kubernetes people write it, read safely and fast.

PyYAML's own constructor takes four times as long as its parser and resolves words as YAML 1.1 says (``12:30:00`` is a
number, ``2024-01-01`` a date). Here values are built from parser events with the few rules that Kubernetes knows, no
tag makes anything but plain data, and an alias costs what it expands to, so that no small file becomes a huge one.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import yaml

from terrazzo.model.errors import InputError

MOST_EXPANDED = 100_000
"""Values that aliases of one file may repeat. Hand-written manifests repeat a few hundred."""

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BEGIN = frozenset({yaml.MappingStartEvent, yaml.SequenceStartEvent})
_END = frozenset({yaml.MappingEndEvent, yaml.SequenceEndEvent})
_INTEGER = re.compile(r"[+-]?\d{1,64}$")
_FLOAT = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d{1,3})?$")
_WORDS = {
    "": None, "~": None,
    **{form: value for word, value in (("null", None), ("true", True), ("false", False), ("yes", True), ("no", False),
                                       ("on", True), ("off", False))
       for form in (word, word.capitalize(), word.upper())},
}  # fmt: skip
_KEY = object()
_MERGE = object()
_UNREAD = {
    ("metadata", "managedFields"), ("status", "images"), ("status", "containerStatuses"),
    ("status", "initContainerStatuses"), ("status", "ephemeralContainerStatuses"),
}  # fmt: skip
"""Written by machines, read by nobody here, and half of a dump."""


class Document(NamedTuple):
    """One document of a YAML text.

    Attributes:
        value: plain data; entries whose value is null are left out, as Kubernetes does.
        line: where it begins, from 1.
        item_lines: where each element of its top-level ``items`` begins.
    """

    value: Any
    line: int
    item_lines: tuple[int, ...]


def documents(text: str, where: str) -> list[Document]:
    """Return the documents of a YAML text; empty ones are left out.

    Args:
        text: the whole text.
        where: its file, for messages.

    Raises:
        InputError: not YAML, a key twice in one mapping, or aliases that expand without end; with file and line.
    """
    collecting = gc.isenabled()
    gc.disable()  # millions of containers are born and none dies: every collection would be in vain
    try:
        return list(_Builder(where).build(text))
    except yaml.YAMLError as error:
        raise _unreadable(error, where) from None
    finally:
        if collecting:
            gc.enable()


def _unreadable(error: yaml.YAMLError, where: str) -> InputError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    place = f"{where}:{mark.line + 1}" if mark is not None else where
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "unreadable"
    return InputError(
        f"is not valid YAML ({problem})", where=place, remedy="check that the file is complete and indented by spaces"
    )


@lru_cache(maxsize=65536)
def _plain(text: str) -> str | int | float | bool | None:
    """Return the value of an unquoted word."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.match(text):
        return int(text)
    if _FLOAT.match(text):
        return float(text)
    return text


class _Builder:
    """Builds values from parser events, without recursion."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.open: list[Any] = []
        self.keys: list[Any] = []
        self.starts: list[tuple[str | None, int]] = []
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.values = 0
        self.expanded = 0
        self.begins = 1
        self.lines: list[int] = []

    def build(self, text: str) -> Iterator[Document]:
        """Yield the documents of ``text``."""
        root: list[Any] = []
        skipping = 0
        event: Any
        for event in yaml.parse(text, Loader=_LOADER):
            kind = type(event)
            if skipping:
                skipping += (kind in _BEGIN) - (kind in _END)
            elif kind is yaml.ScalarEvent:
                self._scalar(event)
            elif kind in _BEGIN:
                skipping = self._begin(event, {} if kind is yaml.MappingStartEvent else [])
            elif kind in _END:
                self._leave(event)
            elif kind is yaml.AliasEvent:
                self._alias(event)
            elif kind is yaml.DocumentStartEvent:
                root = self._document()
            elif kind is yaml.DocumentEndEvent and root and root[0] is not None:
                yield Document(root[0], self.begins, tuple(self.lines))

    def _document(self) -> list[Any]:
        root: list[Any] = []
        self.begins, self.lines = 1, []
        self.open, self.keys, self.anchors, self.expanded = [root], [None], {}, 0
        return root

    def _begin(self, event: Any, container: Any) -> int:
        """Enter a mapping or list; 1 when it is one to skip."""
        depth = len(self.open)
        if depth > 2 and (self.keys[-2], self.keys[-1]) in _UNREAD:
            self.keys[-1] = _KEY
            return 1
        if depth == 1:
            self.begins = event.start_mark.line + 1
        elif depth == 3 and self.keys[1] == "items":
            self.lines.append(event.start_mark.line + 1)
        self.values += 1
        self.open.append(container)
        self.keys.append(_KEY if type(container) is dict else None)
        self.starts.append((event.anchor, self.values))
        return 0

    def _fault(self, event: Any, what: str, remedy: str) -> InputError:
        return InputError(what, where=f"{self.where}:{event.start_mark.line + 1}", remedy=remedy)

    def _scalar(self, event: Any) -> None:
        self.values += 1
        text = event.value
        keys = self.keys
        container = self.open[-1]
        if keys[-1] is _KEY:
            key = _MERGE if text == "<<" and event.implicit[0] else text
            if key in container:
                raise self._twice(event, text)
            keys[-1] = key
            if event.anchor:
                self.anchors[event.anchor] = (text, 1)
            return
        value = _plain(text) if event.implicit[0] and not event.style else text
        if event.anchor:
            self.anchors[event.anchor] = (value, 1)
        if type(container) is list:
            container.append(value)
        else:
            container[keys[-1]] = value
            keys[-1] = _KEY

    def _twice(self, event: Any, key: str) -> InputError:
        return self._fault(event, f"the key {key!r} stands twice in one mapping", "take one of them out")

    def _put(self, value: Any) -> None:
        container = self.open[-1]
        if type(container) is list:
            container.append(value)
            return
        container[self.keys[-1]] = value
        self.keys[-1] = _KEY

    def _leave(self, event: Any) -> None:
        value = self.open.pop()
        self.keys.pop()
        anchor, began = self.starts.pop()
        if type(value) is dict:
            value = self._settled(event, value)
        if self.keys[-1] is _KEY:
            raise self._fault(event, "a mapping or list is used as a key", "write a word as the key")
        if anchor:
            self.anchors[anchor] = (value, self.values - began + 1)
        self._put(value)

    def _settled(self, event: Any, value: dict[Any, Any]) -> dict[Any, Any]:
        """Merge what ``<<`` brings in, and leave nulls out."""
        if _MERGE in value:
            brought = value.pop(_MERGE)
            for mapping in brought if isinstance(brought, list) else [brought]:
                if not isinstance(mapping, dict):
                    raise self._fault(event, "<< takes a mapping", "write << : *name-of-a-mapping")
                for key, item in mapping.items():
                    value.setdefault(key, item)
        if None in value.values():
            return {key: item for key, item in value.items() if item is not None}
        return value

    def _alias(self, event: Any) -> None:
        found = self.anchors.get(event.anchor)
        if found is None:
            raise self._fault(event, f"*{event.anchor} names nothing before it", f"write &{event.anchor} first")
        value, size = found
        self.values += size
        self.expanded += size
        if self.expanded > MOST_EXPANDED:
            raise self._fault(event, f"aliases expand to more than {MOST_EXPANDED} values", "write the values out")
        if self.keys[-1] is _KEY:
            if not isinstance(value, str):
                raise self._fault(event, "an alias of no text is used as a key", "write the key out")
            if value in self.open[-1]:
                raise self._twice(event, value)
            self.keys[-1] = value
        else:
            self._put(value)
