from __future__ import annotations

import asyncio
import base64
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from terrazzo.kube import access as ways
from terrazzo.kube import credentials
from terrazzo.kube.credentials import FileToken, PluginToken
from terrazzo.kube.errors import Unauthorized
from terrazzo.model.errors import InputError
from terrazzo.testing.cluster.authority import Authority


def config(folder: Path, user: Mapping[str, Any] | None = None, **cluster: Any) -> Path:
    body = {
        "current-context": "one",
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443/", **cluster}}],
        "users": [{"name": "u", "user": dict(user or {})}],
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(body))
    return path


def token(path: Path) -> str:
    return asyncio.run(ways.from_kubeconfig(path).token.get())


def test_a_token_a_file_and_certificates(tmp_path: Path) -> None:
    found = ways.from_kubeconfig(config(tmp_path, {"token": "secret"}))
    assert (found.server, found.namespace) == ("https://127.0.0.1:6443", "team")
    assert asyncio.run(found.token.get()) == "secret"
    (tmp_path / "t").write_text(" from file \n")
    assert token(config(tmp_path, {"tokenFile": "t"})) == "from file"
    (tmp_path / "ca").mkdir()
    authority = Authority(tmp_path / "ca")
    pair = authority.user("me")
    ca = base64.b64encode(authority.certificate.read_bytes()).decode()
    files = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
    assert ways.from_kubeconfig(config(tmp_path, files, **{"certificate-authority-data": ca})).tls is not None
    inline = {f"{name}-data": base64.b64encode(Path(path).read_bytes()).decode() for name, path in files.items()}
    assert ways.from_kubeconfig(config(tmp_path, inline, **{"certificate-authority-data": ca})).tls is not None


_CONTEXT = "current-context: x\ncontexts: [{name: x, context: {cluster: y}}]\n"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no kubeconfig"), ("- a", "no kubeconfig"), ("{", "not YAML"), ("a: b", "current-context"),
        ("current-context: x", "no context called 'x'"),
        (_CONTEXT, "no cluster called 'y'"),
        (_CONTEXT + "clusters: [{name: y, cluster: {server: ftp}}]", "no URL"),
        ("current-context: x\ncontexts: nonsense", "no context called"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_kubeconfig_is_one_sentence(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        ways.from_kubeconfig(path)
    assert what in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("data", ["!!!", base64.b64encode(b"no certificate").decode()])
def test_damaged_certificates_are_said(tmp_path: Path, data: str) -> None:
    with pytest.raises(InputError, match="certificates"):
        ways.from_kubeconfig(config(tmp_path, None, **{"certificate-authority-data": data}))


def test_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(ways, "ACCOUNT", tmp_path / "none")
    with pytest.raises(InputError, match="no cluster is known"):
        ways.find()
    monkeypatch.setenv("KUBECONFIG", str(config(tmp_path, {"token": "t"})))
    assert ways.find().namespace == "team"
    with pytest.raises(InputError, match="cannot be read"):
        ways.find(str(tmp_path / "missing"))


def test_in_a_pod_the_token_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ca").mkdir()
    authority = Authority(tmp_path / "ca")
    (tmp_path / "ca.crt").write_bytes(authority.certificate.read_bytes())
    (tmp_path / "namespace").write_text("mine")
    (tmp_path / "token").write_text("first")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    found = ways.in_cluster(tmp_path)
    assert (found.server, found.namespace) == ("https://[fd00::1]:443", "mine")
    assert asyncio.run(found.token.get()) == "first"
    (tmp_path / "token").write_text("second")
    found.token.refused()
    assert asyncio.run(found.token.get()) == "second"
    (tmp_path / "token").unlink()
    found.token.refused()
    assert asyncio.run(found.token.get()) == "second", "the last one is kept while the file is away"
    with pytest.raises(Unauthorized):
        asyncio.run(FileToken(tmp_path / "never").get())


def plugin(folder: Path, text: str) -> Path:
    path = folder / "plugin"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_a_plugin_is_run_once_and_again_when_its_token_ends(tmp_path: Path) -> None:
    says = '{"status":{"token":"t%s","expirationTimestamp":"%s"}}'
    text = 'n=$(cat count 2>/dev/null || echo 0); echo $((n+1)) > count; test -n "$KUBERNETES_EXEC_INFO" || exit 9\n'
    plugin(tmp_path, f"cd {tmp_path}\n{text}echo '{says % ('1', '2999-01-01T00:00:00Z')}'")
    made = ways.from_kubeconfig(config(tmp_path, {"exec": {"command": "./plugin", "apiVersion": "v1"}})).token

    async def twice() -> None:
        assert await made.get() == await made.get() == "t1"
        made.refused()
        assert await made.get() == "t1"

    asyncio.run(twice())
    assert (tmp_path / "count").read_text().strip() == "2"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("echo broken >&2; exit 3", "ended with 3: broken"), ("echo nonsense", "no ExecCredential"),
        ("echo '{}'", "no token"), ("sleep 30", "said nothing"),
        ("echo '{\"status\":{\"clientCertificateData\":\"x\"}}'", "client certificate"),
    ],
)  # fmt: skip
def test_a_plugin_that_fails_says_why(tmp_path: Path, text: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "PLUGIN_S", 1 if "sleep" in text else 20)
    made = PluginToken([str(plugin(tmp_path, text))], {}, "v1", tmp_path)
    with pytest.raises(Unauthorized, match=what):
        asyncio.run(made.get())


def test_a_plugin_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Unauthorized, match="cannot be started"):
        asyncio.run(PluginToken(["no-such-program"], {}, "v1", tmp_path).get())
    with pytest.raises(InputError, match="names no command"):
        ways.from_kubeconfig(config(tmp_path, {"exec": {"args": ["x"]}}))
