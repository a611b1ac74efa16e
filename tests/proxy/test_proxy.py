"""A proxy with middlewares: what hooks change, what passes as it came, and in which order."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.patience import PATIENCE

from accord.errors import AccordError, InvalidRequest, UsageError
from accord.proxy import CallNext, Middleware, Proxy, hook
from accord.schema import (
    AgentMessageChunk,
    PromptRequest,
    PromptResponse,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SelectedPermissionOutcome,
    SessionNotification,
    TextContent,
)
from accord.testing.raw_peer import RawPeer, raw_pair
from accord.wire.memory_transport import memory_pair

Prompting = CallNext[PromptRequest, PromptResponse]


class Signed(Middleware):
    """Adds a block to each prompt, and a sign to each chunk of text."""

    def __init__(self, sign: str) -> None:
        self.sign = sign

    async def prompt(self, request: PromptRequest, call_next: Prompting) -> PromptResponse:
        request.prompt.append(TextContent(self.sign))
        return await call_next(request)

    def update(self, notification: SessionNotification) -> SessionNotification | None:
        update = notification.update
        if isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContent):
            if update.content.text == "secret":
                return None
            update.content.text += self.sign
        return notification


class Waiting(Middleware):
    """Hooks that wait until the test lets them go on."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.go = asyncio.Event()

    async def pause(self) -> None:
        self.entered.set()
        await self.go.wait()


class WaitingPrompt(Waiting):
    async def prompt(self, request: PromptRequest, call_next: Prompting) -> PromptResponse:
        await self.pause()
        return await call_next(request)


class WaitingUpdate(Waiting):
    async def update(self, notification: SessionNotification) -> SessionNotification | None:
        await self.pause()
        return notification


class WaitingPermission(Waiting):
    async def permission(
        self,
        request: RequestPermissionRequest,
        call_next: CallNext[RequestPermissionRequest, RequestPermissionResponse],
    ) -> RequestPermissionResponse:
        await self.pause()
        return RequestPermissionResponse(SelectedPermissionOutcome(request.options[0].option_id))


class Chain:
    """A client and an agent with a proxy between them."""

    def __init__(self, client: RawPeer, agent: RawPeer, reports: list[str]) -> None:
        self.client = client
        self.agent = agent
        self.reports = reports


@asynccontextmanager
async def proxied(*middlewares: Middleware) -> AsyncGenerator[Chain]:
    (to_client, client), (to_agent, agent) = raw_pair(), raw_pair()
    reports: list[str] = []
    running = asyncio.ensure_future(Proxy(to_client, to_agent, middlewares, report=reports.append).run())
    try:
        async with asyncio.timeout(PATIENCE):
            yield Chain(client, agent, reports)
            await agent.aclose()
            await running
    finally:
        running.cancel()


def prompt(text: str = "hello", **members: Any) -> dict[str, Any]:
    return {"sessionId": "s", "prompt": [{"type": "text", "text": text, "vendor": [1]}], **members}


def chunk(text: str, session: str = "s") -> dict[str, Any]:
    content = {"type": "text", "text": text}
    return {"sessionId": session, "update": {"sessionUpdate": "agent_message_chunk", "content": content}}


def permission() -> dict[str, Any]:
    options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
    return {"sessionId": "s", "toolCall": {"toolCallId": "t", "title": "rm"}, "options": options}


def texts(messages: list[Any]) -> list[str]:
    return [message["params"]["update"]["content"]["text"] for message in messages]


async def test_hooks_change_prompts_and_updates_and_keep_what_has_no_type() -> None:
    async with proxied(Signed(" [1]"), Signed(" [2]")) as chain:
        id = chain.client.ask("session/prompt", prompt(_meta={"trace": 1}, vendor={"a": None}))
        request = await chain.agent.next("session/prompt")
        assert request == {
            "jsonrpc": "2.0",
            "id": id,
            "method": "session/prompt",
            "params": prompt(_meta={"trace": 1}, vendor={"a": None})
            | {
                "prompt": [
                    {"type": "text", "text": "hello", "vendor": [1]},
                    {"type": "text", "text": " [1]"},
                    {"type": "text", "text": " [2]"},
                ]
            },
        }
        for text in ("a", "secret", "b"):
            chain.agent.notify("session/update", chunk(text))
        chain.agent.reply(request, {"stopReason": "end_turn", "extra": 5})
        # Updates meet the middleware next to the agent first.
        assert texts([await chain.client.next("session/update") for _ in range(2)]) == [
            "a [2] [1]",
            "b [2] [1]",
        ]
        assert (await chain.client.answer_to(id))["result"] == {"stopReason": "end_turn", "extra": 5}


