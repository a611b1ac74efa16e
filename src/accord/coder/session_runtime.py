"""Runs the turns of one session: builds tools, permissions, sandbox and commands, and starts the loop."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, Self, cast

from msgspec import UNSET

from accord.agent.agent_session import Command
from accord.agent.turn import Turn
from accord.coder.coder_session import CoderSession, UsageTotal
from accord.coder.command_registry import CommandRegistry
from accord.coder.context.context_budget import ContextBudget
from accord.coder.context.system_prompt import SystemPromptBuilder
from accord.coder.context.user_prompt import parts_of, title_of
from accord.coder.files.session_files import ReadFiles, SessionFiles
from accord.coder.loop import AgentLoop
from accord.coder.model_history import ModelHistory, Part, UserMessage, note, without_refused
from accord.coder.models.model import Model, ModelError, ModelRequest, RequestUsage
from accord.coder.permissions.permission_gate import PermissionGate
from accord.coder.permissions.project_trust import ProjectFiles, ask_trust, asking_in, project_files
from accord.coder.permissions.session_sandbox import SessionSandbox
from accord.coder.resources import tell
from accord.coder.shell_jobs import BackgroundJobs
from accord.coder.slash_commands import ModelPrompt
from accord.coder.subagent_loop import delegate_from
from accord.coder.tool_runner import ToolRunner
from accord.coder.tools import built_in_tools
from accord.coder.tools.tool import Tool
from accord.coder.tools.tool_context import SetPlan, ToolContext
from accord.coder.turn_output import TurnOutput
from accord.coder.user_questions import asker
from accord.coder.web_client import WebAccess
from accord.errors import (
    AuthRequired,
    InternalError,
    InvalidParams,
    InvalidRequest,
    RpcError,
    StoreError,
    UsageError,
)
from accord.policy.audit_log import DecisionLog
from accord.policy.policy import Policy
from accord.policy.request import SessionDirectories
from accord.schema.content import PromptResponse, StopReason, TextContent
from accord.schema.updates import PlanEntry
from accord.session.events import TurnCancelling, turn_ended, turn_failed

# MERGED coder.workbench: What the turns of one session work with: tools, permissions, the sandbox, commands, and how it all becomes a run of the loop.
#
# Made with the first prompt. A turn and a sub-agent's task both get their `AgentLoop` of the loop here.

_STARTS_PROGRAMS: Final = ("bash", "job")


class SessionRuntime:
    """The workplace of one session."""

    def __init__(self, conversation: "CoderSession", tools: Mapping[str, Tool]) -> None:
        self.conversation = conversation
        self.own_tools = tools
        settings = conversation.coder.permissions
        session = conversation.session
        self.confinement = SessionSandbox(session.roots, settings.sandbox)
        self.gate = PermissionGate(
            policy=Policy(settings.rules),
            bounds=SessionDirectories.of(session.cwd, session.additional_directories),
            audit=DecisionLog(),
            session_id=session.id,
            mode=lambda: conversation.mode,
            confinement=self.confinement,
            seconds=settings.seconds,
            clock=conversation.clock,
        )
        self.jobs = BackgroundJobs()
        self.ledger = ReadFiles()
        self.commands = CommandRegistry(self)
        self.room = ContextBudget(self, conversation.history)
        self.briefing = SystemPromptBuilder(conversation, self.confinement)
        self.project: ProjectFiles | None = None
        """The project's files that steer the agent, once they have been looked at."""
        self.spent = UsageTotal()
        """What the running turn has used so far."""
        self._offered: list[Command] | None = None

    @classmethod
    async def make(cls, conversation: "CoderSession") -> Self:
        """Load what is needed, away from the event loop, and set it up."""
        return cls(conversation, await asyncio.to_thread(built_in_tools))

    # -- a turn ----------------------------------------------------------------------------------------------

    async def work(self, turn: Turn, spent: UsageTotal) -> StopReason:
        """Answer a prompt; what it used is added to `spent`. Raises ModelError."""
        self.spent = spent
        self.gate.turn_started()
        self.confinement.turn_started()
        self.room.prompted()
        await self._servers()
        await self._trust(turn)
        await self.offer_commands()
        name, text = turn.command or ("", "")
        command = self.commands.find(name) if name else None
        if command is None:
            model = await self.model()
            return await self._ask(turn, model, parts_of(turn.blocks, sees_images=model.sees_images), spent)
        reply = await command.run(text, turn, self)
        if isinstance(reply, ModelPrompt):
            return await self._ask(turn, await self.model(), reply.parts, spent)
        await turn.say(reply.text)
        return "end_turn"

    async def offer_commands(self) -> None:
        """Tell the client which slash commands there are, if they are others than before."""
        await self.commands.load()
        offered = self.commands.offered()
        if offered != self._offered:
            self._offered = offered
            await self.conversation.session.commands(offered)

    async def _ask(self, turn: Turn, model: Model, parts: tuple[Part, ...], spent: UsageTotal) -> StopReason:
        conversation = self.conversation
        before = list(conversation.history.messages)
        conversation.history.add(UserMessage(parts))
        await self._name_session(turn)
        await self.briefing.system()
        self._open_private_folder()
        context = self.context(turn, model)
        context = replace(context, delegate=delegate_from(self, turn, model, context, spent))
        requests = conversation.coder.config.turn.requests
        run = self.run(turn, model, conversation.history, context, requests=requests, spent=spent)
        reason = await run.go()
        if reason == "refusal":
            kept = without_refused([*before, UserMessage(parts)], len(before))
            conversation.history.replace(kept, "refused")
        return reason

    def run(
        self,
        voice: TurnOutput,
        model: Model,
        history: ModelHistory,
        context: ToolContext,
        *,
        requests: int,
        spent: UsageTotal,
        without: tuple[str, ...] = (),
    ) -> AgentLoop:
        """A run of the loop, for a turn or for a sub-agent, which is given fewer tools."""
        conversation = self.conversation
        own = history is conversation.history
        room = self.room if own else ContextBudget(self, history)

        async def used(usage: RequestUsage, request: ModelRequest) -> None:
            spent.add(usage)
            conversation.spend(usage)
            tokens = room.used(request, usage)
            if own:
                conversation.used = tokens
                await self.report_usage(model)

        toolbox = self.toolbox(context, without)

        async def notes() -> list[UserMessage]:
            return await self.briefing.notes(toolbox) if own else []

        return AgentLoop(
            voice=voice,
            model=model,
            history=history,
            toolbox=toolbox,
            system=self.briefing.made,
            notes=notes,
            requests=requests,
            effort=conversation.effort,
            spent=used,
            make_room=room.making(model, spent, voice),
        )

    def toolbox(self, context: ToolContext, without: tuple[str, ...] = ()) -> ToolRunner:
        """The tools, working in this context."""

        async def equipped(tool: Tool) -> ToolContext:
            return await self.confinement.equip(context) if tool.name in _STARTS_PROGRAMS else context

        return ToolRunner(lambda: self.tools(without), equipped, self.gate)

    def tools(self, without: tuple[str, ...] = ()) -> dict[str, Tool]:
        """What can be used right now."""
        left_out = without if self.conversation.mode == "plan" else (*without, "leave_plan_mode")
        tools = {name: tool for name, tool in self.own_tools.items() if name not in left_out}
        servers = self.conversation.mcp
        if servers is not None:
            tools |= {name: tool for name, tool in servers.tools.items() if name not in tools}
        return tools

    def context(self, turn: Turn, model: Model) -> ToolContext:
        """What tools work with in this turn."""
        conversation = self.conversation
        config = conversation.coder.config
        client = turn.client
        return ToolContext(
            cwd=conversation.session.cwd,
            files=SessionFiles(client),
            ledger=self.ledger,
            jobs=self.jobs,
            clock=conversation.clock,
            sees_images=model.sees_images,
            terminal=turn.terminal if client.can_run_terminals else None,
            may_show=self.gate.may_show,
            outside=self.confinement.outside,
            web=WebAccess(allowed=config.web.allowed),
            ask_user=asker(turn, seconds=config.turn.question_seconds, clock=conversation.clock),
            set_plan=self._plan_setter(turn),
            leave_plan_mode=self._leave_plan_mode,
        )

    async def model(self) -> Model:
        """The model that is chosen. Raises ModelError."""
        return await self.conversation.coder.models.resolve(self.conversation.model)

    async def report_usage(self, model: Model) -> None:
        """Tell the client how full the context is, and what the session has cost."""
        conversation = self.conversation
        if model.context_size:
            window = conversation.spending.of_window(conversation.used, model.context_size)
            await conversation.session.update(window)

    def facts(self) -> list[str]:
        """What the model must not forget when its context is compacted: what still runs in the background."""
        jobs = [job for id in self.jobs.ids() if (job := self.jobs.get(id)) and job.status is None]
        return [f"{job.id} still runs in the background: {job.line}" for job in jobs]

    # -- what happens on the way -----------------------------------------------------------------------------

    def mode_changed(self) -> None:
        """Another mode is in force: open questions may be settled by it."""
        self.gate.reconsider()

    def _open_private_folder(self) -> None:
        """What commands leave in the temporary folder of their sandbox is the session's own: it may be read like a root."""
        folder = self.confinement.private_temp
        roots = self.gate.bounds.roots
        if folder is not None and folder not in roots:
            self.gate.bounds = replace(self.gate.bounds, roots=(*roots, folder))

    def _plan_setter(self, turn: Turn) -> SetPlan:
        async def set_plan(entries: Sequence[PlanEntry]) -> None:
            self.conversation.plan = list(entries)
            await turn.plan(entries)

        return set_plan

    async def _leave_plan_mode(self, plan: str) -> str:
        conversation = self.conversation
        mode = conversation.mode_before_plan
        await conversation.session.set_mode(mode)
        conversation.mode_chosen(mode)
        return mode

    async def _name_session(self, turn: Turn) -> None:
        conversation = self.conversation
        if conversation.titled:
            return
        title = title_of(turn.blocks, commands=turn.session.command_names)
        if title:
            conversation.titled = True
            await turn.title(title)

    async def _trust(self, turn: Turn) -> None:
        """With the first prompt: rules of the project count if the user trusts them, and only tighten."""
        if self.project is not None:
            return
        project = await asyncio.to_thread(project_files, self.conversation.session.cwd, purposes=["rules"])
        await ask_trust(project, asking_in(turn), clock=self.conversation.clock)
        self.project = project  # only now: a turn that is cancelled at the question leaves it to the next
        rules = project.rules()
        if rules is not None:
            self.gate.policy = Policy(self.gate.policy.user, rules)
            self.gate.reconsider()
        for line in project.lines():
            await turn.notice("Not used", line, severity="warning")

    async def announce(self) -> None:
        """Say what confines commands: to a client that shows notices, else where the agent's own words go, there once."""
        await self.confinement.ready()
        summary, told = self.confinement.summary(), self.conversation.coder.told
        if self.conversation.session.client.shows_notices:
            await self.conversation.session.notice("Sandbox", summary)
        elif summary not in told:
            told.add(summary)
            tell(f"sandbox: {summary}")

    async def _servers(self) -> None:
        servers = self.conversation.mcp
        if servers is not None:
            await servers.settled(self.conversation.coder.config.mcp.start_seconds)

    async def aclose(self) -> None:
        """End what still runs."""
        await self.jobs.aclose()
        await self.confinement.aclose()


