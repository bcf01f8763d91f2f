"""Policy of a cluster: which vendors neutral requests get, image rules, strategies."""

from __future__ import annotations

from fnmatch import fnmatchcase

from msgspec import Struct, field

STRATEGIES = ("fragmentation", "pack", "spread", "topology")


class ImageRule(Struct, frozen=True):
    """Images that match ``image`` (a glob over the whole reference) run on ``vendors``.

    Attributes:
        image: glob such as ``registry.example/cuda-*``.
        vendors: vendors the image runs on, in order of preference.
        images: optionally, the image to use per vendor; patched into the pod at bind.
    """

    image: str
    vendors: tuple[str, ...]
    images: dict[str, str] = field(default_factory=dict)

    def matches(self, image: str) -> bool:
        """Return whether the rule is about ``image``."""
        return fnmatchcase(image, self.image)


class NamespacePolicy(Struct, frozen=True):
    """What a namespace changes. Empty fields inherit the cluster's.

    Attributes:
        vendors: vendors of neutral requests.
        strategy: placement strategy.
        allow_device_env: containers may set variables that choose devices or loosen what is enforced.
    """

    vendors: tuple[str, ...] = ()
    strategy: str = ""
    allow_device_env: bool = False


class Policy(Struct, frozen=True):
    """Cluster policy, as written in a file or ConfigMap.

    Attributes:
        vendors: default vendors of neutral requests; empty = only if one vendor is present.
        strategy: default placement strategy.
        namespaces: per namespace.
        images: rules, first match wins.
        scheduler: ``schedulerName`` given to pods that name our resources and chose none; empty = left alone.
    """

    vendors: tuple[str, ...] = ()
    strategy: str = "fragmentation"
    namespaces: dict[str, NamespacePolicy] = field(default_factory=dict)
    images: tuple[ImageRule, ...] = ()
    scheduler: str = ""

    def namespace(self, name: str) -> NamespacePolicy:
        """Return what the namespace changes; nothing when the policy does not name it."""
        return self.namespaces.get(name, NamespacePolicy())

    def image_rule(self, image: str) -> ImageRule | None:
        """Return the first rule about ``image``, or None."""
        return next((rule for rule in self.images if rule.matches(image)), None)

    def strategy_for(self, namespace: str, asked: str = "") -> str:
        """Return the strategy for a pod: its own, else its namespace's, else the cluster's."""
        return asked or self.namespace(namespace).strategy or self.strategy
