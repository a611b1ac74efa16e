"""What the turns of one session work with: tools, permissions, the sandbox, commands, and how it all becomes a run of the loop.

Made with the first prompt. A turn and a sub-agent's task both get their `Run` of the loop here.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Self

from accord.agent.session import Command
from accord.agent.turn import Turn
from accord.coder.asking import asker
from accord.coder.briefing import Briefing
from accord.coder.commands import Ask, Commands
from accord.coder.context.prompts import parts_of
from accord.coder.context.refusal import without_refused
from accord.coder.context.titles import title_of
from accord.coder.files.ledger import ReadLedger
from accord.coder.history import History
from accord.coder.jobs import Jobs
from accord.coder.logs import tell
from accord.coder.loop import Run
from accord.coder.messages import Part, UserMessage
from accord.coder.models.model import Model, ModelRequest, Usage
from accord.coder.permissions.confinement import Confinement
from accord.coder.permissions.gate import Gate
from accord.coder.permissions.projectfiles import ProjectFiles, project_files
from accord.coder.permissions.trusting import ask_trust, asking_in
from accord.coder.room import Room
from accord.coder.spending import Spending
from accord.coder.subagents import delegate_from
from accord.coder.toolbox import Toolbox
from accord.coder.tools import built_in_tools
from accord.coder.tools.context import SetPlan, ToolContext
from accord.coder.tools.tool import Tool
from accord.coder.voice import Voice
from accord.coder.web.access import WebAccess
from accord.coder.workspace import Files
from accord.policy.audit import Audit
from accord.policy.bounds import Bounds
from accord.policy.policy import Policy
from accord.schema.plans import PlanEntry
from accord.schema.prompts import StopReason

if TYPE_CHECKING:
    from accord.coder.conversation import Conversation


_STARTS_PROGRAMS: Final = ("bash", "job")


class Workbench:
    """The workplace of one session."""

    def __init__(self, conversation: "Conversation", tools: Mapping[str, Tool]) -> None:
        self.conversation = conversation
        self.own_tools = tools
        settings = conversation.coder.permissions
        session = conversation.session
        self.confinement = Confinement(session.roots, settings.sandbox)
        self.gate = Gate(
            policy=Policy(settings.rules),
            bounds=Bounds.of(session.cwd, session.additional_directories),
            audit=Audit(),
            session_id=session.id,
            mode=lambda: conversation.mode,
            confinement=self.confinement,
            seconds=settings.seconds,
            clock=conversation.clock,
        )
        self.jobs = Jobs()
        self.ledger = ReadLedger()
        self.commands = Commands(self)
        self.room = Room(self, conversation.history)
        self.briefing = Briefing(conversation, self.confinement)
        self.project: ProjectFiles | None = None
        """The project's files that steer the agent, once they have been looked at."""
        self.spent = Spending()
        """What the running turn has used so far."""
        self._offered: list[Command] | None = None

    @classmethod
    async def make(cls, conversation: "Conversation") -> Self:
        """Load what is needed, away from the event loop, and set it up."""
        return cls(conversation, await asyncio.to_thread(built_in_tools))

    # -- a turn -------------------------------------------------------------------------------------------------

    async def work(self, turn: Turn, spent: Spending) -> StopReason:
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
        if isinstance(reply, Ask):
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

    async def _ask(self, turn: Turn, model: Model, parts: tuple[Part, ...], spent: Spending) -> StopReason:
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
        voice: Voice,
        model: Model,
        history: History,
        context: ToolContext,
        *,
        requests: int,
        spent: Spending,
        without: tuple[str, ...] = (),
    ) -> Run:
        """A run of the loop, for a turn or for a sub-agent, which is given fewer tools."""
        conversation = self.conversation
        own = history is conversation.history
        room = self.room if own else Room(self, history)

        async def used(usage: Usage, request: ModelRequest) -> None:
            spent.add(usage)
            conversation.spend(usage)
            tokens = room.used(request, usage)
            if own:
                conversation.used = tokens
                await self.report_usage(model)

        toolbox = self.toolbox(context, without)

        async def notes() -> list[UserMessage]:
            return await self.briefing.notes(toolbox) if own else []

        return Run(
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

    def toolbox(self, context: ToolContext, without: tuple[str, ...] = ()) -> Toolbox:
        """The tools, working in this context."""

        async def equipped(tool: Tool) -> ToolContext:
            return await self.confinement.equip(context) if tool.name in _STARTS_PROGRAMS else context

        return Toolbox(lambda: self.tools(without), equipped, self.gate)

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
            files=Files(client),
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

    # -- what happens on the way --------------------------------------------------------------------------------

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
        title = title_of(turn.blocks, commands=turn.session.known_commands)
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
