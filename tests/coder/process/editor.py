"""An editor that has started `accord agent`: it speaks ACP with the real process by hand, and keeps every line.

When the editor leaves, everything the agent said is held to the strict walk and to the official schemas, and the agent has to
have ended by itself: at the end of its input, with code 0 and nothing on stderr but what the test expects.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.interop.wire_record import Edition, WireRecord

from accord.wire.children import Patience
from accord.wire.process import ProcessTransport, spawn
from accord.wire.transport import End, Frame

Message = dict[str, Any]
Wanted = Callable[[Message], bool]

AGENT = (sys.executable, "-m", "accord.cli", "agent")
PATIENT = Patience(leave=40.0, terminate=5.0, settle=40.0)
"""On a busy machine leaving takes its time; an agent that does not leave at all fails the test by its exit."""
BOUNDARY = "accord agent: sandbox: "
"""Begins the line that says, with the first command, what confines commands on this machine."""
_OURS = ("_API_KEY", "_BASE_URL", "_MODEL")


class AgentEnded(AssertionError):
    """The agent is gone, and something was still expected of it."""


class Wire:
    """Both directions of the pipes, line by line. Any number of waits may go on at the same time."""

    def __init__(self, transport: ProcessTransport) -> None:
        self.transport = transport
        self.heard: list[Message] = []
        self.sent: list[bytes] = []
        self.lines: list[bytes] = []
        self.end: End | None = None
        self.on_request: Callable[[Message], None] = lambda asked: None
        """Called with every request of the agent as it comes."""
        self._waiting: dict[asyncio.Future[Message], Wanted] = {}
        self._ended = asyncio.Event()
        transport.start(self)

    def frames(self, frames: list[Frame]) -> None:
        for frame in frames:
            assert isinstance(frame, bytes)
            self.lines.append(frame)
            message: Message = json.loads(frame)
            self.heard.append(message)
            for future, wanted in list(self._waiting.items()):
                if not future.done() and wanted(message):
                    future.set_result(message)
            if "method" in message and "id" in message:
                self.on_request(message)

    def ended(self, end: End) -> None:
        self.end = end
        self._ended.set()
        for future in self._waiting:
            if not future.done():
                future.set_exception(AgentEnded(f"{end.reason}\n{end.stderr}"))

    def send(self, message: Message | bytes) -> None:
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        if not isinstance(message, bytes):
            self.sent.append(line)
        self.transport.send(line)

    async def first(self, wanted: Wanted, since: int = 0) -> Message:
        """The first message that fits, of those heard since, or to come."""
        for message in self.heard[since:]:
            if wanted(message):
                return message
        if self.end is not None:
            raise AgentEnded(f"{self.end.reason}\n{self.end.stderr}")
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[future] = wanted
        try:
            return await future
        finally:
            del self._waiting[future]

    async def wait_end(self) -> End:
        await self._ended.wait()
        assert self.end is not None
        return self.end


class Told:
    """What the client was told in one turn, and its answer."""

    def __init__(self, updates: list[Any], answer: Message) -> None:
        self.updates = updates
        self.answer = answer

    @property
    def result(self) -> Any:
        """The result; a turn that failed fails the test."""
        assert "result" in self.answer, self.answer
        return self.answer["result"]

    @property
    def stop(self) -> str:
        """Why the turn ended."""
        return self.result["stopReason"]

    @property
    def error(self) -> Any:
        """The error; a turn that did not fail fails the test."""
        assert "error" in self.answer, self.answer
        return self.answer["error"]

    def of(self, kind: str) -> list[Any]:
        """The updates of one kind."""
        return [update for update in self.updates if update["sessionUpdate"] == kind]

    @property
    def kinds(self) -> list[str]:
        """Which updates came, each kind named once in a row."""
        kinds = [update["sessionUpdate"] for update in self.updates]
        return [kind for place, kind in enumerate(kinds) if place == 0 or kinds[place - 1] != kind]

    @property
    def text(self) -> str:
        """What the agent said."""
        return "".join(update["content"]["text"] for update in self.of("agent_message_chunk"))

    @property
    def thoughts(self) -> str:
        """What it thought aloud."""
        return "".join(update["content"]["text"] for update in self.of("agent_thought_chunk"))

    @property
    def calls(self) -> list[Any]:
        """The tool calls as they were at last, with all their statuses in order under `statuses`."""
        calls: dict[str, Any] = {}
        for update in self.updates:
            if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
                call = calls.setdefault(update["toolCallId"], {"statuses": []})
                call |= update
                if "status" in update:
                    call["statuses"].append(update["status"])
        return list(calls.values())

    @property
    def call(self) -> Any:
        """The only tool call."""
        [call] = self.calls
        return call


class Chat:
    """One session of the editor."""

    def __init__(self, editor: "Editor", opened: Any, folder: Path) -> None:
        self.editor = editor
        self.opened = opened
        self.id: str = opened["sessionId"]
        self.folder = folder

    def prompt(self, prompt: str | list[Any]) -> Any:
        """Begin a turn: the id of the request."""
        blocks = [{"type": "text", "text": prompt}] if isinstance(prompt, str) else prompt
        return self.editor.ask("session/prompt", sessionId=self.id, prompt=blocks)

    async def turn(self, prompt: str | list[Any]) -> Told:
        """A whole turn."""
        since = len(self.editor.wire.heard)
        return await self.told(self.prompt(prompt), since)

    async def told(self, asked: Any, since: int = 0) -> Told:
        """The rest of a turn that has begun."""
        answer = await self.editor.answer(asked)
        heard = self.editor.wire.heard
        return Told(updates_in(heard[since : heard.index(answer)], self.id), answer)

    async def update(self, kind: str, since: int = 0, **members: Any) -> Any:
        """The first update of this kind with these members."""

        def wanted(message: Message) -> bool:
            found = updates_in([message], self.id)
            return bool(found) and found[0]["sessionUpdate"] == kind and members.items() <= found[0].items()

        return (await self.editor.wire.first(wanted, since))["params"]["update"]

    async def asked(self, method: str = "session/request_permission", since: int = 0) -> Message:
        """The first request of this method about the session."""
        return await self.editor.wire.first(
            lambda message: message.get("method") == method and message["params"].get("sessionId") == self.id,
            since,
        )

    def cancel(self) -> None:
        """Stop the turn."""
        self.editor.notify("session/cancel", sessionId=self.id)

    async def do(self, method: str, **params: Any) -> Any:
        """A request about the session that must succeed."""
        return await self.editor.call(method, sessionId=self.id, **params)


class Editor:
    """The client: what it offers, how it answers, and its sessions."""

    def __init__(self, wire: Wire, folder: Path) -> None:
        self.wire = wire
        self.folder = folder
        self.agent: Any = None
        """What the agent said of itself."""
        self.choose: str | None = "allow_once"
        """The kind of option that is chosen wherever the agent asks; None leaves questions open."""
        self.buffers: dict[str, str] = {}
        """The text of files that are open in the editor, saved or not, by path."""
        self.answers: dict[str, Callable[[Any], Any]] = {"session/request_permission": self.decide}
        self.questions: list[Any] = []
        self._next = 0
        wire.on_request = self._asked

    # -- what it says -------------------------------------------------------------------------------------------

    def ask(self, method: str, **params: Any) -> Any:
        """Send a request: its id."""
        self._next += 1
        self.wire.send({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params})
        return self._next

    def notify(self, method: str, **params: Any) -> None:
        """Send a notification."""
        self.wire.send({"jsonrpc": "2.0", "method": method, "params": params})

    def reply(self, asked: Message, result: Any) -> None:
        """Answer a request of the agent."""
        self.wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": result})

    async def answer(self, asked: Any) -> Message:
        """The answer to a request."""
        return await self.wire.first(lambda message: "method" not in message and message.get("id") == asked)

    async def call(self, method: str, **params: Any) -> Any:
        """A request that must succeed: its result."""
        answer = await self.answer(self.ask(method, **params))
        assert "result" in answer, f"{method}: {answer}"
        return answer["result"]

    async def error(self, method: str, **params: Any) -> Any:
        """A request that must fail: its error."""
        answer = await self.answer(self.ask(method, **params))
        assert "error" in answer, f"{method}: {answer}"
        return answer["error"]

    async def new(self, folder: Path | None = None, **more: Any) -> Chat:
        """A new session."""
        place = folder or self.folder
        return Chat(self, await self.call("session/new", cwd=str(place), mcpServers=[], **more), place)

    async def open(self, method: str, session: str, folder: Path | None = None) -> tuple[Chat, list[Any]]:
        """Load, resume or fork a session: it, and what was told before the answer."""
        place, since = folder or self.folder, len(self.wire.heard)
        asked = self.ask(method, sessionId=session, cwd=str(place), mcpServers=[])
        answer = await self.answer(asked)
        assert "result" in answer, f"{method}: {answer}"
        chat = Chat(self, {"sessionId": session, **answer["result"]}, place)
        told = self.wire.heard[since : self.wire.heard.index(answer)]
        return chat, updates_in(told, chat.id)

    async def sessions(self, folder: Path | None = None) -> list[str]:
        """The ids of the first page of `session/list`."""
        listed = await self.call("session/list", cwd=str(folder or self.folder))
        return [session["sessionId"] for session in listed["sessions"]]

    # -- what it answers ----------------------------------------------------------------------------------------

    def offer_files(self) -> None:
        """Answer `fs/*` from the buffers, else from the disk."""

        def read(params: Any) -> Any:
            if params["path"] in self.buffers:
                text = self.buffers[params["path"]]
            elif Path(params["path"]).exists():
                text = Path(params["path"]).read_text()
            else:
                return {"code": -32002, "message": "no such file"}
            lines = text.splitlines(keepends=True)[max((params.get("line") or 1) - 1, 0) :]
            limit = params.get("limit")
            return {"content": "".join(lines if limit is None else lines[:limit])}

        def write(params: Any) -> Any:
            self.buffers[params["path"]] = params["content"]
            Path(params["path"]).write_text(params["content"])
            return {}

        self.answers |= {"fs/read_text_file": read, "fs/write_text_file": write}

    def _asked(self, asked: Message) -> None:
        self.questions.append(asked)
        answer = self.answers.get(asked["method"])
        if answer is None:
            self.wire.send(
                {"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "not here"}}
            )
            return
        result = answer(asked["params"])
        if result is None:
            return
        if "code" in result:
            self.wire.send({"jsonrpc": "2.0", "id": asked["id"], "error": result})
        else:
            self.reply(asked, result)

    def decide(self, params: Any) -> Any:
        return None if self.choose is None else chosen(params, self.choose)

    def asked_for(self, method: str) -> list[Any]:
        """The params of all requests of one method."""
        return [asked["params"] for asked in self.questions if asked["method"] == method]


def chosen(question: Any, kind: str) -> Any:
    """The result that chooses the option of this kind."""
    [option] = [option["optionId"] for option in question["options"] if option["kind"] == kind]
    return {"outcome": {"outcome": "selected", "optionId": option}}


def updates_in(messages: Iterable[Message], session: str) -> list[Any]:
    """The updates of a session."""
    return [
        message["params"]["update"]
        for message in messages
        if message.get("method") == "session/update" and message["params"]["sessionId"] == session
    ]


def environment(home: Path, **more: str) -> dict[str, str | None]:
    """What the agent's environment has other than ours: a home of its own, and no credentials but those given."""
    taken: dict[str, str | None] = {name: None for name in os.environ if name.endswith(_OURS)}
    return {**taken, "ACCORD_HOME": str(home), "HOME": str(home), **more}


