"""Cases: permissions, forms and web pages, cancellation."""

import asyncio
from typing import Any, Final

from accord.check.checked_connection import CallAnswer
from accord.check.client.client_fixture import ClientCase, ClientFixture, tail
from accord.check.client.client_under_test import ClientUnderTest
from accord.check.client.workspace_cases import LONG, open_terminal
from accord.check.findings import CaseUnavailable, Rule
from accord.trace.trace_steps import at

# MERGED check.client.scenes.permissions: Permission requests: odd ids, several at once, what is approved automatically.

OPTIONS: Final = (
    {"optionId": "x 1", "name": "Allow", "kind": "allow_once"},
    {"optionId": "always!", "name": "Always", "kind": "allow_always"},
    {"optionId": "n/2", "name": "Reject", "kind": "reject_once"},
    {"optionId": "never", "name": "Never", "kind": "reject_always"},
)


def permission(part: ClientUnderTest, call: str = "c1", **members: Any) -> dict[str, Any]:
    """A request for an edit, unless it says otherwise."""
    path = str(members.pop("path", "/"))
    return {
        "sessionId": part.desk.session,
        "toolCall": {
            "toolCallId": call,
            "title": "Change notes.txt",
            "kind": "edit",
            "status": "pending",
            "locations": [{"path": path}],
            **members,
        },
        "options": [dict(option) for option in OPTIONS],
    }


def consents(answer: CallAnswer) -> bool:
    """Whether the answer lets something happen."""
    outcome = at(answer.result, "outcome")
    chosen = at(outcome, "optionId")
    allowing = [option["optionId"] for option in OPTIONS if option["kind"].startswith("allow")]
    return at(outcome, "outcome") == "selected" and chosen in allowing


async def options(stage: ClientFixture) -> None:
    """Under every policy that the client has."""
    for act in stage.if_can("allow", "reject", "reads") or ("",):
        turn = await stage.turn(*([act] if act else []))
        part = turn.part
        answer = await part.barrier(owes=158)
        stage.ledger.kept(158, "the agent was answered within a turn", answer.shown)
        for path in ("notes.txt", "other.txt"):
            asked = permission(part, f"call {path}", path=str(stage.folder / path))
            part.update("tool_call", **asked["toolCall"])
            answer = await part.call("session/request_permission", asked, owes=196)
            served = answer.code != -32601
            bad = "it does not know session/request_permission"
            stage.ledger.judge(196, served, "it answered", bad, answer.shown)
            if act == "reject" and consents(answer):
                stage.ledger.broken(197, "it was told to allow nothing, and allowed", answer.shown)
        await stage.finish(turn)
        await stage.client.end()


async def several(stage: ClientFixture) -> None:
    """Two at the same time; both get their own answer."""
    turn = await stage.turn()
    part = turn.part
    first = part.ask("session/request_permission", permission(part, "c1"), id="first")
    second = part.ask("session/request_permission", permission(part, "c2"), id="second")
    answers = [await part.answer(second, owes=202), await part.answer(first, owes=202)]
    stage.ledger.kept(202, "both were answered", [shown for answer in answers for shown in answer.shown])
    await stage.finish(turn)


async def reads(stage: ClientFixture) -> None:
    """Reading is approved by itself; only an official kind counts, and only `allow_once` is picked."""
    stage.need("reads")
    turn = await stage.turn("reads")
    part = turn.part
    path = str(stage.folder / "notes.txt")
    tries = (("read", True), ("file", False), ("Read", False), ("edit", False), (None, False))
    for number, (kind, expected) in enumerate(tries):
        asked = permission(part, f"k{number}", kind=kind, title="Read notes.txt", path=path)
        if kind is None:
            del asked["toolCall"]["kind"]
        answer = await part.call("session/request_permission", asked, owes=196)
        chosen = at(answer.result, "outcome", "optionId")
        kept = (chosen == "x 1") if expected else not consents(answer)
        bad = f"kind {kind!r} was answered with {answer.says}"
        stage.ledger.judge(389, kept, "only official kinds, only once", bad, answer.shown)
    await stage.finish(turn)


