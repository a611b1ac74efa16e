"""Runs the selected cases of an agent or a client and collects the report.

Each case has its own fixture. A case that crashes or hangs the program under test affects only its own rules.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

from msgspec import Struct, structs

from accord.check.agent.agent_fixture import ALL_CAPABILITIES, AgentCase, AgentFixture
from accord.check.agent.agent_under_test import AgentLauncher
from accord.check.check_script import (
    AgentCheckScript,
    CheckScript,
    ClientCheckScript,
    ScriptT,
    script_for_agent,
    script_for_client,
)
from accord.check.checked_connection import CheckTimeouts, ConnectionOver, WireLine
from accord.check.client.client_fixture import ClientCase, ClientFixture, ClientTraits, tail
from accord.check.client.client_process import ClientLauncher
from accord.check.findings import (
    CHAPTERS,
    FAULTS,
    SCHEMA,
    CaseUnavailable,
    CheckCase,
    CheckReport,
    Fault,
    Rule,
    RuleNotes,
    checked_rule,
    find_verdicts,
)
from accord.clock import SYSTEM_CLOCK, Clock
from accord.errors import ConnectionClosed, HandshakeFailed, NeverStarted, UsageError
from accord.schema.conformance_rules import rules as rules_where
from accord.trace.trace_steps import at

Progress = Callable[[int, int, str], None]
"""Called when a case starts: the number of finished cases, the number of all cases, and its name."""


class CheckOptions(Struct, Generic[ScriptT], frozen=True, kw_only=True):
    """The options of a run."""

    script: ScriptT | None = None
    """None: the shipped script for the program's name."""
    timeouts: CheckTimeouts = CheckTimeouts()
    jobs: int = 2
    """The number of cases that run at the same time."""
    clock: Clock = SYSTEM_CLOCK
    progress: Progress | None = None


class CaseFixture(Protocol):
    """The fixture of a case, for agents or clients."""

    root: Path

    def output_tail(self) -> str:
        """The end of the program's output, if it may explain why a case ended early; else empty."""
        ...

    async def aclose(self) -> None:
        """End all processes and check the recorded messages."""
        ...


FixtureT = TypeVar("FixtureT", bound=CaseFixture)


class CheckRun(Generic[FixtureT]):
    """Runs cases with one program. `capabilities` are those it advertises."""

    def __init__(
        self,
        root: Path,
        fixture: Callable[[Path, RuleNotes], FixtureT],
        offered: Any,
        options: CheckOptions[Any],
    ) -> None:
        self.root = root
        self.capabilities = offered
        self._make_fixture = fixture
        self._options = options
        self._done = 0
        self._total = 0

    async def run_cases(self, wanted: Iterable[CheckCase[FixtureT]]) -> RuleNotes:
        """Run cases, a few at a time; the notes are in the order of the cases."""
        select_cases = list(wanted)
        self._total = len(select_cases)
        room = asyncio.Semaphore(self._options.jobs)

        async def one(number: int, case: CheckCase[FixtureT]) -> RuleNotes:
            async with room:
                return await self._run_case(number, case)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(number, case)) for number, case in enumerate(select_cases)]
        whole = RuleNotes()
        for task in tasks:
            whole.extend(task.result())
        return whole

    async def _run_case(self, number: int, case: CheckCase[FixtureT]) -> RuleNotes:
        if self._options.progress is not None:
            self._options.progress(self._done, self._total, case.name)
        notes = RuleNotes(case.name)
        capability = at(self.capabilities, *case.capability.split(".")) if case.capability else True
        if capability is True or isinstance(capability, dict):
            await self._run_in_fixture(number, case, notes)
        else:
            for rule in case.rules:
                notes.add_not_applicable(rule, f"it does not advertise {case.capability}")
        self._done += 1
        return notes

    async def _run_in_fixture(self, number: int, case: CheckCase[FixtureT], notes: RuleNotes) -> None:
        fixture = self._make_fixture(self.root / f"case-{number}", notes)
        why = ""
        try:
            await case.run(fixture)
        except CaseUnavailable as missing:
            why = str(missing)
        except (ConnectionOver, ConnectionClosed) as over:
            why = f"the connection ended early: {over}"
            words = fixture.output_tail()
            why += f"; its output: {words}" if words else ""
        except Exception as error:  # noqa: BLE001 - an unexpected answer must not end the run
            why = f"the case could not continue: {type(error).__name__}: {error}"
        finally:
            await fixture.aclose()
        for rule in case.rules:
            if not notes.for_rule(rule):
                notes.add_not_shown(rule, why or "it did not happen in this case")
        shutil.rmtree(fixture.root, ignore_errors=True)


