"""Decides what another agent may do: by the rules and the mode of the session, then by its user."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from accord.agent.tool_call_scope import ToolCallScope
from accord.client.permissions import PermissionRequest
from accord.clock import within
from accord.frontend.consent import AccessQuestion, Consent
from accord.frontend.policy_handler import request_details
from accord.policy.policy import Policy
from accord.policy.request import ActionRequest, Decision
from accord.safe_text import one_line
from accord.schema.client_requests import PermissionOption
from accord.schema.content import Terminal, ToolCallContent, ToolKind, code_block

if TYPE_CHECKING:
    from accord.agent.turn import Turn
    from accord.coder.permissions.permission_gate import PermissionGate
    from accord.coder.session.coder_session import CoderSession

FindCall = Callable[[str], ToolCallScope | None]
"""Returns our tool call that shows a tool call of the other agent, if there is one."""


class SessionPolicy(Policy):
    """The rules of the session under its current mode. Other agents are never allowed more."""

    def __init__(self, gate: "PermissionGate") -> None:
        super().__init__()
        self._gate = gate

    def decide(self, request: ActionRequest) -> Decision:
        """Decide by the rules and mode of this moment."""
        return self._gate.decide_for_agent(request)


class SessionConsent(Consent):
    """Answers the requests of one session of another agent, in the turns of ours."""

    def __init__(self, session: "CoderSession", gate: "PermissionGate", name: str) -> None:
        self.questions: TurnQuestions = TurnQuestions(session, name)
        super().__init__(SessionPolicy(gate), self.questions, lambda text: self.questions.note(text))


class TurnQuestions:
    """Asks the user of the running turn. The questions name the agent."""

    def __init__(self, session: "CoderSession", name: str) -> None:
        self.turn: Turn | None = None
        """The turn to ask in; None refuses."""
        self.find_call: FindCall = lambda call_id: None
        self.note: Callable[[str], None] = lambda text: None
        """Called with what was refused."""
        self._session = session
        self._name = one_line(name, 40)
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def start_question(self) -> AsyncGenerator["TurnQuestions"]:
        """Wait for the earlier question."""
        async with self._lock:
            yield self

    async def permission(
        self, request: PermissionRequest, action: ActionRequest, decision: Decision, /
    ) -> PermissionOption | None:
        """Ask whether a tool call of the agent may run, with the options that the agent offers."""
        call = self.find_call(request.call.tool_call_id)
        if call is not None and call.open:
            return await self._answer(call, request.options)
        details = list(request_details(request, action))
        content: list[ToolCallContent] = [code_block("\n".join(details))] if details else []
        content += [item for item in request.call.content if not isinstance(item, Terminal)]
        return await self._ask(request.call.label, request.call.kind, content, request.options)

    async def access(
        self, question: AccessQuestion, decision: Decision, options: Sequence[PermissionOption], /
    ) -> PermissionOption | None:
        """Ask whether the agent may use a file or a terminal."""
        content: list[ToolCallContent] = [code_block("\n".join((*question.details, *question.extras)))]
        if question.diff is not None:
            content.append(question.diff)
        kind: ToolKind = "edit" if question.diff is not None else "execute"
        return await self._ask(question.what, kind, content, options)

    async def _ask(
        self,
        what: str,
        kind: ToolKind,
        content: Sequence[ToolCallContent],
        options: Sequence[PermissionOption],
    ) -> PermissionOption | None:
        if self.turn is None:
            return None
        async with self.turn.tool_call(f"{self._name}: {one_line(what, 200)}", kind=kind) as call:
            if content:
                await call.replace(content)
            return await self._answer(call, options)

    async def _answer(
        self, call: ToolCallScope, options: Sequence[PermissionOption]
    ) -> PermissionOption | None:
        """The chosen option; None if the user does not choose in time."""
        seconds = self._session.resources.permissions.question_seconds
        answer = asyncio.ensure_future(call.ask_permission(options))
        try:
            if seconds is None:
                await asyncio.wait((answer,))
            elif not await within(self._session.clock, seconds, answer):
                return None
            return answer.result().option
        finally:
            if not answer.done():
                answer.cancel()
                await asyncio.wait((answer,))
