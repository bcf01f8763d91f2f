"""etcd, API server, controller-manager and scheduler: real ones, on loopback, for as long as a test lasts."""

from __future__ import annotations

import secrets
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec
import yaml

from terrazzo.kube.access import from_kubeconfig
from terrazzo.kube.errors import ApiError
from terrazzo.kube.kinds import NAMESPACE, NODE, Kind
from terrazzo.model.node import Node
from terrazzo.testing.cluster.admin import Admin
from terrazzo.testing.cluster.authority import Authority, Pair
from terrazzo.testing.cluster.nodes import node_object
from terrazzo.testing.cluster.parts import VERSIONS, part
from terrazzo.testing.cluster.process import Process, output
from terrazzo.testing.cluster.relay import Relay
from terrazzo.testing.cluster.runs import Run
from terrazzo.testing.cluster.store import FLAGS, Store
from terrazzo.testing.cluster.waiting import wait_until

ACCOUNT = Kind("", "v1", "serviceaccounts", "ServiceAccount")
ADMISSION = ("PodTolerationRestriction", "NodeRestriction", "ExtendedResourceToleration")
"""Admission plugins beside the default ones (those count quotas, limits and priorities already)."""
ISSUER = "https://kubernetes.default.svc"
TOKEN_LIFE_S = 24 * 3600
Schedulers = bool | Path | Mapping[str, Any]


