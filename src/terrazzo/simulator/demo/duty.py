"""Models of sharing in time: who computes when, and what each then gets.

Nothing here is measured on a device. Each function says what it assumes; the demo prints it beside the figures.
"""

from __future__ import annotations

from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


def others_active(users_on_card: int, active: float) -> tuple[float, ...]:
    """Return the chance that an active user shares the card with 0, 1, 2, … other active users.

    Args:
        users_on_card: users whose notebooks lie on the same card.
        active: part of the time that each computes, independent of the others.
    """
    others = users_on_card - 1
    return tuple(comb(others, k) * active**k * (1 - active) ** (others - k) for k in range(others + 1))


class ActiveShare(NamedTuple):
    """What an active user gets: chances by number of users computing at once, and the mean part of a card."""

    alone: float
    by_two: float
    by_three_or_more: float
    mean_share: float


def active_share(users_per_card: list[int], active: float) -> ActiveShare:
    """Return what a user gets at a moment when they compute, averaged over all users.

    Cards are time-shared evenly among those who compute at once.

    Args:
        users_per_card: number of users on each card that has any.
        active: part of the time that each computes.
    """
    users = sum(users_per_card)
    chances = np.zeros(4)
    for count in users_per_card:
        weight = count / users
        for others, chance in enumerate(others_active(count, active)):
            chances[min(others, 2)] += weight * chance
            chances[3] += weight * chance / (1 + others)
    return ActiveShare(*(float(value) for value in chances))


class Deferral(NamedTuple):
    """A card with several replicas: its duty, what had to wait, and for how long."""

    duty: float
    deferred: float
    longest_wait_minutes: float
    memory_p95_mib: float


def deferral(duty: NDArray[np.float64], memory_mib: NDArray[np.float64]) -> Deferral:
    """Return what one card does with the compute that its replicas ask for minute by minute.

    A card does one minute of work a minute; what is asked beyond that waits its turn, first come first served, and
    nothing is lost. Slow-down by sharing caches and memory bandwidth is not modelled.

    Args:
        duty: minutes × replicas, the part of each minute that each replica would keep a card busy, 0..1.
        memory_mib: minutes × replicas, memory held.
    """
    asked = duty.sum(axis=1)
    backlog = 0.0
    late = 0.0
    longest = 0.0
    done = 0.0
    for demand in asked:
        served = min(1.0, backlog + demand)
        late += max(0.0, demand - max(0.0, 1.0 - backlog))
        backlog = backlog + demand - served
        longest = max(longest, backlog)
        done += served
    total = float(asked.sum())
    return Deferral(
        duty=done / len(asked),
        deferred=late / total if total else 0.0,
        longest_wait_minutes=longest,
        memory_p95_mib=float(np.quantile(memory_mib.sum(axis=1), 0.95)),
    )


def intermittent(minutes: int, replicas: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return made-up duty (minutes × replicas) of inference replicas that mostly wait.

    Two thirds of the minutes idle, bursts of some minutes, 7 % on average: the shape of what the public GenAI trace
    shows, for when that trace is not at hand.
    """
    stay_idle, stay_busy, mean_busy = 0.95, 0.9, 0.21
    busy = rng.random(replicas) < (1 - stay_idle) / ((1 - stay_idle) + (1 - stay_busy))
    duty = np.zeros((minutes, replicas))
    for minute in range(minutes):
        turn = rng.random(replicas)
        busy = np.where(busy, turn < stay_busy, turn >= stay_idle)
        duty[minute] = np.where(busy, np.minimum(1.0, rng.exponential(mean_busy, replicas)), 0.0)
    return duty


class Pace(NamedTuple):
    """Speed of two jobs against each having a card alone, and the cards they hold."""

    speed: float
    cards: int


def two_jobs(duty: float, way: str, steps: int, rng: np.random.Generator) -> float:
    """Return the mean speed of two training jobs on one card, 1 = as fast as alone.

    Each job alternates compute (needs the device) and other work (data, evaluation, checkpoints); compute takes
    ``duty`` of the time when the job is alone; phase lengths are exponential.

    Args:
        duty: part of the time a job alone keeps the device busy, 0..1.
        way: ``exclusive`` (a card each), ``hard`` (never more than half the compute), ``burst`` (half is a floor,
            idle compute may be used).
        steps: compute phases of each job to follow.
        rng: source of the phase lengths.
    """
    compute = rng.exponential(duty, (2, steps))
    other = rng.exponential(1 - duty, (2, steps))
    if way == "exclusive":
        return 1.0
    if way == "hard":
        alone = compute.sum() + other.sum()
        return float(alone / (2 * compute.sum() + other.sum()))
    return _shared_speed(compute, other)


def _shared_speed(compute: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    step = [0, 0]
    computing = [True, True]
    left = [float(compute[0, 0]), float(compute[1, 0])]
    clock = done = 0.0
    while True:
        rate = [(0.5 if all(computing) else 1.0) if computing[job] else 1.0 for job in (0, 1)]
        job = 0 if left[0] / rate[0] <= left[1] / rate[1] else 1
        span = left[job] / rate[job]
        for each in (0, 1):
            left[each] -= span * rate[each]
            done += span * rate[each]
        clock += span
        if computing[job]:
            computing[job], left[job] = False, float(other[job, step[job]])
        else:
            step[job] += 1
            if step[job] == compute.shape[1]:
                return done / (2 * clock)
            computing[job], left[job] = True, float(compute[job, step[job]])
