"""Requests to one model of a provider: sends them in its wire format by HTTP, reads the server-sent events
of the answer, and adds costs and context sizes.

Imported on first use: it loads httpx2.
"""

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any, Final, TypeAlias, cast
from urllib.parse import urlsplit

import httpx2
import msgspec
from msgspec import Struct

from accord import __version__
from accord.coder.model_history import AssistantMessage
from accord.coder.models.endpoints import Endpoint, is_loopback
from accord.coder.models.model import ModelError, ModelRequest, RequestUsage, Stopped
from accord.coder.models.model_registry import AvailableModel
from accord.coder.models.provider_errors import (
    ProviderFailure,
    failure_of_body,
    is_content_filter,
    one_line,
    to_model_error,
)
from accord.coder.models.remote_model import ModelEventQueue
from accord.coder.models.wire_format import WireFormat
from accord.coder.user_config import ModelFacts
from accord.wire.remote.event_parser import EventParser
from accord.wire.transport import OversizedFrame

MAX_EVENT_BYTES: Final = 32 * 1024 * 1024
MAX_STREAM_BYTES: Final = 256 * 1024 * 1024
MAX_BODY_BYTES: Final = 16 * 1024 * 1024
"""The longest response that is not a stream. Of an error only the beginning is read."""
MAX_ERROR_BYTES: Final = 64 * 1024
_DRAIN_SECONDS: Final = 1.0


class ModelHttpRequest(Struct, frozen=True):
    """A request to a provider. Its headers hold the key."""

    url: str
    headers: dict[str, str]
    body: bytes = b""

    def __repr__(self) -> str:
        return f"<ModelHttpRequest {self.url}>"


class ProviderRequest:
    """Sends requests to one model."""

    def __init__(self, endpoint: Endpoint, name: str, facts: ModelFacts, http: httpx2.AsyncClient) -> None:
        self.endpoint = endpoint
        self.model_name = name
        self.format: WireFormat = wire_format(endpoint, name, facts)
        self._facts = facts
        self._http = http
        if endpoint.is_official:
            self._known = known_model(endpoint.family, name)
        else:  # behind a proxy, or at another provider; a server of the user's own costs nothing
            self._known = None if endpoint.is_local else known_by_name(name)

    @property
    def context_size(self) -> int | None:
        """The known size of one of the provider's own models."""
        return self._known.context if self._known else None

    def http_request(self, asked: ModelRequest, sees_images: bool) -> ModelHttpRequest:
        """Return the complete HTTP request."""
        body = msgspec.json.encode(self.format.body(asked, sees_images))
        url = address(self.endpoint, self.format) + self.format.path()
        return ModelHttpRequest(url, self.format.headers(), body)

    async def stream(self, request: ModelRequest, sees_images: bool, queue: ModelEventQueue) -> None:
        """Send the request and put the events of the answer into the queue. Raises ModelError."""
        failure = await self._send(request, sees_images, queue)
        if failure is not None and failure.kind == "bad_request" and "summar" in str(failure):
            from accord.coder.models.openai_responses import OpenAIResponsesFormat

            if isinstance(self.format, OpenAIResponsesFormat) and self.format.summaries:
                self.format.summaries = False
                failure = await self._send(request, sees_images, queue)
        if failure is not None:
            raise failure

    async def _send(
        self, request: ModelRequest, sees_images: bool, queue: ModelEventQueue
    ) -> ModelError | None:
        """Send the request once. Returns the error: raised here, it would hold the one that it came from."""
        reader = self.format.reader()
        http_request = self.http_request(request, sees_images)
        try:
            stream = post_events(self._http, http_request, queue.reset_silence, lambda: reader.done)
            async with aclosing(stream):
                async for data in stream:
                    for event in reader.read(data):
                        await queue.put(event)
            for event in reader.end(f"{self.endpoint.name}:{self.model_name}"):
                await queue.put(self.with_cost(event) if isinstance(event, RequestUsage) else event)
            return None
        except ModelError as error:
            failure = error
        except ProviderFailure as error:
            if is_content_filter(error):
                refusal_text = one_line(error.text, self.endpoint.key)
                await queue.put(Stopped("refusal", AssistantMessage(()), refusal_text))
                return None
            failure = to_model_error(error, self.endpoint, self.model_name)
        if reader.usage is not None:
            await queue.put(self.with_cost(reader.usage))
        return failure

    def with_cost(self, usage: RequestUsage) -> RequestUsage:
        """The usage with its cost, if the prices are known."""
        cost = cost_of(usage, self._facts)
        if cost is None and self._known is not None:
            cost = cost_of(usage, self._known.prices(usage.input))
        return usage if cost is None else msgspec.structs.replace(usage, cost=cost)


