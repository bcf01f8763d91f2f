"""Traces, a clock, scenarios and reports around the same engine and ledger that will run in a cluster.

Promise: the same seed gives the same bytes. What is modelled and what is measured is said in every report.
"""

from terrazzo.simulator.protocol import openb_runs
from terrazzo.simulator.report import Report
from terrazzo.simulator.runner import SimulationSpec, simulate
from terrazzo.simulator.workload import Arrival, Progress

__all__ = ["Arrival", "Progress", "Report", "SimulationSpec", "openb_runs", "simulate"]
