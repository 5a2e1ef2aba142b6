"""The published checkpoints by name, and the very revision and contents that this release was made for.

`make pins` fills `published.json` where there is an internet: with the commit that each hub's newest revision
is, where the hub tells it, and the SHA-256 of every file that is fetched.
"""

import hashlib
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from firstword.app.commands.console import CommandFailed

if TYPE_CHECKING:
    from firstword.app.commands.hubs import Hub, RemoteFile

Source = Literal["huggingface", "modelscope"]

FILE: Final = Path(__file__).with_name("published.json")


@dataclass(frozen=True, slots=True)
class Published:
    """One published checkpoint on one hub. revision: None, nobody has looked it up; sha256: by path."""

    repository: str
    revision: str | None = None
    sha256: Mapping[str, str] = field(default_factory=dict)

    def checked(self, files: "Sequence[RemoteFile]") -> "list[RemoteFile]":
        """Return files with the digests that are known of them instead of the hub's.

        Raises CommandFailed where the hub has other files than are known; where none is, all are as listed.
        """
        if not self.sha256:
            return list(files)
        paths = {file.path for file in files}
        if paths != self.sha256.keys():
            other = ", ".join(sorted(paths ^ self.sha256.keys()))
            raise CommandFailed(
                f"{self.repository} has other files than this release knows ({other}); give --revision to "
                "take them as the hub has them, or update Firstword"
            )
        return [replace(file, digest=self.sha256[file.path], is_git_digest=False) for file in files]


def read_published(path: Path = FILE) -> dict[str, dict[Source, Published]]:
    """By name, then by hub."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return {name: {hub: Published(**one) for hub, one in hubs.items()} for name, hubs in content.items()}


def pinned(published: Published, hub: "Hub", source: Source, names: Sequence[str]) -> Published:
    """Return it with what the hub has now. names: of the files that are fetched. Raises CommandFailed."""
    from firstword.app.commands.hubs import REVISIONS, wanted_files

    revision = hub.commit_of(published.repository, REVISIONS[source])
    at = revision or REVISIONS[source]
    sha256: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for file in wanted_files(hub.files(published.repository, at), names):
            if file.digest is not None and not file.is_git_digest:
                sha256[file.path] = file.digest
                continue
            target = Path(folder) / file.path
            hub.fetch(hub.url_of(published.repository, at, file.path), file, target, lambda _: None)
            sha256[file.path] = hashlib.sha256(target.read_bytes()).hexdigest()
    return Published(published.repository, revision, sha256)


def write_published(path: Path, published: Mapping[str, Mapping[Source, Published]]) -> None:
    content: dict[str, dict[str, Any]] = {
        name: {
            hub: {"repository": one.repository, "revision": one.revision, "sha256": dict(one.sha256)}
            for hub, one in hubs.items()
        }
        for name, hubs in published.items()
    }
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    from firstword.app.commands.download import names_of_files
    from firstword.app.commands.hubs import ENDPOINTS, Hub

    found: dict[str, dict[Source, Published]] = {}
    try:
        for name, hubs in read_published().items():
            found[name] = {}
            for source, published in hubs.items():
                with Hub(source, ENDPOINTS[source]) as hub:
                    found[name][source] = pinned(published, hub, source, names_of_files())
    except CommandFailed as error:
        sys.exit(f"nothing was written: {error}")
    write_published(FILE, found)


if __name__ == "__main__":
    main()
