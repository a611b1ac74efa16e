"""Runs the turns of one session: builds tools, permissions, sandbox and commands, and starts the loop."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Self

from accord import telemetry
from accord.agent.agent_session import Command
from accord.agent.turn import Turn
from accord.coder.context.context_budget import ContextBudget
from accord.coder.context.session_title import SessionTitles
from accord.coder.context.system_prompt import SystemPromptBuilder
from accord.coder.context.user_prompt import fitted_parts, parts_of
from accord.coder.definitions.agents import AgentDefinition
from accord.coder.definitions.session_definitions import SessionDefinitions
from accord.coder.files.session_files import ReadFiles, SessionFiles
from accord.coder.model_history import (
    ModelHistory,
    Part,
    UserMessage,
    note_message,
    without_refused_prompt,
)
from accord.coder.models.agent_as_model import ACP
from accord.coder.models.model import Model, ModelRequest, RequestUsage
from accord.coder.models.model_name import ModelName
from accord.coder.permissions.permission_gate import PermissionGate
from accord.coder.permissions.project_files import (
    HOOKS,
    INSTRUCTIONS,
    MCP_SERVERS,
    ProjectFiles,
    ask_trust,
    project_files,
    trust_asker,
)
from accord.coder.permissions.session_sandbox import SessionSandbox
from accord.coder.resources import write_stderr
from accord.coder.session.coder_session import CoderSession, UsageTotal
from accord.coder.session.command_registry import CommandRegistry
from accord.coder.session.session_options import check_window
from accord.coder.session.slash_commands import ModelPrompt
from accord.coder.tools import built_in_tools
from accord.coder.tools.client_terminals import ClientTerminals
from accord.coder.tools.shell_jobs import BackgroundJobs
from accord.coder.tools.tool import PreparedCall, Tool, ToolOutcome
from accord.coder.tools.tool_context import SetPlan, ToolContext
from accord.coder.turn.agent_loop import AgentLoop
from accord.coder.turn.subagent_loop import create_delegate
from accord.coder.turn.tool_runner import ToolRunner, TurnOutput
from accord.coder.turn.usage_budget import UsageBudget
from accord.coder.turn.user_questions import question_asker
from accord.frontend.web_client import WebAccess
from accord.paths import config_dir
from accord.policy.audit_log import DecisionLog
from accord.policy.permission_store import PermissionStore
from accord.policy.policy import Policy
from accord.policy.request import SessionDirectories
from accord.schema.content import ContentBlock, StopReason, TextContent
from accord.schema.updates import PlanEntry
from accord.session.events import MessageChanged

if TYPE_CHECKING:
    from accord.coder.hooks.session_hooks import SessionHooks
    from accord.coder.lsp.session_diagnostics import SessionDiagnostics
    from accord.coder.tools.search_services import SearchService

_COMMAND_TOOLS: Final = ("bash", "job")
_UNKNOWN_CHANGES: Final = ("execute", "external")
"""The categories of calls that may change files without telling which."""


class SessionRuntime:
    """Everything the turns of one session work with, created with the first prompt.

    It builds the `AgentLoop` of each turn and of each sub-agent.
    """

    def __init__(self, session: "CoderSession", tools: Mapping[str, Tool]) -> None:
        self.session = session
        self.own_tools = tools
        settings = session.resources.permissions
        agent_session = session.agent_session
        self.sandbox: SessionSandbox = SessionSandbox(agent_session.roots, settings.sandbox)
        self.gate: PermissionGate = PermissionGate(
            policy=Policy(settings.rules),
            directories=SessionDirectories.of(agent_session.cwd, agent_session.additional_directories),
            audit=DecisionLog(),
            session_id=agent_session.id,
            mode=lambda: session.mode,
            sandbox=self.sandbox,
            question_seconds=settings.question_seconds,
            kept_rules=PermissionStore(),
            clock=session.clock,
        )
        self.terminals: ClientTerminals = ClientTerminals(
            (*agent_session.roots, *settings.sandbox.writable), self._report_unused_terminals
        )
        self.jobs: BackgroundJobs = BackgroundJobs()
        self.read_files: ReadFiles = ReadFiles()
        self.commands: CommandRegistry = CommandRegistry(self)
        self.context_budget: ContextBudget = ContextBudget(self, session.history)
        self.definitions: SessionDefinitions = SessionDefinitions(session, self.gate)
        self.prompt_builder: SystemPromptBuilder = SystemPromptBuilder(
            session, self.sandbox, self.definitions.skills
        )
        self.project: ProjectFiles | None = None
        """The project files that change the agent's behavior, once they were looked for."""
        self.hooks: SessionHooks | None = None
        """The hooks of the session, if there are any; read with the first prompt."""
        self.search: SearchService | None = None
        """What `web_search` asks; None hides the tool."""
        self._reported_search = ""
        self.diagnostics: SessionDiagnostics | None = self._language_servers()
        """The language servers, if the config has them."""
        self._formats = False
        self._is_resumed = bool(session.history.messages)
        self.turn_usage: UsageTotal = UsageTotal()
        """The usage of the running turn so far."""
        self._offered: list[Command] | None = None
        self._checked_model: ModelName | None = None
        self._titles = SessionTitles(self)

    @classmethod
    async def create(cls, session: "CoderSession") -> Self:
        """Load the tools in a thread and create the runtime."""
        return cls(session, await asyncio.to_thread(built_in_tools))

    # -- turns -----------------------------------------------------------------------------------------------

    async def run_turn(self, turn: Turn, usage: UsageTotal) -> StopReason:
        """Answer a prompt and add its usage to `usage`. Raises ModelError."""
        try:
            return await self._answer(turn, usage)
        except asyncio.CancelledError:
            self.session.steering.close(turn)
            raise
        finally:
            # A turn that failed or reached a limit: the model sees the rest with the next prompt.
            self.session.history.add(*await self._steering_messages(turn, sees_images=False))
            self.session.steering.close(turn)
            self.session.checkpoints.end()

    async def _answer(self, turn: Turn, usage: UsageTotal) -> StopReason:
        self.turn_usage = usage
        self.gate.turn_started()
        self.sandbox.turn_started()
        self.context_budget.prompt_received()
        await self.load_project_files(turn)
        await self._find_search(turn)
        if (servers := self.session.mcp) is not None:
            late = await servers.wait_started(self.session.resources.config.mcp.start_seconds, turn.text)
            if late:
                text = f"{', '.join(late)}: the tools come as soon as it is; `/mcp` shows the state"
                await turn.notice("MCP server not ready yet", text)
        await self.offer_commands()
        if self.hooks is not None:
            self.hooks.turn_started()
        name, text = turn.command or ("", "")
        command = self.commands.find(name) if name else None
        if command is None:
            model = await self.model()
            parts = await fitted_parts(turn.blocks, sees_images=model.sees_images)
            return await self._ask_model(turn, model, (*parts, *await self._mentions(turn, model)), usage)
        reply = await command.run(text, turn, self)
        if isinstance(reply, ModelPrompt):
            return await self._ask_model(turn, await self.model(), reply.parts, usage)
        await turn.say(reply.text)
        if self.session.steering.close_if_empty(turn):
            return "end_turn"
        model = await self.model()
        sent = await self._steering_messages(turn, sees_images=model.sees_images, hooks=False)
        return await self._ask_model(turn, model, _parts_of_all(sent), usage)

    def _take_steering(self, turn: Turn) -> list[list[ContentBlock]]:
        """Log what the user has sent during the turn, and return it."""
        session, taken = self.session, self.session.steering.take(turn)
        for blocks in taken:
            session.journal.append(MessageChanged("user", session.agent_session.new_message_id(), blocks))
        return taken

    async def _steering_messages(
        self, turn: Turn, *, sees_images: bool, hooks: bool = True
    ) -> list[UserMessage]:
        """Log what the user has sent during the turn, and return what no hook blocks."""
        taken = self._take_steering(turn)
        messages: list[UserMessage] = []
        try:
            for blocks in taken:
                parts = await fitted_parts(blocks, sees_images=sees_images)
                submitted = await self._submit_prompt(turn, parts) if hooks else parts
                messages += [] if submitted is None else [UserMessage(submitted)]
        except asyncio.CancelledError:
            # The log has them, so the model must know them, too, except those that a hook has not seen.
            if self.hooks is None or not hooks:
                messages = [UserMessage(parts_of(blocks, sees_images=False)) for blocks in taken]
            self.session.history.add(*messages)
            raise
        if taken and not messages:
            return [note_message("The user sent something that a hook blocked. Do not wait for it.")]
        return messages

    async def offer_commands(self) -> None:
        """Send the slash commands to the client if they have changed."""
        await self.commands.load()
        offered = self.commands.offered()
        if offered != self._offered:
            self._offered = offered
            await self.session.agent_session.commands(offered)

    async def _ask_model(
        self, turn: Turn, model: Model, parts: tuple[Part, ...], usage: UsageTotal
    ) -> StopReason:
        session = self.session
        submitted = await self._submit_prompt(turn, parts)
        if submitted is None:
            return "end_turn"
        parts = submitted
        if model.provider == ACP:
            return await self._ask_agent(turn, model.name, parts, usage)
        earlier_messages = list(session.history.messages)
        await session.checkpoints.begin(session.prompt_id)
        session.history.add(UserMessage(parts))
        await self._titles.set_first(turn)
        await self.prompt_builder.build(model.context_size)
        self._allow_temp_folder()
        self.definitions.allow_folders(session.history.messages)
        context = self.context(turn, model)
        delegate = create_delegate(self, turn, await self.small_model(model), context, usage)
        context = replace(context, delegate=delegate, background=delegate.background)
        loop = self.agent_loop(turn, model, session.history, context, usage=usage)
        try:
            reason = await loop.run()
        finally:
            await delegate.background.aclose()
            session.history.add(*delegate.background.take_reports())
        if reason == "end_turn":
            self._titles.improve(turn)
        if reason == "refusal":
            remaining = without_refused_prompt([*earlier_messages, UserMessage(parts)], len(earlier_messages))
            session.history.replace(remaining, "refused")
        return reason

    async def _ask_agent(
        self, turn: Turn, name: str, parts: tuple[Part, ...], usage: UsageTotal
    ) -> StopReason:
        """Let another agent answer the prompt, in place of a model."""
        await self.session.checkpoints.begin(self.session.prompt_id)
        await self.session.checkpoints.before_command()  # its changes of files are not known
        await self._titles.set_first(turn)
        agent = await self.definitions.agent_model(name)

        async def take_messages() -> tuple[Part, ...]:
            return _parts_of_all(await self._steering_messages(turn, sees_images=True))

        return await agent.answer(turn, parts, usage, take_messages)

    async def _mentions(self, turn: Turn, model: Model) -> list[Part]:
        """The resources of MCP servers that the prompt mentions."""
        texts = [block.text for block in turn.blocks if isinstance(block, TextContent)]
        if self.session.mcp is None or not any("@" in text for text in texts):
            return []
        return await self.session.mcp.mentioned_resources("\n".join(texts), self.context(turn, model))

    async def _submit_prompt(self, turn: Turn, parts: tuple[Part, ...]) -> tuple[Part, ...] | None:
        """The prompt with what its hooks add. If one blocks it, says so and returns None."""
        if self.hooks is None:
            return parts
        blocked, context = await self.hooks.check_prompt(parts)
        if blocked is None:
            return (*parts, *context)
        await turn.notice("Prompt blocked by a hook", blocked, severity="warning")
        return None

    def agent_loop(
        self,
        output: TurnOutput,
        model: Model,
        history: ModelHistory,
        context: ToolContext,
        *,
        usage: UsageTotal,
        excluded_tools: tuple[str, ...] = (),
        agent: AgentDefinition | None = None,
        hooks: "SessionHooks | None" = None,
    ) -> AgentLoop:
        """The loop of a turn, or of a sub-agent with fewer tools and its own `hooks`."""
        session = self.session
        is_session = history is session.history
        budget = self.context_budget if is_session else ContextBudget(self, history)
        resources = session.resources
        limits = UsageBudget(resources.options.budgets, resources.config, usage, session.usage)

        async def on_usage(used: RequestUsage, request: ModelRequest) -> None:
            usage.add(used)
            session.add_usage(used)
            tokens = budget.record_usage(request, used)
            if is_session:
                session.context_tokens = tokens
                await self.report_usage(model, limits)
                self._check_window()

        context = replace(context, use_skill=self.definitions.skill_loader(history, model))
        hooks = hooks or self.hooks
        tool_runner = self.tool_runner(context, excluded_tools, agent, hooks)

        async def collect_notes() -> list[UserMessage]:
            return await self._collect_notes(output, model, tool_runner, context) if is_session else []

        return AgentLoop(
            output=output,
            model=model,
            history=history,
            tool_runner=tool_runner,
            system=self.prompt_builder.text,
            collect_notes=collect_notes,
            budget=limits,
            request_limit=limits.requests() if is_session else limits.subagent_requests(agent),
            may_end=lambda: not isinstance(output, Turn) or session.steering.close_if_empty(output),
            await_background=None if context.background is None else context.background.wait,
            on_stop=None if hooks is None else hooks.turn_stopping,
            effort=session.effort,
            reported_tools=session.reported_tools,
            cache_key=session.id,
            on_usage=on_usage,
            compact_if_needed=budget.compaction_check(model, usage, output),
        )

    async def _collect_notes(
        self, output: TurnOutput, model: Model, tool_runner: ToolRunner, context: ToolContext
    ) -> list[UserMessage]:
        """What the model is told before its next request: reports, notes and new prompts of the user."""
        notes = await self.prompt_builder.notes(tool_runner)
        if self.hooks is not None and (said := self.hooks.take_context()):
            notes.append(note_message(f"[hook] {said}"))
        if isinstance(output, Turn):
            notes += await self._steering_messages(output, sees_images=model.sees_images)
        return notes if context.background is None else [*context.background.take_reports(), *notes]

    def tool_runner(
        self,
        context: ToolContext,
        excluded_tools: tuple[str, ...],
        agent: AgentDefinition | None,
        hooks: "SessionHooks | None",
    ) -> ToolRunner:
        """The tools, in this context."""

        async def tool_context(tool: Tool) -> ToolContext:
            return await self.sandbox.add_to_context(context) if tool.name in _COMMAND_TOOLS else context

        async def before_run(tool: Tool, call: PreparedCall) -> None:
            checkpoints = self.session.checkpoints
            if self.diagnostics is not None and tool.kind == "edit":
                for path in call.subject.paths:
                    await self.diagnostics.before_edit(path)
            is_known = call.category not in _UNKNOWN_CHANGES or call.subject.asks_itself
            if is_known or not checkpoints.needs_snapshot:
                return
            if not await self.gate.only_reads(tool, call):
                await checkpoints.before_command()

        async def after_run(tool: Tool, call: PreparedCall, outcome: ToolOutcome) -> ToolOutcome:
            edited = not outcome.failed and call.category == "write" and tool.kind == "edit"
            if edited and self._formats:
                from accord.coder.hooks.format_hook import format_after_edit

                for path in call.subject.paths:
                    outcome = await format_after_edit(context, path, outcome)
            if self.diagnostics is not None and not outcome.failed:
                outcome = await self.diagnostics.after_call(tool, call, outcome)
            return outcome

        return ToolRunner(
            lambda: self.tools(excluded_tools, agent),
            tool_context,
            self.gate,
            before_run,
            after_run,
            hooks,
            agent.mode if agent is not None else None,
        )

    def tools(
        self, excluded_tools: tuple[str, ...] = (), agent: AgentDefinition | None = None
    ) -> dict[str, Tool]:
        """The tools that are available now, to a custom agent if one is given."""
        excluded_names = [*excluded_tools]
        if self.session.mode != "plan":
            excluded_names.append("leave_plan_mode")
        if self.search is None:
            excluded_names.append("web_search")
        tools = {name: tool for name, tool in self.own_tools.items() if name not in excluded_names}
        servers = self.session.mcp
        if servers is not None:
            tools |= {name: tool for name, tool in servers.tools.items() if name not in tools}
        return self.definitions.tools(tools, agent)

    def context(self, turn: Turn, model: Model) -> ToolContext:
        """The tool context of this turn."""
        session = self.session
        config = session.resources.config
        client = turn.client
        return ToolContext(
            cwd=session.agent_session.cwd,
            roots=session.agent_session.roots,
            files=SessionFiles(client, session.checkpoints),
            read_files=self.read_files,
            jobs=self.jobs,
            clock=session.clock,
            sees_images=model.sees_images,
            terminal=turn.terminal if client.can_run_terminals else None,
            terminals=self.terminals,
            display=session.agent_session if client.shows_agent_terminals else None,
            may_show=self.gate.may_show,
            host_path=self.sandbox.host_path,
            web=WebAccess(allowed=config.web.allowed),
            search=self.search,
            ask_user=question_asker(turn, seconds=config.turn.question_seconds, clock=session.clock),
            warn=self._warn,
            external_agents=self.definitions.external_agents,
            set_plan=self._plan_setter(turn),
            leave_plan_mode=self._leave_plan_mode,
        )

    async def model(self) -> Model:
        """The chosen model. Raises ModelError."""
        session = self.session
        model = await session.resources.models.resolve_with_fallbacks(
            session.model, named=session.model_is_named
        )
        if session.agent is None or session.agent.model is None:
            return model
        return await self.definitions.model(session.agent, model, await self.small_model(model))

    async def small_model(self, model: Model) -> Model:
        """The cheaper model for summaries, titles and sub-agents, with `model` behind it; else `model`."""
        return await self.session.resources.models.small_model(model)

    def _check_window(self) -> None:
        """With the first answer of a model: compare the context that its server has loaded."""
        session = self.session
        if session.model != self._checked_model:
            self._checked_model = session.model
            session.spawn(check_window(session))

    async def report_usage(self, model: Model, limits: UsageBudget) -> None:
        """Send the context usage, the cost of the session and the nearest limit to the client."""
        session = self.session
        if model.context_size:
            window = session.usage.usage_update(session.context_tokens, model.context_size)
            if (nearest := limits.nearest()) is not None:
                window.meta = {"accord": {"budget": nearest}}
            await session.agent_session.update(window)

    def compaction_facts(self) -> list[str]:
        """Facts the model must keep when its context is compacted: the running background jobs."""
        jobs = [job for id in self.jobs.ids() if (job := self.jobs.get(id)) and job.status is None]
        return [f"{job.id} still runs in the background: {job.command_line}" for job in jobs]

    # -- events during a turn --------------------------------------------------------------------------------

    def conversation_rewound(self) -> None:
        """Forget what the model knew from messages that were taken back."""
        self.read_files = ReadFiles()
        self.definitions.conversation_rewound()
        self.prompt_builder.history_compacted()

    def mode_changed(self) -> None:
        """Decide open permission requests again, under the new mode."""
        self.gate.reconsider()

    def _allow_temp_folder(self) -> None:
        """Let tools read the temporary folder of the sandbox, where commands of this session leave files."""
        folder, roots = self.sandbox.private_temp, self.gate.directories.roots
        if folder is not None and folder not in roots:
            self.gate.directories = replace(self.gate.directories, roots=(*roots, folder))

    def _plan_setter(self, turn: Turn) -> SetPlan:
        async def set_plan(entries: Sequence[PlanEntry]) -> None:
            self.session.plan = list(entries)
            await turn.plan(entries)

        return set_plan

    async def _leave_plan_mode(self, plan: str) -> str:
        session = self.session
        mode = session.mode_before_plan
        await session.agent_session.set_mode(mode)
        session.before_mode_change(mode)
        return mode

    async def load_project_files(self, turn: Turn, *, again: bool = False) -> None:
        """With the first prompt, or `again`: use the files of the project that the user trusts."""
        if self.project is not None and not again:
            return
        purposes = ["rules", HOOKS, MCP_SERVERS, INSTRUCTIONS]
        project = await asyncio.to_thread(project_files, self.session.agent_session.cwd, purposes=purposes)
        await ask_trust(project, trust_asker(turn), clock=self.session.clock)
        self.project = project  # set last: if the turn is canceled at the question, the next turn asks again
        if (rules := project.rules()) is not None:
            self.gate.policy = Policy(self.gate.policy.user, rules)
            self.gate.reconsider()
        for line in project.warnings():
            await turn.notice("Not used", line, severity="warning")
        await self._load_hooks(turn, project)
        await self._start_project_servers(turn, project)

    async def _start_project_servers(self, turn: Turn, project: ProjectFiles) -> None:
        """Start the MCP servers of the trusted project files."""
        session = self.session
        files = [file for file in project.trusted.values() if file.purpose == MCP_SERVERS]
        if not files:
            return
        from accord.coder.mcp.host import start_servers
        from accord.coder.mcp.own_servers import project_servers

        servers, problems = await asyncio.to_thread(project_servers, files, session.agent_session.cwd)
        for line in problems:
            await turn.notice("MCP server not used", line, severity="warning")
        if servers and session.mcp is None:
            session.mcp = start_servers(session)
        if session.mcp is not None:
            session.mcp.add_servers(servers)

    async def _load_hooks(self, turn: Turn, project: ProjectFiles) -> None:
        """Read the hooks of the user and of the trusted project files, if there are any."""
        session, folder = self.session, config_dir()
        files = [file for file in project.trusted.values() if file.purpose == HOOKS]
        config = session.resources.config.mapping
        if not files and "hooks" not in config and not (folder / "hooks.json").exists():
            return
        from accord.coder.hooks.hook_config import load_hooks
        from accord.coder.hooks.session_hooks import HookEnvironment, SessionHooks

        found = await asyncio.to_thread(load_hooks, config, folder, files)
        for line in found.problems:
            await turn.notice("Hook not used", line, severity="warning")
        self._formats = found.formats
        if found.hooks:
            environment = HookEnvironment(
                session_id=session.id,
                cwd=session.agent_session.cwd,
                mode=lambda: session.mode,
                clock=session.clock,
                report=self._warn,
                model=lambda: str(session.model),
                messages=lambda: session.history.messages,
                variables=telemetry.environment,
                source="fork" if session.is_fork else "resume" if self._is_resumed else "startup",
            )
            self.hooks = await asyncio.to_thread(SessionHooks, found, environment, self.hooks)

    async def report_sandbox(self) -> None:
        """Report the sandbox: to a client that shows notices, else once on stderr."""
        await self.sandbox.ensure_ready()
        summary, reported = self.sandbox.summary(), self.session.resources.reported_messages
        if self.session.agent_session.client.shows_notices:
            await self.session.agent_session.notice("Sandbox", summary)
        elif summary not in reported:
            reported.add(summary)
            write_stderr(f"sandbox: {summary}")

    async def _report_unused_terminals(self, reason: str) -> None:
        text = f"commands run on the agent's side, not in the client's terminals: {reason}"
        await self._warn("Terminals", text)

    async def _warn(self, title: str, text: str) -> None:
        await self.session.agent_session.notice(title, text, severity="warning")

    def _language_servers(self) -> "SessionDiagnostics | None":
        """Nothing is started yet."""
        if not self.session.resources.config.mapping.get("lsp"):
            return None
        from accord.coder.lsp.session_diagnostics import session_diagnostics

        return session_diagnostics(self.session, self.sandbox)

    async def _find_search(self, turn: Turn) -> None:
        """Find what `web_search` asks; the model may have changed since the last turn."""
        if self.session.resources.config.web.search == "off":
            return
        from accord.coder.tools.search_services import session_search

        self.search, problem = await session_search(self)
        if problem and problem != self._reported_search:
            await turn.notice("No web search", problem, severity="warning")
        self._reported_search = problem

    async def aclose(self) -> None:
        """End the background jobs, and remove the launchers and the sandbox."""
        if self.hooks is not None:
            await self.hooks.session_ended()
        if self.diagnostics is not None:
            await self.diagnostics.aclose()
        await self.definitions.aclose()
        await self.jobs.aclose()
        await self.terminals.aclose()
        await self.sandbox.aclose()


def _parts_of_all(messages: Sequence[UserMessage]) -> tuple[Part, ...]:
    return tuple(part for message in messages for part in message.parts)
