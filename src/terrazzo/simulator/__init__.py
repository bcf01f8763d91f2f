"""Traces, a clock, scenarios and reports around the same engine and ledger that will run in a cluster.

Promise: the same seed gives the same bytes. What is modelled and what is measured is said in every report.
"""

from terrazzo.simulator.protocol import openb_runs

__all__ = ["openb_runs"]
