"""The command line as a process: what it imports, completes, colours, and does when its reader leaves."""

# ruff: noqa: S603, S607 - the processes are this program and a shell

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from terrazzo import __version__
from terrazzo.cli import main as cli

ROOT = Path(__file__).parents[3]
NODE = ROOT / "examples" / "one-card" / "node.yaml"
PODS = ROOT / "examples" / "one-card" / "pods.yaml"
HEAVY = {"numpy", "rich", "yaml", "msgspec", "terrazzo.placement", "terrazzo.dialects", "terrazzo.simulator"}


def terrazzo(*args: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "terrazzo.cli.main", *map(str, args)],
        capture_output=True, text=True, check=False, timeout=60, env={**os.environ, **env},
    )  # fmt: skip


def imported(*args: str) -> set[str]:
    code = (
        "import sys\nfrom terrazzo.cli.main import main\n"
        f"try: main({list(args)!r})\nexcept SystemExit: pass\nprint('\\n'.join(sys.modules), file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(run.stderr.split())


@pytest.mark.parametrize("args", [("--help",), ("--version",), ()])
def test_help_imports_nothing_heavy(args: tuple[str, ...]) -> None:
    modules = imported(*args)
    assert "click" in modules
    assert not HEAVY & modules


@pytest.mark.parametrize("name", ["plan", "inventory", "explain", "simulate", "demo"])
def test_help_of_a_command_imports_no_numbers(name: str) -> None:
    assert not {"numpy", "rich", "yaml"} & imported(name, "--help")


def test_the_table_of_commands_is_the_truth() -> None:
    help_text = CliRunner().invoke(cli.command, ["--help"]).stdout
    context = cli.command.make_context("terrazzo", [])
    for name in cli.command.list_commands(context):
        assert name in help_text
        command = cli.command.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert "Examples:" in CliRunner().invoke(cli.command, [name, "--help"]).stdout


def test_version() -> None:
    assert CliRunner().invoke(cli.command, ["--version"]).stdout.strip().endswith(__version__)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    result = CliRunner().invoke(cli.command, ["completion", shell])
    assert result.exit_code == 0
    assert "_TERRAZZO_COMPLETE" in result.stdout


def test_completion_knows_commands_and_options() -> None:
    asked = {"_TERRAZZO_COMPLETE": "bash_complete", "COMP_WORDS": "terrazzo inv", "COMP_CWORD": "1"}
    code = "from terrazzo.cli.main import main; main()"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, **asked},
    )  # fmt: skip
    assert "inventory" in run.stdout


def test_colours_follow_the_option_and_never_a_pipe() -> None:
    plan = ("plan", "-f", PODS, "--cluster", NODE)
    assert "\x1b[" not in terrazzo(*plan).stdout
    assert "\x1b[" in terrazzo("--color", "always", *plan).stdout
    assert "\x1b[" not in terrazzo("--color", "never", *plan).stdout


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal to pretend with")
@pytest.mark.parametrize(("env", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_colours_on_a_terminal(env: dict[str, str], coloured: bool) -> None:
    primary, secondary = os.openpty()
    clean = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    run = subprocess.Popen(
        [sys.executable, "-m", "terrazzo.cli.main", "inventory", "--cluster", str(NODE)],
        stdout=secondary, env={**clean, "TERM": "xterm", **env},
    )  # fmt: skip
    run.wait(timeout=60)
    os.close(secondary)
    shown = os.read(primary, 65536).decode()
    os.close(primary)
    assert "A100-80" in shown
    assert ("\x1b[" in shown) == coloured


def test_a_reader_that_leaves_is_no_error() -> None:
    words = [sys.executable, "-m", "terrazzo.cli.main", "inventory", "--cluster", str(NODE), "--by", "node"]
    code = f"{shlex.join(words)} | true; exit ${{PIPESTATUS[0]}}"
    run = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (run.returncode, run.stderr) == (0, "")


def test_an_interrupt_is_one_word(tmp_path: Path) -> None:
    pipe = tmp_path / "pods.yaml"
    os.mkfifo(pipe)
    run = subprocess.Popen(
        [sys.executable, "-m", "terrazzo.cli.main", "plan", "-f", str(pipe), "--cluster", str(NODE)],
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        # A shell that runs its jobs in the background has them ignore interrupts, and that is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - this test has no threads
    )  # fmt: skip
    writer = os.open(pipe, os.O_WRONLY)  # returns when the command has opened its end
    time.sleep(0.2)
    run.send_signal(signal.SIGINT)
    out, told = run.communicate(timeout=60)
    os.close(writer)
    assert (run.returncode, out, told) == (cli.STOPPED, "", "terrazzo: stopped.\n")


def test_a_fault_of_ours_is_owned_up_to(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("by zero\nof all things")

    monkeypatch.setattr("terrazzo.cli.reading.read", broken)
    with pytest.raises(SystemExit) as left:
        cli.main(["inventory", "--cluster", str(NODE)])
    told = capsys.readouterr()
    assert left.value.code == cli.FAULT
    assert told.err.startswith("terrazzo: this is a fault of terrazzo (ZeroDivisionError: by zero of all things)")
    assert told.err.count("\n") == 1
    monkeypatch.setenv("TERRAZZO_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        cli.main(["inventory", "--cluster", str(NODE)])


@pytest.mark.parametrize("below", [True, False])
def test_the_demo_names_its_files_as_one_would_type_them(
    below: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = Path(__file__).parents[3] / "examples"
    monkeypatch.chdir(examples.parent if below else tmp_path)
    shown = CliRunner().invoke(cli.command, ["demo", "one-card"]).stdout
    [line] = [line for line in shown.splitlines() if line.startswith("files: ")]
    start = "examples" if below else str(examples.resolve())
    assert all(Path(file).exists() and file.startswith(f"{start}/") for file in shlex.split(line)[1:])


def test_the_tool_that_writes_the_reference_can_be_run_as_its_message_says() -> None:
    tool = Path(__file__).parents[3] / "tools" / "cli_reference.py"
    assert os.access(tool, os.X_OK)
    assert tool.read_text(encoding="utf-8").startswith("#!")
