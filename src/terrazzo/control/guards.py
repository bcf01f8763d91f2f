"""Guards of what only our services write, as ValidatingAdmissionPolicies: they hold while no process of ours runs.

Pods' annotations of grants, nodes' inventories, our ResourceClaims and ResourceSlices. ``system:masters`` may do
anything, as everywhere in Kubernetes: whoever is in it could delete the policy first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from terrazzo.admission.guard import foreign_annotations, our_annotations
from terrazzo.dialects.readers.slices import DRIVER
from terrazzo.wire.state import ALLOCATION, INVENTORY

Object = dict[str, Any]

_REGISTRATION = "admissionregistration.k8s.io/v1"
_MASTERS = "system:masters"
_NODE_OF_TOKEN = "authentication.kubernetes.io/node-name"  # noqa: S105 - the name of a claim in a token
_CLEANERS = (
    "system:kube-controller-manager",
    "system:kube-scheduler",
    "system:apiserver",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
    "system:serviceaccount:kube-system:resource-claim-controller",
)
"""Parts of Kubernetes that take a claim back when its pod or namespace is gone. With one credential for all its
controllers, kube-controller-manager acts under the first name."""


class Accounts(Struct, frozen=True, kw_only=True):
    """User names of our services."""

    scheduler: str
    controller: str
    agent: str

    @classmethod
    def of(cls, namespace: str) -> Accounts:
        """Return the chart's service accounts in a namespace."""
        names = (f"system:serviceaccount:{namespace}:terrazzo-{each}" for each in ("scheduler", "controller", "agent"))
        scheduler, controller, agent = names
        return cls(scheduler=scheduler, controller=controller, agent=agent)

    @property
    def all(self) -> tuple[str, ...]:
        """Every one of them."""
        return self.scheduler, self.controller, self.agent


def guards(accounts: Accounts) -> list[Object]:
    """Return every policy with its binding."""
    made = (_pods(accounts), _foreign(), _nodes(accounts), _claims(accounts), _slices(accounts))
    return [each for policy in made for each in (policy, _binding(policy))]


def _pods(accounts: Accounts) -> Object:
    """Guard grants on pods. A Binding's annotations become the pod's, and a status may carry annotations along."""
    variables = {**_trusted(accounts.all), **_annotations(), "guarded": json.dumps(list(our_annotations()))}
    changed = f"variables.guarded.filter(k, {_differs('k')})"
    return _policy(
        "terrazzo-guard-pods",
        [
            _rule("", ["CREATE", "UPDATE"], ["pods", "pods/status", "pods/ephemeralcontainers", "pods/resize"]),
            _rule("", ["CREATE"], ["pods/binding", "bindings"]),
        ],
        {**variables, "changed": changed},
        "variables.trusted || size(variables.changed) == 0",
        "'metadata.annotations[' + variables.changed[0] + '] is written by the scheduler alone; leave it as it is'",
    )


def _foreign() -> Object:
    """Guard other planes' grants: whoever may change nodes is infrastructure, and its business is not ours."""
    tests = " || ".join(f"k.matches({json.dumps(_pattern(glob))})" for glob in foreign_annotations())
    both = "(variables.after.map(k, k) + variables.before.map(k, k))"
    changed = f"{both}.filter(k, ({tests}) && {_differs('k')})"
    return _policy(
        "terrazzo-guard-foreign-grants",
        [_rule("", ["UPDATE"], ["pods"])],
        {**_annotations(), "changed": changed},
        "size(variables.changed) == 0 || authorizer.group('').resource('nodes').check('patch').allowed()",
        "'metadata.annotations[' + variables.changed[0] + '] is written by a scheduler alone; leave it as it is'",
    )


def _nodes(accounts: Accounts) -> Object:
    """Guard inventories. An agent speaks of its own node only: nothing else binds a service account to a node."""
    variables = {
        **_trusted((accounts.scheduler, accounts.controller)),
        **_agent(accounts),
        **_annotations(),
        "unchanged": f"!({_differs(json.dumps(INVENTORY))})",
    }
    return _policy(
        "terrazzo-guard-nodes",
        [_rule("", ["CREATE", "UPDATE"], ["nodes", "nodes/status"])],
        variables,
        "variables.unchanged || variables.trusted || variables.agentOf == object.metadata.name",
        f"'metadata.annotations[{INVENTORY}] is written by the agent of node ' + object.metadata.name + ' alone'",
    )


