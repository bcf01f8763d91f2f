"""Where the reader of a pod stands, so that every warning and refusal names the object and the field."""

from __future__ import annotations

from typing import NamedTuple

from terrazzo.model.errors import RequestError


class Notes(NamedTuple):
    """A place in an object, and the list that collects its warnings.

    Attributes:
        thing: file and object, such as ``pods.yaml:12: pod default/train``.
        path: the field, such as ``spec.containers[0].resources``; empty for the object itself.
        warnings: sentences so far; shared by every place of one object.
    """

    thing: str
    path: str
    warnings: list[str]

    @property
    def where(self) -> str:
        """The place as messages begin with it."""
        return f"{self.thing}: {self.path}" if self.path else self.thing

    def at(self, path: str) -> Notes:
        """Return the notes for a field below this place; ``[key]`` for an entry."""
        joint = "." if self.path and not path.startswith("[") else ""
        return self._replace(path=f"{self.path}{joint}{path}")

    def warn(self, what: str, remedy: str = "") -> None:
        """Add a warning; the same sentence is kept once."""
        sentence = str(self.refusal(what, remedy))
        if sentence not in self.warnings:
            self.warnings.append(sentence)

    def refusal(self, what: str, remedy: str = "") -> RequestError:
        """Return the error to raise for what can never be valid."""
        return RequestError(what, where=self.where, remedy=remedy)
