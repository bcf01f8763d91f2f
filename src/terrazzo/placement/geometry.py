"""States of a device that is cut on demand, and where on it the next slice goes.

A state is one integer. Where position matters (MIG) it is the bit mask of slots in use; where it does not (Ascend
templates) it is the number of slots in use. Both fit a small table, so a whole column of devices is looked up at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from terrazzo.model.allocation import Slice
from terrazzo.model.device import Geometry, Profile

STATES = 256
"""Length of every state table; enough for masks over eight slots and for counts up to 255."""


class Cuts:
    """A geometry, compiled.

    Attributes:
        geometry: the table it was compiled from.
        positional: whether slots have positions (MIG) or are only counted (templates).
    """

    def __init__(self, geometry: Geometry) -> None:
        self.geometry = geometry
        self.positional = any(profile.starts for profile in geometry.profiles)
        self._by_name = {profile.name: profile for profile in geometry.profiles}

    def profile(self, name: str) -> Profile | None:
        """Return the profile of that name or alias."""
        return self._by_name.get(name) or self.geometry.profile(name)

    def mask(self, cut: Slice) -> int:
        """Return what ``cut`` adds to the state: bits where position matters, else a number of slots."""
        size = self._by_name[cut.profile].size
        return ((1 << size) - 1) << cut.start if self.positional else size

    def take(self, state: int, cut: Slice) -> int:
        """Return the state with ``cut`` added."""
        return state | self.mask(cut) if self.positional else state + self.mask(cut)

    def give(self, state: int, cut: Slice) -> int:
        """Return the state without ``cut``; the exact inverse of ``take``."""
        return state & ~self.mask(cut) if self.positional else state - self.mask(cut)

    def legal(self, state: int, cut: Slice) -> bool:
        """Return whether ``cut`` may be added to ``state``."""
        profile = self._by_name.get(cut.profile)
        if profile is None:
            return False
        if self.positional:
            return cut.start in profile.starts and not state & self.mask(cut)
        return cut.start < 0 and state + profile.size <= self.geometry.slots

    def starts(self, profile: Profile, state: int) -> tuple[int, ...]:
        """Return the first slots where ``profile`` may go now; ``(-1,)`` where position does not matter."""
        if not self.positional:
            return (-1,) if state + profile.size <= self.geometry.slots else ()
        block = (1 << profile.size) - 1
        return tuple(start for start in profile.starts if not state & (block << start))

    def best_start(self, profile: Profile, state: int, popularity: Mapping[str, int]) -> int | None:
        """Return the start that keeps most of the popular profiles placeable, or None when there is none.

        Profiles that nobody asked for yet count by the square of their size, so that rare large starts (4g only at
        0) stay free. Ties go to the highest start.
        """
        best, best_worth = None, -1
        for start in self.starts(profile, state):
            after = self.take(state, Slice(profile.name, start))
            worth = sum(
                (popularity.get(other.name, 0) * 1000 + other.size**2) * len(self.starts(other, after))
                // max(1, len(other.starts))
                for other in self.geometry.profiles
            )  # fmt: skip
            if worth >= best_worth:
                best, best_worth = start, worth
        return best

    def smallest(self, memory_mib: int, units: int) -> Profile | None:
        """Return the smallest profile that covers both amounts; equality covers."""
        fitting = [p for p in self.geometry.profiles if p.memory_mib >= memory_mib and p.units >= units]
        return min(fitting, key=lambda p: (p.size, p.memory_mib, p.units), default=None)

    @lru_cache(maxsize=512)  # noqa: B019 - Cuts themselves are cached for the life of the process
    def placeable(self, profile_name: str) -> NDArray[np.bool_]:
        """Return, for each state, whether the profile can still be placed. Shape (STATES,)."""
        profile = self._by_name[profile_name]
        table = np.zeros(STATES, dtype=bool)
        top = 1 << self.geometry.slots if self.positional else self.geometry.slots + 1
        for state in range(min(top, STATES)):
            table[state] = bool(self.starts(profile, state))
        return table

    def following(self, profile: Profile, popularity: Mapping[str, int]) -> NDArray[np.int64]:
        """Return, for each state, the state after placing the profile at its best start (same state if impossible)."""
        return self._following(profile.name, tuple(sorted(popularity.items())))

    @lru_cache(maxsize=512)  # noqa: B019 - as above
    def _following(self, profile_name: str, popularity: tuple[tuple[str, int], ...]) -> NDArray[np.int64]:
        profile, asked = self._by_name[profile_name], dict(popularity)
        table = np.arange(STATES, dtype=np.int64)
        for state in np.flatnonzero(self.placeable(profile_name)):
            start = self.best_start(profile, int(state), asked)
            if start is not None:
                table[state] = self.take(int(state), Slice(profile_name, start))
        return table


@lru_cache(maxsize=256)
def cuts_of(geometry: Geometry) -> Cuts:
    """Return the compiled form of ``geometry``."""
    return Cuts(geometry)
