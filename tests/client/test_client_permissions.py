"""Permission requests: shown, decided by a handler, answered once, never approved by accident."""

import asyncio

import pytest
from tests.client.raw_agent import YES_NO, EventCollector, both, connected, in_session, kinds, options

from accord.client import ClientHandlers, ClientOptions, allow_all, allow_reads, reject_all
from accord.session import PermissionAnswered, PermissionAsked
from accord.testing.fake_clock import settle

CANCELLED = {"outcome": {"outcome": "cancelled"}}


def selected(option_id):
    return {"outcome": {"outcome": "selected", "optionId": option_id}}


def question(offered=YES_NO, session_id="s1", **call):
    return {"sessionId": session_id, "toolCall": {"toolCallId": "c1", **call}, "options": offered}


async def decide(handler, offered=YES_NO, **call):
    """The client's answer when this handler decides."""
    async with in_session(handlers=ClientHandlers(permissions=handler)) as (_, peer):
        return await peer.result_of("session/request_permission", question(offered, **call))


@pytest.mark.rule("permission.served")
async def test_without_a_handler_every_request_is_rejected():
    async with in_session() as (_, peer):
        assert await peer.result_of("session/request_permission", question()) == selected("no")
        assert await peer.result_of("session/request_permission", question([])) == CANCELLED
        only_yes = options("y:allow_once", "a:allow_always", "n:reject_always")
        assert await peer.result_of("session/request_permission", question(only_yes)) == CANCELLED


@pytest.mark.rule("permission.offered-option")
@pytest.mark.dialect(27)
async def test_a_handler_returns_an_offered_option_or_its_id():
    odd = options("x 1:allow_once", "ü:reject_once")
    assert await decide(lambda request: "x 1", odd) == selected("x 1")
    assert await decide(lambda request: request.options[1], odd) == selected("ü")

    async def later(request):
        decided = asyncio.Event()
        asyncio.get_running_loop().call_soon(decided.set)
        await decided.wait()
        return request.options[0].option_id

    assert await decide(later, odd) == selected("x 1")


@pytest.mark.rule("permission.offered-option")
@pytest.mark.dialect(75)
@pytest.mark.parametrize("name", ["iac-code", "another-agent"])
async def test_an_agent_that_runs_every_selected_option_gets_a_rejection_as_cancelled(name):
    handlers = ClientHandlers(permissions=lambda request: request.call.title)
    info = {"name": name, "version": "0.16.0"}
    async with connected(handlers=handlers, agentInfo=info) as (agent, peer):
        session, _ = await both(agent.new_session("/project"), peer.open("s1"))
        events = EventCollector(session.events())
        ran = {
            choice: (await peer.result_of("session/request_permission", question(title=choice)))["outcome"]
            for choice in ("no", "yes")
        }
        await settle()
        answers = [
            event.option.kind
            for event in events.events
            if isinstance(event, PermissionAnswered) and event.option
        ]
        await events.cancel()
    rejection = CANCELLED if name == "iac-code" else selected("no")
    assert ran == {"no": rejection["outcome"], "yes": selected("yes")["outcome"]}
    assert answers == ["reject_once", "allow_once"]  # what the user chose


@pytest.mark.parametrize("wrong", ["nope", "", "allow_once", True, 1, {"optionId": "yes"}, ["yes"], object()])
async def test_an_answer_that_is_not_an_offered_option_denies(wrong):
    assert await decide(lambda request: wrong) == CANCELLED


@pytest.mark.parametrize("policy", [reject_all, allow_reads, allow_all, lambda request: request.options[1]])
async def test_an_option_id_shared_by_two_options_selects_neither(policy):
    duplicates = options("x:allow_once", "x:reject_once")
    assert await decide(policy, duplicates, kind="read") == CANCELLED
    assert await decide(policy, duplicates, kind="execute") == CANCELLED


async def test_a_handler_that_returns_none_denies():
    assert await decide(lambda request: None) == CANCELLED


