"""What a container gets: environment, mounts, CDI edits, limits file (not built yet).

Promise: a mirror of ``native/include``; a test compares the two layouts byte by byte.
"""
