"""Sends spans and metrics to where `OTEL_*` says, with the OpenTelemetry SDK of the extra `otel`.

Imported on first use: only if the environment switches telemetry on.
"""

import os
import sys
from typing import TYPE_CHECKING, Any, Final

from accord.cli.command_parser import print_stderr
from accord.errors import UsageError

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter
    from opentelemetry.sdk.trace.export import SpanExporter

_SECONDS: Final = 2
"""How long an export may take by default: an unreachable collector must not delay the end of a command."""


_EXPORTER_VARIABLES: Final = ("OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER")


def set_up(command: str) -> None:
    """Configure the SDK. Without it, or with unusable settings, says so in one line and sends nothing."""
    try:
        from opentelemetry import metrics, trace
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        print_stderr("OTEL_* is set, but nothing is sent; run: pip install 'accord[otel]'", command=command)
        return
    try:
        if command == "chat" and "console" in map(os.environ.get, _EXPORTER_VARIABLES):
            raise UsageError("the exporter console would write over the chat; use otlp")
        spans, values = _span_exporter(), _metric_exporter()
    except UsageError as error:
        print_stderr(f"telemetry is off: {error}", command=command)
        return
    name = os.environ.get("OTEL_SERVICE_NAME") or f"accord-{command}"
    resource = Resource.create({"service.name": name})
    if spans is not None:
        tracers = TracerProvider(resource=resource)
        tracers.add_span_processor(BatchSpanProcessor(spans))
        trace.set_tracer_provider(tracers)
    if values is not None:
        reader = PeriodicExportingMetricReader(values)
        metrics.set_meter_provider(MeterProvider([reader], resource=resource))


def _exporter_name(variable: str, endpoints: tuple[str, ...]) -> str:
    """The exporter of a signal: the one that is named, else `otlp` if there is an address."""
    name = os.environ.get(variable, "").strip().lower()
    if name:
        return name
    return "otlp" if any(os.environ.get(endpoint, "").strip() for endpoint in endpoints) else "none"


_ADDRESS: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"


def _span_exporter() -> "SpanExporter | None":
    match _exporter_name("OTEL_TRACES_EXPORTER", (_ADDRESS, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")):
        case "none":
            return None
        case "console":
            from opentelemetry.sdk.trace.export import ConsoleSpanExporter

            return ConsoleSpanExporter(out=sys.stderr)  # stdout belongs to the protocol
        case "otlp":
            _check_protocol("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            return OTLPSpanExporter(**_timeout("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT"))
        case name:
            raise UsageError(f"OTEL_TRACES_EXPORTER is {name!r}; use one of: otlp, console, none")


def _metric_exporter() -> "MetricExporter | None":
    match _exporter_name("OTEL_METRICS_EXPORTER", (_ADDRESS, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")):
        case "none":
            return None
        case "console":
            from opentelemetry.sdk.metrics.export import ConsoleMetricExporter

            return ConsoleMetricExporter(out=sys.stderr)
        case "otlp":
            _check_protocol("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL")
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

            return OTLPMetricExporter(**_timeout("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT"))
        case name:
            raise UsageError(f"OTEL_METRICS_EXPORTER is {name!r}; use one of: otlp, console, none")


def _check_protocol(variable: str) -> None:
    protocol = os.environ.get(variable) or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"
    if protocol.strip().lower() != "http/protobuf":
        raise UsageError(f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol!r}; only http/protobuf is supported")


def _timeout(variable: str) -> dict[str, Any]:
    """A short timeout, unless the user has set one."""
    is_set = os.environ.get(variable) or os.environ.get("OTEL_EXPORTER_OTLP_TIMEOUT")
    return {} if is_set else {"timeout": _SECONDS}
