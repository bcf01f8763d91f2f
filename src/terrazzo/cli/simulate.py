"""``terrazzo simulate``: a workload against a fleet under a policy; the same seed gives the same bytes."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from terrazzo.cli.options import format_option
from terrazzo.model.errors import InputError

if TYPE_CHECKING:
    from terrazzo.simulator import Progress, Report

SCENARIO_KEY = "scenario.yaml"
_SEEDS = re.compile(r"^(\d{1,9})(?:-(\d{1,9}))?$", re.ASCII)
_MOST_SEEDS = 10_000


@click.command(
    "simulate",
    epilog="""\b
Examples:
  terrazzo simulate examples/fleet/scenario.yaml
  terrazzo simulate scenario.yaml --policy fragmentation --policy mig --policy whole-cards
  terrazzo simulate scenario.yaml --seeds 1-5 -o csv > series.csv
  terrazzo simulate --openb DIR --trace default --policy fragmentation --seeds 42-51 -o json

\b
A scenario file says the fleet and the workload: pods at given times, a Poisson mix, or openb's classes.
With --openb the protocol of the published figures is followed: pods arrive one by one and stay.""",
)
@click.argument("scenario", required=False, metavar="[SCENARIO]")
@click.option("--openb", metavar="DIR", help="Folder with the openb CSV files, instead of a scenario.")
@click.option("--trace", metavar="NAME", help="Pod list of openb, such as default, cpu050 or gpuspec33.")
@click.option("--policy", "policies", multiple=True, metavar="P", help="Policy; may be given again to compare.")
@click.option("--seeds", metavar="N[-M][,…]", help="Seeds to run, such as 42 or 42-51; the scenario's own by default.")
@format_option(("table", "json", "csv"))
def command(
    scenario: str | None, openb: str | None, trace: str | None, policies: tuple[str, ...], seeds: str | None, form: str
) -> int:
    """Run the workload of SCENARIO, or an openb trace, and report allocation, waits and fragmentation."""
    if (scenario is None) == (openb is None):
        raise click.UsageError("give either a scenario file or --openb DIR", click.get_current_context())
    if openb is None and trace is not None:
        raise click.UsageError("--trace goes with --openb", click.get_current_context())
    wanted = _seeds(seeds) if seeds is not None else None
    if openb is not None:
        _openb(openb, trace or "default", policies or ("fragmentation",), wanted or [42], form)
    else:
        _scenario(str(scenario), policies, wanted, form)
    return 0


def _seeds(text: str) -> list[int]:
    """Return the seeds that ``42``, ``42-51`` or ``1,5-7`` names."""
    found: list[int] = []
    for word in text.split(","):
        match = _SEEDS.match(word.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match is not None else (1, 0)
        if not 0 <= last - first < _MOST_SEEDS:
            raise InputError(f"{text!r} names no seeds", where="--seeds", remedy="write 42 or 42-51")
        found += range(first, last + 1)
    return found


def _openb(folder: str, trace: str, policies: Sequence[str], seeds: Sequence[int], form: str) -> None:
    from terrazzo.simulator import openb_runs  # noqa: PLC0415 - heavy, and help must not wait for it

    runs: list[dict[str, Any]] = []
    for policy in policies:
        runs += openb_runs(folder, trace, policy, seeds, progress=_progress(f"{trace}, {policy}"))
    marks = list(runs[0]["allocation"])
    if form == "json":
        import msgspec  # noqa: PLC0415 - only for machines

        lines = ",\n".join(msgspec.json.encode(run).decode() for run in runs)
        click.echo(f"[\n{lines}\n]")
        return
    rows = [
        [run["trace"], run["policy"], str(run["seed"]), *(_figure(run["allocation"][mark]) for mark in marks)]
        for run in runs
    ]
    if form == "csv":
        click.echo("\n".join(",".join(row) for row in [["trace", "policy", "seed", *marks], *rows]))
        return
    from terrazzo.cli.render import Group, say, table  # noqa: PLC0415 - see above

    columns = ["TRACE", "POLICY", ">SEED", *(f">AT {mark}%" for mark in marks)]
    say(table(columns, [*rows, *_means(runs, marks)], [Group("percent of devices allocated", 3, 2 + len(marks))]))


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _means(runs: Sequence[dict[str, Any]], marks: Sequence[str]) -> list[list[str]]:
    """Return one line a policy with the mean over its seeds; none where there was one seed."""
    lines = []
    for policy in dict.fromkeys(run["policy"] for run in runs):
        mine = [run["allocation"] for run in runs if run["policy"] == policy]
        if len(mine) < 2:
            continue
        known = {mark: [each[mark] for each in mine if each[mark] is not None] for mark in marks}
        means = [_figure(sum(values) / len(values) if values else None) for values in known.values()]
        lines.append([runs[0]["trace"], policy, "mean", *means])
    return lines


def _written(path: str) -> Any:
    """Return the scenario of a file: the scenario itself, or the config map that carries it."""
    from terrazzo.cli.reading import documents, parse  # noqa: PLC0415 - heavy, and help must not wait for it

    found = documents(path)
    if len(found) != 1:
        raise InputError(f"holds {len(found)} documents", where=path, remedy="give one scenario")
    body = found[0].value
    if not isinstance(body, dict) or body.get("kind") != "ConfigMap":
        return body
    data = body.get("data")
    text = data.get(SCENARIO_KEY) if isinstance(data, dict) else None
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"the config map has no {SCENARIO_KEY}", where=path)
    return parse(f"{path}: {SCENARIO_KEY}", text.encode())[0].value


def _scenario(path: str, policies: Sequence[str], seeds: Sequence[int] | None, form: str) -> None:
    from terrazzo.simulator import report, scenario, simulate  # noqa: PLC0415 - see above

    read = scenario.read(_written(path), where=path, folder=Path(path).parent)
    reports: list[Report] = []
    for policy in policies or (read.policy,):
        for seed in seeds or (read.seed,):
            title = f"{read.name}, {policy}, seed {seed}"
            reports.append(simulate(read.spec(policy=policy, seed=seed), progress=_progress(title)))
    if form == "json":
        click.echo(report.to_json(reports), nl=False)
    elif form == "csv":
        click.echo(report.to_csv(reports), nl=False)
    else:
        _print(reports)


def _print(reports: Sequence[Report]) -> None:
    from terrazzo.cli.render import say, table  # noqa: PLC0415 - see above
    from terrazzo.simulator import report  # noqa: PLC0415 - see above

    first = reports[0]
    say(f"{first.name}: {first.nodes} nodes, {first.devices} devices, {first.submitted} pods submitted", bold=True)
    say(table([column.upper().replace(" ", "\n") for column in report.COLUMNS], report.rows(reports)))
    for note in dict.fromkeys(note for each in reports for note in each.notes):
        say(f"· {note}")


def _progress(title: str) -> Progress | None:
    """Return a callback that keeps one line on a terminal up to date."""
    if not sys.stderr.isatty():
        return None

    def tell(done: int, total: int) -> None:
        share = done * 100 // max(1, total)
        click.echo(f"\r{title}: {share:3d} %" + ("\r\033[K" if done >= total else ""), err=True, nl=False)

    return tell
