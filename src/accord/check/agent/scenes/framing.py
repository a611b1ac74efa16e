"""Lines and envelopes: noise, ids, notifications, unknown methods, wrong and missing params, the end of the input."""

from typing import Any, Final

from accord.check.agent.scene import Scene
from accord.check.agent.stage import Stage
from accord.check.agent.talk import Talk
from accord.check.agent.tries import Try, play
from accord.check.conversation import ABSENT
from accord.check.lines import Line
from accord.trace.exchange import at

_IDS: Final = (0, -7, "a-1", 9007199254740991, "", "0")

_PARAMS: Final = (
    Try(24, "session/new", {"mcpServers": []}, -32602),
    Try(24, "session/new", {"cwd": 5, "mcpServers": []}, -32602),
    Try(24, "session/prompt", {"sessionId": "$session"}, -32602),
    Try(24, "session/prompt", {"prompt": [{"type": "text", "text": "hi"}]}, -32602),
    Try(32, "session/new", {"cwd": "$cwd", "mcpServers": [], "zzz": 1}, "result"),
    Try(40, "session/new", {"cwd": "$cwd", "mcpServers": [], "_meta": "x"}, "result"),
    Try(26, "session/list", ABSENT, "result", "sessionCapabilities.list"),
    Try(26, "session/list", None, "result", "sessionCapabilities.list"),
)


async def _refused(talk: Talk, line: str, rule: int, code: int) -> None:
    """Send a line that is no request; it should be refused, under no id, and the agent should live."""
    sent = talk.send(line)
    if talk.initialized:
        await talk.barrier(owes=rule)
    elif not (await talk.begin(owes=rule)).ok:
        talk.ledger.broken(rule, f"after {line!r} it does not begin any more", [sent.shown])
        return
    answers = _unasked(talk, sent)
    found = [one for one in answers if isinstance(one.message, dict) and _code(one) == code]
    shown = [sent.shown, *(one.shown for one in answers)]
    talk.ledger.judge(
        rule, bool(found), f"{line} gave {code}", f"it survived {line}, but {_told(answers)}; expected {code}", shown
    )  # fmt: skip


def _unasked(talk: Talk, since: Line) -> list[Line]:
    return [
        line
        for line in talk.lines[since.number :]
        if line.sender == "agent" and line.is_answer and line.id is None
    ]


def _code(line: Line) -> object:
    return at(line.message, "error", "code")


def _told(answers: list[Line]) -> str:
    return f"said {_code(answers[0])}" if answers else "said nothing"


async def no_json(stage: Stage) -> None:
    talk = await stage.connect()
    await _refused(talk, "{oops", 21, -32700)


async def no_request(stage: Stage) -> None:
    talk = await stage.connect()
    await talk.begin()
    await _refused(talk, '{"jsonrpc":"2.0"}', 23, -32600)
    await _refused(talk, "5", 23, -32600)


async def batches(stage: Stage) -> None:
    talk = await stage.connect()
    await talk.begin()
    talk.send("[]")
    await talk.barrier(owes=31)
    talk.send('[{"jsonrpc":"2.0","id":"in-a-batch","method":"_check/x","params":{}}]')
    answer = await talk.barrier(owes=31)
    stage.ledger.kept(31, "it goes on after a batch", answer.shown)


async def envelopes(stage: Stage) -> None:
    talk, session = await stage.open()
    for id in _IDS:
        answer = await talk.call("_check/id", {}, id=id, owes=9)
        stage.ledger.kept(9, f"the id {id!r} came back", answer.shown)
    answer = await talk.call("nope/nope", {})
    stage.ledger.judge(
        15, answer.code == -32601, answer.says, f"{answer.says}; expected -32601", answer.shown
    )
    answer = await talk.call("_test/x", {})
    stage.ledger.judge(
        17, answer.code == -32601, answer.says, f"{answer.says}; expected -32601", answer.shown
    )
    for method in ("proxy/initialize", "proxy/successor"):
        answer = await talk.call(method, {"method": "x"})
        bad = f"{method} gave {answer.says}; expected -32601"
        stage.ledger.judge(373, answer.code == -32601, f"{method} gave -32601", bad, answer.shown)
    await _notifications(stage, talk, session, answer.asked.id)


async def _notifications(stage: Stage, talk: Talk, session: str, answered: object) -> None:
    tries: tuple[tuple[int, str, Any], ...] = (
        (13, "session/cancel", {"sessionId": session}),
        (13, "_x/ping", {}),
        (19, "_test/n", {"a": 1}),
        (52, "$/cancel_request", {"requestId": 9999}),
        (52, "$/cancel_request", {"requestId": answered}),
        (56, "$/progress", {"token": 1}),
    )
    for rule, method, params in tries:
        sent = talk.notify(method, params)
        answer = await talk.barrier(owes=rule)
        replies = _unasked(talk, sent)
        blamed = rule if rule in (13, 52) else 13
        if replies:
            bad = f"the notification {method} was answered"
            stage.ledger.broken(blamed, bad, [sent.shown, replies[0].shown])
        else:
            stage.ledger.kept(13, "notifications stay without an answer", [sent.shown])
            stage.ledger.kept(rule, f"{method} changed nothing", [sent.shown, answer.line.shown])


async def params(stage: Stage) -> None:
    talk, session = await stage.open()
    await play(talk, _PARAMS, session=session, cwd=stage.cwd)


async def meta(stage: Stage) -> None:
    """Vendor `_meta` and trace context everywhere: nothing may fail for it."""
    vendor = {"example.com/x": {"a": [1]}}
    trace = {
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "tracestate": "vendor=1",
        "baggage": "user=1",
    }
    talk = await stage.connect()
    answers = [await talk.begin({"fs": {"_meta": vendor}, "_meta": vendor}, _meta={**vendor, **trace})]
    await stage.login(talk)
    answers.append(await talk.new(stage.cwd, _meta=vendor))
    for answer in answers:
        bad = f"{answer.asked.method} with `_meta` gave {answer.says}"
        stage.ledger.judge(38, answer.ok, "`_meta` does no harm", bad, answer.shown)
    session = at(answers[-1].result, "sessionId")
    if isinstance(session, str) and stage.can("talk"):
        await stage.works(talk, session)
        blocks = [{"type": "text", "text": stage.act("talk").filled(), "_meta": vendor}]
        answer = (await talk.turn_of(talk.prompt(session, blocks, _meta={**vendor, **trace}))).answer
        bad = f"session/prompt with `_meta` gave {answer.says}"
        stage.ledger.judge(38, answer.ok, "`_meta` does no harm", bad, answer.shown)


async def leaving(stage: Stage) -> None:
    talk, session = await stage.open()
    if stage.can("talk"):
        await stage.play(talk, session, "talk")
    told = await talk.leave()
    stage.ledger.judge(36, not told, "it ends with its input", told)


SCENES: Final = (
    Scene("a line that is no JSON", "`{oops`, then initialize", (21,), no_json),
    Scene("JSON that is no request", "an empty message and a number, then a request", (23,), no_request),
    Scene("batches", "`[]` and a batch, then a request", (31,), batches),
    Scene(
        "ids, unknown methods, notifications",
        "requests under all kinds of ids, methods that nobody has, notifications that need no answer",
        (7, 9, 11, 13, 15, 17, 19, 27, 29, 52, 56, 373, "schema"),
        envelopes,
    ),
    Scene("params", "missing, wrong, null and additional members", (24, 26, 32, 40, 44), params),
    Scene("_meta", "vendor members and trace context on everything", (38, 46, 48), meta),
    Scene("the end of the input", "a turn, then the input is closed", (1, 36), leaving),
)
