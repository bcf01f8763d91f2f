"""Shapes of what crosses a process: narrow Kubernetes objects and our own written state, with their codecs.

Promise: decoding bytes gives a struct or one clear error with the place of the fault; nothing here interprets what
it decodes. Written state is JSON with ``"v": 1``; older versions are read, newer ones refused in a sentence.
"""
