"""Certificates of the webhook: made, and renewed step by step. Pure: what should be, given what is and the time.

An authority of our own signs one serving certificate. A new authority is told to the API server an hour before
anything is signed by it, and the old one is told for an hour after: at no moment does a caller meet a certificate
that it cannot check. ``keeping`` stores and loads what is decided here.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Sequence

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

from terrazzo.model.errors import InputError

AUTHORITY_LIFE = dt.timedelta(days=1825)
AUTHORITY_RENEW = dt.timedelta(days=365)
"""Before the end: longer than what it signs lives."""
SERVING_LIFE = dt.timedelta(days=90)
SERVING_RENEW = dt.timedelta(days=30)
BACKDATED = dt.timedelta(hours=1)
"""The API server's clock may be behind ours."""
OVERLAP = dt.timedelta(hours=1)
"""For every API server and every replica to learn of an authority."""

CERTIFICATE, KEY, AUTHORITIES, AUTHORITY_KEYS = "tls.crt", "tls.key", "ca.crt", "ca.key"
"""Entries of the Secret; cert-manager writes the first three alike."""
_END = b"-----END PRIVATE KEY-----"


class Signed(Struct, frozen=True):
    """A certificate with its key; the key of an authority that signs no more is not kept."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey | None

    def age(self, now: dt.datetime) -> dt.timedelta:
        """Return how long ago it was made."""
        return now - self.certificate.not_valid_before_utc - BACKDATED

    def holds(self, now: dt.datetime) -> bool:
        """Return whether it is valid; it is not yet, where the clock was set back."""
        return self.certificate.not_valid_before_utc <= now < self.certificate.not_valid_after_utc

    def left(self, now: dt.datetime) -> dt.timedelta:
        """Return how long it holds."""
        return self.certificate.not_valid_after_utc - now


class Material(Struct, frozen=True):
    """What serves HTTPS, and by what callers check it.

    Attributes:
        authorities: oldest first; callers are told all of them.
        serving: the certificate of the webhook.
    """

    authorities: tuple[Signed, ...]
    serving: Signed

    @property
    def bundle(self) -> bytes:
        """The authorities' certificates (PEM): what a webhook configuration holds as ``caBundle``."""
        return b"".join(_pem(each.certificate) for each in self.authorities)

    @property
    def chain(self) -> bytes:
        """Serving certificate and key in one (PEM), as a TLS context loads them."""
        return _pem(self.serving.certificate) + _key_pem(self.serving)

    def signer(self) -> Signed | None:
        """Return the authority that signed the serving certificate."""
        return next((each for each in reversed(self.authorities) if _signed_by(self.serving, each)), None)


def make(names: Sequence[str], now: dt.datetime) -> Material:
    """Return a new authority and a serving certificate for these DNS names and addresses."""
    authority = _authority(now)
    return Material((authority,), _serving(authority, names, now))


def renew(held: Material, names: Sequence[str], now: dt.datetime) -> Material:
    """Return what should be held now: ``held`` itself, or with the next step of a renewal done.

    Args:
        held: as read.
        names: that the serving certificate has to be for.
        now: the time, in UTC.
    """
    signer = held.signer()
    if signer is None or signer.key is None or not signer.holds(now):
        return make(names, now)
    authorities, serving = held.authorities, held.serving
    newest = authorities[-1]
    if newest.left(now) < AUTHORITY_RENEW:
        authorities = (*authorities, _authority(now))
        newest = authorities[-1]
    known = newest if newest.key is not None and newest.age(now) >= OVERLAP else signer
    other_names = set(names) != set(names_of(serving.certificate))
    if known is not signer or other_names or not serving.holds(now) or serving.left(now) < SERVING_RENEW:
        serving = _serving(known, names, now)
    elif serving.age(now) >= OVERLAP:
        # Every replica serves by the signer: nothing older is needed, and something newer is on its way.
        authorities = authorities[next(i for i, each in enumerate(authorities) if each is signer) :]
    return Material(authorities, serving)


