"""One request through pydantic-ai: converts the history and tools, then the events, errors and costs of the
answer.

Imported on first use: it loads pydantic-ai.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import msgspec
from pydantic_ai import exceptions as sdk_exceptions
from pydantic_ai import messages as sdk_messages
from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import ContentFilterError
from pydantic_ai.models import Model as SdkModel
from pydantic_ai.models import ModelRequestParameters, StreamedResponse
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from accord.coder.model_history import (
    AnswerPart,
    AssistantMessage,
    ImagePart,
    Message,
    Opaque,
    Part,
    TextPart,
    ThoughtPart,
    ToolResult,
    ToolUse,
    UserMessage,
    is_nested_too_deeply,
)
from accord.coder.models.credentials import Secret, provider_variable
from accord.coder.models.endpoints import Endpoint
from accord.coder.models.model import (
    ErrorKind,
    ModelError,
    ModelEvent,
    ModelRequest,
    RequestUsage,
    StopCause,
    Stopped,
    TextDelta,
    ThoughtDelta,
)
from accord.coder.models.remote_model import ModelEventQueue
from accord.coder.user_config import ModelFacts


class ProviderRequest:
    """Sends requests to one model of a connected provider."""

    def __init__(self, endpoint: Endpoint, name: str, facts: ModelFacts, model: SdkModel[Any]) -> None:
        self._endpoint = endpoint
        self._name = name
        self._facts = facts
        self._model = model
        self._thought_summaries = bool(model.profile.get("openai_supports_reasoning", False))

    @property
    def context_size(self) -> int | None:
        """The size that the libraries know for the provider's official models."""
        return self._model.context_window if self._endpoint.is_official else None

    async def stream(self, request: ModelRequest, sees_images: bool, queue: ModelEventQueue) -> None:
        """Send the request and put the events of the answer into the queue. Raises ModelError."""
        failure = await self._send(request, sees_images, queue)
        if (
            failure is not None
            and self._thought_summaries
            and failure.kind == "bad_request"
            and "summar" in str(failure)
        ):
            self._thought_summaries = False  # OpenAI sends them only to verified organizations
            failure = await self._send(request, sees_images, queue)
        if failure is not None:
            raise failure

    async def _send(
        self, request: ModelRequest, sees_images: bool, queue: ModelEventQueue
    ) -> ModelError | None:
        response: StreamedResponse | None = None
        try:
            async with model_request_stream(
                self._model,
                sdk_history(request.messages, sees_images),
                model_settings=self._settings(request),
                model_request_parameters=sdk_parameters(request),
            ) as response:
                async for event in response:
                    if (delta := delta_of(event)) is not None:
                        await queue.put(delta)
                for last in final_events(response, f"{self._endpoint.name}:{self._name}"):
                    await queue.put(
                        self._with_cost(last, response) if isinstance(last, RequestUsage) else last
                    )
            return None
        except ContentFilterError as error:
            refusal_text = one_line(error.message, self._endpoint.key)
            await queue.put(Stopped("refusal", AssistantMessage(()), refusal_text))
            return None
        except Exception as error:  # noqa: BLE001  (the boundary to the libraries)
            if response is not None and (usage := usage_of(response)):
                await queue.put(self._with_cost(usage, response))
            return to_model_error(error, self._endpoint, self._name)

    def _with_cost(self, usage: RequestUsage, response: StreamedResponse) -> RequestUsage:
        cost = cost_of(usage, self._facts)
        if cost is None and self._endpoint.is_official:
            try:
                cost = float(response.get().cost().total_price)
            except (LookupError, ValueError, AssertionError):
                return usage
        return usage if cost is None else msgspec.structs.replace(usage, cost=cost)

    def _settings(self, request: ModelRequest) -> ModelSettings:
        settings: dict[str, Any] = {}
        if self._facts.max_output is not None:
            settings["max_tokens"] = self._facts.max_output
        if request.effort is not None:
            settings["thinking"] = False if request.effort == "off" else request.effort
        if self._endpoint.kind == "anthropic" and self._endpoint.base_url is not None:
            # Servers that are compatible with Anthropic support marks on blocks, but not always the automatic
            # cache.
            marks = (
                "anthropic_cache_instructions",
                "anthropic_cache_tool_definitions",
                "anthropic_cache_messages",
            )
            settings.update(dict.fromkeys(marks, True))
        else:
            settings["cache"] = True
        if self._endpoint.kind == "openai-responses":
            # The provider stores nothing. Encrypted thoughts arrive with the answer and are sent with the
            # history.
            settings.update(openai_store=False, openai_send_reasoning_ids=True)
            if self._thought_summaries and request.effort != "off":
                settings["openai_reasoning_summary"] = "auto"
        return cast(ModelSettings, settings)