PERMISSION_CASES: Final = (
    ClientCase(
        "permission", "four options with odd ids, under every policy there is", (158, 196, 197), options
    ),
    ClientCase("two permissions at once", "both pending at the same time", (202,), several),
    ClientCase("reading by itself", "official and other kinds of tool calls", (389,), reads),
)


# MERGED check.client.scenes.questions: Questions of the agent: forms, web pages, modes that nobody knows, patterns that take forever.

_ACTIONS: Final = ("accept", "decline", "cancel")


def _form(pattern: str | None = None, default: str = "blue") -> dict[str, Any]:
    field: dict[str, Any] = {"type": "string", "title": "Colour", "default": default}
    if pattern is not None:
        field["pattern"] = pattern
    schema = {"type": "object", "properties": {"colour": field}, "required": ["colour"]}
    return {"mode": "form", "message": "Which colour?", "requestedSchema": schema}


async def _ask(part: ClientUnderTest, owes: Rule, **params: Any) -> CallAnswer:
    return await part.call("elicitation/create", {"sessionId": part.desk.session, **params}, owes=owes)


async def asking(stage: ClientFixture) -> None:
    turn = await stage.turn()
    part, ledger = turn.part, stage.ledger
    if part.has("elicitation.form"):
        answer = await _ask(part, 271, **_form())
        action = at(answer.result, "action")
        bad = f"the form gave {answer.says}"
        ledger.judge(271, action in _ACTIONS, f"{action}", bad, answer.shown)
        answer = await _ask(part, 280, **_form("(a+)+$", "a" * 40 + "!"))
        alive = await part.barrier(owes=280)
        ledger.kept(280, "it lives", [*answer.shown, *alive.shown])
    answer = await _ask(part, 277, mode="_x", message="What?")
    ledger.judge(277, not answer.ok, answer.says, f"an unknown mode gave {answer.says}", answer.shown)
    for mode, params in (
        ("form", _form()),
        ("url", {"mode": "url", "message": "Go", "url": "https://agent.example/x", "elicitationId": "e"}),
    ):
        if not part.has(f"elicitation.{mode}"):
            answer = await _ask(part, 261, **params)
            bad = f"{mode}, which it does not advertise, gave {answer.says}; expected -32602"
            ledger.judge(261, answer.code == -32602, f"{mode} gave -32602", bad, answer.shown)
    if not ledger.of(261):
        ledger.absent(261, "it advertises every mode")
    await stage.finish(turn)


async def completing(stage: ClientFixture) -> None:
    turn = await stage.turn()
    for _ in range(2):
        turn.part.notify("elicitation/complete", {"elicitationId": "never-begun"})
    answer = await turn.part.barrier(owes=270)
    stage.ledger.kept(270, "it goes on", answer.shown)
    await stage.finish(turn, "marigold", (270,))