def wire_format(endpoint: Endpoint, model: str = "", facts: ModelFacts | None = None) -> WireFormat:
    if endpoint.family == "vertex" and endpoint.kind == "anthropic":
        from accord.coder.models.anthropic_messages import VertexAnthropicFormat as Format
    elif endpoint.family == "vertex" and endpoint.kind == "google":
        from accord.coder.models.gemini import VertexGeminiFormat as Format
    elif endpoint.kind == "anthropic":
        from accord.coder.models.anthropic_messages import AnthropicFormat as Format
    elif endpoint.kind == "google":
        from accord.coder.models.gemini import GeminiFormat as Format
    elif endpoint.kind == "openai-responses":
        from accord.coder.models.openai_responses import OpenAIResponsesFormat as Format
    else:
        from accord.coder.models.openai_chat import OpenAIChatFormat as Format
    return Format(endpoint, model, facts or ModelFacts())


def address(endpoint: Endpoint, its_format: WireFormat) -> str:
    """Return the address of an endpoint, without a slash at its end."""
    return (endpoint.base_url or its_format.official_address).rstrip("/")


_OTHER_MODEL_KINDS: Final = re.compile(
    r"embedding|tts|whisper|dall-e|image|audio|realtime|moderation|transcribe|davinci|babbage|sora|instruct"
)
"""Names in OpenAI's list that are not chat models."""


