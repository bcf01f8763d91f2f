"""What the control service says of itself: one structured line per decision, and figures for Prometheus.

Names keep Prometheus' rules (base units, ``_total``, ``_seconds``). Nothing here has a label per pod or device: those
series belong to the nodes' agents.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from terrazzo import __version__
from terrazzo.control.books import Books
from terrazzo.model.device import Health

_BUCKETS = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.008, 0.015, 0.03, 0.1, 0.3, 1, 3, 10, 30)


def start_log(level: str = "info", *, form: str = "json") -> Any:
    """Return the logger of the service; lines go to standard error, as JSON or for a terminal."""
    number = logging.getLevelNamesMapping()[level.upper()]
    last: Any = structlog.processors.JSONRenderer() if form == "json" else structlog.dev.ConsoleRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    return structlog.get_logger(version=__version__)


class Figures:
    """Figures of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.took = Histogram(
            "terrazzo_extender_seconds",
            "Time of one call of kube-scheduler.",
            ["verb"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.decisions = Counter(
            "terrazzo_decisions_total",
            "Decisions, by what was asked and what came of it.",
            ["verb", "outcome"],
            registry=self.registry,
        )
        self.rejections = Counter(
            "terrazzo_rejections_total", "Nodes refused, by reason.", ["reason"], registry=self.registry
        )
        self.admission = Histogram(
            "terrazzo_admission_seconds",
            "Time of one admission review.",
            ["webhook"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.reviews = Counter(
            "terrazzo_admission_total", "Admission reviews.", ["webhook", "outcome"], registry=self.registry
        )
        self.troubles = Counter(
            "terrazzo_watch_troubles_total", "Watches that had to be mended.", ["kind"], registry=self.registry
        )
        self.mended = Counter(
            "terrazzo_mended_total", "What the reconciler put right, by kind.", ["what"], registry=self.registry
        )
        self.faults = Counter(
            "terrazzo_invariant_faults_total", "Times the books contradicted themselves.", registry=self.registry
        )
        self.leads = Gauge(
            "terrazzo_leader", "1 where this process does the reconciler's work.", registry=self.registry
        )

    def watch(self, books: Books) -> None:
        """Have totals of the books read whenever somebody asks."""
        self.registry.register(_Totals(books))

    def text(self) -> bytes:
        """Return all figures in Prometheus' text format."""
        return generate_latest(self.registry)


class _Totals(Collector):
    """Capacity and grants per vendor and model, added up when they are asked for."""

    def __init__(self, books: Books) -> None:
        self._books = books

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Yield totals."""
        labels = ["vendor", "model"]
        families = {
            "devices": GaugeMetricFamily("terrazzo_devices", "Devices, healthy or not.", labels=labels),
            "healthy": GaugeMetricFamily("terrazzo_devices_healthy", "Devices that take new grants.", labels=labels),
            "memory": GaugeMetricFamily("terrazzo_memory_bytes", "Memory of devices that say.", labels=labels),
            "granted": GaugeMetricFamily("terrazzo_memory_granted_bytes", "Memory granted.", labels=labels),
        }
        rows: dict[tuple[str, str], list[int]] = {}
        fleet = self._books.ledger.fleet
        for node in fleet.nodes():
            for view in fleet.devices(node.name):
                row = rows.setdefault((view.device.vendor, view.device.model or view.device.product), [0, 0, 0, 0])
                row[0] += 1
                row[1] += view.device.health is Health.HEALTHY
                row[2] += view.device.memory_mib if isinstance(view.device.memory_mib, int) else 0
        where = {(d.node, d.uuid): (d.vendor, d.model or d.product) for n in fleet.nodes() for d in n.devices}
        for allocation in fleet.allocations():
            for use in allocation.uses:
                key = where.get((allocation.node, use.uuid))
                if key is not None:
                    rows[key][3] += use.memory_mib
        for key, row in sorted(rows.items()):
            for family, value in zip(families.values(), (row[0], row[1], row[2] << 20, row[3] << 20), strict=True):
                family.add_metric(list(key), value)
        waiting = GaugeMetricFamily(
            "terrazzo_pods_waiting", "Pods that ask for devices and have no node.", labels=["standing"]
        )
        counts: dict[str, int] = {}
        for each in self._books.pods.values():
            counts[each.standing.value] = counts.get(each.standing.value, 0) + 1
        for standing, count in sorted(counts.items()):
            waiting.add_metric([standing], count)
        return (*families.values(), waiting)
