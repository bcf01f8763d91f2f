"""What is registered: for every name of every vendor, and nowhere wider than the tables; the conditions themselves are
evaluated by real API servers in ``tests/cluster/test_admission.py``."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from terrazzo.admission.guard import foreign_annotations, our_annotations
from terrazzo.admission.served import ours_alone, served_by_vendors, vendors_too
from terrazzo.control.guards import Accounts, guards
from terrazzo.control.registration import Endpoint, mutating, names_in, objects, validating
from terrazzo.dialects import names

ROOT = Path(__file__).parents[3]
ACCOUNTS = Accounts.of("gpu")
AT = Endpoint(namespace="gpu", ca_bundle="Zm9v")


def conditions(hook: dict[str, Any]) -> str:
    return " ".join(each["expression"] for each in hook["matchConditions"])


def test_every_known_name_belongs_to_exactly_one_webhook() -> None:
    ours = {name for name in names.all_names() if name.startswith(names.OURS)}
    assert {*ours_alone(), *vendors_too(), *ours} == set(names.all_names())
    assert not set(ours_alone()) & set(vendors_too())
    assert not any(served_by_vendors(name) for name in ours)


@pytest.mark.parametrize("vendor", names.vendors())
def test_whole_devices_of_every_vendor_depend_on_nobody(vendor: str) -> None:
    counts = [name for name in vendors_too() if _vendor(name) == vendor]
    assert counts
    admit, whole = mutating(AT)["webhooks"]
    assert (admit["failurePolicy"], whole["failurePolicy"]) == ("Fail", "Ignore")
    for name in counts:
        assert json.dumps(name) in whole["matchConditions"][0]["expression"]
        assert json.dumps(name) not in conditions(admit)
    for name in (name for name in ours_alone() if _vendor(name) == vendor):
        assert json.dumps(name) in conditions(admit)
        assert json.dumps(name) not in whole["matchConditions"][0]["expression"]


def _vendor(name: str) -> str:
    word = names.lookup(name)
    assert word is not None
    return word.phrase.vendor


def test_slices_named_by_a_pattern_are_matched_by_what_they_begin_with() -> None:
    _, whole = mutating(AT)["webhooks"]
    for prefix in names.prefixes():
        assert f"k.startsWith({json.dumps(prefix)})" in whole["matchConditions"][0]["expression"]
        assert served_by_vendors(f"{prefix}x")
        assert not served_by_vendors(prefix)


def test_a_pod_is_asked_about_once() -> None:
    admit, whole = mutating(AT)["webhooks"]
    assert whole["matchConditions"][1]["expression"] == f"!({admit['matchConditions'][0]['expression']})"


def test_absent_fields_are_never_read() -> None:
    text = names_in("object.spec", "k == 'x'")
    for field in ("object.spec.containers", "object.spec.initContainers", "c.resources.limits", "c.resources.requests"):
        assert text.index(f"has({field})") < text.index(f"{field}.exists")


def test_only_creation_of_pods_is_asked_about_and_again_when_others_changed_them() -> None:
    for hook in mutating(AT)["webhooks"]:
        (rule,) = hook["rules"]
        assert (rule["operations"], rule["resources"], rule["apiGroups"]) == (["CREATE"], ["pods"], [""])
        assert hook["reinvocationPolicy"] == "IfNeeded"
        assert hook["sideEffects"] == "None"


def test_warnings_never_stop_anything() -> None:
    (hook,) = validating(AT)["webhooks"]
    assert hook["failurePolicy"] == "Ignore"
    assert {each for rule in hook["rules"] for each in rule["resources"]} == {
        "deployments", "statefulsets", "daemonsets", "replicasets", "jobs", "cronjobs",
    }  # fmt: skip


def test_webhooks_are_reached_by_service_or_url() -> None:
    (admit, _), (warn,) = mutating(AT)["webhooks"], validating(Endpoint(url="https://127.0.0.1:1/"))["webhooks"]
    service = {"name": "terrazzo-webhook", "namespace": "gpu", "path": "/admit", "port": 443}
    assert admit["clientConfig"] == {"service": service, "caBundle": "Zm9v"}
    assert warn["clientConfig"] == {"url": "https://127.0.0.1:1/warn"}


def test_every_guard_has_a_binding_that_denies() -> None:
    made = guards(ACCOUNTS)
    for policy, binding in zip(made[::2], made[1::2], strict=True):
        assert policy["kind"] == "ValidatingAdmissionPolicy"
        assert policy["spec"]["failurePolicy"] == "Fail"
        assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}


def test_guards_name_what_admission_guards() -> None:
    text = json.dumps(guards(ACCOUNTS)).replace("\\", "")
    for annotation in our_annotations():
        assert f'"{annotation}"' in text
    for glob in foreign_annotations():
        pattern = next(found for found in re.findall(r'k\.matches\("([^"]*)"\)', text) if _matches(found, glob))
        assert not re.match(pattern, "example.test/" + glob)


def _matches(pattern: str, glob: str) -> bool:
    return re.match(pattern, glob.replace("*", "vgpu")) is not None


@pytest.mark.parametrize("account", ACCOUNTS.all)
def test_our_accounts_are_those_of_the_namespace(account: str) -> None:
    assert account.startswith("system:serviceaccount:gpu:terrazzo-")
    assert account in json.dumps(guards(ACCOUNTS)[0])


def test_labels_stand_on_everything() -> None:
    made = objects(AT, ACCOUNTS, {"a": "b"})
    assert {each["metadata"]["labels"]["a"] for each in made} == {"b"}
    assert len({(each["kind"], each["metadata"]["name"]) for each in made}) == len(made)


def test_the_chart_registers_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "tools"), *sys.path])
    chart_admission = importlib.import_module("chart_admission")
    assert chart_admission.FILE.read_text("utf-8") == chart_admission.template(), "run tools/chart_admission.py"