# MERGED coder.turns: A turn of the user: a prompt comes in, the loop runs, the prompt is answered; and all of it is in the log.

_LOG = logging.getLogger("accord.coder")


async def take_turn(turn: Turn) -> PromptResponse:
    """Answer one prompt. One that says nothing is refused: providers would refuse it, and it is nothing to keep."""
    if not any(not isinstance(block, TextContent) or block.text.strip() for block in turn.blocks):
        raise InvalidParams("prompt: there is nothing in it")
    conversation: CoderSession = turn.session.data
    spent = UsageTotal()
    remembered = len(conversation.history.messages)
    try:
        conversation.turn_begins(turn)
        reason = await _work(turn, conversation, spent)
        conversation.turn_ends(turn, turn_ended(reason, spent.of_turn()))
    except asyncio.CancelledError:
        if len(conversation.history.messages) == remembered and turn.command is None:
            _remember_unasked(turn, conversation)
        conversation.turn_ends(turn, TurnCancelling(), turn_ended("cancelled", spent.of_turn()))
        reason = "cancelled"  # which is an answer, too: it says what was used until then
    except Exception as error:  # noqa: BLE001 - the top of a turn: whatever it was, the prompt is answered
        told = _told(error)
        with suppress(StoreError):  # a log that cannot be written is what went wrong, or was told before
            conversation.turn_ends(turn, turn_failed(told))
        raise told from None
    return PromptResponse(reason, usage=spent.of_turn() or UNSET)


