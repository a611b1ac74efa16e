"""The scripted model server: plays its script, answer by answer, to whoever asks, and keeps what was asked."""

import asyncio
import json
import re
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeAlias
from urllib.parse import urlsplit

from accord.testing.models.anthropic import Anthropic
from accord.testing.models.format import Format
from accord.testing.models.gemini import Gemini
from accord.testing.models.http import Gone, Head, Wire
from accord.testing.models.openai_chat import OpenAIChat
from accord.testing.models.openai_responses import OpenAIResponses
from accord.testing.models.script import Answer, Drop, Fault, Gate, Reply

Spoken: TypeAlias = Literal["openai-chat", "openai-responses", "anthropic", "google"]
Provider: TypeAlias = Literal["openai", "openai-chat", "openai-responses", "anthropic", "google"]

_FORMATS: Final[dict[Spoken, Format]] = {
    "openai-chat": OpenAIChat(),
    "openai-responses": OpenAIResponses(),
    "anthropic": Anthropic(),
    "google": Gemini(),
}
_ROUTES: Final[tuple[tuple[re.Pattern[str], Spoken], ...]] = (
    (re.compile(r".*/chat/completions"), "openai-chat"),
    (re.compile(r".*/responses"), "openai-responses"),
    (re.compile(r".*/messages"), "anthropic"),
    (re.compile(r".*/models/(?P<model>[^/]+):streamGenerateContent"), "google"),
)
_VARIABLES: Final = {"openai": "OPENAI", "anthropic": "ANTHROPIC", "google": "GOOGLE"}


class SeenRequest:
    """What a client asked for an answer."""

    def __init__(self, head: Head, spoken: Spoken, model: str) -> None:
        self.path = head.target
        self.headers = dict(head.headers)
        """Names in lower case."""
        self.body: Any = json.loads(head.body or b"{}")
        self.format: Spoken = spoken
        self.model = model
        self.outcome: Literal["answered", "abandoned", "dropped", "faulted"] | None = None
        """How it ended; None while it is served. Abandoned: the client left before the end of the answer."""
        self._ended = asyncio.Event()

    async def ended(self) -> str:
        """Wait for the end; the outcome."""
        await self._ended.wait()
        return str(self.outcome)

    def end(self, outcome: Literal["answered", "abandoned", "dropped", "faulted"]) -> None:
        """For the server: it is over."""
        self.outcome = self.outcome or outcome
        self._ended.set()


ScriptedReply: TypeAlias = Reply | Callable[[SeenRequest], Reply]
"""A reply, or a function that makes one of the request."""


