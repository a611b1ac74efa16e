"""OpenTelemetry: spans and metrics by the GenAI conventions. Off unless `OTEL_*` asks for it.

Uses opentelemetry-api only, which is imported when telemetry is switched on and does nothing without an SDK.
The names of the conventions, which are experimental, are all in this module. Messages, arguments and results
are recorded only if `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` says so.
"""

import json
import os
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, cast

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram, MeterProvider
    from opentelemetry.trace import Span, TracerProvider

Kind: TypeAlias = Literal["invoke_agent", "chat", "execute_tool"]

_ADDRESSES: Final = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
)
_EXPORTERS: Final = ("OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER")
_CONTENT_VARIABLE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CONTEXT_KEYS: Final = ("traceparent", "tracestate", "baggage")
_MAX_CONTEXT_CHARS: Final = 8192
_MAX_CONTENT_CHARS: Final = 32_000
_SCOPE: Final = "accord"
_PROVIDERS: Final = {
    "google": "gcp.gemini",
    "vertex": "gcp.vertex_ai",
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}

_SECONDS: Final = [0.01 * 2**n for n in range(14)]
_LONG_SECONDS: Final = [0.1 * 2**n for n in range(13)]
_TOKENS: Final = [4**n for n in range(14)]
_DURATIONS: Final[dict[Kind, tuple[str, list[float]]]] = {
    "invoke_agent": ("gen_ai.invoke_agent.duration", _LONG_SECONDS),
    "chat": ("gen_ai.client.operation.duration", _SECONDS),
    "execute_tool": ("gen_ai.execute_tool.duration", _SECONDS),
}
_FIRST_CHUNK: Final = "gen_ai.client.operation.time_to_first_chunk"


class TokenCounts(Protocol):
    """The tokens of a request or a turn."""

    @property
    def input(self) -> int: ...
    @property
    def output(self) -> int: ...
    @property
    def cached_read(self) -> int: ...
    @property
    def cached_write(self) -> int: ...
    @property
    def thought(self) -> int: ...


