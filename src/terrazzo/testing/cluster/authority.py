"""The certificates of a cluster that lives for a test: one authority, and whatever it is asked to sign."""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFE = dt.timedelta(days=7)
BACKDATED = dt.timedelta(hours=1)
"""Clocks that are moved in tests must not make a certificate one of the future."""


class Pair(NamedTuple):
    """Paths of a certificate and its key."""

    certificate: Path
    key: Path


class Authority:
    """An authority that signs for one cluster.

    Args:
        folder: where its files are written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("terrazzo-test")
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
            key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
            decipher_only=False,
        )  # fmt: skip
        built = _builder(self._name, self._name, self._key.public_key())
        built = built.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        built = built.add_extension(usage, critical=True)
        self.certificate = folder / "ca.crt"
        self.certificate.write_bytes(built.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def server(self, name: str, *hosts: str) -> Pair:
        """Return a certificate for a server on 127.0.0.1 that is also known by ``hosts``."""
        addresses = [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        names = x509.SubjectAlternativeName([*addresses, *(x509.DNSName(host) for host in ("localhost", *hosts))])
        return self._sign(name, _name(name), ExtendedKeyUsageOID.SERVER_AUTH, names)

    def user(self, name: str, groups: tuple[str, ...] = ()) -> Pair:
        """Return a certificate as which a user of these groups is known to the API server."""
        return self._sign(f"user-{name}", _name(name, groups), ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def key_pair(self, name: str) -> Pair:
        """Return a bare public key (as the first path) and its private key, for signing tokens."""
        key = ec.generate_private_key(ec.SECP256R1())
        public, private = self.folder / f"{name}.pub", self.folder / f"{name}.key"
        public.write_bytes(
            key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        )
        _write_key(private, key)
        return Pair(public, private)

    def _sign(
        self, file: str, subject: x509.Name, use: x509.ObjectIdentifier, names: x509.SubjectAlternativeName | None
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        built = _builder(subject, self._name, key.public_key())
        built = built.add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        if names is not None:
            built = built.add_extension(names, critical=False)
        stem = file.replace(":", "-").replace("/", "-")
        pair = Pair(self.folder / f"{stem}.crt", self.folder / f"{stem}.key")
        pair.certificate.write_bytes(built.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        _write_key(pair.key, key)
        return pair


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


def _name(common: str, groups: tuple[str, ...] = ()) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + LIFE)
    )
