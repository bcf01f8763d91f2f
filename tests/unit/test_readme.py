"""What the README and the documentation show is what the commands print."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from terrazzo.cli.main import command

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)


def shown() -> list[tuple[str, str, str]]:
    found = []
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))):
        for block in BLOCK.findall(page.read_text(encoding="utf-8")):
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                line, _, output = part.partition("\n")
                if line.startswith("terrazzo ") and "|" not in line and output.strip():
                    found.append((page.name, line, output))
    return found


@pytest.mark.parametrize(("page", "line", "output"), shown(), ids=[f"{p}: {c[:60]}" for p, c, _ in shown()])
def test_shown_output_is_real(page: str, line: str, output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(command, shlex.split(line)[1:])
    lines = [each.rstrip() for each in result.output.rstrip("\n").split("\n")]
    wanted = [each.rstrip() for each in output.rstrip("\n").split("\n")]
    if "…" in wanted:
        cut = wanted.index("…")
        wanted, lines = wanted[:cut], lines[:cut]
    assert lines == wanted, f"{page} shows something else for {line}"


def test_the_cli_page_is_what_the_commands_print(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    cli_reference = importlib.import_module("cli_reference")
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == cli_reference.page(), (
        "run tools/cli_reference.py > docs/cli.md"
    )
