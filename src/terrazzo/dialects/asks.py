"""One container's words become asks: the rules for what is said, half said and not said.

Our own dialect: count alone is whole devices; memory without cores reserves no compute; cores without memory takes
the same share of memory; memory or cores without count is one device; memory beats percentage. Other dialects differ
only in the rows of ``names/dialects.toml`` and in the marks of their phrases.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from terrazzo.dialects.amounts import amount_of
from terrazzo.dialects.names import Dialect, Phrase, Role, Word, dialect
from terrazzo.dialects.notes import Notes
from terrazzo.model.request import Ask

SEAT_PERCENT = 1
"""A seat on a time-sliced device has no size; it is booked as this much of the memory."""


class Spoken(NamedTuple):
    """One name with its value, and where it stands."""

    word: Word
    value: str | float
    notes: Notes


class Asked(NamedTuple):
    """The asks of one container.

    Attributes:
        asks: one per phrase or profile.
        exclusive: the words say that nobody else may share the devices.
    """

    asks: tuple[Ask, ...]
    exclusive: bool


def asks_of(spoken: Iterable[Spoken], annotations: Mapping[str, str], notes: Notes) -> Asked:
    """Return what a container asks for.

    Args:
        spoken: every known name of the container with its value.
        annotations: of the pod.
        notes: the container.

    Raises:
        RequestError: a value that can never be valid, or words that cannot stand together.
    """
    said: dict[tuple[Phrase, str], dict[Role, int]] = {}
    words: dict[tuple[Phrase, str], list[str]] = {}
    for word, value, place in spoken:
        number = amount_of(word, value, dialect(word.phrase.dialect).clamp_cores, place)
        if word.role is Role.PRIORITY:
            place.warn("changes nothing about where the pod is placed")
        elif number:
            said.setdefault((word.phrase, word.profile), {})[word.role] = number
            words.setdefault((word.phrase, word.profile), []).append(word.name)
    asks, exclusive = [], False
    for (phrase, profile), numbers in said.items():
        if profile:
            ask, alone = Ask(count=numbers[Role.PROFILE], profile=profile), False
        else:
            ask, alone = _Phrasing(phrase, numbers, annotations, notes).ask()
        asks.append(_with_origin(ask, phrase, words[phrase, profile]))
        exclusive = exclusive or alone
    _may_stand_together(list(said), asks, notes)
    return Asked(tuple(asks), exclusive)


def _with_origin(ask: Ask, phrase: Phrase, words: list[str]) -> Ask:
    return Ask(
        count=ask.count,
        memory_mib=ask.memory_mib,
        memory_percent=ask.memory_percent,
        cores_percent=ask.cores_percent,
        whole=ask.whole,
        profile=ask.profile,
        vendors=(phrase.vendor,) if phrase.vendor else (),
        models=phrase.models,
        words=tuple(words),
    )


def _may_stand_together(said: list[tuple[Phrase, str]], asks: list[Ask], notes: Notes) -> None:
    families = {dialect(phrase.dialect).family: ask.words[0] for (phrase, _), ask in zip(said, asks, strict=True)}
    if len(families) > 1:
        one, other = list(families.values())[:2]
        raise notes.refusal(
            f"{one} and {other} are words of two dialects in one container", "say all of it in the words of one"
        )
    chosen = {ask.vendors: ask for ask in asks}
    if len(chosen) > 1 and any(not ask.whole and not ask.profile for ask in asks):
        names = " and ".join(ask.words[0] for ask in chosen.values())
        raise notes.refusal(
            f"{names} ask for slices of two vendors' devices in one container",
            "keep one vendor, or put each into a container of its own pod",
        )


class _Phrasing(NamedTuple):
    """The numbers that one phrase of one container gives; 0 and absent are the same."""

    phrase: Phrase
    numbers: dict[Role, int]
    annotations: Mapping[str, str]
    notes: Notes

    def ask(self) -> tuple[Ask, bool]:
        manners = dialect(self.phrase.dialect)
        count = self.numbers.get(Role.COUNT, 1)
        if self.phrase.share:
            self.notes.warn(
                f"{self.phrase.count} is a seat on a shared device, which has no size and is booked as "
                f"{SEAT_PERCENT} % of its memory",
                "say how much memory it needs",
            )
            return Ask(count=count, memory_percent=SEAT_PERCENT), False
        ask = self._fraction(count, manners)
        if ask.whole:
            return self._paired(ask), False
        if self.phrase.many_whole and count > 1:
            self.notes.warn(
                f"{self.phrase.count}: {count} gives whole devices, the amounts of memory and compute are not used",
                "ask for 1 device to get a slice",
            )
            return self._paired(Ask(count=count, whole=True)), False
        return ask, manners.full_cores_exclusive and ask.cores_percent == 100

    def _fraction(self, count: int, manners: Dialect) -> Ask:
        memory, percent = self._memory()
        cores = self._cores()
        if not memory and not percent and not cores:
            return Ask(count=count, whole=True)
        if not memory and not percent:
            percent = cores if manners.cores_alone == "share" else 100
        elif not cores:
            cores = self.phrase.cores_default_percent
        if manners.full_memory_whole and percent == 100 and cores in {0, 100}:
            return Ask(count=count, whole=True)
        return Ask(count=count, memory_mib=memory, memory_percent=percent, cores_percent=cores)

    def _memory(self) -> tuple[int, int]:
        memory = self.numbers.get(Role.MEMORY, 0)
        percent = self.numbers.get(Role.PERCENTAGE, 0)
        if memory and percent:
            self.notes.warn(
                f"{self.phrase.memory} and {self.phrase.percentage} are both given, the percentage is not used",
                "keep one of them",
            )
            percent = 0
        return memory, percent

    def _cores(self) -> int:
        cores = self.numbers.get(Role.CORES, 0)
        if cores and self.phrase.cores_need:
            key, value = self.phrase.cores_need
            if self.annotations.get(key) != value:
                self.notes.warn(f"{self.phrase.cores} is not used without the pod annotation {key}: {value}", "add it")
                return 0
        return cores

    def _paired(self, ask: Ask) -> Ask:
        if not self.phrase.pairs or ask.count % 2 == 0:
            return ask
        if ask.count > 1:
            raise self.notes.refusal(
                f"{self.phrase.count}: {ask.count} is odd, and its devices come in pairs", f"write {ask.count + 1}"
            )
        self.notes.warn(f"{self.phrase.count}: 1 becomes 2, its devices come in pairs", "write 2")
        return Ask(count=2, whole=True)
