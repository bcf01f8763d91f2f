"""The only room that talks to an API server (not built yet).

Promise: typed errors, watches that notice silence, and no interpretation of what is read.
"""
