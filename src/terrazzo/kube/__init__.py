"""The only room that talks to an API server.

Promise: typed errors, watches that notice silence, and no interpretation of what is read.
"""