async def fetch_models(endpoint: Endpoint, http: httpx2.AsyncClient) -> list[AvailableModel]:
    """Return the models that the server lists. Raises ModelError."""
    its_format = wire_format(endpoint)
    headers = {"accept": "application/json", **its_format.headers()}
    failure: str
    try:
        request = ModelHttpRequest(address(endpoint, its_format) + its_format.list_path, headers)
        status, body = await http_body(http, request)
        if status == 200:
            models = list(dict.fromkeys(_read_list(endpoint, msgspec.json.decode(body))))
            return sorted(models, key=lambda model: model.name) if endpoint.is_official else models
        failure = f"status {status}"
    except ProviderFailure as error:
        failure = str(error) or "the request is invalid"
    except (msgspec.MsgspecError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
        failure = "the list is unreadable"
    raise ModelError("network", one_line(f"{endpoint.name}: no list of models: {failure}", endpoint.key))


_KEY_PATHS: Final = {"openrouter": ("/key",)}
"""Paths that need the key, of servers that list their models without one."""
_NO_LIST: Final = (404, 405, 501)


async def count_models(endpoint: Endpoint, http: httpx2.AsyncClient) -> int | None:
    """Test the address and the key of a server, and return the number of its models; None without a list.

    Raises ModelError with the problem and what to do.
    """
    its_format = wire_format(endpoint)
    headers = {"accept": "application/json", **its_format.headers()}
    status, body = 0, b""
    failure: ProviderFailure | None = None
    for path in (*_KEY_PATHS.get(endpoint.family, ()), its_format.list_path):
        try:
            url = address(endpoint, its_format) + path
            status, body = await http_body(http, ModelHttpRequest(url, headers))
        except ProviderFailure as error:
            failure = error
        if failure is None and status not in (200, *_NO_LIST):
            failure = failure_of_body(status, body, {})
        if failure is not None:
            raise to_model_error(failure, endpoint, "")
    try:
        return len(list(_read_list(endpoint, msgspec.json.decode(body)))) if status == 200 else None
    except (msgspec.MsgspecError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return None


def _read_list(endpoint: Endpoint, response: Any) -> Iterator[AvailableModel]:
    entries = cast(
        list[dict[str, Any]], response["models"] if endpoint.kind == "google" else response["data"]
    )
    for entry in entries:
        if endpoint.kind == "google":
            if "generateContent" not in entry.get("supportedGenerationMethods", ()):
                continue
            name = str(entry["name"]).removeprefix("models/")
        else:
            name = str(entry["id"])
            if endpoint.is_official and endpoint.kind != "anthropic" and _OTHER_MODEL_KINDS.search(name):
                continue
        title = entry.get("display_name") or entry.get("displayName")
        yield AvailableModel(name, str(title) if title else name, _context_size(entry))


def _context_size(entry: dict[str, Any]) -> int | None:
    """Return the size of the context window. Servers use different names for it."""
    for key in ("inputTokenLimit", "max_input_tokens", "context_length", "max_model_len"):
        value = entry.get(key)
        if isinstance(value, int) and value > 0:
            return value
    return None


@cache
def ssl_context() -> ssl.SSLContext:
    """Return the trusted certificates. Slow on the first call."""
    return httpx2.create_ssl_context()


_WITHOUT_PROXY: Final = ("all://localhost", "all://*.localhost", "all://127.0.0.1", "all://[::1]")


def http_client(silence: float) -> httpx2.AsyncClient:
    """Return the HTTP client for all requests.

    `ModelEventQueue` enforces the silence limit. The longer timeout here covers requests without such a
    queue. Servers on this machine are never asked through a proxy.

    Raises ModelError if the environment names a proxy that cannot be used.
    """
    problem: str
    try:
        return httpx2.AsyncClient(
            verify=ssl_context(),
            timeout=httpx2.Timeout(silence + 60, connect=20),
            limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=20),
            headers={"user-agent": f"accord/{__version__}"},
            follow_redirects=False,
            mounts=dict.fromkeys(_WITHOUT_PROXY),
        )
    except ImportError:
        problem = "a SOCKS proxy needs `pip install 'httpx2[socks]'`"
    except (ValueError, httpx2.InvalidURL):
        problem = "its address is not that of a proxy"
    raise ModelError("network", f"HTTP_PROXY, HTTPS_PROXY or ALL_PROXY: {problem}", final=True)


async def post_events(
    http: httpx2.AsyncClient,
    request: ModelHttpRequest,
    on_data: Callable[[], None],
    is_done: Callable[[], bool],
) -> AsyncGenerator[bytes, None]:
    """Send a request and yield the data of the events that answer it. Raises ProviderFailure.

    `on_data` is called whenever bytes arrive. The stream ends early when `is_done` returns True.
    """
    headers = {
        "content-type": "application/json",
        "accept": "text/event-stream, application/json",
        **request.headers,
    }
    try:
        async with http.stream("POST", request.url, headers=headers, content=request.body) as response:
            on_data()
            if not response.is_success:
                raise await _failure_of_response(response)
            parser, size, beginning = EventParser(MAX_EVENT_BYTES), 0, bytearray()
            chunks = response.aiter_bytes()
            async for chunk in chunks:
                on_data()
                if size < MAX_ERROR_BYTES:
                    beginning += chunk
                size += len(chunk)
                if size > MAX_STREAM_BYTES:
                    raise _too_large()
                for data in parser.feed(chunk):
                    if isinstance(data, OversizedFrame):
                        raise _too_large()
                    yield data
                if is_done():
                    await _drain(chunks)
                    return
            for data in parser.feed(b"\n\n"):  # some servers forget the end of the last event
                if isinstance(data, bytes):
                    yield data
        if beginning.lstrip().startswith((b"{", b"[")):  # an error in place of events, in spite of the status
            raise failure_of_body(None, bytes(beginning[:MAX_ERROR_BYTES]), {})
        return
    except _HTTP_ERRORS as error:
        failure = _failure_of(error, request.url)
    raise failure


async def http_body(
    http: httpx2.AsyncClient, request: ModelHttpRequest, method: str = "GET"
) -> tuple[int, bytes]:
    """Return the status and the body, at most `MAX_BODY_BYTES` of it. Raises ProviderFailure."""
    try:
        stream = http.stream(method, request.url, headers=request.headers, content=request.body or None)
        async with stream as response:
            return response.status_code, await _read(response, MAX_BODY_BYTES)
    except _HTTP_ERRORS as error:
        failure = _failure_of(error, request.url)
    raise failure


def _too_large() -> ProviderFailure:
    return ProviderFailure("the answer was too large", final=True)


_HTTP_ERRORS: Final = (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError)


def _failure_of(error: Exception, url: str) -> ProviderFailure:
    """Return the failure for an error of the HTTP library.

    A refused connection and an unknown host are final: they rarely change while the user waits.
    """
    parts = urlsplit(url)
    place = f"{parts.scheme}://{parts.netloc}"
    causes = list(_causes(error))
    proxy = _proxy_of(url)
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        host = f"{proxy} (a proxy)" if proxy else parts.hostname
        return ProviderFailure(f"unknown host {host}", connection=True, final=True, place=place)
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        refused = f"connection refused{f' by the proxy {proxy}' if proxy else ''}"
        return ProviderFailure(refused, connection=True, final=True, place=place)
    is_ours = isinstance(error, httpx2.LocalProtocolError)  # its text may show a header, with the key
    text = "" if is_ours else str(error) or type(error).__name__
    return ProviderFailure(text, connection=True, place=place)


def _proxy_of(url: str) -> str:
    """Return the host and port of the proxy for an address, without its password; empty if there is none."""
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    if is_loopback(url) or proxy_bypass(parts.netloc):
        return ""
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all") or ""
    return urlsplit(proxy if "://" in proxy else f"//{proxy}").netloc.rpartition("@")[2]


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and those that it came from, also those of several attempts to connect."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for one in cast("BaseExceptionGroup[BaseException]", error).exceptions:
                yield from _causes(one)
        error = error.__cause__ or error.__context__


async def _failure_of_response(response: httpx2.Response) -> ProviderFailure:
    body = b""
    with suppress(httpx2.HTTPError):  # the status alone says enough
        body = await _read(response, MAX_ERROR_BYTES)
    headers = {name.lower(): value for name, value in response.headers.items()}
    return failure_of_body(response.status_code, body, headers)


async def _read(response: httpx2.Response, limit: int) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) >= limit:
            break
    return bytes(body[:limit])


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read the end of a response, so that its connection can be used again. Does not wait long for it."""
    with suppress(TimeoutError, httpx2.HTTPError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            size = 0
            async for chunk in chunks:
                size += len(chunk)
                if size > MAX_ERROR_BYTES:
                    return


_Row: TypeAlias = tuple[str, int, float, float, float | None, float | None]

_SUFFIX: Final = re.compile(r"(?:-\d{3,4}|-\d{8}|-\d{4}-\d\d-\d\d|-latest|-preview.*|-exp.*|@.*)?")
"""What may follow the name in the table: a date or a version of the same model."""


class KnownModel(Struct, frozen=True):
    """A model of `model_prices.json`, which has data of the genai-prices package (MIT license).

    `tools/update_model_prices.py` writes the file. A row of prices is: first day, more than this many input
    tokens, then US dollars per million tokens of input, output, cached read and cached write.
    """

    rows: list[_Row] = msgspec.field(name="prices")
    context: int | None = None

    def prices(self, input_tokens: int) -> ModelFacts:
        """Return the prices of today for a prompt of this size."""
        today = datetime.now(UTC).date().isoformat()
        valid = [row for row in self.rows if row[0] <= today and (row[1] == 0 or input_tokens > row[1])]
        _, _, input_price, output_price, read_price, write_price = valid[-1] if valid else self.rows[0]
        return ModelFacts(
            input=input_price, output=output_price, cached_read=read_price, cached_write=write_price
        )


def known_model(provider: str, name: str) -> KnownModel | None:
    """Return a provider's model: the longest name in the table that is this one, with or without a date."""
    models = _table().get(provider, {})
    matches = [key for key in models if name.startswith(key) and _SUFFIX.fullmatch(name, len(key))]
    return models[max(matches, key=len)] if matches else None


