"""Keeps the webhook's certificate: in a Secret that all replicas share, in the live TLS context, in the registration.

Every replica does the same: read the Secret, do the next step of a renewal if one is due, load what is served, tell
the API server by which authorities to check it. Who loses a race to write reads what the winner wrote.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import datetime as dt
import os
import ssl
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct, field

from terrazzo.control import certificates
from terrazzo.control.certificates import Material
from terrazzo.control.registration import MUTATING_NAME, VALIDATING_NAME
from terrazzo.kube.client import JSON, Client
from terrazzo.kube.errors import ApiError, Conflict, NotFound
from terrazzo.kube.kinds import MUTATING, SECRET, VALIDATING, Kind
from terrazzo.model.errors import InputError
from terrazzo.wire.kubernetes import ObjectMeta

EVERY_S = 60.0
RETRY_S = 2.0
ATTEMPTS = 5


class _Secret(Struct):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    data: dict[str, str] | None = None
    type: str = ""


class _ClientConfig(Struct, rename="camel"):
    ca_bundle: str = ""


class _Hook(Struct, rename="camel"):
    name: str = ""
    client_config: _ClientConfig = field(default_factory=_ClientConfig)


class _Configuration(Struct):
    webhooks: list[_Hook] | None = None


def server_context() -> ssl.SSLContext:
    """Return the TLS context to serve with; ``Keeper`` loads certificates into it while it serves."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """Return the names by which the API server, and people, reach a Service."""
    return f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local", f"{service}.{namespace}"


class Keeper:
    """Keeps one certificate.

    Args:
        client: the API server.
        namespace: of the Secret.
        secret: its name.
        names: DNS names and addresses that the certificate is for.
        context: of the server; see ``server_context``.
        log: structured log.
        foreign: cert-manager writes the Secret, it is only read.
        registers: the API server is told the authorities; a process that only serves the extender tells nobody.
        now: the time, in UTC.
    """

    def __init__(
        self, client: Client, namespace: str, secret: str, names: Sequence[str], context: ssl.SSLContext, log: Any, *,
        foreign: bool = False, registers: bool = True, now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC),
    ) -> None:  # fmt: skip
        self._client = client
        self._namespace = namespace
        self._secret = secret
        self._names = tuple(names)
        self._context = context
        self._log = log
        self._foreign = foreign
        self._told = ((MUTATING, MUTATING_NAME), (VALIDATING, VALIDATING_NAME)) if registers else ()
        self._now = now
        self._where = f"Secret {namespace}/{secret}"
        self._loaded = b""
        self._waits = ["the certificate"]
        self._said = ""

    @property
    def waits_for(self) -> list[str]:
        """What is missing before HTTPS can be served."""
        return self._waits

    async def run(self) -> None:
        """Keep the certificate until cancelled."""
        while True:
            done = await self.attempt()
            await asyncio.sleep(EVERY_S if done else RETRY_S)

    async def attempt(self) -> bool:
        """Do what is due; False, and a line in the log, where something has to be tried again."""
        try:
            await self.round()
        except (ApiError, InputError) as error:
            self._say(str(error))
            return False
        self._said = ""
        return True

    async def round(self) -> None:
        """Read the Secret, renew it if that is due, load it, and tell the API server the authorities.

        Raises:
            ApiError: the API server does not do what it is asked to.
            InputError: cert-manager's Secret cannot be used, or a webhook is not registered yet.
        """
        if self._foreign:
            chain, bundle = await self._read_foreign()
        else:
            material = await self._hold()
            chain, bundle = material.chain, material.bundle
        # What is served is loaded before its authority is told: a new authority signs nothing for an hour.
        self._load(chain)
        missing = [name for kind, name in self._told if not await self._tell(kind, name, bundle)]
        if missing:
            raise InputError("is not registered yet", where=f"webhook configuration {missing[0]}")

    # -- the Secret ----------------------------------------------------------------------------------------------

    async def _hold(self) -> Material:
        """Return what the Secret holds once it is as it should be now."""
        for _ in range(ATTEMPTS):
            secret = await self._find()
            held = self._read(secret) if secret is not None else None
            now = self._now()
            wanted = certificates.renew(held, self._names, now) if held is not None else None
            wanted = wanted or certificates.make(self._names, now)
            if held is not None and certificates.written(wanted) == certificates.written(held):
                return held
            try:
                await self._write(secret, wanted)
            except Conflict:
                continue  # another replica was first: what it wrote counts
            self._log.info("certificate renewed", secret=self._where, until=f"{_until(wanted):%Y-%m-%dT%H:%M:%SZ}")
            return wanted
        raise InputError("is changed by others without end", where=self._where)

    def _read(self, secret: _Secret) -> Material | None:
        """Return what a Secret holds; None, and a line in the log, where it is damaged and has to be made anew."""
        if not secret.data:
            return None  # made empty on purpose, such as by a chart that grants rights over this one name
        try:
            return certificates.read(self._entries(secret), self._where)
        except InputError as error:
            self._log.warning("certificate replaced", said=f"{error} It is made anew.")
            return None

    async def _read_foreign(self) -> tuple[bytes, bytes]:
        secret = await self._find()
        if secret is None:
            raise InputError("is not there yet, cert-manager is to write it", where=self._where)
        return certificates.read_foreign(self._entries(secret), self._where)

    def _entries(self, secret: _Secret) -> dict[str, bytes]:
        try:
            return {name: base64.b64decode(text, validate=True) for name, text in (secret.data or {}).items()}
        except (binascii.Error, ValueError):
            raise InputError("has an entry that is not base64", where=self._where) from None

    async def _find(self) -> _Secret | None:
        try:
            return await self._client.get(SECRET, _Secret, self._secret, self._namespace)
        except NotFound:
            return None

    async def _write(self, secret: _Secret | None, wanted: Material) -> None:
        data = {name: base64.b64encode(text).decode() for name, text in certificates.written(wanted).items()}
        if secret is None:
            metadata = {"name": self._secret, "labels": {"app.kubernetes.io/managed-by": "terrazzo"}}
            await self._client.create(
                SECRET, {"metadata": metadata, "type": "kubernetes.io/tls", "data": data}, self._namespace
            )
            return
        # The version makes this a conflict if another replica was first; what others wrote beside it stays.
        body = {"metadata": {"resourceVersion": secret.metadata.resource_version}, "data": data}
        await self._client.patch(SECRET, body, self._secret, self._namespace)

    # -- who is told ---------------------------------------------------------------------------------------------

    def _load(self, chain: bytes) -> None:
        if chain == self._loaded:
            return
        # OpenSSL loads from files only, and the root file system may be read-only: a file that is in memory alone.
        file = os.memfd_create("certificate", os.MFD_CLOEXEC)
        try:
            with os.fdopen(os.dup(file), "wb") as writer:
                writer.write(chain)
            self._context.load_cert_chain(f"/proc/self/fd/{file}")
        except (ssl.SSLError, OSError) as error:
            raise InputError(f"cannot be served ({error})", where=self._where) from None
        finally:
            os.close(file)
        self._loaded = chain
        self._waits = []
        self._log.info("certificate loaded", secret=self._where)

    async def _tell(self, kind: Kind, name: str, bundle: bytes) -> bool:
        """Have every webhook of a configuration checked by these authorities; False where there is no such object."""
        text = base64.b64encode(bundle).decode()
        try:
            found = await self._client.get(kind, _Configuration, name)
            changes: list[dict[str, Any]] = []
            for index, hook in enumerate(found.webhooks or ()):
                if hook.client_config.ca_bundle != text:
                    at = f"/webhooks/{index}"
                    changes += [
                        {"op": "test", "path": f"{at}/name", "value": hook.name},
                        {"op": "add", "path": f"{at}/clientConfig/caBundle", "value": text},
                    ]
            if changes:
                await self._client.patch(kind, changes, name, form=JSON)
                self._log.info("authorities told", configuration=name)
        except NotFound:
            return False
        return True

    def _say(self, sentence: str) -> None:
        if sentence != self._said:  # once, not every two seconds
            self._said = sentence
            self._log.warning("certificate", said=sentence)


def _until(material: Material) -> dt.datetime:
    return material.serving.certificate.not_valid_after_utc
