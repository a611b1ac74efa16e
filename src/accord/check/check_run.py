"""Runs the selected cases of an agent or a client and collects the report."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

from msgspec import Struct, structs

from accord.check.agent.agent_fixture import EVERYTHING, AgentCase, AgentFixture
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
    find,
    subject_of,
)
from accord.clock import SYSTEM_CLOCK, Clock
from accord.errors import ConnectionClosed, HandshakeFailed, NeverStarted, UsageError
from accord.schema.conformance_rules import rules as rules_where
from accord.trace.trace_steps import at

# MERGED check.run: A run: every wanted scene on a stage of its own, a few at a time, and the verdicts that follow.
#
# A scene that crashes the program under test, or that finds no end, costs its own rules and nothing else.

Progress = Callable[[int, int, str], None]
"""Told of each scene that begins: how many are done, how many there are, and its name."""


class CheckOptions(Struct, Generic[ScriptT], frozen=True, kw_only=True):
    """How a run goes."""

    script: ScriptT | None = None
    """None: the shipped one that fits the program's name."""
    bounds: CheckTimeouts = CheckTimeouts()
    jobs: int = 2
    """How many scenes are played at the same time."""
    clock: Clock = SYSTEM_CLOCK
    progress: Progress | None = None


class FixtureOptions(Protocol):
    """What every stage has."""

    root: Path

    def last_words(self) -> str:
        """What the program said last, where that tells why a scene ended; else empty."""
        ...

    async def aclose(self) -> None:
        """See everybody out, and look over all that was said."""
        ...


GroundT = TypeVar("GroundT", bound=FixtureOptions)


class CheckRun(Generic[GroundT]):
    """Plays scenes with a program that is known: `offered` are its capabilities, `stage` makes a stage in a folder."""

    def __init__(
        self,
        root: Path,
        stage: Callable[[Path, RuleNotes], GroundT],
        offered: Any,
        options: CheckOptions[Any],
    ) -> None:
        self.root = root
        self.offered = offered
        self._stage = stage
        self._options = options
        self._done = 0
        self._total = 0

    async def play(self, wanted: Iterable[CheckCase[GroundT]]) -> RuleNotes:
        """Play them, a few at a time; the ledger has them in their order."""
        due = list(wanted)
        self._total = len(due)
        room = asyncio.Semaphore(self._options.jobs)

        async def one(number: int, scene: CheckCase[GroundT]) -> RuleNotes:
            async with room:
                return await self._scene(number, scene)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(number, scene)) for number, scene in enumerate(due)]
        whole = RuleNotes()
        for task in tasks:
            whole.take(task.result())
        return whole

    async def _scene(self, number: int, scene: CheckCase[GroundT]) -> RuleNotes:
        if self._options.progress is not None:
            self._options.progress(self._done, self._total, scene.name)
        ledger = RuleNotes(scene.name)
        gate = at(self.offered, *scene.gate.split(".")) if scene.gate else True
        if gate is True or isinstance(gate, dict):
            await self._played(number, scene, ledger)
        else:
            for rule in scene.rules:
                ledger.absent(rule, f"it does not advertise {scene.gate}")
        self._done += 1
        return ledger

    async def _played(self, number: int, scene: CheckCase[GroundT], ledger: RuleNotes) -> None:
        stage = self._stage(self.root / f"scene-{number}", ledger)
        why = ""
        try:
            await scene.play(stage)
        except CaseUnavailable as missing:
            why = str(missing)
        except (ConnectionOver, ConnectionClosed) as over:
            why = f"the conversation ended early: {over}"
            words = stage.last_words()
            why += f"; it says: {words}" if words else ""
        except Exception as error:  # noqa: BLE001 - an answer that no scene foresaw must not end the run
            why = f"the scene could not go on: {type(error).__name__}: {error}"
        finally:
            await stage.aclose()
        for rule in scene.rules:
            if not ledger.of(rule):
                ledger.unseen(rule, why or "it did not happen in this scene")
        shutil.rmtree(stage.root, ignore_errors=True)


def due(scenes: Sequence[CheckCase[GroundT]], chosen: Sequence[Rule]) -> list[CheckCase[GroundT]]:
    """The scenes that show something of these rules. For the schema alone that is every one of them."""
    if list(chosen) == [SCHEMA]:
        return list(scenes)
    return [scene for scene in scenes if set(scene.rules) & set(chosen)]


def clean_ground() -> tempfile.TemporaryDirectory[str]:
    """The folder of a run, which goes with it."""
    return tempfile.TemporaryDirectory(prefix="accord-check-", ignore_cleanup_errors=True)


def report(
    kind: str,
    info: Any,
    script: CheckScript,
    ledger: RuleNotes,
    chosen: Sequence[Rule],
    untried: Mapping[int, str],
) -> CheckReport:
    """The verdicts on these rules. `info` is how the program introduced itself."""
    for number, why in untried.items():
        ledger.unseen(number, f"not tried: {why}")
    return CheckReport(
        kind=kind,
        name=str(at(info, "name") or "unknown"),
        version=str(at(info, "version") or ""),
        script=script.name,
        findings=find(ledger, chosen, ours=script.ours),
    )


