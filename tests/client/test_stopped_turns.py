"""A stopped turn does nothing more: its questions are closed, and nothing is written or started for it."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.client.raw_agent import YES_NO, EventCollector, both, connected, in_session
from tests.client.turn_scripts import STEPS, Step, TurnScript, random_turns

from accord.client import ClientHandlers, local_workspace
from accord.errors import ConnectionClosed
from accord.frontend.consent import Consent, permission_workspace
from accord.policy import Policy, Rules
from accord.schema import McpServerAcp
from accord.schema.methods import AGENTAO_ASK_USER
from accord.testing.fake_clock import settle
from accord.workspace.workspace import LocalWorkspace


class ScriptedUser:
    """A user whose questions stay open until the test answers them; one at a time, as on a screen."""

    def __init__(self) -> None:
        self.open: list[asyncio.Future[bool]] = []
        self.asked = asyncio.Event()
        self._lock = asyncio.Lock()

    async def ask(self) -> bool:
        """Ask one question. A canceled question is closed."""
        question: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.open.append(question)
        self.asked.set()
        try:
            return await question
        finally:
            self.open.remove(question)

    def answer(self, number: int, allowed: bool) -> None:
        """Answer one of the open questions, if there is any."""
        waiting = [question for question in self.open if not question.done()]
        if waiting:
            waiting[number % len(waiting)].set_result(allowed)

    # -- the prompt of `Consent`

    @asynccontextmanager
    async def start_question(self) -> AsyncGenerator["ScriptedUser"]:
        async with self._lock:
            yield self

    async def permission(self, request: Any, action: Any, decision: Any, /) -> Any:
        return request.option("allow_once" if await self.ask() else "reject_once")

    async def access(self, *question: Any) -> Any:
        options = question[-1]
        return options[0] if await self.ask() else options[-1]


def local(_user: ScriptedUser) -> ClientHandlers:
    """The library with the files of this machine, and no user."""
    return ClientHandlers(workspace=local_workspace, permissions=lambda request: request.option("allow_once"))


def application(user: ScriptedUser) -> ClientHandlers:
    """The library in an application with its own questions."""

    class AskingWorkspace(LocalWorkspace):
        async def write_text_file(self, path: Any, content: str) -> None:
            if not await user.ask():
                raise PermissionError
            await super().write_text_file(path, content)

        async def create_terminal(self, command: str, args: Any = None, **more: Any) -> str:
            if not await user.ask():
                raise PermissionError
            return await super().create_terminal(command, args, **more)

    async def permission(request: Any) -> Any:
        return request.option("allow_once" if await user.ask() else "reject_once")

    return ClientHandlers(workspace=lambda session: AskingWorkspace(session.roots), permissions=permission)


def consent(user: ScriptedUser) -> ClientHandlers:
    """The handlers of `accord run` and `accord chat`."""
    asked = Consent(Policy(Rules(default="ask")), user, lambda _: None)
    return ClientHandlers(permissions=asked, workspace=permission_workspace(asked))


CLIENTS: list[Callable[[ScriptedUser], ClientHandlers]] = [local, application, consent]


async def play(script: TurnScript, user: ScriptedUser, steps: list[Step]) -> None:
    """Play the steps of agent and user."""
    for what, number in steps:
        if what in ("yes", "no"):
            user.answer(number, what == "yes")
        elif what == "wait":
            await settle(number * 3)
        else:
            script.ask(what, number)


async def stopped_turn(
    folder: Path,
    client: Callable[[ScriptedUser], ClientHandlers],
    how: str,
    steps: list[Step],
    late: list[Step],
) -> Callable[[], None]:
    """Play a turn until it is stopped, then the late steps; return the check of the files."""
    (folder / "seen.txt").write_text("seen")
    user = ScriptedUser()
    async with in_session(cwd=folder, handlers=client(user)) as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        peer.update("s1", "subagent_update", sessionId="child", state={"state": "running"})
        await settle()
        script = TurnScript(peer, folder, ("s1", "child"))
        await play(script, user, steps)
        if how == "cancel":
            session.cancel()
            done = script.done()
            await peer.until_method("session/cancel")
            methods = [message.get("method") for message in peer.received]
            received = methods.index("session/cancel")
            await play(script, user, late)
            user.answer(0, True)
            await peer.end_turn(prompt, "cancelled")
            await turn.end()
            await play(script, user, [step for step in late if step[0] != "read"])
            await script.all_answered()
        elif how == "end":
            peer.update("s1", "subagent_update", sessionId="child", state={"state": "idle"})
            await peer.end_turn(prompt)
            await turn.end()
            await settle()
            assert not user.open, "a question outlived its turn"
            await script.all_answered()
            received, done = len(peer.received), script.done()
            await play(script, user, [step for step in late if step[0] in ("yes", "wait")])
        else:
            await peer.aclose()
            with pytest.raises(ConnectionClosed):
                await turn.end()
            await settle()
            assert not user.open, "a question outlived the agent"
            received, done = len(peer.received), script.done()
    return lambda: script.check_nothing_after(received, done)


@pytest.mark.rule("cancel.pending-permissions")
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
@random_turns
@given(how=st.sampled_from(("cancel", "cancel", "end", "lose")), steps=STEPS, late=STEPS)
@example(how="end", steps=[("write", 1), ("write", 1)], late=[])  # requests of the child session
@example(how="cancel", steps=[], late=[("permit", 1), ("read", 1)])
def test_after_a_turn_was_stopped_nothing_is_written_or_started_for_it(
    client: Callable[[ScriptedUser], ClientHandlers], how: str, steps: list[Step], late: list[Step]
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name).resolve()
        check = asyncio.run(stopped_turn(folder, client, how, steps, late))
        check()  # after the threads of the event loop have ended


REQUESTS: dict[str, dict[str, Any]] = {
    "terminal/create": {"command": "touch", "args": ["started"]},
    "fs/write_text_file": {"path": "{folder}/started", "content": "x"},
    "fs/read_text_file": {"path": "{folder}/.env"},
    "elicitation/create": {
        "mode": "form",
        "message": "Name?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    },
    AGENTAO_ASK_USER: {"question": "Which?"},
}


@pytest.mark.parametrize("how", ["cancel", "end", "lose"])
@pytest.mark.parametrize("method", REQUESTS)
async def test_every_question_of_a_stopped_turn_is_closed(method: str, how: str, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("KEY=1")
    user = ScriptedUser()

    async def form(_form: Any) -> Any:
        return {"name": "x"} if await user.ask() else None

    async def question(_params: Any) -> Any:
        return {"answer": str(await user.ask())}

    asked = Consent(Policy(Rules(default="ask")), user, lambda _: None)
    handlers = ClientHandlers(
        permissions=asked,
        workspace=permission_workspace(asked),
        forms=form,
        extensions={AGENTAO_ASK_USER: question},
    )
    async with in_session(cwd=tmp_path, handlers=handlers) as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        params = {
            name: value.replace("{folder}", str(tmp_path)) if isinstance(value, str) else value
            for name, value in REQUESTS[method].items()
        }
        asked_id = peer.ask(method, {"sessionId": "s1", **params})
        await user.asked.wait()
        if how == "cancel":
            session.cancel()
            user.answer(0, True)  # in the same instant
            await peer.next("session/cancel")
        elif how == "end":
            await peer.end_turn(prompt)
        else:
            await peer.aclose()
        if how != "lose":
            answer = await peer.answer_to(asked_id)
            if method == "elicitation/create":
                assert answer["result"] == {"action": "cancel"}
            else:
                assert answer["error"]["code"] == -32800
        if how == "cancel":
            await peer.end_turn(prompt, "cancelled")
        if how == "lose":
            with pytest.raises(ConnectionClosed):
                await turn.end()
            await settle()
        else:
            await turn.end()
        assert not user.open
    assert not (tmp_path / "started").exists()


async def test_a_stopped_session_works_again_with_the_next_prompt(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("b")
    read = {"sessionId": "s1", "path": str(tmp_path / "b.txt")}
    async with in_session(cwd=tmp_path, handlers=local(ScriptedUser())) as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        assert await peer.result_of("fs/read_text_file", read) == {"content": "b"}
        session.cancel()
        await peer.next("session/cancel")
        assert (await peer.error_of("fs/read_text_file", read))["code"] == -32800
        await peer.end_turn(prompt, "cancelled")
        await turn.end()
        params = {"sessionId": "s1", "path": str(tmp_path / "a.txt"), "content": "x"}
        assert (await peer.error_of("fs/write_text_file", params))["code"] == -32800
        turn = EventCollector(session.prompt("again"))
        prompt = await peer.next("session/prompt")
        assert await peer.result_of("fs/write_text_file", params) == {}
        await peer.end_turn(prompt)
        await turn.end()


async def test_a_write_that_needs_no_question_survives_the_end_of_its_turn(tmp_path: Path) -> None:
    """An agent may send a write and answer the prompt without waiting for it."""
    async with in_session(cwd=tmp_path, handlers=local(ScriptedUser())) as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        written = peer.ask(
            "fs/write_text_file",
            {"sessionId": "s1", "path": str(tmp_path / "a.txt"), "content": "x" * 100_000},
        )
        await peer.end_turn(prompt)
        await turn.end()
        assert (await peer.answer_to(written))["result"] == {}
    assert (tmp_path / "a.txt").stat().st_size == 100_000


@pytest.mark.parametrize(
    ("before", "ends_with", "closed"),
    [
        ({"state": "running"}, "child", True),
        ({"state": "running"}, "parent", False),  # it goes on in the background
        ({"state": "requires_action"}, "parent", False),
        (None, "parent", True),
    ],
)
async def test_a_question_of_a_child_session_ends_with_the_work_of_the_child(
    before: Any, ends_with: str, closed: bool, tmp_path: Path
) -> None:
    user = ScriptedUser()
    async with in_session(cwd=tmp_path, handlers=application(user)) as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        peer.update("s1", "subagent_update", sessionId="child", state=before)
        params = {"sessionId": "child", "path": str(tmp_path / "a.txt"), "content": "x"}
        asked = peer.ask("fs/write_text_file", params)
        await user.asked.wait()
        if ends_with == "child":
            peer.update("s1", "subagent_update", sessionId="child", state={"state": "idle"})
        else:
            await peer.end_turn(prompt)
            await turn.end()
        await settle()
        assert bool(user.open) is not closed
        user.answer(0, True)
        answer = await peer.answer_to(asked)
        assert ("error" in answer) is closed
        if ends_with == "child":
            await peer.end_turn(prompt)
            await turn.end()
    assert (tmp_path / "a.txt").exists() is not closed


async def test_a_canceled_child_session_gets_no_permission(tmp_path: Path) -> None:
    async with in_session(cwd=tmp_path, handlers=local(ScriptedUser())) as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        state, capabilities = {"state": "running"}, {"cancel": {}}
        peer.update("s1", "subagent_update", sessionId="child", state=state, capabilities=capabilities)
        await settle()
        call = {"toolCallId": "c1", "title": "Run make", "kind": "execute"}
        params = {"sessionId": "child", "toolCall": call, "options": YES_NO}
        allowed = await peer.result_of("session/request_permission", params)
        assert allowed["outcome"]["outcome"] == "selected"
        session.children[0].cancel()
        await peer.next("session/cancel")
        refused = await peer.result_of("session/request_permission", params)
        assert refused == {"outcome": {"outcome": "cancelled"}}
        await peer.end_turn(prompt)
        await turn.end()


@pytest.mark.parametrize("sessions", [1, 2])
async def test_tools_of_the_client_do_not_run_for_a_stopped_turn(sessions: int, tmp_path: Path) -> None:
    called: list[str] = []
    started = asyncio.Event()

    async def serve(call: Any) -> Any:
        called.append(call.params["name"])
        started.set()
        await asyncio.Event().wait()

    def call_tool(name: str) -> dict[str, Any]:
        return {"serverId": "srv", "requestId": name, "method": "tools/call", "params": {"name": name}}

    async with connected(handlers=ClientHandlers(mcp={"srv": serve})) as (agent, peer):
        turns: list[tuple[Any, Any, Any]] = []
        for number in range(sessions):
            server = McpServerAcp("ide", "srv")
            opened = agent.new_session(tmp_path, mcp_servers=[server])
            session, _ = await both(opened, peer.open(f"s{number}"))
            turn = EventCollector(session.prompt("go"))
            turns.append((session, turn, await peer.next("session/prompt")))
        open_call = peer.ask("mcp/message", call_tool("first"))
        await started.wait()
        for session, _, _ in turns:
            session.cancel()
            await peer.next("session/cancel")
        if sessions == 1:  # of several sessions, it is unknown which one called it
            assert (await peer.answer_to(open_call))["error"]["code"] == -32800
        assert (await peer.error_of("mcp/message", call_tool("second")))["code"] == -32800
        for _, turn, prompt in turns:
            await peer.end_turn(prompt, "cancelled")
            await turn.end()
        assert (await peer.error_of("mcp/message", call_tool("third")))["code"] == -32800
    assert called == ["first"]


async def test_requests_of_a_child_session_are_stopped_with_its_parent(tmp_path: Path) -> None:
    user = ScriptedUser()
    async with in_session(cwd=tmp_path, handlers=application(user)) as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        peer.update("s1", "subagent_update", sessionId="child", state={"state": "running"})
        await settle()
        params = {"sessionId": "child", "path": str(tmp_path / "a.txt"), "content": "x"}
        asked = peer.ask("fs/write_text_file", params)
        await user.asked.wait()
        session.cancel()
        await peer.next("session/cancel")
        assert (await peer.answer_to(asked))["error"]["code"] == -32800
        assert (await peer.error_of("fs/write_text_file", params))["code"] == -32800
        await peer.end_turn(prompt, "cancelled")
        await turn.end()
    assert not (tmp_path / "a.txt").exists()
