"""An agent of version 2 at the gateway: what only version 2 can say reaches clients of version 2, live and
when they come later. Clients of version 1 beside them get what version 1 can say.
"""

from base64 import b64encode
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.gateway_harness import DrivenClient, GatewayHarness, gateway_harness, open_session
from tests.interop.test_translated_messages import faults

from accord.client.version_request import requesting
from accord.gateway.access.audit_log import AuditLog
from accord.store import MemoryStore, SharedMemory
from accord.testing.raw_peer import RawPeer
from accord.wire.envelope import Message
from accord.wire.memory_transport import memory_pair
from accord.wire.transport import Frame, Transport

REPLAY = {"replayFrom": {"type": "start"}}


class AgentV2(RawPeer):
    """An agent of version 2 that is driven message by message. Opens sessions again by itself."""

    def frames(self, frames: list[Frame]) -> None:
        before = len(self.received)
        super().frames(frames)
        for message in self.received[before:]:
            if message.get("method") == "initialize":
                info = {"name": "new", "version": "1"}
                result = {"protocolVersion": 2, "info": info, "capabilities": {"session": {}}}
                self.reply(message, result)
            elif message.get("method") == "session/resume":
                if message["params"].get("replayFrom"):
                    self.replay()
                self.state("idle")
                self.reply(message, {})

    def tell(self, kind: str, **members: Any) -> None:
        update = {"sessionUpdate": kind, **members}
        self.notify("session/update", {"sessionId": "s1", "update": update})

    def state(self, state: str, **members: Any) -> None:
        self.tell("state_update", state=state, **members)

    def replay(self) -> None:
        """Send the history after `start_work` and `end_work`, as a program that has just started."""
        self.tell("user_message", messageId="m1", content=[{"type": "text", "text": "go"}])
        output = {"data": b64("one\ntwo\n")}
        ended = {"exitStatus": {"exitCode": 0, "signal": None}}
        self.tell("terminal_update", terminalId="t1", command="make", cwd="/p", output=output, **ended)
        terminal = {"type": "terminal", "terminalId": "t1"}
        self.tell("tool_call_update", toolCallId="c1", title="Build", status="cancelled", content=[terminal])
        self.tell("agent_message", messageId="a1", content=[])
        self.tell("agent_message_chunk", messageId="a1", content={"type": "text", "text": "building"})

    async def insert_prompt(self, message_id: str = "m1") -> Message:
        """Take the next prompt into the conversation."""
        prompt = await self.until_method("session/prompt")
        self.tell("user_message", messageId=message_id, content=prompt["params"]["prompt"])
        self.reply(prompt, {"messageId": message_id})
        self.state("running")
        return prompt


class Harness:
    """A gateway with an agent of version 2."""

    def __init__(self, gateway: GatewayHarness, agents: list[AgentV2], cwd: Path) -> None:
        self.gateway = gateway
        self.agents = agents
        self.cwd = str(cwd)

    @property
    def agent(self) -> AgentV2:
        return self.agents[-1]

    async def new(self, client: DrivenClient) -> None:
        """Open the session for a client of either version."""
        asked = client.ask("session/new", {"cwd": self.cwd, "mcpServers": []})
        self.agent.reply(await self.agent.until_method("session/new"), {"sessionId": "s1"})
        await client.answer_to(asked)

    async def resume(self, client: DrivenClient, **more: Any) -> list[Any]:
        """Open the session for another client of version 2. Return the updates before the answer."""
        asked = client.ask("session/resume", {"sessionId": "s1", "cwd": self.cwd, **more})
        updates, _ = await client.updates_until(asked)
        return updates

    def prompt(self, client: DrivenClient) -> Any:
        return client.ask("session/prompt", {"sessionId": "s1", "prompt": [{"type": "text", "text": "go"}]})


@asynccontextmanager
async def harness_of(audit: AuditLog, cwd: Path, store: MemoryStore | None = None) -> AsyncGenerator[Harness]:
    agents: list[AgentV2] = []

    def start() -> Transport:
        ours, theirs = memory_pair()
        agents.append(AgentV2(theirs))
        return requesting(ours, only=True)

    async with gateway_harness(audit=audit, start=start, store=store) as gateway:
        yield Harness(gateway, agents, cwd)


def b64(text: str) -> str:
    return b64encode(text.encode()).decode()


