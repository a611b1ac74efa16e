"""Permission requests: odd ids, several at once, what is approved automatically."""

from typing import Any, Final

from accord.check.client.part import Part
from accord.check.client.scene import Scene
from accord.check.client.stage import Stage
from accord.check.conversation import Answer
from accord.trace.exchange import at

OPTIONS: Final = (
    {"optionId": "x 1", "name": "Allow", "kind": "allow_once"},
    {"optionId": "always!", "name": "Always", "kind": "allow_always"},
    {"optionId": "n/2", "name": "Reject", "kind": "reject_once"},
    {"optionId": "never", "name": "Never", "kind": "reject_always"},
)


def permission(part: Part, call: str = "c1", **members: Any) -> dict[str, Any]:
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


def consents(answer: Answer) -> bool:
    """Whether the answer lets something happen."""
    outcome = at(answer.result, "outcome")
    chosen = at(outcome, "optionId")
    allowing = [option["optionId"] for option in OPTIONS if option["kind"].startswith("allow")]
    return at(outcome, "outcome") == "selected" and chosen in allowing


async def options(stage: Stage) -> None:
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


async def several(stage: Stage) -> None:
    """Two at the same time; both get their own answer."""
    turn = await stage.turn()
    part = turn.part
    first = part.ask("session/request_permission", permission(part, "c1"), id="first")
    second = part.ask("session/request_permission", permission(part, "c2"), id="second")
    answers = [await part.answer(second, owes=202), await part.answer(first, owes=202)]
    stage.ledger.kept(202, "both were answered", [shown for answer in answers for shown in answer.shown])
    await stage.finish(turn)


async def reads(stage: Stage) -> None:
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


SCENES: Final = (
    Scene("permission", "four options with odd ids, under every policy there is", (158, 196, 197), options),
    Scene("two permissions at once", "both pending at the same time", (202,), several),
    Scene("reading by itself", "official and other kinds of tool calls", (389,), reads),
)
