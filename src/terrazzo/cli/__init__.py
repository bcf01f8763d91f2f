"""The ``terrazzo`` command.

Promise: bad input gives one sentence on stderr and exit code 2, never a traceback; answers go to stdout and
nothing else does. Heavy libraries are imported inside the command that needs them.
"""
