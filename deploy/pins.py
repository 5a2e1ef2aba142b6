"""Pin the images of others by their digests: `python -m deploy.pins`, where docker reaches their registries.

It rewrites `name:tag` to `name:tag@sha256:…` in the compose file and the Dockerfile, pinned ones anew.
"""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
FILES: Final = (ROOT / "deploy/compose/compose.yaml", ROOT / "Dockerfile")
_IMAGE = re.compile(
    r"(?m)^(?P<before>\s*image: |FROM )(?P<name>(?!firstword:)[\w./-]+:[\w.-]+)(?:@sha256:[0-9a-f]{64})?"
)


def main() -> None:
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        try:
            pinned, names = pin(text, digest_of)
        except (OSError, subprocess.CalledProcessError) as error:
            sys.exit(f"no digest could be looked up: {error}; it takes docker with buildx, and the internet")
        path.write_text(pinned, encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(ROOT)}: {', '.join(names)}\n")


def pin(text: str, digest_of: Callable[[str], str]) -> tuple[str, list[str]]:
    """Return the text with the digest of each image of others behind its tag, and their names.

    digest_of: returns an image's digest, `sha256:…`. Raises what it raises; nothing is then half written.
    """
    digests = {
        name: digest_of(name) for name in dict.fromkeys(found["name"] for found in _IMAGE.finditer(text))
    }
    pinned = _IMAGE.sub(lambda found: f"{found['before']}{found['name']}@{digests[found['name']]}", text)
    return pinned, list(digests)


def digest_of(name: str) -> str:
    """Return the digest of an image's index, which covers all its platforms."""
    command = ["docker", "buildx", "imagetools", "inspect", name, "--format", "{{.Manifest.Digest}}"]
    digest = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise OSError(f"docker said {digest[:80]!r} where a digest of {name} was expected")
    return digest


if __name__ == "__main__":
    main()
