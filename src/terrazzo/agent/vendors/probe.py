"""The child process: ``python -m terrazzo.agent.vendors.probe VENDOR`` answers questions on its standard pipes.

The vendor's library may print to standard output. Answers therefore go to a private copy of that descriptor, and
descriptor 1 itself is pointed at standard error before any library is loaded.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import msgspec

from terrazzo.agent.vendors.port import Answer, Failure, Trouble
from terrazzo.agent.vendors.probing import (
    AskHealth,
    AskNeeds,
    AskTopology,
    AskUse,
    Discover,
    MakeSlice,
    Question,
    UnmakeSlice,
)

BACKENDS = ("nvidia", "ascend", "cambricon", "hygon", "mthreads")
"""Each is a module beside this one with a function ``backend()`` that returns its ``port.Backend``."""


def answer(backend: Any, question: Question) -> Answer:
    """Return what the backend says; an exception it did not foresee is a ``Failure``, not the end of the child."""
    try:
        match question:
            case Discover():
                told: Answer = backend.discover()
            case AskHealth(wait_s):
                told = backend.health(wait_s)
            case AskUse():
                told = backend.use()
            case AskTopology():
                told = backend.topology()
            case AskNeeds(grants):
                told = backend.needs(grants)
            case MakeSlice(device, profile, start):
                told = backend.make_slice(device, profile, start)
            case UnmakeSlice(device, slice_id):
                told = backend.unmake_slice(device, slice_id)
    except Exception as error:  # noqa: BLE001 - a vendor's binding raises its own kinds, and the node goes on serving
        return Failure(Trouble.FAILED, f"{backend.vendor}: {type(error).__name__}: {error}")
    return told


def main(vendor: str) -> None:
    """Answer until the asker closes its end."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    questions = os.fdopen(0, "rb")
    backend = importlib.import_module(f"terrazzo.agent.vendors.{vendor}").backend()
    decoder = msgspec.msgpack.Decoder(Question)
    while len(head := questions.read(4)) == 4:
        told = msgspec.msgpack.encode(answer(backend, decoder.decode(questions.read(int.from_bytes(head, "big")))))
        answers.write(len(told).to_bytes(4, "big") + told)
        answers.flush()


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in BACKENDS:
        sys.exit(f"a vendor is needed: one of {', '.join(BACKENDS)}")
    main(sys.argv[1])
