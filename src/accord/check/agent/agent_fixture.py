"""The fixture of one case with an agent: temporary folders, script and connections."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, NamedTuple, TypeAlias

from msgspec import structs

from accord.check import findings
from accord.check.agent.agent_under_test import AddressLauncher, AgentLauncher, AgentTurn, AgentUnderTest
from accord.check.agent.client_responder import METHODS_WITH_EFFECTS, ClientResponder, allow
from accord.check.check_fixture import CheckFixture
from accord.check.check_script import AgentCheckScript, ScriptedPrompt
from accord.check.checked_connection import (
    ABSENT,
    CallAnswer,
    CheckTimeouts,
    ConnectionOver,
    Handler,
    remove_capabilities,
    substitute,
)
from accord.check.findings import CaseUnavailable, RuleId, RuleNotes
from accord.check.program_launch import StartOptions
from accord.clock import SYSTEM_CLOCK, Clock
from accord.trace.trace_steps import at
from accord.trace.wire_line import WireLine, pair_calls

ExpectedAnswer: TypeAlias = int | Literal["error", "result", "object", "known", "any"]
"""An error code; any error; any result; a result object; anything but "method not found"; anything."""


class CallCase(NamedTuple):
    """One call with its expected answer. Strings that start with `$` in the params are placeholders."""

    rule: RuleId
    method: str
    params: Any
    expected: ExpectedAnswer | tuple[ExpectedAnswer, ...]
    """One of several answers is enough."""
    capability: str = ""
    error_data: Any = None
    """The members that the data of an error must have."""


async def check_calls(agent: AgentUnderTest, calls: Iterable[CallCase], **values: Any) -> list[CallAnswer]:
    """Send the calls in order and judge the answers. Skips calls that need a missing capability."""
    answers: list[CallAnswer] = []
    for call in calls:
        if call.capability and not agent.advertises(call.capability):
            agent.notes.add_not_applicable(call.rule, f"it does not advertise {call.capability}")
            continue
        params = call.params if call.params is ABSENT else substitute(call.params, values)
        answer = await agent.call(call.method, params, rule=call.rule if call.expected == "any" else None)
        _judge_call(answer, call, agent)
        answers.append(answer)
    return answers


def _judge_call(answer: CallAnswer, call: CallCase, agent: AgentUnderTest) -> bool:
    """Note whether the answer is the expected one."""
    choices = call.expected if isinstance(call.expected, tuple) else (call.expected,)
    passed = any(_is_expected(answer, choice) for choice in choices)
    expected_text = " or ".join(_expected_text(choice) for choice in choices)
    if passed and not answer.ok and call.error_data is not None:
        data = at(answer.line.message, "error", "data")
        passed = all(at(data, name) == value for name, value in call.error_data.items())
        expected_text += f" with the data {call.error_data}"
    return agent.notes.judge(
        call.rule,
        passed,
        f"{call.method} gave {answer.summary}",
        f"{call.method} gave {answer.summary}; expected {expected_text}",
        answer,
    )


def _is_expected(answer: CallAnswer, expected: ExpectedAnswer) -> bool:
    match expected:
        case "any":
            return True
        case "result":
            return answer.ok
        case "object":
            return answer.ok and isinstance(answer.result, dict)
        case "known":
            return answer.code != -32601
        case "error":
            return not answer.ok
        case code:
            return not answer.ok and answer.code == code


_EXPECTED_TEXTS: Final = {
    "any": "an answer",
    "result": "a result",
    "object": "an object",
    "known": "a known method",
    "error": "an error",
}


def _expected_text(expected: ExpectedAnswer) -> str:
    return f"error {expected}" if isinstance(expected, int) else _EXPECTED_TEXTS[expected]


async def check_agent_record(agent: "AgentUnderTest", notes: RuleNotes) -> None:
    """Check all passive rules on a closed connection with an agent."""
    from accord.check.agent import agent_feature_rules, agent_message_rules, agent_turn_rules
    from accord.check.agent.agent_message_rules import AgentRecord
    from accord.check.wire_rules import check_messages, check_record

    rules = [
        check_messages, agent_message_rules.check_text, agent_feature_rules.check_capabilities,
        agent_turn_rules.check_turns, agent_turn_rules.check_tool_calls, agent_turn_rules.check_requests,
        agent_feature_rules.check_options, agent_feature_rules.check_unstable,
    ]  # fmt: skip
    await check_record(AgentRecord(agent), notes, rules)


ALL_CAPABILITIES: Final[dict[str, Any]] = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "auth": {"terminal": True},
    "session": {"configOptions": {"boolean": {}}, "compaction": {}, "notices": {}},
    "elicitation": {"form": {}, "url": {}},
    "plan": {},
    "subagents": {},
}
"""The capabilities of a client that supports everything."""

_HUNG_CASES: Final = 3
"""After so many cases without one answered turn, the agent is not expected to end the next one."""
NO_EFFECT: Final = "the permitted action had no effect"
NO_PERMISSION_REQUEST: Final = "the agent sent no permission request"
TURN_ENDED: Final = "the busy turn ended by itself"
NO_STRICT_MODE: Final = "the part about dialects was not tested: the agent has no strict mode"

NOTES_WORD: Final = "word-in-session-folder"
"""The word in `notes.txt` in the session's folder."""
OTHER_NOTES_WORD: Final = "word-in-other-folder"
"""The word in `notes.txt` in all other folders."""


