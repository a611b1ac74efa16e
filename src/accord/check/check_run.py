"""Runs the selected cases of an agent or a client and collects the report.

Each case has its own fixture. A case that crashes or hangs the program under test affects only its own rules.
"""

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

from msgspec import Struct, structs

from accord.check.agent.agent_fixture import AgentFixture, TurnTally
from accord.check.agent.agent_under_test import AgentLauncher
from accord.check.check_fixture import CheckFixture, ProgramTraits
from accord.check.check_script import AgentCheckScript, ClientCheckScript, ScriptT, script_for
from accord.check.checked_connection import CheckTimeouts, ConnectionOver, has_capability
from accord.check.client.client_fixture import ANSWER_TEXT, ClientFixture, tail
from accord.check.client.client_process import ClientLauncher
from accord.check.findings import (
    CHAPTERS,
    FAULTS,
    SCHEMA,
    CaseUnavailable,
    CheckCase,
    CheckReport,
    RuleId,
    RuleNotes,
    checked_rule,
    make_findings,
)
from accord.check.v2.agent_v2 import AgentFixtureV2
from accord.check.v2.client_v2 import ClientFixtureV2
from accord.clock import SYSTEM_CLOCK, Clock
from accord.errors import ConnectionClosed, HandshakeFailed, NeverStarted, UsageError
from accord.schema.conformance_rules import RULES, RULES_V2, RuleSide, find_rules
from accord.trace.trace_format import Side
from accord.trace.trace_steps import at
from accord.trace.wire_line import WireLine

Progress = Callable[[int, int, Sequence[str]], None]
"""Called when a case starts or ends: the number of finished cases, of all cases, and the running ones."""

DEFAULT_JOBS: Final = min(8, max(4, os.cpu_count() or 1))
"""More than processors: cases mostly wait. Not many more: a program may use a model with a rate limit."""


class CheckInterrupted(Exception):
    """The run was stopped before the first case."""


class CheckOptions(Struct, Generic[ScriptT], frozen=True, kw_only=True):
    """The options of a run."""

    script: ScriptT | None = None
    """None: the shipped script for the program's name."""
    timeouts: CheckTimeouts = CheckTimeouts()
    jobs: int = DEFAULT_JOBS
    """The number of cases that run at the same time."""
    clock: Clock = SYSTEM_CLOCK
    progress: Progress | None = None
    stop: asyncio.Event | None = None
    """Set it to end the run early; the report then has the results of the finished cases."""


FixtureT = TypeVar("FixtureT", bound=CheckFixture[Any])


