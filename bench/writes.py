"""Writes to the API server per pod that is placed, as its audit log counts them.

usage: bench/writes.py [--pods 200] [--version 1.37] [--quick] [--json]

Budget: 4 with ledger ``dra`` (claim, its status, the pod's status, binding), 1 with ``classic`` (binding), and one
more for a pod that is nominated. Pods come one after the other at first, then all at once, so that a backlog arises.
Leases and events are left out: they do not grow with each pod or are kube-scheduler's own.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import machine
import msgspec
import yaml
from msgspec import Struct, field

from terrazzo.kube.kinds import POD
from terrazzo.testing.builders import make_node
from terrazzo.testing.cluster.runs import Run
from terrazzo.testing.cluster.stack import Stack, pod_object

BUDGET = {"dra": 4, "classic": 1}
SHARE = {"terrazzo.io/gpu-memory": "8Gi", "terrazzo.io/gpu-cores": "10"}
WRITES = ("create", "update", "patch", "delete")
RESOURCES = ("pods", "resourceclaims")
NOMINATION = "patch pods/status by the reconciler"


class _Object(Struct):
    resource: str = ""
    subresource: str = ""


class _Line(Struct, rename="camel"):
    """One answered request."""

    verb: str = ""
    user_agent: str = ""
    object_ref: _Object = field(default_factory=_Object)


def policy(folder: Path) -> Path:
    """Write a policy by which each answered request is one line, and return the file."""
    rule = {"level": "Metadata", "omitStages": ["RequestReceived"]}
    path = folder / "audit.yaml"
    path.write_text(yaml.safe_dump({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [rule]}), "utf-8")
    return path


def counted(log: Path, skip: int) -> tuple[Counter[str], int]:
    """Return how often our services wrote what since so many lines, and the number of lines."""
    lines = log.read_bytes().splitlines()
    found: Counter[str] = Counter()
    for text in lines[skip:]:
        line = msgspec.json.decode(text, type=_Line)
        if not line.user_agent.startswith("terrazzo/") or line.verb not in WRITES:
            continue
        if line.object_ref.resource in RESOURCES:
            what = "/".join(filter(None, (line.object_ref.resource, line.object_ref.subresource)))
            who = "the reconciler" if "reconciler" in line.user_agent else "the extender"
            found[f"{line.verb} {what} by {who}"] += 1
    return found, len(lines)


def measure(version: str, ledger: str, pods: int) -> dict[str, Any]:
    """Return what was written for pods one by one, and for a backlog."""
    run = Run()
    log = run.folder / "audit.log"
    flags = [f"--audit-policy-file={policy(run.folder)}", f"--audit-log-path={log}"]
    with run, Stack(version, ledger=ledger, controllers=False, api_flags=flags, run=run) as stack:
        stack.add_nodes([make_node(f"node-{i}", devices=8) for i in range(20)])
        admin = stack.plane.admin
        _, lines = counted(log, 0)
        single = [f"single-{i}" for i in range(pods // 5)]
        for name in single:
            admin.create(POD, pod_object(name, SHARE), "default")
            stack.wait_bound([name])
        alone, lines = counted(log, lines)
        crowd = [f"crowd-{i}" for i in range(pods)]
        admin.create_all(POD, [pod_object(name, SHARE) for name in crowd], "default")
        stack.wait_bound(crowd, seconds=300)
        backlog, lines = counted(log, lines)
    nominations = backlog[NOMINATION]
    return {
        "single": round(alone.total() / len(single), 3),
        "backlog": round(backlog.total() / pods, 3),
        "backlog_without_nominations": round((backlog.total() - nominations) / pods, 3),
        "nominations": round(nominations / pods, 3),
        "budget": BUDGET[ledger],
        "what": dict(backlog),
    }


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pods", type=int, default=200)
    parser.add_argument("--version", default="1.37", help="of Kubernetes")
    parser.add_argument("--quick", action="store_true", help="few pods; writes no results")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args()
    if options.quick:
        options.pods = 50
    found = {ledger: measure(options.version, ledger, options.pods) for ledger in BUDGET}
    for ledger, part in found.items():
        print(
            f"{ledger:>8}: {part['single']} writes a pod (budget {part['budget']}); in a backlog "
            f"{part['backlog_without_nominations']}, and {part['nominations']} nominations (budget 1)"
        )
    body = {"kubernetes": options.version, "pods": options.pods, **found}
    machine.finish("writes", body, as_json=options.json, keep=not options.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
