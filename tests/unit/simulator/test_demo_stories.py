"""What the seed scenarios tell: their figures, their honesty, and examples that a cluster would take."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from terrazzo.simulator.demo import NAMES, tell
from terrazzo.simulator.demo.scene import Scene
from terrazzo.simulator.demo.story import Standing, Story
from terrazzo.simulator.scenario import read

EXAMPLES = Path(__file__).parents[3] / "examples"
SHORT = {"until": "6h", "warm": "1h"}
"""The fleet's two days take a minute; how the story is told needs only hours of them."""


def documents(file: Path) -> list[dict[str, Any]]:
    texts = file.read_text("utf-8").split("\n---\n")
    return [msgspec.yaml.decode(text) for text in texts]


def objects(file: str) -> list[dict[str, Any]]:
    """Read an example as the command does: what a config map carries comes parsed."""
    found = documents(EXAMPLES / file)
    for body in found:
        if body["kind"] == "ConfigMap":
            body["data"] = {key: msgspec.yaml.decode(text) for key, text in body["data"].items()}
            if "scenario.yaml" in body["data"]:
                body["data"]["scenario.yaml"]["workload"].update(SHORT)
    return found


@cache
def story(name: str) -> Story:
    return tell(name, Scene(objects))


def column(told: Story, table: int, header: str) -> list[str]:
    shown = told.tables[table]
    return [row[shown.columns.index(header)] for row in shown.rows]


class TestOneCard:
    def test_three_cards_become_one(self) -> None:
        figures = story("one-card").figures
        assert (figures["cards today"], figures["cards"], figures["wholly free"]) == (3, 1, 7)

    def test_a_box_filled_with_triples(self) -> None:
        """Whole cards, MIG and ten slots a card: counted independently of this program."""
        figures = story("one-card").figures
        assert [figures[f"filled {policy}"] for policy in ("whole-cards", "mig", "hami")] == [8, 48, 80]
        assert figures["filled terrazzo"] >= 93

    def test_nobody_who_is_fenced_runs_out_of_memory(self) -> None:
        figures = story("one-card").figures
        assert not any(figures[f"out of memory {policy}"] for policy in ("whole-cards", "mig", "hami", "terrazzo"))

    def test_a_whole_card_stays_a_whole_card(self) -> None:
        told = story("one-card")
        assert told.figures["whole card alone"] == 1
        assert dict(zip(column(told, 1, "pod"), column(told, 1, ">memory"), strict=True))["whole-card"] == "all"
        assert "30 %" in column(told, 1, ">compute")


class TestFiveVendors:
    def test_every_kind_of_device_takes_the_one_manifest(self) -> None:
        told = story("five-vendors")
        assert told.figures["placed"] == 8
        assert column(told, 0, "device") == [
            "A100-80", "H100-80", "L40S", "RTX-4090", "910B3", "MLU370-X8", "Z100", "S4000",
        ]  # fmt: skip

    def test_granted_is_what_the_device_enforces(self) -> None:
        """30 %: 6 of 20 cores only as a half chip, 18 of 60 exactly, 5 of 16 rounded up."""
        told = story("five-vendors")
        granted = dict(zip(column(told, 0, "device"), column(told, 0, ">granted compute"), strict=True))
        assert {granted[model] for model in ("A100-80", "H100-80", "L40S", "RTX-4090", "MLU370-X8")} == {"30 %"}
        assert (granted["910B3"], granted["Z100"], granted["S4000"]) == ("50 % (10/20)", "30 % (18/60)", "31 % (5/16)")
        memory = dict(zip(column(told, 0, "device"), column(told, 0, ">granted memory"), strict=True))
        assert memory.pop("910B3") == "32Gi as vir10_3c_32g"
        assert set(memory.values()) == {"8Gi"}

    def test_each_vendor_gets_its_own_image(self) -> None:
        told = story("five-vendors")
        pairs = set(zip(column(told, 0, "vendor"), column(told, 0, "image"), strict=True))
        assert len(pairs) == len({image for _, image in pairs}) == 5

    def test_own_words_are_all_understood(self) -> None:
        told = story("five-vendors")
        assert (told.figures["own_words"], told.figures["own_words_refused"]) == (10, 0)
        assert [model for model in column(told, 1, "model") if model == "910B3"] == ["910B3"] * 2
        assert column(told, 1, ">memory").count("all") == 5