@asynccontextmanager
async def started(
    home: Path,
    folder: Path,
    *words: str,
    capabilities: dict[str, Any] | None = None,
    stderr: str | None = "",
    variables: dict[str, str] | None = None,
    initialize: bool = True,
    edition: Edition = "schema",
) -> AsyncGenerator[Editor]:
    """`accord agent WORDS` and an editor that has shaken hands with it.

    `stderr` None: the test looks at it, and at the exit, by itself. `edition` is the official schema that is to be kept.
    """
    transport = await spawn(
        [*AGENT, *words], cwd=folder, env=environment(home, **(variables or {})), patience=PATIENT
    )
    editor = Editor(Wire(transport), folder)
    try:
        if initialize:
            editor.agent = await editor.call(
                "initialize", protocolVersion=1, clientCapabilities=capabilities or {}
            )
        yield editor
    finally:
        await transport.aclose()
    judge(editor.wire, edition)
    end = editor.wire.end
    assert end is not None
    if stderr is not None:
        said = [line for line in end.stderr.splitlines() if not line.startswith(BOUNDARY)]
        assert (end.exit_code, said) == (0, stderr.splitlines()), said


def judge(wire: Wire, edition: Edition = "schema") -> None:
    """Everything the agent said is valid, by our own reading and by the official schema, and nothing was answered twice."""
    record = WireRecord(wire.sent, wire.lines)
    assert record.breaches("agent") == []
    assert record.unofficial("agent", edition=edition) == []
    answers = record.answer_counts("agent")
    del answers[None]  # what could not be read has no id to answer to
    assert set(answers.values()) <= {1}
