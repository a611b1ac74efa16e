"""HTTP clients and pydantic-ai model objects; model lists; warm-up; the SDK bypass.

Imported on first use: it loads pydantic-ai.
"""

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

import httpx2
from pydantic_ai.models import Model as TheirModel

from accord import __version__
from accord.clock import SYSTEM_CLOCK
from accord.coder.model_history import user
from accord.coder.models.endpoints import Endpoint
from accord.coder.models.model import ModelError, ModelRequest, ToolSpec
from accord.coder.models.model_registry import AvailableModel
from accord.coder.models.provider_request import ProviderRequest, one_line
from accord.coder.models.remote_model import ModelEventQueue
from accord.coder.user_config import Kind, ModelFacts

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from pydantic_ai.profiles.openai import OpenAIModelProfile


# MERGED coder.models.live.listing: Asking a server which models it has.

_ADDRESSES: Final = {
    "openai-chat": "https://api.openai.com/v1",
    "openai-responses": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "google": "https://generativelanguage.googleapis.com",
}
_PATHS: Final = {
    "openai-chat": "/models",
    "openai-responses": "/models",
    "anthropic": "/v1/models?limit=1000",
    "google": "/v1beta/models?pageSize=1000",
}
_NO_TALKERS: Final = re.compile(
    r"embedding|tts|whisper|dall-e|image|audio|realtime|moderation|transcribe|davinci|babbage|sora|instruct"
)
"""OpenAI's list has everything it serves; these do not hold conversations."""


async def ask_for_models(endpoint: Endpoint, http: httpx2.AsyncClient) -> list[AvailableModel]:
    """The models of the server, as it lists them. Raises ModelError."""
    address = (endpoint.base_url or _ADDRESSES[endpoint.kind]).rstrip("/") + _PATHS[endpoint.kind]
    failure: str
    try:
        response = await http.get(address, headers=_headers(endpoint), follow_redirects=False)
        if response.status_code == 200:
            offers = list(dict.fromkeys(_offers(endpoint, response.json())))
            return sorted(offers, key=lambda offer: offer.name) if endpoint.is_own else offers
        failure = f"status {response.status_code}"
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        failure = type(error).__name__
    except (ValueError, TypeError, AttributeError, KeyError):
        failure = "the list is unreadable"
    raise ModelError("network", one_line(f"{endpoint.name}: no list of models: {failure}", endpoint.key))


def _headers(endpoint: Endpoint) -> dict[str, str]:
    headers = {"accept": "application/json"}
    if endpoint.kind == "anthropic":
        headers["anthropic-version"] = "2023-06-01"
    if endpoint.key is None:
        return headers
    name = {"anthropic": "x-api-key", "google": "x-goog-api-key"}.get(endpoint.kind)
    key = endpoint.key.reveal()
    return {**headers, name: key} if name else {**headers, "authorization": f"Bearer {key}"}


def _offers(endpoint: Endpoint, listed: Any) -> Iterator[AvailableModel]:
    entries = cast(list[dict[str, Any]], listed["models"] if endpoint.kind == "google" else listed["data"])
    for entry in entries:
        if endpoint.kind == "google":
            if "generateContent" not in entry.get("supportedGenerationMethods", ()):
                continue
            name = str(entry["name"]).removeprefix("models/")
        else:
            name = str(entry["id"])
            if endpoint.is_own and endpoint.kind != "anthropic" and _NO_TALKERS.search(name):
                continue
        title = entry.get("display_name") or entry.get("displayName")
        yield AvailableModel(name, str(title) if title else name, _context(entry))


def _context(entry: dict[str, Any]) -> int | None:
    """The size of the context, under the names that servers have for it."""
    for key in ("inputTokenLimit", "max_input_tokens", "context_length", "max_model_len"):
        value = entry.get(key)
        if isinstance(value, int) and value > 0:
            return value
    return None


# MERGED coder.models.live.plain: Requests that are plain JSON already, past the SDKs' look at every member of them.
#
# The SDKs compare each message of a request with its declared type, to rename members and encode files. For a long conversation
# that takes longer than everything else on the way. What pydantic-ai has made is in its final form, so it goes along as
# `extra_body`, which the SDKs lay over the request unchanged.