@pytest.mark.parametrize(
    "frame",
    [
        b'{"jsonrpc": "2.0",  "method":"session/update","params":{"sessionId":"s","update":'
        b'{"sessionUpdate":"agent_message_chunk","content":{"type":"image","mimeType":"x","data":"","new":1.50}}}}',
        b'{"jsonrpc":"2.0","method":"_vendor/event","params":{"n":1e3},"_meta":{}}',
        b'{"jsonrpc":"2.0","id":9,"result":{}}',
        b"not JSON at all",
        b"[]",
    ],
)
async def test_what_no_hook_changes_passes_byte_for_byte(frame: bytes) -> None:
    class Frames(asyncio.Queue[Any]):
        def frames(self, frames: list[Any]) -> None:
            for received in frames:
                self.put_nowait(received)

        def ended(self, end: Any) -> None:
            pass

    received = Frames()
    (client, near_client), (to_agent, agent) = memory_pair(), raw_pair()
    near_client.start(received)
    running = asyncio.ensure_future(Proxy(client, to_agent, [Signed("!")]).run())
    agent.send(frame)
    assert await asyncio.wait_for(received.get(), PATIENCE) == frame
    await agent.aclose()
    await asyncio.wait_for(running, PATIENCE)


async def test_messages_of_a_session_wait_for_a_hook_and_others_pass() -> None:
    waiting = WaitingPrompt()
    async with proxied(waiting) as chain:
        chain.client.ask("session/prompt", prompt())
        await waiting.entered.wait()
        chain.client.ask("session/set_mode", {"sessionId": "s", "modeId": "m"})
        chain.client.ask("session/set_mode", {"sessionId": "other", "modeId": "m"})
        assert (await chain.agent.next())["params"]["sessionId"] == "other"
        waiting.go.set()
        assert [(await chain.agent.next())["method"] for _ in range(2)] == [
            "session/prompt",
            "session/set_mode",
        ]


async def test_a_response_waits_for_the_updates_before_it() -> None:
    waiting = WaitingUpdate()
    async with proxied(waiting, Signed("!")) as chain:
        id = chain.client.ask("session/prompt", prompt())
        request = await chain.agent.next("session/prompt")
        chain.agent.notify("session/update", chunk("first"))
        await waiting.entered.wait()
        chain.agent.reply(request, {"stopReason": "end_turn"})
        chain.agent.notify("session/update", chunk("after the turn"))
        waiting.go.set()
        messages = [await chain.client.next() for _ in range(3)]
        assert [message.get("method", message.get("id")) for message in messages] == [
            "session/update",
            id,
            "session/update",
        ]


async def test_cancel_ends_a_hook_before_the_agent_got_the_prompt() -> None:
    waiting = WaitingPrompt()
    async with proxied(waiting) as chain:
        id = chain.client.ask("session/prompt", prompt())
        await waiting.entered.wait()
        chain.client.notify("session/cancel", {"sessionId": "s"})
        assert (await chain.client.answer_to(id))["result"] == {"stopReason": "cancelled"}
        assert (await chain.agent.next())["method"] == "session/cancel"
        id = chain.client.ask("session/prompt", prompt())
        chain.client.notify("$/cancel_request", {"requestId": id})
        assert (await chain.client.answer_to(id))["error"]["code"] == -32800