def select_cases(cases: Sequence[CheckCase[FixtureT]], chosen: Sequence[Rule]) -> list[CheckCase[FixtureT]]:
    """The cases that test one of these rules. For `schema` alone, all cases."""
    if list(chosen) == [SCHEMA]:
        return list(cases)
    return [case for case in cases if set(case.rules) & set(chosen)]


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """A temporary folder for the run."""
    return tempfile.TemporaryDirectory(prefix="accord-check-", ignore_cleanup_errors=True)


def report(
    kind: str,
    info: Any,
    script: CheckScript,
    notes: RuleNotes,
    chosen: Sequence[Rule],
    untested: Mapping[int, str],
) -> CheckReport:
    """The verdicts on these rules. `info` is the program's `agentInfo` or `clientInfo`."""
    for number, why in untested.items():
        notes.add_not_shown(number, f"not tested: {why}")
    return CheckReport(
        kind=kind,
        name=str(at(info, "name") or "unknown"),
        version=str(at(info, "version") or ""),
        script=script.name,
        findings=find_verdicts(notes, chosen, ours=script.ours),
    )


def select_rules(rules: Sequence[Rule], only: Sequence[str], skip: Sequence[str]) -> list[Rule]:
    """The rules named by `only`, or all, without those named by `skip`."""
    wanted = _named(rules, only) if only else set(rules)
    unwanted = _named(rules, skip)
    chosen: list[Rule] = [rule for rule in rules if rule in wanted and rule not in unwanted]
    if not chosen:
        raise UsageError("no rules are left to check; change --only or --skip")
    return chosen


def require_rules(report: CheckReport, rules: Sequence[Rule], words: Sequence[str]) -> CheckReport:
    """Turn "not shown" into "fail" for the named rules."""
    needed = {str(rule) for rule in _named(rules, words)}
    findings = [
        structs.replace(one, verdict="fail", why=f"required, but not shown: {one.why}")
        if one.verdict == "not shown" and one.rule.id in needed
        else one
        for one in report.findings
    ]
    return structs.replace(report, findings=findings)


def _named(rules: Sequence[Rule], words: Sequence[str]) -> set[Rule]:
    found: set[Rule] = set()
    for word in (client.strip() for given in words for client in given.split(",")):
        if word:
            found |= _word(rules, word)
    return found


def _word(rules: Sequence[Rule], word: str) -> set[Rule]:
    if word in CHAPTERS:
        return {rule for rule in rules if checked_rule(str(rule)).chapter == word}
    if word in ("must", "should"):
        return {rule for rule in rules if rule != SCHEMA and checked_rule(str(rule)).level == word.upper()}
    if word in ("stable", "unstable"):
        return {
            rule for rule in rules if rule != SCHEMA and checked_rule(str(rule)).stable == (word == "stable")
        }
    named: set[Rule] = {rule for rule in rules if rule == word}
    if named:
        return named
    first, dash, last = word.partition("-")
    if first.isdecimal() and (not dash or last.isdecimal()):
        least, most = int(first), int(last if dash else first)
        known: set[Rule] = {rule for rule in rules if isinstance(rule, int) and least <= rule <= most}
        if known:
            return known
    raise UsageError(
        f"unknown rule {word!r}; use numbers (15 or 15-20), `schema`, `must`, `should`, or a chapter: "
        f"{', '.join(CHAPTERS)}"
    )