class ControlPlane:
    """A control plane; its parts are processes that can be stopped, killed, paused and started one by one.

    Args:
        version: of Kubernetes, one of ``parts.VERSIONS``.
        scheduler: False for none, True for the stock one, else its KubeSchedulerConfiguration as a dict or file.
        controllers: whether the controller-manager runs. Without it nobody marks silent nodes lost, makes service
            accounts, or deletes what an object owned.
        gates: feature gates of all parts.
        api_flags, controller_flags, scheduler_flags: more arguments, which win over ours.
        history: whether all versions of all objects are kept for ``store.history``; benches do without.
        run: the run to belong to; one of its own by default.

    Attributes:
        etcd, api, controller_manager, kube_scheduler: the processes; the last two None where they were not asked for.
        admin: the API as ``system:masters``.
        store: what etcd holds.
    """

    def __init__(
        self,
        version: str = VERSIONS[0],
        *,
        scheduler: Schedulers = True,
        controllers: bool = True,
        gates: Mapping[str, bool] | None = None,
        api_flags: Sequence[str] = (),
        controller_flags: Sequence[str] = (),
        scheduler_flags: Sequence[str] = (),
        history: bool = False,
        run: Run | None = None,
    ) -> None:
        self.version = version
        self.binaries, self._etcd_binary = part(f"kubernetes-{version}"), part("etcd") / "etcd"
        self._owns_run = run is None
        self.run = run or Run()
        self._controllers = controllers
        self._gates = [f"--feature-gates={','.join(f'{name}={on}' for name, on in gates.items())}"] if gates else []
        self._scheduler_flags = scheduler_flags
        self._configs = self.run.make("kubeconfig")
        self._token = secrets.token_urlsafe(24)
        self.authority = Authority(self.run.make("certificates"))
        self._account_keys = self.authority.key_pair("accounts")
        self._serving = self.authority.server("kube", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
        self._port = self.run.port()
        self.server = f"https://127.0.0.1:{self._port}"
        self._tls = ssl.create_default_context(cafile=str(self.authority.certificate))
        self.etcd = self._make_etcd()
        self.store = Store(self._etcd_url)
        self.api = self._make_api([*(FLAGS if history else ()), *api_flags])
        self.admin = Admin(from_kubeconfig(self.kubeconfig()))
        self.controller_manager = self._make_controllers(controller_flags) if controllers else None
        self.kube_scheduler = self._make_scheduler(scheduler) if scheduler is not False else None

    # -- life ----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Start, and return itself; what a failed start left is stopped."""
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()

    def start(self) -> Self:
        """Start all parts and wait until they serve.

        Raises:
            TerrazzoError: a part does not come up; the end of its log is in it.
        """
        self.etcd.start()
        self.api.start()
        others = [each for each in (self.controller_manager, self.kube_scheduler) if each is not None]
        for each in others:
            each.start(wait=False)
        for each in others:
            each.wait_ready()
        if self._controllers:
            self._wait_account("default")
        return self

    def stop(self) -> None:
        """Stop all parts, and everything else of the run where it is ours; the folder goes, too."""
        self.admin.close()
        if self._owns_run:
            self.run.close()
            return
        for each in (self.kube_scheduler, self.controller_manager, self.api, self.etcd):
            if each is not None:
                each.stop()

    def spawn(
        self, name: str, command: Sequence[str | Path], *, ready: Callable[[], object] | None = None, **more: Any
    ) -> Process:
        """Start a process of one's own (a service under test) with the life and log of a part; see ``Process``."""
        return Process(name, command, self.run, ready=ready, **more).start()

    def relay(self) -> Relay:
        """Return a wire to the API server that can be cut; start it, and give ``kubeconfig`` its port."""
        return Relay(self.run.port(), self._port)

    # -- access --------------------------------------------------------------------------------------------------

    def kubeconfig(self, user: str = "admin", groups: Sequence[str] = (), *, port: int = 0) -> Path:
        """Return a kubeconfig of a user.

        Args:
            user: ``admin`` has a token, others a certificate.
            groups: which the certificate names.
            port: of a relay to the API server; the server's own by default.
        """
        if user == "admin":
            return self._write_config(user, {"token": self._token}, port=port)
        pair: Pair = self.authority.user(user, tuple(groups))
        credentials = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
        return self._write_config(user, credentials, port=port)

    def api_as(self, kubeconfig: Path) -> Admin:
        """Return the API with the rights of a kubeconfig; close it, or use it as a context."""
        return Admin(from_kubeconfig(kubeconfig))

    def account_token(self, name: str, namespace: str) -> str:
        """Return a token of a ServiceAccount, as kubelet asks for one (TokenRequest)."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        spec = {"spec": {"expirationSeconds": TOKEN_LIFE_S}}
        answer = self.admin.call("POST", ACCOUNT.path(namespace, name, "token"), {**body, **spec})
        return str(answer["status"]["token"])

    def account_kubeconfig(self, name: str, namespace: str, *, port: int = 0) -> Path:
        """Return a kubeconfig with the rights of a ServiceAccount, and no others."""
        token = self.account_token(name, namespace)
        return self._write_config(f"{namespace}.{name}", {"token": token}, namespace=namespace, port=port)

    def _write_config(
        self, user: str, credentials: Mapping[str, str], *, namespace: str = "default", port: int = 0
    ) -> Path:
        server = f"https://127.0.0.1:{port or self._port}"
        cluster = {"server": server, "certificate-authority": str(self.authority.certificate)}
        body = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "terrazzo-test", "cluster": cluster}],
            "users": [{"name": user, "user": dict(credentials)}],
            "contexts": [{"name": user, "context": {"cluster": "terrazzo-test", "user": user, "namespace": namespace}}],
            "current-context": user,
        }
        through = f"-through-{port}" if port else ""
        path = self._configs / f"{user.replace(':', '-').replace('/', '-')}{through}.yaml"
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(body), "utf-8")
        return path

    # -- kubectl and objects -------------------------------------------------------------------------------------

    def kubectl(self, *arguments: str, given: str = "", user: Path | None = None) -> str:
        """Return what kubectl prints.

        Args:
            *arguments: such as ``get``, ``pods``.
            given: its standard input.
            user: kubeconfig of the caller; the admin's by default.

        Raises:
            TerrazzoError: it failed; what it said is in it.
        """
        kubectl = [self._binary("kubectl"), "--kubeconfig", str(user or self.kubeconfig())]
        env = {"PATH": "", "HOME": str(self.run.make("home"))}
        return output(*kubectl, *arguments, given=given, env=env, shown=f"kubectl {' '.join(arguments)}")

    def apply(
        self, manifests: str | Path | Iterable[Mapping[str, Any]], *, namespace: str = "default",
        user: Path | None = None,
    ) -> str:  # fmt: skip
        """Apply manifests (YAML text, a file or folder, or objects) and return what kubectl says, warnings too."""
        if isinstance(manifests, Path):
            return self.kubectl("apply", "-n", namespace, "-f", str(manifests), user=user)
        text = manifests if isinstance(manifests, str) else yaml.safe_dump_all(map(dict, manifests))
        return self.kubectl("apply", "-n", namespace, "-f", "-", given=text, user=user)

    def add_nodes(self, nodes: Iterable[Node], *, by: Admin | None = None, **more: Any) -> None:
        """Create the Node objects of nodes, many at once.

        Args:
            nodes: to create.
            by: who creates them, where guards let only some write inventories; the admin by default.
            **more: see ``nodes.node_object``.
        """
        (by or self.admin).create_all(NODE, [node_object(node, **more) for node in nodes])

    def new_namespace(self, prefix: str = "test") -> str:
        """Create a namespace that nobody else uses, wait until pods can be created in it, and return its name."""
        name = f"{prefix}-{secrets.token_hex(4)}"
        self.admin.create(NAMESPACE, {"metadata": {"name": name}})
        if self._controllers:
            self._wait_account(name)
        return name

    def _wait_account(self, namespace: str) -> None:
        what = f"namespace {namespace} has its default service account"
        wait_until(lambda: self.admin.find(ACCOUNT, "default", namespace), what)

    def logs(self, lines: int = 40) -> str:
        """Return the ends of all parts' logs, for a test that failed."""
        return "\n".join(f"--- {name}\n{each.tail(lines)}" for name, each in self.run.processes.items())

    # -- parts ---------------------------------------------------------------------------------------------------

    def _make_etcd(self) -> Process:
        client, peer = (f"http://127.0.0.1:{self.run.port()}" for _ in range(2))
        self._etcd_url = client
        command = [
            str(self._etcd_binary), "--name=etcd", f"--data-dir={self.run.folder / 'etcd'}", "--unsafe-no-fsync",
            f"--listen-client-urls={client}", f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=etcd={peer}", "--log-level=warn",
            f"--quota-backend-bytes={4 << 30}",
        ]  # fmt: skip
        return Process("etcd", command, self.run, ready=lambda: _answers(f"{client}/health"))

    def _make_api(self, more: Sequence[str]) -> Process:
        tokens = self.run.folder / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text(f"{self._token},admin,admin,system:masters\n", "utf-8")
        # Without controllers nobody makes service accounts, and nobody takes the not-ready taint off again.
        disabled = [] if self._controllers else ["--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"]
        proxy = self.authority.user("front-proxy")
        kubelets = self.authority.user("kube-apiserver", ("system:masters",))
        command = [
            self._binary("kube-apiserver"), f"--etcd-servers={self._etcd_url}", "--bind-address=127.0.0.1",
            f"--secure-port={self._port}", *self._serving_flags(), f"--cert-dir={self.authority.folder}",
            f"--client-ca-file={self.authority.certificate}", f"--token-auth-file={tokens}",
            "--authorization-mode=Node,RBAC", f"--service-account-issuer={ISSUER}",
            f"--service-account-key-file={self._account_keys.certificate}",
            f"--service-account-signing-key-file={self._account_keys.key}", "--service-cluster-ip-range=10.96.0.0/16",
            f"--enable-admission-plugins={','.join(ADMISSION)}", *disabled, "--endpoint-reconciler-type=none",
            # Without an authority for request headers the other parts wait for one, and log that, for seconds.
            f"--requestheader-client-ca-file={self.authority.certificate}", "--requestheader-allowed-names=front-proxy",
            "--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-", f"--proxy-client-cert-file={proxy.certificate}",
            f"--proxy-client-key-file={proxy.key}", "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-client-certificate={kubelets.certificate}", f"--kubelet-client-key={kubelets.key}",
            "--allow-privileged", "--profiling=false", *self._gates, *more,
        ]  # fmt: skip
        return Process("kube-apiserver", command, self.run, ready=self._api_ready)

    def _api_ready(self) -> bool:
        try:
            self.admin.get(NAMESPACE, "kube-system")
        except ApiError:
            return False
        return _answers(f"{self.server}/readyz", self._tls)

    def _make_controllers(self, more: Sequence[str]) -> Process:
        config, port = self.kubeconfig("system:kube-controller-manager"), self.run.port()
        command = [
            self._binary("kube-controller-manager"), f"--kubeconfig={config}", *_authority_flags(config, port),
            *self._serving_flags(), f"--service-account-private-key-file={self._account_keys.key}",
            f"--root-ca-file={self.authority.certificate}", "--use-service-account-credentials",
            "--leader-elect=false", "--kube-api-qps=500", "--kube-api-burst=1000", *self._gates, *more,
        ]  # fmt: skip
        ready = self._served(f"https://127.0.0.1:{port}/healthz")
        return Process("kube-controller-manager", command, self.run, ready=ready)

    def _make_scheduler(self, config: Schedulers) -> Process:
        body = config if isinstance(config, Mapping) else _read(config) if isinstance(config, Path) else {}
        return self.make_scheduler("kube-scheduler", body, self.kubeconfig("system:kube-scheduler"))

    def make_scheduler(self, name: str, config: Mapping[str, Any], kubeconfig: Path) -> Process:
        """Return a kube-scheduler, not started yet.

        Args:
            name: of the process.
            config: KubeSchedulerConfiguration; how to reach the API server and that it leads need not be in it.
            kubeconfig: with whose rights.
        """
        whole = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            **config,
            "clientConnection": {"qps": 5000, "burst": 5000, **config.get("clientConnection", {})}
            | {"kubeconfig": str(kubeconfig)},
            "leaderElection": {"leaderElect": False},
        }
        file, port = self.run.make("schedulers") / f"{name}.json", self.run.port()
        file.write_bytes(msgspec.json.encode(whole))
        command = [
            self._binary("kube-scheduler"), f"--config={file}", *_authority_flags(kubeconfig, port),
            *self._serving_flags(), *self._gates, *self._scheduler_flags,
        ]  # fmt: skip
        return Process(name, command, self.run, ready=self._served(f"https://127.0.0.1:{port}/readyz"))

    def _binary(self, name: str) -> str:
        return str(self.binaries / name)

    def _serving_flags(self) -> list[str]:
        return [f"--tls-cert-file={self._serving.certificate}", f"--tls-private-key-file={self._serving.key}"]

    def _served(self, url: str) -> Callable[[], bool]:
        return lambda: _answers(url, self._tls)


def _authority_flags(config: Path, port: int) -> list[str]:
    """Return where a part serves and whom it asks about its callers."""
    asked = [f"--authentication-kubeconfig={config}", f"--authorization-kubeconfig={config}"]
    return ["--bind-address=127.0.0.1", f"--secure-port={port}", *asked]


def _read(file: Path) -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load(file.read_text("utf-8"))
    return body


def _answers(url: str, tls: ssl.SSLContext | None = None) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls))
    try:
        with opener.open(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
