"""Runs the coding agent in this process, with a raw client and a scripted model."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.agent.agent_client import Client
from tests.coder.models.harness import NAMES

from accord.agent import Agent
from accord.coder.coding_agent import coding_agent
from accord.coder.model_history import AssistantMessage, TextPart, ThoughtPart, ToolUse, text_of
from accord.coder.models import (
    ModelError,
    ModelEvent,
    ModelRequest,
    RequestUsage,
    Stopped,
    TextDelta,
    ThoughtDelta,
)
from accord.coder.models.model import Effort
from accord.coder.models.model_name import ModelName
from accord.coder.resources import CoderOptions, CoderResources
from accord.coder.user_config import Kind
from accord.store import CommitTransport
from accord.testing.model_server import ModelServer
from accord.testing.raw_peer import raw_pair

ScriptPart = str | ThoughtPart | ToolUse
NAME = ModelName("openai", "scripted")
SANDBOX_OFF = "[sandbox]\nenabled = false\n"


def use(tool: str, /, **arguments: Any) -> ToolUse:
    """Return a tool call whose id names the tool."""
    return ToolUse(f"{tool}-{len(arguments)}-{abs(hash(str(arguments))) % 10_000}", tool, arguments)


class ScriptedModel:
    """Answers each request with the next step of its script, then with `done`. Keeps the requests."""

    provider = "openai"
    name = "scripted"
    efforts: Sequence[Effort] = ("low", "high")
    max_tools: int | None = None

    def __init__(
        self,
        *script: Any,
        sees_images: bool = True,
        context_size: int | None = 100_000,
        usage: RequestUsage | None = None,
    ) -> None:
        self.script = list(script)
        self.usage = usage or RequestUsage(100, 10, cost=0.01)
        self.sees_images = sees_images
        self.context_size = context_size
        self.requests: list[ModelRequest] = []
        self.closed = 0
        """Number of streams closed before their end."""

    def __call__(self, name: ModelName) -> "ScriptedModel":
        """Resolve every model name to this model."""
        return self

    @property
    def prompts(self) -> list[str]:
        """Texts of the messages in the last request."""
        return [text_of(message) for message in self.requests[-1].messages]

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.requests.append(request)
        step: Any = self.script.pop(0) if self.script else ["done"]
        complete = False
        try:
            if callable(step):
                step = step(request)
                if asyncio.iscoroutine(step):
                    step = await step
            if isinstance(step, ModelError):
                raise step
            if isinstance(step, Stopped):
                for part in step.message.parts:
                    if isinstance(part, TextPart):
                        yield TextDelta(part.text)
                yield self.usage
                yield step
                complete = True
                return
            parts = [TextPart(part) if isinstance(part, str) else part for part in step]
            for part in parts:
                if isinstance(part, TextPart):
                    yield TextDelta(part.text)
                elif isinstance(part, ThoughtPart):
                    yield ThoughtDelta(part.text)
                else:
                    yield part
                await asyncio.sleep(0)
            message = AssistantMessage(tuple(parts), self.provider)
            yield self.usage
            calls = any(isinstance(part, ToolUse) for part in parts)
            yield Stopped("tool_use" if calls else "end_turn", message)
            complete = True
        finally:
            self.closed += not complete


class AgentHarness:
    """Starts coding agents that share a home and a project. Each agent has its own client."""

    def __init__(self, home: Path, project: Path) -> None:
        self.home = home
        self.project = project
        self.cwd = str(project)

    @asynccontextmanager
    async def client(
        self, *script: Any, model: Any = None, capabilities: dict[str, Any] | None = None, **start: Any
    ) -> AsyncGenerator[Client, None]:
        """Start an agent and yield its client. A script makes the agent use a scripted model."""
        if script and model is None:
            model = ScriptedModel(*script)
        if model is not None:
            start = {"model": str(NAME), "resolver": model, **start}
        environment = start.pop("environment", {"ACCORD_MODEL": "rehearsal"})
        coder = CoderResources(CoderOptions(environment=environment, **start))
        agent: Agent = coding_agent(coder)
        ours, raw = raw_pair(validate="agent")
        connection = agent.connect(CommitTransport(ours, coder))
        client = Client(raw, connection)
        try:
            client.initialized = await client.call(
                "initialize",
                {
                    "protocolVersion": 1,
                    "clientCapabilities": capabilities or {},
                },
            )
            yield client
        finally:
            await raw.aclose()
            await connection
            await coder.aclose()
        for message in raw.received:
            raw.validate(message)


def configure(harness: AgentHarness, text: str) -> None:
    """Write the config."""
    (harness.home / "config").mkdir(exist_ok=True)
    (harness.home / "config" / "config.toml").write_text(text)


@asynccontextmanager
async def provider_client(
    harness: AgentHarness, server: ModelServer, kind: Kind, config: str = "", **more: Any
) -> AsyncGenerator[Client]:
    """A client of an agent whose model is at the scripted server, in the format of one provider."""
    endpoint = f'[endpoints.scripted]\nkind = "{kind}"\nbase_url = "{server.base_url(kind)}"\n'
    configure(harness, f"{config}{SANDBOX_OFF}{endpoint}needs_key = false\n")
    async with harness.client(environment={"ACCORD_MODEL": f"scripted:{NAMES[kind]}"}, **more) as client:
        yield client


def choose(client: Client, permission_request: Any, kind: str) -> None:
    """Answer a question with the first option of this kind."""
    option = next(
        option["optionId"] for option in permission_request["params"]["options"] if option["kind"] == kind
    )
    client.raw.reply(permission_request, {"outcome": {"outcome": "selected", "optionId": option}})
