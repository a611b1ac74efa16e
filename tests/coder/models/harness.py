"""Models for the tests: a registry without environment, and remote models of a scripted provider server."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from accord.coder.model_history import AssistantMessage, Message, user_message
from accord.coder.models import (
    Model,
    ModelError,
    ModelEvent,
    ModelRegistry,
    ModelRequest,
    Retrying,
    Stopped,
    ToolSpec,
)
from accord.coder.models.credentials import Secret
from accord.coder.models.endpoints import Endpoint
from accord.coder.models.model import Effort
from accord.coder.models.remote_model import ModelConnections, RemoteModel
from accord.coder.user_config import Kind, ModelFacts, ModelsConfig, RequestConfig
from accord.testing import FakeClock
from accord.testing.model_server import ModelServer

KINDS: tuple[Kind, ...] = ("openai-chat", "openai-responses", "anthropic", "google")
NAMES: dict[Kind, str] = {
    "openai-chat": "gpt-5",
    "openai-responses": "gpt-5",
    "anthropic": "claude-sonnet-5-5",
    "google": "gemini-2.5-pro",
}
KEY = "sk-very-secret-0123456789"
READ = ToolSpec(
    "read_file",
    "Reads a file.",
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)

MISSING_FILE = Path("/nowhere/credentials.json")
T = TypeVar("T")


def models(
    environment: Mapping[str, str] | None = None, config: ModelsConfig | None = None, **more: Any
) -> ModelRegistry:
    """Return a model registry that does not depend on the machine's environment."""
    options: dict[str, Any] = {"keys": MISSING_FILE, **more}
    return ModelRegistry(config or ModelsConfig(), environment=environment or {}, **options)


@asynccontextmanager
async def remote_model(
    server: ModelServer,
    kind: Kind,
    *,
    name: str | None = None,
    clock: FakeClock | None = None,
    requests: RequestConfig | None = None,
    facts: ModelFacts | None = None,
    finish_reason: bool = True,
    base_url: str | None = None,
) -> AsyncGenerator[RemoteModel]:
    """Yield a model whose provider is the scripted server."""
    connections = ModelConnections()
    endpoint = Endpoint(kind, kind, base_url or server.base_url(kind), Secret(KEY), True, finish_reason)
    try:
        yield RemoteModel(
            endpoint,
            name or NAMES[kind],
            connections,
            facts,
            requests,
            clock or FakeClock(),
            lambda: 0.0,
        )
    finally:
        await connections.aclose()


def request(
    *messages: Message,
    tools: Sequence[ToolSpec] = (READ,),
    system: str = "Be brief.",
    effort: Effort | None = None,
) -> ModelRequest:
    return ModelRequest(system, list(messages) or [user_message("Hello")], tools, effort)


async def ask(model: Model, asked: ModelRequest | None = None) -> list[ModelEvent]:
    """Return all events of an answer."""
    return [event async for event in model.stream(asked or request())]


async def ask_with_retries(
    model: Model, clock: FakeClock, asked: ModelRequest | None = None
) -> tuple[list[ModelEvent], ModelError | None]:
    """Return all events and the final error, if any. Advances the clock at every retry."""
    events: list[ModelEvent] = []
    advances: list[asyncio.Task[None]] = []
    failure: ModelError | None = None
    try:
        async for event in model.stream(asked or request()):
            events.append(event)
            if isinstance(event, Retrying):
                advances.append(asyncio.create_task(clock.advance(event.seconds)))
    except ModelError as error:
        failure = error
    await asyncio.gather(*advances)
    return events, failure


def of(kind: type[T], events: Sequence[Any]) -> list[T]:
    """Return the events of one type."""
    return [event for event in events if isinstance(event, kind)]


def final_message(events: Sequence[ModelEvent]) -> AssistantMessage:
    """Return the message of the final `Stopped` event."""
    last = events[-1]
    assert isinstance(last, Stopped)
    return last.message
