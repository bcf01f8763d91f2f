"""Scenario files: a fleet, a workload and how long to watch, as people write them. Read strictly.

name: small
fleet:                                   # groups of like nodes; their order breaks ties
- {nodes: 4, vendor: nvidia, model: A100-80, devices: 8, cpu: 128, memory: 1Ti}
workload:                                # Poisson arrivals
  load: 0.9                              # devices' worth asked at once, as a part of the fleet; or perHour: 40
  until: 24h
  warm: 4h                               # does not count in the means
  classes:
  - {kind: training, weight: 1, whole: true, devices: 2, lifetime: {median: 2h, spread: 1.2}}
  - {kind: notebook, weight: 4, memory: 8Gi, cores: 10, lifetime: {philly: philly.csv, longest: 1d}}
pods:                                    # and pods at a given time
- {at: 10m, for: 1h, copies: 3, memoryPercent: 50, cores: 50}
policy: fragmentation
seed: 42
wait: true                               # false: who finds no room is rejected at once

In place of groups, ``fleet: {folder: DIR}`` takes the nodes of the openb trace. A workload may draw its pods from that
trace: ``openb: {folder: DIR, trace: default}``, with one ``lifetime`` for all. Times are numbers with s, m, h or d.
File names are relative to the scenario file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct, field, structs

from terrazzo.dialects import catalogue
from terrazzo.model.device import SharingMode
from terrazzo.model.errors import InputError
from terrazzo.model.node import Node
from terrazzo.model.quantity import memory_mib, milli
from terrazzo.model.request import Ask, ContainerRequest, Pattern, PodRequest
from terrazzo.model.unknown import Unknown
from terrazzo.simulator import openb, philly, policies
from terrazzo.simulator.generator import JobClass, Lifetimes, Lognormal, Measured, generate, rate_for
from terrazzo.simulator.runner import SimulationSpec
from terrazzo.simulator.workload import Arrival

Quantity = str | int | float
_MOST_DEVICES = 500_000
_MOST_PODS = 2_000_000
_TIME = re.compile(r"^(\d{1,9}(?:\.\d{1,6})?)\s*(s|m|h|d)?$")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


class _Strict(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    pass


class _Group(_Strict, frozen=True):
    nodes: int
    vendor: str
    model: str
    devices: int
    name: str = ""
    cpu: Quantity | None = None
    memory: Quantity | None = None
    mode: SharingMode | None = None
    labels: dict[str, str] = field(default_factory=dict)


class _Lifetime(_Strict, frozen=True):
    median: Quantity | None = None
    spread: float = 1.0
    philly: str = ""
    longest: Quantity | None = None


class _Work(_Strict, frozen=True):
    """What a class and a pod have in common."""

    kind: str = ""
    devices: int = 1
    whole: bool = False
    profile: str = ""
    memory: Quantity | None = None
    memory_percent: int = 0
    cores: int = 0
    vendors: tuple[str, ...] = ()
    model: str = ""
    cpu: Quantity = 0
    host_memory: Quantity = 0
    priority: int = 0
    exclusive: bool = False


class _Class(_Work, frozen=True, kw_only=True):
    weight: float = 1.0
    lifetime: _Lifetime


class _Pod(_Work, frozen=True):
    at: Quantity = 0
    for_: Quantity | None = field(default=None, name="for")
    copies: int = 1


class _Openb(_Strict, frozen=True):
    folder: str
    trace: str = "default"


class _Workload(_Strict, frozen=True):
    until: Quantity
    load: float | None = None
    per_hour: float | None = None
    warm: Quantity = 0
    classes: tuple[_Class, ...] = ()
    openb: _Openb | None = None
    lifetime: _Lifetime | None = None


class _File(_Strict, frozen=True):
    name: str
    fleet: tuple[_Group, ...] | _Openb
    workload: _Workload | None = None
    pods: tuple[_Pod, ...] = ()
    policy: str = "fragmentation"
    seed: int = 42
    wait: bool = True
    samples: int = 100


class Scenario(Struct, frozen=True, kw_only=True):
    """A scenario, ready to be run under any policy and seed.

    Attributes:
        name: its name.
        nodes: the fleet.
        classes: mix of the generator; empty when all pods are given.
        rate_per_s: arrivals per second.
        until_s: end of the run, None = when all is over.
        warm_s: time that does not count.
        pods: pods at given times.
        policy, seed: what the file says; callers may choose others.
        may_wait: whether pods may wait.
        samples: moments in the series.
        notes: what is modelled.
    """

    name: str
    nodes: tuple[Node, ...]
    classes: tuple[JobClass, ...] = ()
    rate_per_s: float = 0.0
    until_s: float | None = None
    warm_s: float = 0.0
    pods: tuple[Arrival, ...] = ()
    policy: str = "fragmentation"
    seed: int = 42
    may_wait: bool = True
    samples: int = 100
    notes: tuple[str, ...] = ()

    def spec(self, *, policy: str = "", seed: int | None = None) -> SimulationSpec:
        """Return what to simulate; the same seed submits the same pods whatever the policy."""
        chosen = self.seed if seed is None else seed
        made: tuple[Arrival, ...] = ()
        if self.classes and self.until_s is not None:
            rng = np.random.default_rng(chosen)
            made = generate(self.classes, rate_per_s=self.rate_per_s, until_s=self.until_s, rng=rng)
        return SimulationSpec(
            name=self.name,
            nodes=self.nodes,
            arrivals=(*self.pods, *made),
            policy=policy or self.policy,
            seed=chosen,
            until_s=self.until_s,
            warm_s=self.warm_s,
            may_wait=self.may_wait,
            samples=self.samples,
            notes=self.notes,
        )


def read(value: object, *, where: str = "scenario", folder: Path | None = None) -> Scenario:
    """Return the scenario that an already parsed document writes.

    Args:
        value: what the YAML or JSON parser returned.
        where: file, for messages.
        folder: what file names in it are relative to; None = the working directory.

    Raises:
        InputError: unknown field, wrong type, a value that makes no sense, a missing file; one sentence.
    """
    try:
        file = msgspec.convert(value, _File)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at ")
        place = path.strip("`").replace("$.", "").replace("$", "")
        raise InputError(what[:1].lower() + what[1:], where=f"{where}: {place}" if place else where) from None
    try:
        return _Reader(where, folder or Path()).scenario(file)
    except OverflowError:
        raise InputError("a number is too large", where=where) from None


class _Reader:
    def __init__(self, where: str, folder: Path) -> None:
        self.where = where
        self.folder = folder

    def error(self, what: str, path: str, remedy: str = "") -> InputError:
        return InputError(what, where=f"{self.where}: {path}", remedy=remedy)

    def scenario(self, file: _File) -> Scenario:
        policies.approach(file.policy)
        if file.seed < 0:
            raise self.error("the seed is negative", "seed", "write 0 or more")
        if not 1 <= file.samples <= 100_000:
            raise self.error(f"{file.samples} samples", "samples", "write 1 to 100000")
        nodes = self.fleet(file.fleet)
        pods = tuple(arrival for i, pod in enumerate(file.pods) for arrival in self.pods(pod, f"pods[{i}]"))
        if file.workload is None and not pods:
            raise self.error("submits nothing", "workload", "write a workload or pods")
        base = Scenario(
            name=file.name, nodes=nodes, pods=pods, policy=file.policy, seed=file.seed, may_wait=file.wait,
            samples=file.samples, notes=self.notes(file),
        )  # fmt: skip
        return base if file.workload is None else self.with_workload(base, file.workload)

    def notes(self, file: _File) -> tuple[str, ...]:
        notes = ["modelled: arrivals, lifetimes and sizes of pods; decided by the engine: where they land"]
        if file.workload is not None and file.workload.openb is not None:
            notes.append(f"sizes of pods: openb trace {file.workload.openb.trace} (alibaba/clusterdata v2023)")
        return tuple(notes)

    # -- fleet ---------------------------------------------------------------------------------------------------

    def fleet(self, fleet: tuple[_Group, ...] | _Openb) -> tuple[Node, ...]:
        if isinstance(fleet, _Openb):
            return openb.read_nodes(self.folder / fleet.folder / openb.NODES)
        if not fleet:
            raise self.error("there are no nodes", "fleet", "write at least one group of nodes")
        if sum(max(0, group.nodes) * max(1, group.devices) for group in fleet) > _MOST_DEVICES:
            raise self.error(f"more than {_MOST_DEVICES} devices", "fleet", "write fewer nodes")
        nodes = [node for i, group in enumerate(fleet) for node in self.group(group, i)]
        if len({node.name for node in nodes}) < len(nodes):
            raise self.error("two groups give their nodes the same names", "fleet", "give each group a name of its own")
        if not any(node.devices for node in nodes):
            raise self.error("has no device", "fleet", "write nodes with devices")
        return tuple(nodes)

    def group(self, group: _Group, number: int) -> list[Node]:
        path = f"fleet[{number}]"
        if group.nodes < 1 or not 0 <= group.devices <= 64:
            raise self.error("a group has at least one node and 0 to 64 devices on each", path)
        chip = catalogue.chip(group.vendor, group.model)
        if chip is None:
            known = ", ".join(each.model for each in catalogue.chips(group.vendor))
            remedy = f"write one of {known}" if known else f"the vendors are {', '.join(catalogue.VENDORS)}"
            raise self.error(f"there is no {group.vendor} {group.model!r}", f"{path}.model", remedy)
        cpu = None if group.cpu is None else self.amount(milli, group.cpu, f"{path}.cpu")
        memory = None if group.memory is None else self.amount(memory_mib, group.memory, f"{path}.memory")
        prefix = group.name or f"{chip.model.lower()}-{number}"
        nodes = []
        for index in range(group.nodes):
            name = f"{prefix}-{index:03d}"
            devices = tuple(
                catalogue.device(group.vendor, group.model, node=name, uuid=f"{name}-{i}", index=i, mode=group.mode)
                for i in range(group.devices)
            )
            if any(isinstance(device.memory_mib, Unknown) for device in devices):
                raise self.error(f"nobody knows the memory of {chip.model}", f"{path}.model")
            labels = dict(group.labels)
            nodes.append(Node(name=name, labels=labels, cpu_milli=cpu, memory_mib=memory, devices=devices))
        return nodes

    def amount(self, reader: Any, value: Quantity, path: str) -> int:
        try:
            amount = int(reader(value))
        except InputError as error:
            raise self.error(error.what, path, error.remedy) from None
        if not 0 <= amount < 1 << 50:
            raise self.error(f"{value} makes no sense", path, "write an amount such as 64 or 512Gi")
        return amount

    # -- work ----------------------------------------------------------------------------------------------------

    def with_workload(self, base: Scenario, workload: _Workload) -> Scenario:
        until_s, warm_s = self.time(workload.until, "workload.until"), self.time(workload.warm, "workload.warm")
        if not 0 <= warm_s < until_s:
            raise self.error("the warm-up lasts as long as the run", "workload.warm", "write less than until")
        classes = [self.job_class(each, f"workload.classes[{i}]") for i, each in enumerate(workload.classes)]
        if workload.openb is not None:
            lifetimes = self.lifetimes(workload.lifetime or _Lifetime(), "workload.lifetime")
            path = self.folder / workload.openb.folder / openb.PODS.format(trace=workload.openb.trace)
            classes.extend(openb.job_classes(openb.read_pods(path), lifetimes))
        if not classes:
            raise self.error("has no class of pods", "workload.classes", "write at least one, or openb")
        rate = self.rate(workload, classes, base.nodes)
        if rate * until_s > _MOST_PODS:
            raise self.error(f"would submit {rate * until_s:.0f} pods", "workload", f"stay below {_MOST_PODS}")
        return structs.replace(base, classes=tuple(classes), rate_per_s=rate, until_s=until_s, warm_s=warm_s)

    def rate(self, workload: _Workload, classes: Sequence[JobClass], nodes: Sequence[Node]) -> float:
        if (workload.load is None) == (workload.per_hour is None):
            raise self.error("needs one of load and perHour", "workload", "write load: 0.9, or perHour: 40")
        if workload.per_hour is not None:
            if not 0 < workload.per_hour < float("inf"):
                raise self.error(f"perHour is {workload.per_hour}", "workload.perHour", "write more than 0")
            return workload.per_hour / 3600
        if workload.load is None or not 0 < workload.load <= 100:
            raise self.error(f"load is {workload.load}", "workload.load", "write a part of the fleet, such as 0.9")
        rate = rate_for(classes, nodes, workload.load)
        if not rate:
            raise self.error(
                "no class says what share of a device it takes", "workload.load",
                "write whole, cores or memoryPercent in a class, or perHour instead of load",
            )  # fmt: skip
        return rate

    def job_class(self, each: _Class, path: str) -> JobClass:
        if not 0 < each.weight < float("inf"):
            raise self.error(f"weight is {each.weight}", f"{path}.weight", "write more than 0")
        return JobClass(each.kind, self.request(each, "", path), self.lifetimes(each.lifetime, f"{path}.lifetime"),
                        each.weight)  # fmt: skip

    def lifetimes(self, lifetime: _Lifetime, path: str) -> Lifetimes:
        if (lifetime.median is None) == (not lifetime.philly):
            raise self.error("needs one of median and philly", path, "write median: 2h, or philly: FILE")
        longest_s = float("inf") if lifetime.longest is None else self.time(lifetime.longest, f"{path}.longest")
        if lifetime.philly:
            return Measured(philly.read_lifetimes(self.folder / lifetime.philly), longest_s)
        median_s = self.time(lifetime.median or 0, f"{path}.median")
        if not 0 <= lifetime.spread <= 5 or not median_s:
            raise self.error("median is more than 0 and spread is 0 to 5", path)
        return Lognormal(median_s, lifetime.spread)

    def pods(self, pod: _Pod, path: str) -> list[Arrival]:
        if not 1 <= pod.copies <= 100_000:
            raise self.error(f"copies is {pod.copies}", f"{path}.copies", "write 1 to 100000")
        arrive_s = self.time(pod.at, f"{path}.at")
        duration_s = None if pod.for_ is None else self.time(pod.for_, f"{path}.for")
        prefix = f"pod-{path[5:-1]}-{pod.kind}".rstrip("-")
        return [
            Arrival(self.request(pod, f"{prefix}-{i}", path), arrive_s, duration_s, pod.kind) for i in range(pod.copies)
        ]

    def request(self, work: _Work, name: str, path: str) -> PodRequest:
        unknown = [vendor for vendor in work.vendors if vendor not in catalogue.VENDORS]
        if unknown:
            raise self.error(f"there is no vendor {unknown[0]!r}", f"{path}.vendors",
                             f"the vendors are {', '.join(catalogue.VENDORS)}")  # fmt: skip
        asks = (self.ask(work, path),) if work.devices else ()
        return PodRequest(
            name=name,
            containers=(ContainerRequest("main", asks=asks),),
            model=Pattern.parse(work.model),
            exclusive=work.exclusive,
            priority=work.priority,
            cpu_milli=self.amount(milli, work.cpu, f"{path}.cpu"),
            memory_mib=self.amount(memory_mib, work.host_memory, f"{path}.hostMemory"),
        )

    def ask(self, work: _Work, path: str) -> Ask:
        memory = 0 if work.memory is None else self.amount(memory_mib, work.memory, f"{path}.memory")
        if not 0 <= work.cores <= 100 or not 0 <= work.memory_percent <= 100 or not 0 <= work.devices <= 64:
            raise self.error("cores and memoryPercent are 0 to 100, devices 0 to 64", path)
        forms = sum(map(bool, (work.whole, work.profile, memory or work.memory_percent or work.cores)))
        if forms > 1 or (memory and work.memory_percent):
            raise self.error("mixes forms", path, "write one of whole, profile, or memory (memoryPercent) and cores")
        if work.profile:
            return Ask(count=work.devices, profile=work.profile, vendors=work.vendors)
        if not forms or work.whole:
            return Ask(count=work.devices, whole=True, vendors=work.vendors)
        percent = work.memory_percent or (0 if memory else work.cores)
        return Ask(count=work.devices, memory_mib=memory, memory_percent=percent, cores_percent=work.cores,
                   vendors=work.vendors)  # fmt: skip

    def time(self, value: Quantity, path: str) -> float:
        """Return seconds: ``90``, ``90s``, ``1.5h``, ``2d``."""
        match = _TIME.match(str(value).strip())
        if match is None:
            raise self.error(
                f"{str(value)[:40]!r} is not a time", path, "write a number with s, m, h or d, such as 90s"
            )
        return float(match[1]) * _SECONDS[match[2] or ""]
