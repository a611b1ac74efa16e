"""One request through pydantic-ai: history and tools out, events in, errors and cost.

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
from pydantic_ai.models import Model as TheirModel
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
    too_deep,
)
from accord.coder.models.credentials import Secret, variable
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

# MERGED coder.models.live.reading: pydantic-ai's stream of an answer, as our events.


def delta_of(event: sdk_messages.ModelResponseStreamEvent) -> TextDelta | ThoughtDelta | None:
    """The piece of text or thought that an event brings, if it brings one."""
    if isinstance(event, sdk_messages.PartStartEvent):
        if isinstance(event.part, sdk_messages.TextPart) and event.part.content:
            return TextDelta(_clean(event.part.content))
        if isinstance(event.part, sdk_messages.ThinkingPart) and event.part.content:
            gap = "\n\n" if event.previous_part_kind == "thinking" else ""
            return ThoughtDelta(gap + _clean(event.part.content))
    elif isinstance(event, sdk_messages.PartDeltaEvent):
        if isinstance(event.delta, sdk_messages.TextPartDelta) and event.delta.content_delta:
            return TextDelta(_clean(event.delta.content_delta))
        if isinstance(event.delta, sdk_messages.ThinkingPartDelta) and event.delta.content_delta:
            return ThoughtDelta(_clean(event.delta.content_delta))
    return None


def ending_of(response: StreamedResponse, label: str) -> Iterator[ModelEvent]:
    """What follows the last delta: the tool uses, the usage and the whole answer. Raises ModelError if it was cut off."""
    whole = response.get()
    if whole.finish_reason is None or (whole.state == "incomplete" and whole.finish_reason != "length"):
        raise ModelError("network", f"{label}: the answer ended too early")
    if whole.finish_reason == "error":
        said = (whole.provider_details or {}).get("finish_reason", "error")
        raise ModelError("other", f"{label}: the provider broke off the answer ({said})")
    parts = list(_parts(whole))
    message = AssistantMessage(
        tuple(parts),
        whole.provider_name,
        {"system": whole.canonical_system} if whole.canonical_system else None,
    )
    uses = [part for part in parts if isinstance(part, ToolUse)]
    yield from uses
    if usage := usage_of(response):
        yield usage
    yield Stopped(_reason(whole.finish_reason, bool(uses)), message, _note(whole))


def usage_of(response: StreamedResponse) -> RequestUsage | None:
    """The tokens that the provider has reported so far."""
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


def _reason(finish: sdk_messages.FinishReason, calls: bool) -> StopCause:
    if finish == "length":
        return "max_tokens"
    if finish == "content_filter":
        return "refusal"
    return "tool_use" if calls else "end_turn"


def _note(whole: sdk_messages.ModelResponse) -> str:
    if whole.finish_reason != "content_filter":
        return ""
    details = whole.provider_details or {}
    return _clean(
        str(
            details.get("refusal")
            or details.get("block_reason_message")
            or details.get("finish_reason")
            or ""
        )
    )


def _parts(whole: sdk_messages.ModelResponse) -> Iterator[AnswerPart]:
    """The parts, ready to be kept. Of the ids of items only those of thoughts: OpenAI refuses a history in which the
    item of an id lacks its neighbours, and nothing but the seal of a thought needs its id."""
    taken: set[str] = set()
    for part in whole.parts:
        if isinstance(part, sdk_messages.TextPart):
            yield TextPart(_clean(part.content), _opaque(None, None, part.provider_details))
        elif isinstance(part, sdk_messages.ThinkingPart):
            yield ThoughtPart(_clean(part.content), _opaque(part.id, part.signature, part.provider_details))
        elif isinstance(part, sdk_messages.ToolCallPart):
            use_id, number = part.tool_call_id, 1
            while use_id in taken:
                use_id, number = f"{part.tool_call_id}-{number + 1}", number + 1
            taken.add(use_id)
            yield ToolUse(
                use_id, part.tool_name, _arguments(part.args), _opaque(None, None, part.provider_details)
            )


def _arguments(args: object) -> dict[str, Any] | str:
    """The arguments as an object, or as the text that came where that is none."""
    if not args:
        return {}
    if isinstance(args, str):
        try:
            value: Any = msgspec.json.decode(args)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return _clean(args)
        return cast(dict[str, Any], value) if _is_plain_object(value) else _clean(args)
    return cast(dict[str, Any], args) if _is_plain_object(args) else "(arguments that cannot be kept)"


def _opaque(part_id: str | None, signature: str | None, details: dict[str, Any] | None) -> Opaque | None:
    opaque: Opaque = {
        "id": part_id,
        "signature": signature,
        "details": details if _is_plain(details) else None,
    }
    return {name: value for name, value in opaque.items() if value} or None


def _is_plain_object(value: Any) -> bool:
    return isinstance(value, dict) and _is_plain(value)


def _is_plain(value: Any) -> bool:
    """Whether the log can keep it."""
    if too_deep(value):
        return False
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _clean(text: str) -> str:
    """The text without halves of characters, which no JSON may carry."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


