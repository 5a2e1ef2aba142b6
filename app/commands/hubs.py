"""Model hubs: what a repository holds, and its files, fetched whole or not at all."""

import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import quote

import httpx

from firstword.app.commands.console import CommandFailed
from firstword.app.commands.published import Source

ENDPOINTS: Final[Mapping[Source, str]] = {
    "huggingface": "https://huggingface.co",
    "modelscope": "https://www.modelscope.cn",
}
REVISIONS: Final[Mapping[Source, str]] = {"huggingface": "main", "modelscope": "master"}
TOKEN_VARIABLES: Final[Mapping[Source, str]] = {
    "huggingface": "HF_TOKEN",
    "modelscope": "MODELSCOPE_API_TOKEN",
}
TIMEOUT: Final = httpx.Timeout(30.0)  # of each read; a whole file may take hours
MAX_ATTEMPTS: Final = 5  # of one file without a byte in between
MAX_WRONG: Final = 2  # of one file, whole but with another digest
RETRY_WAIT_S: Final = 1.0  # doubled each time
BLOCK_BYTES: Final = 1 << 20
LOOPBACK_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
SPARE_BYTES: Final = 64 << 20  # left free on the disk


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """digest: of a SHA-256, or of the SHA-1 that git gives a small file; None: the hub tells none."""

    path: str
    size: int
    digest: str | None
    is_git_digest: bool = False

    def new_hash(self) -> "hashlib._Hash":
        if not self.is_git_digest:
            return hashlib.sha256()
        return hashlib.sha1(f"blob {self.size}\0".encode(), usedforsecurity=False)


class Hub:
    """A hub, or a mirror that answers as it does."""

    def __init__(self, source: Source, endpoint: str, takes_plain_http: bool = False) -> None:
        """endpoint: without a path behind it, unless a mirror has one. takes_plain_http: False, plain HTTP
        is spoken with this machine alone, here and where an answer redirects to. Raises CommandFailed."""
        if not re.fullmatch(r"https?://[^/\s]+(/[^\s?#]*)?", endpoint):
            raise CommandFailed(
                f"{endpoint!r} is no address of a hub; expected one such as {ENDPOINTS[source]}"
            )
        token = os.environ.get(TOKEN_VARIABLES[source], "")
        self._source = source
        self._endpoint = endpoint.rstrip("/")
        # httpx sends the header to the hub itself alone, not to where it redirects.
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._takes_plain_http = takes_plain_http
        self._check_scheme(httpx.URL(endpoint))
        self._client = httpx.Client(
            headers=headers,
            timeout=TIMEOUT,
            follow_redirects=True,
            event_hooks={"request": [lambda request: self._check_scheme(request.url)]},
        )

    def __enter__(self) -> "Hub":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def files(self, repository: str, revision: str) -> list[RemoteFile]:
        """Raise CommandFailed where the repository cannot be listed."""
        if self._source == "modelscope":
            query = f"Revision={quote(revision, safe='')}&Recursive=true&PageSize=1000"
            answer = self._ask(f"{self._endpoint}/api/v1/models/{repository}/repo/files?{query}", repository)
            found = [_modelscope_file(entry) for entry in answer["Data"]["Files"] if entry["Type"] == "blob"]
        else:
            url = f"{self._endpoint}/api/models/{repository}/tree/{quote(revision, safe='')}?recursive=true"
            answer = self._ask(url, repository)
            found = [_huggingface_file(entry) for entry in answer if entry["type"] == "file"]
        for file in found:
            parts = PurePosixPath(file.path).parts
            if not parts or file.path.startswith("/") or ".." in parts or "\\" in file.path:
                raise CommandFailed(
                    f"{repository} lists a file {file.path!r}, which would lie outside its directory"
                )
        return found

    def commit_of(self, repository: str, revision: str) -> str | None:
        """Return the commit that a branch is at; None: the hub tells none. Raises CommandFailed."""
        if self._source == "modelscope":
            return None
        url = f"{self._endpoint}/api/models/{repository}/revision/{quote(revision, safe='')}"
        commit: str = self._ask(url, repository)["sha"]
        return commit

    def url_of(self, repository: str, revision: str, path: str) -> str:
        if self._source == "modelscope":
            query = f"Revision={quote(revision, safe='')}&FilePath={quote(path, safe='')}"
            return f"{self._endpoint}/api/v1/models/{repository}/repo?{query}"
        return f"{self._endpoint}/{repository}/resolve/{quote(revision, safe='')}/{quote(path)}"

    def fetch(self, url: str, file: RemoteFile, target: Path, on_bytes: Callable[[int], None]) -> None:
        """Write a file, going on where an earlier attempt ended; target exists only once its digest is right.

        on_bytes: called with the number of bytes that are there more; negative, where some were dropped.
        Raises CommandFailed.
        """
        part = target.with_name(f"{target.name}.part")
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and _is_right(target, file):
            return on_bytes(file.size)
        counted, num_failures, num_wrong = 0, 0, 0
        while True:
            size = part.stat().st_size if part.exists() else 0
            on_bytes(min(size, file.size) - counted)
            counted = min(size, file.size)
            if size == file.size and part.exists() and _is_right(part, file):
                break
            if size >= file.size:  # whole and wrong, or too long
                part.unlink(missing_ok=True)
                if size > 0:
                    num_wrong += 1
                    if num_wrong >= MAX_WRONG:
                        raise CommandFailed(
                            f"{file.path} came {num_wrong} times with another content than the hub lists; "
                            "try later, or another --source"
                        )
                    continue
            try:
                for num_bytes in self._stream(url, part, file.size):
                    on_bytes(num_bytes)
                    counted += num_bytes
                    num_failures = 0
            except (httpx.TransportError, _Interrupted) as error:
                num_failures += 1
                if num_failures >= MAX_ATTEMPTS:
                    raise CommandFailed(
                        f"{file.path} broke off {num_failures} times ({error}); run the command again, it "
                        "goes on where it ended"
                    ) from None
                time.sleep(RETRY_WAIT_S * 2**num_failures)
        os.replace(part, target)

    def _stream(self, url: str, part: Path, size: int) -> Iterator[int]:
        """Append what is missing, and yield how much came. Raises httpx.TransportError, _Interrupted."""
        have = part.stat().st_size if part.exists() else 0
        headers = {"Range": f"bytes={have}-"} if have else {}
        headers["Accept-Encoding"] = "identity"  # a range of what is compressed on the way is another one
        with self._client.stream("GET", url, headers=headers) as response:
            if response.status_code >= 500 or response.status_code == 429:
                raise _Interrupted(f"HTTP {response.status_code}")
            if response.status_code == 416:
                part.unlink(missing_ok=True)
                raise _Interrupted("the rest was refused")
            if not response.is_success:
                raise CommandFailed(_refusal(response, self._source))
            is_continued = response.status_code == 206
            if have and not is_continued:
                yield -have  # a server without ranges sends all of it again
            written = have if is_continued else 0
            with part.open("ab" if is_continued else "wb") as content:
                for block in response.iter_raw():
                    written += len(block)
                    if written > size:
                        raise _Interrupted("more came than the hub lists")
                    content.write(block)
                    yield len(block)
        if written < size:
            raise _Interrupted("the connection closed early")

    def _check_scheme(self, url: httpx.URL) -> None:
        """Raise CommandFailed for an address that anybody on the way could answer for."""
        if url.scheme == "https" or self._takes_plain_http or url.host in LOOPBACK_HOSTS:
            return
        raise CommandFailed(
            f"{url.scheme}://{url.host} is plain HTTP, where others can read the token and change what "
            "comes; give an https:// address, or --plain-http to take it all the same"
        )

    def _ask(self, url: str, repository: str) -> Any:
        try:
            response = self._client.get(url)
        except httpx.HTTPError as error:
            raise CommandFailed(
                f"{self._endpoint} cannot be reached ({error}); give another --source, or a --mirror"
            ) from None
        if not response.is_success:
            raise CommandFailed(f"{repository}: {_refusal(response, self._source)}")
        try:
            return response.json()
        except ValueError:
            raise CommandFailed(
                f"{self._endpoint} answers no JSON; is it a mirror of {self._source}?"
            ) from None


