"""The stage of one scene: clean folders, the script, the ledger, and the conversations it opens with the agent."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

from accord.check.agent.desk import Desk
from accord.check.agent.launch import Launcher, Place
from accord.check.agent.script import Act, AgentScript
from accord.check.agent.talk import Talk, Turn
from accord.check.agent.watch import watch
from accord.check.bounds import Bounds
from accord.check.conversation import Over
from accord.check.ledger import Ledger
from accord.check.lines import Line
from accord.check.scene import Missing
from accord.clock import SYSTEM_CLOCK, Clock
from accord.trace.exchange import at

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


class Stage:
    """What a scene is played on. `folder` is the session's folder, `spawn` is one that is none of its business."""

    def __init__(
        self,
        root: Path,
        launcher: Launcher,
        script: AgentScript,
        ledger: Ledger,
        *,
        bounds: Bounds,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.script = script
        self.ledger = ledger
        self.bounds = bounds
        self.clock = clock
        self._launcher = launcher
        self.talks: list[Talk] = []
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

    async def connect(self, name: str = "", *, words: Sequence[str] = (), pieces: bool = False) -> Talk:
        """Start the agent; nothing is said yet. With `pieces` everything will reach it byte by byte."""
        place = Place(self.spawn, self.home, words, self.script.environment, pieces)
        launched = await self._launcher(place)
        label = f"{self.ledger.scene} {len(self.talks) + 1}" + (f" ({name})" if name else "")
        talk = Talk(label, launched, Desk(self.root), self.ledger, self.bounds, self.clock)
        self.talks.append(talk)
        return talk

    async def begin(
        self, capabilities: Any = EVERYTHING, *, name: str = "", words: Sequence[str] = (), login: bool = True
    ) -> Talk:
        """Start the agent, shake hands, and sign in where the script knows how."""
        talk = await self.connect(name, words=words)
        answer = await talk.begin(capabilities)
        if not answer.ok:
            raise Over(f"initialize failed: {answer.says}")
        if login:
            await self.login(talk)
        return talk

    async def login(self, talk: Talk) -> None:
        """Sign in, where the script names a method for that."""
        if self.script.login:
            await talk.call("authenticate", {"methodId": self.script.login})

    async def strict(self, capabilities: Any = EVERYTHING) -> Talk | None:
        """The agent in strict mode, if it has one."""
        if not self.script.strict:
            return None
        return await self.begin(capabilities, name="strict", words=self.script.strict)

    async def open(self, capabilities: Any = EVERYTHING, **more: Any) -> tuple[Talk, str]:
        """Start, shake hands, and open a session."""
        talk = await self.begin(capabilities)
        return talk, await self.session(talk, **more)

    async def session(self, talk: Talk, cwd: str | None = None, **more: Any) -> str:
        """A new session; its id."""
        where = self.cwd if cwd is None else cwd
        answer = await talk.new(where, **more)
        if answer.code == -32000 and self.script.login:
            await self.login(talk)
            answer = await talk.new(where, **more)
        if answer.code == -32000:
            raise Missing("the agent wants somebody to sign in first; sign in, or give a script with a login")
        found = at(answer.result, "sessionId")
        if not isinstance(found, str):
            self.ledger.broken(92, f"session/new gave {answer.says}", answer.shown)
            raise Over("session/new gave no session")
        return found

    def act(self, name: str) -> Act:
        """A prompt of the script; where it has none, the scene ends here."""
        found = self.script.act(name)
        if found is None:
            raise Missing(f"the script has no prompt for `{name}`")
        return found

    def can(self, name: str) -> bool:
        """Whether the script has a prompt for it."""
        return self.script.act(name) is not None

    async def play(self, talk: Talk, session: str, act: str, **values: str) -> Turn:
        """A whole turn of one act."""
        return await talk.turn(session, self.act(act).filled(**values))

    async def works(self, talk: Talk, session: str) -> None:
        """A plain turn, without which nothing can be said of what is added to it; where it fails, the scene ends."""
        turn = await self.play(talk, session, "talk")
        if not turn.answer.ok:
            raise Missing(f"a plain turn fails already: {turn.answer.says}")

    async def busy(self, talk: Talk, session: str) -> Line:
        """Begin the turn that goes on until it is cancelled, and return once it is under way."""
        talk.desk.stay = True
        asked = talk.prompt(session, self.act("busy").filled())
        # Under way: a tool call has begun, or the agent waits for a terminal, or it has begun to speak.
        started = await talk.until(_under_way, since=asked.number, bound=self.bounds.soon)
        if started is None:
            if not any(line.kind == "agent_message_chunk" for line in talk.lines[asked.number :]):
                raise Missing("the agent did not become busy")
        elif started.is_answer:
            raise Missing("the turn that was to be busy ended at once")
        return asked

    async def question(self, talk: Talk, asked: Line) -> Line:
        """The question of permission in a turn that has begun; where none comes, the scene ends here."""

        def fits(line: Line) -> bool:
            if line.sender != "agent":
                return False
            return line.method == "session/request_permission" or (line.is_answer and line.id == asked.id)

        line = await talk.until(fits, since=asked.number, bound=self.bounds.turn)
        if line is None or line.is_answer:
            raise Missing(NOT_ASKED)
        return line

    async def aclose(self) -> None:
        """Hang up everywhere, and look over all that was said."""
        for talk in self.talks:
            await talk.leave()
        for talk in self.talks:
            await watch(talk, self.ledger)

    def last_words(self) -> str:
        """Nothing: where the end of the agent matters, its last words are told with it."""
        return ""


def _under_way(line: Line) -> bool:
    if line.sender != "agent":
        return False
    if line.method in ("terminal/wait_for_exit", "terminal/create") or line.is_answer:
        return True
    if line.kind in ("tool_call", "tool_call_update"):
        return line.update.get("status") == "in_progress"
    return False


def says(turn: Turn, text: str) -> bool:
    """Whether a text was to be read in a turn."""
    return text in turn.all_text