_AGENT_MODULES: Final = (
    "connection_cases",
    "session_setup_cases",
    "session_resume_cases",
    "session_list_cases",
    "turn_cases",
    "permission_cases",
    "option_cases",
    "client_fault_cases",
)

AGENT_UNTESTED: Final[dict[int, str]] = {
    54: "the wire does not show why the agent gave up",
    89: "a login at a terminal needs a user",
    266: "needs an agent that asks for a login during a turn",
    354: "the input of the model is not on this connection",
    366: "needs an agent that reads a reply with both members",
}
"""Rules without a case, each with the reason."""


@cache
def agent_cases() -> tuple[AgentCase, ...]:
    """All cases, in the order in which they run."""
    found: list[AgentCase] = []
    for name in _AGENT_MODULES:
        found += import_module(f"accord.check.agent.{name}").CASES
    return tuple(found)


_FAULTS: Final[tuple[Fault, ...]] = tuple(fault for fault in FAULTS if fault != "dialects")
"""The client faults that agents are tested with."""


def agent_rules() -> list[Rule]:
    """All rules for agents, in order."""
    return [SCHEMA, *(rule.id for rule in rules_where(side="AGENT")), *_FAULTS]


async def check_agent(
    launcher: AgentLauncher,
    wanted: Sequence[Rule] | None = None,
    options: CheckOptions[AgentCheckScript] | None = None,
) -> CheckReport:
    """Check an agent against these rules, or all.

    Raises `NeverStarted` or `HandshakeFailed` if the agent cannot be started or initialized.
    """
    options = CheckOptions() if options is None else options
    chosen = agent_rules() if wanted is None else list(wanted)
    with temporary_folder() as folder:
        initialize_result = await initialize_agent(launcher, Path(folder, "first"), options)
        script = options.script or script_for_agent(initialize_result.get("agentInfo"))
        run = agent_run(launcher, Path(folder), script, initialize_result, options)
        notes = await run.run_cases(select_cases(agent_cases(), chosen))
    return report("agent", initialize_result.get("agentInfo"), script, notes, chosen, AGENT_UNTESTED)


def agent_run(
    launcher: AgentLauncher,
    root: Path,
    script: AgentCheckScript,
    initialize_result: dict[str, Any],
    options: CheckOptions[AgentCheckScript],
) -> CheckRun[AgentFixture]:
    """A run with an agent whose `initialize` result is known."""

    def fixture(folder: Path, notes: RuleNotes) -> AgentFixture:
        return AgentFixture(folder, launcher, script, notes, timeouts=options.timeouts, clock=options.clock)

    return CheckRun(root, fixture, initialize_result.get("agentCapabilities"), options)


async def initialize_agent(
    launcher: AgentLauncher, root: Path, options: CheckOptions[AgentCheckScript]
) -> dict[str, Any]:
    """Start the agent once and return its `initialize` result."""
    fixture = AgentFixture(
        root, launcher, AgentCheckScript(""), RuleNotes(), timeouts=options.timeouts, clock=options.clock
    )
    try:
        agent = await fixture.launch()
        try:
            answer = await agent.initialize(ALL_CAPABILITIES)
        except ConnectionOver as over:
            if agent.end is not None and agent.end.exit_code is not None and not agent.initialize_result:
                words = agent.launched.stderr.strip()
                raise NeverStarted(
                    f"the agent exited before it answered initialize: {agent.end.reason}"
                    + (f"\n{words}" if words else "")
                ) from None
            raise HandshakeFailed(f"the agent did not answer initialize: {over}") from None
        if not answer.ok:
            raise HandshakeFailed(f"the agent did not answer initialize: it returned {answer.summary}")
        return agent.initialize_result
    finally:
        for agent in fixture.agents:
            await agent.close()


_CLIENT_MODULES: Final = (
    "agent_fault_cases",
    "handshake_cases",
    "update_cases",
    "user_decision_cases",
    "workspace_cases",
    "session_cases",
)
_SCREEN: Final = "only the client's screen shows it"