def cost_of(usage: RequestUsage, facts: ModelFacts) -> float | None:
    """Return the cost in US dollars by the configured prices; None unless both prices are set."""
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


def sdk_history(messages: Sequence[Message], sees_images: bool) -> list[sdk_messages.ModelMessage]:
    """Convert the history. All messages between two answers become one request."""
    history: list[sdk_messages.ModelMessage] = []
    parts: list[sdk_messages.ModelRequestPart] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            if parts:
                history.append(sdk_messages.ModelRequest(parts))
                parts = []
            history.append(_sdk_response(message))
        elif isinstance(message, UserMessage):
            parts.append(sdk_messages.UserPromptPart(_sdk_content(message.parts, sees_images)))
        else:
            parts.append(_sdk_tool_return(message, sees_images))
    if parts:
        history.append(sdk_messages.ModelRequest(parts))
    return history


def sdk_parameters(request: ModelRequest) -> ModelRequestParameters:
    """Convert the system prompt and the tools."""
    tools = [
        ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.schema)
        for tool in request.tools
    ]
    instructions = [sdk_messages.InstructionPart(content=request.system)] if request.system.strip() else None
    return ModelRequestParameters(function_tools=tools, instruction_parts=instructions)


def _sdk_content(parts: Sequence[Part], sees_images: bool) -> str | list[str | sdk_messages.BinaryContent]:
    """Convert the parts. Text without images becomes one string."""
    if sees_images and any(isinstance(part, ImagePart) for part in parts):
        return [
            part.text
            if isinstance(part, TextPart)
            else sdk_messages.BinaryContent(data=part.data, media_type=part.mime_type)
            for part in parts
        ]
    return "\n\n".join(
        part.text if isinstance(part, TextPart) else f"[image: {part.mime_type}]" for part in parts
    )


def _sdk_tool_return(message: ToolResult, sees_images: bool) -> sdk_messages.ToolReturnPart:
    return sdk_messages.ToolReturnPart(
        tool_name=message.name,
        content=_sdk_content(message.parts, sees_images) or "(no output)",
        tool_call_id=message.id,
        outcome="failed" if message.failed else "success",
    )


def _sdk_response(message: AssistantMessage) -> sdk_messages.ModelResponse:
    return sdk_messages.ModelResponse(
        parts=[_sdk_part(part, message.provider) for part in message.parts],
        provider_name=message.provider,
        canonical_system=(message.opaque or {}).get("system"),
    )


def _sdk_part(part: AnswerPart, provider: str | None) -> sdk_messages.ModelResponsePart:
    opaque = part.opaque or {}
    provider_fields: dict[str, Any] = {}
    if opaque:
        provider_fields = {
            "id": opaque.get("id"),
            "provider_name": provider,
            "provider_details": opaque.get("details"),
        }
    if isinstance(part, TextPart):
        return sdk_messages.TextPart(part.text, **provider_fields)
    if isinstance(part, ThoughtPart):
        return sdk_messages.ThinkingPart(part.text, signature=opaque.get("signature"), **provider_fields)
    return sdk_messages.ToolCallPart(part.name, part.arguments, part.id, **provider_fields)


def delta_of(event: sdk_messages.ModelResponseStreamEvent) -> TextDelta | ThoughtDelta | None:
    """Return the piece of text or thought in an event; None if it has none."""
    if isinstance(event, sdk_messages.PartStartEvent):
        if isinstance(event.part, sdk_messages.TextPart) and event.part.content:
            return TextDelta(_replace_surrogates(event.part.content))
        if isinstance(event.part, sdk_messages.ThinkingPart) and event.part.content:
            gap = "\n\n" if event.previous_part_kind == "thinking" else ""
            return ThoughtDelta(gap + _replace_surrogates(event.part.content))
    elif isinstance(event, sdk_messages.PartDeltaEvent):
        if isinstance(event.delta, sdk_messages.TextPartDelta) and event.delta.content_delta:
            return TextDelta(_replace_surrogates(event.delta.content_delta))
        if isinstance(event.delta, sdk_messages.ThinkingPartDelta) and event.delta.content_delta:
            return ThoughtDelta(_replace_surrogates(event.delta.content_delta))
    return None


