"""One request to a provider, from our request to the events on the line."""

from typing import Any, cast

from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import ContentFilterError
from pydantic_ai.models import Model as TheirModel
from pydantic_ai.models import StreamedResponse
from pydantic_ai.settings import ModelSettings

from accord.coder.messages import AssistantMessage
from accord.coder.models.config import ModelFacts
from accord.coder.models.endpoints import Endpoint
from accord.coder.models.line import Line
from accord.coder.models.live.failing import error_of, one_line
from accord.coder.models.live.reading import delta_of, ending_of, usage_of
from accord.coder.models.live.sending import history_of, parameters_of
from accord.coder.models.model import ModelError, ModelRequest, Stopped, Usage
from accord.coder.models.prices import cost_of


class Ask:
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

    async def stream(self, request: ModelRequest, sees_images: bool, line: Line) -> None:
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

    async def _try(self, request: ModelRequest, sees_images: bool, line: Line) -> ModelError | None:
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
                    await line.put(self._priced(ending, response) if isinstance(ending, Usage) else ending)
            return None
        except ContentFilterError as error:
            note = one_line(error.message, self._endpoint.key)
            await line.put(Stopped("refusal", AssistantMessage(()), note))
            return None
        except Exception as error:  # noqa: BLE001  (the boundary to the libraries: whatever they raise is told in one line)
            if response is not None and (usage := usage_of(response)):
                await line.put(self._priced(usage, response))
            return error_of(error, self._endpoint, self._name)

    def _priced(self, usage: Usage, response: StreamedResponse) -> Usage:
        cost = cost_of(usage, self._facts)
        if cost is None and self._endpoint.is_own:
            try:
                cost = float(response.get().cost().total_price)
            except (LookupError, ValueError, AssertionError):
                return usage
        return usage if cost is None else Usage(*_counts(usage), cost)

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


def _counts(usage: Usage) -> tuple[int, int, int, int, int]:
    return usage.input, usage.output, usage.cached_read, usage.cached_write, usage.thought
