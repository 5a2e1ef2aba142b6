"""API keys: whose they are and what they allow, the file they are in, and addresses signed with them."""

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import os
import re
import time
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl, urlencode

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from firstword.app.clients import SCOPES, Access, Client, Scope
from firstword.app.errors import InvalidSignature
from firstword.app.http.errors import unknown_field

MAX_FILE_BYTES = 1 << 20
EXAMPLE: Final = '{ key = "…", scopes = ["speak"] }'
SIGNATURE_PARAMETERS: Final = ("signed_by", "expires", "signature")

_ENTRY = re.compile(r"(?P<name>[^:\s]+):(?P<secret>[!-~]+)")  # ASCII, as headers are
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")

logger = logging.getLogger(__name__)


class KeyRing:
    """The clients' API keys, as digests only. Without any, and without a file, every request is admitted."""

    def __init__(self, entries: Iterable[str] = (), file: Path | None = None) -> None:
        """entries: `name:sha256` (64 hexadecimal digits) or `name:plain`, which may do everything.

        file: read now, and by `refresh` again. Raises ValueError for another form of either, and for none in
        the file.
        """
        self._entries = [_parse_key(number, entry) for number, entry in enumerate(entries, start=1)]
        self._file = file
        self._stamp = None if file is None else _stamp_of(file)  # before it is read: a change is not missed
        self._clients = _joined(self._entries, [] if file is None else read_keys(file))
        self._reading = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        return not self._clients

    def __len__(self) -> int:
        return len(self._clients)

    @property
    def num_names(self) -> int:
        """Of those that have keys; one may have two, while a key is replaced."""
        return len({client.name for client in self._clients})

    def client_of(self, key: str) -> Client | None:
        """Return whose key it is, None for an unknown key; in the same time for both."""
        digest = hashlib.sha256(key.encode()).digest()
        clients = [client for client in self._clients if hmac.compare_digest(digest, client.key_digest)]
        return clients[0] if clients else None

    def named(self, name: str) -> Sequence[Client]:
        """One for each of its keys: there are two while one is replaced."""
        return [client for client in self._clients if client.name == name]

    def knows(self, client: Client) -> bool:
        """Whether its key is still there and allows the same; of anybody where no keys are asked for."""
        return self.is_open or client in self._clients

    async def refresh(self) -> None:
        """Read the file again if it has changed; where it cannot be used, log that and keep the keys."""
        if self._file is None or _stamp_of(self._file) == self._stamp:
            return
        async with self._reading:
            stamp = _stamp_of(self._file)
            if stamp == self._stamp:
                return
            self._stamp = stamp
            try:
                read = await asyncio.to_thread(read_keys, self._file)
                self._clients = _joined(self._entries, read)
            except ValueError as error:
                logger.error("%s; the keys that were read before stay", error)
                return
            names = ", ".join(sorted({client.name for client in read}))
            logger.info("%s was read again; its keys are those of %s", self._file, names)


def _joined(entries: Sequence[Client], read: Sequence[Client]) -> list[Client]:
    """Raises ValueError for one key that means two things: one of them would count for nothing."""
    clients: dict[bytes, Client] = {}
    for client in (*entries, *read):
        other = clients.setdefault(client.key_digest, client)
        if other != client:
            raise ValueError(f"{other.name} and {client.name} have the same key; make another")
    return list(clients.values())


def _stamp_of(path: Path) -> tuple[int, ...] | None:
    """Return what changes whenever the file does; None if it is not there."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _parse_key(number: int, entry: str) -> Client:
    match = _ENTRY.fullmatch(entry.strip())
    if match is None:
        raise ValueError(
            f"API key number {number} is not of the form name:key or name:sha256, all printable ASCII"
        )
    secret = match["secret"]
    digest = bytes.fromhex(secret) if _SHA256.fullmatch(secret) else hashlib.sha256(secret.encode()).digest()
    return Client(match["name"], frozenset(SCOPES), key_digest=digest)


def _listed(given: object) -> object:
    return [given] if isinstance(given, str) else given


Plain = Annotated[str, Field(pattern=r"^[!-~]{1,512}$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-fA-F]{64}$")]


class KeyEntry(BaseModel):
    """One table of the file: a client's keys and what they allow."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)

    key: Annotated[list[Plain], BeforeValidator(_listed)] = []
    sha256: Annotated[list[Digest], BeforeValidator(_listed)] = []
    scopes: Annotated[list[Scope], Field(min_length=1)]
    speakers: Access = "shared"

    @model_validator(mode="after")
    def _has_a_key(self) -> "KeyEntry":
        if not self.key and not self.sha256:
            raise ValueError("there is no key; give `sha256`, which `firstword keys new` prints, or `key`")
        return self

    def clients(self, name: str) -> list[Client]:
        digests = [hashlib.sha256(key.encode()).digest() for key in self.key]
        digests += [bytes.fromhex(digest) for digest in self.sha256]
        return [Client(name, frozenset(self.scopes), self.speakers, digest) for digest in digests]


