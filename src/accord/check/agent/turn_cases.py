"""Cases: prompts, cancellation, tool calls, files and terminals."""

from typing import Any, Final

from accord.check.agent.agent_fixture import NO_STRICT_MODE, WORD, AgentCase, AgentFixture, without
from accord.check.agent.agent_under_test import AgentTurn
from accord.check.agent.client_responder import CANCELLED, HOLD, Reply, error, result
from accord.check.checked_connection import WireLine
from accord.check.findings import CaseUnavailable
from accord.trace.trace_steps import at, listed

# MERGED check.agent.scenes.turns: Turns: what a prompt may hold, what comes back, what is refused, what works meanwhile.

TEXT: Final = "日本語 🎉 naïve"


async def plain(stage: AgentFixture) -> None:
    talk, session = await stage.open()
    turn = await stage.play(talk, session, "talk")
    bad = f"a prompt of text gave {turn.answer.says}"
    stage.ledger.judge(139, turn.answer.ok, "text is taken", bad, turn.answer.shown)
    stage.ledger.kept(143, "every prompt is answered", turn.answer.shown)
    link = {"type": "resource_link", "uri": (stage.folder / "notes.txt").as_uri(), "name": "notes.txt"}
    asked = talk.prompt(session, [{"type": "text", "text": stage.act("talk").filled()}, link])
    linked = await talk.turn_of(asked)
    bad = f"a prompt with a resource_link gave {linked.answer.says}"
    stage.ledger.judge(140, linked.answer.ok, "links are taken", bad, linked.answer.shown)
    await talk.barrier()


async def texts(stage: AgentFixture) -> None:
    """Several lines, what is not ASCII, and half of an emoji."""
    talk, session = await stage.open()
    if stage.can("lines"):
        await stage.play(talk, session, "lines")
    if stage.can("echo"):
        turn = await stage.play(talk, session, "echo", text=TEXT)
        said = turn.all_text
        spoiled = [
            wrong
            for wrong in (TEXT.encode().decode("latin-1"), TEXT.encode("ascii", "replace").decode())
            if wrong in said
        ]
        if TEXT in said:
            stage.ledger.kept(5, "emoji and CJK survive", turn.answer.shown[:1])
        elif spoiled:
            stage.ledger.broken(
                5, f"{TEXT} came back as {spoiled[0]!r}", [line.shown for line in turn.lines[-2:]]
            )
    if stage.can("talk"):
        await stage.works(talk, session)
        text = stage.act("talk").filled() + " \\ud83d"
        params = f'{{"sessionId":"{session}","prompt":[{{"type":"text","text":"{text}"}}]}}'
        asked = talk.send(f'{{"jsonrpc":"2.0","id":"half","method":"session/prompt","params":{params}}}')
        turn = await talk.turn_of(asked, owes=392)
        bad = f"half of a surrogate pair gave {turn.answer.says}"
        stage.ledger.judge(392, turn.answer.ok, "half of a surrogate pair is taken", bad, turn.answer.shown)


async def malformed(stage: AgentFixture) -> None:
    talk, session = await stage.open()
    await _refused(stage, talk, session, [{"type": "text"}])
    strict = await stage.strict()
    if strict is None:
        stage.ledger.untried(151, NO_STRICT_MODE)
        return
    await _refused(stage, strict, await stage.session(strict), "hi")


async def _refused(stage: AgentFixture, talk: Any, session: str, prompt: Any) -> None:
    answer = await talk.call("session/prompt", {"sessionId": session, "prompt": prompt})
    bad = f"the prompt {prompt!r} gave {answer.says}; expected -32602"
    stage.ledger.judge(151, answer.code == -32602, "malformed prompts are refused", bad, answer.shown)


async def meanwhile(stage: AgentFixture) -> None:
    """In the middle of a turn, modes and options can be set, and a second prompt is refused."""
    talk = await stage.begin()
    new = await talk.new(stage.cwd)
    session = at(new.result, "sessionId") if new.ok else await stage.session(talk)
    asked = await stage.busy(talk, session)
    calls: list[tuple[str, dict[str, Any]]] = []
    mode = at(new.result, "modes", "currentModeId")
    if isinstance(mode, str):
        calls.append(("session/set_mode", {"modeId": mode}))
    option = next((one for one in listed(new.result, "configOptions") if at(one, "type") == "select"), None)
    if option is not None:
        params = {"configId": at(option, "id"), "value": at(option, "currentValue")}
        calls.append(("session/set_config_option", params))
    for method, params in calls:
        sent = talk.ask(method, {"sessionId": session, **params})
        answer = await talk.answer(sent, owes=157, bound=stage.bounds.soon)
        bad = f"{method} in a turn gave {answer.says}"
        stage.ledger.judge(157, answer.ok, f"{method} works in a turn", bad, answer.shown)
    if not calls:
        stage.ledger.absent(157, "it has neither modes nor options")
    second = talk.prompt(session, "hi")
    refused = await talk.until(
        lambda line: line.sender == "agent" and line.is_answer and line.id == second.id, since=second.number, bound=stage.bounds.soon / 2
    )  # fmt: skip
    over = await talk.until(lambda line: line.is_answer and line.id == asked.id, since=asked.number, bound=0)
    talk.cancel(session)
    turn = await talk.turn_of(asked, owes=161, bound=stage.bounds.soon)
    if refused is None:
        stage.ledger.broken(385, "a second prompt in a busy session is not refused", [second.shown])
        return
    code = at(refused.message, "error", "code")
    untouched = over is None and turn.stop == "cancelled"
    bad = f"a second prompt gave {code or 'a result'}; the first {'goes on' if untouched else 'ended'}"
    stage.ledger.judge(
        385, code == -32600 and untouched, "a second prompt is refused", bad, (second.shown, refused.shown)
    )


