from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from terrazzo.dialects.inventory import read_nodes
from terrazzo.model.node import Taint
from terrazzo.testing.builders import CUT, SHARED, Kind, make_node
from terrazzo.testing.cluster import node_object, to_loopback
from terrazzo.testing.cluster.authority import Authority
from terrazzo.wire import kubernetes as k8s

HOOK = {"clientConfig": {"service": {"name": "s", "namespace": "n", "path": "/admit"}, "caBundle": "Q0E="}}


@pytest.mark.parametrize("kind", [*SHARED, *CUT], ids=str)
def test_a_node_object_reads_back_as_the_node(kind: Kind) -> None:
    node = make_node("n", kind, devices=4, taints=(Taint("a", "b", "NoSchedule"),), labels={"rack": "7"})
    (read,) = read_nodes([msgspec.convert(node_object(node), k8s.Node)])
    assert read.devices == node.devices
    assert (read.taints, read.cpu_milli, read.memory_mib, read.max_pods) == (
        node.taints, node.cpu_milli, node.memory_mib, node.max_pods,
    )  # fmt: skip
    assert read.ready
    assert read.labels["rack"] == "7"
    assert read.labels["terrazzo.io/managed"] == "true"


def test_a_node_that_is_not_ours_has_no_inventory_but_what_a_vendor_registers() -> None:
    body = node_object(make_node("n"), managed=False, extended={"nvidia.com/gpu": 8})
    assert "terrazzo.io/managed" not in body["metadata"]["labels"]
    (read,) = read_nodes([msgspec.convert(body, k8s.Node)])
    assert len(read.devices) == 8
    assert {device.vendor for device in read.devices} == {"nvidia"}


@pytest.mark.parametrize("kind", ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"])
def test_webhooks_of_services_become_urls(kind: str) -> None:
    given = {"kind": kind, "webhooks": [HOOK]}
    (changed,) = to_loopback([given], {"s": 8443})
    assert changed["webhooks"] == [{"clientConfig": {"url": "https://127.0.0.1:8443/admit", "caBundle": "Q0E="}}]
    assert given == {"kind": kind, "webhooks": [HOOK]}, "what was given is left as it was"


def test_other_manifests_and_webhooks_with_urls_stay_as_they_are() -> None:
    given: list[dict[str, Any]] = [
        {"kind": "Service", "metadata": {"name": "s"}},
        {"kind": "MutatingWebhookConfiguration", "webhooks": [{"clientConfig": {"url": "https://127.0.0.1:1/x"}}]},
    ]
    assert to_loopback(given, {}) == given


def test_a_webhook_of_a_service_that_nobody_runs_is_an_error() -> None:
    with pytest.raises(KeyError, match="s"):
        to_loopback([{"kind": "MutatingWebhookConfiguration", "webhooks": [HOOK]}], {"other": 1})


def test_users_and_servers_are_signed_by_the_authority(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    ca = x509.load_pem_x509_certificate(authority.certificate.read_bytes())
    user, server = authority.user("system:node:n", ("system:nodes", "more")), authority.server("api", "kubernetes")
    for pair in (user, server):
        x509.load_pem_x509_certificate(pair.certificate.read_bytes()).verify_directly_issued_by(ca)
        assert pair.key.stat().st_mode & 0o077 == 0, "keys are nobody else's to read"
    subject = x509.load_pem_x509_certificate(user.certificate.read_bytes()).subject
    assert [a.value for a in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["system:node:n"]
    assert {a.value for a in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)} == {"system:nodes", "more"}