# MERGED coder.models.live.sending: Our history, tools and settings, as pydantic-ai's requests.

NO_OUTPUT = "(no output)"


def history_of(messages: Sequence[Message], sees_images: bool) -> list[sdk_messages.ModelMessage]:
    """The history. What stands between two answers is one request: results first, then what was said."""
    history: list[sdk_messages.ModelMessage] = []
    parts: list[sdk_messages.ModelRequestPart] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            if parts:
                history.append(sdk_messages.ModelRequest(parts))
                parts = []
            history.append(_answer(message))
        elif isinstance(message, UserMessage):
            parts.append(sdk_messages.UserPromptPart(_content(message.parts, sees_images)))
        else:
            parts.append(_result(message, sees_images))
    if parts:
        history.append(sdk_messages.ModelRequest(parts))
    return history


def parameters_of(request: ModelRequest) -> ModelRequestParameters:
    """The instructions and the tools."""
    tools = [
        ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.schema)
        for tool in request.tools
    ]
    instructions = [sdk_messages.InstructionPart(content=request.system)] if request.system.strip() else None
    return ModelRequestParameters(function_tools=tools, instruction_parts=instructions)


def _content(parts: Sequence[Part], sees_images: bool) -> str | list[str | sdk_messages.BinaryContent]:
    """The parts; as one text where they are no more than that."""
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


def _result(message: ToolResult, sees_images: bool) -> sdk_messages.ToolReturnPart:
    return sdk_messages.ToolReturnPart(
        tool_name=message.name,
        content=_content(message.parts, sees_images) or NO_OUTPUT,
        tool_call_id=message.id,
        outcome="failed" if message.failed else "success",
    )


def _answer(message: AssistantMessage) -> sdk_messages.ModelResponse:
    return sdk_messages.ModelResponse(
        parts=[_answer_part(part, message.provider) for part in message.parts],
        provider_name=message.provider,
        canonical_system=(message.opaque or {}).get("system"),
    )


def _answer_part(part: AnswerPart, provider: str | None) -> sdk_messages.ModelResponsePart:
    opaque = part.opaque or {}
    sealed: dict[str, Any] = {}
    if opaque:
        sealed = {
            "id": opaque.get("id"),
            "provider_name": provider,
            "provider_details": opaque.get("details"),
        }
    if isinstance(part, TextPart):
        return sdk_messages.TextPart(part.text, **sealed)
    if isinstance(part, ThoughtPart):
        return sdk_messages.ThinkingPart(part.text, signature=opaque.get("signature"), **sealed)
    return sdk_messages.ToolCallPart(part.name, part.arguments, part.id, **sealed)


# MERGED coder.models.live.failing: What the provider libraries raise, as a ModelError of one line: who, which model, what happened, what to do.
#
# The libraries' own errors are not chained: they hold requests, with headers, with keys.

_LONGEST: Final = 300
_TOO_LONG: Final = re.compile(
    r"context (?:length|size|window)|prompt is too long|too many (?:input )?tokens|maximum number of tokens",
    re.IGNORECASE,
)


def error_of(error: Exception, endpoint: Endpoint, model: str) -> ModelError:
    """The ModelError for anything that came out of a request."""
    if isinstance(error, ModelError):
        return error
    if not isinstance(
        error,
        sdk_exceptions.ModelAPIError | sdk_exceptions.UserError | sdk_exceptions.UnexpectedModelBehavior,
    ):
        return ModelError(
            "other", f"{endpoint.name}:{model}: the provider library failed ({type(error).__name__})"
        )
    kind, what = _judge(error, endpoint)
    said = one_line(_said(error), endpoint.key)
    status = f" ({error.status_code})" if isinstance(error, sdk_exceptions.ModelHTTPError) else ""
    if kind == "bad_request" and _TOO_LONG.search(said):
        kind, what = "context_full", _FULL
    problem, _, advice = what.partition("; ")
    line = f"{endpoint.name}:{model}: {problem}{status}{f': {said}' if said else ''}{f'; {advice}' if advice else ''}"
    return ModelError(
        kind,
        line,
        retry_after=error.retry_after if isinstance(error, sdk_exceptions.ModelAPIError) else None,
        final=isinstance(error, sdk_exceptions.ModelQuotaExceededError)
        or (isinstance(error, sdk_exceptions.ModelHTTPError) and error.provider_retry_hint is False),
    )


