"""The node service: inventory, DRA driver, device plugin, health.

Promise: a container gets exactly what the ledger granted it, or does not start.
"""