def capabilities_without(*paths: str) -> dict[str, Any]:
    """All client capabilities without these: `fs.readTextFile`, `terminal`..."""
    return remove_capabilities(ALL_CAPABILITIES, paths)


class TurnTally:
    """Counts the turns of a run, so that it does not wait long for an agent that never ends one."""

    def __init__(self) -> None:
        self._answered = False
        self._hung_cases = 0

    def add_case(self, agents: Sequence[AgentUnderTest]) -> None:
        """Count the turns of a case that has ended."""
        prompts = [
            call
            for agent in agents
            for call in pair_calls(agent.lines, "client")
            if call.request.method == "session/prompt"
        ]
        self._answered = self._answered or any(call.answers for call in prompts)
        self._hung_cases += bool(prompts)

    def limit(self, timeouts: CheckTimeouts) -> CheckTimeouts:
        """The timeouts of the next case."""
        if self._answered or self._hung_cases < _HUNG_CASES:
            return timeouts
        return structs.replace(timeouts, turn=min(timeouts.turn, timeouts.soon))


class AgentFixture(CheckFixture[AgentCheckScript]):
    """The environment of one case. The agent starts in `start_folder`, not in the session's folder."""

    agent_type: ClassVar[type[AgentUnderTest]] = AgentUnderTest
    capabilities: ClassVar[dict[str, Any]] = ALL_CAPABILITIES
    """The capabilities of a client that supports everything."""
    login_method: ClassVar[str] = "authenticate"
    new_session_rule: ClassVar[RuleId] = "session.unique-id"

    def __init__(
        self,
        root: Path,
        launcher: AgentLauncher,
        script: AgentCheckScript,
        notes: RuleNotes,
        *,
        timeouts: CheckTimeouts,
        clock: Clock = SYSTEM_CLOCK,
        tally: TurnTally | None = None,
    ) -> None:
        other_notes = f"the word is {OTHER_NOTES_WORD}\n"
        files = {
            "project/notes.txt": f"the word is {NOTES_WORD}\n",
            "elsewhere/notes.txt": other_notes,
            "extra/notes.txt": other_notes,
        }
        super().__init__(root, script, notes, timeouts=timeouts, clock=clock, files=files)
        self._launcher = launcher
        self._tally = tally
        self.agents: list[AgentUnderTest] = []
        self.start_folder: Path = self.root / "elsewhere"

    @property
    def address(self) -> str:
        """The address of a remote agent; empty for a program."""
        return self._launcher.address if isinstance(self._launcher, AddressLauncher) else ""

    @property
    def cwd(self) -> str:
        """The session's folder."""
        return str(self.folder)

    async def launch(
        self, name: str = "", *, arguments: Sequence[str] = (), byte_by_byte: bool = False
    ) -> AgentUnderTest:
        """Start the agent without initializing it. `byte_by_byte`: its input arrives byte by byte."""
        options = StartOptions(self.start_folder, self.home, arguments, self.script.environment, byte_by_byte)
        launched = await self._launcher(options)
        label = f"{self.notes.case} {len(self.agents) + 1}" + (f" ({name})" if name else "")
        agent = self.agent_type(
            label, launched, ClientResponder(self.root), self.notes, self.timeouts, self.clock
        )
        self.agents.append(agent)
        return agent

    async def start_agent(
        self,
        capabilities: Any = None,
        *,
        name: str = "",
        arguments: Sequence[str] = (),
        login: bool = True,
    ) -> AgentUnderTest:
        """Start and initialize the agent, and sign in if the script names a login."""
        agent = await self.launch(name, arguments=arguments)
        answer = await agent.initialize(self.capabilities if capabilities is None else capabilities)
        if not answer.ok:
            raise ConnectionOver(f"initialize failed: {answer.summary}")
        if login:
            await self.login(agent)
        return agent

    async def login(self, agent: AgentUnderTest) -> None:
        """Sign in, if the script names a login."""
        if self.script.login:
            await agent.call(self.login_method, {"methodId": self.script.login})

    async def start_strict_agent(self, capabilities: Any = None) -> AgentUnderTest | None:
        """Start the agent in strict mode; None if it has none."""
        if not self.script.strict:
            return None
        return await self.start_agent(capabilities, name="strict", arguments=self.script.strict)

    async def open_session(self, capabilities: Any = None, **more: Any) -> tuple[AgentUnderTest, str]:
        """Start and initialize the agent, and open a session."""
        agent = await self.start_agent(capabilities)
        return agent, await self.new_session(agent, **more)

    async def new_session(self, agent: AgentUnderTest, cwd: str | None = None, **more: Any) -> str:
        """Open a session; returns its id."""
        session_cwd = self.cwd if cwd is None else cwd
        answer = await agent.new_session(session_cwd, **more)
        if answer.code == -32000 and self.script.login:
            await self.login(agent)
            answer = await agent.new_session(session_cwd, **more)
        if answer.code == -32000:
            raise CaseUnavailable(
                "the agent requires sign-in; sign in first, pass a key with --env NAME, "
                "or use a script with a login"
            )
        found = at(answer.result, "sessionId")
        if not isinstance(found, str):
            self.notes.add_fail(self.new_session_rule, f"session/new gave {answer.summary}", answer)
            raise ConnectionOver("session/new gave no session")
        return found

    def action(self, name: str) -> ScriptedPrompt:
        """The prompt of an action. Raises `CaseUnavailable` if the script has none."""
        found = self.find_action(name)
        if found is None:
            raise CaseUnavailable(f"the script has no prompt for `{name}`")
        return found

    def find_action(self, name: str) -> ScriptedPrompt | None:
        return self.script.action(name)

    async def run_action(self, agent: AgentUnderTest, session: str, action: str, **values: str) -> AgentTurn:
        """Run a turn with the prompt of an action."""
        return await agent.run_turn(session, self.action(action).prompt_text(**values))

    async def require_plain_turn(self, agent: AgentUnderTest, session: str) -> None:
        """Run a plain turn before a variation of it. Raises `CaseUnavailable` if it fails."""
        turn = await self.run_action(agent, session, "talk")
        if not turn.answer.ok:
            raise CaseUnavailable(f"a plain turn fails: {turn.answer.summary}")

    async def start_busy_turn(self, agent: AgentUnderTest, session: str) -> WireLine:
        """Start a turn that runs until it is canceled; returns when it is in progress."""
        agent.responder.keep_terminals_running = True
        request = agent.prompt(session, self.action("busy").prompt_text())
        # In progress: a tool call has started, the agent waits for a terminal, or it has sent text.
        started = await agent.wait_for_line(_is_in_progress, since=request.number, timeout=self.timeouts.soon)
        lines = agent.lines[request.number :]
        if started is None and not any(line.kind == "agent_message_chunk" for line in lines):
            raise CaseUnavailable("the agent did not become busy")
        if has_ended(agent, request):
            raise CaseUnavailable("the busy turn ended at once")
        return request

    async def was_stopped(self, turn: AgentTurn, stop: WireLine) -> bool:
        """Whether `stop` ended the busy turn, and not the agent by itself."""
        if turn.answer.line.number < stop.number:
            return False
        return turn.stop_reason == "cancelled" or await self._stays_busy()

    async def _stays_busy(self) -> bool:
        """Whether the busy turn keeps running if nothing stops it; uses an agent of its own."""
        agent, session = await self.open_session()
        try:
            request = await self.start_busy_turn(agent, session)
        except CaseUnavailable:
            return False
        await agent.wait_for_line(
            lambda line: line.is_answer and line.id == request.id,
            since=request.number,
            timeout=self.timeouts.soon,
        )
        return not has_ended(agent, request)

    async def wait_for_permission_request(self, agent: AgentUnderTest, request: WireLine) -> WireLine:
        """Wait for the permission request of a running turn. Raises `CaseUnavailable` if none comes."""

        def is_permission_or_answer(line: WireLine) -> bool:
            if line.sender != "agent":
                return False
            return line.method == "session/request_permission" or (line.is_answer and line.id == request.id)

        line = await agent.wait_for_line(
            is_permission_or_answer, since=request.number, timeout=self.timeouts.turn
        )
        if line is None or line.is_answer:
            raise CaseUnavailable(NO_PERMISSION_REQUEST)
        return line

    async def run_permission_action(
        self, name: str, reply: Handler, *, agent: AgentUnderTest
    ) -> tuple[AgentTurn, list[WireLine], list[WireLine]]:
        """Run the permission action with this answer; returns the turn, its requests and the effects."""
        session = await self.new_session(agent)
        agent.responder.overrides["session/request_permission"] = reply
        path = self.folder / name
        turn = await self.run_action(agent, session, "permission", file=name)
        requests = turn.requests("session/request_permission")
        if not requests:
            raise CaseUnavailable(NO_PERMISSION_REQUEST)
        return turn, requests, find_effects(agent, requests[0].number, path)

    async def start_agent_with_effect(self) -> AgentUnderTest:
        """Start an agent whose permission action has an effect when it is allowed.

        Raises `CaseUnavailable` if it has none.
        """
        agent = await self.start_agent()
        _, _, effects = await self.run_permission_action("permitted.txt", allow, agent=agent)
        if not effects:
            raise CaseUnavailable(NO_EFFECT)
        return agent

    async def aclose(self) -> None:
        """Close all connections and check their records."""
        for agent in self.agents:
            await agent.close()
        if self._tally is not None:
            self._tally.add_case(self.agents)
        for agent in self.agents:
            await self.check_record(agent)

    async def check_record(self, agent: AgentUnderTest) -> None:
        """Check all passive rules on a closed connection."""
        await check_agent_record(agent, self.notes)

    def output_tail(self) -> str:
        """Empty, because `ConnectionOver` already has the last line of stderr."""
        return ""


def find_effects(agent: AgentUnderTest, since: int, path: Path) -> list[WireLine]:
    """The side effects since a line: requests with effects, or the file itself."""
    effects = [
        line for line in agent.lines[since:] if line.sender == "agent" and line.method in METHODS_WITH_EFFECTS
    ]
    if path.exists() and not effects:
        effects = agent.lines[-1:]
    return effects


def has_ended(agent: AgentUnderTest, request: WireLine) -> bool:
    """Whether the request is answered."""
    return any(
        line.sender == "agent" and line.is_answer and line.id == request.id
        for line in agent.lines[request.number :]
    )


def _is_in_progress(line: WireLine) -> bool:
    if line.sender != "agent":
        return False
    if line.method in ("terminal/wait_for_exit", "terminal/create") or line.is_answer:
        return True
    if line.kind in ("tool_call", "tool_call_update"):
        return line.update.get("status") == "in_progress"
    return False


AgentCases: TypeAlias = findings.CaseList[AgentFixture]
