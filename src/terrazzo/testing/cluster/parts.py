"""Where the binaries of a Kubernetes lie: in the cache that ``tools/kube/build`` fills."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from terrazzo.model.errors import TerrazzoError

VERSIONS = ("1.37", "1.35")
"""Versions of Kubernetes that can be started; the first has both ledgers, the second only ``classic``."""

BUILD = Path(__file__).parents[4] / "tools" / "kube" / "build"


@cache
def part(name: str) -> Path:
    """Return the folder with the binaries of a part.

    Args:
        name: ``etcd``, ``kwok``, ``helm``, ``containerd`` or ``kubernetes-VERSION``.

    Raises:
        TerrazzoError: it is not built, there is no such part, or this is no checkout.
    """
    if not BUILD.exists():
        raise TerrazzoError("the parts of Kubernetes are built from a checkout, and this is none", where=str(BUILD))
    asked = subprocess.run([BUILD, "--where", name], capture_output=True, text=True, check=False)  # noqa: S603 - ours
    if asked.returncode:
        raise TerrazzoError(asked.stderr.strip().removesuffix("."), where="tools/kube/build")
    return Path(asked.stdout.strip())