def final_events(response: StreamedResponse, label: str) -> Iterator[ModelEvent]:
    """Yield the tool calls, the usage and the complete answer. Raises ModelError if the answer broke off."""
    answer = response.get()
    if answer.finish_reason is None or (answer.state == "incomplete" and answer.finish_reason != "length"):
        raise ModelError("network", f"{label}: the answer ended too early")
    if answer.finish_reason == "error":
        cause = (answer.provider_details or {}).get("finish_reason", "error")
        raise ModelError("other", f"{label}: the provider broke off the answer ({cause})")
    parts = list(_answer_parts(answer))
    message = AssistantMessage(
        tuple(parts),
        answer.provider_name,
        {"system": answer.canonical_system} if answer.canonical_system else None,
    )
    uses = [part for part in parts if isinstance(part, ToolUse)]
    yield from uses
    if usage := usage_of(response):
        yield usage
    yield Stopped(_stop_cause(answer.finish_reason, bool(uses)), message, _refusal_text(answer))


def usage_of(response: StreamedResponse) -> RequestUsage | None:
    """Return the tokens that the provider has reported so far."""
    usage = response.usage
    if not (usage.input_tokens or usage.output_tokens):
        return None
    details = usage.details
    return RequestUsage(
        input=usage.input_tokens,
        output=usage.output_tokens,
        cached_read=usage.cache_read_tokens,
        cached_write=usage.cache_write_tokens,
        thought=details.get("reasoning_tokens") or details.get("thoughts_tokens") or 0,
    )


def _stop_cause(finish_reason: sdk_messages.FinishReason, has_calls: bool) -> StopCause:
    if finish_reason == "length":
        return "max_tokens"
    if finish_reason == "content_filter":
        return "refusal"
    return "tool_use" if has_calls else "end_turn"


def _refusal_text(answer: sdk_messages.ModelResponse) -> str:
    if answer.finish_reason != "content_filter":
        return ""
    details = answer.provider_details or {}
    return _replace_surrogates(
        str(
            details.get("refusal")
            or details.get("block_reason_message")
            or details.get("finish_reason")
            or ""
        )
    )


def _answer_parts(answer: sdk_messages.ModelResponse) -> Iterator[AnswerPart]:
    """Yield the parts for the history, with unique ids of tool calls.

    Keeps item ids only for thoughts. OpenAI refuses a history in which an item with an id lacks its
    neighbors, and only the signature of a thought needs the id.
    """
    used_ids: set[str] = set()
    for part in answer.parts:
        if isinstance(part, sdk_messages.TextPart):
            yield TextPart(_replace_surrogates(part.content), _opaque(None, None, part.provider_details))
        elif isinstance(part, sdk_messages.ThinkingPart):
            yield ThoughtPart(
                _replace_surrogates(part.content), _opaque(part.id, part.signature, part.provider_details)
            )
        elif isinstance(part, sdk_messages.ToolCallPart):
            use_id, number = part.tool_call_id, 1
            while use_id in used_ids:
                use_id, number = f"{part.tool_call_id}-{number + 1}", number + 1
            used_ids.add(use_id)
            yield ToolUse(
                use_id, part.tool_name, _tool_arguments(part.args), _opaque(None, None, part.provider_details)
            )


def _tool_arguments(args: object) -> dict[str, Any] | str:
    """Return the arguments as an object, or as the original text if that is not a JSON object."""
    if not args:
        return {}
    if isinstance(args, str):
        try:
            value: Any = msgspec.json.decode(args)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return _replace_surrogates(args)
        return cast(dict[str, Any], value) if _is_json_object(value) else _replace_surrogates(args)
    return cast(dict[str, Any], args) if _is_json_object(args) else "(arguments that cannot be kept)"


def _opaque(part_id: str | None, signature: str | None, details: dict[str, Any] | None) -> Opaque | None:
    opaque: Opaque = {
        "id": part_id,
        "signature": signature,
        "details": details if _is_json(details) else None,
    }
    return {name: value for name, value in opaque.items() if value} or None


def _is_json_object(value: Any) -> bool:
    return isinstance(value, dict) and _is_json(value)


