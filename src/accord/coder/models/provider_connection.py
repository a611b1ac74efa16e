"""Connections to providers: the HTTP client, the pydantic-ai model objects, the model lists and the warm-up.

The SDKs retry nothing, and take keys and addresses only from the arguments here.

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
from pydantic_ai.models import Model as SdkModel

from accord import __version__
from accord.clock import SYSTEM_CLOCK
from accord.coder.model_history import user_message
from accord.coder.models.endpoints import Endpoint
from accord.coder.models.model import ModelError, ModelRequest, ToolSpec
from accord.coder.models.model_registry import AvailableModel
from accord.coder.models.provider_request import ProviderRequest, one_line
from accord.coder.models.remote_model import ModelEventQueue
from accord.coder.user_config import Kind, ModelFacts

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from pydantic_ai.profiles.openai import OpenAIModelProfile

_ADDRESSES: Final[dict[Kind, str]] = {
    "openai-chat": "https://api.openai.com/v1",
    "openai-responses": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "google": "https://generativelanguage.googleapis.com",
}
_PLACEHOLDER_KEY: Final = "none"  # the SDKs require a key

on_response_data: ContextVar[Callable[[], None] | None] = ContextVar("on_response_data", default=None)
"""Called for every chunk that arrives for a request of this task."""


@cache
def ssl_context() -> ssl.SSLContext:
    """Return the trusted certificates. Slow on the first call."""
    return httpx2.create_ssl_context()


def http_client(silence: float) -> httpx2.AsyncClient:
    """Return the HTTP client for all requests.

    `ModelEventQueue` enforces the silence limit. The longer timeout here covers requests without such a
    queue.
    """
    return httpx2.AsyncClient(
        verify=ssl_context(),
        timeout=httpx2.Timeout(silence + 60, connect=20),
        limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=20),
        headers={"user-agent": f"accord/{__version__}"},
        event_hooks={"response": [_watch_response]},
    )


class _WatchedStream(httpx2.AsyncByteStream):
    """A response body that reports every chunk."""

    def __init__(self, inner: httpx2.AsyncByteStream, on_data: Callable[[], None]) -> None:
        self._inner = inner
        self._on_data = on_data

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            self._on_data()
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _watch_response(response: httpx2.Response) -> None:
    on_data = on_response_data.get()
    if on_data is not None:
        on_data()
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _WatchedStream(response.stream, on_data)


def connect(endpoint: Endpoint, model: str, http: httpx2.AsyncClient) -> SdkModel[Any]:
    """Return the pydantic-ai object of a model."""
    key = endpoint.key.reveal() if endpoint.key else _PLACEHOLDER_KEY
    if endpoint.kind == "anthropic":
        return _anthropic(endpoint, model, key, http)
    if endpoint.kind == "google":
        return _google(endpoint, model, key, http)
    return _openai(endpoint, model, key, http)


def _openai(endpoint: Endpoint, model: str, key: str, http: httpx2.AsyncClient) -> SdkModel[Any]:
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    address = endpoint.base_url or _ADDRESSES[endpoint.kind]
    client = AsyncOpenAI(api_key=key, base_url=address, max_retries=0, http_client=http)
    skip_transform(client.chat.completions)
    skip_transform(client.responses)
    if endpoint.family != "openai":
        _drop_openai_environment(client)
    if endpoint.kind == "openai-responses":
        provider = (
            OpenAIProvider(openai_client=client)
            if endpoint.family == "openai"
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
        profile["openai_supports_strict_tool_definition"] = False  # some servers refuse `strict`
        profile["json_schema_transformer"] = None  # our schemas need no transformation
    return profile


def _drop_openai_environment(client: "AsyncOpenAI") -> None:
    """Do not send another server the OpenAI settings that the SDK read from the environment."""
    client.organization = client.project = client.admin_api_key = None


def _anthropic(endpoint: Endpoint, model: str, key: str, http: httpx2.AsyncClient) -> SdkModel[Any]:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    address = endpoint.base_url or _ADDRESSES[endpoint.kind]
    client = AsyncAnthropic(api_key=key, base_url=address, max_retries=0, http_client=http)
    skip_transform(client.beta.messages)
    return AnthropicModel(model, provider=AnthropicProvider(anthropic_client=client))


def _google(endpoint: Endpoint, model: str, key: str, http: httpx2.AsyncClient) -> SdkModel[Any]:
    from google.genai.types import HttpRetryOptions
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    provider = GoogleProvider(
        api_key=key, base_url=endpoint.base_url, http_client=http, retry_options=HttpRetryOptions(attempts=1)
    )
    return GoogleModel(model, provider=provider)


_LARGE_MEMBERS: Final = ("messages", "input", "tools")
"""The members of a request that grow with the session."""


def skip_transform(resource: Any) -> None:
    """Let an SDK resource such as `client.chat.completions` send the large members of a request unchanged.

    The SDKs compare each message with its declared type, to rename members and encode files. For a long
    session that takes longer than all other steps of a request. The messages of pydantic-ai are already in
    their final form, so they are sent as `extra_body`, which the SDKs merge into the request unchanged.
    """
    create: Callable[..., Awaitable[Any]] = resource.create

    async def create_untransformed(**arguments: Any) -> Any:
        large = {name: arguments[name] for name in _LARGE_MEMBERS if isinstance(arguments.get(name), list)}
        if large:
            # The SDK insists on required members. `extra_body` replaces these empty ones.
            arguments |= {name: [] for name in large}
            arguments["extra_body"] = {**(arguments.get("extra_body") or {}), **large}
        return await create(**arguments)

    resource.create = create_untransformed


_LIST_PATHS: Final[dict[Kind, str]] = {
    "openai-chat": "/models",
    "openai-responses": "/models",
    "anthropic": "/v1/models?limit=1000",
    "google": "/v1beta/models?pageSize=1000",
}
_OTHER_MODEL_KINDS: Final = re.compile(
    r"embedding|tts|whisper|dall-e|image|audio|realtime|moderation|transcribe|davinci|babbage|sora|instruct"
)
"""Names in OpenAI's list that are not chat models."""


