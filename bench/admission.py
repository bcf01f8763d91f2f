"""What a decision of the admission webhook costs: review in, answer out, as the API server sends it.

usage: bench/admission.py [--reviews 20000] [--quick] [--json]

Budget: p99 of 5 ms. Pods of every vendor in our words and in theirs, with what others put into pods (sidecars, long
environments, managed fields), in a cluster of 5,000 nodes of five vendors. The ratio is to decoding the same review
into plain objects, which any webhook does at least. Budget and ratio are of processor time, because on a machine that
does other things the clock measures those, too; the clock's figures stand beside.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import machine

from terrazzo.admission import summarise
from terrazzo.control.webhook import Reviewed, Webhook
from terrazzo.dialects import catalogue
from terrazzo.model.node import Node
from terrazzo.model.policy import ImageRule, NamespacePolicy, Policy

BUDGET_MS = 5.0
CHIPS = (("nvidia", "A100-80"), ("ascend", "910B3"), ("cambricon", "MLU590"), ("hygon", "K100"), ("mthreads", "S4000"))
LIMITS: tuple[dict[str, Any], ...] = (
    {"terrazzo.io/gpu-memory": "8Gi", "terrazzo.io/gpu-cores": 30},
    {"terrazzo.io/gpu": 2},
    {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8000, "nvidia.com/gpucores": 25},
    {"huawei.com/Ascend910B3": 1, "huawei.com/Ascend910B3-memory": 8000},
    {"cambricon.com/vmlu": 1, "cambricon.com/mlu.smlu.vmemory": 30, "cambricon.com/mlu.smlu.vcore": 25},
    {"hygon.com/dcunum": 1, "hygon.com/dcumem": 8000, "hygon.com/dcucores": 25},
    {"mthreads.com/vgpu": 1, "mthreads.com/sgpu-memory": 16, "mthreads.com/sgpu-core": 4},
)


def webhook(nodes: int) -> Webhook:
    """Return the webhook of a large cluster with a policy that has rules to try."""
    made = []
    for number in range(nodes):
        vendor, model = CHIPS[number % len(CHIPS)]
        name = f"node-{number}"
        cards = tuple(catalogue.device(vendor, model, node=name, uuid=f"{name}/{i}", index=i) for i in range(8))
        made.append(Node(name=name, devices=cards))
    policy = Policy(
        scheduler="terrazzo",
        namespaces={f"team-{i}": NamespacePolicy(vendors=("nvidia",)) for i in range(200)},
        images=tuple(ImageRule(f"registry.example/{i}/*", ("nvidia",)) for i in range(50)),
    )
    fleet = summarise(made)
    return Webhook(lambda: policy, lambda: fleet, lambda _: False)


def review(number: int, chance: random.Random) -> bytes:
    """Return the review of a pod as controllers and meshes make them."""
    amounts = {"cpu": "2", "memory": "8Gi"}
    env = [{"name": f"SETTING_{i}", "value": "x" * chance.randrange(80)} for i in range(chance.randrange(60))]
    limits = {**amounts, **chance.choice(LIMITS)}
    main = {"name": "main", "image": "registry.example/app:1", "resources": {"limits": limits, "requests": limits}}
    others = [
        {"name": f"side-{i}", "image": "mesh:1", "resources": {"limits": amounts, "requests": amounts}, "env": env}
        for i in range(chance.randrange(4))
    ]
    fields = [{"manager": "controller", "operation": "Update", "fieldsV1": {f"f:field{i}": {} for i in range(80)}}]
    metadata = {"generateName": "web-7f9c-", "labels": {"app": "web"}, "managedFields": fields}
    spec = {"schedulerName": "default-scheduler", "containers": [{**main, "env": env}, *others]}
    request = {
        "uid": f"uid-{number}", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "operation": "CREATE",
        "namespace": f"team-{chance.randrange(400)}", "userInfo": {"username": "system:serviceaccount:kube-system:rs"},
        "object": {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec},
    }  # fmt: skip
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def timed(call: Callable[[bytes], object], bodies: list[bytes], clock: Callable[[], float]) -> list[float]:
    """Return the milliseconds of each call, sorted."""
    took = []
    for body in bodies:
        began = clock()
        call(body)
        took.append((clock() - began) * 1000)
    return sorted(took)


def at(took: list[float], share: float) -> float:
    """Return a quantile."""
    return round(took[min(len(took) - 1, int(len(took) * share))], 3)


def main() -> int:
    """Run, print, and return 1 over budget."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--reviews", type=int, default=20_000)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true", dest="as_json")
    options = parser.parse_args()
    chance = random.Random(1)  # noqa: S311 - the same pods in every run
    number = 2000 if options.quick else options.reviews
    hook = webhook(options.nodes)
    bodies = [review(i, chance) for i in range(number)]
    for body in bodies[:500]:
        answer: Reviewed = hook.admit(body)
        assert answer.decision.allowed, answer.decision.sentence
    gc.collect()
    plain = timed(json.loads, bodies, time.thread_time)
    took = timed(hook.admit, bodies, time.thread_time)
    wall = timed(hook.admit, bodies, time.perf_counter)
    result = {
        "reviews": number, "bytes_p50": sorted(map(len, bodies))[number // 2], "p50_ms": at(took, 0.5),
        "p99_ms": at(took, 0.99), "worst_ms": round(took[-1], 3), "budget_p99_ms": BUDGET_MS,
        "wall_p50_ms": at(wall, 0.5), "wall_p99_ms": at(wall, 0.99),
        "times_plain_decoding_p50": round(at(took, 0.5) / at(plain, 0.5), 2),
        "times_plain_decoding_p99": round(at(took, 0.99) / at(plain, 0.99), 2),
    }  # fmt: skip
    print(
        f"{number} reviews of {result['bytes_p50']} bytes, processor time: p50 {result['p50_ms']} ms, "
        f"p99 {result['p99_ms']} ms (budget {BUDGET_MS} ms), {result['times_plain_decoding_p50']} × plain decoding; "
        f"by the clock: p50 {result['wall_p50_ms']} ms, p99 {result['wall_p99_ms']} ms"
    )
    machine.finish("admission", result, as_json=options.as_json, keep=not options.quick)
    return int(took[int(number * 0.99)] > BUDGET_MS)


if __name__ == "__main__":
    sys.exit(main())
