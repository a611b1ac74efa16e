"""An editor that starts `accord agent`, speaks ACP with the process by hand, and keeps every line.

When the editor closes, everything the agent sent is checked strictly and against the official schemas. The
agent must exit by itself at the end of its input, with code 0 and only the expected stderr.
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

from accord.wire.process import ProcessTransport, spawn
from accord.wire.process_tree import StopTimeouts
from accord.wire.transport import Frame, TransportEnd

Message = dict[str, Any]
Wanted = Callable[[Message], bool]

AGENT = (sys.executable, "-m", "accord.cli", "agent")
LONG_TIMEOUTS = StopTimeouts(leave=40.0, terminate=5.0, settle=40.0)
"""Leaving takes time on a busy machine. An agent that does not leave fails the test by its exit code."""
BOUNDARY = "accord agent: sandbox: "
STARTED = "accord agent: started the MCP server "
"""Reported on stderr for a client without notices."""
"""Start of the line that reports, with the first command, how commands are confined on this machine."""
_CREDENTIAL_SUFFIXES = ("_API_KEY", "_BASE_URL", "_MODEL")


class AgentEnded(AssertionError):
    """The agent has ended while a message was still expected."""


class Wire:
    """Both directions of the pipes, line by line. Allows concurrent waits."""

    def __init__(self, transport: ProcessTransport) -> None:
        self.transport = transport
        self.heard: list[Message] = []
        self.sent: list[bytes] = []
        self.lines: list[bytes] = []
        self.end: TransportEnd | None = None
        self.on_request: Callable[[Message], None] = lambda asked: None
        """Called with every request of the agent."""
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

    def ended(self, end: TransportEnd) -> None:
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
        """Return the first matching message, received since `since` or later."""
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

    async def wait_end(self) -> TransportEnd:
        await self._ended.wait()
        assert self.end is not None
        return self.end


class TurnRecord:
    """The updates of one turn and its response."""

    def __init__(self, updates: list[Any], answer: Message) -> None:
        self.updates = updates
        self.answer = answer

    @property
    def result(self) -> Any:
        """The result. Fails the test if the turn failed."""
        assert "result" in self.answer, self.answer
        return self.answer["result"]

    @property
    def stop(self) -> str:
        """The stop reason."""
        return self.result["stopReason"]

    @property
    def error(self) -> Any:
        """The error. Fails the test if the turn succeeded."""
        assert "error" in self.answer, self.answer
        return self.answer["error"]

    def of(self, kind: str) -> list[Any]:
        """Return the updates of one kind."""
        return [update for update in self.updates if update["sessionUpdate"] == kind]

    @property
    def kinds(self) -> list[str]:
        """The kinds of the updates, without repetitions in a row."""
        kinds = [update["sessionUpdate"] for update in self.updates]
        return [kind for place, kind in enumerate(kinds) if place == 0 or kinds[place - 1] != kind]

    @property
    def text(self) -> str:
        """The message text of the agent."""
        return "".join(update["content"]["text"] for update in self.of("agent_message_chunk"))

    @property
    def thoughts(self) -> str:
        """The thoughts of the agent."""
        return "".join(update["content"]["text"] for update in self.of("agent_thought_chunk"))

    @property
    def calls(self) -> list[Any]:
        """The final tool calls, each with all its statuses in order under `statuses`."""
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
        """Start a turn and return the request id."""
        blocks = [{"type": "text", "text": prompt}] if isinstance(prompt, str) else prompt
        return self.editor.ask("session/prompt", sessionId=self.id, prompt=blocks)

    async def turn(self, prompt: str | list[Any]) -> TurnRecord:
        """Run a whole turn."""
        since = len(self.editor.wire.heard)
        return await self.finish(self.prompt(prompt), since)

    async def finish(self, asked: Any, since: int = 0) -> TurnRecord:
        """Wait for the end of a running turn."""
        answer = await self.editor.answer(asked)
        heard = self.editor.wire.heard
        return TurnRecord(updates_in(heard[since : heard.index(answer)], self.id), answer)

    async def update(self, kind: str, since: int = 0, **members: Any) -> Any:
        """Return the first update of this kind with these members."""

        def wanted(message: Message) -> bool:
            found = updates_in([message], self.id)
            return bool(found) and found[0]["sessionUpdate"] == kind and members.items() <= found[0].items()

        return (await self.editor.wire.first(wanted, since))["params"]["update"]

    async def asked(self, method: str = "session/request_permission", since: int = 0) -> Message:
        """Return the first request of this method for the session."""
        return await self.editor.wire.first(
            lambda message: message.get("method") == method and message["params"].get("sessionId") == self.id,
            since,
        )

    def cancel(self) -> None:
        """Cancel the turn."""
        self.editor.notify("session/cancel", sessionId=self.id)

    async def do(self, method: str, **params: Any) -> Any:
        """Send a request for the session that must succeed."""
        return await self.editor.call(method, sessionId=self.id, **params)


class Editor:
    """The client: its capabilities, its answers and its sessions."""

    def __init__(self, wire: Wire, folder: Path) -> None:
        self.wire = wire
        self.folder = folder
        self.agent: Any = None
        """The agent's `initialize` result."""
        self.choose: str | None = "allow_once"
        """The kind of option chosen for every permission request; None leaves requests open."""
        self.buffers: dict[str, str] = {}
        """Text of the files open in the editor, saved or not, by path."""
        self.answers: dict[str, Callable[[Any], Any]] = {"session/request_permission": self.decide}
        self.questions: list[Any] = []
        self._next = 0
        wire.on_request = self._asked

    # -- messages to the agent -------------------------------------------------------------------------------

    def ask(self, method: str, **params: Any) -> Any:
        """Send a request and return its id."""
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
        """Wait for the response to a request."""
        return await self.wire.first(lambda message: "method" not in message and message.get("id") == asked)

    async def call(self, method: str, **params: Any) -> Any:
        """Send a request that must succeed and return its result."""
        answer = await self.answer(self.ask(method, **params))
        assert "result" in answer, f"{method}: {answer}"
        return answer["result"]

    async def error(self, method: str, **params: Any) -> Any:
        """Send a request that must fail and return its error."""
        answer = await self.answer(self.ask(method, **params))
        assert "error" in answer, f"{method}: {answer}"
        return answer["error"]

    async def new(self, folder: Path | None = None, **more: Any) -> Chat:
        """Create a session."""
        place = folder or self.folder
        return Chat(self, await self.call("session/new", cwd=str(place), mcpServers=[], **more), place)

    async def open(self, method: str, session: str, folder: Path | None = None) -> tuple[Chat, list[Any]]:
        """Load, resume or fork a session. Also returns the updates sent before the response."""
        place, since = folder or self.folder, len(self.wire.heard)
        asked = self.ask(method, sessionId=session, cwd=str(place), mcpServers=[])
        answer = await self.answer(asked)
        assert "result" in answer, f"{method}: {answer}"
        chat = Chat(self, {"sessionId": session, **answer["result"]}, place)
        told = self.wire.heard[since : self.wire.heard.index(answer)]
        return chat, updates_in(told, chat.id)

    async def sessions(self, folder: Path | None = None) -> list[str]:
        """Return the ids on the first page of `session/list`."""
        listed = await self.call("session/list", cwd=str(folder or self.folder))
        return [session["sessionId"] for session in listed["sessions"]]

    # -- answers to the agent --------------------------------------------------------------------------------

    def offer_files(self) -> None:
        """Answer `fs/*` from the buffers, otherwise from the disk."""

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
        """Return the params of all requests of one method."""
        return [asked["params"] for asked in self.questions if asked["method"] == method]


