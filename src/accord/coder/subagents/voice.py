"""Whom a sub-agent shows itself to: the list in its parent's tool call, and the child session of clients that show such."""

from collections.abc import Iterable
from typing import Any

from msgspec import UNSET

from accord.agent.subagent import Subagent
from accord.agent.toolcall import Location
from accord.agent.turn import Turn
from accord.coder.subagents.calls import SubagentCall
from accord.coder.subagents.steps import Steps
from accord.schema.content import TextContent
from accord.schema.tools import ToolCall, ToolCallLocation, ToolKind
from accord.schema.updates import AgentMessageChunk, AgentThoughtChunk


class SubagentVoice:
    """A `Voice`. What the sub-agent says on the way is for the child session only; its last words are its result."""

    def __init__(self, turn: Turn, child: Subagent, steps: Steps) -> None:
        self._turn = turn
        self._child = child
        self._steps = steps
        self._speaking: type[AgentMessageChunk | AgentThoughtChunk] | None = None
        self._message_id = ""

    async def say(self, content: str) -> None:
        """A piece of an answer."""
        await self._speak(AgentMessageChunk, content)

    async def think(self, content: str) -> None:
        """A piece of its reasoning."""
        await self._speak(AgentThoughtChunk, content)

    async def notice(self, title: str, description: str | None = None, *, severity: str = "info") -> None:
        """Something of the moment, as a line of the list."""
        self._steps.note(title if description is None else f"{title}: {description}")

    def tool_call(
        self,
        title: str,
        *,
        kind: ToolKind | None = None,
        name: str | None = None,
        locations: Iterable[Location] = (),
        raw_input: Any = UNSET,
    ) -> SubagentCall:
        """A tool call begins."""
        self._speaking = None
        places = [place for place in locations if isinstance(place, ToolCallLocation)]
        first = ToolCall(
            self._turn.session.ids.tool_call(),
            title,
            UNSET if kind is None else kind,
            "pending",
            locations=places or UNSET,
            raw_input=raw_input,
            name=UNSET if name is None else name,
        )
        return SubagentCall(self._turn, self._child, self._steps, first)

    async def _speak(self, kind: type[AgentMessageChunk | AgentThoughtChunk], text: str) -> None:
        if not self._child.shown:
            return
        if self._speaking is not kind:
            self._speaking = kind
            self._message_id = self._turn.session.ids.message()
        await self._child.update(kind(TextContent(text), self._message_id))