def one_line(text: str, key: Secret | None) -> str:
    """The text on one line, not too long, without the key."""
    text = " ".join(text.split())
    if key is not None:
        text = key.hide_in(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


_FULL: Final = (
    "the conversation does not fit into the model's context; compact the session or begin a new one"
)


def _judge(error: Exception, endpoint: Endpoint) -> tuple[ErrorKind, str]:
    family = endpoint.family
    name = variable(family, "API_KEY")
    match error:
        case sdk_exceptions.ModelContextWindowExceededError():
            return "context_full", _FULL
        case sdk_exceptions.ModelAuthenticationError():
            return "auth", f"the key was refused; check {name} or run `accord agent --login {family}`"
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
            return "context_full", _FULL
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


def _said(error: Exception) -> str:
    """What the provider said about it, or the library."""
    body = getattr(error, "body", None)
    if isinstance(body, dict):
        said = cast(dict[str, Any], body)
        inner = said.get("error", said)
        message: Any = cast(dict[str, Any], inner).get("message") if isinstance(inner, dict) else inner
        if isinstance(message, str) and message.strip():
            return message
    if isinstance(error, sdk_exceptions.ModelHTTPError):
        return body if isinstance(body, str) and "<" not in body[:20] else ""
    return str(getattr(error, "message", ""))


# MERGED coder.models.prices: What a request cost, by the prices in the config.


def cost_of(usage: RequestUsage, facts: ModelFacts) -> float | None:
    """In US dollars; None unless both prices are set."""
    if facts.input is None or facts.output is None:
        return None
    read = facts.input if facts.cached_read is None else facts.cached_read
    write = facts.input if facts.cached_write is None else facts.cached_write
    fresh = max(0, usage.input - usage.cached_read - usage.cached_write)
    total = (
        fresh * facts.input
        + usage.cached_read * read
        + usage.cached_write * write
        + usage.output * facts.output
    )
    return total / 1_000_000


# MERGED coder.models.live.asking: One request to a provider, from our request to the events on the line.


class ProviderRequest:
    """A model at its provider, connected."""

    def __init__(self, endpoint: Endpoint, name: str, facts: ModelFacts, model: TheirModel[Any]) -> None:
        self._endpoint = endpoint
        self._name = name
        self._facts = facts
        self._model = model
        self._summaries = bool(model.profile.get("openai_supports_reasoning", False))

    @property
    def context_size(self) -> int | None:
        """What the libraries know of the provider's own models; of a like-named one elsewhere they know nothing."""
        return self._model.context_window if self._endpoint.is_own else None

    async def stream(self, request: ModelRequest, sees_images: bool, line: ModelEventQueue) -> None:
        """Ask, and put what is answered on the line. Raises ModelError."""
        failure = await self._try(request, sees_images, line)
        if (
            failure is not None
            and self._summaries
            and failure.kind == "bad_request"
            and "summar" in str(failure)
        ):
            self._summaries = (
                False  # OpenAI gives summaries of thoughts only to organisations it has verified
            )
            failure = await self._try(request, sees_images, line)
        if failure is not None:
            raise failure

    async def _try(
        self, request: ModelRequest, sees_images: bool, line: ModelEventQueue
    ) -> ModelError | None:
        response: StreamedResponse | None = None
        try:
            async with model_request_stream(
                self._model,
                history_of(request.messages, sees_images),
                model_settings=self._settings(request),
                model_request_parameters=parameters_of(request),
            ) as response:
                async for event in response:
                    if (delta := delta_of(event)) is not None:
                        await line.put(delta)
                for ending in ending_of(response, f"{self._endpoint.name}:{self._name}"):
                    await line.put(
                        self._priced(ending, response) if isinstance(ending, RequestUsage) else ending
                    )
            return None
        except ContentFilterError as error:
            note = one_line(error.message, self._endpoint.key)
            await line.put(Stopped("refusal", AssistantMessage(()), note))
            return None
        except Exception as error:  # noqa: BLE001  (the boundary to the libraries: whatever they raise is told in one line)
            if response is not None and (usage := usage_of(response)):
                await line.put(self._priced(usage, response))
            return error_of(error, self._endpoint, self._name)

    def _priced(self, usage: RequestUsage, response: StreamedResponse) -> RequestUsage:
        cost = cost_of(usage, self._facts)
        if cost is None and self._endpoint.is_own:
            try:
                cost = float(response.get().cost().total_price)
            except (LookupError, ValueError, AssertionError):
                return usage
        return usage if cost is None else RequestUsage(*_counts(usage), cost)

    def _settings(self, request: ModelRequest) -> ModelSettings:
        settings: dict[str, Any] = {}
        if self._facts.max_output is not None:
            settings["max_tokens"] = self._facts.max_output
        if request.effort is not None:
            settings["thinking"] = False if request.effort == "off" else request.effort
        if self._endpoint.kind == "anthropic" and self._endpoint.base_url is not None:
            # servers that speak like Anthropic know marks on blocks, not always the automatic cache
            marks = (
                "anthropic_cache_instructions",
                "anthropic_cache_tool_definitions",
                "anthropic_cache_messages",
            )
            settings.update(dict.fromkeys(marks, True))
        else:
            settings["cache"] = True
        if self._endpoint.kind == "openai-responses":
            # nothing is left at the provider; sealed thoughts come back with the answer and go out with the history
            settings.update(openai_store=False, openai_send_reasoning_ids=True)
            if self._summaries and request.effort != "off":
                settings["openai_reasoning_summary"] = "auto"
        return cast(ModelSettings, settings)


def _counts(usage: RequestUsage) -> tuple[int, int, int, int, int]:
    return usage.input, usage.output, usage.cached_read, usage.cached_write, usage.thought
