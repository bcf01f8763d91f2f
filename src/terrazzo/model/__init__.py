"""The vocabulary: quantities, devices, nodes, requests, allocations, reasons, errors.

Promise: values only. Everything here is frozen, has units in its name, does no I/O, reads no clock and
imports nothing of Terrazzo outside this room. Whoever holds a value of this room may share it freely.
"""
