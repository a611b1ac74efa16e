"""`accord trace replay` plays the recorded agent to a client, or the recorded client to an agent."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.trace.recorder_process import AGENT, CLIENT, RECORD, python
from tests.trace.trace_files import TraceBuilder

from accord.errors import Crashed, RequestTimeout
from accord.testing import FakeClock
from accord.testing.raw_peer import RawPeer
from accord.trace.replay_comparison import order_differences, read_script
from accord.trace.replayed_agent import ReplayedAgent, ReplayReport
from accord.trace.replayed_client import ReplayedCall, ReplayedClient
from accord.wire.memory_transport import memory_pair

REPLAY = [sys.executable, "-m", "accord.cli", "trace", "replay"]
OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


class AgentReplay:
    """A replayed agent, and the client's end of its connection."""

    def __init__(self, builder: TraceBuilder, **more: Any) -> None:
        theirs, ours = memory_pair()
        self.client = RawPeer(ours)
        self.agent = ReplayedAgent(read_script(builder.entries), theirs, **more)
        self.task = asyncio.create_task(self.agent.play())

    async def disconnect(self) -> ReplayReport:
        """Close the client's end and return the report."""
        await self.client.aclose()
        return await self.task


@asynccontextmanager
async def agent_replay(builder: TraceBuilder, **more: Any) -> AsyncGenerator[AgentReplay]:
    replay = AgentReplay(builder, **more)
    try:
        yield replay
    finally:
        await replay.client.aclose()
        await replay.task


INITIALIZE = {"protocolVersion": 1, "clientCapabilities": {}}


def turn(*, permission: Any = None) -> TraceBuilder:
    builder = TraceBuilder().opened("s1")
    prompt = builder.prompt("s1", "go")
    builder.say("s1", "thinking")
    ask = builder.call(
        "agent",
        "session/request_permission",
        {"sessionId": "s1", "toolCall": {"toolCallId": "t"}, "options": OPTIONS},
        id="ask-1",
    )
    builder.answer("client", ask, {"outcome": permission or {"outcome": "selected", "optionId": "yes"}})
    builder.say("s1", "done")
    builder.answer("agent", prompt, {"stopReason": "end_turn"})
    return builder


async def open_session(client: RawPeer, cwd: str = "/project") -> str:
    await client.call("initialize", INITIALIZE)
    made = await client.call("session/new", {"cwd": cwd, "mcpServers": []})
    return made["sessionId"]


def prompt_of(session: str, text: str = "go") -> dict[str, Any]:
    return {"sessionId": session, "prompt": [{"type": "text", "text": text}]}


async def test_a_client_that_acts_as_recorded_gets_the_recorded_answers():
    async with agent_replay(turn()) as replay:
        client = replay.client
        assert await open_session(client) == "s1"
        id = client.ask("session/prompt", prompt_of("s1"))
        assert (await client.next("session/update"))["params"]["update"]["content"]["text"] == "thinking"
        request = await client.next("session/request_permission")
        assert request["id"] == "ask-1"
        client.reply(request, {"outcome": {"outcome": "selected", "optionId": "yes"}})
        assert (await client.next("session/update"))["params"]["update"]["content"]["text"] == "done"
        answer = await client.next()
        assert (answer["id"], answer["result"]) == (id, {"stopReason": "end_turn"})
        report = await replay.disconnect()
        assert (report.deviations, report.played, report.total) == ([], 6, 6)


async def test_deviations_of_the_client_are_reported():
    async with agent_replay(turn()) as replay:
        client = replay.client
        await open_session(client)
        client.ask("session/list", {})
        refused = await client.next()
        assert refused["error"]["code"] == -32601
        id = client.ask("session/prompt", prompt_of("s1", "something else"))
        request = await client.until_method("session/request_permission")
        client.reply(request, {"outcome": {"outcome": "cancelled"}})
        await client.answer_to(id)
        client.notify("session/cancel", {"sessionId": "s1"})
        client.send("no message")
        assert (await client.until(lambda message: "error" in message))["error"]["code"] == -32700
        report = await replay.disconnect()
        assert report.deviations == [
            "the client sent session/list, which is not in the recording (again)",
            "the client sent session/prompt with something else at prompt[0].text: "
            'was "go", is "something else"',
            "the client answered session/request_permission with something else at outcome.outcome: "
            'was "selected", is "cancelled"',
            "the client answered session/request_permission with something else at outcome.optionId: "
            'is missing, was "yes"',
            "the client sent session/cancel, which is not in the recording (again)",
            "the client sent a line that is not a message",
        ]


