"""The engine: fleet columns, fit, score, preemption, ledger, explanation, invariants.

Promise: pure and deterministic. The same fleet, events and requests give the same decisions; there is no clock,
no randomness, no I/O and no logging here. Every grant can be undone, a pod is placed whole or not at all, and
``invariants.check`` holds after every step.
"""
