"""The JSON API and the built web page (not built yet).

Promise: shows what the ledger and the agents say, with its age, and computes nothing of its own.
"""
