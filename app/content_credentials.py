"""Content Credentials (C2PA) of finished files: signed by an operator's certificate or a self-made one."""

import io
import json
import logging
import os
import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from filelock import FileLock

from firstword.app.audio.dsp import wav_header
from firstword.app.audio.formats import FORMATS, SOURCE_TYPE, FileFormat, firstword_version

SIGNED_FORMATS: Final[Mapping[FileFormat, str]] = MappingProxyType(
    {name: FORMATS[name].media_type for name in ("wav", "mp3", "flac")}
)
"""Formats whose files c2pa can sign, and their media types; Ogg, ADTS and what has no container cannot be."""

_log = logging.getLogger(__name__)

_CERTIFICATE, _KEY = "certificate.pem", "certificate-key.pem"
_AUTHORITY, _AUTHORITY_KEY = "authority.pem", "authority-key.pem"
_AUTHORITY_LIFE, _LIFE, _RENEWED = timedelta(days=3650), timedelta(days=365), timedelta(days=30)


class UnusableCredentials(ValueError):
    """A certificate or a key that files cannot be signed with; the message says which and what to do."""


class Signer:
    """Signs files with one certificate. Any thread may call it; one file is signed at a time."""

    def __init__(self, chain: bytes, key: bytes) -> None:
        """chain: PEM, the signer's certificate before those of its authorities. key: PEM, PKCS 8.

        Raises UnusableCredentials, and ImportError where c2pa-python is not installed.
        """
        import c2pa

        self._c2pa = c2pa
        self._lock = threading.Lock()
        try:
            info = c2pa.C2paSignerInfo(_algorithm_of(key), chain, key, None)
            self._signer = c2pa.Signer.from_info(info)
            self.sign(wav_header(24_000, 0), "wav")  # here, not with the first file
        except (c2pa.C2paError, ValueError, TypeError) as error:
            raise UnusableCredentials(
                f"files cannot be signed with this certificate and key: {str(error)[:300]}; expected PEM, a "
                "certificate for signing that an authority issued, and its chain behind it"
            ) from None

    def sign(self, content: bytes, format: FileFormat) -> bytes:
        """Return the file with a manifest: a trained model made it. format: one of SIGNED_FORMATS."""
        action = {"action": "c2pa.created", "digitalSourceType": SOURCE_TYPE}
        manifest = {
            "claim_generator_info": [{"name": "Firstword", "version": firstword_version()}],
            "title": "synthetic speech",
            "assertions": [{"label": "c2pa.actions.v2", "data": {"actions": [action]}}],
        }
        signed = io.BytesIO()
        with self._lock:
            builder = self._c2pa.Builder(manifest)
            builder.sign(self._signer, SIGNED_FORMATS[format], io.BytesIO(content), signed)
        return signed.getvalue()


def read_manifest(content: bytes, media_type: str) -> dict[str, Any] | None:
    """Return the active manifest's signer, state and whether it says that a model made the file.

    None: there is no manifest, or c2pa-python is not installed.
    """
    try:
        import c2pa
    except ImportError:
        return None
    try:
        store = json.loads(c2pa.Reader(media_type, io.BytesIO(content)).json())
    except c2pa.C2paError:
        return None
    active = store["manifests"][store["active_manifest"]]
    return {
        "state": store.get("validation_state"),
        "problems": [status["code"] for status in store.get("validation_status", [])],
        "signer": active.get("signature_info", {}).get("issuer"),
        "is_synthetic": SOURCE_TYPE in json.dumps(active.get("assertions", [])),
    }


class SelfMadeSigner:
    """Signs with a certificate that an authority of one's own issued; the library refuses one without.

    Both are made where they are missing, and anew before they end, also while the server runs.
    """

    def __init__(self, directory: Path) -> None:
        """Raises OSError where the directory cannot be written, and ImportError without cryptography."""
        self._directory = directory
        self._lock = threading.Lock()
        self._signer, self._renews_at = _self_made(directory)

    def sign(self, content: bytes, format: FileFormat) -> bytes:
        """Sign as `Signer.sign` does, with a certificate that is made anew where the old one ends soon."""
        with self._lock:
            if datetime.now(UTC) >= self._renews_at:
                try:
                    self._signer, self._renews_at = _self_made(self._directory)
                except OSError:
                    _log.exception("the certificate of signed files cannot be renewed in %s", self._directory)
                    self._renews_at = datetime.now(UTC) + timedelta(days=1)
        return self._signer.sign(content, format)


