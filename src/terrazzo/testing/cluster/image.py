"""An image of one static program, as an archive that ``ctr images import`` takes (OCI image layout)."""

from __future__ import annotations

import hashlib
import io
import platform
import tarfile
from pathlib import Path

import msgspec

MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def write_image(target: Path, name: str, program: Path) -> None:
    """Write an archive with an image whose only file and entry point is ``program``.

    Args:
        target: the archive to write.
        name: of the image, with its tag.
        program: a statically linked executable for this machine.
    """
    layer = _tar({program.name: program.read_bytes()}, mode=0o755)
    config = msgspec.json.encode(
        {
            "architecture": MACHINES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Entrypoint": [f"/{program.name}"]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    manifest = msgspec.json.encode(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": _descriptor("application/vnd.oci.image.config.v1+json", config),
            "layers": [_descriptor("application/vnd.oci.image.layer.v1.tar", layer)],
        }
    )
    top = {
        **_descriptor("application/vnd.oci.image.manifest.v1+json", manifest),
        "annotations": {"io.containerd.image.name": name},
    }
    blobs = {f"blobs/sha256/{_digest(blob).partition(':')[2]}": blob for blob in (layer, config, manifest)}
    index = msgspec.json.encode({"schemaVersion": 2, "manifests": [top]})
    files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": index, **blobs}
    target.write_bytes(_tar(files, mode=0o644))


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _descriptor(kind: str, blob: bytes) -> dict[str, object]:
    return {"mediaType": kind, "digest": _digest(blob), "size": len(blob)}


def _tar(files: dict[str, bytes], mode: int) -> bytes:
    """Return an archive that depends on nothing but the files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