def chosen(question: Any, kind: str) -> Any:
    """Return the result that chooses the first option of this kind."""
    option = next(option["optionId"] for option in question["options"] if option["kind"] == kind)
    return {"outcome": {"outcome": "selected", "optionId": option}}


def updates_in(messages: Iterable[Message], session: str) -> list[Any]:
    """Return the updates of a session."""
    return [
        message["params"]["update"]
        for message in messages
        if message.get("method") == "session/update" and message["params"]["sessionId"] == session
    ]


def environment(home: Path, **more: str) -> dict[str, str | None]:
    """Return the changes to our environment for the agent: its own home, and only the given credentials.

    Its model is `rehearsal`, unless `more` has a key or an empty `ACCORD_MODEL`.
    """
    taken: dict[str, str | None] = {name: None for name in os.environ if name.endswith(_CREDENTIAL_SUFFIXES)}
    model = "" if any(name.endswith("_API_KEY") for name in more) else "rehearsal"
    return {**taken, "ACCORD_HOME": str(home), "HOME": str(home), "ACCORD_MODEL": model, **more}


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
    """Start `accord agent WORDS` and an editor that has initialized it.

    With `stderr` None the test checks stderr and the exit code itself. `edition` names the official schema to
    check against.
    """
    transport = await spawn(
        [*AGENT, *words], cwd=folder, env=environment(home, **(variables or {})), timeouts=LONG_TIMEOUTS
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
    check_wire(editor.wire, edition)
    end = editor.wire.end
    assert end is not None
    if stderr is not None:
        said = [line for line in end.stderr.splitlines() if not line.startswith((BOUNDARY, STARTED))]
        assert (end.exit_code, said) == (0, stderr.splitlines()), said


def check_wire(wire: Wire, edition: Edition = "schema") -> None:
    """Check all messages of the agent with our decoder and the official schema, and that no id repeats."""
    record = WireRecord(wire.sent, wire.lines)
    assert record.breaches("agent") == []
    assert record.unofficial("agent", edition=edition) == []
    answers = record.answer_counts("agent")
    del answers[None]  # unreadable requests have no id
    assert set(answers.values()) <= {1}