_LARGE: Final = ("messages", "input", "tools")
"""The members that grow with a conversation."""


def spare(resource: Any) -> None:
    """Let an SDK's resource (`client.chat.completions`, say) leave the large members of its requests alone."""
    resource.create = _plainly(resource.create)


def _plainly(create: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:

    async def created(**given: Any) -> Any:
        large = {name: given[name] for name in _LARGE if isinstance(given.get(name), list)}
        if large:
            # Required ones must be named; the real ones take their place.
            given |= {name: [] for name in large}
            given["extra_body"] = {**(given.get("extra_body") or {}), **large}
        return await create(**given)

    return created


# MERGED coder.models.live.connecting: Connections to providers: one HTTP client for all, and pydantic-ai's model object for each model.
#
# The SDKs retry nothing themselves, and take keys and addresses from nowhere but here.

_OPENAI: Final = "https://api.openai.com/v1"
_NO_KEY: Final = "none"  # the SDKs insist on one

heartbeat: ContextVar[Callable[[], None] | None] = ContextVar("heartbeat", default=None)
"""Called for every piece that arrives for a request of this task."""


class _Beating(httpx2.AsyncByteStream):
    """A response's bytes, every piece of which is a sign of life."""

    def __init__(self, inner: httpx2.AsyncByteStream, beat: Callable[[], None]) -> None:
        self._inner = inner
        self._beat = beat

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._inner:
            self._beat()
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _listen(response: httpx2.Response) -> None:
    beat = heartbeat.get()
    if beat is not None:
        beat()
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Beating(response.stream, beat)


@cache
def ssl_context() -> ssl.SSLContext:
    """The certificates to trust. Takes its time, once."""
    return httpx2.create_ssl_context()


def http_client(silence: float) -> httpx2.AsyncClient:
    """The client of all requests. Silence is watched elsewhere; the limit here is for what nobody watches."""
    return httpx2.AsyncClient(
        verify=ssl_context(),
        timeout=httpx2.Timeout(silence + 60, connect=20),
        limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=20),
        headers={"user-agent": f"accord/{__version__}"},
        event_hooks={"response": [_listen]},
    )


def connect(endpoint: Endpoint, model: str, http: httpx2.AsyncClient) -> TheirModel[Any]:
    """The model as pydantic-ai knows it."""
    key = endpoint.key.reveal() if endpoint.key else _NO_KEY
    if endpoint.kind == "anthropic":
        return _anthropic(endpoint, model, key, http)
    if endpoint.kind == "google":
        return _google(endpoint, model, key, http)
    return _openai(endpoint, model, key, http)


def _openai(endpoint: Endpoint, model: str, key: str, http: httpx2.AsyncClient) -> TheirModel[Any]:
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    client = AsyncOpenAI(api_key=key, base_url=endpoint.base_url or _OPENAI, max_retries=0, http_client=http)
    spare(client.chat.completions)
    spare(client.responses)
    if endpoint.family != "openai":
        _forget_environment(client)
    if endpoint.kind == "openai-responses":
        own = endpoint.family == "openai"
        provider = (
            OpenAIProvider(openai_client=client)
            if own
            else OpenAICompatibleProvider(endpoint.name, openai_client=client)
        )
        return OpenAIResponsesModel(model, provider=provider)
    compatible = endpoint.base_url is not None
    return OpenAIChatModel(
        model,
        provider=OpenAICompatibleProvider(endpoint.name, openai_client=client)
        if compatible
        else OpenAIProvider(openai_client=client),
        profile=_chat_profile(endpoint),
    )


def _chat_profile(endpoint: Endpoint) -> "OpenAIModelProfile":
    from pydantic_ai.profiles.openai import OpenAIModelProfile

    profile = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=endpoint.finish_reason)
    if endpoint.base_url is not None:
        profile["openai_supports_strict_tool_definition"] = False  # not every server takes the word
        profile["json_schema_transformer"] = None  # our schemas are plain already
    return profile