async def test_steps_the_client_skipped_are_reported():
    async with agent_replay(turn()) as replay:
        await replay.client.call("initialize", INITIALIZE)
        report = await replay.disconnect()
        assert report.deviations == [
            "the client never sent session/new",
            "the client never sent session/prompt",
        ]
        assert (report.played, report.total) == (1, 6)


async def test_calls_recorded_as_concurrent_are_answered_to_a_sequential_client():
    builder = TraceBuilder()
    first = builder.call("client", "initialize", INITIALIZE)
    second = builder.call("client", "session/list", {})
    builder.answer("agent", second, {"sessions": []})
    builder.answer("agent", first, {"protocolVersion": 1})
    async with agent_replay(builder) as replay:
        assert await replay.client.call("initialize", INITIALIZE) == {"protocolVersion": 1}
        assert await replay.client.call("session/list", {}) == {"sessions": []}
        assert (await replay.disconnect()).deviations == []


async def test_a_repeated_list_request_gets_the_same_answer():
    builder = TraceBuilder().opened("s1")
    id = builder.call("client", "session/list", {"cwd": "/project"})
    builder.answer("agent", id, {"sessions": [{"sessionId": "s1", "cwd": "/project"}]})
    async with agent_replay(builder) as replay:
        await open_session(replay.client)
        one = await replay.client.call("session/list", {"cwd": "/project"})
        two = await replay.client.call("session/list", {"cwd": "/project"})
        assert one == two
        again = replay.client.ask("session/new", {"cwd": "/project", "mcpServers": []})
        assert "no further response" in (await replay.client.answer_to(again))["error"]["message"]


async def test_sessions_are_replayed_independently():
    builder = TraceBuilder().opened("s1")
    builder.new("s2")
    one, two = builder.prompt("s1", "one"), builder.prompt("s2", "two")
    builder.say("s1", "1").say("s2", "2")
    builder.answer("agent", one, {"stopReason": "end_turn"})
    builder.answer("agent", two, {"stopReason": "refusal"})
    async with agent_replay(builder) as replay:
        client = replay.client
        await open_session(client)
        assert (await client.call("session/new", {"cwd": "/project", "mcpServers": []}))["sessionId"] == "s2"
        assert await client.call("session/prompt", prompt_of("s2", "two")) == {"stopReason": "refusal"}
        assert await client.call("session/prompt", prompt_of("s1", "one")) == {"stopReason": "end_turn"}
        assert (await replay.disconnect()).deviations == []


async def test_a_recorded_cancellation_waits_for_the_clients_cancel():
    builder = TraceBuilder().opened("s1")
    prompt = builder.prompt("s1", "go")
    builder.say("s1", "working")
    builder.notify("client", "session/cancel", {"sessionId": "s1"})
    builder.answer("agent", prompt, {"stopReason": "cancelled"})
    clock = FakeClock()
    for cancels in (True, False):
        async with agent_replay(builder, clock=clock) as replay:
            client = replay.client
            await open_session(client)
            id = client.ask("session/prompt", prompt_of("s1"))
            await client.next("session/update")
            if cancels:
                client.notify("session/cancel", {"sessionId": "s1"})
            else:
                await clock.advance(11)  # the replay gives up waiting, so that the client gets its answer
            assert (await client.answer_to(id))["result"] == {"stopReason": "cancelled"}
            report = await replay.disconnect()
            assert report.deviations == ([] if cancels else ["the client never sent session/cancel"])


async def test_session_ids_folders_and_terminal_ids_are_translated():
    builder = TraceBuilder().opened("s1")
    load = builder.call("client", "session/load", {"sessionId": "old", "cwd": "/project", "mcpServers": []})
    builder.say("old", "history")
    builder.answer("agent", load, {})
    prompt = builder.prompt("old", "go")
    made = builder.call(
        "agent", "terminal/create", {"sessionId": "old", "command": "ls", "cwd": "/project/src"}, id=1
    )
    builder.answer("client", made, {"terminalId": "term-7"})
    wait = builder.call("agent", "terminal/wait_for_exit", {"sessionId": "old", "terminalId": "term-7"}, id=2)
    builder.answer("client", wait, {"exitCode": 0})
    builder.update(
        "old", sessionUpdate="tool_call", toolCallId="t", title="x", locations=[{"path": "/project/a"}]
    )
    builder.answer("agent", prompt, {"stopReason": "end_turn"})
    async with agent_replay(builder) as replay:
        client = replay.client
        await open_session(client, "/elsewhere")
        load_id = client.ask("session/load", {"sessionId": "mine", "cwd": "/elsewhere", "mcpServers": []})
        assert (await client.next("session/update"))["params"]["sessionId"] == "mine"
        await client.answer_to(load_id)
        client.ask("session/prompt", prompt_of("mine"))
        create = await client.next("terminal/create")
        assert (create["params"]["sessionId"], create["params"]["cwd"]) == ("mine", "/elsewhere/src")
        client.reply(create, {"terminalId": "other"})
        waiting = await client.next("terminal/wait_for_exit")
        assert waiting["params"]["terminalId"] == "other"
        client.reply(waiting, {"exitCode": 0})
        assert (await client.next("session/update"))["params"]["update"]["locations"] == [
            {"path": "/elsewhere/a"}
        ]
        await client.next()
        assert (await replay.disconnect()).deviations == []