class ModelServer:
    """`async with ModelServer([Answer("hi")]) as server`: a provider on 127.0.0.1 that says what the test says."""

    def __init__(
        self,
        script: Iterable[ScriptedReply] | Callable[[SeenRequest], Reply] = (),
        *,
        models: Iterable[str] = (),
        listing: Fault | Gate | None = None,
    ) -> None:
        self._always = script if callable(script) else None
        self._script: list[ScriptedReply] = [] if callable(script) else list(script)
        self.models = list(models)
        self.listing = listing
        """What happens to those who ask for the list of models, if not the list."""
        self.requests: list[SeenRequest] = []
        self.listings: list[Head] = []
        """The requests for the list of models."""
        self.unexpected: list[str] = []
        """Requests that the script had no reply for; leaving the block with any raises."""
        self._arrived = asyncio.Condition()
        self._wires: dict[Wire, asyncio.Task[None]] = {}
        self._server: asyncio.Server | None = None
        self._port = 0

    def add(self, *replies: ScriptedReply) -> None:
        """Add to the end of the script."""
        self._script.extend(replies)

    def base_url(self, provider: Provider = "openai") -> str:
        """The address to give to a client of this provider."""
        root = f"http://127.0.0.1:{self._port}"
        return f"{root}/v1" if provider.startswith("openai") else root

    def environment(self, provider: Provider = "openai", key: str = "test-key") -> dict[str, str]:
        """The environment variables that send a provider's clients here."""
        name = _VARIABLES[provider.partition("-")[0]]
        return {f"{name}_API_KEY": key, f"{name}_BASE_URL": self.base_url(provider)}

    async def request(self, number: int = 1) -> SeenRequest:
        """The request of this number, the first being 1, as soon as it has come."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= number)
        return self.requests[number - 1]

    async def __aenter__(self) -> Self:
        self._server = await asyncio.get_running_loop().create_server(self._connected, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        serving = list(self._wires.values())
        for wire, task in list(self._wires.items()):
            wire.drop()
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()
        if error is None and self.unexpected:
            raise AssertionError(f"the script had no reply for: {'; '.join(self.unexpected)}")

    def _connected(self) -> Wire:
        wire = Wire()
        task = asyncio.get_running_loop().create_task(self._serve(wire))
        self._wires[wire] = task
        task.add_done_callback(lambda _: self._wires.pop(wire, None))
        return wire

    async def _serve(self, wire: Wire) -> None:
        try:
            while (head := await wire.next_request()) is not None:
                await self._handle(head, wire)
        except Gone:
            pass
        finally:
            wire.drop()

    async def _handle(self, head: Head, wire: Wire) -> None:
        path = urlsplit(head.target).path
        if head.method == "GET" and path.rstrip("/").endswith("/models"):
            await self._list(head, path, wire)
            return
        for pattern, spoken in _ROUTES:
            if head.method == "POST" and (match := pattern.fullmatch(path)):
                await self._reply(head, spoken, match.groupdict().get("model"), wire)
                return
        self.unexpected.append(f"{head.method} {path}")
        await wire.answer(404, {"error": {"message": f"no such place: {path}"}})

    async def _list(self, head: Head, path: str, wire: Wire) -> None:
        self.listings.append(head)
        spoken: Spoken = "anthropic" if "anthropic-version" in head.headers else "openai-chat"
        if "/v1beta/" in path:
            spoken = "google"
        if isinstance(self.listing, Gate):
            await wire.wait(self.listing)
        elif self.listing is not None:
            await _refuse(wire, spoken, self.listing)
            return
        await wire.answer(200, _FORMATS[spoken].listing(self.models))

    async def _reply(self, head: Head, spoken: Spoken, model: str | None, wire: Wire) -> None:
        seen = SeenRequest(head, spoken, model or str(json.loads(head.body).get("model")))
        async with self._arrived:
            self.requests.append(seen)
            self._arrived.notify_all()
        reply = self._next(seen)
        try:
            if isinstance(reply, Fault):
                seen.end("faulted")
                await _refuse(wire, spoken, reply)
            else:
                await _play(wire, reply, seen, len(self.requests))
        except Gone:
            seen.end("abandoned")
            raise
        except asyncio.CancelledError:
            seen.end("dropped")
            raise

    def _next(self, seen: SeenRequest) -> Reply:
        scripted = self._always or (self._script.pop(0) if self._script else None)
        if scripted is None:
            self.unexpected.append(f"request {len(self.requests)} to {seen.path}")
            return Fault(400, "the script has no more answers")
        return scripted(seen) if callable(scripted) else scripted


async def _refuse(wire: Wire, spoken: Spoken, fault: Fault) -> None:
    headers = dict(fault.headers)
    if fault.retry_after is not None:
        headers["retry-after"] = str(fault.retry_after)
    await wire.answer(
        fault.status, _FORMATS[spoken].error(fault) if fault.body is None else fault.body, headers
    )


async def _play(wire: Wire, answer: Answer, seen: SeenRequest, number: int) -> None:
    wire.begin()
    for frame in _FORMATS[seen.format].frames(answer, number, seen.model):
        if isinstance(frame, Gate):
            await wire.wait(frame)
        elif isinstance(frame, Drop):
            seen.end("dropped")
            if frame.clean:
                break
            await asyncio.sleep(0)  # what was written before leaves first
            wire.drop()
            raise Gone
        else:
            await wire.stream(frame)
    wire.end()
    seen.end("answered")
