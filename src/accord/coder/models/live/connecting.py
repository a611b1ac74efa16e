"""Connections to providers: one HTTP client for all, and pydantic-ai's model object for each model.

The SDKs retry nothing themselves, and take keys and addresses from nowhere but here.
"""

import ssl
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import httpx2
from pydantic_ai.models import Model as TheirModel

from accord import __version__
from accord.coder.models.endpoints import Endpoint
from accord.coder.models.live.plain import spare

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from pydantic_ai.profiles.openai import OpenAIModelProfile

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