def _is_json(value: Any) -> bool:
    """Return whether the session log can store the value."""
    if is_nested_too_deeply(value):
        return False
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _replace_surrogates(text: str) -> str:
    """Return the text with lone surrogates replaced. JSON cannot hold them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


_MAX_ERROR_TEXT: Final = 300
_CONTEXT_FULL: Final = (
    "the session does not fit into the model's context; compact the session or begin a new one"
)
_CONTEXT_FULL_TEXT: Final = re.compile(
    r"context (?:length|size|window)|prompt is too long|too many (?:input )?tokens|maximum number of tokens",
    re.IGNORECASE,
)


def to_model_error(error: Exception, endpoint: Endpoint, model: str) -> ModelError:
    """Convert any error of a request to a ModelError with one line: provider, model, what happened, what to
    do.

    Do not chain the original error: it holds the request, its headers and the key.
    """
    if isinstance(error, ModelError):
        return error
    if not isinstance(
        error,
        sdk_exceptions.ModelAPIError | sdk_exceptions.UserError | sdk_exceptions.UnexpectedModelBehavior,
    ):
        return ModelError(
            "other", f"{endpoint.name}:{model}: the provider library failed ({type(error).__name__})"
        )
    kind, problem_and_advice = _classify(error, endpoint)
    details = one_line(_provider_text(error), endpoint.key)
    status = f" ({error.status_code})" if isinstance(error, sdk_exceptions.ModelHTTPError) else ""
    if kind == "bad_request" and _CONTEXT_FULL_TEXT.search(details):
        kind, problem_and_advice = "context_full", _CONTEXT_FULL
    problem, _, advice = problem_and_advice.partition("; ")
    line = f"{endpoint.name}:{model}: {problem}{status}"
    if details:
        line += f": {details}"
    if advice:
        line += f"; {advice}"
    return ModelError(
        kind,
        line,
        retry_after=error.retry_after if isinstance(error, sdk_exceptions.ModelAPIError) else None,
        final=isinstance(error, sdk_exceptions.ModelQuotaExceededError)
        or (isinstance(error, sdk_exceptions.ModelHTTPError) and error.provider_retry_hint is False),
    )


def one_line(text: str, key: Secret | None) -> str:
    """Return the text on one line, shortened, with the key masked."""
    text = " ".join(text.split())
    if key is not None:
        text = key.redact(text)
    return text if len(text) <= _MAX_ERROR_TEXT else f"{text[: _MAX_ERROR_TEXT - 1]}…"


def _classify(error: Exception, endpoint: Endpoint) -> tuple[ErrorKind, str]:
    """Return the kind of error, and the problem with its advice behind a semicolon."""
    family = endpoint.family
    key = provider_variable(family, "API_KEY")
    match error:
        case sdk_exceptions.ModelContextWindowExceededError():
            return "context_full", _CONTEXT_FULL
        case sdk_exceptions.ModelAuthenticationError():
            return "auth", f"the key was refused; check {key} or run `accord agent --login {family}`"
        case sdk_exceptions.ModelNotFoundError():
            return "bad_request", "there is no such model; choose another one"
        case sdk_exceptions.ModelQuotaExceededError():
            return "rate", "the quota or credit of the account is used up; see the provider's billing page"
        case sdk_exceptions.ModelRateLimitError():
            return "rate", "too many requests; try again later"
        case sdk_exceptions.ModelUnavailableError() | sdk_exceptions.ModelServerError():
            return "overloaded", "the provider is overloaded or failing; try again later"
        case sdk_exceptions.ModelConnectionError():
            place = f" at {endpoint.base_url}" if endpoint.base_url else ""
            return "network", f"the connection{place} failed; check the network and the address"
        case sdk_exceptions.ModelHTTPError(status_code=413):
            return "context_full", _CONTEXT_FULL
        case sdk_exceptions.ModelHTTPError(status_code=408 | 409 | 425):
            return "network", "the provider asks to try again"
        case (
            sdk_exceptions.ModelHTTPError()
            | sdk_exceptions.ModelRequestRejectedError()
            | sdk_exceptions.UserError()
        ):
            return "bad_request", "the request was refused"
        case sdk_exceptions.ModelAPIError():
            return "network", "the answer broke off or was unreadable"
        case _:
            return "network", "the answer was empty or made no sense"


def _provider_text(error: Exception) -> str:
    """Return the provider's message, else that of the library."""
    body = getattr(error, "body", None)
    if isinstance(body, dict):
        members = cast(dict[str, Any], body)
        inner = members.get("error", members)
        message: Any = cast(dict[str, Any], inner).get("message") if isinstance(inner, dict) else inner
        if isinstance(message, str) and message.strip():
            return message
    if isinstance(error, sdk_exceptions.ModelHTTPError):
        return body if isinstance(body, str) and "<" not in body[:20] else ""
    return str(getattr(error, "message", ""))