def _claims(accounts: Accounts) -> Object:
    """Guard claims that stand for grants of ours, and the mark by which they are known."""
    mark = json.dumps(ALLOCATION)
    variables = {
        **_trusted((*accounts.all, *_CLEANERS)),
        **_annotations(),
        "ours": f"{mark} in variables.before || {mark} in variables.after",
    }
    return _policy(
        "terrazzo-guard-claims",
        [
            _rule(
                "resource.k8s.io", ["CREATE", "UPDATE", "DELETE"], ["resourceclaims", "resourceclaims/status"],
                versions=["*"],
            )
        ],
        variables,
        "!variables.ours || variables.trusted",
        "'this ResourceClaim is the receipt of what a pod holds, and Terrazzo alone writes it; delete the pod instead'",
    )  # fmt: skip


def _slices(accounts: Accounts) -> Object:
    """Guard what a node is said to have. Kubelet removes its node's slices, and the collector those of a lost node."""
    one = "(object != null ? object : oldObject)"
    deleted = (
        "request.operation == 'DELETE' && (request.userInfo.username == "
        f"'system:node:' + (has({one}.spec.nodeName) ? {one}.spec.nodeName : ''))"
    )
    variables = {
        **_trusted((accounts.scheduler, accounts.controller, *_CLEANERS)),
        **_agent(accounts),
        "ours": f"{one}.spec.driver == {json.dumps(DRIVER)} || "
        f"(oldObject != null && oldObject.spec.driver == {json.dumps(DRIVER)})",
        "node": f"has({one}.spec.nodeName) ? {one}.spec.nodeName : ''",
        "cleaned": deleted,
    }
    return _policy(
        "terrazzo-guard-slices",
        [_rule("resource.k8s.io", ["CREATE", "UPDATE", "DELETE"], ["resourceslices"], versions=["*"])],
        variables,
        "!variables.ours || variables.trusted || variables.cleaned || "
        "(variables.agentOf != '' && variables.agentOf == variables.node)",
        "'ResourceSlices of ' + "
        + json.dumps(DRIVER)
        + " + ' for node ' + variables.node + ' are written by its agent alone'",
    )


# -- parts of policies -------------------------------------------------------------------------------------------


def _trusted(users: Iterable[str]) -> dict[str, str]:
    masters = f"(has(request.userInfo.groups) && {json.dumps(_MASTERS)} in request.userInfo.groups)"
    return {"trusted": f"request.userInfo.username in {json.dumps(list(users))} || {masters}"}


def _agent(accounts: Accounts) -> dict[str, str]:
    """The node that the caller's token is bound to, if the caller is an agent of ours; else empty."""
    key = json.dumps(_NODE_OF_TOKEN)
    bound = f"has(request.userInfo.extra) && {key} in request.userInfo.extra"
    agent = f"request.userInfo.username == {json.dumps(accounts.agent)}"
    return {"agentOf": f"({agent} && {bound}) ? request.userInfo.extra[{key}][0] : ''"}


def _annotations() -> dict[str, str]:
    return {
        name: f"({one} != null && has({one}.metadata) && has({one}.metadata.annotations)) ? "
        f"{one}.metadata.annotations : {{}}"
        for name, one in (("after", "object"), ("before", "oldObject"))
    }


def _differs(key: str) -> str:
    """Whether an annotation appeared, went or changed; an old object that is null has none."""
    now, then = f"{key} in variables.after", f"{key} in variables.before"
    return f"(({now}) != ({then}) || (({now}) && variables.after[{key}] != variables.before[{key}]))"


def _pattern(glob: str) -> str:
    """Return a glob with ``*`` as a regular expression of RE2."""
    return "^" + ".*".join(part.replace(".", "[.]") for part in glob.split("*")) + "$"


def _rule(group: str, operations: list[str], resources: list[str], versions: list[str] | None = None) -> Object:
    return {
        "apiGroups": [group],
        "apiVersions": versions or ["v1"],
        "operations": operations,
        "resources": resources,
        "scope": "*",
    }


def _policy(name: str, rules: list[Object], variables: dict[str, str], valid: str, sentence: str) -> Object:
    return {
        "apiVersion": _REGISTRATION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"matchPolicy": "Equivalent", "resourceRules": rules},
            "variables": [{"name": key, "expression": text} for key, text in variables.items()],
            "validations": [{"expression": valid, "messageExpression": sentence, "reason": "Forbidden"}],
        },
    }


def _binding(policy: Object) -> Object:
    name = policy["metadata"]["name"]
    return {
        "apiVersion": _REGISTRATION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