async def test_cancel_of_a_forwarded_prompt_and_of_a_waiting_permission() -> None:
    waiting = WaitingPermission()
    async with proxied(waiting, Signed("!")) as chain:
        id = chain.client.ask("session/prompt", prompt())
        request = await chain.agent.next("session/prompt")
        question = chain.agent.ask("session/request_permission", permission())
        await waiting.entered.wait()
        chain.client.notify("session/cancel", {"sessionId": "s"})
        chain.client.notify("$/cancel_request", {"requestId": id})
        messages = [await chain.agent.next() for _ in range(3)]
        assert [message["method"] for message in messages if "method" in message] == [
            "session/cancel",
            "$/cancel_request",
        ]
        assert [message["result"] for message in messages if message.get("id") == question] == [
            {"outcome": {"outcome": "cancelled"}}
        ]
        chain.agent.refuse(request, -32800, "stopped", data={"why": "user"})
        error = (await chain.client.answer_to(id))["error"]
        assert error == {"code": -32800, "message": "stopped", "data": {"why": "user"}}


async def test_a_hook_answers_a_permission_and_the_user_is_not_asked() -> None:
    waiting = WaitingPermission()
    waiting.go.set()
    async with proxied(waiting) as chain:
        # Another name of the same method, which some agents use, has the same hooks.
        for method in ("session/request_permission", "request_permission"):
            answer = await chain.agent.call(method, permission())
            assert answer == {"outcome": {"outcome": "selected", "optionId": "yes"}}


async def test_hooks_see_version_1_whatever_the_client_asks_for() -> None:
    params = {"protocolVersion": 2, "info": {"name": "c", "version": "1"}, "clientCapabilities": {}}
    for middlewares, version in (((), 2), ((WaitingPermission(),), 1)):
        async with proxied(*middlewares) as chain:
            chain.client.ask("initialize", params)
            asked = await chain.agent.until_method("initialize")
            assert asked["params"] == {**params, "protocolVersion": version}


@pytest.mark.parametrize(
    "changed",
    [
        (b'"session/request_permission"', b'"session\\/request\\u005fpermission"'),
        (b'"id"', b'"i\\u0064"'),
        (b'"jsonrpc"', b'"method":"session/update","jsonrpc"'),
    ],
)
async def test_a_permission_request_in_another_spelling_reaches_its_hook(
    changed: tuple[bytes, bytes],
) -> None:
    waiting = WaitingPermission()
    waiting.go.set()
    message = {"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": permission()}
    async with proxied(waiting) as chain:
        chain.agent.send(json.dumps(message).encode().replace(*changed))
        answer = await chain.agent.answer_to(7)
        assert answer["result"] == {"outcome": {"outcome": "selected", "optionId": "yes"}}


class Failing(Middleware):
    def __init__(self, fail: Callable[[], Any]) -> None:
        self.fail = fail

    async def prompt(self, request: PromptRequest, call_next: Prompting) -> PromptResponse:
        return self.fail()

    def update(self, notification: SessionNotification) -> SessionNotification | None:
        return self.fail()


def divide() -> Any:
    return 1 // 0


def refuse() -> Any:
    raise InvalidRequest("not today")


@pytest.mark.parametrize(
    ("fail", "code", "report"),
    [
        (divide, -32603, "Failing.prompt failed: ZeroDivisionError: integer division or modulo by zero"),
        (lambda: None, -32603, "session/prompt failed: a middleware returned an invalid value: "),
        (object, -32603, "session/prompt failed: a middleware returned an invalid value: "),
        (refuse, -32600, None),
    ],
)
async def test_an_error_in_a_hook_is_one_line_and_an_answer(
    fail: Callable[[], Any], code: int, report: str | None
) -> None:
    async with proxied(Failing(fail)) as chain:
        id = chain.client.ask("session/prompt", prompt())
        assert (await chain.client.answer_to(id))["error"]["code"] == code
        assert [line.startswith(report or "") for line in chain.reports] == [True] * (report is not None)
        assert all("\n" not in line for line in chain.reports)