async def _work(turn: Turn, conversation: CoderSession, spent: UsageTotal) -> StopReason:
    bench: SessionRuntime = await conversation.bench()
    return await bench.work(turn, spent)


def _remember_unasked(turn: Turn, conversation: CoderSession) -> None:
    """A prompt that was cancelled before the model saw it: the user sees it in the conversation, and may refer to it."""
    from accord.coder.context.user_prompt import parts_of
    from accord.coder.loop import CANCELLED

    conversation.history.add(UserMessage(parts_of(turn.blocks, sees_images=False)), note(CANCELLED))


def _told(error: Exception) -> RpcError:
    """What the client is told of a turn that failed."""
    if isinstance(error, ExceptionGroup):
        # Of calls that ran side by side: the first failure has ended the others.
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    if isinstance(error, RpcError):
        return error
    if isinstance(error, ModelError):
        if error.kind == "auth":
            return AuthRequired(str(error))
        return InternalError(str(error), {"reason": "model_error", "kind": error.kind})
    if isinstance(error, UsageError):
        return InvalidRequest(
            str(error)
        )  # a setting that cannot be used: what to do about it is in its words
    if isinstance(error, StoreError):
        return InternalError(str(error))
    _LOG.error("a turn failed", exc_info=error)
    return InternalError(
        "The turn failed by a defect of the agent; the session is intact", {"error": type(error).__name__}
    )
