"""Bodies that hold recordings: forms kept in memory, and forms or base64 in place of a plain JSON body."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import Any, Final, get_args, get_origin
from urllib.parse import parse_qsl

from fastapi import Form
from fastapi.routing import APIRoute
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from firstword.app.audio.decode import RecordingTooLong, UndecodableAudio
from firstword.app.bounded_json import TooManyValues, loads, request_of
from firstword.app.errors import AudioTooLong, BadAudio, InvalidRequest
from firstword.app.http.connection_limits import caller_of
from firstword.app.http.limits import check_upload
from firstword.app.http.service import Service

MAX_FILES = 4
MAX_FIELDS = 64
MAX_URLENCODED_BYTES = 256 * 1024  # each of which may be a hundred bytes of memory while it is decoded
LARGE_BODY_BYTES = 64 * 1024  # more JSON than that is parsed in a thread
FORM_TYPE = b"multipart/form-data"
URLENCODED_TYPE = b"application/x-www-form-urlencoded"
MULTIPART: Final = Form(media_type=FORM_TYPE.decode())

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class MemoryParser(MultiPartParser):
    spool_max_size = 0  # never to a file: a voice is on no disk unless it is registered

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        """Raise InvalidRequest for a text that is too long."""
        part = self._current_part
        num_bytes = len(part.data) + end - start
        if part.file is None and num_bytes > self.max_part_size:
            name = part.field_name[:60]
            raise InvalidRequest(
                f"of the field `{name}` came {num_bytes} bytes and more; expected {self.max_part_size} "
                "at most of a text: send less, or as a file, with a `filename`, where it is a recording",
                name,
            )
        super().on_part_data(data, start, end)


class MemoryRequest(Request):
    """A request whose form never touches a disk, and whose JSON is parsed off the event loop where large."""

    async def _get_form(self, **limits: Any) -> FormData:
        """The body's limit bounds what is held."""
        if self._form is None:
            content_type, _ = parse_options_header(self.headers.get("Content-Type"))
            if content_type != FORM_TYPE:
                raise HTTPException(400, "not a multipart form")
            try:
                async with aclosing(self.stream()) as stream:
                    parser = MemoryParser(self.headers, stream, max_files=MAX_FILES, max_fields=MAX_FIELDS)
                    self._form = await parser.parse()
            except MultiPartException as error:
                raise InvalidRequest(
                    f"the form cannot be read: {error.message.rstrip('.')}; send multipart/form-data of at "
                    f"most {MAX_FIELDS} texts and {MAX_FILES} files"
                ) from error
        return self._form

    async def json(self) -> Any:
        body = await self.body()
        return (
            request_of(body) if len(body) <= LARGE_BODY_BYTES else await asyncio.to_thread(request_of, body)
        )


class FormRequest(MemoryRequest):
    """A form as the JSON object with the same fields: texts as they are, files as bytes."""

    def __init__(self, scope: Scope, fields: dict[str, Any]) -> None:
        """scope: of the request that the form came in."""
        headers = [(name, value) for name, value in scope["headers"] if name != b"content-type"]
        super().__init__({**scope, "headers": [*headers, (b"content-type", b"application/json")]})
        self._fields = fields

    async def body(self) -> bytes:
        return b"{}"  # not empty, so that it is taken for JSON

    async def json(self) -> Any:
        return self._fields


class AnyFormRequest(MemoryRequest):
    """A form of either kind; one without files may be URL-encoded, as an HTML page and curl -d send it."""

    async def _get_form(self, **limits: Any) -> FormData:
        content_type, _ = parse_options_header(self.headers.get("Content-Type"))
        if self._form is None and content_type == URLENCODED_TYPE:
            body = await self.body()
            if len(body) > MAX_URLENCODED_BYTES:
                raise InvalidRequest(
                    f"a URL-encoded form of {len(body)} bytes; expected {MAX_URLENCODED_BYTES} at most, or "
                    "multipart/form-data"
                )
            try:
                given = await asyncio.to_thread(
                    parse_qsl, body.decode(), True, errors="strict", max_num_fields=MAX_FIELDS
                )
            except ValueError as error:
                raise HTTPException(400, f"not a URL-encoded form in UTF-8: {error}") from error
            self._form = FormData([*given])
        return await super()._get_form(**limits)


class MemoryFormRoute(APIRoute):
    """A route whose uploads stay in memory."""

    request_class: type[MemoryRequest] = MemoryRequest

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()

        async def handle_in_memory(request: Request) -> Response:
            return await handle(self.request_class(request.scope, request.receive))

        return handle_in_memory


class AnyFormRoute(MemoryFormRoute):
    request_class = AnyFormRequest


class JsonOrFormRoute(APIRoute):
    """A route whose JSON body may also come as a multipart form with the same fields, files among them."""

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()
        field = self.body_field
        model_fields = getattr(field.field_info.annotation, "model_fields", {}) if field else {}
        in_json = {name for name, one in model_fields.items() if _is_structured(one.annotation)}

        async def handle_either(request: Request) -> Response:
            request = MemoryRequest(request.scope, request.receive)
            content_type, _ = parse_options_header(request.headers.get("Content-Type"))
            if content_type == FORM_TYPE:
                fields = await _fields_of(await request.form(), in_json)
                request = FormRequest(request.scope, fields)
            return await handle(request)

        return handle_either


def _is_structured(annotation: Any) -> bool:
    """Whether a field's type is, or may be, a list or an object."""
    return any(get_origin(one) in (list, tuple, dict) for one in (annotation, *get_args(annotation)))


async def _fields_of(form: FormData, in_json: Collection[str]) -> dict[str, Any]:
    """in_json: fields whose text is JSON. Raises InvalidRequest."""
    fields: dict[str, Any] = {}
    try:
        for name, value in form.multi_items():
            if name in fields:
                raise InvalidRequest(f"the field `{name[:60]}` came twice; send it once", param=name[:60])
            fields[name] = await value.read() if isinstance(value, UploadFile) else value
            if name in in_json:
                try:
                    fields[name] = loads(fields[name])
                except TooManyValues as error:
                    raise InvalidRequest(f"`{name}` is refused: {error.msg}", name) from None
                except (ValueError, RecursionError):
                    raise InvalidRequest(
                        f'`{name}` is not JSON; send a list as [1,2], an object as {{"a":"b"}}', name
                    ) from None
    finally:
        await form.close()
    return fields


async def read_upload(file: UploadFile, max_bytes: int, request: Request, service: Service) -> bytes:
    """Return the file's content. Raises RateLimited and UploadTooLarge."""
    service.quotas.charge(request.state.client.name)
    content = await file.read()
    check_upload(content, max_bytes)
    return content


@asynccontextmanager
async def checking(request: Request, service: Service) -> AsyncIterator[None]:
    """Wait for one's turn to look at a recording, of which all clients share one; raise Overloaded.

    The threads that all else shares would else be taken: 200 KB may hold minutes of eight channels.
    """
    address = "" if request.client is None else request.client.host
    caller = caller_of(request.state.client.name, address)
    async with service.bounds.checks.place_now(caller, "recordings"), service.bounds.checking:
        yield


@contextmanager
def decoding() -> Iterator[None]:
    """Raise BadAudio and AudioTooLong for what cannot be decoded."""
    try:
        yield
    except RecordingTooLong as error:
        raise AudioTooLong(str(error)) from error
    except UndecodableAudio as error:
        raise BadAudio(str(error)) from error
