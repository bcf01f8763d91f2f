"""What the control service can be told: one YAML file, every field with a default."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec
import yaml
from msgspec import Struct, field

from terrazzo.model.errors import InputError


class Address(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Where to listen. Port 0 takes a free one."""

    host: str = "127.0.0.1"
    port: int = 0


class Tls(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Where the webhook's certificate comes from.

    Attributes:
        secret: Secret that holds authority and serving certificate; made and rotated by the service itself.
        cert_manager: the Secret is written by cert-manager (``tls.crt``, ``tls.key``, ``ca.crt``) and only read here.
        names: DNS names and IP addresses that the certificate is for; empty = those of the webhook's Service.
    """

    secret: str = "terrazzo-webhook-tls"  # noqa: S105 - the name of a Secret
    cert_manager: bool = False
    names: tuple[str, ...] = ()


class Settings(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Settings of ``terrazzo control``.

    Attributes:
        namespace: where our own objects live.
        service: name of the webhook's Service.
        webhook_url: base URL of the webhook instead of a Service, where the API server reaches it without one.
        extender: address of the scheduler extender; loopback beside a kube-scheduler.
        extender_tls: serve the extender over TLS with the webhook's certificate.
        webhook: address of the admission webhook.
        probes: address of ``/healthz``, ``/readyz`` and ``/metrics``.
        tls: certificate of the webhook.
        ledger: ``auto`` writes claims where the API server and the node can, else annotations.
        scheduler: name of the scheduler that asks our extender.
        policy: ConfigMap with the policy.
        filter_top: nodes given back at most for a pod without soft rules.
        bind_deadline_s: for all writes of one bind; below ``httpTimeout`` of the extender.
        crowd: waiting pods from which on a pod that fits nowhere is created with a scheduling gate.
        nominate: waiting pods from which on their node is nominated; 0 = never.
        preemption: evict cheaper pods for dearer ones.
    """

    namespace: str = "terrazzo-system"
    service: str = "terrazzo-webhook"
    webhook_url: str = ""
    extender: Address = Address(port=10270)
    extender_tls: bool = False
    webhook: Address = Address("0.0.0.0", 10271)  # noqa: S104 - the API server comes from outside the pod
    probes: Address = Address("0.0.0.0", 10272)  # noqa: S104 - kubelet and Prometheus do, too
    tls: Tls = field(default_factory=Tls)
    ledger: Literal["auto", "dra", "classic"] = "auto"
    scheduler: str = "terrazzo"
    policy: str = "terrazzo-policy"
    filter_top: int = 100
    bind_deadline_s: float = 25.0
    crowd: int = 100
    nominate: int = 20
    preemption: bool = True


def read(path: Path | None) -> Settings:
    """Return the settings of a file; without one, the defaults.

    Raises:
        InputError: it cannot be read, or has a field that does not exist or a value that cannot be.
    """
    if path is None:
        return Settings()
    try:
        body = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=str(path)) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"is not YAML ({' '.join(str(error).split())})", where=str(path)) from None
    try:
        settings = msgspec.convert(body or {}, Settings)
    except msgspec.ValidationError as error:
        raise InputError(str(error).replace("`", ""), where=str(path), remedy="see the reference of settings") from None
    if settings.filter_top < 1 or not 1 <= settings.bind_deadline_s <= 300 or settings.crowd < 1:
        raise InputError("filterTop, bindDeadlineS or crowd is out of range", where=str(path))
    return settings