class TestFleet:
    def test_a_hundred_nodes_twenty_with_eight(self) -> None:
        scenario = objects("fleet/scenario.yaml")[0]["data"]["scenario.yaml"]
        nodes = read(scenario, where="fleet").nodes
        assert len(nodes) == story("fleet").figures["nodes"] == 100
        assert sum(len(node.devices) == 8 for node in nodes) == 20
        assert {device.vendor for node in nodes for device in node.devices} == {
            "nvidia", "ascend", "cambricon", "hygon", "mthreads",
        }  # fmt: skip

    @pytest.mark.parametrize("load", ["0.8", "0.9"])
    def test_nobody_finishes_more(self, load: str) -> None:
        figures = story("fleet").figures
        done = {policy: figures[f"{policy} finished@{load}"] for policy in ("whole-cards", "mig", "hami", "terrazzo")}
        assert done["terrazzo"] == max(done.values())
        assert done["whole-cards"] == min(done.values())

    def test_a_baseline_that_cannot_carry_the_load_has_no_wait(self) -> None:
        told = story("fleet")
        rows = {(row[0], row[1]): row for row in told.tables[0].rows}
        assert told.figures["whole-cards diverges@0.9"] > 0
        assert rows["90%", "whole cards"][2:4] == ("diverges", "diverges")
        assert "min" in rows["90%", "Terrazzo"][2]


class TestNotebooks:
    def test_all_are_served_on_no_more_cards_than_mig_holds(self) -> None:
        figures = story("notebooks").figures
        assert figures["terrazzo served"] == figures["mig served"] == 50
        assert figures["terrazzo cards"] <= figures["mig cards"] < figures["hami cards"]

    def test_whole_cards_end_with_the_cards(self) -> None:
        figures = story("notebooks").figures
        assert figures["whole-cards served"] == figures["whole-cards cards"] == 16

    def test_company_costs_less_than_it_saves(self) -> None:
        """With n on a card an active user is alone with probability 0.9^(n - 1): four on a card, 0.729."""
        alone = story("notebooks").figures["terrazzo alone"]
        assert 0.9**3 <= alone < 1


class TestInference:
    def test_every_replica_lands(self) -> None:
        figures = story("inference").figures
        assert (figures["replicas"], figures["cards"]) == (48, 16)

    def test_duty_grows_with_replicas_and_stays_a_share(self) -> None:
        figures = story("inference").figures
        duty = [value for name, value in figures.items() if name.startswith("duty@")]
        assert duty == sorted(duty)
        assert 0 < duty[0] < duty[-1] <= 1
        assert figures["deferred@1"] < figures["deferred@12"] <= 1

    def test_made_up_duty_is_called_assumed(self) -> None:
        """Without the public trace nothing is measured but the placement."""
        assert Standing.ASSUMED in {remark.standing for remark in story("inference").remarks}


class TestBurst:
    @pytest.mark.parametrize("duty", ["0.5", "0.7", "0.9"])
    def test_bursting_lies_between_alone_and_hard(self, duty: str) -> None:
        figures = story("burst").figures
        assert figures[f"exclusive@{duty}"] == 1
        assert 1 > figures[f"burst@{duty}"] > figures[f"hard@{duty}"] >= 0.5

    def test_both_jobs_share_one_card(self) -> None:
        assert story("burst").figures["cards"] == 1

    def test_the_gain_shrinks_as_jobs_get_busy(self) -> None:
        figures = story("burst").figures
        gain = [figures[f"burst@{duty}"] / figures[f"hard@{duty}"] for duty in ("0.5", "0.7", "0.9")]
        assert gain == sorted(gain, reverse=True)


@pytest.mark.parametrize("name", NAMES)
class TestEveryStory:
    def test_says_what_is_modelled_and_what_does_not_work_out(self, name: str) -> None:
        said = {remark.standing for remark in story(name).remarks}
        assert {Standing.MODELLED, Standing.FAILS} <= said or name == "five-vendors"
        assert Standing.FAILS in said
        assert said & {Standing.MEASURED, Standing.ASSUMED}
        assert story(name).sources

    def test_is_made_from_files_that_are_there(self, name: str) -> None:
        assert all((EXAMPLES / file).is_file() for file in story(name).files)

    def test_has_no_figure_called_utilisation(self, name: str) -> None:
        told = story(name)
        headers = [header for table in told.tables for header in (table.title, *table.columns)]
        assert not any("utili" in header.casefold() for header in headers)

    def test_has_a_cell_for_every_column(self, name: str) -> None:
        for table in story(name).tables:
            assert {len(row) for row in table.rows} == {len(table.columns)}
            assert table.emphasis < len(table.rows)


def test_every_remark_kind_is_used() -> None:
    assert {remark.standing for name in NAMES for remark in story(name).remarks} == set(Standing)


def test_the_same_again() -> None:
    assert tell("burst", Scene(objects)).figures == story("burst").figures


@pytest.mark.parametrize("file", sorted(EXAMPLES.rglob("*.yaml")), ids=lambda file: str(file.relative_to(EXAMPLES)))
def test_examples_are_objects_that_can_be_applied(file: Path) -> None:
    found = documents(file)
    assert found
    for body in found:
        assert isinstance(body["apiVersion"], str)
        assert isinstance(body["kind"], str)
        assert body["metadata"]["name"]
        if body["kind"] == "ConfigMap":
            assert all(isinstance(text, str) for text in body["data"].values())
    names = [(body["kind"], body["metadata"].get("namespace", ""), body["metadata"]["name"]) for body in found]
    assert len(names) == len(set(names))
