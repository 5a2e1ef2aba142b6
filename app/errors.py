"""Everything that can go wrong, as one tree of exceptions.

TtsError
├── InvalidRequest          a value that cannot be served; `param` names the field
│   ├── TextTooLong
│   └── StringTooLong       the same in OpenAI's words
├── InvalidApiKey
│   └── InvalidSignature    of a signed address
├── MissingScope            the key is known, but not for this
├── OriginNotAllowed        a web page of another origin, or an unknown name of this server
├── PathNotFound
├── MethodNotAllowed
├── UrlTooLong
├── HeadersTooLarge
├── UnsupportedCoding       a transfer coding other than chunked
├── ExpectationFailed       an `Expect` other than 100-continue
├── UpgradeRequired         a WebSocket's path, requested without an upgrade
├── ModelNotFound
├── SpeakerNotFound
├── SpeakerExists
├── SpeakerChanged          by somebody else, since the version that a change is one of
├── SpeakerNotYours         another owner's, to be used but not changed
├── SpeakerIncompatible     made with another checkpoint
├── SpeakerDamaged          what is stored of it cannot be read
├── BadAudio                an upload that is not a usable recording
│   ├── AudioTooShort
│   └── AudioTooLong
├── UploadTooLarge
├── Refused                 to be retried after `retry_after_s`
│   ├── RateLimited
│   ├── Overloaded
│   ├── StoreUnavailable    the file of the speakers cannot be written
│   ├── Restarting          a part of the engine failed and is restarting
│   └── Draining
├── StoreFull               the disk of the speakers is full
├── StreamTimeout           nothing was received or read for too long
└── SynthesisFailed         the server's own fault
"""

from typing import Final, Literal

CancelReason = Literal["client_cancel", "disconnect", "timeout", "slow_listener", "shutdown"]
Wire = str  # what carries a stream, by the name that metrics and logs have for it
WIRES: Final = ("http", "openai", "websocket", "grpc", "kserve", "batch", "cli")
"""Those whose metrics are there from the start; another's begin with its first stream."""


class TtsError(Exception):
    """`message` says what was expected, what came and what to do; it may be shown to the client."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __reduce__(self) -> tuple[object, ...]:
        """Let it go to another process, whatever its class is made with."""
        return _again, (type(self), self.__dict__)


def _again(kind: type[TtsError], fields: dict[str, object]) -> TtsError:
    error = kind.__new__(kind, fields["message"])
    error.__dict__.update(fields)
    return error


class InvalidRequest(TtsError):
    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class TextTooLong(InvalidRequest):
    pass


class StringTooLong(InvalidRequest):
    pass


class InvalidApiKey(TtsError):
    pass


class InvalidSignature(InvalidApiKey):
    pass


class MissingScope(TtsError):
    def __init__(self, message: str, scope: str) -> None:
        """scope: the one that it takes."""
        super().__init__(message)
        self.scope = scope


class OriginNotAllowed(TtsError):
    pass


class PathNotFound(TtsError):
    pass


class MethodNotAllowed(TtsError):
    def __init__(self, message: str, allow: str) -> None:
        """allow: the methods of the path, comma-separated."""
        super().__init__(message)
        self.allow = allow


class UrlTooLong(TtsError):
    pass


class HeadersTooLarge(TtsError):
    pass


class UnsupportedCoding(TtsError):
    pass


class ExpectationFailed(TtsError):
    pass


class UpgradeRequired(TtsError):
    pass


class ModelNotFound(TtsError):
    param = "model"


class SpeakerNotFound(TtsError):
    def __init__(self, message: str, param: str = "speaker") -> None:
        super().__init__(message)
        self.param = param


class SpeakerExists(TtsError):
    pass


class SpeakerChanged(TtsError):
    pass


class SpeakerNotYours(TtsError):
    pass


class SpeakerIncompatible(TtsError):
    pass


class SpeakerDamaged(TtsError):
    pass


class BadAudio(TtsError):
    pass


class AudioTooShort(BadAudio):
    pass


class AudioTooLong(BadAudio):
    pass


class UploadTooLarge(TtsError):
    pass


class Refused(TtsError):
    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        assert retry_after_s >= 1, retry_after_s
        self.retry_after_s = retry_after_s


class RateLimited(Refused):
    pass


class Overloaded(Refused):
    pass


class Restarting(Refused):
    def __init__(self, message: str, retry_after_s: int = 10) -> None:
        """retry_after_s: about a third of the time a start takes."""
        super().__init__(message, retry_after_s)


class StoreUnavailable(Refused):
    pass


class Draining(Refused):
    pass


class StoreFull(TtsError):
    pass


class StreamTimeout(TtsError):
    pass


class SynthesisFailed(TtsError):
    pass