class CheckRun(Generic[FixtureT]):
    """Runs cases with one program. `capabilities` are those it advertises."""

    def __init__(
        self,
        root: Path,
        make_fixture: Callable[[Path, RuleNotes], FixtureT],
        capabilities: Any,
        options: CheckOptions[Any],
    ) -> None:
        self.root = root
        self.capabilities = capabilities
        self._make_fixture = make_fixture
        self._options = options
        self._done = 0
        self._total = 0
        self._running: list[str] = []
        self.interrupted: str = ""
        """How many cases ran, if the run was stopped."""

    async def run_cases(self, cases: Sequence[CheckCase[FixtureT]]) -> RuleNotes:
        """Run cases, a few at a time; the notes are in the order of the cases.

        If the run is stopped, the rules of unfinished cases are "not shown", unless another case broke them.
        """
        self._total = len(cases)
        free_slots = asyncio.Semaphore(self._options.jobs)

        async def run_when_free(number: int, case: CheckCase[FixtureT]) -> RuleNotes:
            async with free_slots:
                return await self._run_case(number, case)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run_when_free(number, case)) for number, case in enumerate(cases)]
            stopping = group.create_task(self._cancel_when_stopped(tasks))
            if tasks:
                await asyncio.wait(tasks)
            stopping.cancel()
        all_notes = RuleNotes()
        for case, task in zip(cases, tasks, strict=True):
            if not task.cancelled():
                all_notes.extend(task.result())
                continue
            self.interrupted = f"{self._done} of {self._total} cases ran"
            for rule in case.rules:
                all_notes.add_unjudged(rule, "the check was interrupted before this was tested")
        return all_notes

    async def _cancel_when_stopped(self, tasks: Sequence[asyncio.Task[RuleNotes]]) -> None:
        if self._options.stop is not None:
            await self._options.stop.wait()
            for task in tasks:
                task.cancel()

    def _report_progress(self) -> None:
        if self._options.progress is not None:
            self._options.progress(self._done, self._total, self._running)

    async def _run_case(self, number: int, case: CheckCase[FixtureT]) -> RuleNotes:
        self._running.append(case.name)
        self._report_progress()
        notes = RuleNotes(case.name)
        if not case.capability or has_capability(self.capabilities, case.capability):
            await self._run_in_fixture(number, case, notes)
        else:
            for rule in case.rules:
                notes.add_not_applicable(rule, f"it does not advertise {case.capability}")
        self._done += 1
        self._running.remove(case.name)
        self._report_progress()
        return notes

    async def _run_in_fixture(self, number: int, case: CheckCase[FixtureT], notes: RuleNotes) -> None:
        fixture = self._make_fixture(self.root / f"case-{number}", notes)
        reason = ""
        try:
            await case.run(fixture)
        except CaseUnavailable as missing:
            reason = str(missing)
        except (ConnectionOver, ConnectionClosed) as over:
            reason = f"the connection ended early: {over}"
            output = fixture.output_tail()
            reason += f"; end of its output: {output}" if output else ""
        except Exception as error:  # noqa: BLE001 - an unexpected answer must not end the run
            reason = f"the case could not continue: {type(error).__name__}: {error}"
        finally:
            await fixture.aclose()
        for rule in case.rules:
            if not notes.for_rule(rule):
                notes.add_not_shown(rule, reason or "it did not happen in this case")
        shutil.rmtree(fixture.root, ignore_errors=True)


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """A temporary folder for the run."""
    return tempfile.TemporaryDirectory(prefix="accord-check-", ignore_cleanup_errors=True)


WorkT = TypeVar("WorkT")
LauncherT = TypeVar("LauncherT")


async def until_stopped(work: Coroutine[Any, Any, WorkT], stop: asyncio.Event | None) -> WorkT:
    """Wait for the work before the first case. Raises `CheckInterrupted` if the run is stopped."""
    task = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future((stop or asyncio.Event()).wait())
    try:
        await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))
    if task.cancelled():
        raise CheckInterrupted
    return task.result()


def select_rules(rules: Sequence[RuleId], only: Sequence[str], skip: Sequence[str]) -> list[RuleId]:
    """The rules named by `only`, or all, without those named by `skip`."""
    included = _find_rules(rules, only) if only else set(rules)
    excluded = _find_rules(rules, skip)
    selected: list[RuleId] = [rule for rule in rules if rule in included and rule not in excluded]
    if not selected:
        raise UsageError("no rules are left to check; change --only or --skip")
    return selected


def require_rules(report: CheckReport, rules: Sequence[RuleId], needed_names: Sequence[str]) -> CheckReport:
    """A copy of the report in which "not shown" is "fail" for the needed rules."""
    needed = _find_rules(rules, needed_names)
    findings = [
        structs.replace(finding, verdict="fail", why=f"required, but not shown: {finding.why}")
        if finding.verdict == "not shown" and finding.rule.slug in needed
        else finding
        for finding in report.findings
    ]
    return structs.replace(report, findings=findings)


def _find_rules(rules: Sequence[RuleId], lists: Sequence[str]) -> set[RuleId]:
    """The rules named in these comma-separated lists. Raises `UsageError` for an unknown name."""
    found: set[RuleId] = set()
    for name in ",".join(lists).split(","):
        if name.strip():
            found |= _rules_of_name(rules, name.strip())
    return found


def _rules_of_name(rules: Sequence[RuleId], name: str) -> set[RuleId]:
    """The rules of a chapter, a level, a stability, a slug, a number, or a range of numbers."""
    checked = [checked_rule(rule) for rule in rules]
    named: set[RuleId] = set()
    if name in CHAPTERS:
        named = {rule.slug for rule in checked if rule.chapter == name}
    elif name in ("must", "should"):
        named = {rule.slug for rule in checked if rule.slug != SCHEMA and rule.level == name.upper()}
    elif name in ("stable", "unstable"):
        named = {rule.slug for rule in checked if rule.slug != SCHEMA and rule.stable == (name == "stable")}
    elif name in rules:
        named = {name}
    elif numbers := re.fullmatch(r"(\d+)(?:-(\d+))?", name):
        first, last = int(numbers[1]), int(numbers[2] or numbers[1])
        named = {rule.slug for rule in checked if rule.id.isdecimal() and first <= int(rule.id) <= last}
    if named or name in (*CHAPTERS, "must", "should", "stable", "unstable"):
        return named
    raise UsageError(
        f"unknown rule {name!r}; use slugs (prompt.text-block), numbers (15 or 15-20), `schema`, `must`, "
        f"`should`, or a chapter: {', '.join(CHAPTERS)}"
    )


