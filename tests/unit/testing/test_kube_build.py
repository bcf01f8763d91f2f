from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from terrazzo.testing.cluster.parts import BUILD, VERSIONS

PARTS = ("etcd", "containerd", "helm", "kwok", *(f"kubernetes-{version}" for version in VERSIONS))


def build(cache: Path, *arguments: str, path: str = os.environ["PATH"]) -> subprocess.CompletedProcess[str]:
    env = {"PATH": path, "XDG_CACHE_HOME": str(cache)}
    return subprocess.run([BUILD, *arguments], capture_output=True, text=True, check=False, env=env)  # noqa: S603 - ours


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_is_not_built_says_how_to_build_it(tmp_path: Path, part: str) -> None:
    done = build(tmp_path, "--where", part)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"{part} is not built; run make kube")


def test_an_unknown_part_lists_those_there_are(tmp_path: Path) -> None:
    done = build(tmp_path, "--where", "docker")
    assert done.returncode == 2
    for part in PARTS:
        assert part in done.stderr


def test_without_go_a_sentence_says_so_and_nothing_is_left(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "env", "awk", "cat", "cut", "sha256sum", "dirname", "mkdir", "find", "sort", "xargs"):
        (tools / name).symlink_to(shutil.which(name) or pytest.fail(f"{name} is missing"))
    done = build(tmp_path / "cache", "etcd", path=str(tools))
    assert done.returncode == 2
    assert "there is no go on the PATH" in done.stderr
    assert not (tmp_path / "cache").exists()