def known_by_name(name: str) -> KnownModel | None:
    """Return the model that a name at another server means, such as `anthropic/claude-sonnet-4.5`.

    Names may have the provider or a region before them, and a version of the server behind them.
    """
    if name.endswith(":free"):
        return None
    text = name.lower().rpartition("/")[2].partition(":")[0]
    text = re.sub(r"^(?:[a-z]+\.)+(?=claude|gpt|gemini|o\d)|-v\d+$", "", text)
    names = (text, re.sub(r"(?<=\d)\.(?=\d)", "-", text))
    found = (known_model(provider, one) for provider in _table() for one in names)
    return next((model for model in found if model is not None), None)


@cache
def _table() -> dict[str, dict[str, KnownModel]]:
    data = files("accord.coder.models").joinpath("model_prices.json").read_bytes()
    return msgspec.json.decode(data, type=dict[str, dict[str, KnownModel]])


def cost_of(usage: RequestUsage, facts: ModelFacts) -> float | None:
    """Return the cost in US dollars by these prices; None unless those of input and output are known."""
    if facts.input is None or facts.output is None:
        return None
    read_price = facts.input if facts.cached_read is None else facts.cached_read
    write_price = facts.input if facts.cached_write is None else facts.cached_write
    uncached = max(0, usage.input - usage.cached_read - usage.cached_write)
    total = (
        uncached * facts.input
        + usage.cached_read * read_price
        + usage.cached_write * write_price
        + usage.output * facts.output
    )
    return total / 1_000_000
