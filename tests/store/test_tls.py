"""PostgreSQL over TLS, whose certificate an authority of our own has signed."""

import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from firstword.app.database import DatabaseError
from firstword.app.postgresql import Postgres, migrate
from firstword.app.speakers.shared_store import SharedSpeakerStore
from tests.store.values import speaker
from tests.support.postgres import postgres_server


def write_self_signed(folder: Path, address: str) -> tuple[Path, Path]:
    """Write a certificate for an address that is its own root, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a database")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(True, None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    folder.mkdir()
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(pem))
    (folder / "key.pem").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return folder / "certificate.pem", folder / "key.pem"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The certificate of 127.0.0.1."""
    return write_self_signed(tmp_path_factory.mktemp("tls") / "own", "127.0.0.1")[0]


@pytest.fixture(scope="module")
def url(root: Path) -> Iterator[str]:
    """The address of a database with our tables that takes nobody but over TLS."""
    with postgres_server() as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            if connection.execute("SHOW ssl_library").fetchone() == ("",):
                pytest.skip("this PostgreSQL was built without TLS; install one from the system's packages")
            for file in (root, root.with_name("key.pem")):
                copy = Path(shutil.copy(file, server.folder / "data"))
                copy.chmod(0o600)
                shutil.chown(copy, server.user or os.geteuid())
            for name, value in (("cert", root.name), ("key", "key.pem")):
                connection.execute(f"ALTER SYSTEM SET ssl_{name}_file = '{value}'")
            connection.execute("ALTER SYSTEM SET ssl = on")
        access = server.folder / "data/pg_hba.conf"
        access.write_text(access.read_text().replace("\nhost ", "\nhostssl "))
        server.stop()
        server.start()
        database = server.new_database()
        migrate(database)
        yield database


def test_a_database_whose_certificate_the_root_has_signed_is_used_over_tls(url: str, root: Path) -> None:
    postgres = Postgres(f"{url}?sslmode=verify-full&sslrootcert={quote(str(root))}")
    try:
        store = SharedSpeakerStore(postgres)
        store.insert(speaker())
        assert store.row("mia") is not None
        with postgres.connected() as connection:
            found = connection.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").fetchone()
        assert found == (True,)
    finally:
        store.close()
        postgres.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "sslmode=verify-full&sslrootcert={other}",
            "verify failed; the file that sslrootcert names .* and none of them may have expired",
        ),
        ("sslmode=verify-full&sslrootcert={missing}", 'root certificate file ".*missing.pem" does not exist'),
        ("sslmode=disable", "no encryption"),
    ],
)
def test_a_database_that_is_not_known_to_be_the_right_one_is_refused(
    url: str, tmp_path: Path, options: str, message: str
) -> None:
    other, _ = write_self_signed(tmp_path / "other", "127.0.0.1")
    with pytest.raises(DatabaseError, match=message):
        Postgres(f"{url}?{options.format(other=other, missing=tmp_path / 'missing.pem')}")


def test_a_certificate_for_another_name_is_refused(url: str, root: Path) -> None:
    address = url.replace("127.0.0.1", "elsewhere.example")
    with pytest.raises(DatabaseError, match=r'does not match host name "elsewhere\.example"'):
        Postgres(f"{address}?sslmode=verify-full&sslrootcert={quote(str(root))}&hostaddr=127.0.0.1")
