"""``terrazzo simulate``: what its files may look like."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from terrazzo.cli.main import command


def test_a_scenario_may_lie_in_a_config_map(tmp_path: Path) -> None:
    plain = (
        "name: small\n"
        "fleet:\n- {nodes: 1, vendor: nvidia, model: A100-80, devices: 1}\n"
        "pods:\n- {at: 1m, for: 1h, copies: 3, memoryPercent: 50, cores: 50}\n"
    )
    wrapped = "kind: ConfigMap\nmetadata: {name: s}\ndata:\n  scenario.yaml: |\n" + "".join(
        f"    {line}\n" for line in plain.splitlines()
    )
    (tmp_path / "plain.yaml").write_text(plain, encoding="utf-8")
    (tmp_path / "map.yaml").write_text(wrapped, encoding="utf-8")
    shown = [CliRunner().invoke(command, ["simulate", str(tmp_path / n)]) for n in ("plain.yaml", "map.yaml")]
    assert shown[0].exit_code == 0, shown[0].output
    assert shown[0].output == shown[1].output
