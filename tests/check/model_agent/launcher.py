"""Model agents in this process: one per connection, with a store per home folder."""

from pathlib import Path
from typing import Any

from tests.check.model_agent.agent import ModelAgent
from tests.check.model_agent.state import Store

from accord.check.check_script import AgentCheckScript, ScriptedPrompt
from accord.check.program_launch import StartOptions
from accord.wire.memory_transport import MemoryTransport, memory_pair

SCRIPT = AgentCheckScript(
    name="the model agent",
    ours=True,
    strict=("--strict",),
    login="key",
    provider="other",
    forbidden_root="/forbidden",
    acts={
        "talk": "say",
        "lines": "lines",
        "echo": "echo {text}",
        "think": "think",
        "plan": "plan",
        "read": "read {file}",
        "read_path": "read {path}",
        "write": "write {file} {text}",
        "permission": "write_with_permission {file}",
        "run": "run",
        "busy": "busy",
        "ask": ScriptedPrompt("ask", "{answer}"),
        "command": ScriptedPrompt("/hello", "hello from the command"),
        "change_mode": "change_mode",
        "tell": "tell {word}",
        "recall": "recall",
        "notice": "notice",
        "compact": "compact",
        "delegate": "delegate",
        "mcp": "mcp",
        "obey": "say",
        "ask_url": "page",
    },
)


class LaunchedModelAgent:
    """One model agent in memory."""

    def __init__(self, transport: MemoryTransport, agent: ModelAgent) -> None:
        self.transport = transport
        self.agent = agent
        self.stderr = ""

    async def close(self) -> str:
        await self.transport.aclose()
        await self.agent.aclose()
        return "it still ran" if self.agent.broken in ("framing.exits-at-end-of-input", "fault-dies") else ""


class ModelLauncher:
    """Starts model agents that break one rule, or none."""

    def __init__(self, broken: Any = None, *, lacks: tuple[str, ...] = ()) -> None:
        self.broken = broken
        self.lacks = lacks
        self.stores: dict[Path, Store] = {}

    async def __call__(self, options: StartOptions) -> LaunchedModelAgent:
        ours, theirs = memory_pair()
        agent = ModelAgent(
            theirs,
            self.broken,
            store=self.stores.setdefault(options.home, Store()),
            start_folder=str(options.folder),
            strict="--strict" in options.arguments,
            lacks=self.lacks,
        )
        if options.byte_by_byte and self.broken == "fault-pieces":
            agent.stop_answering()  # a frame in memory has no pieces
        agent.start()
        return LaunchedModelAgent(ours, agent)