async def test_the_recorded_pauses_are_kept_at_the_chosen_speed():
    builder = TraceBuilder().opened("s1")
    prompt = builder.prompt("s1", "go")
    builder.say("s1", "soon", 2.0).say("s1", "later", 4.0)
    builder.answer("agent", prompt, {"stopReason": "end_turn"})
    clock = FakeClock()
    async with agent_replay(builder, speed=2.0, clock=clock) as replay:
        client = replay.client
        for method, params in (
            ("initialize", INITIALIZE),
            ("session/new", {"cwd": "/project", "mcpServers": []}),
        ):
            id = client.ask(method, params)
            await clock.advance(1)
            await client.answer_to(id)
        client.ask("session/prompt", prompt_of("s1"))
        await clock.advance(0.9)
        received = len(client.received)
        await clock.advance(0.2)
        assert len(client.received) == received + 1
        await clock.advance(1.5)
        assert len(client.received) == received + 1
        await clock.advance(0.5)
        assert len(client.received) == received + 2
        await clock.advance(0.5)
        assert client.received[-1]["result"] == {"stopReason": "end_turn"}


async def test_noise_is_replayed_and_redacted_values_match_anything():
    builder = TraceBuilder()
    first = builder.call("client", "initialize", {"protocolVersion": 1, "apiKey": "hunter22"})
    builder.frame("agent", b"Welcome!")
    builder.answer("agent", first, {"protocolVersion": 1})
    theirs, ours = memory_pair()
    received: list[bytes] = []

    class ReceiverOfTwo:
        def frames(self, frames: list[Any]) -> None:
            received.extend(frames)
            if len(received) == 2:
                over.set()

        def ended(self, end: Any) -> None:
            pass

    over = asyncio.Event()
    agent = ReplayedAgent(read_script(builder.entries), theirs)
    task = asyncio.create_task(agent.play())
    ours.start(ReceiverOfTwo())
    ours.send(
        b'{"jsonrpc":"2.0","id":"x","method":"initialize","params":{"protocolVersion":1,"apiKey":"other"}}'
    )
    await over.wait()
    await ours.aclose()
    assert (await task).deviations == []
    assert received[0] == b"Welcome!"
    assert json.loads(received[1]) == {"jsonrpc": "2.0", "id": "x", "result": {"protocolVersion": 1}}


async def test_an_agent_that_exited_in_the_recording_ends_the_replay():
    builder = turn()
    builder.note("closed", "agent").note("exit", code=3)
    async with agent_replay(builder) as replay:
        client = replay.client
        await open_session(client)
        client.ask("session/prompt", prompt_of("s1"))
        client.reply(
            await client.until_method("session/request_permission"),
            {"outcome": {"outcome": "selected", "optionId": "yes"}},
        )
        await client.wait_end()
        assert (await replay.task).deviations == []


# The recorded client against a live agent.


class ClientReplay:
    """A replayed client, and the agent's end of its connection."""

    def __init__(self, builder: TraceBuilder, **more: Any) -> None:
        theirs, ours = memory_pair()
        self.agent = RawPeer(ours)
        self.outcomes: list[ReplayedCall] = []
        driver = ReplayedClient(read_script(builder.entries), theirs, **more)
        self.task = asyncio.create_task(driver.play(self.outcomes.append))

    async def answer_handshake(self, session: str = "other") -> None:
        self.agent.reply(await self.agent.next("initialize"), {"protocolVersion": 1, "agentCapabilities": {}})
        self.agent.reply(await self.agent.next("session/new"), {"sessionId": session})

    def say(self, text: str, session: str = "other") -> None:
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        self.agent.notify("session/update", {"sessionId": session, "update": update})


