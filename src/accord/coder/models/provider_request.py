"""Requests to one model of a provider: sends them in its wire format, and adds costs and context sizes.

Imported on first use: it loads httpx2.
"""

import re
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any, Final, cast

import httpx2
import msgspec

from accord.coder.model_history import AssistantMessage
from accord.coder.models.endpoints import Endpoint
from accord.coder.models.model import ModelError, ModelRequest, RequestUsage, Stopped
from accord.coder.models.model_http import ModelHttpRequest, get_body, post_events
from accord.coder.models.model_prices import cost_of, known_model
from accord.coder.models.model_registry import AvailableModel
from accord.coder.models.provider_errors import ProviderFailure, is_content_filter, one_line, to_model_error
from accord.coder.models.remote_model import ModelEventQueue
from accord.coder.models.wire_format import WireFormat
from accord.coder.user_config import ModelFacts


class ProviderRequest:
    """Sends requests to one model."""

    def __init__(self, endpoint: Endpoint, name: str, facts: ModelFacts, http: httpx2.AsyncClient) -> None:
        self._endpoint = endpoint
        self._name = name
        self._facts = facts
        self._http = http
        self._format = wire_format(endpoint, name, facts)
        self._known = known_model(endpoint.family, name) if endpoint.is_official else None

    @property
    def context_size(self) -> int | None:
        """The known size of one of the provider's own models."""
        return self._known.context if self._known else None

    def http_request(self, asked: ModelRequest, sees_images: bool) -> ModelHttpRequest:
        """Return the complete HTTP request."""
        body = msgspec.json.encode(self._format.body(asked, sees_images))
        url = address(self._endpoint, self._format) + self._format.path()
        return ModelHttpRequest(url, self._format.headers(), body)

    async def stream(self, request: ModelRequest, sees_images: bool, queue: ModelEventQueue) -> None:
        """Send the request and put the events of the answer into the queue. Raises ModelError."""
        failure = await self._send(request, sees_images, queue)
        if failure is not None and failure.kind == "bad_request" and "summar" in str(failure):
            from accord.coder.models.openai_responses import OpenAIResponsesFormat

            if isinstance(self._format, OpenAIResponsesFormat) and self._format.summaries:
                self._format.summaries = False
                failure = await self._send(request, sees_images, queue)
        if failure is not None:
            raise failure

    async def _send(
        self, request: ModelRequest, sees_images: bool, queue: ModelEventQueue
    ) -> ModelError | None:
        """Send the request once. Returns the error: raised here, it would hold the one that it came from."""
        reader = self._format.reader()
        http_request = self.http_request(request, sees_images)
        try:
            stream = post_events(self._http, http_request, queue.reset_silence, lambda: reader.done)
            async with aclosing(stream):
                async for data in stream:
                    for event in reader.read(data):
                        await queue.put(event)
            for event in reader.end(f"{self._endpoint.name}:{self._name}"):
                await queue.put(self._with_cost(event) if isinstance(event, RequestUsage) else event)
            return None
        except ModelError as error:
            failure = error
        except ProviderFailure as error:
            if is_content_filter(error):
                refusal_text = one_line(error.text, self._endpoint.key)
                await queue.put(Stopped("refusal", AssistantMessage(()), refusal_text))
                return None
            failure = to_model_error(error, self._endpoint, self._name)
        if reader.usage is not None:
            await queue.put(self._with_cost(reader.usage))
        return failure

    def _with_cost(self, usage: RequestUsage) -> RequestUsage:
        cost = cost_of(usage, self._facts)
        if cost is None and self._known is not None:
            cost = cost_of(usage, self._known.prices(usage.input))
        return usage if cost is None else msgspec.structs.replace(usage, cost=cost)


def wire_format(endpoint: Endpoint, model: str = "", facts: ModelFacts | None = None) -> WireFormat:
    """Return the wire format of an endpoint."""
    if endpoint.kind == "anthropic":
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
        status, body = await get_body(http, request)
        if status == 200:
            models = list(dict.fromkeys(_read_list(endpoint, msgspec.json.decode(body))))
            return sorted(models, key=lambda model: model.name) if endpoint.is_official else models
        failure = f"status {status}"
    except ProviderFailure as error:
        failure = str(error) or "the request is invalid"
    except (msgspec.MsgspecError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
        failure = "the list is unreadable"
    raise ModelError("network", one_line(f"{endpoint.name}: no list of models: {failure}", endpoint.key))


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
