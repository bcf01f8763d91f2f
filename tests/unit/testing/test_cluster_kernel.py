from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from terrazzo.testing.cluster import wait_until
from terrazzo.testing.cluster.cgroups import end_group, hierarchies, joining, make_group
from terrazzo.testing.cluster.image import write_image
from terrazzo.testing.cluster.runs import started_at
from terrazzo.testing.cluster.worker import lacks


def test_an_image_holds_one_program_and_every_digest_is_right(tmp_path: Path) -> None:
    program = tmp_path / "app"
    program.write_bytes(b"\x7fELF and so on")
    write_image(tmp_path / "image.tar", "here.test/app:1", program)
    with tarfile.open(tmp_path / "image.tar") as archive:
        files = {entry.name: (archive.extractfile(entry) or io.BytesIO()).read() for entry in archive}
    blobs = {name.rpartition("/")[2]: content for name, content in files.items() if name.startswith("blobs/")}
    assert all(hashlib.sha256(content).hexdigest() == name for name, content in blobs.items())
    (top,) = json.loads(files["index.json"])["manifests"]
    assert top["annotations"] == {"io.containerd.image.name": "here.test/app:1"}
    manifest = json.loads(blobs[top["digest"].removeprefix("sha256:")])
    config = json.loads(blobs[manifest["config"]["digest"].removeprefix("sha256:")])
    assert config["config"]["Entrypoint"] == ["/app"]
    (layer,) = manifest["layers"]
    assert config["rootfs"]["diff_ids"] == [layer["digest"]]
    with tarfile.open(fileobj=io.BytesIO(blobs[layer["digest"].removeprefix("sha256:")])) as inner:
        (entry,) = inner
        assert (entry.name, entry.mode, inner.extractfile(entry).read()) == ("app", 0o755, b"\x7fELF and so on")  # type: ignore[union-attr]


def test_the_same_program_makes_the_same_image(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "app").write_bytes(b"app")
        write_image(tmp_path / f"{name}.tar", "app:1", tmp_path / name / "app")
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()


@pytest.mark.skipif(bool(lacks()), reason=lacks())
def test_whoever_is_in_a_group_ends_with_it_also_grandchildren_in_sessions_of_their_own() -> None:
    name = f"terrazzo-test-{os.getpid()}"
    make_group(name)
    try:
        script = f"{joining(name)}\nsetsid sh -c 'sleep 600 & echo $!; exec sleep 600' &\nwait"
        with subprocess.Popen(["sh", "-euc", script], stdout=subprocess.PIPE, text=True) as process:  # noqa: S603, S607 - the lines above
            assert process.stdout is not None
            grandchild = int(process.stdout.readline())
            assert started_at(grandchild)
            end_group(name)
            wait_until(lambda: started_at(grandchild) is None, "the grandchild is dead")
            process.wait()
        assert not [root for root in hierarchies() if (root / name).exists()]
    finally:
        end_group(name)


def test_a_group_that_is_gone_is_no_trouble() -> None:
    end_group(f"terrazzo-never-{os.getpid()}")