PROMPT_CASES: Final = (
    AgentCase(
        "a turn",
        "a prompt of text, one with a link",
        (42, 139, 140, 142, 143, 144, 145, 146, 147, 310),
        plain,
    ),
    AgentCase("texts", "several lines, emoji and CJK, half of a surrogate pair", (3, 5, 392), texts),
    AgentCase(
        "malformed prompts", "a text block without text; a bare text in strict mode", (151,), malformed
    ),
    AgentCase("in the middle of a turn", "modes, options and a second prompt", (157, 385), meanwhile),
)


# MERGED check.agent.scenes.cancelling: Cancelling: a turn, a single request, a question of permission, and nothing at all.


def _judge(stage: AgentFixture, turn: AgentTurn) -> None:
    answer = turn.answer
    if not answer.ok:
        stage.ledger.broken(162, f"a cancelled turn gave {answer.says}", answer.shown)
        return
    stage.ledger.kept(162, "a cancelled turn is no error", answer.shown)
    bad = f"a cancelled turn ended with {turn.stop!r}"
    stage.ledger.judge(161, turn.stop == "cancelled", "a cancelled turn says so", bad, answer.shown)


async def turns(stage: AgentFixture) -> None:
    """With terminals at the client, and without."""
    for capabilities in (None, without("terminal")):
        talk, session = await (stage.open() if capabilities is None else stage.open(capabilities))
        asked = await stage.busy(talk, session)
        talk.cancel(session)
        soon = await talk.until(
            lambda line, id=asked.id: line.is_answer and line.id == id, since=asked.number, bound=stage.bounds.soon
        )  # fmt: skip
        bad = f"{stage.bounds.soon:g} seconds after the cancel the turn goes on"
        stage.ledger.judge(163, soon is not None, "the turn ends soon", bad, [asked.shown])
        if soon is None:
            return
        turn = await talk.turn_of(asked, owes=161)
        _judge(stage, turn)
        talk.desk.stay = False
        if stage.can("talk"):
            await stage.works(talk, await stage.session(talk))
            again = await talk.turn(session, stage.act("talk").filled(), owes=170)
            bad = f"a prompt after a cancelled turn gave {again.answer.says}"
            worked = again.answer.ok and again.stop != "cancelled"
            stage.ledger.judge(170, worked, "the session goes on", bad, again.answer.shown)
        await talk.barrier()


async def idle(stage: AgentFixture) -> None:
    talk, session = await stage.open()
    await stage.works(talk, session)
    talk.cancel(session)
    turn = await talk.turn(session, stage.act("talk").filled(), owes=168)
    bad = f"after a cancel without a turn a prompt gave {turn.answer.says}"
    worked = turn.answer.ok and turn.stop != "cancelled"
    stage.ledger.judge(168, worked, "it is harmless", bad, turn.answer.shown)


async def requests(stage: AgentFixture) -> None:
    talk, session = await stage.open()
    asked = await stage.busy(talk, session)
    talk.notify("$/cancel_request", {"requestId": asked.id})
    line = await talk.until(
        lambda line: line.is_answer and line.id == asked.id, since=asked.number, bound=stage.bounds.soon
    )
    if line is None:
        talk.cancel(session)
        await talk.turn_of(asked, owes=50, bound=stage.bounds.soon)
        raise CaseUnavailable("it does not act on $/cancel_request, which it may")
    answer = await talk.answer(asked, owes=50)
    sound = answer.ok or answer.code == -32800
    bad = f"$/cancel_request gave {answer.says}; expected a result or -32800"
    stage.ledger.judge(50, sound, f"it gave {answer.says}", bad, answer.shown)
    await talk.barrier()


async def questions(stage: AgentFixture) -> None:
    """A turn is cancelled while a question of permission is open; both ways to answer that question will do."""
    answers = (CANCELLED, error(-32800, "Request cancelled"))
    talk = await stage.begin()
    for reply in answers:
        session = await stage.session(talk)
        talk.desk.answers["session/request_permission"] = _hold
        asked = talk.prompt(session, stage.act("permission").filled(file="cancelled.txt"))
        question = await stage.question(talk, asked)
        talk.cancel(session)
        talk.reply(question, reply)
        turn = await talk.turn_of(asked, owes=169, bound=stage.bounds.soon)
        bad = f"after a cancelled question the turn gave {turn.answer.says}"
        if turn.answer.ok:
            _judge(stage, turn)
        stage.ledger.judge(169, turn.answer.ok, "the turn ends in good order", bad, turn.answer.shown)