class CheckKind(NamedTuple, Generic[FixtureT, ScriptT]):
    """How programs of one kind are checked."""

    side: Side
    script_type: type[ScriptT]
    fixture: type[FixtureT]
    modules: tuple[str, ...]
    """The modules of its cases, in the order in which they run."""
    faults: tuple[RuleId, ...]
    """The faults of the other side that it is tested with."""
    untested: Mapping[RuleId, str]
    """Rules without a case, each with the reason."""
    protocol: int = 1

    @property
    def cases(self) -> list[CheckCase[FixtureT]]:
        modules = [import_module(f"accord.check.{name}") for name in self.modules]
        return [case for module in modules for case in module.case.cases]

    @property
    def rules(self) -> list[RuleId]:
        """All rules, in order."""
        side: RuleSide = "AGENT" if self.side == "agent" else "CLIENT"
        table = RULES if self.protocol == 1 else RULES_V2
        return [SCHEMA, *(rule.slug for rule in find_rules(side=side, rules=table)), *self.faults]

    def cases_for(self, rules: Sequence[RuleId]) -> list[CheckCase[FixtureT]]:
        """The cases that test one of these rules. For `schema` alone, all cases."""
        if list(rules) == [SCHEMA]:
            return self.cases
        return [case for case in self.cases if set(case.rules) & set(rules)]

    def report(
        self,
        traits: ProgramTraits,
        script: ScriptT,
        notes: RuleNotes,
        rules: Sequence[RuleId],
        interrupted: str = "",
    ) -> CheckReport:
        """The findings on these rules."""
        for rule, reason in self.untested.items():
            notes.add_not_shown(rule, f"not tested: {reason}")
        return CheckReport(
            kind=self.side,
            name=str(at(traits.info, "name") or "unknown"),
            version=str(at(traits.info, "version") or ""),
            script=script.name,
            findings=make_findings(notes, rules, ours=script.ours),
            interrupted=interrupted,
        )


AGENTS: Final = CheckKind[AgentFixture, AgentCheckScript](
    "agent",
    AgentCheckScript,
    AgentFixture,
    (
        "agent.connection_cases",
        "agent.session_setup_cases",
        "agent.session_resume_cases",
        "agent.session_list_cases",
        "agent.turn_cases",
        "agent.permission_cases",
        "agent.option_cases",
        "agent.client_fault_cases",
    ),
    tuple(fault for fault in FAULTS if fault != "dialects"),
    {
        "cancel-request.agent-own-abort": "the connection does not show why the agent ended a request",
        "auth.terminal-login-exits": "a login at a terminal needs a user",
        "elicitation.no-secrets-without-url": "needs an agent that asks for a login during a turn",
        "system-prompt.precedence": "the input of the model is not on this connection",
        "mcp.result-counts": "needs an agent that reads a reply with both members",
    },
)

