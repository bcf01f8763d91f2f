"""What is registered with the API server: which objects our webhooks are asked about, and the guards that need none.

Pure: plain objects out. The conditions are made from the dialect tables, so that a pod which names nothing of ours
never reaches us, whatever the tables hold. Sources: Kubernetes reference of MutatingWebhookConfiguration,
ValidatingAdmissionPolicy and of CEL in Kubernetes, 1.35 and 1.37.

No namespace is exempt by its name. A pod of ``kube-system`` depends on us only if it names a part of a device, which
nothing that a cluster needs to come up does; a list of exempt namespaces would be a way around every guard for whoever
may write there. An administrator can take a namespace out by the label ``terrazzo.io/admission: ignore``, which
namespace users cannot set: for namespaces that another plane still serves during a move.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from terrazzo.admission.served import ours_alone, vendors_too
from terrazzo.control.guards import Accounts, guards
from terrazzo.dialects import names

Object = dict[str, Any]

MUTATING_NAME = "terrazzo"
VALIDATING_NAME = "terrazzo"
IGNORE_LABEL = "terrazzo.io/admission"
ADMIT, ADMIT_WHOLE, WARN = "/admit", "/admit-whole", "/warn"
_REGISTRATION = "admissionregistration.k8s.io/v1"
_FAIL_TIMEOUT_S = 5
_IGNORE_TIMEOUT_S = 2
"""A pod that need not wait for us must not wait long when packets to us are lost."""


class Endpoint(Struct, frozen=True, kw_only=True):
    """Where the API server finds the webhooks.

    Attributes:
        namespace: of the Service.
        service: name of the Service.
        url: base URL instead of a Service, for a server that the API server reaches without one.
        ca_bundle: base64 of the authorities' certificates; empty = written later by the service itself.
    """

    namespace: str = "terrazzo-system"
    service: str = "terrazzo-webhook"
    url: str = ""
    ca_bundle: str = ""

    def client_config(self, path: str) -> Object:
        """Return ``clientConfig`` for one path."""
        ca = {"caBundle": self.ca_bundle} if self.ca_bundle else {}
        if self.url:
            return {"url": self.url.rstrip("/") + path, **ca}
        return {"service": {"name": self.service, "namespace": self.namespace, "path": path, "port": 443}, **ca}


def objects(endpoint: Endpoint, accounts: Accounts, labels: Mapping[str, str] | None = None) -> list[Object]:
    """Return everything to register, guards first: they hold while no process of ours runs.

    Args:
        endpoint: where the webhooks are.
        accounts: user names of our services.
        labels: for every object.
    """
    made = [*guards(accounts), mutating(endpoint), validating(endpoint)]
    for each in made:
        each["metadata"]["labels"] = dict(labels or {})
    return made


def mutating(endpoint: Endpoint) -> Object:
    """Return the two webhooks about pods: one that fails closed, one that lets pass when nobody answers."""
    pods = _rule("", ["CREATE"], ["pods"])
    ours, vendors = names_in_pod(_only_we), names_in_pod(_vendors_too)
    return {
        "apiVersion": _REGISTRATION,
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": MUTATING_NAME},
        "webhooks": [
            _hook("admit.terrazzo.io", endpoint.client_config(ADMIT), [pods], "Fail", {"names-ours": ours}),
            _hook(
                "admit-whole.terrazzo.io", endpoint.client_config(ADMIT_WHOLE), [pods], "Ignore",
                {"names-whole-devices": vendors, "names-nothing-else-of-ours": f"!({ours})"},
            ),
        ],
    }  # fmt: skip


def validating(endpoint: Endpoint) -> Object:
    """Return the webhook about workloads. It only warns, so people alone are worth asking for."""
    either = f"({names_in(_TEMPLATE, _only_we)}) || ({names_in(_TEMPLATE, _vendors_too)})"
    conditions = {
        "written-by-hand": "!has(object.metadata.ownerReferences)",
        "says-something-new": "oldObject == null || object.spec != oldObject.spec",
        "has-a-template": f"has({_TEMPLATE}.containers)",
        "names-devices": either,
    }
    rules = [
        _rule("apps", ["CREATE", "UPDATE"], ["deployments", "statefulsets", "daemonsets", "replicasets"]),
        _rule("batch", ["CREATE", "UPDATE"], ["jobs", "cronjobs"]),
    ]
    hook = _hook("warn.terrazzo.io", endpoint.client_config(WARN), rules, "Ignore", conditions)
    return {
        "apiVersion": _REGISTRATION,
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": VALIDATING_NAME},
        "webhooks": [hook],
    }


_TEMPLATE = "(has(object.spec.jobTemplate) ? object.spec.jobTemplate.spec.template.spec : object.spec.template.spec)"


def names_in_pod(test: str) -> str:
    """Return the CEL expression that is true where a pod names a resource that passes ``test`` (about ``k``)."""
    return names_in("object.spec", test)


def names_in(spec: str, test: str) -> str:
    """Return the CEL expression for any pod spec: containers and init containers, limits and requests."""
    amounts = " || ".join(
        f"(has(c.resources) && has(c.resources.{part}) && c.resources.{part}.exists(k, {test}))"
        for part in ("limits", "requests")
    )
    lists = (f"{spec}.containers", f"{spec}.initContainers")
    return " || ".join(f"(has({each}) && {each}.exists(c, {amounts}))" for each in lists)


def _among(exact: Iterable[str], prefixes: Iterable[str]) -> str:
    """Return a test of ``k``. The first part spares ordinary names (cpu, memory) the long list."""
    starts = " || ".join(f"k.startsWith({json.dumps(prefix)})" for prefix in prefixes)
    return f"k.contains('/') && ({starts} || k in {json.dumps(list(exact))})"


_only_we = _among(ours_alone(), (names.OURS,))
_vendors_too = _among(vendors_too(), names.prefixes())


def _rule(group: str, operations: list[str], resources: list[str]) -> Object:
    return {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "operations": operations,
        "resources": resources,
        "scope": "Namespaced",
    }


def _hook(
    name: str, client: Object, rules: list[Object], policy: str, conditions: Mapping[str, str]
) -> Object:  # fmt: skip
    hook: Object = {
        "name": name,
        "clientConfig": client,
        "rules": rules,
        "matchPolicy": "Equivalent",
        "failurePolicy": policy,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": _FAIL_TIMEOUT_S if policy == "Fail" else _IGNORE_TIMEOUT_S,
        "namespaceSelector": {"matchExpressions": [{"key": IGNORE_LABEL, "operator": "NotIn", "values": ["ignore"]}]},
        "objectSelector": {},
        "matchConditions": [{"name": key, "expression": text} for key, text in conditions.items()],
    }
    if name != "warn.terrazzo.io":
        # Another webhook may add a container after us.
        hook["reinvocationPolicy"] = "IfNeeded"
    return hook