def _hold(line: WireLine) -> Reply:
    return HOLD


CANCEL_CASES: Final = (
    AgentCase(
        "a turn is cancelled", "session/cancel while it is busy", (161, 162, 163, 164, 170, 257), turns
    ),
    AgentCase("nothing is cancelled", "session/cancel without a turn", (168,), idle),
    AgentCase("a request is cancelled", "$/cancel_request for a prompt", (50,), requests),
    AgentCase("cancelled at a question", "session/cancel while permission is asked for", (169,), questions),
)


# MERGED check.agent.scenes.tools: Tool calls, files and terminals as they are when all goes well: read, write, run.

_CALLS: Final = (173, 174, 175, 176, 177, 178, 180, 181, 182, 183)
_DONE: Final = ("fs/read_text_file", "fs/write_text_file", "terminal/create", "session/request_permission")


def _reported(stage: AgentFixture, turn: AgentTurn) -> bool:
    """Whether a tool call was reported; something done without one is a fault."""
    if turn.updates("tool_call"):
        stage.ledger.kept(172, "tools are reported", [turn.updates("tool_call")[0].shown])
        return True
    done = turn.asked(*_DONE)
    if done:
        # A first change may stand for the announcement; that is a fault of another rule.
        if not turn.updates("tool_call_update"):
            stage.ledger.broken(172, f"{done[0].method} without a tool call", [done[0].shown])
    else:
        stage.ledger.unseen(172, "no tool was used")
    return False


async def reading(stage: AgentFixture) -> None:
    talk, session = await stage.open()
    for _ in range(2):
        turn = await stage.play(talk, session, "read", file="notes.txt")
        _reported(stage, turn)
    if stage.can("search"):
        await stage.play(talk, session, "search", text=WORD)


async def writing(stage: AgentFixture) -> None:
    talk, session = await stage.open()
    turn = await stage.play(talk, session, "write", file="made.txt", text="hello")
    _reported(stage, turn)
    diffs = [
        (line, one)
        for line in turn.lines
        for one in [*listed(line.update, "content"), *listed(line.params, "toolCall", "content")]
        if at(one, "type") == "diff" and at(one, "path") == str(stage.folder / "made.txt")
    ]
    for line, diff in diffs[:1]:
        bad = f"the diff of a new file has oldText {at(diff, 'oldText')!r}"
        stage.ledger.judge(179, at(diff, "oldText") is None, "a new file has no old text", bad, [line.shown])
    if not diffs:
        stage.ledger.unseen(179, "no diff of the new file was shown")


async def null_write(stage: AgentFixture) -> None:
    talk, session = await stage.open()

    def write(line: WireLine) -> Reply:
        path = stage.folder / "made.txt"
        path.write_text("hello")
        return result(None)

    talk.desk.answers["fs/write_text_file"] = write
    turn = await stage.play(talk, session, "write", file="made.txt", text="hello")
    written = turn.asked("fs/write_text_file")
    if not written:
        raise CaseUnavailable("nothing was written through the client")
    failed = [line for line in turn.updates("tool_call_update") if line.update.get("status") == "failed"]
    sound = turn.answer.ok and not failed
    shown = [written[0].shown, *(line.shown for line in failed[:1]), turn.answer.line.shown]
    stage.ledger.judge(246, sound, "null is taken for success", "null is taken for a failure", shown)


async def running(stage: AgentFixture) -> None:
    talk, session = await stage.open()
    turn = await stage.play(talk, session, "run")
    _reported(stage, turn)


async def poorer(stage: AgentFixture) -> None:
    """Clients that lack one thing are not asked for it."""
    acts: tuple[tuple[int, str, str, dict[str, str], str], ...] = (
        (236, "fs.readTextFile", "read", {"file": "notes.txt"}, "fs/read_text_file"),
        (237, "fs.writeTextFile", "write", {"file": "poor.txt", "text": "x"}, "fs/write_text_file"),
        (247, "terminal", "run", {}, "terminal/create"),
    )
    for rule, capability, act, values, method in acts:
        if not stage.can(act):
            continue
        talk, session = await stage.open(without(capability))
        turn = await stage.play(talk, session, act, **values)
        used = turn.updates("tool_call", "tool_call_update") or turn.asked(*_DONE)
        if not turn.asked(method) and used:
            stage.ledger.kept(rule, f"no {method} without {capability}", [used[0].shown])


TOOL_CALL_CASES: Final = (
    AgentCase("reading a file", "the read act, twice, and the search act", (172, *_CALLS, 236, 238), reading),
    AgentCase("making a file", "the write act", (172, 179, 237, 238), writing),
    AgentCase("a write answered with null", "the write act, and the client answers null", (246,), null_write),
    AgentCase("running a command", "the run act", (172, 190, 247, 257, 258), running),
    AgentCase("poorer clients", "each act with a client that lacks what it needs", (236, 237, 247), poorer),
)


CASES: Final = (
    *PROMPT_CASES,
    *CANCEL_CASES,
    *TOOL_CALL_CASES,
)