_SCREEN_ONLY: Final = (
    "session.load-shown-as-history prompt.message-id-starts-message prompt.text-as-markdown "
    "cancel.open-tool-calls-marked tool-call.default-kind-and-status tool-call.omitted-members-stay "
    "tool-call.arrays-replace tool-call.terminal-shown-live tool-call.terminal-kept plan.replaced "
    "mode.mode-id-spelling option.order-kept command.list-replaced session-info.patch "
    "elicitation.form-review plan.by-id compaction.patch tool-call.name-kept compaction.chunk-creates "
    "compaction.unknown-status usage.unknown-unit subagent.patch subagent.unknown-state "
    "subagent.message-by-id"
)
CLIENTS: Final = CheckKind[ClientFixture, ClientCheckScript](
    "client",
    ClientCheckScript,
    ClientFixture,
    (
        "client.agent_fault_cases",
        "client.handshake_cases",
        "client.update_cases",
        "client.user_decision_cases",
        "client.workspace_cases",
        "client.session_cases",
    ),
    tuple(FAULTS),
    {
        "auth.terminal-capability": "the connection does not show whether a login is possible",
        "session.roots-not-merged": "the connection does not show what the client stores",
        "cancel.waits-before-next-prompt": "needs a prompt right after a cancel",
        "file.unsaved-buffers": "needs an editor with an unsaved buffer",
        "elicitation.dismissal": "needs a user who dismisses a form",
        "elicitation.validated": "needs a user who fills in a form",
        "notice.not-stored": "needs a client that is restarted",
        "archive.unarchives-before-load": "needs a user who opens an archived session",
        "status.unknown-value": "needs a client that asks for the status of sessions",
        "title.shown": "needs a user who sets a title",
        "system-prompt.sent-again": "needs a client that sends a system prompt",
        "subagent.own-capabilities": "needs a user who stops a sub-agent",
        **dict.fromkeys(_SCREEN_ONLY.split(), "only the client's screen shows it"),
    },
)


AGENTS_V2: Final = CheckKind[AgentFixture, AgentCheckScript](
    "agent",
    AgentCheckScript,
    AgentFixtureV2,
    ("v2.connection_v2_cases", "v2.session_v2_cases", "v2.turn_v2_cases"),
    (),
    {},
    protocol=2,
)
"""Agents that speak the draft of version 2."""


CLIENTS_V2: Final = CheckKind[ClientFixture, ClientCheckScript](
    "client", ClientCheckScript, ClientFixtureV2, ("v2.client_v2_cases",), (), {}, protocol=2
)
"""Clients that speak the draft of version 2."""


def client_kind(protocol: int) -> CheckKind[ClientFixture, ClientCheckScript]:
    """How clients are checked in this version."""
    return CLIENTS if protocol == 1 else CLIENTS_V2


def agent_kind(protocol: int) -> CheckKind[AgentFixture, AgentCheckScript]:
    """How agents are checked in this version."""
    return AGENTS if protocol == 1 else AGENTS_V2


async def check_agent(
    launcher: AgentLauncher,
    rules: Sequence[RuleId] | None = None,
    options: CheckOptions[AgentCheckScript] | None = None,
    *,
    protocol: int = 1,
) -> CheckReport:
    """Check an agent against these rules, or all rules of the protocol version.

    Raises `NeverStarted` or `HandshakeFailed` if the agent cannot be started or initialized.
    """
    kind = agent_kind(protocol)
    return await _check(kind, launcher, initialize_agent, agent_run, rules, options or CheckOptions())


async def check_client(
    launcher: ClientLauncher,
    rules: Sequence[RuleId] | None = None,
    options: CheckOptions[ClientCheckScript] | None = None,
    *,
    protocol: int = 1,
) -> CheckReport:
    """Check a client against these rules, or all rules of the protocol version.

    Raises `NeverStarted` or `HandshakeFailed` if the client cannot be started or sends no prompt.
    """
    kind = client_kind(protocol)
    return await _check(kind, launcher, observe_client, client_run, rules, options or CheckOptions())


async def _check(
    kind: CheckKind[FixtureT, ScriptT],
    launcher: LauncherT,
    observe: Callable[
        [LauncherT, Path, CheckOptions[ScriptT], type[FixtureT]], Coroutine[Any, Any, ProgramTraits]
    ],
    make_run: Callable[
        [LauncherT, Path, ScriptT, ProgramTraits, CheckOptions[ScriptT], type[FixtureT]], CheckRun[FixtureT]
    ],
    rules: Sequence[RuleId] | None,
    options: CheckOptions[ScriptT],
) -> CheckReport:
    selected = kind.rules if rules is None else list(rules)
    with temporary_folder() as folder:
        first = observe(launcher, Path(folder, "first"), options, kind.fixture)
        traits = await until_stopped(first, options.stop)
        script = options.script or script_for(traits.info, kind.script_type)
        run = make_run(launcher, Path(folder), script, traits, options, kind.fixture)
        notes = await run.run_cases(kind.cases_for(selected))
    return kind.report(traits, script, notes, selected, run.interrupted)