async def fetch_models(endpoint: Endpoint, http: httpx2.AsyncClient) -> list[AvailableModel]:
    """Return the models that the server lists. Raises ModelError."""
    address = (endpoint.base_url or _ADDRESSES[endpoint.kind]).rstrip("/") + _LIST_PATHS[endpoint.kind]
    failure: str
    try:
        response = await http.get(address, headers=_headers(endpoint), follow_redirects=False)
        if response.status_code == 200:
            models = list(dict.fromkeys(_read_list(endpoint, response.json())))
            return sorted(models, key=lambda model: model.name) if endpoint.is_official else models
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


_WARM_UP_ANSWERS: Final[dict[Kind, str]] = {
    "openai-chat": r"""
{"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,\
"delta":{"content":"a"}}]}
{"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,\
"delta":{"tool_calls":[\
{"index":0,"id":"c","type":"function","function":{"name":"t","arguments":"{}"}}]},"finish_reason":"stop"}]}
""",
    "openai-responses": r"""
{"type":"response.created","sequence_number":0,"response":{"id":"r","object":"response",\
"created_at":1,"model":"m",\
"output":[],"tools":[],"tool_choice":"auto","parallel_tool_calls":true,"status":"in_progress"}}
{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"f",\
"type":"function_call",\
"call_id":"c","name":"t","arguments":"{}"}}
{"type":"response.output_text.delta","sequence_number":2,"item_id":"i","output_index":1,"content_index":0,\
"delta":"a","logprobs":[]}
{"type":"response.completed","sequence_number":3,"response":{"id":"r","object":"response",\
"created_at":1,"model":"m",\
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
_WARM_UP_SCHEMA: Final = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


def warm_up(kind: Kind) -> None:
    """Let the libraries parse one answer, so that they build their validators before the first real one.

    Sends nothing over the network. Call it in a thread without an event loop. Never raises.
    """
    try:
        asyncio.run(send_warm_up_request(kind))
    except Exception:  # noqa: BLE001  (the first real request reports what is wrong)
        return


async def send_warm_up_request(kind: Kind) -> None:
    """Send a request to an in-memory transport and read its answer."""
    ssl_context()
    items = _WARM_UP_ANSWERS[kind].replace("\\\n", "").strip().split("\n")
    names = [json.loads(item).get("type") for item in items]
    heads = [f"event: {name}\n" if name else "" for name in names]
    text = "".join(f"{head}data: {item}\n\n" for head, item in zip(heads, items, strict=True))
    answer = httpx2.Response(200, text=text, headers={"content-type": "text/event-stream"})
    queue = ModelEventQueue(SYSTEM_CLOCK, 60, lambda: ModelError("other", "silent"))
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(lambda request: answer), timeout=60) as http:
        endpoint = Endpoint("warm-up", kind, "http://127.0.0.1", None, False)
        tools = [ToolSpec("t", "t", _WARM_UP_SCHEMA)]
        request = ProviderRequest(endpoint, "m", ModelFacts(), connect(endpoint, "m", http))
        await request.stream(ModelRequest("s", [user_message("u")], tools), False, queue)