async def test_a_failed_update_is_dropped_and_reported_and_the_next_message_passes() -> None:
    async with proxied(Failing(divide)) as chain:
        chain.agent.notify("session/update", chunk("a"))
        chain.agent.notify("_vendor/event", {})
        assert (await chain.client.next())["method"] == "_vendor/event"
        assert chain.reports == [
            "Failing.update failed: ZeroDivisionError: integer division or modulo by zero; "
            "the session/update was dropped"
        ]


class Asking(Middleware):
    """Sends own messages, answers a vendor's method, and repeats a prompt."""

    async def prompt(self, request: PromptRequest, call_next: Prompting) -> PromptResponse:
        file = await self.peers.ask_client(
            "fs/read_text_file", {"sessionId": request.session_id, "path": "/a"}
        )
        request.prompt.append(TextContent(file.content))
        self.peers.notify_client("session/update", chunk("reading"))
        await call_next(request)
        return await call_next(request)

    @hook("_vendor/name", to="agent")
    async def name(self, params: Any, call_next: CallNext[Any, Any]) -> Any:
        return {"name": params["id"]}


async def test_a_middleware_sends_own_messages_and_may_repeat_a_request() -> None:
    async with proxied(Asking()) as chain:
        id = chain.client.ask("session/prompt", prompt())
        question = await chain.client.next("fs/read_text_file")
        chain.client.reply(question, {"content": "the file"})
        assert texts([await chain.client.next("session/update")]) == ["reading"]
        first = await chain.agent.next("session/prompt")
        chain.agent.reply(first, {"stopReason": "max_tokens"})
        second = await chain.agent.next("session/prompt")
        assert second["id"] != first["id"] == id
        assert second["params"] == first["params"]
        chain.client.notify("$/cancel_request", {"requestId": id})
        assert (await chain.agent.next("$/cancel_request"))["params"] == {"requestId": second["id"]}
        chain.agent.reply(second, {"stopReason": "end_turn"})
        assert (await chain.client.answer_to(id))["result"] == {"stopReason": "end_turn"}
        assert await chain.client.call("_vendor/name", {"id": 5}) == {"name": 5}


async def test_the_end_of_the_agent_answers_hooks_and_ends_the_client() -> None:
    async with proxied(Signed("!")) as chain:
        id = chain.client.ask("session/prompt", prompt())
        await chain.agent.next("session/prompt")
        await chain.agent.aclose()
        assert "session/prompt was not answered" in (await chain.client.answer_to(id))["error"]["data"]
        await chain.client.wait_end()
        assert chain.reports == []


async def test_a_client_that_reads_nothing_pauses_the_agent() -> None:
    (to_client, client), (to_agent, agent) = raw_pair(), raw_pair()
    running = asyncio.ensure_future(Proxy(to_client, to_agent, [Signed("!")]).run())
    client_transport = client._transport  # pyright: ignore[reportPrivateUsage]
    client_transport.pause()
    frames = 0
    while to_client.unsent < 256 * 1024:
        agent.notify("session/update", chunk("x" * 10_000))
        frames += 1
        await asyncio.sleep(0)
    unsent = to_client.unsent
    for _ in range(50):
        agent.notify("session/update", chunk("x" * 10_000))
        await asyncio.sleep(0)
    assert to_client.unsent <= unsent + 2 * 10_200, "the proxy reads on only when the client does"
    client_transport.resume()
    for _ in range(frames + 50):
        await client.next("session/update")
    await agent.aclose()
    await asyncio.wait_for(running, PATIENCE)


def test_a_method_that_looks_like_a_hook_but_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match=r"Rules\.request_permission is no hook; .* permission, read_file"):

        class Rules(Middleware):  # pyright: ignore[reportUnusedClass]
            async def request_permission(self, request: Any, call_next: Any) -> Any:
                return await call_next(request)


def test_cancellations_have_no_hooks() -> None:
    with pytest.raises(UsageError, match="cancellations always pass"):
        hook("session/cancel", to="agent", notification=True)


async def test_a_request_to_a_peer_that_ended_fails() -> None:
    asking = Asking()
    async with proxied(asking) as chain:
        await chain.agent.aclose()
        with pytest.raises(AccordError):
            await asking.peers.ask_agent("session/list", {})
