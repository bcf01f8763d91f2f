"""Reader of the openb trace, and the order of arrivals of the protocol that its published figures come from.

Source of the data: github.com/alibaba/clusterdata, cluster-trace-gpu-v2023. Source of the protocol: Q. Weng et al.,
"Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX ATC 2023, and
its simulator, github.com/hkust-adsl/kubernetes-scheduler-simulator.

The trace states no memory sizes of its devices and asks for thousandths of a device: every device is given 1000 parts
of memory here, and a pod asks for the same percentage of memory and of compute.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from terrazzo.model.device import Device
from terrazzo.model.errors import InputError
from terrazzo.model.node import Node
from terrazzo.model.request import Ask, ContainerRequest, Pattern, PodRequest
from terrazzo.simulator.generator import JobClass, Lifetimes

MEMORY_PARTS = 1000
NODES = "openb_node_list_gpu_node.csv"
PODS = "openb_pod_list_{trace}.csv"
_ORDER_SEED = 10_000
_HUGE = 1 << 40


class TracePod(NamedTuple):
    """One line of a pod list.

    Attributes:
        cpu_milli, memory_mib: of the host.
        devices: how many.
        milli: thousandths of each device; 1000 is a whole one, 0 for a pod without devices.
        models: allowed models; empty = any.
        life_s: seconds between creation and deletion, None where the list has no times.
    """

    cpu_milli: int
    memory_mib: int
    devices: int
    milli: int
    models: tuple[str, ...] = ()
    life_s: int | None = None

    @property
    def demand_milli(self) -> int:
        """Thousandths of devices in total."""
        return self.devices * self.milli

    def request(self, name: str) -> PodRequest:
        """Return the pod as the engine knows it."""
        asks: tuple[Ask, ...] = ()
        if self.devices:
            percent = -(-self.milli // 10)
            whole = self.milli >= 1000
            asks = (
                Ask(count=self.devices, whole=True)
                if whole
                else Ask(count=self.devices, memory_percent=percent, cores_percent=percent),
            )
        return PodRequest(
            name=name,
            namespace="openb",
            containers=(ContainerRequest("main", asks=asks),),
            model=Pattern(include=self.models),
            cpu_milli=self.cpu_milli,
            memory_mib=self.memory_mib,
        )


def read_nodes(path: Path) -> tuple[Node, ...]:
    """Return the nodes of a node list, in its order.

    Raises:
        InputError: the file is missing, or a row is not what it should be; with file and line.
    """
    nodes = []
    seen: set[str] = set()
    for where, row in _rows(path, ("sn", "cpu_milli", "memory_mib", "gpu", "model")):
        name = row["sn"]
        if not name or name in seen:
            what = f"node {name} is listed twice" if name else "the node has no name"
            raise InputError(what, where=where, remedy="give every node a name of its own in column sn")
        seen.add(name)
        count = _number(row, "gpu", where, most=64)
        if count and not row["model"]:
            raise InputError("the node has devices but no model", where=where, remedy="write one in column model")
        devices = tuple(
            Device(
                node=name, uuid=f"{name}-{index}", vendor="nvidia", model=row["model"], index=index,
                memory_mib=MEMORY_PARTS,
            )
            for index in range(count)
        )  # fmt: skip
        cpu, memory = _number(row, "cpu_milli", where), _number(row, "memory_mib", where)
        nodes.append(Node(name=name, cpu_milli=cpu, memory_mib=memory, devices=devices))
    if not any(node.devices for node in nodes):
        raise InputError("lists no device", where=str(path))
    return tuple(nodes)


def read_pods(path: Path) -> tuple[TracePod, ...]:
    """Return the pods of a pod list, in its order.

    Raises:
        InputError: the file is missing, or a row is not what it should be; with file and line.
    """
    pods = []
    for where, row in _rows(path, ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")):
        devices = _number(row, "num_gpu", where, most=64)
        milli = 0
        if devices:
            milli = _number(row, "gpu_milli", where, most=1000) if row["gpu_milli"] else 1000
            if not milli:
                raise InputError("asks for devices but for nothing of them", where=where, remedy="write 1 to 1000")
        models = tuple(word for word in (row.get("gpu_spec") or "").split("|") if word)
        cpu, memory = _number(row, "cpu_milli", where), _number(row, "memory_mib", where)
        pods.append(TracePod(cpu, memory, devices, milli, models if devices else (), _life(row, where)))
    if not any(pod.devices for pod in pods):
        raise InputError("lists no pod that asks for a device", where=str(path))
    return tuple(pods)


def _life(row: dict[str, str], where: str) -> int | None:
    if not row.get("creation_time") or not row.get("deletion_time"):
        return None
    return max(0, _number(row, "deletion_time", where) - _number(row, "creation_time", where))


def _rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each row with ``file:line``, after checking that the columns are there."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, strict=True)
            missing = [column for column in columns if column not in (reader.fieldnames or ())]
            if missing:
                raise InputError(
                    f"has no column {' and no column '.join(missing)}",
                    where=f"{path}:1",
                    remedy=f"the first line must name {', '.join(columns)}",
                )
            for row in reader:
                where = f"{path}:{reader.line_num}"
                if None in row or None in row.values():
                    raise InputError("has another number of fields than the first line", where=where)
                yield where, row
    except OSError as error:
        remedy = "give the folder that holds the openb CSV files"
        raise InputError(f"cannot be read ({error.strerror})", where=str(path), remedy=remedy) from None
    except UnicodeDecodeError:
        raise InputError("is not UTF-8 text", where=str(path)) from None
    except csv.Error as error:
        raise InputError(f"is not CSV ({error})", where=str(path)) from None


def _number(row: dict[str, str], column: str, where: str, *, most: int = _HUGE) -> int:
    text = row[column].strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        shown = text if len(text) < 40 else f"{text[:40]}…"
        raise InputError(f"{column} is {shown!r}", where=where, remedy=f"write a whole number from 0 to {most}")
    number = int(text)
    if number > most:
        raise InputError(f"{column} is {number}", where=where, remedy=f"write at most {most}")
    return number


def job_classes(pods: Sequence[TracePod], lifetimes: Lifetimes) -> tuple[JobClass, ...]:
    """Return the distinct pods of a trace as classes for the generator, as frequent as they are in the trace.

    Those with more than one device or whole ones count as training, shares as inference, the rest as host work.
    """
    counts = Counter(pod._replace(life_s=None) for pod in pods)
    return tuple(
        JobClass(_kind(pod), pod.request(""), lifetimes, float(counts[pod]))
        for pod in sorted(counts, key=lambda pod: (-counts[pod], pod[:5]))
    )


def _kind(pod: TracePod) -> str:
    if not pod.devices:
        return "host"
    return "training" if pod.milli >= 1000 else "inference"


def node_order(nodes: Sequence[Node], seed: int) -> tuple[Node, ...]:
    """Return the nodes in the order in which ties are broken in the run of that seed.

    The published simulator prefixes node names with random digits and breaks ties by name: one fixed random order.
    """
    rank = np.random.default_rng(seed + _ORDER_SEED).permutation(len(nodes))
    return tuple(nodes[i] for i in np.argsort(rank))


def sequence(pods: Sequence[TracePod], capacity_milli: int, tune: float, seed: int) -> tuple[int, ...]:
    """Return indices into ``pods`` in the order of arrival.

    All pods once, shuffled; then pods are dropped, or copies drawn with replacement, until what is asked for is
    ``tune`` times what there is.

    Args:
        pods: of the trace; at least one asks for a device.
        capacity_milli: thousandths of devices in the fleet.
        tune: wanted demand as a multiple of capacity; 0 leaves the trace as it is.
        seed: of the shuffle and the draws.
    """
    rng = np.random.default_rng(seed)
    order = [int(index) for index in rng.permutation(len(pods))]
    if tune <= 0:
        return tuple(order)
    asked = sum(pod.demand_milli for pod in pods)
    limit = tune * capacity_milli
    while asked > limit:
        dropped = order.pop(int(rng.integers(len(order))))
        asked -= pods[dropped].demand_milli
    while True:
        drawn = int(rng.integers(len(pods)))
        if asked + pods[drawn].milli > limit:
            return tuple(order)
        order.append(drawn)
        asked += pods[drawn].demand_milli