CLIENT_UNTESTED: Final[dict[int, str]] = {
    78: "the connection does not show whether a login is possible",
    135: "the connection does not show what the client stores",
    171: "needs a prompt right after a cancel",
    240: "needs an editor with an unsaved buffer",
    272: "needs a user who dismisses a form",
    273: "needs a user who fills in a form",
    315: "needs a client that is restarted",
    340: "needs a user who opens an archived session",
    345: "needs a client that asks for the status of sessions",
    350: "needs a user who sets a title",
    356: "needs a client that sends a system prompt",
    379: "needs a user who stops a sub-agent",
    **dict.fromkeys(
        (
            *(108, 149, 150, 166, 184, 185, 186, 191, 192, 204, 211, 223, 228, 231, 279, 286, 294, 311, 317),
            *(319, 321, 377, 380, 382),
        ),
        _SCREEN,
    ),
}
"""Rules without a case, each with the reason."""


@cache
def client_cases() -> tuple[ClientCase, ...]:
    """All cases, in the order in which they run."""
    found: list[ClientCase] = []
    for name in _CLIENT_MODULES:
        found += import_module(f"accord.check.client.{name}").CASES
    return tuple(found)


_MARKER: Final = "marigold"


def client_rules() -> list[Rule]:
    """All rules for clients, in order."""
    return [SCHEMA, *(rule.id for rule in rules_where(side="CLIENT")), *FAULTS]


async def check_client(
    launcher: ClientLauncher,
    wanted: Sequence[Rule] | None = None,
    options: CheckOptions[ClientCheckScript] | None = None,
) -> CheckReport:
    """Check a client against these rules, or all.

    Raises `NeverStarted` or `HandshakeFailed` if the client cannot be started or sends no prompt.
    """
    options = CheckOptions() if options is None else options
    chosen = client_rules() if wanted is None else list(wanted)
    with temporary_folder() as folder:
        traits = await observe_client(launcher, Path(folder, "first"), options)
        script = options.script or script_for_client(traits.info)
        run = client_run(launcher, Path(folder), script, traits, options)
        notes = await run.run_cases(select_cases(client_cases(), chosen))
    return report("client", traits.info, script, notes, chosen, CLIENT_UNTESTED)


def client_run(
    launcher: ClientLauncher,
    root: Path,
    script: ClientCheckScript,
    traits: ClientTraits,
    options: CheckOptions[ClientCheckScript],
) -> CheckRun[ClientFixture]:
    """A run with a client whose traits are known."""

    def fixture(folder: Path, notes: RuleNotes) -> ClientFixture:
        return ClientFixture(
            folder, launcher, script, notes, timeouts=options.timeouts, traits=traits, clock=options.clock
        )

    return CheckRun(root, fixture, traits.capabilities, options)


async def observe_client(
    launcher: ClientLauncher, root: Path, options: CheckOptions[ClientCheckScript]
) -> ClientTraits:
    """Run one plain turn to learn the client's traits. Raises `HandshakeFailed` if it sends no prompt."""
    script = options.script or ClientCheckScript("")
    fixture = ClientFixture(
        root, launcher, script, RuleNotes(), timeouts=options.timeouts, clock=options.clock
    )
    try:
        try:
            turn = await fixture.start_turn()
        except ConnectionOver as over:
            if fixture.process.exit is not None:
                await fixture.process.wait(options.timeouts.exit)  # reads the last output from its pipes
            words = tail(fixture.process.output, 1000)
            raise HandshakeFailed(f"the client sent no prompt: {over}\nits output: {words}") from None
        turn.client.say(_MARKER)
        turn.client.end_turn(turn.prompt)
        leaves = await fixture.process.wait(options.timeouts.exit)
        shows = _MARKER in fixture.process.printed
        request = next(line for line in turn.client.lines if _is_first(line))
        return ClientTraits(at(request.params, "clientInfo"), turn.client.client_capabilities, shows, leaves)
    finally:
        for process in fixture.processes:
            await process.end()


def _is_first(line: WireLine) -> bool:
    return line.sender == "client" and line.method in ("initialize", "session/new", "session/prompt")