def agent_run(
    launcher: AgentLauncher,
    root: Path,
    script: AgentCheckScript,
    traits: ProgramTraits,
    options: CheckOptions[AgentCheckScript],
    fixture_type: type[AgentFixture] = AgentFixture,
) -> CheckRun[AgentFixture]:
    """A run with an agent whose traits are known."""
    tally = TurnTally()

    def make_fixture(folder: Path, notes: RuleNotes) -> AgentFixture:
        timeouts = tally.limit(options.timeouts)
        return fixture_type(
            folder, launcher, script, notes, timeouts=timeouts, clock=options.clock, tally=tally
        )

    return CheckRun(root, make_fixture, traits.capabilities, options)


async def initialize_agent(
    launcher: AgentLauncher,
    root: Path,
    options: CheckOptions[AgentCheckScript],
    fixture_type: type[AgentFixture] = AgentFixture,
) -> ProgramTraits:
    """Start the agent once and return what its `initialize` result says."""
    fixture = fixture_type(
        root, launcher, AgentCheckScript(""), RuleNotes(), timeouts=options.timeouts, clock=options.clock
    )
    try:
        agent = await fixture.launch()
        try:
            answer = await agent.initialize(fixture.capabilities)
        except ConnectionOver as over:
            if agent.end is not None and agent.end.exit_code is not None and not agent.initialize_result:
                stderr = agent.launched.stderr.strip()
                raise NeverStarted(
                    f"the agent exited before it answered initialize: {agent.end.reason}"
                    + (f"\n{stderr}" if stderr else "")
                ) from None
            raise HandshakeFailed(f"the agent did not answer initialize: {over}") from None
        if not answer.ok:
            raise HandshakeFailed(f"the agent did not answer initialize: it returned {answer.summary}")
        result, version = agent.initialize_result, at(agent.initialize_result, "protocolVersion")
        if agent.protocol == 2 and version != 2:
            raise HandshakeFailed(f"the agent does not speak version 2: asked for it, it answers {version!r}")
        return ProgramTraits(result.get(agent.info_member), result.get(agent.capability_members[1]))
    finally:
        for agent in fixture.agents:
            await agent.close()


def client_run(
    launcher: ClientLauncher,
    root: Path,
    script: ClientCheckScript,
    traits: ProgramTraits,
    options: CheckOptions[ClientCheckScript],
    fixture_type: type[ClientFixture] = ClientFixture,
) -> CheckRun[ClientFixture]:
    """A run with a client whose traits are known."""

    def make_fixture(folder: Path, notes: RuleNotes) -> ClientFixture:
        return fixture_type(
            folder, launcher, script, notes, timeouts=options.timeouts, traits=traits, clock=options.clock
        )

    return CheckRun(root, make_fixture, traits.capabilities, options)


async def observe_client(
    launcher: ClientLauncher,
    root: Path,
    options: CheckOptions[ClientCheckScript],
    fixture_type: type[ClientFixture] = ClientFixture,
) -> ProgramTraits:
    """Run one plain turn to learn the client's traits. Raises `HandshakeFailed` if it sends no prompt."""
    script = options.script or ClientCheckScript("")
    fixture = fixture_type(
        root, launcher, script, RuleNotes(), timeouts=options.timeouts, clock=options.clock
    )
    try:
        try:
            turn = await fixture.start_turn()
        except ConnectionOver as over:
            if fixture.process.exit is not None:
                await fixture.process.wait(options.timeouts.exit)  # reads the last output from its pipes
            output = tail(fixture.process.output, 1000)
            raise HandshakeFailed(f"the client sent no prompt: {over}\nend of its output: {output}") from None
        turn.client.send_text(ANSWER_TEXT)
        turn.client.end_turn(turn.prompt)
        exits_after_turn = await fixture.process.wait(options.timeouts.exit)
        prints_messages = ANSWER_TEXT in fixture.process.stdout
        request = next(line for line in turn.client.lines if _is_opening_call(line))
        return ProgramTraits(
            at(request.params, turn.client.info_member),
            turn.client.client_capabilities,
            prints_messages,
            exits_after_turn,
        )
    finally:
        for process in fixture.processes:
            await process.end()


def _is_opening_call(line: WireLine) -> bool:
    return line.sender == "client" and line.method in ("initialize", "session/new", "session/prompt")