async def test_an_agent_that_splits_its_text_differently_matches():
    replay = ClientReplay(turn())
    await replay.answer_handshake()
    prompt = await replay.agent.next("session/prompt")
    assert prompt["params"]["sessionId"] == "other"
    replay.say("think")
    replay.say("ing")
    ask = replay.agent.ask(
        "session/request_permission",
        {"sessionId": "other", "toolCall": {"toolCallId": "z"}, "options": OPTIONS},
    )
    answer = await replay.agent.answer_to(ask)
    assert answer["result"] == {"outcome": {"outcome": "selected", "optionId": "yes"}}
    replay.say("done")
    replay.agent.reply(prompt, {"stopReason": "end_turn"})
    outcomes = await replay.task
    assert [(one.method, one.differences) for one in outcomes] == [
        ("initialize", []),
        ("session/new", []),
        ("session/prompt", []),
    ]


async def test_differences_of_the_agent_are_listed():
    replay = ClientReplay(turn())
    replay.agent.reply(
        await replay.agent.next("initialize"),
        {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}},
    )
    replay.agent.refuse(await replay.agent.next("session/new"), -32000, "sign in")
    prompt = await replay.agent.next("session/prompt")
    replay.say("something else", "s1")
    replay.agent.send("Debug: hello")
    replay.agent.reply({"id": 77}, {})
    replay.agent.reply(prompt, {"stopReason": "refusal"})
    outcomes = await replay.task
    assert [(one.method, one.differences) for one in outcomes] == [
        ("initialize", ["result.agentCapabilities.loadSession: is new, true"]),
        ("session/new", ['error: {"code":-32000,"message":"sign in"}, was a result']),
        (
            "session/prompt",
            [
                'result.stopReason: was "end_turn", is "refusal"',
                'updates[0].text: was "thinkingdone", is "something else"',
                "requests: session/request_permission is missing",
            ],
        ),
        (
            "",
            [
                "a line that is not a message: Debug: hello",
                "a response to 77, which is not a pending request",
            ],
        ),
    ]


@pytest.mark.parametrize(
    ("options", "outcome"),
    [
        ([{"optionId": "b", "name": "B", "kind": "allow_once"}], {"outcome": "selected", "optionId": "b"}),
        ([{"optionId": "yes", "name": "Yes", "kind": "allow_always"}], {"outcome": "cancelled"}),
        ([{"optionId": "no", "name": "No", "kind": "reject_once"}], {"outcome": "cancelled"}),
        ([], {"outcome": "cancelled"}),
    ],
)
async def test_a_permission_is_granted_only_for_the_recorded_option_kind(options: Any, outcome: Any):
    replay = ClientReplay(turn())
    await replay.answer_handshake()
    prompt = await replay.agent.next("session/prompt")
    params = {"sessionId": "other", "toolCall": {"toolCallId": "z"}, "options": options}
    for expected in (outcome, {"outcome": "cancelled"}):  # the second request was not recorded
        answer = await replay.agent.answer_to(replay.agent.ask("session/request_permission", params))
        assert answer["result"]["outcome"] == expected
    unknown = await replay.agent.answer_to(
        replay.agent.ask("fs/read_text_file", {"sessionId": "other", "path": "/etc/passwd"})
    )
    assert unknown["error"]["message"] == "The recording has no response to fs/read_text_file"
    replay.agent.reply(prompt, {"stopReason": "end_turn"})
    assert (await replay.task)[-1].differences


async def test_a_recorded_cancel_is_sent_after_the_same_number_of_updates():
    builder = TraceBuilder().opened("s1")
    prompt = builder.prompt("s1", "go")
    builder.say("s1", "a").say("s1", "b")
    builder.notify("client", "session/cancel", {"sessionId": "s1"})
    builder.answer("agent", prompt, {"stopReason": "cancelled"})
    replay = ClientReplay(builder)
    await replay.answer_handshake("s1")
    request = await replay.agent.next("session/prompt")
    replay.say("a", "s1")
    replay.say("b", "s1")
    await replay.agent.next("session/cancel")
    replay.agent.reply(request, {"stopReason": "cancelled"})
    assert not any(one.differences for one in await replay.task)


async def test_a_dead_or_silent_agent_ends_the_replay_with_an_error():
    replay = ClientReplay(turn())
    await replay.answer_handshake()
    await replay.agent.aclose()
    with pytest.raises(Crashed, match="the agent ended during session/prompt"):
        await replay.task
    clock = FakeClock()
    replay = ClientReplay(turn(), clock=clock)
    await replay.answer_handshake()
    await replay.agent.next("session/prompt")
    await clock.advance(61)
    with pytest.raises(RequestTimeout, match="sent nothing for 60 seconds"):
        await replay.task