class _Interrupted(Exception):
    """A transfer ended early, and can go on."""


def free_space_for(num_bytes: int, directory: Path) -> None:
    """Raise CommandFailed where the disk has too little space."""
    existing = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free < num_bytes + SPARE_BYTES:
        raise CommandFailed(
            f"{existing} has {free / 2**30:.1f} GiB free, {num_bytes / 2**30:.1f} GiB are needed; "
            "give another --to"
        )


def wanted_files(files: Sequence[RemoteFile], names: Sequence[str]) -> list[RemoteFile]:
    """Those of these names; of weights in two formats the safetensors alone."""
    listed = {file.path: file for file in files}
    chosen = [listed[name] for name in names if name in listed]
    return [
        file
        for file in chosen
        if not (file.path.endswith(".pt") and f"{file.path.removesuffix('.pt')}.safetensors" in listed)
    ]


def _is_right(path: Path, file: RemoteFile) -> bool:
    if path.stat().st_size != file.size:
        return False
    if file.digest is None:
        return True
    digest = file.new_hash()
    with path.open("rb") as content:
        while block := content.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest() == file.digest


def _huggingface_file(entry: Mapping[str, Any]) -> RemoteFile:
    large = entry.get("lfs")
    if large:
        return RemoteFile(entry["path"], large["size"], large["oid"])
    return RemoteFile(entry["path"], entry["size"], entry["oid"], is_git_digest=True)


def _modelscope_file(entry: Mapping[str, Any]) -> RemoteFile:
    return RemoteFile(entry["Path"], entry["Size"], entry.get("Sha256") or None)


def _refusal(response: httpx.Response, source: Source) -> str:
    where = f"{response.url.scheme}://{response.url.host}"
    match response.status_code:
        case 401 | 403:
            return f"{where} refuses it; is the name right? A private one needs {TOKEN_VARIABLES[source]}"
        case 404:
            return f"{where} has no such model or file; give its name as OWNER/NAME, and its --revision"
    return f"{where} answers HTTP {response.status_code}; try later, or another --source"
