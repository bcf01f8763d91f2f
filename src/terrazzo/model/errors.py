"""Errors that say what happened, where, and what to write instead."""

from __future__ import annotations


class TerrazzoError(Exception):
    """Base of every error that a person is meant to read.

    Args:
        what: what is wrong, as a clause without a final full stop.
        where: file and line, or object and field path, such as ``pod default/train: containers[0].resources``.
        remedy: what to write or do instead; empty when there is nothing to say.
    """

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.remedy = remedy

    def __str__(self) -> str:
        """Return one line, where first, remedy last."""
        sentence = f"{self.where}: {self.what}" if self.where else self.what
        if self.remedy:
            sentence = f"{sentence}; {self.remedy}"
        sentence = " ".join(sentence.split())
        return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


class InputError(TerrazzoError):
    """Something a user handed in cannot be read: a file, a manifest, an option."""


class RequestError(TerrazzoError):
    """A pod asks for what can never be valid, whatever the cluster (cores 120, count -1)."""


class LedgerError(TerrazzoError):
    """The books contradict themselves. Always a fault of the program, never of its input."""