def read_keys(path: Path) -> list[Client]:
    """Raises ValueError that names the file, the line and the field, and never shows a key."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise ValueError(f"{path}: larger than {MAX_FILE_BYTES} bytes; is it the file of the keys?")
        return parse_keys(content.decode(), str(path))
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not UTF-8; save it as UTF-8") from None


def parse_keys(text: str, source: str) -> list[Client]:
    """source: what it is called in errors. Raises as `read_keys` does."""
    try:
        tables: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{source}: not TOML: {error}") from error
    clients: list[Client] = []
    for name, table in tables.items():
        where = f"{source}, line {_line_of(text, name)}"
        if not _NAME.fullmatch(name):
            raise ValueError(f"{where}: the name {name[:64]!a}; expected 1 to 64 of A-Z a-z 0-9 . _ @ -")
        if not isinstance(table, dict):
            raise ValueError(f"{where}, {name}: expected a table such as {EXAMPLE}")
        try:
            clients += KeyEntry.model_validate(table).clients(name)
        except ValidationError as error:
            faults = error.errors(include_url=False, include_input=False)
            fault = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
            field = str(fault["loc"][0]) if fault["loc"] else ""
            line = _line_of(text, name, field)
            path_of_field = f"{name}.{field}" if field else name
            reason = fault["msg"].removeprefix("Value error, ")
            if fault["type"] == "extra_forbidden":
                reason = unknown_field(field, KeyEntry.model_fields)
            raise ValueError(f"{source}, line {line}, {path_of_field}: {reason}") from None
    if not clients:
        raise ValueError(f"{source}: there is no key in it; `firstword keys new NAME` prints one for it")
    return clients


def _line_of(text: str, name: str, field: str = "") -> int:
    """Return the line of a table's field, or else of the table; the parser keeps none."""
    quoted = rf"""["']?{re.escape(name)}["']?\s*"""
    table = re.compile(rf"\[\s*{quoted}[].]|{quoted}[.=]")
    own_field = re.compile(rf"""["']?{re.escape(field)}["']?\s*=""")
    found = 0
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if table.match(line):
            found = number
        elif found and line.startswith("["):
            break
        elif found and field and own_field.match(line):
            return number
    return found or 1


class UrlSigner:
    """Signs the query of an address for a client, for a time. Whoever has the address has what it says.

    A signature ends with its time, with the very key that asked for it, and with the secret.
    """

    def __init__(self, secret: bytes, keys: KeyRing, now: Callable[[], float] = time.time) -> None:
        """secret: of the server, the same after a restart. now: seconds since 1970."""
        self._secret = secret
        self._keys = keys
        self._now = now

    def sign(self, parameters: Iterable[tuple[str, str]], client: Client, lifetime_s: int) -> tuple[str, int]:
        """Return the whole query, and when it expires, in seconds since 1970."""
        expires = int(self._now()) + lifetime_s
        pairs = [*parameters, ("signed_by", client.name), ("expires", str(expires))]
        return urlencode([*pairs, ("signature", self._signature(pairs, client))]), expires

    def client_of(self, query: str) -> Client:
        """Return who signed the query. Raises InvalidSignature."""
        given = parse_qsl(query, keep_blank_values=True)
        pairs = [pair for pair in given if pair[0] != "signature"]
        signatures = [value.encode() for name, value in given if name == "signature"]
        named = dict(pairs)
        for client in self._keys.named(named.get("signed_by", "")):
            expected = self._signature(pairs, client).encode()
            if len(signatures) == 1 and hmac.compare_digest(signatures[0], expected):
                if int(named["expires"]) <= self._now():
                    raise InvalidSignature("the signed address has expired; ask for a new one")
                return client
        raise InvalidSignature(
            "the signature does not fit the address, or its key is gone; use the address exactly as it was "
            "given, or ask for a new one"
        )

    def _signature(self, pairs: Sequence[tuple[str, str]], client: Client) -> str:
        message = client.key_digest + json.dumps(pairs).encode()  # the digest's length is fixed
        return base64.urlsafe_b64encode(hmac.digest(self._secret, message, "sha256")).decode().rstrip("=")