async def shown(client: DrivenClient, wanted: Callable[[Any], bool]) -> list[Any]:
    """The updates up to the first that is wanted. Those for clients of version 2 are official."""
    updates: list[Any] = []
    while not updates or not wanted(updates[-1]):
        message = await client.until_method("session/update")
        if client.connection.translation is not None:
            assert faults(2, "UpdateSessionNotification", message["params"]) == []
        updates.append(message["params"]["update"])
    return updates


def of(kind: str, **members: Any) -> Callable[[Any], bool]:
    return lambda one: one["sessionUpdate"] == kind and members.items() <= one.items()


def texts(update: Any) -> list[str]:
    return [item["content"]["text"] for item in update["content"]]


CANCEL = {"capabilities": {"cancel": {}}}


def start_work(agent: AgentV2) -> None:
    """Show a tool call with a terminal that prints, both of which can be stopped, and background work."""
    agent.tell("terminal_update", terminalId="t1", command="make", cwd="/p", **CANCEL)
    terminal = {"type": "terminal", "terminalId": "t1"}
    agent.tell("tool_call_update", toolCallId="c1", title="Build", status="in_progress", **CANCEL)
    agent.tell("tool_call_content_chunk", toolCallId="c1", content=terminal)
    agent.tell("terminal_output_chunk", terminalId="t1", data=b64("one\n"))
    agent.tell("agent_message_chunk", messageId="a1", content={"type": "text", "text": "buildnig"})
    agent.state("running", background=[{"type": "terminal", "terminalId": "t1"}])


def end_work(agent: AgentV2) -> None:
    agent.tell("terminal_output_chunk", terminalId="t1", data=b64("two\n"))
    agent.tell("terminal_update", terminalId="t1", exitStatus={"exitCode": 0}, capabilities=None)
    agent.tell("tool_call_update", toolCallId="c1", status="cancelled", capabilities=None)
    agent.tell("agent_message", messageId="a1", content=[{"type": "text", "text": "building"}])
    agent.state("idle", stopReason="end_turn", background=[])


async def test_everything_of_version_2_reaches_a_client_of_version_2(audit: AuditLog, tmp_path: Path) -> None:
    async with harness_of(audit, tmp_path) as harness:
        client = await harness.gateway.client_v2()
        await harness.new(client)
        agent = harness.agent
        asked = harness.prompt(client)
        await agent.insert_prompt()
        assert (await client.answer_to(asked))["result"]["messageId"]
        start_work(agent)
        background = [{"type": "terminal", "terminalId": "t1"}]
        updates = await shown(client, of("state_update", background=background))
        assert any(map(of("terminal_update", terminalId="t1", command="make", **CANCEL), updates))
        assert any(map(of("tool_call_update", toolCallId="c1", **CANCEL), updates))
        terminal = {"type": "terminal", "terminalId": "t1"}
        assert any(map(of("tool_call_content_chunk", content=terminal), updates))
        assert any(map(of("terminal_output_chunk", data=b64("one\n")), updates))
        end_work(agent)
        updates = await shown(client, of("state_update", state="idle"))
        assert updates[-1] == {
            "sessionUpdate": "state_update",
            "state": "idle",
            "stopReason": "end_turn",
            "background": [],
        }
        ended = {"sessionUpdate": "terminal_update", "terminalId": "t1", "capabilities": None}
        assert {**ended, "exitStatus": {"exitCode": 0, "signal": None}} in updates
        assert any(map(of("tool_call_update", toolCallId="c1", status="cancelled"), updates))
        whole = [{"type": "text", "text": "building"}]
        assert any(map(of("agent_message", messageId="a1", content=whole), updates))