@pytest.mark.parametrize("odd", [[1], {"a": 1}, 5, None, True, [[]], {"sessionUpdate": [1]}])
async def test_malformed_updates_of_the_agent_are_compared(odd: Any):
    replay = ClientReplay(turn())
    await replay.answer_handshake()
    prompt = await replay.agent.next("session/prompt")
    updates: list[Any] = [
        {"sessionUpdate": "tool_call", "toolCallId": odd, "title": odd},
        {"sessionUpdate": "tool_call_update", "toolCallId": odd, "status": odd},
        {"sessionUpdate": odd, "toolCallId": odd},
        {"sessionUpdate": "agent_message_chunk", "content": odd, "text": odd},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": odd}},
        odd,
    ]
    for update in updates:
        replay.agent.notify("session/update", {"sessionId": "other", "update": update})
    replay.agent.notify("session/update", {"sessionId": odd, "update": odd})
    replay.agent.notify("session/update", odd)
    ask = replay.agent.ask(
        "session/request_permission",
        {"sessionId": "other", "toolCall": odd, "options": [odd, {"optionId": odd, "kind": odd}]},
    )
    assert (await replay.agent.answer_to(ask))["result"] == {"outcome": {"outcome": "cancelled"}}
    replay.agent.send({"id": odd, "result": odd})
    replay.agent.send({"id": prompt["id"]})
    last = (await replay.task)[-2:]
    assert last[0].differences


async def test_unexpected_messages_are_reported_when_the_agent_falls_silent():
    clock = FakeClock()
    replay = ClientReplay(turn(), clock=clock)
    first = await replay.agent.next("initialize")
    replay.agent.send({"id": float(first["id"]), "result": {}})
    for _ in range(200):
        replay.agent.send({"id": 77, "result": {}})
    await clock.advance(61)
    with pytest.raises(RequestTimeout, match="during initialize"):
        await replay.task
    assert replay.outcomes[-1].differences[0] == "a response to 1.0, which is not a pending request"
    assert len(replay.outcomes[-1].differences) == 100


def test_an_inserted_or_missing_request_does_not_shift_the_comparison():
    assert list(order_differences(["a", "b", "c", "d"], ["a", "c", "x", "d"])) == [
        "requests: b is missing",
        "requests: x is new",
    ]
    assert list(order_differences(["a", "a"], ["a", "a"])) == []


# With real programs.


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("recorded") / "trace.jsonl"
    subprocess.run([*CLIENT, *RECORD, "-o", str(file), "--", *AGENT], check=True, capture_output=True)
    return file


def test_the_example_client_behaves_the_same_with_the_replay(example: Path, tmp_path: Path):
    report = tmp_path / "report.json"
    live = subprocess.run(CLIENT, check=True, capture_output=True, text=True)
    replayed = subprocess.run(
        [*CLIENT, *REPLAY, str(example), "--report", str(report)], check=True, capture_output=True, text=True
    )
    assert (replayed.stdout, replayed.stderr) == (live.stdout, live.stderr)
    assert json.loads(report.read_text())["deviations"] == []


def test_steps_skipped_by_a_client_that_hung_up_are_printed(example: Path):
    done = subprocess.run(
        [*REPLAY, str(example)],
        input='{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}\n',
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert json.loads(done.stdout)["id"] == 0
    assert "accord trace: the client never sent session/prompt\n" in done.stderr


def test_the_example_agent_still_matches_its_recording(example: Path, tmp_path: Path):
    done = subprocess.run(
        [*REPLAY, str(example), "--as-client", "--cwd", str(tmp_path), "--", *AGENT],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "= initialize\n= session/new\n= session/prompt\n3 calls, 3 answered as recorded\n"
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []  # no file is written: the recording answers the file requests


def test_another_agent_differs_from_the_recording(example: Path, tmp_path: Path):
    script = tmp_path / "script.json"
    script.write_text('[[{"say": "Hello"}]]')
    command = [sys.executable, "-m", "accord.testing", str(script)]
    done = subprocess.run(
        [*REPLAY, str(example), "--as-client", "--cwd", str(tmp_path), "--", *command],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert (
        '~ session/prompt\n    updates[0]: is missing, was {"sessionUpdate": "agent_thought_chunk"'
        in done.stdout
    )


@pytest.mark.parametrize(
    ("command", "code", "sentence"),
    [
        (["no-such-agent"], 3, "cannot start no-such-agent"),
        (python("raise SystemExit(5)"), 3, "exited with code 5"),
        (python("import signal; signal.pause()"), 4, "sent nothing for 0.2 seconds"),
    ],
)
def test_an_agent_that_fails_is_reported_with_an_exit_code(
    command: list[str], code: int, sentence: str, example: Path
):
    done = subprocess.run(
        [*REPLAY, str(example), "--as-client", "--timeout", "0.2", "--", *command],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