# MERGED check.selection: Which rules are wanted: numbers, ranges, names, chapters, levels.


def select(rules: Sequence[Rule], only: Sequence[str], skip: Sequence[str]) -> list[Rule]:
    """The rules that `only` names, or all, without those that `skip` names."""
    wanted = _named(rules, only) if only else set(rules)
    unwanted = _named(rules, skip)
    chosen: list[Rule] = [rule for rule in rules if rule in wanted and rule not in unwanted]
    if not chosen:
        raise UsageError("no rule is left to check")
    return chosen


def need(report: CheckReport, rules: Sequence[Rule], words: Sequence[str]) -> CheckReport:
    """The report with a failure for each of the rules that these words name and that were not shown."""
    needed = {str(rule) for rule in _named(rules, words)}
    findings = [
        structs.replace(one, verdict="fail", why=f"needed, and not shown: {one.why}")
        if one.verdict == "not shown" and one.subject.id in needed
        else one
        for one in report.findings
    ]
    return structs.replace(report, findings=findings)


def _named(rules: Sequence[Rule], words: Sequence[str]) -> set[Rule]:
    found: set[Rule] = set()
    for word in (part.strip() for given in words for part in given.split(",")):
        if word:
            found |= _word(rules, word)
    return found


def _word(rules: Sequence[Rule], word: str) -> set[Rule]:
    if word in CHAPTERS:
        return {rule for rule in rules if subject_of(str(rule)).chapter == word}
    if word in ("must", "should"):
        return {rule for rule in rules if rule != SCHEMA and subject_of(str(rule)).level == word.upper()}
    if word in ("stable", "unstable"):
        return {
            rule for rule in rules if rule != SCHEMA and subject_of(str(rule)).stable == (word == "stable")
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
        f"there is no rule {word!r} here; give numbers (15 or 15-20), `schema`, `must`, `should`, or a chapter: "
        f"{', '.join(CHAPTERS)}"
    )


# MERGED check.agent.scenes: The scenes, in the order they are played, and the rules that no scene can put to the test.

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

AGENT_UNTRIED: Final[dict[int, str]] = {
    54: "only the agent knows that it gave up by itself",
    89: "a login needs a person at a terminal",
    266: "needs a login that the agent wants to make in the middle of a turn",
    354: "what the model is told does not cross this wire",
    366: "needs an agent that reads a reply with two members",
}
"""Rules that are not tried, and why not."""


@cache
def agent_cases() -> tuple[AgentCase, ...]:
    """All of them."""
    found: list[AgentCase] = []
    for name in _AGENT_MODULES:
        found += import_module(f"accord.check.agent.{name}").CASES
    return tuple(found)


# MERGED check.agent.run: A run of the kit on one agent: who it is, every scene on clean ground, the verdicts.

_FAULTS: Final[tuple[Fault, ...]] = tuple(fault for fault in FAULTS if fault != "dialects")
"""The faults of clients that an agent is tried with."""


def agent_rules() -> list[Rule]:
    """Everything an agent is held to, in order."""
    return [SCHEMA, *(rule.id for rule in rules_where(side="AGENT")), *_FAULTS]


async def check_agent(
    launcher: AgentLauncher,
    wanted: Sequence[Rule] | None = None,
    options: CheckOptions[AgentCheckScript] | None = None,
) -> CheckReport:
    """Hold an agent to these rules, or to all. Raises `NeverStarted` or `HandshakeFailed` where there is no agent."""
    options = CheckOptions() if options is None else options
    chosen = agent_rules() if wanted is None else list(wanted)
    with clean_ground() as folder:
        initialized = await first_words(launcher, Path(folder, "first"), options)
        script = options.script or script_for_agent(initialized.get("agentInfo"))
        run = agent_run(launcher, Path(folder), script, initialized, options)
        ledger = await run.play(due(agent_cases(), chosen))
    return report("agent", initialized.get("agentInfo"), script, ledger, chosen, AGENT_UNTRIED)


def agent_run(
    launcher: AgentLauncher,
    root: Path,
    script: AgentCheckScript,
    initialized: dict[str, Any],
    options: CheckOptions[AgentCheckScript],
) -> CheckRun[AgentFixture]:
    """Scenes with an agent whose handshake is known."""

    def stage(folder: Path, ledger: RuleNotes) -> AgentFixture:
        return AgentFixture(folder, launcher, script, ledger, bounds=options.bounds, clock=options.clock)

    return CheckRun(root, stage, initialized.get("agentCapabilities"), options)


