"""Terrazzo: a resource plane for shared accelerators in Kubernetes.

The package itself promises nothing but its version; each room below states its own promise.
"""

__version__ = "0.1.0"
