"""What the turns of one session work with: tools, permissions, the sandbox, commands, and what the model is told first.

Made with the first prompt. A turn and a sub-agent's task both get their `Run` of the loop here.
"""

import asyncio
import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Final, Self

from accord.agent.session import Command
from accord.agent.turn import Turn
from accord.coder.asking import asker
from accord.coder.commands import Ask, Commands
from accord.coder.context.fence import fenced
from accord.coder.context.instructions import InstructionsSeen, find_instructions
from accord.coder.context.instructions import told as told_of
from accord.coder.context.prompts import parts_of
from accord.coder.context.refusal import without_refused
from accord.coder.context.system import Surroundings, mode_note, system_prompt
from accord.coder.context.titles import title_of
from accord.coder.files.ledger import ReadLedger
from accord.coder.history import History
from accord.coder.jobs import Jobs
from accord.coder.logs import tell
from accord.coder.loop import Run
from accord.coder.messages import Part, UserMessage, note
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
from accord.policy.request import Mode
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
        self.seen = InstructionsSeen(session.cwd, session.additional_directories)
        self.project: ProjectFiles | None = None
        """The project's files that steer the agent, once they have been looked at."""
        self.spent = Spending()
        """What the running turn has used so far."""
        self._system: str | None = None
        self._told_mode: Mode = conversation.mode
        self._mode_in_system: Mode = conversation.mode
        self._heard: set[str] = set()
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
        await self.system()
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
            return await self.notes(toolbox) if own else []

        return Run(
            voice=voice,
            model=model,
            history=history,
            toolbox=toolbox,
            system=self._system or "",
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

    # -- what the model is told besides the prompts -------------------------------------------------------------

    async def system(self) -> str:
        """The system prompt: made once, so that providers can keep it; what changes later is told by notes."""
        conversation = self.conversation
        session = conversation.session
        if self._system is None:
            await self.confinement.ready()
            found = await find_instructions(session.cwd, session.additional_directories)
            self.seen = InstructionsSeen(session.cwd, session.additional_directories, found)
            self._told_mode = self._mode_in_system = conversation.mode
            self._system = system_prompt(
                Surroundings(
                    cwd=session.cwd,
                    roots=session.additional_directories,
                    platform=f"{platform.system()} {platform.release()} ({platform.machine()})",
                    shell=os.path.basename(shutil.which("bash") or "sh"),
                    day=datetime.now().astimezone().date(),
                    repository=_in_repository(session.cwd),
                    mode=self._told_mode,
                    boundary=self.confinement.summary(),
                    instructions=found,
                    client_prompt=session.system_prompt,
                )
            )
        return self._system

    def context_lost(self) -> None:
        """The model has forgotten what it was told on the way: it is told again when it matters."""
        self.seen.forget()
        self._heard.clear()
        self._told_mode = self._mode_in_system

    def forget_system(self) -> None:
        """Make the system prompt anew for the next turn: the files with instructions have changed."""
        self._system = None

    async def notes(self, toolbox: Toolbox) -> list[UserMessage]:
        """What is to be told before the next request of the session: another mode, instructions on the way, servers' words."""
        told: list[UserMessage] = []
        mode = self.conversation.mode
        if mode != self._told_mode:
            self._told_mode = mode
            told.append(note(mode_note(mode)))
        touched, toolbox.touched = dict.fromkeys(toolbox.touched), []
        for path in touched:
            found = await self.seen.nested(path)
            if found:
                told.append(note(told_of(found)))
        if (servers := self.conversation.mcp) is not None:
            for name, words in servers.instructions.items():
                if name not in self._heard:
                    self._heard.add(name)
                    told.append(note(fenced("server", words, name=name)))
        return told

    # -- what happens on the way --------------------------------------------------------------------------------

    def mode_changed(self) -> None:
        """Another mode is in force: open questions may be settled by it."""
        self.gate.reconsider()

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


def _in_repository(folder: str) -> bool:
    while True:
        if os.path.exists(os.path.join(folder, ".git")):
            return True
        above = os.path.dirname(folder)
        if above == folder:
            return False
        folder = above
