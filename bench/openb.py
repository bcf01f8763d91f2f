"""GPU allocation on the openb traces under the published protocol, against the published policy and a bound.

usage: bench/openb.py [--traces default,cpu050] [--seeds 42-51] [--jobs 2] [--fgd] [--quick] [--json] [--data DIR]

Settings of the engine are the same for all traces and were chosen on seeds 1 to 10 only.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
import tomllib
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import machine

from terrazzo.model.errors import InputError
from terrazzo.simulator import openb_runs

HERE = Path(__file__).parent
DATA = HERE.parent.parent / "shared" / "openb"
MARKS = ("95", "100", "130")
Runs = dict[tuple[str, str, int], dict[str, float]]


def published() -> dict[str, dict[str, float]]:
    """Return the published table, by trace."""
    return tomllib.loads((HERE / "openb_published.toml").read_text(encoding="utf-8"))


def arguments() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--traces", default=",".join(published()), help="names, with commas; default all 17 published")
    parser.add_argument("--seeds", default="42-51", help="first-last, or one")
    parser.add_argument("--policy", default="fragmentation", help="policy to measure")
    parser.add_argument("--fgd", action="store_true", help="also run FGD itself in the same protocol")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--data", type=Path, default=DATA, help="folder with the openb CSV files")
    parser.add_argument("--quick", action="store_true", help="two traces, one seed; writes no results")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args()
    if options.quick:
        options.traces, options.seeds = "default,gpuspec33", "1"
    return options


def seeds_of(text: str) -> list[int]:
    """Return the seeds that ``42-51`` or ``42`` writes."""
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def one(job: tuple[str, str, str, int]) -> tuple[tuple[str, str, int], dict[str, float]]:
    """Run one trace under one policy and seed, in a process of its own."""
    folder, trace, policy, seed = job
    run = openb_runs(folder, trace, policy, [seed])[0]
    return (trace, policy, seed), run["allocation"]


def measure(options: argparse.Namespace) -> Runs:
    """Run everything, telling on stderr how far it is."""
    policies = [options.policy, *(["fgd"] if options.fgd else [])]
    jobs = [
        (str(options.data), trace, policy, seed)
        for seed in seeds_of(options.seeds)
        for trace in options.traces.split(",")
        for policy in policies
    ]
    done: Runs = {}
    with ProcessPoolExecutor(max_workers=max(1, options.jobs)) as pool:
        for key, allocation in pool.map(one, jobs):
            done[key] = allocation
            sys.stderr.write(f"\r{len(done)} of {len(jobs)} runs")
            sys.stderr.flush()
    sys.stderr.write("\n")
    return done


def summary(done: Runs, trace: str, policy: str) -> dict[str, Any]:
    """Return mean and range over seeds at every mark."""
    figures = [allocation for (t, p, _), allocation in done.items() if (t, p) == (trace, policy)]
    return {
        mark: {
            "mean": round(statistics.fmean(f[mark] for f in figures), 3),
            "low": min(f[mark] for f in figures),
            "high": max(f[mark] for f in figures),
        }
        for mark in MARKS
    }


def table(options: argparse.Namespace, done: Runs) -> dict[str, Any]:
    """Print the table and return its figures."""
    known = published()
    traces = options.traces.split(",")
    result: dict[str, Any] = {}
    fgd_head = "  FGD95  FGD100 FGD130" if options.fgd else ""
    print(
        f"{'trace':12} {'95':>6} {'100':>7} {'range':>13} {'130':>7} {'published':>9} {'diff':>6} {'bound':>6}"
        f"{fgd_head}"
    )
    for trace in traces:
        ours = summary(done, trace, options.policy)
        row: dict[str, Any] = {"ours": ours}
        paper = known.get(trace, {})
        difference = ours["100"]["mean"] - paper["fgd"] if paper else float("nan")
        line = (
            f"{trace:12} {ours['95']['mean']:6.2f} {ours['100']['mean']:7.2f} "
            f"{ours['100']['low']:6.2f}–{ours['100']['high']:5.2f} {ours['130']['mean']:7.2f} "
            f"{paper.get('fgd', float('nan')):9.2f} {difference:+6.2f} {paper.get('bound', float('nan')):6.1f}"
        )
        if paper:
            row |= {"published_fgd": paper["fgd"], "difference": round(difference, 3), "bound": paper["bound"]}
        if options.fgd:
            row["fgd"] = summary(done, trace, "fgd")
            line += "".join(f"{row['fgd'][mark]['mean']:7.2f}" for mark in MARKS)
        print(line)
        result[trace] = row
    return result


def means(result: dict[str, Any]) -> dict[str, float]:
    """Print and return the mean over traces."""
    rows = [row for row in result.values() if "difference" in row]
    if not rows:
        return {}
    found = {
        "ours": round(statistics.fmean(row["ours"]["100"]["mean"] for row in rows), 3),
        "published_fgd": round(statistics.fmean(row["published_fgd"] for row in rows), 3),
        "bound": round(statistics.fmean(row["bound"] for row in rows), 3),
        "worst_difference": min(row["difference"] for row in rows),
    }
    print(f"mean over {len(rows)} traces at 100 % arrival: {found['ours']:.2f}")
    print(f"published FGD {found['published_fgd']:.2f}, bound {found['bound']:.1f}")
    print(f"worst difference to published FGD {found['worst_difference']:+.2f}")
    if all("fgd" in row for row in rows):
        for mark in MARKS:
            worst = min(row["ours"][mark]["mean"] - row["fgd"][mark]["mean"] for row in rows)
            found[f"worst_to_fgd_at_{mark}"] = round(worst, 3)
            print(f"worst difference to FGD in the same runs at {mark} %: {worst:+.2f}")
    return found


def main() -> int:
    """Measure, print, write."""
    options = arguments()
    if not options.data.is_dir():
        print(f"The openb traces are not in {options.data}; give their folder with --data.", file=sys.stderr)
        return 2
    start = time.perf_counter()
    try:
        done = measure(options)
    except (InputError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    result = table(options, done)
    found = means(result)
    seconds = round(time.perf_counter() - start, 1)
    print(f"seeds {options.seeds}, {len(done)} runs in {seconds} s")
    body = {"policy": options.policy, "seeds": options.seeds, "seconds": seconds, "traces": result, "mean": found}
    machine.finish("openb", body, as_json=options.json, keep=not options.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