async def test_a_failing_handler_denies_and_is_reported():
    reports: list[str] = []

    def broken(_request):
        raise RuntimeError("no screen")

    async def fails_later(_request):
        raise RuntimeError("no screen any more")

    async def cancels_itself(_request):
        raise asyncio.CancelledError

    for handler in (broken, fails_later, cancels_itself):
        opts = ClientOptions(observer=lambda report: reports.append(report.detail))
        async with in_session(handlers=ClientHandlers(permissions=handler), options=opts) as (_, peer):
            assert await peer.result_of("session/request_permission", question()) == CANCELLED
    assert [line for line in reports if "no screen" in line] == [
        "the permission handler raised RuntimeError: no screen",
        "the permission handler raised RuntimeError: no screen any more",
    ]


@pytest.mark.rule("permission.concurrent")
async def test_several_requests_at_once_are_answered_in_any_order():
    waiting: dict[str, asyncio.Future[str]] = {}

    async def ask(request):
        waiting[request.call.tool_call_id] = asyncio.get_running_loop().create_future()
        return await waiting[request.call.tool_call_id]

    async with in_session(handlers=ClientHandlers(permissions=ask)) as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        one = peer.ask(
            "session/request_permission", question(title="One") | {"toolCall": {"toolCallId": "1"}}, id=0
        )
        two = peer.ask("session/request_permission", question() | {"toolCall": {"toolCallId": "2"}}, id="two")
        await settle()
        assert len(session.state.permissions) == 2
        waiting["2"].set_result("yes")
        assert (await peer.next())["id"] == two
        waiting["1"].set_result("never")
        first = await peer.next()
        assert first == {"jsonrpc": "2.0", "id": one, "result": selected("never")}
        peer.reply(prompt, {"stopReason": "end_turn"})
        events = await turn.end()
    assert kinds(events) == [
        "TurnStarted",
        "PermissionAsked",
        "PermissionAsked",
        "PermissionAnswered",
        "PermissionAnswered",
        "TurnEnded",
    ]
    answered = [event for event in events if isinstance(event, PermissionAnswered)]
    assert [event.option.option_id for event in answered if event.option] == ["yes", "never"]


async def test_a_request_shows_the_current_state_of_its_tool_call():
    asked: list[object] = []

    def remember(request):
        asked.append((request.call.title, request.call.kind, request.call.status, len(request.call.content)))

    async with in_session(handlers=ClientHandlers(permissions=remember)) as (session, peer):
        peer.update("s1", "tool_call", toolCallId="c1", title="Edit a.py", kind="edit")
        diff = {"type": "diff", "path": "/project/a.py", "oldText": "a", "newText": "b"}
        await peer.result_of("session/request_permission", question(content=[diff]))
        await peer.result_of(
            "session/request_permission",
            {"sessionId": "s1", "toolCall": {"toolCallId": "other/c9", "title": "New"}, "options": YES_NO},
        )
        assert session.state.tool_calls["c1"].title == "Edit a.py"
    assert asked == [("Edit a.py", "edit", "pending", 1), ("New", "other", "pending", 0)]


@pytest.mark.rule("accord.only-official-read-kind")
async def test_allow_reads_approves_only_official_read_kinds_once():
    assert await decide(allow_reads, kind="read") == selected("yes")
    assert await decide(allow_reads, kind="search") == selected("yes")
    for kind in ("edit", "delete", "execute", "fetch", "other", "switch_mode"):
        assert await decide(allow_reads, kind=kind) == selected("no")
    assert await decide(allow_reads) == selected("no")


@pytest.mark.rule("accord.only-official-read-kind")
@pytest.mark.dialect(16, 73)
@pytest.mark.parametrize("kind", ["file", "Read", "READ", "read_file", "search ", 5, None, ["read"]])
async def test_a_repaired_kind_is_not_approved(kind):
    assert await decide(allow_reads, kind=kind) == selected("no")


@pytest.mark.rule("accord.only-official-read-kind")
async def test_the_announced_kind_counts_unless_the_request_has_another():
    async with in_session(handlers=ClientHandlers(permissions=allow_reads)) as (_, peer):
        peer.update("s1", "tool_call", toolCallId="c1", title="Read a.py", kind="read")
        assert await peer.result_of("session/request_permission", question()) == selected("yes")
        assert await peer.result_of("session/request_permission", question(kind="file")) == selected("no")
        assert await peer.result_of("session/request_permission", question(kind="execute")) == selected("no")
        peer.update("s1", "tool_call", toolCallId="c2", title="Read b.py", kind="file")
        repaired = question() | {"toolCall": {"toolCallId": "c2"}}
        assert await peer.result_of("session/request_permission", repaired) == selected("no")


