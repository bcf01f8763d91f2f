"""Annotations that narrow where a pod may go and how it is placed: ours, and those of other planes.

Ours are validated strictly. Those of other planes are translated by tables (``names/annotations.toml`` and the
``[annotations]`` of each vendor); a value that no table has is left out with a warning, because another program may
well know it. Where both speak, ours count.

HAMi selects types by case-insensitive substring, so its ``H20`` also takes an H200. Here a type is matched on whole
words of a device's names (between dashes, underscores and blanks): ``A100`` is in ``NVIDIA-A100-SXM4-80GB``, ``H20``
is not in ``NVIDIA-H200``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase

from msgspec import Struct

from terrazzo.dialects import names
from terrazzo.dialects.notes import Notes
from terrazzo.model.policy import STRATEGIES
from terrazzo.model.request import Pattern
from terrazzo.wire.state import ALLOCATION, INVENTORY

ISOLATIONS = ("mig", "mps", "interposer", "native", "none")
COMPUTES = ("burst", "hard")
_BOOLEANS = {"true": True, "false": False}
_SEPARATOR = "[-_ ]"
_OUR_KEYS = ("vendor", "model", "device", "strategy", "isolation", "compute", "exclusive")


class Selectors(Struct, frozen=True, kw_only=True):
    """What the annotations of a pod say; field by field as in ``PodRequest``."""

    vendor: Pattern = Pattern()
    model: Pattern = Pattern()
    device: Pattern = Pattern()
    strategy: str = ""
    isolation: str = ""
    compute: str = "burst"
    exclusive: bool = False
    numa_bind: bool = False


def read(annotations: Mapping[str, str], vendors: frozenset[str], notes: Notes) -> Selectors:
    """Return the selectors of a pod.

    Args:
        annotations: of the pod.
        vendors: vendors that the pod's words imply; a selector of another vendor's devices is left out. An empty
            string among them stands for a neutral ask, which every vendor's selector narrows.
        notes: the pod.

    Raises:
        RequestError: one of our annotations has a value that can never be valid.
    """
    place = notes.at("metadata.annotations")
    ours = {key: annotations[names.OURS + key] for key in _OUR_KEYS if names.OURS + key in annotations}
    _warn_of_strangers(annotations, place)
    theirs = _translated(annotations, place)
    said: dict[str, str] = {**theirs, **{key: text.strip() for key, text in ours.items()}}
    model, device = _selected(annotations, vendors, place)
    return Selectors(
        vendor=_vendor(ours.get("vendor", ""), place),
        model=_list("model", ours, model, place),
        device=_list("device", ours, device, place),
        strategy=_choice("strategy", said, STRATEGIES, place),
        isolation=_choice("isolation", said, ISOLATIONS, place),
        compute=_choice("compute", said, COMPUTES, place) or "burst",
        exclusive=_BOOLEANS.get(_choice("exclusive", said, tuple(_BOOLEANS), place), False),
        numa_bind=_BOOLEANS.get(theirs.get("numa_bind", ""), False),
    )


def _choice(key: str, said: Mapping[str, str], allowed: tuple[str, ...], place: Notes) -> str:
    text = said.get(key, "")
    value = text.casefold()
    if value and value not in allowed:
        raise place.at(f"[{names.OURS}{key}]").refusal(f"{text!r} is not known", f"write {_either(allowed)}")
    return value


def _either(values: Iterable[str]) -> str:
    *most, last = values
    return f"{', '.join(most)} or {last}" if most else last


def _parsed(key: str, text: str, place: Notes) -> Pattern:
    pattern = Pattern.parse(text)
    if "" in pattern.exclude:
        raise place.at(f"[{names.OURS}{key}]").refusal(f"{text!r} excludes nothing", "write a name behind the !")
    return pattern


def _vendor(text: str, place: Notes) -> Pattern:
    pattern = _parsed("vendor", text, place)
    known = names.vendors()
    for word in (*pattern.include, *pattern.exclude):
        if not any(fnmatchcase(vendor, word.casefold()) for vendor in known):
            raise place.at(f"[{names.OURS}vendor]").refusal(f"{word!r} is no vendor", f"write {_either(known)}")
    return pattern


def _list(key: str, ours: Mapping[str, str], theirs: Pattern, place: Notes) -> Pattern:
    if key not in ours:
        return theirs
    if theirs != Pattern():
        place.at(f"[{names.OURS}{key}]").warn(f"decides, annotations of other planes about the {key} are not used")
    return _parsed(key, ours[key], place)


def _warn_of_strangers(annotations: Mapping[str, str], place: Notes) -> None:
    for key in annotations:
        ours, _, tail = key.partition(names.OURS)
        if ours or not tail or tail in _OUR_KEYS or key in {ALLOCATION, INVENTORY}:
            continue
        close = difflib.get_close_matches(tail, _OUR_KEYS, n=1, cutoff=0.7)
        if close:
            place.at(f"[{key}]").warn("is not an annotation that Terrazzo reads", f"write {names.OURS}{close[0]}")


def _translated(annotations: Mapping[str, str], place: Notes) -> dict[str, str]:
    """Settings in our words from the annotations of other planes; the first to speak of a setting counts."""
    said: dict[str, str] = {}
    for row in names.pod_annotations():
        text = annotations.get(row.key)
        if text is None:
            continue
        at = place.at(f"[{row.key}]")
        if row.ignored:
            at.warn(f"is not used: {row.ignored}")
            continue
        for word in text.split(",") if row.list else [text]:
            _take(said, row, word.strip(), at)
    return said


def _take(said: dict[str, str], row: names.PodAnnotation, word: str, at: Notes) -> None:
    settings = row.values.get(word.casefold())
    if settings is None:
        if word:
            at.warn(f"{word!r} is not known and not used", f"write {_either(row.values)}")
        return
    for setting, value in settings.items():
        if said.setdefault(setting, value) != value:
            at.warn(f"{word!r} is not used, {setting} is {said[setting]} already", "keep one of them")


def _selected(annotations: Mapping[str, str], vendors: frozenset[str], place: Notes) -> tuple[Pattern, Pattern]:
    """Patterns over models and over devices from the vendors' own selector annotations."""
    lists: dict[str, list[str]] = {"use_model": [], "avoid_model": [], "use_device": [], "avoid_device": []}
    for vendor in names.vendors():
        table = names.annotations_of(vendor)
        for what, globs in lists.items():
            for key in getattr(table, what):
                if key not in annotations:
                    continue
                if vendors and not vendors & {vendor, ""}:
                    place.at(f"[{key}]").warn(f"is not used, the pod asks for no device of {vendor}")
                    continue
                glob = _tokens if what.endswith("model") else _literal
                globs.extend(_globs(annotations[key], glob))
    return (
        Pattern(tuple(lists["use_model"]), tuple(lists["avoid_model"])),
        Pattern(tuple(lists["use_device"]), tuple(lists["avoid_device"])),
    )


def _globs(text: str, make: Callable[[str], tuple[str, ...]]) -> Iterable[str]:
    return (glob for word in text.split(",") if word.strip() for glob in make(word.strip()))


def _literal(word: str) -> tuple[str, ...]:
    return (re.sub(r"([*?\[])", r"[\1]", word),)


def _tokens(word: str) -> tuple[str, ...]:
    """Globs that find a word, or several joined by blanks or dashes, among the whole words of a name."""
    inner = _SEPARATOR.join(_literal(part)[0] for part in re.split(r"[-_ ]+", word.strip("-_ ")) if part)
    if not inner:
        return ()
    return (inner, f"{inner}{_SEPARATOR}*", f"*{_SEPARATOR}{inner}", f"*{_SEPARATOR}{inner}{_SEPARATOR}*")
