"""One running language server: its process, the documents that it knows, and what it reports about them."""

import asyncio
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import msgspec
from msgspec import Struct, field

from accord.clock import Clock, within
from accord.coder.helper_process import BoundedBytes, HelperProcess
from accord.coder.lsp.server_table import ServerProgram, python_settings
from accord.coder.tools.tool_context import CommandSandbox
from accord.errors import NeverStarted, RpcError
from accord.safe_text import one_line
from accord.schema.codec import NotJson, encode, parse_json
from accord.wire.envelope import Envelope, Notification, Request, Response, RpcCore, Success, encode_failure

_START_SECONDS: Final = 45.0
_IDLE_SECONDS: Final = 600.0
_SETTLE_SECONDS: Final = 0.15
"""How long a report without a version may be followed by a better one."""
_LEAVE_SECONDS: Final = 1.0
_MAX_BYTES: Final = 64 * 1024 * 1024
"""What a server may write between two edits."""
_MAX_DIAGNOSTICS: Final = 1000
_MAX_DOCUMENTS: Final = 200
_METHOD_NOT_FOUND: Final = -32601

_CAPABILITIES: Final[dict[str, Any]] = {
    "general": {"positionEncodings": ["utf-16"]},
    "textDocument": {
        "synchronization": {"didSave": True},
        "publishDiagnostics": {"versionSupport": True},
        "diagnostic": {},
    },
    "workspace": {"configuration": True, "workspaceFolders": True, "didChangeWatchedFiles": {}},
    "window": {"workDoneProgress": True},
}


class _Position(Struct, frozen=True):
    line: int = 0
    character: int = 0


class _Range(Struct, frozen=True):
    start: _Position = _Position()


class Diagnostic(Struct, frozen=True):
    """One report of a server."""

    message: str = ""
    range: _Range = _Range()
    severity: int | None = None
    code: Any = None
    source: str | None = None

    @property
    def is_error(self) -> bool:
        return self.severity in (1, None)

    @property
    def line(self) -> int:
        """The number of the line, from 0."""
        return self.range.start.line