@pytest.mark.rule("accord.only-official-read-kind")
async def test_automatic_approval_never_selects_allow_always_or_a_repaired_option():
    always = options("always:allow_always", "no:reject_once")
    assert await decide(allow_reads, always, kind="read") == selected("no")
    assert await decide(allow_all, always) == selected("no")
    assert await decide(allow_all) == selected("yes")
    spelled = options("y:allowOnce", "n:reject_once")
    assert await decide(allow_all, spelled) == selected("n")
    assert await decide(allow_reads, spelled, kind="read") == selected("n")


async def test_a_custom_handler_can_use_the_ready_made_ones():
    def only_tests(request):
        return allow_all(request) if request.call.title.startswith("pytest") else reject_all(request)

    assert await decide(only_tests, title="pytest -x") == selected("yes")
    assert await decide(only_tests, title="rm -rf /") == selected("no")


@pytest.mark.rule("accord.client-unknown-session")
async def test_a_request_for_an_unknown_session_is_refused_without_asking():
    async with in_session(handlers=ClientHandlers(permissions=_must_not_be_asked)) as (_, peer):
        error = await peer.error_of("session/request_permission", question(session_id="nope", kind="read"))
        assert (error["code"], error["data"]) == (-32002, {"sessionId": "nope"})


def _must_not_be_asked(_request):
    raise AssertionError


@pytest.mark.rule("framing.client-invalid-params", "framing.client-error-members")
@pytest.mark.parametrize(
    "broken",
    [
        {"sessionId": "s1", "options": YES_NO},
        {"sessionId": "s1", "toolCall": {"toolCallId": "c"}},
        {"sessionId": "s1", "toolCall": {"toolCallId": "c"}, "options": [{"optionId": "y", "name": "Yes"}]},
        {"sessionId": "s1", "toolCall": {"toolCallId": "c"}, "options": options("y:perhaps")},
        {"sessionId": 5, "toolCall": {"toolCallId": "c"}, "options": YES_NO},
    ],
)
async def test_a_malformed_request_is_refused_without_asking(broken):
    opts = ClientOptions(strict=True)
    async with in_session(handlers=ClientHandlers(permissions=_must_not_be_asked), options=opts) as (_, peer):
        error = await peer.error_of("session/request_permission", broken)
        assert error["code"] == -32602
        assert isinstance(error["message"], str)


@pytest.mark.dialect(21, 22, 23)
async def test_dialect_requests_are_shown_and_answered():
    asked: list[PermissionAsked] = []
    async with in_session(handlers=ClientHandlers(permissions=lambda request: request.options[0])) as (
        session,
        peer,
    ):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        assert await peer.result_of("request_permission", question()) == selected("yes")
        simse = {
            "permissionId": "p1",
            "toolName": "write_file",
            "args": {"path": "a"},
            "description": "Write a",
        }
        answer = await peer.result_of("session/request_permission", simse)
        assert answer["outcome"]["outcome"] == "selected"
        nameless = {"sessionId": "s1", "toolCall": {"title": "Run", "kind": "execute"}, "options": YES_NO}
        assert await peer.result_of("session/request_permission", nameless) == selected("yes")
        peer.reply(prompt, {"stopReason": "end_turn"})
        asked = [event for event in await turn.end() if isinstance(event, PermissionAsked)]
    assert len(asked) == 3


@pytest.mark.dialect(22)
async def test_a_repaired_request_is_never_approved_automatically():
    async with in_session(handlers=ClientHandlers(permissions=allow_all)) as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        simse = {"permissionId": "p1", "toolName": "rm", "args": {}, "description": "d"}
        answer = await peer.result_of("session/request_permission", simse)
        peer.reply(prompt, {"stopReason": "end_turn"})
        await turn.end()
    # The repair made up the options, so the agent itself declared no `allow_once` option.
    assert answer == CANCELLED


@pytest.mark.rule("accord.client-strict-mode")
async def test_strict_mode_refuses_dialect_permission_requests():
    async with in_session(options=ClientOptions(strict=True)) as (_, peer):
        assert (await peer.error_of("request_permission", question()))["code"] == -32601
        simse = {"permissionId": "p1", "toolName": "rm", "args": {}, "description": "d"}
        assert (await peer.error_of("session/request_permission", simse))["code"] == -32602
