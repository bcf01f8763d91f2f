"""Resource names that people write for accelerators, as tables: what each counts, in which unit, of which vendor.

A *phrase* is a set of names that speak of one ask together (count, memory, percentage, cores). The tables under
``names/`` hold one file per vendor; adding a vendor is adding a file.
"""

from __future__ import annotations

import difflib
import tomllib
from enum import StrEnum
from functools import lru_cache
from importlib import resources
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from terrazzo.model.quantity import MIB

OURS = "terrazzo.io/"
"""Prefix of our own resources and annotations."""

_UNIT_BYTES = {
    "byte": 1,
    "MiB": MIB,
    "128 MiB": 128 * MIB,
    "256 MiB": 256 * MIB,
    "512 MiB": 512 * MIB,
    "GiB": 1024 * MIB,
}


class Role(StrEnum):
    """What the number behind a name says."""

    COUNT = "count"
    MEMORY = "memory"
    PERCENTAGE = "percentage"
    CORES = "cores"
    PRIORITY = "priority"
    PROFILE = "profile"


class Dialect(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a dialect fills in what is not said; ``names/dialects.toml`` explains each field."""

    name: str = ""
    family: str
    cores_alone: Literal["share", "all"]
    clamp_cores: bool
    full_cores_exclusive: bool
    full_memory_whole: bool


class Phrase(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names that speak of one ask together.

    Attributes:
        dialect: whose words they are.
        vendor: the vendor they imply; empty for our own.
        models: globs over device names that they imply; empty = any of the vendor.
        count, memory, percentage, cores, priority: the names, empty where the phrase has none.
        memory_unit: what 1 of ``memory`` is: ``byte``, ``MiB``, ``256 MiB`` and so on.
        memory_suffix: a value with a suffix (``8Gi``) is in bytes after all.
        cores_whole: how many of ``cores`` make a whole device: 100 where percent, 16 where sixteenths.
        cores_default_percent: compute when memory is given without cores.
        cores_need: annotation and value without which ``cores`` means nothing.
        many_whole: more than one device is always whole devices.
        pairs: devices come in twos.
        share: 1 of ``count`` is a seat on a shared device, without a size.
    """

    dialect: str
    vendor: str = ""
    models: tuple[str, ...] = ()
    count: str = ""
    memory: str = ""
    percentage: str = ""
    cores: str = ""
    priority: str = ""
    memory_unit: str = "MiB"
    memory_suffix: bool = False
    cores_whole: int = 100
    cores_default_percent: int = 0
    cores_need: tuple[str, ...] = ()
    many_whole: bool = False
    pairs: bool = False
    share: bool = False

    @property
    def memory_unit_bytes(self) -> int:
        """Bytes that 1 of ``memory`` stands for."""
        return _UNIT_BYTES[self.memory_unit]


class Word(Struct, frozen=True):
    """One known resource name.

    Attributes:
        name: as it stands in ``limits``.
        role: what its number says.
        phrase: the phrase it belongs to.
        profile: the geometry profile that the name spells, for role ``profile``.
    """

    name: str
    role: Role
    phrase: Phrase
    profile: str = ""


class VendorAnnotations(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pod annotations of other planes that select this vendor's devices by type or by UUID."""

    use_model: tuple[str, ...] = ()
    avoid_model: tuple[str, ...] = ()
    use_device: tuple[str, ...] = ()
    avoid_device: tuple[str, ...] = ()


class PodAnnotation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pod annotation of another plane: what each of its values sets in our words."""

    key: str
    values: dict[str, dict[str, str]] = field(default_factory=dict)
    list: bool = False
    ignored: str = ""


class _PhraseRow(Phrase, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A phrase as a table writes it: ``{chip}`` in its names stands for each key of ``chips``."""

    chips: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def phrases(self, vendor: str) -> list[Phrase]:
        row = msgspec.structs.asdict(self)
        chips = row.pop("chips") or {"": self.models}
        texts = {key: value for key, value in row.items() if isinstance(value, str)}
        return [
            Phrase(
                **{
                    **row,
                    **{k: v.replace("{chip}", chip) for k, v in texts.items()},
                    "vendor": vendor,
                    "models": models,
                }
            )
            for chip, models in chips.items()
        ]


class _ProfileRow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    models: tuple[str, ...] = ()
    pattern: str = ""
    names: dict[str, str] = field(default_factory=dict)


class _Table(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    vendor: str
    whole: dict[str, tuple[str, ...]] = field(default_factory=dict)
    phrase: tuple[_PhraseRow, ...] = ()
    profile: tuple[_ProfileRow, ...] = ()
    annotations: VendorAnnotations = VendorAnnotations()
    untranslated: dict[str, str] = field(default_factory=dict)


class _Names(Struct, frozen=True):
    words: dict[str, Word]
    patterns: tuple[tuple[str, Phrase], ...]
    untranslated: dict[str, str]
    annotations: dict[str, VendorAnnotations]


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((resources.files("terrazzo.dialects") / "names" / name).read_text("utf-8"))


def _vendor_files() -> list[str]:
    folder = resources.files("terrazzo.dialects") / "names"
    special = {"dialects.toml", "annotations.toml"}
    return sorted(f.name for f in folder.iterdir() if f.name.endswith(".toml") and f.name not in special)


@lru_cache(maxsize=1)
def _load() -> _Names:
    words: dict[str, Word] = {}
    patterns: list[tuple[str, Phrase]] = []
    untranslated: dict[str, str] = {}
    annotations: dict[str, VendorAnnotations] = {}
    for file in _vendor_files():
        table = msgspec.convert(_read(file), _Table)
        untranslated.update(table.untranslated)
        if table.vendor:
            annotations[table.vendor] = table.annotations
        for word in _words_of(table):
            if word.name in words:
                raise ValueError(f"names/{file}: {word.name} is in two phrases")
            words[word.name] = word
        patterns.extend((row.pattern.removesuffix("*"), _profiles(table, row)) for row in table.profile if row.pattern)
    return _Names(words, tuple(patterns), untranslated, annotations)


def _profiles(table: _Table, row: _ProfileRow) -> Phrase:
    return Phrase(dialect="vendor", vendor=table.vendor, models=row.models)


def _words_of(table: _Table) -> list[Word]:
    phrases = [phrase for row in table.phrase for phrase in row.phrases(table.vendor)]
    phrases += [
        Phrase(dialect="vendor", vendor=table.vendor, count=name, models=models) for name, models in table.whole.items()
    ]
    roles = (Role.COUNT, Role.MEMORY, Role.PERCENTAGE, Role.CORES, Role.PRIORITY)
    words = [Word(name, role, phrase) for phrase in phrases for role in roles if (name := getattr(phrase, role.value))]
    for row in table.profile:
        phrase = _profiles(table, row)
        words += [Word(name, Role.PROFILE, phrase, profile) for name, profile in row.names.items()]
    return words


def lookup(name: str) -> Word | None:
    """Return what a resource name says, or None when no table has it."""
    names = _load()
    word = names.words.get(name)
    if word is not None:
        return word
    for prefix, phrase in names.patterns:
        if name.startswith(prefix) and len(name) > len(prefix):
            return Word(name, Role.PROFILE, phrase, name[len(prefix) :])
    return None


def untranslated(name: str) -> str:
    """Return why a name that is known cannot be translated, as a clause; empty when it can or is not known."""
    return _load().untranslated.get(name, "")


def is_device_name(name: str) -> bool:
    """Return whether a resource name speaks of accelerators that Terrazzo places (so Kubernetes need not count it)."""
    return name.startswith(OURS) or lookup(name) is not None


@lru_cache(maxsize=256)
def nearest(name: str) -> str:
    """Return the known name that ``name`` was probably meant to be, or an empty string."""
    prefix, _, tail = name.partition("/")
    tails = {word.partition("/")[2]: word for word in _load().words if word.startswith(f"{prefix}/")}
    close = difflib.get_close_matches(tail, tails, n=1, cutoff=0.75)
    if close:
        return tails[close[0]]
    close = difflib.get_close_matches(name, _load().words, n=1, cutoff=0.9)
    return close[0] if close and not close[0].startswith(f"{prefix}/") else ""


@lru_cache(maxsize=1)
def vendors() -> tuple[str, ...]:
    """Return the vendors that have a table, in alphabetical order."""
    return tuple(sorted(_load().annotations))


def our_names() -> tuple[str, ...]:
    """Return our own resource names: count, memory, percentage, cores."""
    return tuple(name for name in _load().words if name.startswith(OURS))


def all_names() -> tuple[str, ...]:
    """Return every resource name that a table spells out, sorted."""
    return tuple(sorted(_load().words))


def prefixes() -> tuple[str, ...]:
    """Return what the names of slices begin with where a table gives a pattern (``nvidia.com/mig-``), sorted."""
    return tuple(sorted(prefix for prefix, _ in _load().patterns))


def annotations_of(vendor: str) -> VendorAnnotations:
    """Return the annotations of other planes that select ``vendor``'s devices."""
    return _load().annotations.get(vendor, VendorAnnotations())


@lru_cache(maxsize=1)
def pod_annotations() -> tuple[PodAnnotation, ...]:
    """Return the annotations of other planes about the pod as a whole."""
    return msgspec.convert(_read("annotations.toml")["annotation"], tuple[PodAnnotation, ...])


@lru_cache(maxsize=1)
def _dialects() -> dict[str, Dialect]:
    return {name: msgspec.convert({"name": name, **row}, Dialect) for name, row in _read("dialects.toml").items()}


def dialect(name: str) -> Dialect:
    """Return the dialect of that name."""
    return _dialects()[name]
