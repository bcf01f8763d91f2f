"""Which build of an image a container gets on a vendor's devices. A container's image may still change at bind."""

from __future__ import annotations

from terrazzo.model.policy import Policy
from terrazzo.wire.kubernetes import Container


def image_for(container: Container, policy: Policy, vendor: str) -> str | None:
    """Return the image that replaces the container's on ``vendor``'s devices, or None when it stays as it is."""
    rule = policy.image_rule(container.image)
    build = rule.images.get(vendor) if rule is not None else None
    return build if build != container.image else None
