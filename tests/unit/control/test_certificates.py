"""The webhook's certificate over the years: every step checked as an API server checks it, with real handshakes."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import functools
import ssl
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from terrazzo.control import certificates
from terrazzo.control.certificates import (
    AUTHORITY_LIFE,
    AUTHORITY_RENEW,
    BACKDATED,
    OVERLAP,
    SERVING_LIFE,
    SERVING_RENEW,
    Material,
    make,
    read,
    read_foreign,
    renew,
    written,
)
from terrazzo.control.keeping import Keeper, server_context, service_names
from terrazzo.kube.errors import Conflict, NotFound
from terrazzo.model.errors import InputError

NOW = dt.datetime(2026, 12, 1, 12, tzinfo=dt.UTC)
NAMES = ("terrazzo-webhook.terrazzo-system.svc", "127.0.0.1")
DAY = dt.timedelta(days=1)
WHERE = "Secret terrazzo-system/tls"


def checks(bundle: bytes, material: Material, name: str = NAMES[0], at: dt.datetime = NOW) -> bool:
    """Whether a caller that trusts ``bundle`` accepts what is served, by the rules of the web (RFC 5280)."""
    roots = x509.verification.Store(x509.load_pem_x509_certificates(bundle))
    verifier = x509.verification.PolicyBuilder().store(roots).time(at)
    try:
        verifier.build_server_verifier(x509.DNSName(name)).verify(material.serving.certificate, [])
    except x509.verification.VerificationError:
        return False
    return True


def serial(material: Material) -> int:
    return material.serving.certificate.serial_number


def test_a_new_certificate_is_accepted_for_its_names_and_no_others() -> None:
    made = make(NAMES, NOW)
    assert certificates.names_of(made.serving.certificate) == NAMES
    assert checks(made.bundle, made)
    assert not checks(made.bundle, made, "elsewhere.svc")
    assert not checks(make(NAMES, NOW).bundle, made)
    assert isinstance(made.serving.certificate.public_key(), ec.EllipticCurvePublicKey)


def test_a_caller_whose_clock_is_behind_accepts_it() -> None:
    made = make(NAMES, NOW)
    assert checks(made.bundle, made, at=NOW - dt.timedelta(minutes=55))
    assert not checks(made.bundle, made, at=NOW - BACKDATED - dt.timedelta(minutes=1))


def test_nothing_is_renewed_before_it_is_due() -> None:
    made = make(NAMES, NOW)
    for days in (0, 1, (SERVING_LIFE - SERVING_RENEW).days):
        assert written(renew(made, NAMES, NOW + days * DAY)) == written(made)


def test_what_is_written_is_what_is_read() -> None:
    made = make(NAMES, NOW)
    again = read(written(made), WHERE)
    assert written(again) == written(made)
    assert again.chain == made.chain
    assert set(written(made)) == {"tls.crt", "tls.key", "ca.crt", "ca.key"}


def test_the_serving_certificate_is_renewed_under_the_same_authority() -> None:
    made = make(NAMES, NOW)
    later = NOW + SERVING_LIFE - SERVING_RENEW + DAY
    after = renew(made, NAMES, later)
    assert after.bundle == made.bundle
    assert serial(after) != serial(made)
    assert checks(made.bundle, after, at=later)


def test_other_names_are_served_by_the_same_authority() -> None:
    made = make(NAMES, NOW)
    after = renew(made, ("other.svc",), NOW)
    assert after.bundle == made.bundle
    assert checks(made.bundle, after, "other.svc")


def test_thirteen_years_of_rotation_never_meet_a_caller_that_cannot_check() -> None:
    """Step by step, with callers and replicas half an hour behind, as the Secret would hold it."""
    held, now = make(NAMES, NOW), NOW
    told, bundles, serials = held.bundle, {held.bundle}, set()
    step = dt.timedelta(minutes=50)
    while now < NOW + 13 * 365 * DAY:
        before = held
        held = read(written(renew(held, NAMES, now)), WHERE)
        assert checks(told, held, at=now), "a caller with the bundle of the last step meets the new certificate"
        assert checks(held.bundle, before, at=now), "a caller with the new bundle meets the certificate of the last"
        told = held.bundle
        bundles.add(told)
        serials.add(serial(held))
        assert len(held.authorities) <= 2
        # Days in which nothing happens are skipped.
        now += step if len(held.authorities) > 1 or written(held) != written(before) else 29 * DAY
    rotations = 13 * 365 * DAY // (AUTHORITY_LIFE - AUTHORITY_RENEW + 29 * DAY)
    assert len(bundles) == 1 + 2 * rotations
    assert len(serials) > 13 * 365 * DAY // SERVING_LIFE


def test_a_new_authority_is_told_before_it_signs_and_the_old_one_after() -> None:
    held = make(NAMES, NOW)
    due = NOW + AUTHORITY_LIFE - AUTHORITY_RENEW + DAY
    held = renew(held, NAMES, due - 40 * DAY)
    first = renew(held, NAMES, due)
    assert len(first.authorities) == 2
    assert serial(first) == serial(held) or checks(held.bundle, first, at=due)
    assert len(renew(first, NAMES, due + OVERLAP / 2).authorities) == 2
    second = renew(first, NAMES, due + OVERLAP)
    assert len(second.authorities) == 2
    assert not checks(held.bundle, second, at=due + OVERLAP)
    third = renew(second, NAMES, due + 2 * OVERLAP)
    assert third.authorities == second.authorities[1:]


@pytest.mark.parametrize("jump", [-400 * DAY, 3000 * DAY], ids=["back", "forward"])
def test_a_clock_that_jumps_gets_a_certificate_that_holds(jump: dt.timedelta) -> None:
    now = NOW + jump
    after = renew(make(NAMES, NOW), NAMES, now)
    assert checks(after.bundle, after, at=now)


@pytest.mark.parametrize("name", ["tls.crt", "tls.key", "ca.crt", "ca.key"])
@pytest.mark.parametrize("text", [b"", b"x", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
                                  b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])  # fmt: skip
def test_a_damaged_entry_is_a_sentence_or_made_anew(name: str, text: bytes) -> None:
    entries = {**written(make(NAMES, NOW)), name: text}
    if name == "ca.key" and b"KEY" not in text:
        # The authority can sign no more, so what it signed is not kept.
        held = read(entries, WHERE)
        assert renew(held, NAMES, NOW).bundle != held.bundle
        return
    with pytest.raises(InputError, match=WHERE) as caught:
        read(entries, WHERE)
    assert "\n" not in str(caught.value)


def test_entries_that_do_not_belong_together_are_found() -> None:
    one, other = written(make(NAMES, NOW)), written(make(NAMES, NOW))
    with pytest.raises(InputError, match=r"tls\.key is not the key of tls\.crt"):
        read({**one, "tls.key": other["tls.key"]}, WHERE)
    with pytest.raises(InputError, match=r"signed tls\.crt"):
        read({**one, "ca.crt": other["ca.crt"]}, WHERE)
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with pytest.raises(InputError, match="elliptic"):
        read({**one, "tls.key": key}, WHERE)


def test_a_secret_of_cert_manager_is_taken_as_it_is() -> None:
    entries = written(make(NAMES, NOW))
    del entries["ca.key"]
    chain, bundle = read_foreign(entries, WHERE)
    assert chain == entries["tls.crt"] + entries["tls.key"]
    assert bundle == entries["ca.crt"]
    with pytest.raises(InputError, match=r"has no ca\.crt"):
        read_foreign({**entries, "ca.crt": b""}, WHERE)


# -- keeping it: against the calls of an API server, kept in memory --------------------------------------------------


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run


class Api:
    """As much of an API server as a keeper calls, with optimistic concurrency."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.version = 0
        self.rival: Any = None
        """Called once just before a write."""

    def put(self, path: str, body: dict[str, Any]) -> None:
        self.version += 1
        self.objects[path] = {**body, "metadata": {**body.get("metadata", {}), "resourceVersion": str(self.version)}}

    async def get(self, kind: Any, type_: Any, name: str, namespace: str = "") -> Any:
        path = kind.path(namespace, name)
        if path not in self.objects:
            raise NotFound("not there", where=path)
        return msgspec.convert(self.objects[path], type_)

    async def create(self, kind: Any, body: Any, namespace: str = "") -> bytes:
        self._rival()
        path = kind.path(namespace, body["metadata"]["name"])
        if path in self.objects:
            raise Conflict("exists", where=path)
        self.put(path, body)
        return b"{}"

    async def patch(self, kind: Any, body: Any, name: str, namespace: str = "", *, form: str = "") -> bytes:
        path = kind.path(namespace, name)
        held = self.objects[path]
        if isinstance(body, list):
            assert form == "application/json-patch+json"
            for operation in body:
                _, _, index, *fields = operation["path"].split("/")
                hook = held["webhooks"][int(index)]
                if operation["op"] == "test":
                    assert hook["name"] == operation["value"]
                else:
                    assert fields == ["clientConfig", "caBundle"]
                    hook["clientConfig"]["caBundle"] = operation["value"]
            return b"{}"
        self._rival()
        if self.objects[path]["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise Conflict("changed", where=path)
        self.put(path, {**held, "data": {**held.get("data", {}), **body["data"]}})
        return b"{}"

    def _rival(self) -> None:
        rival, self.rival = self.rival, None
        if rival is not None:
            rival()


class Log:
    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.lines.append((event, fields))

    warning = info


SECRET = "/api/v1/namespaces/terrazzo-system/secrets/tls"  # noqa: S105 - a path
HOOKS = [
    f"/apis/admissionregistration.k8s.io/v1/{plural}/terrazzo"
    for plural in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
]


@pytest.fixture
def api() -> Api:
    made = Api()
    for path in HOOKS:
        made.put(path, {"webhooks": [{"name": f"{i}", "clientConfig": {"url": "https://x"}} for i in range(2)]})
    return made


def keeper(api: Api, log: Log | None = None, **more: Any) -> Keeper:
    client: Any = api
    return Keeper(client, "terrazzo-system", "tls", NAMES, server_context(), log or Log(), **more)


def told(api: Api) -> set[bytes]:
    return {
        base64.b64decode(hook["clientConfig"]["caBundle"]) for path in HOOKS for hook in api.objects[path]["webhooks"]
    }


def held(api: Api) -> dict[str, bytes]:
    return {name: base64.b64decode(text) for name, text in api.objects[SECRET]["data"].items()}


def greeting(each: Keeper, bundle: bytes) -> x509.Certificate:
    """Return the certificate that a client which trusts ``bundle`` is shown, after a whole handshake."""
    context = ssl.create_default_context(cadata=bundle.decode())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    server = each._context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(6):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    shown = client.getpeercert(binary_form=True)
    assert shown
    return x509.load_der_x509_certificate(shown)


@in_a_loop
async def test_it_is_made_stored_loaded_and_told(api: Api) -> None:
    each = keeper(api)
    assert each.waits_for
    await each.round()
    assert each.waits_for == []
    assert told(api) == {held(api)["ca.crt"]}
    assert api.objects[SECRET]["type"] == "kubernetes.io/tls"
    assert greeting(each, held(api)["ca.crt"]) == read(held(api), "").serving.certificate
    version = api.version
    await each.round()
    assert api.version == version


@in_a_loop
async def test_of_two_replicas_one_makes_it_and_both_serve_it(api: Api) -> None:
    theirs = written(make(NAMES, dt.datetime.now(dt.UTC)))
    data = {name: base64.b64encode(text).decode() for name, text in theirs.items()}
    api.rival = lambda: api.put(SECRET, {"type": "kubernetes.io/tls", "data": data})
    each = keeper(api)
    await each.round()
    assert held(api) == theirs
    assert greeting(each, theirs["ca.crt"]) == read(theirs, "").serving.certificate


@in_a_loop
async def test_who_loses_a_renewal_takes_what_the_winner_wrote(api: Api) -> None:
    first = keeper(api)
    await first.round()
    start = dt.datetime.now(dt.UTC)
    later = start + SERVING_LIFE - DAY
    winner = renew(read(held(api), ""), NAMES, later)
    data = {name: base64.b64encode(text).decode() for name, text in written(winner).items()}
    api.rival = lambda: api.put(SECRET, {**api.objects[SECRET], "data": data})
    await keeper(api, now=lambda: later).round()
    assert held(api) == written(winner)


@in_a_loop
async def test_a_running_server_shows_a_renewed_certificate(api: Api) -> None:
    start = dt.datetime.now(dt.UTC)
    clock = [start - 70 * DAY]
    each = keeper(api, now=lambda: clock[0])
    await each.round()
    before = greeting(each, held(api)["ca.crt"])
    clock[0] = start
    await each.round()
    assert greeting(each, held(api)["ca.crt"]) != before


@pytest.mark.parametrize("data", [{"tls.crt": "!"}, {"tls.crt": "AAAA"}, {"x": ""}])
@in_a_loop
async def test_a_damaged_secret_is_replaced_with_a_sentence(api: Api, data: dict[str, str]) -> None:
    api.put(SECRET, {"type": "kubernetes.io/tls", "data": data})
    log = Log()
    await keeper(api, log).round()
    assert read(held(api), "")
    said = [fields["said"] for event, fields in log.lines if event == "certificate replaced"]
    assert len(said) == 1
    assert said[0].startswith("Secret terrazzo-system/tls")
    assert told(api) == {held(api)["ca.crt"]}


@in_a_loop
async def test_an_empty_secret_is_filled_without_a_word(api: Api) -> None:
    api.put(SECRET, {"type": "kubernetes.io/tls"})
    log = Log()
    await keeper(api, log).round()
    assert read(held(api), "")
    assert all(event != "certificate replaced" for event, _ in log.lines)


@in_a_loop
async def test_a_missing_registration_is_said_once_and_tried_again(api: Api) -> None:
    del api.objects[HOOKS[1]]
    log = Log()
    each = keeper(api, log)
    assert [await each.attempt() for _ in range(3)] == [False] * 3
    assert [fields["said"] for event, fields in log.lines if event == "certificate"] == [
        "webhook configuration terrazzo: is not registered yet."
    ]
    assert each.waits_for == []
    api.put(HOOKS[1], {"webhooks": []})
    assert await each.attempt()


@in_a_loop
async def test_the_secret_of_cert_manager_is_only_read(api: Api) -> None:
    each = keeper(api, foreign=True)
    assert not await each.attempt()
    assert each.waits_for
    theirs = written(make(NAMES, dt.datetime.now(dt.UTC)))
    del theirs["ca.key"]
    data = {name: base64.b64encode(text).decode() for name, text in theirs.items()}
    api.put(SECRET, {"data": data})
    version = api.version
    assert await each.attempt()
    assert api.version == version
    assert told(api) == {theirs["ca.crt"]}
    assert greeting(each, theirs["ca.crt"])


def test_a_service_is_reached_by_the_name_that_the_api_server_uses() -> None:
    assert service_names("terrazzo-webhook", "ns")[0] == "terrazzo-webhook.ns.svc"
