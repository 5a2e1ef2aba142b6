"""Asks a running server over HTTP, and says in one line what it answers when it refuses."""

from typing import Any, Final
from urllib.parse import quote

import httpx

from firstword.app.commands.console import CommandFailed
from firstword.app.settings import LOCAL_URL, PREFIX

TIMEOUT_S: Final = 120.0  # a registration computes; everything else is quick
ADVICE: Final = {
    "invalid_api_key": f"give the key with --api-key or in {PREFIX}CLIENT_API_KEY",
    "missing_scope": "give another key, one with that scope",
    "speaker_not_yours": "give its owner's key, or that of an administrator",
    "speaker_not_found": "`firstword speakers list` shows those there are",
    "speaker_exists": "give another name, or delete it with `firstword speakers rm`",
    "speaker_incompatible": "make it anew with `firstword speakers add`",
    "not_found": "is --url where a Firstword server is, without a path behind it?",
    "bundle": "give a file that `firstword speakers export` wrote",
    "internal": "try again, and if it fails again look in the server's log",
}
"""By an error's code or the field it is about: what to do at a command line, where the answer's own advice
is for whoever writes HTTP."""


def open_client(url: str, api_key: str | None) -> httpx.Client:
    """Raises CommandFailed for what is no URL of a server, and for what is no key."""
    try:
        base_url = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise CommandFailed(f"{url!r} is no URL ({error}); expected one such as {LOCAL_URL}") from None
    if base_url.scheme not in ("http", "https") or not base_url.host:
        raise CommandFailed(f"{url!r} is no URL of a server; expected one such as {LOCAL_URL}")
    if api_key and not all("!" <= character <= "~" for character in api_key):
        raise CommandFailed("the API key holds characters that no header can; copy it again, without quotes")
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    return httpx.Client(base_url=base_url, headers=headers, timeout=TIMEOUT_S)


def ask(client: httpx.Client, method: str, path: str, **given: Any) -> httpx.Response:
    """given: as httpx takes it. Raises CommandFailed for no answer, and for one that is an error."""
    try:
        response = client.request(method, path, **given)
    except httpx.TimeoutException:
        raise CommandFailed(f"{client.base_url} did not answer within {TIMEOUT_S:g} s; try again") from None
    except httpx.HTTPError as error:
        raise CommandFailed(
            f"no server answers at {client.base_url} ({error}); start one with `firstword serve`,"
            " or name another with --url"
        ) from None
    if not response.is_success:
        raise CommandFailed(_refusal(response))
    return response


def json_of(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        raise CommandFailed(f"{response.url} answers no JSON; is it a Firstword server?") from None


def speaker_path(name: str, *more: str) -> str:
    return "/".join(("/speakers", quote(name, safe=""), *more))


def _refusal(response: httpx.Response) -> str:
    try:
        error = response.json()["error"]
        message, code = str(error["message"]), error["code"]
        advice = ADVICE.get(code) or ADVICE.get(error.get("param"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{response.url} answers HTTP {response.status_code}; is it a Firstword server?"
    if advice is not None:
        message = f"{message.rpartition('; ')[0] or message}; {advice}"  # a message ends with its own advice
    request_id = f", request {response.headers.get('X-Request-Id')}" if code == "internal" else ""
    return f"{message} (HTTP {response.status_code}, {code}{request_id})"
