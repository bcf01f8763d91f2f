"""How to reach an API server: a kubeconfig, or what every pod is given."""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from terrazzo.kube.credentials import FileToken, FixedToken, PluginToken, Token
from terrazzo.model.errors import InputError

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where kubelet mounts a pod's token and the cluster's authority."""


class Access(NamedTuple):
    """The way to one API server.

    Attributes:
        server: base URL without a final slash.
        tls: context for https; None for plain http.
        token: source of bearer tokens.
        namespace: of the context, or of the pod.
    """

    server: str
    tls: ssl.SSLContext | None
    token: Token
    namespace: str = "default"


def find(path: str = "", context: str = "") -> Access:
    """Return the access that a person at a shell or a pod expects.

    A path that is given, else the first of ``KUBECONFIG``, else the pod's account, else ``~/.kube/config``.

    Raises:
        InputError: there is none, or it cannot be read.
    """
    chosen = path or os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    if chosen:
        return from_kubeconfig(Path(chosen), context)
    if not context and (ACCOUNT / "token").exists():
        return in_cluster()
    home = Path.home() / ".kube" / "config"
    if home.exists():
        return from_kubeconfig(home, context)
    raise InputError(
        "no cluster is known", where="kubeconfig", remedy="give --kubeconfig FILE or set KUBECONFIG, or run in a pod"
    )


def in_cluster(account: Path = ACCOUNT) -> Access:
    """Return the access of the pod we run in; its token is read again as kubelet rotates it.

    Raises:
        InputError: this is no pod.
    """
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise InputError("KUBERNETES_SERVICE_HOST is not set", where="environment", remedy="give --kubeconfig FILE")
    try:
        tls = ssl.create_default_context(cafile=str(account / "ca.crt"))
        namespace = (account / "namespace").read_text("utf-8").strip()
    except OSError as error:
        raise InputError(
            f"cannot be read ({error.strerror})", where=str(account), remedy="give --kubeconfig FILE"
        ) from None
    host = f"[{host}]" if ":" in host else host
    return Access(f"https://{host}:{port}", tls, FileToken(account / "token"), namespace)


def from_kubeconfig(path: Path, context: str = "") -> Access:
    """Return the access that one context of a kubeconfig describes.

    Raises:
        InputError: the file, or an entry of it, is missing or damaged.
    """
    body = _read(path)
    name = context or body.get("current-context") or ""
    if not name:
        raise InputError("names no current-context", where=str(path), remedy="give --context NAME")
    chosen = _entry(body, "contexts", "context", name, path)
    cluster = _entry(body, "clusters", "cluster", str(chosen.get("cluster", "")), path)
    user = _entry(body, "users", "user", str(chosen.get("user", "")), path) if chosen.get("user") else {}
    _refuse_unsupported(cluster, user, path)
    server = str(cluster.get("server") or "").rstrip("/")
    if not server.startswith(("https://", "http://")):
        raise InputError(f"server {server!r} is no URL", where=f"{path}: cluster {chosen.get('cluster')}")
    tls = _tls(cluster, user, path) if server.startswith("https://") else None
    return Access(server, tls, _token(user, path), str(chosen.get("namespace") or "default"))


def _refuse_unsupported(cluster: dict[str, Any], user: dict[str, Any], path: Path) -> None:
    """Refuse what would silently be left out: acting as somebody else than the file says is worse than not acting."""
    for entry, section, names in (
        (cluster, "cluster", ("proxy-url", "tls-server-name")),
        (user, "user", ("as", "as-groups", "as-uid", "auth-provider", "username", "password")),
    ):
        for name in names:
            if entry.get(name):
                remedy = "use a client certificate, a token or exec, and reach the server directly"
                raise InputError(f"{name} is not supported", where=f"{path}: {section}", remedy=remedy)
    has = {name: bool(user.get(name) or user.get(f"{name}-data")) for name in ("client-certificate", "client-key")}
    if len(set(has.values())) > 1:
        raise InputError("has a client certificate or key without the other", where=f"{path}: user")


def _read(path: Path) -> dict[str, Any]:
    try:
        body = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=str(path)) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"is not YAML ({' '.join(str(error).split())})", where=str(path)) from None
    if not isinstance(body, dict):
        raise InputError("is no kubeconfig", where=str(path))
    return body


def _entry(body: dict[str, Any], section: str, inner: str, name: str, path: Path) -> dict[str, Any]:
    rows = body.get(section)
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and row.get("name") == name:
            found = row.get(inner)
            return found if isinstance(found, dict) else {}
    raise InputError(f"has no {inner} called {name!r}", where=str(path))


def _tls(cluster: dict[str, Any], user: dict[str, Any], path: Path) -> ssl.SSLContext:
    where = f"{path}: certificates"
    try:
        authority = _data(cluster, "certificate-authority", path)
        # A context of our own: environment variables such as SSL_CERT_FILE must not decide whom we trust.
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if authority is not None:
            tls.load_verify_locations(cadata=authority.decode("ascii"))
        else:
            tls.load_default_certs()
        if cluster.get("insecure-skip-tls-verify") is True:
            tls.check_hostname = False
            tls.verify_mode = ssl.CERT_NONE
        certificate, key = _data(user, "client-certificate", path), _data(user, "client-key", path)
        if certificate is not None and key is not None:
            _load_chain(tls, certificate, key)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise InputError(f"cannot be used ({error})", where=where) from None
    return tls


def _load_chain(tls: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a client certificate; OpenSSL takes it from files alone."""
    with tempfile.TemporaryDirectory() as folder:
        pair = Path(folder) / "pair.pem"
        pair.touch(mode=0o600)
        pair.write_bytes(certificate + b"\n" + key)
        # Without this OpenSSL would ask at the terminal for the password of an encrypted key.
        tls.load_cert_chain(pair, password="")


def _data(entry: dict[str, Any], field: str, path: Path) -> bytes | None:
    inline = entry.get(f"{field}-data")
    if inline:
        try:
            return base64.b64decode("".join(str(inline).split()), validate=True)
        except binascii.Error as error:
            raise ValueError(f"{field}-data is not base64: {error}") from None
    name = entry.get(field)
    return (path.parent / str(name)).read_bytes() if name else None


def _token(user: dict[str, Any], path: Path) -> Token:
    if user.get("token"):
        return FixedToken(str(user["token"]))
    if user.get("tokenFile"):
        return FileToken(path.parent / str(user["tokenFile"]))
    plugin = user.get("exec")
    if isinstance(plugin, dict):
        if not plugin.get("command"):
            raise InputError("exec names no command", where=f"{path}: user")
        lists = {name: plugin.get(name) or [] for name in ("args", "env")}
        for name, value in lists.items():
            if not isinstance(value, list):
                raise InputError(f"exec {name} is no list", where=f"{path}: user")
        env = {str(e.get("name")): str(e.get("value", "")) for e in lists["env"] if isinstance(e, dict)}
        command = [str(plugin["command"]), *(str(arg) for arg in lists["args"])]
        version = str(plugin.get("apiVersion") or "client.authentication.k8s.io/v1")
        return PluginToken(command, env, version, path.parent)
    return FixedToken()