def names_of(certificate: x509.Certificate) -> tuple[str, ...]:
    """Return the DNS names and addresses that a certificate is for."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    dns = found.get_values_for_type(x509.DNSName)
    return (*dns, *(str(each) for each in found.get_values_for_type(x509.IPAddress)))


def written(material: Material) -> dict[str, bytes]:
    """Return the entries of the Secret."""
    return {
        CERTIFICATE: _pem(material.serving.certificate),
        KEY: _key_pem(material.serving),
        AUTHORITIES: material.bundle,
        AUTHORITY_KEYS: b"".join(_key_pem(each) for each in material.authorities if each.key is not None),
    }


def read(entries: dict[str, bytes], where: str) -> Material:
    """Return what a Secret of ours holds.

    Raises:
        InputError: an entry is missing or damaged, or they do not belong together.
    """
    keys = _keys(entries.get(AUTHORITY_KEYS, b""), f"{where}: {AUTHORITY_KEYS}")
    serving = _pair(entries, where)
    authorities = _certificates(entries.get(AUTHORITIES, b""), f"{where}: {AUTHORITIES}")
    by_public = {_public(key.public_key()): key for key in keys}
    found = tuple(Signed(each, by_public.get(_public(each.public_key()))) for each in authorities)
    material = Material(found, serving)
    if material.signer() is None:
        raise InputError(f"no certificate of {AUTHORITIES} signed {CERTIFICATE}", where=where)
    return material


def read_foreign(entries: dict[str, bytes], where: str) -> tuple[bytes, bytes]:
    """Return chain with key, and authorities, of a Secret that cert-manager writes; its keys may be of any kind.

    Raises:
        InputError: an entry is missing or is no certificate.
    """
    for name in (CERTIFICATE, KEY, AUTHORITIES):
        if not entries.get(name):
            remedy = "have the Certificate's issuer fill it in"
            raise InputError(f"has no {name}", where=where, remedy=remedy)
    for name in (CERTIFICATE, AUTHORITIES):
        _certificates(entries[name], f"{where}: {name}")
    return entries[CERTIFICATE].rstrip() + b"\n" + entries[KEY], entries[AUTHORITIES]


def _pair(entries: dict[str, bytes], where: str) -> Signed:
    certificate = _certificates(entries.get(CERTIFICATE, b""), f"{where}: {CERTIFICATE}")[0]
    keys = _keys(entries.get(KEY, b""), f"{where}: {KEY}")
    if len(keys) != 1 or _public(keys[0].public_key()) != _public(certificate.public_key()):
        raise InputError(f"{KEY} is not the key of {CERTIFICATE}", where=where)
    return Signed(certificate, keys[0])


def _certificates(text: bytes, where: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(text)
    except ValueError:
        raise InputError("is no certificate in PEM", where=where) from None


def _keys(text: bytes, where: str) -> list[ec.EllipticCurvePrivateKey]:
    found = []
    for part in text.split(_END)[:-1]:
        try:
            key = serialization.load_pem_private_key(part.strip() + b"\n" + _END + b"\n", None)
        except (ValueError, TypeError):
            raise InputError("is no private key in PEM", where=where) from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise InputError("is no key on an elliptic curve", where=where)
        found.append(key)
    return found


def _signed_by(serving: Signed, authority: Signed) -> bool:
    try:
        serving.certificate.verify_directly_issued_by(authority.certificate)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _authority(now: dt.datetime) -> Signed:
    key = ec.generate_private_key(ec.SECP256R1())
    # The time in the name tells authorities apart, for people and for programs that look issuers up by name.
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"terrazzo webhook {now:%Y-%m-%dT%H:%M:%SZ}")])
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    built = _builder(name, name, key, now, AUTHORITY_LIFE)
    built = built.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    built = built.add_extension(usage, critical=True)
    built = built.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return Signed(built.sign(key, hashes.SHA256()), key)


def _serving(authority: Signed, names: Sequence[str], now: dt.datetime) -> Signed:
    if authority.key is None:
        raise InputError("the authority's key is gone", where="certificates")
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "terrazzo-webhook")])
    # No certificate outlives its authority, or a caller would meet one that cannot be checked.
    life = min(SERVING_LIFE, authority.left(now))
    built = _builder(subject, authority.certificate.subject, key, now, life)
    built = built.add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
    built = built.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    by = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    built = built.add_extension(by, critical=False)
    built = built.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    return Signed(built.sign(authority.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: dt.datetime, life: dt.timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + life)
    )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(signed: Signed) -> bytes:
    if signed.key is None:
        return b""
    return signed.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _public(key: object) -> bytes:
    if not hasattr(key, "public_bytes"):
        return b""
    return bytes(key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo))
