"""What the chart renders: shapes, least rights, security, and values that are refused in words."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from terrazzo.control.settings import read
from terrazzo.dialects.names import all_names
from terrazzo.model.errors import TerrazzoError
from terrazzo.testing.cluster.parts import part

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "chart"
MODES = ("sidecar", "service")
Objects = list[dict[str, Any]]


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        binary = part("helm") / "helm"
    except TerrazzoError as error:
        pytest.skip(f"helm is not built: {error}")
    return subprocess.run([str(binary), *arguments], capture_output=True, text=True, check=False)  # noqa: S603 - helm


def render(*sets: str, version: str = "v1.37.0", namespace: str = "terrazzo-system") -> Objects:
    words = [word for each in sets for word in ("--set", each)]
    done = helm("template", "terrazzo", str(CHART), "--namespace", namespace, "--kube-version", version, *words)
    assert not done.returncode, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def kind(objects: Objects, wanted: str) -> Objects:
    return [each for each in objects if each["kind"] == wanted]


def data(objects: Objects, name: str, key: str) -> str:
    found = next(each for each in kind(objects, "ConfigMap") if each["metadata"]["name"] == name)
    return str(found["data"][key])


def pods(objects: Objects) -> list[tuple[str, dict[str, Any]]]:
    return [(each["metadata"]["name"], each["spec"]["template"]["spec"]) for each in kind(objects, "Deployment")]


@pytest.mark.parametrize("mode", MODES)
def test_helm_lints_it(mode: str) -> None:
    done = helm("lint", "--strict", str(CHART), "--set", f"extender.mode={mode}")
    assert not done.returncode, done.stdout


@pytest.mark.parametrize(("mode", "version"), [*product(MODES, ("v1.37.0", "v1.35.4", "v1.30.1"))])
def test_every_container_has_the_least_it_needs(mode: str, version: str) -> None:
    objects = render(f"extender.mode={mode}", version=version)
    found = [(name, pod, container) for name, pod in pods(objects) for container in pod["containers"]]
    assert len(found) == (3 if mode == "sidecar" else 2)
    for _, pod, container in found:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["requests"]
        assert container["resources"]["limits"]
        assert not any("hostPath" in volume for volume in pod["volumes"])


def test_nobody_may_do_everything() -> None:
    for role in kind(render(), "ClusterRole") + kind(render(), "Role"):
        for rule in role["rules"]:
            assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"], role["metadata"]["name"]
            if "secrets" in rule["resources"] and rule["verbs"] != ["create"]:
                assert rule["resourceNames"]
            assert not {"escalate", "impersonate", "bind"} & set(rule["verbs"])


def test_every_binding_has_its_role_and_account() -> None:
    objects = render(namespace="elsewhere")
    roles = {each["metadata"]["name"] for each in kind(objects, "ClusterRole") + kind(objects, "Role")}
    accounts = {each["metadata"]["name"] for each in kind(objects, "ServiceAccount")}
    builtin = {"system:kube-scheduler", "system:volume-scheduler", "extension-apiserver-authentication-reader"}
    bound = set()
    for each in kind(objects, "ClusterRoleBinding") + kind(objects, "RoleBinding"):
        bound.add(each["roleRef"]["name"])
        assert each["roleRef"]["name"] in roles | builtin
        for subject in each["subjects"]:
            assert subject["name"] in accounts
            assert subject["namespace"] == "elsewhere"
    assert roles <= bound, "a role that nobody has"
    assert {pod["serviceAccountName"] for _, pod in pods(objects)} == accounts


def test_names_are_those_of_the_tables() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import chart_names  # noqa: PLC0415 - a script
    finally:
        sys.path.pop(0)
    assert chart_names.TARGET.read_text("utf-8") == chart_names.text(), "run tools/chart_names.py"
    config = yaml.safe_load(data(render(), "terrazzo-kube-scheduler", "scheduler.yaml"))
    (extender,) = config["extenders"]
    managed = {each["name"] for each in extender["managedResources"]}
    assert managed == set(chart_names.names()) > set(all_names())
    assert "nvidia.com/mig-1g.10gb" in managed
    assert all(each["ignoredByScheduler"] for each in extender["managedResources"])
    assert extender["nodeCacheCapable"] is True
    assert config["percentageOfNodesToScore"] == 100


@pytest.mark.parametrize("mode", MODES)
def test_the_service_reads_its_settings(mode: str, tmp_path: Path) -> None:
    objects = render(f"extender.mode={mode}", "crowd=7", "ledger=classic", "webhook.url=https://10.0.0.1")
    text = next(m for m in kind(objects, "ConfigMap") if m["metadata"]["name"] == "terrazzo-settings")["data"][
        "control.yaml"
    ]
    path = tmp_path / "control.yaml"
    path.write_text(text)
    settings = read(path)
    assert (settings.crowd, settings.ledger, settings.namespace) == (7, "classic", "terrazzo-system")
    assert settings.extender.host == ("127.0.0.1" if mode == "sidecar" else "0.0.0.0")  # noqa: S104 - a pod's own
    assert settings.extender_tls is (mode == "service")


def test_selectors_never_change() -> None:
    """Selectors of Deployments are immutable: an upgrade that changed one would fail."""
    old, new = (
        {each["metadata"]["name"]: each["spec"]["selector"] for each in kind(render(*sets), "Deployment")}
        for sets in ((), ("image.tag=9.9.9", "extender.replicas=5", "logLevel=debug"))
    )
    assert old == new
    assert all("version" not in key for selector in old.values() for key in selector["matchLabels"])


def test_what_the_services_fill_goes_with_the_release() -> None:
    """Rendered empty: Helm then removes it, and never writes over what is in it."""
    for mode, leases in (("sidecar", 3), ("service", 2)):
        objects = render(f"extender.mode={mode}")
        assert len(kind(objects, "Lease")) == leases
        (secret,) = kind(objects, "Secret")
        granted = {
            (resource, name)
            for role in kind(objects, "Role")
            for rule in role["rules"]
            for resource in rule["resources"]
            for name in rule.get("resourceNames", ())
        }
        assert ("secrets", secret["metadata"]["name"]) in granted
        for each in [secret, *kind(objects, "Lease")]:
            assert set(each) == {"apiVersion", "kind", "metadata"}
        for each in kind(objects, "Lease"):
            assert ("leases", each["metadata"]["name"]) in granted
    assert not kind(render("webhook.certManager.enabled=true", "webhook.certManager.issuerRef.name=x"), "Secret")


def test_only_who_serves_tls_holds_the_key() -> None:
    def holders(mode: str) -> set[str]:
        return {
            subject["name"]
            for binding in kind(render(f"extender.mode={mode}"), "RoleBinding")
            if binding["roleRef"]["name"] == "terrazzo-certificate"
            for subject in binding["subjects"]
        }

    assert holders("sidecar") == {"terrazzo-controller"}
    assert holders("service") == {"terrazzo-controller", "terrazzo-scheduler"}


def test_a_rollout_and_a_drain_come_to_an_end_where_only_the_leader_is_ready() -> None:
    objects = render("extender.mode=service")
    deployment = next(e for e in kind(objects, "Deployment") if e["metadata"]["name"] == "terrazzo-scheduler")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/leadz"
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == "100%"
    assert [e["metadata"]["name"] for e in kind(objects, "PodDisruptionBudget")] == ["terrazzo-controller"]
    assert len(kind(render(), "PodDisruptionBudget")) == 2


def test_webhooks_match_their_service_and_ports() -> None:
    objects = render()
    service = next(each for each in kind(objects, "Service") if each["metadata"]["name"] == "terrazzo-webhook")
    for each in kind(objects, "MutatingWebhookConfiguration") + kind(objects, "ValidatingWebhookConfiguration"):
        for hook in each["webhooks"]:
            assert hook["clientConfig"]["service"]["name"] == service["metadata"]["name"]
            assert hook["matchConditions"]
            assert hook["timeoutSeconds"] <= 10
    assert service["spec"]["ports"][0]["targetPort"] == "webhook"
    policies = {
        hook["name"]: hook["failurePolicy"] for hook in kind(objects, "MutatingWebhookConfiguration")[0]["webhooks"]
    }
    assert sorted(policies.values()) == ["Fail", "Ignore"]


def test_dra_objects_only_where_they_can_be() -> None:
    assert kind(render(), "DeviceClass")
    assert not kind(render(version="v1.35.4"), "DeviceClass")
    assert not kind(render("ledger=classic"), "DeviceClass")
    (each,) = kind(render(), "DeviceClass")
    assert "extendedResourceName" not in each["spec"], "kube-scheduler would allocate by itself"


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ("extender.mode=loud", "mode"),
        ("controler.replicas=2", "controler"),
        ("crowd=0", "crowd"),
        ("ledger=paper", "ledger"),
        ("webhook.url=http://x", "url"),
        ("webhook.port=70000", "port"),
        ("priorityClass.value=2000000001", "value"),
    ],
)
def test_wrong_values_are_refused_in_words(wrong: str, word: str) -> None:
    done = helm("template", "terrazzo", str(CHART), "--set", wrong)
    assert done.returncode
    assert word in done.stderr
