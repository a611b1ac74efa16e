"""The fixture of one case with an agent: clean folders, script, connections; tables of single calls."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

from accord.check import findings
from accord.check.agent.agent_under_test import AgentLauncher, AgentStartOptions, AgentTurn, AgentUnderTest
from accord.check.agent.client_responder import ClientResponder
from accord.check.check_script import AgentCheckScript, ScriptedPrompt
from accord.check.checked_connection import ABSENT, CallAnswer, CheckTimeouts, ConnectionOver, WireLine
from accord.check.findings import CaseUnavailable, Rule, RuleNotes
from accord.clock import SYSTEM_CLOCK, Clock
from accord.trace.trace_steps import at

# MERGED check.agent.tries: Tries: single calls with what must come of them, as data. A scene plays a table of them.

Want: TypeAlias = int | Literal["error", "result", "object", "known"]
"""An error code; any error; any result; a result that is an object; anything but "no such method"."""


class CallCase(NamedTuple):
    """One call. Texts that begin with `$` in its params stand for values of the scene."""

    rule: Rule
    method: str
    params: Any
    want: Want
    gate: str = ""


async def play(talk: AgentUnderTest, tries: Iterable[CallCase], **values: Any) -> list[CallAnswer]:
    """Make the calls in order and note how each went; those behind a capability the agent lacks are left out."""
    answers: list[CallAnswer] = []
    for one in tries:
        if one.gate and not talk.has(one.gate):
            talk.ledger.absent(one.rule, f"it does not advertise {one.gate}")
            continue
        params = one.params if one.params is ABSENT else put(one.params, values)
        answer = await talk.call(one.method, params)
        judge(answer, one, talk)
        answers.append(answer)
    return answers


def judge(answer: CallAnswer, one: CallCase, talk: AgentUnderTest) -> bool:
    """Note whether the answer is what was wanted."""
    wanted = "an error" if one.want == "error" else f"error {one.want}"
    match one.want:
        case "result":
            kept, wanted = answer.ok, "a result"
        case "object":
            kept, wanted = answer.ok and isinstance(answer.result, dict), "an object"
        case "known":
            kept, wanted = answer.code != -32601, "that the method is there"
        case "error":
            kept = not answer.ok
        case code:
            kept = not answer.ok and answer.code == code
    return talk.ledger.judge(
        one.rule, kept, f"{one.method} gave {answer.says}", f"{one.method} gave {answer.says}; expected {wanted}",
        answer.shown,
    )  # fmt: skip


def put(value: Any, values: dict[str, Any]) -> Any:
    """The value with `$name` replaced, at any depth."""
    if isinstance(value, str):
        return values.get(value[1:], value) if value.startswith("$") else value
    if isinstance(value, list):
        return [put(item, values) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        return {name: put(item, values) for name, item in cast(dict[str, Any], value).items()}
    return value


# MERGED check.agent.watch: The watch over an agent: what every line of every conversation shows, whatever the scene was about.


async def check_agent_record(talk: "AgentUnderTest", ledger: RuleNotes) -> None:
    """Look over a conversation that is over."""
    from accord.check.agent import agent_feature_rules, agent_message_rules, agent_turn_rules
    from accord.check.agent.agent_message_rules import AgentRecord
    from accord.check.wire_rules import look_over

    looks = [
        agent_message_rules.check_messages,
        agent_message_rules.check_schema,
        agent_feature_rules.check_capabilities,
        agent_turn_rules.check_turns,
        agent_turn_rules.check_tool_calls,
        agent_turn_rules.check_requests,
        agent_feature_rules.check_options,
        agent_feature_rules.check_unstable,
    ]
    await look_over(AgentRecord(talk), ledger, looks)


# MERGED check.agent.stage: The stage of one scene: clean folders, the script, the ledger, and the conversations it opens with the agent.

EVERYTHING: Final[dict[str, Any]] = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "auth": {"terminal": True},
    "session": {"configOptions": {"boolean": {}}, "compaction": {}, "notices": {}},
    "elicitation": {"form": {}, "url": {}},
    "plan": {},
    "subagents": {},
}
"""The capabilities of a client that can do all there is."""

NOT_ASKED: Final = "the agent asked for no permission"
NO_STRICT_MODE: Final = "what dialects repair was not tried, for the agent has no strict mode"

WORD: Final = "marigold"
"""In the file that agents are asked to read."""
ELSEWHERE: Final = "thistle"
"""In the files of that name everywhere else."""


def without(*paths: str) -> dict[str, Any]:
    """The capabilities of a client that lacks some: `fs.readTextFile`, `terminal`..."""
    copy: dict[str, Any] = {
        name: dict(cast(dict[str, Any], value)) if isinstance(value, dict) else value
        for name, value in EVERYTHING.items()
    }
    for path in paths:
        inner = copy
        *parents, last = path.split(".")
        for parent in parents:
            inner[parent] = dict(inner[parent])
            inner = inner[parent]
        inner.pop(last, None)
    return copy


class AgentFixture:
    """What a scene is played on. `folder` is the session's folder, `spawn` is one that is none of its business."""

    def __init__(
        self,
        root: Path,
        launcher: AgentLauncher,
        script: AgentCheckScript,
        ledger: RuleNotes,
        *,
        bounds: CheckTimeouts,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.script = script
        self.ledger = ledger
        self.bounds = bounds
        self.clock = clock
        self._launcher = launcher
        self.talks: list[AgentUnderTest] = []
        self.root = root.resolve()
        self.folder, self.spawn, self.home, self.extra = (
            self.root / name for name in ("project", "elsewhere", "home", "extra")
        )
        for path in (self.folder, self.spawn, self.home, self.extra):
            path.mkdir(parents=True)
        (self.folder / "notes.txt").write_text(f"the word is {WORD}\n")
        for path in (self.spawn, self.extra):
            (path / "notes.txt").write_text(f"the word is {ELSEWHERE}\n")

    @property
    def cwd(self) -> str:
        """The session's folder."""
        return str(self.folder)

    async def connect(
        self, name: str = "", *, words: Sequence[str] = (), pieces: bool = False
    ) -> AgentUnderTest:
        """Start the agent; nothing is said yet. With `pieces` everything will reach it byte by byte."""
        place = AgentStartOptions(self.spawn, self.home, words, self.script.environment, pieces)
        launched = await self._launcher(place)
        label = f"{self.ledger.scene} {len(self.talks) + 1}" + (f" ({name})" if name else "")
        talk = AgentUnderTest(
            label, launched, ClientResponder(self.root), self.ledger, self.bounds, self.clock
        )
        self.talks.append(talk)
        return talk

    async def begin(
        self, capabilities: Any = EVERYTHING, *, name: str = "", words: Sequence[str] = (), login: bool = True
    ) -> AgentUnderTest:
        """Start the agent, shake hands, and sign in where the script knows how."""
        talk = await self.connect(name, words=words)
        answer = await talk.begin(capabilities)
        if not answer.ok:
            raise ConnectionOver(f"initialize failed: {answer.says}")
        if login:
            await self.login(talk)
        return talk

    async def login(self, talk: AgentUnderTest) -> None:
        """Sign in, where the script names a method for that."""
        if self.script.login:
            await talk.call("authenticate", {"methodId": self.script.login})

    async def strict(self, capabilities: Any = EVERYTHING) -> AgentUnderTest | None:
        """The agent in strict mode, if it has one."""
        if not self.script.strict:
            return None
        return await self.begin(capabilities, name="strict", words=self.script.strict)

    async def open(self, capabilities: Any = EVERYTHING, **more: Any) -> tuple[AgentUnderTest, str]:
        """Start, shake hands, and open a session."""
        talk = await self.begin(capabilities)
        return talk, await self.session(talk, **more)

    async def session(self, talk: AgentUnderTest, cwd: str | None = None, **more: Any) -> str:
        """A new session; its id."""
        where = self.cwd if cwd is None else cwd
        answer = await talk.new(where, **more)
        if answer.code == -32000 and self.script.login:
            await self.login(talk)
            answer = await talk.new(where, **more)
        if answer.code == -32000:
            raise CaseUnavailable(
                "the agent wants somebody to sign in first; sign in, or give a script with a login"
            )
        found = at(answer.result, "sessionId")
        if not isinstance(found, str):
            self.ledger.broken(92, f"session/new gave {answer.says}", answer.shown)
            raise ConnectionOver("session/new gave no session")
        return found

    def act(self, name: str) -> ScriptedPrompt:
        """A prompt of the script; where it has none, the scene ends here."""
        found = self.script.act(name)
        if found is None:
            raise CaseUnavailable(f"the script has no prompt for `{name}`")
        return found

    def can(self, name: str) -> bool:
        """Whether the script has a prompt for it."""
        return self.script.act(name) is not None

    async def play(self, talk: AgentUnderTest, session: str, act: str, **values: str) -> AgentTurn:
        """A whole turn of one act."""
        return await talk.turn(session, self.act(act).filled(**values))

    async def works(self, talk: AgentUnderTest, session: str) -> None:
        """A plain turn, without which nothing can be said of what is added to it; where it fails, the scene ends."""
        turn = await self.play(talk, session, "talk")
        if not turn.answer.ok:
            raise CaseUnavailable(f"a plain turn fails already: {turn.answer.says}")

    async def busy(self, talk: AgentUnderTest, session: str) -> WireLine:
        """Begin the turn that goes on until it is cancelled, and return once it is under way."""
        talk.desk.stay = True
        asked = talk.prompt(session, self.act("busy").filled())
        # Under way: a tool call has begun, or the agent waits for a terminal, or it has begun to speak.
        started = await talk.until(_under_way, since=asked.number, bound=self.bounds.soon)
        if started is None:
            if not any(line.kind == "agent_message_chunk" for line in talk.lines[asked.number :]):
                raise CaseUnavailable("the agent did not become busy")
        elif started.is_answer:
            raise CaseUnavailable("the turn that was to be busy ended at once")
        return asked

    async def question(self, talk: AgentUnderTest, asked: WireLine) -> WireLine:
        """The question of permission in a turn that has begun; where none comes, the scene ends here."""

        def fits(line: WireLine) -> bool:
            if line.sender != "agent":
                return False
            return line.method == "session/request_permission" or (line.is_answer and line.id == asked.id)

        line = await talk.until(fits, since=asked.number, bound=self.bounds.turn)
        if line is None or line.is_answer:
            raise CaseUnavailable(NOT_ASKED)
        return line

    async def aclose(self) -> None:
        """Hang up everywhere, and look over all that was said."""
        for talk in self.talks:
            await talk.leave()
        for talk in self.talks:
            await check_agent_record(talk, self.ledger)

    def last_words(self) -> str:
        """Nothing: where the end of the agent matters, its last words are told with it."""
        return ""


def _under_way(line: WireLine) -> bool:
    if line.sender != "agent":
        return False
    if line.method in ("terminal/wait_for_exit", "terminal/create") or line.is_answer:
        return True
    if line.kind in ("tool_call", "tool_call_update"):
        return line.update.get("status") == "in_progress"
    return False


def says(turn: AgentTurn, text: str) -> bool:
    """Whether a text was to be read in a turn."""
    return text in turn.all_text


# MERGED check.agent.scene: A scene with an agent: the checker plays the client.

AgentCase: TypeAlias = findings.CheckCase[AgentFixture]