async def visiting(stage: ClientFixture) -> None:
    """A page that would see a visit."""
    visits = 0

    def visited(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal visits
        visits += 1
        writer.close()

    server = await asyncio.start_server(visited, "127.0.0.1", 0)
    try:
        turn = await stage.turn()
        port = server.sockets[0].getsockname()[1]
        page = {
            "mode": "url",
            "message": "Sign in",
            "url": f"http://127.0.0.1:{port}/x",
            "elicitationId": "e1",
        }
        answer = await _ask(turn.part, 278, **page)
        await turn.part.barrier(owes=278)
        kept = visits == 0 or at(answer.result, "action") == "accept"
        bad = "the page was visited before anybody agreed"
        stage.ledger.judge(278, kept, "nobody came", bad, answer.shown)
        await stage.finish(turn)
    finally:
        server.close()


ELICITATION_CASES: Final = (
    ClientCase("questions", "a form, a slow pattern, an unknown mode, modes it lacks", (261, 271, 277, 280), asking, "elicitation"),
    ClientCase("completions of nothing", "elicitation/complete for what never began", (270,), completing),
    ClientCase("a page that would see a visit", "a web address on this machine", (278,), visiting, "elicitation.url"),
)  # fmt: skip


# MERGED check.client.scenes.cancelling: Cancelling: by the person, with requests pending, and by the client itself when time is up.


async def pending(stage: ClientFixture) -> None:
    """Two permissions are pending while the turn is cancelled."""
    if not stage.script.cancels:
        raise CaseUnavailable("the script does not say that an interrupt cancels")
    stage.need("ask")
    turn = await stage.turn("ask")
    part = turn.part
    asked = [
        part.ask("session/request_permission", permission(part, call, path=str(stage.folder / "notes.txt")))
        for call in ("c1", "c2")
    ]
    await part.barrier()
    stage.client.interrupt()
    cancel = await part.hears("session/cancel", bound=stage.bounds.soon)
    if cancel is None:
        raise CaseUnavailable("an interrupt did not cancel the turn")
    for one in asked:
        answer = await part.answer(one, owes=165, bound=stage.bounds.soon)
        kept = at(answer.result, "outcome", "outcome") == "cancelled"
        bad = f"a pending permission got {answer.says}; expected cancelled"
        stage.ledger.judge(165, kept, "cancelled", bad, [cancel.shown, *answer.shown])
    part.stop(turn.prompt, "cancelled")
    await stage.over()


async def late(stage: ClientFixture) -> None:
    """What a tool did in the end is told after the cancel; a wait for a terminal is pending."""
    if not stage.script.cancels:
        raise CaseUnavailable("the script does not say that an interrupt cancels")
    turn = await stage.turn(*stage.if_can("allow"))
    part = turn.part
    part.update("tool_call", toolCallId="c1", title="Long", status="in_progress", kind="other")
    waiting = None
    if part.has("terminal"):
        terminal = await open_terminal(stage, part, LONG, 55)
        waiting = terminal.ask("wait_for_exit")
    await part.barrier()
    stage.client.interrupt()
    cancel = await part.hears("session/cancel", bound=stage.bounds.soon)
    if cancel is None:
        raise CaseUnavailable("an interrupt did not cancel the turn")
    part.update("tool_call_update", toolCallId="c1", status="failed")
    part.say("calendula")
    await part.barrier(owes=167)
    part.stop(turn.prompt, "cancelled")
    ended = await stage.over()
    crashed = stage.client.exit is not None and stage.client.exit.signal == "SIGSEGV"
    kept = (ended or not stage.traits.leaves) and not crashed
    if stage.traits.shows:
        kept = kept and "calendula" in stage.client.printed
    bad = f"what came after the cancel is not taken in: {tail(stage.client.output)}"
    stage.ledger.judge(167, kept, "what came after the cancel is taken in", bad, [cancel.shown])
    if waiting is None:
        stage.ledger.absent(55, "it offers no terminals")
        return
    answers = [
        line for line in part.lines[waiting.number :] if line.sender == "client" and line.is_answer and line.id == waiting.id
    ]  # fmt: skip
    if answers:
        code = at(answers[0].message, "error", "code")
        good = code in (None, -32800)
        stage.ledger.judge(55, good, "a result or -32800", f"it aborted with {code}", [answers[0].shown])


async def deadline(stage: ClientFixture) -> None:
    """The client gives up by itself; it has to say so to the agent."""
    stage.need("deadline")
    turn = await stage.turn("deadline")
    cancel = await turn.part.hears("session/cancel", bound=stage.bounds.soon)
    if cancel is not None:
        stage.ledger.kept(159, "it gave up by session/cancel", [cancel.shown])
        turn.part.stop(turn.prompt, "cancelled")
    else:
        stage.ledger.broken(159, "it gave up without session/cancel", [turn.prompt.shown])
    await stage.over()


CANCEL_CASES: Final = (
    ClientCase("cancelled while it is asked", "two permissions are pending", (160, 165), pending),
    ClientCase("after a cancel", "a late update, and a wait that is pending", (55, 160, 167), late),
    ClientCase("time is up", "the client gives up by itself", (159,), deadline),
)


CASES: Final = (
    *PERMISSION_CASES,
    *ELICITATION_CASES,
    *CANCEL_CASES,
)