async def test_a_client_of_version_1_gets_text_and_no_update_of_accord(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with harness_of(audit, tmp_path) as harness:
        client = await harness.gateway.client()
        await harness.new(client)
        agent = harness.agent
        client.prompt("s1")
        await agent.insert_prompt()
        start_work(agent)
        end_work(agent)
        updates = await shown(client, of("tool_call_update", status="failed"))
        kinds = [update["sessionUpdate"] for update in updates]
        assert kinds[0] == "tool_call"
        assert not [kind for kind in kinds if kind.startswith("_")]
        assert [texts(update) for update in updates if update.get("content") and "toolCallId" in update] == [
            ["```\none\ntwo\n```"]
        ]
        assert kinds.count("agent_message_chunk") == 1


@pytest.mark.parametrize("restarted", [False, True], ids=["joined", "restarted"])
async def test_a_client_that_comes_later_gets_the_same(
    restarted: bool, audit: AuditLog, tmp_path: Path
) -> None:
    memory = SharedMemory()
    async with harness_of(audit, tmp_path, MemoryStore(memory)) as harness:
        client = await harness.gateway.client_v2()
        await harness.new(client)
        harness.prompt(client)
        await harness.agent.insert_prompt()
        start_work(harness.agent)
        end_work(harness.agent)
        await shown(client, of("state_update", state="idle", stopReason="end_turn"))
        if not restarted:
            await check_replay(harness)
    if restarted:
        async with harness_of(audit, tmp_path, MemoryStore(memory)) as harness:
            await check_replay(harness)


async def check_replay(harness: Harness) -> None:
    new, old = await harness.gateway.client_v2(), await harness.gateway.client()
    updates = await harness.resume(new, **REPLAY)
    for update in updates:
        assert faults(2, "UpdateSessionNotification", {"sessionId": "s1", "update": update}) == []
    output = {"data": b64("one\ntwo\n")}
    ended = {"exitCode": 0, "signal": None}
    assert any(
        map(of("terminal_update", terminalId="t1", command="make", output=output, exitStatus=ended), updates)
    )
    (call,) = [update for update in updates if of("tool_call_update", toolCallId="c1")(update)]
    assert call["status"] == "cancelled"
    assert call["content"] == [{"type": "terminal", "terminalId": "t1"}]
    users = [update for update in updates if update["sessionUpdate"].startswith("user_message")]
    assert {update["messageId"] for update in users} == {"m1"}
    said = [update for update in updates if update["sessionUpdate"].startswith("agent_message")]
    assert [update["messageId"] for update in said] == ["a1", "a1"]
    assert said[-1]["content"] == {"type": "text", "text": "building"}
    replayed, _ = await old.load("s1", harness.cwd)
    (call,) = [update for update in replayed if update["sessionUpdate"] == "tool_call"]
    assert texts(call) == ["```\none\ntwo\n```"]
    assert call["status"] == "failed"


MOVED = {"operation": "move", "oldPath": "/p/a.txt", "path": "/p/b.txt"}
MOVE = {
    "type": "diff",
    "changes": [MOVED],
    "patch": {
        "format": "git_patch",
        "text": "diff --git /p/a.txt /p/b.txt\n--- /p/a.txt\n+++ /p/b.txt\n@@ -1,1 +1,1 @@\n-old\n+new\n",
    },
    "_meta": {"by": "agent"},
}
COPY = {"type": "diff", "changes": [{"operation": "copy", "oldPath": "/p/b.txt", "path": "/p/c.txt"}]}
IMAGE = {"type": "diff", "changes": [{"operation": "add", "path": "/p/d.png", "mimeType": "image/png"}]}


async def test_a_status_and_a_change_that_version_1_cannot_say_stay_the_same(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with harness_of(audit, tmp_path) as harness:
        client = await harness.gateway.client_v2()
        await harness.new(client)
        agent = harness.agent
        harness.prompt(client)
        await agent.insert_prompt()
        agent.tell("tool_call_update", toolCallId="c1", title="Move", status="in_progress")
        agent.tell("tool_call_update", toolCallId="c1", status="paused", _meta={"why": "lunch"})
        (*_, call) = await shown(client, of("tool_call_update", status="paused"))
        assert call["_meta"] == {"why": "lunch"}
        content = [MOVE, COPY, IMAGE]
        agent.tell("tool_call_update", toolCallId="c1", content=content)
        (*_, call) = await shown(client, lambda update: "content" in update)
        assert call["content"] == content
        later = await harness.gateway.client_v2()
        (call,) = [one for one in await harness.resume(later, **REPLAY) if "toolCallId" in one]
        assert (call["status"], call["content"], call["_meta"]) == ("paused", content, {"why": "lunch"})
        agent.tell("tool_call_update", toolCallId="c1", status="in_progress")
        (*_, call) = await shown(client, of("tool_call_update", status="in_progress"))
        assert "_meta" not in call
        last = await harness.gateway.client_v2()
        (call,) = [one for one in await harness.resume(last, **REPLAY) if "toolCallId" in one]
        assert call["status"] == "in_progress"


async def test_a_client_that_comes_during_the_work_can_stop_it(audit: AuditLog, tmp_path: Path) -> None:
    async with harness_of(audit, tmp_path) as harness:
        first, second = await harness.gateway.client_v2(), await harness.gateway.client_v2()
        await harness.new(first)
        agent = harness.agent
        harness.prompt(first)
        await agent.insert_prompt()
        start_work(agent)
        background = [{"type": "terminal", "terminalId": "t1"}]
        await shown(first, of("state_update", background=background))
        updates = await harness.resume(second, **REPLAY)
        assert any(map(of("tool_call_update", toolCallId="c1", **CANCEL), updates))
        assert any(map(of("terminal_update", terminalId="t1", output={"data": b64("one\n")}), updates))
        assert updates[-1] == {
            "sessionUpdate": "state_update",
            "state": "running",
            "background": background,
        }
        for method, member, id in (
            ("tool_call/cancel", "toolCallId", "c1"),
            ("terminal/cancel", "terminalId", "t1"),
        ):
            asked = second.ask(method, {"sessionId": "s1", member: id})
            request = await agent.until_method(method)
            assert request["params"] == {"sessionId": "s1", member: id}
            agent.reply(request, {})
            assert (await second.answer_to(asked))["result"] == {}
        refused = second.ask("tool_call/cancel", {"sessionId": "s1", "toolCallId": "c9"})
        agent.refuse(await agent.until_method("tool_call/cancel"), -32602)
        assert (await second.answer_to(refused))["error"]["code"] == -32602
        end_work(agent)
        for client in (first, second):
            await shown(client, of("state_update", state="idle", stopReason="end_turn", background=[]))


async def test_a_prompt_is_answered_when_the_agent_has_it(audit: AuditLog, tmp_path: Path) -> None:
    async with harness_of(audit, tmp_path) as harness:
        client = await harness.gateway.client_v2()
        await harness.new(client)
        agent = harness.agent
        asked = harness.prompt(client)
        prompt = await agent.until_method("session/prompt")
        agent.tell("user_message", messageId="m1", content=prompt["params"]["prompt"])
        assert (await client.answer_to(asked))["result"]["messageId"] == "m1"
        agent.reply(prompt, {"messageId": "m1"})
        # A hook of the agent changes the message: it keeps the id that clients know.
        agent.tell("user_message", messageId="m1", content=[{"type": "text", "text": "go on"}])
        agent.state("running")
        agent.state("idle", stopReason="refusal")
        updates = await shown(client, of("state_update", state="idle", stopReason="refusal"))
        changed = [update for update in updates if update["sessionUpdate"] == "user_message"]
        assert [update["messageId"] for update in changed] == ["m1"]
        later = await harness.gateway.client_v2()
        replayed = await harness.resume(later, **REPLAY)
        users = [update for update in replayed if update["sessionUpdate"].startswith("user_message")]
        assert {update["messageId"] for update in users} == {"m1"}
        assert users[-1]["content"] == {"type": "text", "text": "go on"}


async def test_work_that_no_prompt_asked_for_is_a_turn(audit: AuditLog, tmp_path: Path) -> None:
    async with harness_of(audit, tmp_path) as harness:
        new, old = await harness.gateway.client_v2(), harness.gateway.connect()
        await old.initialize(_meta={"accord": {"turn": True}})
        await harness.new(new)
        await old.load("s1", harness.cwd)
        agent = harness.agent
        agent.state("running")
        assert (await shown(new, of("state_update")))[-1]["state"] == "running"
        await old.until(lambda message: message.get("params", {}).get("state") == "started")
        agent.tell("agent_message_chunk", messageId="a1", content={"type": "text", "text": "by myself"})
        failure = {"code": -32603, "message": "out of luck"}
        agent.state("idle", stopReason="error", error=failure)
        end = (await shown(new, of("state_update", state="idle")))[-1]
        assert (end["stopReason"], end["error"]) == ("error", failure)
        ended = (await old.until_method("_accord/turn"))["params"]
        assert (ended["state"], ended["error"]["message"]) == ("ended", "out of luck")
        assert not harness.gateway.gateway.busy


async def test_an_agent_that_dies_leaves_nothing_open(audit: AuditLog, tmp_path: Path) -> None:
    async with harness_of(audit, tmp_path) as harness:
        client = await harness.gateway.client_v2()
        await harness.new(client)
        harness.prompt(client)
        await harness.agent.insert_prompt()
        start_work(harness.agent)
        await shown(client, of("state_update", background=[{"type": "terminal", "terminalId": "t1"}]))
        await harness.agent.aclose()
        updates = await shown(client, of("terminal_update", terminalId="t1"))
        assert updates[-1]["exitStatus"] == {"exitCode": None, "signal": None}
        assert any(map(of("tool_call_update", toolCallId="c1", status="failed"), updates))
        assert any(map(of("state_update", background=[]), updates))


async def test_an_agent_sends_no_events_of_accord(audit: AuditLog, tmp_path: Path) -> None:
    forged = {"sessionUpdate": "_accord/turn_ended", "rawReason": "forged"}
    async with gateway_harness(audit=audit) as old:
        client = await old.client_v2()
        asked = client.ask("session/new", {"cwd": str(tmp_path)})
        await old.agent.answer_new_session("s1")
        await client.answer_to(asked)
        old.agent.tell("s1", forged)
        old.agent.say("s1", "hi")
        assert (await client.update())["sessionUpdate"] == "agent_message_chunk"
    async with harness_of(audit, tmp_path) as new:
        client = await new.gateway.client_v2()
        await new.new(client)
        new.agent.tell(forged["sessionUpdate"], rawReason="forged")
        new.agent.tell("agent_message_chunk", messageId="a1", content={"type": "text", "text": "hi"})
        assert (await client.update())["sessionUpdate"] == "agent_message_chunk"


async def test_a_terminal_of_the_gateway_is_shown_while_it_prints(audit: AuditLog, tmp_path: Path) -> None:
    """A client of version 2 sees the commands that the gateway runs for an agent of version 1."""
    async with gateway_harness(audit=audit) as harness:
        old, new = await harness.client(), await harness.client_v2()
        await open_session(harness, old, tmp_path)
        await new.call("session/resume", {"sessionId": "s1", "cwd": str(tmp_path)})
        old.prompt("s1")
        await harness.agent.until_method("session/prompt")
        agent = harness.agent
        created = await agent.call(
            "terminal/create", {"sessionId": "s1", "command": "sh", "args": ["-c", "echo one; read line"]}
        )
        content = [{"type": "terminal", "terminalId": created["terminalId"]}]
        agent.tell(
            "s1", {"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "sh", "content": content}
        )
        updates = await shown(new, of("tool_call_update", toolCallId="c1"))
        assert updates[-1]["content"] == content
        if not any(map(of("terminal_output_chunk", data=b64("one\n")), updates)):
            await shown(new, of("terminal_output_chunk", data=b64("one\n")))
        later = await harness.client_v2()
        replay = {"sessionId": "s1", "cwd": str(tmp_path), **REPLAY}
        replayed, _ = await later.updates_until(later.ask("session/resume", replay))
        assert any(map(of("terminal_update", output={"data": b64("one\n")}), replayed))
        await agent.call("terminal/kill", {"sessionId": "s1", **content[0]})
        await agent.call("terminal/release", {"sessionId": "s1", **content[0]})
        ended = (await shown(new, of("terminal_update")))[-1]
        assert "exitStatus" in ended


async def test_initialize_may_be_repeated_until_the_first_other_request(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with harness_of(audit, tmp_path) as harness:
        client = await harness.gateway.client_v2()
        info = {"name": "v2", "version": "2"}
        form = {"elicitation": {"form": {}}}
        again = {"protocolVersion": 2, "info": info, "capabilities": form}
        assert (await client.call("initialize", again))["protocolVersion"] == 2
        await harness.new(client)
        assert (await client.error("initialize", again))["code"] == -32600
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        question = {"mode": "form", "message": "Who?", "requestedSchema": schema, "sessionId": "s1"}
        harness.prompt(client)
        await harness.agent.insert_prompt()
        asked = harness.agent.ask("elicitation/create", question)
        client.reply(await client.until_method("elicitation/create"), {"action": "decline"})
        assert (await harness.agent.answer_to(asked))["result"] == {"action": "decline"}


async def test_a_permission_request_for_a_command_stays_one(audit: AuditLog, tmp_path: Path) -> None:
    async with harness_of(audit, tmp_path) as harness:
        new, old = await harness.gateway.client_v2(), await harness.gateway.client()
        await harness.new(new)
        await old.load("s1", harness.cwd)
        harness.prompt(new)
        await harness.agent.insert_prompt()
        params = {
            "sessionId": "s1",
            "title": "Run it",
            "description": "It removes the build folder.",
            "subject": {"type": "command", "command": "rm -r build", "cwd": "/p"},
            "options": [{"optionId": "yes", "name": "Allow", "kind": "allow_once"}],
        }
        asked = harness.agent.ask("session/request_permission", params)
        question = await new.until_method("session/request_permission")
        assert question["params"] == params
        shown = (await old.until_method("session/request_permission"))["params"]["toolCall"]
        assert (shown["kind"], shown["rawInput"]["command"]) == ("execute", "rm -r build")
        new.reply(question, {"outcome": {"outcome": "selected", "optionId": "yes"}})
        answer = await harness.agent.answer_to(asked)
        assert answer["result"]["outcome"] == {"outcome": "selected", "optionId": "yes"}
