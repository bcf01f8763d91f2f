"""The exporter of per-container use (not built yet).

Promise: unknown is absent, never 0; the same labels for every vendor.
"""