async def first_words(
    launcher: AgentLauncher, root: Path, options: CheckOptions[AgentCheckScript]
) -> dict[str, Any]:
    """One handshake, to know whom we are dealing with."""
    stage = AgentFixture(
        root, launcher, AgentCheckScript(""), RuleNotes(), bounds=options.bounds, clock=options.clock
    )
    try:
        talk = await stage.connect()
        try:
            answer = await talk.begin(EVERYTHING)
        except ConnectionOver as over:
            if talk.end is not None and talk.end.exit_code is not None and not talk.initialized:
                words = talk.launched.stderr.strip()
                raise NeverStarted(
                    f"the agent ended before it began: {talk.end.reason}" + (f"\n{words}" if words else "")
                ) from None
            raise HandshakeFailed(f"the agent did not shake hands: {over}") from None
        if not answer.ok:
            raise HandshakeFailed(f"the agent did not shake hands: initialize gave {answer.says}")
        return talk.initialized
    finally:
        for talk in stage.talks:
            await talk.leave()


# MERGED check.client.scenes: The scenes for clients, in the order they are played, and the rules that no scene can put to the test.

_CLIENT_MODULES: Final = (
    "agent_fault_cases",
    "handshake_cases",
    "update_cases",
    "user_decision_cases",
    "workspace_cases",
    "session_cases",
)
_SCREEN: Final = "only its screen shows it"

CLIENT_UNTRIED: Final[dict[int, str]] = {
    78: "whether a login can be made is not to be seen from here",
    135: "what it remembers of a list does not cross this wire",
    171: "needs a client that is prompted again right after it was stopped",
    240: "needs an editor with an unsaved buffer",
    272: "needs a person who dismisses a form",
    273: "needs a person who fills in a form",
    315: "needs a client that is opened again",
    340: "needs a person who opens an archived session",
    345: "needs a client that asks for the status of sessions",
    350: "needs a person who gives a session a title",
    356: "needs a client that sends a system prompt",
    379: "needs a person who stops a sub-agent",
    **dict.fromkeys(
        (
            *(108, 149, 150, 166, 184, 185, 186, 191, 192, 204, 211, 223, 228, 231, 279, 286, 294, 311, 317),
            *(319, 321, 377, 380, 382),
        ),
        _SCREEN,
    ),
}
"""Rules that are not tried, and why not."""


@cache
def client_cases() -> tuple[ClientCase, ...]:
    """All of them."""
    found: list[ClientCase] = []
    for name in _CLIENT_MODULES:
        found += import_module(f"accord.check.client.{name}").CASES
    return tuple(found)


# MERGED check.client.run: A run of the kit on one client: who it is, every scene on clean ground, the verdicts.

_FIRST_WORD: Final = "marigold"


def client_rules() -> list[Rule]:
    """Everything a client is held to, in order."""
    return [SCHEMA, *(rule.id for rule in rules_where(side="CLIENT")), *FAULTS]


async def check_client(
    launcher: ClientLauncher,
    wanted: Sequence[Rule] | None = None,
    options: CheckOptions[ClientCheckScript] | None = None,
) -> CheckReport:
    """Hold a client to these rules, or to all. Raises `NeverStarted` or `HandshakeFailed` where there is no client."""
    options = CheckOptions() if options is None else options
    chosen = client_rules() if wanted is None else list(wanted)
    with clean_ground() as folder:
        traits = await first_run(launcher, Path(folder, "first"), options)
        script = options.script or script_for_client(traits.info)
        run = client_run(launcher, Path(folder), script, traits, options)
        ledger = await run.play(due(client_cases(), chosen))
    return report("client", traits.info, script, ledger, chosen, CLIENT_UNTRIED)


def client_run(
    launcher: ClientLauncher,
    root: Path,
    script: ClientCheckScript,
    traits: ClientTraits,
    options: CheckOptions[ClientCheckScript],
) -> CheckRun[ClientFixture]:
    """Scenes with a client that is known."""

    def stage(folder: Path, ledger: RuleNotes) -> ClientFixture:
        return ClientFixture(
            folder, launcher, script, ledger, bounds=options.bounds, traits=traits, clock=options.clock
        )

    return CheckRun(root, stage, traits.offered, options)


async def first_run(
    launcher: ClientLauncher, root: Path, options: CheckOptions[ClientCheckScript]
) -> ClientTraits:
    """One plain turn, to know whom we are dealing with. Raises `HandshakeFailed` where none comes about."""
    script = options.script or ClientCheckScript("")
    stage = ClientFixture(root, launcher, script, RuleNotes(), bounds=options.bounds, clock=options.clock)
    try:
        try:
            turn = await stage.turn()
        except ConnectionOver as over:
            words = tail(stage.client.output, 1000)
            raise HandshakeFailed(f"the client made no turn: {over}\nit says: {words}") from None
        turn.part.say(_FIRST_WORD)
        turn.part.stop(turn.prompt)
        leaves = await stage.client.wait(options.bounds.leave)
        shows = _FIRST_WORD in stage.client.printed
        asked = next(line for line in turn.part.lines if _is_first(line))
        return ClientTraits(at(asked.params, "clientInfo"), turn.part.offered, shows, leaves)
    finally:
        for client in stage.clients:
            await client.end()


def _is_first(line: WireLine) -> bool:
    return line.sender == "client" and line.method in ("initialize", "session/new", "session/prompt")
