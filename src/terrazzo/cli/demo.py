"""``terrazzo demo``: the seed scenarios, told from the example files."""

from __future__ import annotations

import shlex
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from terrazzo.cli.options import format_option

if TYPE_CHECKING:
    from terrazzo.simulator.demo.story import Story

_RULE = 110
_SCENARIOS = ("one-card", "five-vendors", "fleet", "notebooks", "inference", "burst")


@click.command(
    "demo",
    epilog="""\b
Examples:
  terrazzo demo
  terrazzo demo one-card burst
  terrazzo demo fleet -o json""",
)
@click.argument("scenarios", nargs=-1, type=click.Choice(_SCENARIOS))
@click.option("--examples", metavar="DIR", help="Folder of the example files; the shipped ones by default.")
@click.option("--traces", metavar="DIR", help="Folder of public traces; ../shared/traces when it is there.")
@format_option(("table", "json", "yaml"))
def command(scenarios: tuple[str, ...], examples: str | None, traces: str | None, form: str) -> int:
    """Show the seed scenarios: before and after, what is measured and what is modelled."""
    from terrazzo.simulator.demo import tell  # noqa: PLC0415 - heavy, and help must not wait for it
    from terrazzo.simulator.demo.scene import Scene  # noqa: PLC0415 - see above

    folder = Path(examples) if examples else _examples()
    scene = Scene(lambda file: _objects(folder / file), _traces(traces, folder), _progress(form))
    stories = []
    for name in scenarios or _SCENARIOS:
        story = tell(name, scene)
        if form == "table":
            _print(story, folder)
        stories.append(story)
    if form != "table":
        from terrazzo.cli.render import dump  # noqa: PLC0415 - see above

        dump(stories, form)
    return 0


def _examples() -> Path:
    """Return the folder of examples: shipped in the wheel, or at the root of a checkout."""
    shipped = Path(__file__).parent.parent / "examples"
    return shipped if shipped.is_dir() else Path(__file__).parents[3] / "examples"


def _traces(given: str | None, examples: Path) -> Path | None:
    from terrazzo.model.errors import InputError  # noqa: PLC0415 - see above

    if given is not None:
        if not Path(given).is_dir():
            raise InputError("is no folder", where=given, remedy="leave --traces out to use made-up duty")
        return Path(given)
    beside = examples.resolve().parent.parent / "shared" / "traces"
    return beside if beside.is_dir() else None


def _objects(path: Path) -> list[dict[str, Any]]:
    """Return the objects of an example; YAML inside a config map comes parsed."""
    from terrazzo.cli.reading import parse, read  # noqa: PLC0415 - see above

    bodies = [item.body for item in read([str(path)])]
    for body in bodies:
        if body.get("kind") == "ConfigMap":
            data: dict[str, Any] = body.get("data") or {}
            for key, text in data.items():
                if key.endswith(".yaml"):
                    data[key] = parse(str(path), text.encode())[0].value
    return bodies


def _progress(form: str) -> Any:
    import sys  # noqa: PLC0415 - only here

    if form == "table" and sys.stderr.isatty():
        return lambda text: click.echo(f"\r{text:<78}", err=True, nl=False)
    return None


def _print(story: Story, folder: Path) -> None:
    from terrazzo.cli.render import say, table  # noqa: PLC0415 - heavy imports stay out of --help

    say(f"══ {story.name}: {story.title} ".ljust(_RULE, "═"), bold=True)
    for each in story.tables:
        say(f"\n{each.title}")
        for number, line in enumerate(table(each.columns, each.rows).split("\n"), -1):
            say(line, bold=True) if number == each.emphasis else say(line)
    say()
    for remark in story.remarks:
        say(textwrap.fill(f"{remark.standing}: {remark.text}", _RULE, subsequent_indent="  "))
    say(textwrap.fill(f"sources: {'; '.join(story.sources)}.", _RULE, subsequent_indent="  "))
    say("files: " + " ".join(_shown(folder / file) for file in story.files) + "\n")


def _shown(path: Path) -> str:
    """Return the path as one would type it here: relative when it lies below the current folder."""
    full, here = path.resolve(), Path.cwd()
    return shlex.quote(str(full.relative_to(here) if full.is_relative_to(here) else full))