def _forget_environment(client: "AsyncOpenAI") -> None:
    """Another server is none of OpenAI's: what the SDK took from the environment for OpenAI stays here."""
    client.organization = client.project = client.admin_api_key = None


def _anthropic(endpoint: Endpoint, model: str, key: str, http: httpx2.AsyncClient) -> TheirModel[Any]:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    address = endpoint.base_url or "https://api.anthropic.com"
    client = AsyncAnthropic(api_key=key, base_url=address, max_retries=0, http_client=http)
    spare(client.beta.messages)
    return AnthropicModel(model, provider=AnthropicProvider(anthropic_client=client))


def _google(endpoint: Endpoint, model: str, key: str, http: httpx2.AsyncClient) -> TheirModel[Any]:
    from google.genai.types import HttpRetryOptions
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    provider = GoogleProvider(
        api_key=key, base_url=endpoint.base_url, http_client=http, retry_options=HttpRetryOptions(attempts=1)
    )
    return GoogleModel(model, provider=provider)


# MERGED coder.models.live.warming: The first answer of a provider costs its library the building of many validators. Here one is read in advance.
#
# Everything happens in memory: a request that never leaves, and an answer of one word.

_ANSWERS: Final[dict[Kind, str]] = {
    "openai-chat": r"""
{"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"a"}}]}
{"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"tool_calls":[\
{"index":0,"id":"c","type":"function","function":{"name":"t","arguments":"{}"}}]},"finish_reason":"stop"}]}
""",
    "openai-responses": r"""
{"type":"response.created","sequence_number":0,"response":{"id":"r","object":"response","created_at":1,"model":"m",\
"output":[],"tools":[],"tool_choice":"auto","parallel_tool_calls":true,"status":"in_progress"}}
{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"f","type":"function_call",\
"call_id":"c","name":"t","arguments":"{}"}}
{"type":"response.output_text.delta","sequence_number":2,"item_id":"i","output_index":1,"content_index":0,\
"delta":"a","logprobs":[]}
{"type":"response.completed","sequence_number":3,"response":{"id":"r","object":"response","created_at":1,"model":"m",\
"output":[],"tools":[],"tool_choice":"auto","parallel_tool_calls":true,"status":"completed"}}
""",
    "anthropic": r"""
{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],\
"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}}
{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}
{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}
{"type":"content_block_stop","index":0}
{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c","name":"t","input":{}}}
{"type":"content_block_stop","index":1}
{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}
{"type":"message_stop"}
""",
    "google": r"""
{"candidates":[{"content":{"role":"model","parts":[{"text":"a"},{"functionCall":{"name":"t","args":{}}}]},\
"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1,"totalTokenCount":2}}
""",
}
_SCHEMA: Final = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


def warm(kind: Kind) -> None:
    """Let the libraries read one answer. In a thread without an event loop of its own; never raises."""
    try:
        asyncio.run(rehearse(kind))
    except Exception:  # noqa: BLE001  (a convenience: the first request will tell what is wrong)
        return


async def rehearse(kind: Kind) -> None:
    """The request and its answer. Raises what goes wrong."""
    ssl_context()
    items = _ANSWERS[kind].replace("\\\n", "").strip().split("\n")
    names = [json.loads(item).get("type") for item in items]
    heads = [f"event: {name}\n" if name else "" for name in names]
    text = "".join(f"{head}data: {item}\n\n" for head, item in zip(heads, items, strict=True))
    answer = httpx2.Response(200, text=text, headers={"content-type": "text/event-stream"})
    line = ModelEventQueue(SYSTEM_CLOCK, 60, lambda: ModelError("other", "silent"))
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(lambda request: answer), timeout=60) as http:
        endpoint = Endpoint("warm-up", kind, "http://127.0.0.1", None, False)
        tools = [ToolSpec("t", "t", _SCHEMA)]
        ask = ProviderRequest(endpoint, "m", ModelFacts(), connect(endpoint, "m", http))
        await ask.stream(ModelRequest("s", [user("u")], tools), False, line)
