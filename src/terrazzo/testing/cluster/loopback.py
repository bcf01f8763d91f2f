"""A chart's webhooks, reached on loopback: there is neither DNS nor a network of pods here."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

_HOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def to_loopback(manifests: Iterable[Mapping[str, Any]], ports: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return manifests whose webhooks call 127.0.0.1 instead of services; everything else is as it was.

    Args:
        manifests: objects, such as those of a rendered chart.
        ports: where each service's process listens, by the service's name.

    Raises:
        KeyError: a webhook calls a service that is not among ``ports``.
    """
    return [_redirected(dict(manifest), ports) for manifest in manifests]


def _redirected(manifest: dict[str, Any], ports: Mapping[str, int]) -> dict[str, Any]:
    if manifest.get("kind") not in _HOOKS:
        return manifest
    changed = copy.deepcopy(manifest)
    for hook in changed.get("webhooks") or ():
        service = hook["clientConfig"].pop("service", None)
        if service is not None:
            path = str(service.get("path", "")).lstrip("/")
            hook["clientConfig"]["url"] = f"https://127.0.0.1:{ports[service['name']]}/{path}"
    return changed
