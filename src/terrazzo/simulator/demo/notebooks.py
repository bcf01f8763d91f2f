"""Scenario ``notebooks``: fifty people who compute a tenth of the time, and sixteen cards."""

from __future__ import annotations

from collections import Counter

from terrazzo.simulator.demo.duty import ActiveShare, active_share
from terrazzo.simulator.demo.filling import BASELINES, place_all
from terrazzo.simulator.demo.scene import Scene
from terrazzo.simulator.demo.story import Remark, Standing, Story, Table

_ACTIVE = 0.1


def tell(scene: Scene) -> Story:
    """Return the story of ``notebooks/notebooks.yaml``."""
    nodes = scene.nodes("notebooks/nodes.yaml")
    people = scene.requests("notebooks/notebooks.yaml", nodes)
    figures: dict[str, float] = {}
    rows = []
    for words, policy in BASELINES:
        outcome = place_all(policy, nodes, people)
        per_card = sorted(Counter(outcome.devices()).values())
        served = len(outcome.placed)
        share = active_share(per_card, _ACTIVE)
        figures[f"{policy} cards"] = len(per_card)
        figures[f"{policy} served"] = served
        figures[f"{policy} alone"] = share.alone
        rows.append((words, str(served), str(len(people) - served), str(len(per_card)), *_gets(policy, share)))
    return Story(
        name="notebooks",
        title="Fifty notebooks, active a tenth of the time, on sixteen cards",
        files=("notebooks/nodes.yaml", "notebooks/notebooks.yaml"),
        tables=(
            Table(
                "Who gets a card, and what somebody who computes finds there",
                (
                    "",
                    ">served",
                    ">waiting",
                    ">cards held",
                    ">alone",
                    ">shared by two",
                    ">by more",
                    ">mean part of a card",
                ),
                tuple(rows),
                emphasis=4,
            ),
        ),
        remarks=(
            Remark(Standing.MEASURED, "Cards held: the engine's and the baselines' decisions on the files above."),
            Remark(
                Standing.MODELLED,
                "What an active user finds: users compute independently, a tenth of the time each; a card is shared "
                "evenly among those who compute at once. Time to swap contexts is not modelled.",
            ),
            Remark(
                Standing.FAILS,
                "Packing saves cards and costs some company: with four on a card an active user is not alone one time "
                "in four. MIG users never are, but never get more than a seventh of a card either.",
            ),
        ),
        sources=("50 users, a tenth of the time: assumed", "8 GiB per notebook: assumed in notebooks/notebooks.yaml"),
        figures=figures,
    )


def _gets(policy: str, share: ActiveShare) -> tuple[str, str, str, str]:
    if policy == "mig":
        return "always", "–", "–", "0.14"
    return f"{share.alone:.0%}", f"{share.by_two:.0%}", f"{share.by_three_or_more:.0%}", f"{share.mean_share:.2f}"