def _self_made(directory: Path) -> tuple[Signer, datetime]:
    """Return a signer with the directory's certificate, and when that is to be renewed."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = [directory / name for name in (_AUTHORITY, _AUTHORITY_KEY, _CERTIFICATE, _KEY)]
    authority_path, authority_key_path, certificate_path, key_path = paths
    with FileLock(directory / "lock"):  # another process may be about to make them too
        if _end_of(authority_path, authority_key_path) - datetime.now(UTC) < _LIFE:
            certificate_path.unlink(missing_ok=True)  # first: a kill here leaves none of the old authority
            certificate, key = _issued("Firstword self-made authority", None)
            authority_path.unlink(missing_ok=True)  # nor does its certificate stand beside the new key
            _write(authority_key_path, key)
            _write(authority_path, certificate)
        if _end_of(certificate_path, key_path) - datetime.now(UTC) <= _RENEWED:
            authority = authority_path.read_bytes(), authority_key_path.read_bytes()
            certificate, key = _issued("Firstword server", authority)
            _write(key_path, key)
            _write(certificate_path, certificate)
        renews_at = _end_of(certificate_path, key_path) - _RENEWED
        chain = certificate_path.read_bytes() + authority_path.read_bytes()
        return Signer(chain, key_path.read_bytes()), renews_at


def _end_of(certificate: Path, key: Path) -> datetime:
    """Return when a certificate ends; long ago where it is not whole, or its key is missing."""
    from cryptography import x509

    try:
        if key.exists():
            return x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc
    except (FileNotFoundError, ValueError):  # as a full disk leaves it
        pass
    return datetime(1970, 1, 1, tzinfo=UTC)


def _issued(common_name: str, authority: tuple[bytes, bytes] | None) -> tuple[bytes, bytes]:
    """Return a certificate and its key; authority: that signs it, certificate and key; None: it is one."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    own_key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Firstword operator"),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )
    issuer, signing_key = name, own_key
    if authority is not None:
        issuer = x509.load_pem_x509_certificate(authority[0]).subject
        loaded = serialization.load_pem_private_key(authority[1], None)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)
        signing_key = loaded
    is_authority = authority is None
    usage = dict.fromkeys(
        (
            *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
            *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
        ),
        False,
    )
    usage |= {"key_cert_sign": True, "crl_sign": True} if is_authority else {"digital_signature": True}
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder(issuer, name, own_key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + (_AUTHORITY_LIFE if is_authority else _LIFE))
        .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        .add_extension(x509.KeyUsage(**usage), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(own_key.public_key()), critical=False)
    )
    if not is_authority:
        key_identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key())
        builder = builder.add_extension(key_identifier, critical=False).add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.EMAIL_PROTECTION]), critical=False
        )
    certificate = builder.sign(signing_key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    private = own_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return certificate.public_bytes(pem), private


def _algorithm_of(key: bytes) -> bytes:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    try:
        loaded = serialization.load_pem_private_key(key, None)
    except UnsupportedAlgorithm as error:
        raise ValueError(f"the key is of a kind that is not known: {error}") from None
    by_curve: dict[str, bytes] = {"secp256r1": b"es256", "secp384r1": b"es384", "secp521r1": b"es512"}
    if isinstance(loaded, ec.EllipticCurvePrivateKey) and loaded.curve.name in by_curve:
        return by_curve[loaded.curve.name]
    if isinstance(loaded, ed25519.Ed25519PrivateKey):
        return b"ed25519"
    if isinstance(loaded, rsa.RSAPrivateKey):
        return b"ps256"
    raise ValueError("the key is of a kind that C2PA does not sign with")


def _write(path: Path, content: bytes) -> None:
    """For its owner alone."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