class _Document:
    """A file as the server knows it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.version = 1
        self.diagnostics: list[Diagnostic] | None = None
        """What the server reports about this text; None until it has."""
        self.pushed = asyncio.Event()


class _Published(Struct):
    uri: str
    diagnostics: list[Any] = field(default_factory=list[Any])
    version: int | None = None


class RunningServer:
    """A server in one folder. `run` is its life; it ends the process in any case."""

    def __init__(
        self, program: ServerProgram, root: str, clock: Clock, sandbox: CommandSandbox | None
    ) -> None:
        self.name: str = program.server.name
        self.ready: asyncio.Event = asyncio.Event()
        """Set when it can be asked."""
        self.ended: asyncio.Event = asyncio.Event()
        self.failure: str = ""
        """Why it has ended; empty after it was idle."""
        self._program = program
        self._root = root
        self._clock = clock
        self._sandbox = sandbox
        self._frames = ServerFrames()
        self._rpc: RpcCore[asyncio.Future[Any]] = RpcCore()
        self._documents: dict[str, _Document] = {}
        self._errors = BoundedBytes(4096)
        self._bytes = 0
        self._pulls = False
        self._stop = asyncio.Event()
        self._last_use = clock.now()
        self._process: HelperProcess | None = None

    # -- life ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Start it, and end it when it is idle, fails or is canceled."""
        try:
            await self._serve()
        except NeverStarted as error:
            self._fail(f"it could not be started: {one_line(str(error), 200)}")
        except (RpcError, NotJson, msgspec.MsgspecError) as error:
            self._fail(f"it did not start: {one_line(str(error), 200)}")
        finally:
            self.ended.set()
            for call in self._rpc.calls.values():
                call.cancel()

    async def _serve(self) -> None:
        command, cwd = list(self._program.command), self._root
        env = dict(self._program.environment)
        if self._sandbox is not None:
            wrapped = self._sandbox.wrap(command, env=env, cwd=cwd)
            command, env, cwd = wrapped.argv, wrapped.env, wrapped.cwd
        process = HelperProcess(
            command,
            cwd=cwd,
            env=env,
            on_output=self._received,
            on_error_output=self._errors.add,
            clock=self._clock,
        )
        async with process:
            self._process = process
            starting = asyncio.ensure_future(self._initialize())
            broken = asyncio.ensure_future(process.broken.wait())
            stopped = asyncio.ensure_future(self._stop.wait())
            try:
                first = asyncio.ensure_future(_first(starting, broken, stopped))
                await within(self._clock, _START_SECONDS, first)
                first.cancel()
                if starting.done():
                    starting.result()
                    self.ready.set()
                    self._watch_idleness()
                    await asyncio.wait((broken, stopped), return_when=asyncio.FIRST_COMPLETED)
                elif not broken.done() and not stopped.done():
                    self._fail(f"it did not start within {_START_SECONDS:g} s")
                if broken.done() and not self._stop.is_set():
                    self._fail("it ended by itself")
                elif not self.failure:
                    await self._leave()
            finally:
                for task in (starting, broken, stopped):
                    task.cancel()
                await asyncio.gather(starting, broken, stopped, return_exceptions=True)

    async def _initialize(self) -> None:
        uri = Path(self._root).as_uri()
        params = {
            "processId": None,  # in the sandbox our id means nothing, and servers end if it does not exist
            "clientInfo": {"name": "accord"},
            "rootUri": uri,
            "rootPath": self._root,
            "workspaceFolders": [{"uri": uri, "name": os.path.basename(self._root) or "root"}],
            "capabilities": _CAPABILITIES,
            "initializationOptions": self._program.server.options(self._program) or {},
        }
        answer = _members(await self._call("initialize", params))
        self._pulls = _members(answer.get("capabilities")).get("diagnosticProvider") not in (None, False)
        self._notify("initialized", {})
        self._notify("workspace/didChangeConfiguration", {"settings": {}})

    async def _leave(self) -> None:
        """Let it end in peace; after a moment it is ended anyway."""
        leaving = asyncio.ensure_future(self._call("shutdown", None))
        if await within(self._clock, _LEAVE_SECONDS, leaving):
            self._notify("exit", None)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)

    def stop(self) -> None:
        """End it."""
        self._stop.set()

    def _fail(self, reason: str) -> None:
        if not self.failure:
            lines = self._errors.text.strip().split("\n")
            # An error may be followed by a trace of calls.
            told = next((line for line in lines if line.lower().startswith("error")), lines[-1])
            self.failure = f"{reason} ({one_line(told, 200)})" if told else reason
        self._stop.set()

    def _watch_idleness(self) -> None:
        remaining = self._last_use + _IDLE_SECONDS - self._clock.now()
        if remaining <= 0:
            self._stop.set()
        elif not self._stop.is_set():
            self._clock.call_later(remaining, self._watch_idleness)

    # -- documents -------------------------------------------------------------------------------------------

    async def diagnostics(self, path: str, text: str) -> list[Diagnostic]:
        """What it reports about this text of a file. Waits for it: bound it. Needs `ready`."""
        self._last_use = self._clock.now()
        self._bytes = 0
        document = self._opened(path, text)
        if document.diagnostics is not None:
            return document.diagnostics
        if self._pulls:
            report = await self._call("textDocument/diagnostic", {"textDocument": {"uri": _uri(path)}})
            found = _read_diagnostics(_members(report).get("items"))
            if document.text == text:
                document.diagnostics = found
            return found
        await self._pushed(document)
        return document.diagnostics or []

    async def _pushed(self, document: _Document) -> None:
        """Wait for a report that the server sends by itself, and for a better one soon after."""
        await document.pushed.wait()
        while True:
            document.pushed.clear()
            again = asyncio.ensure_future(document.pushed.wait())
            try:
                if not await within(self._clock, _SETTLE_SECONDS, again):
                    return
            finally:
                again.cancel()

    def file_changed(self, path: str, *, created: bool) -> None:
        """Tell it that a file has changed on the disk."""
        if self.ready.is_set():
            change = {"uri": _uri(path), "type": 1 if created else 2}
            self._notify("workspace/didChangeWatchedFiles", {"changes": [change]})

    def _opened(self, path: str, text: str) -> _Document:
        """Open the file with this text, or change it to it."""
        uri = _uri(path)
        document = self._documents.get(uri)
        if document is None:
            if len(self._documents) >= _MAX_DOCUMENTS:
                oldest = next(iter(self._documents))
                del self._documents[oldest]
                self._notify("textDocument/didClose", {"textDocument": {"uri": oldest}})
            document = self._documents[uri] = _Document(text)
            language = self._program.server.languages.get(os.path.splitext(path)[1].lower(), "plaintext")
            item = {"uri": uri, "languageId": language, "version": 1, "text": text}
            self._notify("textDocument/didOpen", {"textDocument": item})
        elif document.text != text:
            document.text, document.diagnostics = text, None
            document.version += 1
            document.pushed.clear()
            identifier = {"uri": uri, "version": document.version}
            self._notify(
                "textDocument/didChange", {"textDocument": identifier, "contentChanges": [{"text": text}]}
            )
            self._notify("textDocument/didSave", {"textDocument": {"uri": uri}})
        return document

    # -- messages --------------------------------------------------------------------------------------------

    def _received(self, data: bytes) -> None:
        if self.failure:
            return
        self._bytes += len(data)
        try:
            if self._bytes > _MAX_BYTES:
                raise BadServerOutput(f"it wrote more than {_MAX_BYTES // 1024**2} MiB at once")
            for message in self._frames.feed(data):
                self._on_message(message)
        except BadServerOutput as error:
            self._fail(str(error))

    def _on_message(self, message: bytes) -> None:
        event = self._rpc.receive(message)
        if isinstance(event, Response):
            call = event.call
            if call.done():
                return
            if event.error is not None:
                call.set_exception(event.error)
            else:
                call.set_result(_value_of(event.result))
        elif isinstance(event, Envelope):
            if event.id is msgspec.UNSET:
                self._on_notification(event)
            else:
                self._answer(event)

    def _on_notification(self, envelope: Envelope) -> None:
        if envelope.method != "textDocument/publishDiagnostics":
            return
        try:
            published = msgspec.json.decode(bytes(envelope.params), type=_Published)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return
        document = self._documents.get(published.uri)
        if document is None:
            document = next((one for uri, one in self._documents.items() if _same(uri, published.uri)), None)
        if document is None or published.version not in (None, document.version):
            return
        document.diagnostics = _read_diagnostics(published.diagnostics)
        document.pushed.set()

    def _answer(self, envelope: Envelope) -> None:
        """Answer a request of the server: it may wait for it."""
        request_id = cast("int | str | None", envelope.id)
        match envelope.method:
            case "workspace/configuration":
                items = _members(_value_of(envelope.params)).get("items")
                asked = cast(list[Any], items)[:100] if isinstance(items, list) else []
                result: Any = [self._setting(_members(item)) for item in asked]
            case "workspace/workspaceFolders":
                result = [{"uri": Path(self._root).as_uri(), "name": os.path.basename(self._root)}]
            case "workspace/applyEdit":
                result = {"applied": False}
            case "client/registerCapability" | "client/unregisterCapability" | "window/showMessageRequest":
                result = None
            case "window/workDoneProgress/create" | "workspace/diagnostic/refresh":
                result = None
            case _:
                error = RpcError.of(_METHOD_NOT_FOUND, "Method not found")
                self._write(encode_failure(request_id, error))
                return
        self._write(encode(Success(request_id, result)))

    def _setting(self, item: dict[str, Any]) -> Any:
        is_python = item.get("section") == "python"
        return python_settings(self._program, self._root) if is_python else None

    async def _call(self, method: str, params: Any) -> Any:
        """Send a request and wait for its result. Raises RpcError; is canceled when the server ends."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        request_id = self._rpc.open_call(future)
        try:
            self._write(encode(Request(request_id, method, msgspec.UNSET if params is None else params)))
            return await future
        finally:
            self._rpc.close_call(request_id)

    def _notify(self, method: str, params: Any) -> None:
        self._write(encode(Notification(method, msgspec.UNSET if params is None else params)))

    def _write(self, message: bytes) -> None:
        if self._process is not None:
            self._process.write(frame(message))


async def _first(*futures: "asyncio.Future[Any]") -> None:
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)


def _members(value: object) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def _uri(path: str) -> str:
    return Path(path).as_uri()


def _same(ours: str, theirs: str) -> bool:
    """Whether two addresses mean the same file: servers write some characters in another way."""
    from urllib.parse import unquote

    return unquote(ours) == unquote(theirs)


def _value_of(raw: msgspec.Raw) -> Any:
    try:
        return parse_json(bytes(raw)) if len(bytes(raw)) else None
    except NotJson:
        return None


def _read_diagnostics(items: Any) -> list[Diagnostic]:
    """The reports that can be read."""
    found: list[Diagnostic] = []
    for item in cast(list[Any], items)[:_MAX_DIAGNOSTICS] if isinstance(items, list) else ():
        try:
            found.append(msgspec.convert(item, Diagnostic))
        except (msgspec.MsgspecError, RecursionError):
            continue
    return found


MAX_MESSAGE_BYTES: Final = 16 * 1024 * 1024
_MAX_HEADER_BYTES: Final = 4096
_LENGTH: Final = re.compile(rb"^content-length:\s*(\d{1,12})\s*$", re.IGNORECASE | re.MULTILINE)


class BadServerOutput(Exception):
    """What a server wrote is no message; the text says why."""


class ServerFrames:
    """Splits what a server writes into messages, which follow a `Content-Length` header."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._length: int | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the complete messages. Raises BadServerOutput."""
        self._data += data
        while True:
            if self._length is None:
                end = self._data.find(b"\r\n\r\n", 0, _MAX_HEADER_BYTES)
                if end < 0:
                    if len(self._data) >= _MAX_HEADER_BYTES:
                        raise BadServerOutput("it writes something other than messages")
                    return
                self._length = _length_of(bytes(self._data[:end]))
                del self._data[: end + 4]
            if len(self._data) < self._length:
                return
            message, length = bytes(self._data[: self._length]), self._length
            del self._data[:length]
            self._length = None
            yield message


def _length_of(header: bytes) -> int:
    found = _LENGTH.search(header.replace(b"\r\n", b"\n"))
    if found is None:
        raise BadServerOutput("it writes something other than messages")
    length = int(found[1])
    if length > MAX_MESSAGE_BYTES:
        raise BadServerOutput(f"it sent a message of {length:,} bytes")
    return length


def frame(message: bytes) -> bytes:
    """The bytes of a message without its last line end, which the pipe adds."""
    return b"Content-Length: %d\r\n\r\n%s" % (len(message) + 1, message)