def is_enabled(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment switches telemetry on. Imports nothing."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if any(environment.get(name, "").strip() for name in _ADDRESSES):
        return True
    exporters = (environment.get(name, "").strip().lower() for name in _EXPORTERS)
    return any(exporter not in ("", "none") for exporter in exporters)


class Telemetry:
    """The tracer and the histograms."""

    def __init__(
        self, tracers: "TracerProvider | None" = None, meters: "MeterProvider | None" = None
    ) -> None:
        """Without providers, those of the process are used. Raises ImportError without opentelemetry-api."""
        from opentelemetry import metrics, trace

        from accord import __version__

        self._trace = trace
        self._tracer = trace.get_tracer(_SCOPE, __version__, tracers)
        self._meter = metrics.get_meter(_SCOPE, __version__, meters)
        self._histograms: dict[str, Histogram] = {}
        content = os.environ.get(_CONTENT_VARIABLE, "").strip().upper()
        self.captures_content: bool = content in ("SPAN_ONLY", "SPAN_AND_EVENT")

    def start(self, kind: Kind, subject: str, *, client: bool, parent: object) -> "Operation":
        """Start an operation. `parent` is the `_meta` of a request; without one the current span is used."""
        span_kind = self._trace.SpanKind.CLIENT if client else self._trace.SpanKind.INTERNAL
        name = f"{kind} {subject}".strip()
        span = self._tracer.start_span(name, context=extracted(parent), kind=span_kind)
        return Operation(self, kind, span)

    def current(self, span: "Span") -> Any:
        """A context manager that makes the span the current one."""
        return self._trace.use_span(span, end_on_exit=False, record_exception=False)

    def record(self, name: str, unit: str, bounds: list[float], value: float, attributes: Any) -> None:
        """Record a value of a histogram."""
        histogram = self._histograms.get(name)
        if histogram is None:
            histogram = self._meter.create_histogram(name, unit, explicit_bucket_boundaries_advisory=bounds)
            self._histograms[name] = histogram
        histogram.record(value, attributes)

    def failed_status(self) -> Any:
        return self._trace.StatusCode.ERROR


class Operation:
    """A span of the conventions, with its metrics. End it once."""

    def __init__(self, telemetry: Telemetry, kind: Kind, span: "Span") -> None:
        self.span = span
        self._telemetry = telemetry
        self._kind: Kind = kind
        self._start = time.perf_counter()
        self._labels: dict[str, Any] = {"gen_ai.operation.name": kind}
        self._ended = False
        self._seconds_to_first_chunk: float | None = None
        span.set_attribute("gen_ai.operation.name", kind)

    def set(self, **attributes: object) -> None:
        """Set attributes: `agent_name` is `gen_ai.agent.name`. Those that are None or empty are left out."""
        for name, value in attributes.items():
            if value is None or value == "":
                continue
            key = f"gen_ai.{_DOTTED.get(name, name)}"
            if name == "provider_name":
                value = _PROVIDERS.get(str(value), value)
            if name in ("provider_name", "request_model", "tool_name", "agent_name"):
                self._labels[key] = value
            self.span.set_attribute(key, cast(Any, value))

    @property
    def captures_content(self) -> bool:
        """Whether the user switched the recording of content on."""
        return self._telemetry.captures_content

    def set_content(self, name: str, value: Callable[[], Any]) -> None:
        """Set an attribute with content, if the user switched that on."""
        if self.captures_content:
            self.span.set_attribute(f"gen_ai.{_DOTTED.get(name, name)}", _bounded(value()))

    def first_chunk(self) -> None:
        """Record that a model began to answer. Only the first call counts."""
        if self._seconds_to_first_chunk is None:
            seconds = self._seconds_to_first_chunk = time.perf_counter() - self._start
            self.set(response_time_to_first_chunk=seconds)
            self._telemetry.record(_FIRST_CHUNK, "s", _SECONDS, seconds, self._labels)

    def add_tokens(self, tokens: TokenCounts) -> None:
        """Set the usage, and record it for a model request."""
        self.set(
            usage_input_tokens=tokens.input,
            usage_output_tokens=tokens.output,
            usage_cache_read_input_tokens=tokens.cached_read or None,
            usage_cache_creation_input_tokens=tokens.cached_write or None,
            usage_reasoning_output_tokens=tokens.thought or None,
        )
        if self._kind == "chat":
            for kind, number in (("input", tokens.input), ("output", tokens.output)):
                labels = {**self._labels, "gen_ai.token.type": kind}
                bounds = [float(bound) for bound in _TOKENS]
                self._telemetry.record("gen_ai.client.token.usage", "{token}", bounds, number, labels)

    def end(self, error: BaseException | str | None = None) -> None:
        """End the span, and record its duration."""
        if self._ended:
            return
        self._ended = True
        if error is not None:
            kind = error if isinstance(error, str) else type(error).__name__
            self._labels["error.type"] = kind
            self.span.set_attribute("error.type", kind)
            self.span.set_status(self._telemetry.failed_status())
        name, bounds = _DURATIONS[self._kind]
        self._telemetry.record(name, "s", bounds, time.perf_counter() - self._start, self._labels)
        self.span.end()


def _bounded(content: Any) -> str:
    """Content as text, or as JSON that is still valid: texts are cut, then the first messages left out."""
    if isinstance(content, str):
        return content[:_MAX_CONTENT_CHARS]
    text = ""
    for chars in (_MAX_CONTENT_CHARS, 4000, 500):
        text = json.dumps(_with_short_texts(content, chars), default=str)
        if len(text) <= _MAX_CONTENT_CHARS:
            return text
    if not isinstance(content, list):
        return text[:_MAX_CONTENT_CHARS]
    items = cast(list[Any], content)
    return _bounded(items[(len(items) + 1) // 2 :])


def _with_short_texts(value: Any, chars: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= chars else f"{value[:chars]}..."
    if isinstance(value, dict):
        return {key: _with_short_texts(one, chars) for key, one in cast(dict[Any, Any], value).items()}
    if isinstance(value, list):
        return [_with_short_texts(one, chars) for one in cast(list[Any], value)]
    return value


_DOTTED: Final = {
    "agent_name": "agent.name",
    "agent_version": "agent.version",
    "conversation_id": "conversation.id",
    "provider_name": "provider.name",
    "request_model": "request.model",
    "request_stream": "request.stream",
    "response_finish_reasons": "response.finish_reasons",
    "response_id": "response.id",
    "response_model": "response.model",
    "response_time_to_first_chunk": "response.time_to_first_chunk",
    "tool_name": "tool.name",
    "tool_call_id": "tool.call.id",
    "tool_definitions": "tool.definitions",
    "tool_description": "tool.description",
    "tool_type": "tool.type",
    "tool_call_arguments": "tool.call.arguments",
    "tool_call_result": "tool.call.result",
    "input_messages": "input.messages",
    "output_messages": "output.messages",
    "usage_input_tokens": "usage.input_tokens",
    "usage_output_tokens": "usage.output_tokens",
    "usage_cache_read_input_tokens": "usage.cache_read.input_tokens",
    "usage_cache_creation_input_tokens": "usage.cache_creation.input_tokens",
    "usage_reasoning_output_tokens": "usage.reasoning.output_tokens",
}

_UNKNOWN: Final = object()
_active: Any = _UNKNOWN


def telemetry() -> Telemetry | None:
    """The telemetry of this process; None if it is off or opentelemetry-api is not installed."""
    global _active
    if _active is _UNKNOWN:
        _active = None
        if is_enabled():
            try:
                _active = Telemetry()
            except ImportError:
                pass  # the command line has said so
    return _active


def use(active: Telemetry | None) -> None:
    """Use this telemetry from now on, whatever the environment says."""
    global _active
    _active = active


def start(kind: Kind, subject: str, *, client: bool = False, parent: object = None) -> Operation | None:
    """Start an operation that the caller ends. None if telemetry is off."""
    active = telemetry()
    return None if active is None else active.start(kind, subject, client=client, parent=parent)


@contextmanager
def operation(
    kind: Kind, subject: str, *, client: bool = False, parent: object = None
) -> Generator[Operation | None]:
    """Run the block in a span, which is the current one meanwhile. Gives None if telemetry is off."""
    active = telemetry()
    if active is None:
        yield None
        return
    running = active.start(kind, subject, client=client, parent=parent)
    error: BaseException | None = None
    try:
        with active.current(running.span):
            yield running
    except BaseException as raised:
        error = raised
        raise
    finally:
        running.end(error)


@contextmanager
def continued(meta: object) -> Generator[None]:
    """Run the block in the trace of a request, given its `_meta`, without a span of its own."""
    caller = None if telemetry() is None else extracted(meta)
    if caller is None:
        yield
        return
    from opentelemetry import context

    token = context.attach(caller)
    try:
        yield
    finally:
        context.detach(token)


def extracted(meta: object) -> Any:
    """The context of the caller in the `_meta` of its request; None if it has none that is valid."""
    if not isinstance(meta, Mapping):
        return None
    members = cast("Mapping[Any, Any]", meta)
    carrier = {name: members.get(name) for name in _CONTEXT_KEYS}
    texts = {
        name: value
        for name, value in carrier.items()
        if isinstance(value, str) and len(value) <= _MAX_CONTEXT_CHARS
    }
    if "traceparent" not in texts:
        return None
    from opentelemetry.propagate import extract

    return extract(texts)


def injected() -> dict[str, Any]:
    """The current context for the `_meta` of a request; empty if telemetry is off."""
    if telemetry() is None:
        return {}
    from opentelemetry.propagate import inject

    carrier: dict[str, Any] = {}
    inject(carrier)
    return {name: value for name, value in carrier.items() if name in _CONTEXT_KEYS}


def environment() -> dict[str, str]:
    """The current context for a child process: `TRACEPARENT` and its like; empty if telemetry is off."""
    return {name.upper(): str(value) for name, value in injected().items()}
