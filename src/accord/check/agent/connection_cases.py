"""Cases: framing, envelopes, `initialize`, sign-in."""

from typing import Any, Final

from accord.check.agent.agent_fixture import EVERYTHING, AgentCase, AgentFixture, CallCase, play, without
from accord.check.agent.agent_under_test import AgentUnderTest
from accord.check.checked_connection import ABSENT, WireLine
from accord.check.findings import CaseUnavailable
from accord.trace.trace_steps import at, listed

# MERGED check.agent.scenes.framing: Lines and envelopes: noise, ids, notifications, unknown methods, wrong and missing params, the end of the input.

_IDS: Final = (0, -7, "a-1", 9007199254740991, "", "0")

_PARAMS: Final = (
    CallCase(24, "session/new", {"mcpServers": []}, -32602),
    CallCase(24, "session/new", {"cwd": 5, "mcpServers": []}, -32602),
    CallCase(24, "session/prompt", {"sessionId": "$session"}, -32602),
    CallCase(24, "session/prompt", {"prompt": [{"type": "text", "text": "hi"}]}, -32602),
    CallCase(32, "session/new", {"cwd": "$cwd", "mcpServers": [], "zzz": 1}, "result"),
    CallCase(40, "session/new", {"cwd": "$cwd", "mcpServers": [], "_meta": "x"}, "result"),
    CallCase(26, "session/list", ABSENT, "result", "sessionCapabilities.list"),
    CallCase(26, "session/list", None, "result", "sessionCapabilities.list"),
)


async def _refused(talk: AgentUnderTest, line: str, rule: int, code: int) -> None:
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


def _unasked(talk: AgentUnderTest, since: WireLine) -> list[WireLine]:
    return [
        line
        for line in talk.lines[since.number :]
        if line.sender == "agent" and line.is_answer and line.id is None
    ]


def _code(line: WireLine) -> object:
    return at(line.message, "error", "code")


def _told(answers: list[WireLine]) -> str:
    return f"said {_code(answers[0])}" if answers else "said nothing"


async def no_json(stage: AgentFixture) -> None:
    talk = await stage.connect()
    await _refused(talk, "{oops", 21, -32700)


async def no_request(stage: AgentFixture) -> None:
    talk = await stage.connect()
    await talk.begin()
    await _refused(talk, '{"jsonrpc":"2.0"}', 23, -32600)
    await _refused(talk, "5", 23, -32600)


async def batches(stage: AgentFixture) -> None:
    talk = await stage.connect()
    await talk.begin()
    talk.send("[]")
    await talk.barrier(owes=31)
    talk.send('[{"jsonrpc":"2.0","id":"in-a-batch","method":"_check/x","params":{}}]')
    answer = await talk.barrier(owes=31)
    stage.ledger.kept(31, "it goes on after a batch", answer.shown)


async def envelopes(stage: AgentFixture) -> None:
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


async def _notifications(stage: AgentFixture, talk: AgentUnderTest, session: str, answered: object) -> None:
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


async def params(stage: AgentFixture) -> None:
    talk, session = await stage.open()
    await play(talk, _PARAMS, session=session, cwd=stage.cwd)


async def meta(stage: AgentFixture) -> None:
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


async def leaving(stage: AgentFixture) -> None:
    talk, session = await stage.open()
    if stage.can("talk"):
        await stage.play(talk, session, "talk")
    told = await talk.leave()
    stage.ledger.judge(36, not told, "it ends with its input", told)


FRAMING_CASES: Final = (
    AgentCase("a line that is no JSON", "`{oops`, then initialize", (21,), no_json),
    AgentCase("JSON that is no request", "an empty message and a number, then a request", (23,), no_request),
    AgentCase("batches", "`[]` and a batch, then a request", (31,), batches),
    AgentCase(
        "ids, unknown methods, notifications",
        "requests under all kinds of ids, methods that nobody has, notifications that need no answer",
        (7, 9, 11, 13, 15, 17, 19, 27, 29, 52, 56, 373, "schema"),
        envelopes,
    ),
    AgentCase("params", "missing, wrong, null and additional members", (24, 26, 32, 40, 44), params),
    AgentCase("_meta", "vendor members and trace context on everything", (38, 46, 48), meta),
    AgentCase("the end of the input", "a turn, then the input is closed", (1, 36), leaving),
)


# MERGED check.agent.scenes.handshake: `initialize`: versions, capabilities given, malformed and left out, what is advertised and what is there.

_SESSION: Final = "sessionCapabilities"
METHODS: Final[tuple[tuple[str, Any, str], ...]] = (
    ("session/load", {"sessionId": "nope", "cwd": "$cwd", "mcpServers": []}, "loadSession"),
    ("session/resume", {"sessionId": "nope", "cwd": "$cwd"}, f"{_SESSION}.resume"),
    ("session/close", {"sessionId": "nope"}, f"{_SESSION}.close"),
    ("session/list", {}, f"{_SESSION}.list"),
    ("session/delete", {"sessionId": "nope"}, f"{_SESSION}.delete"),
    ("session/fork", {"sessionId": "nope", "cwd": "$cwd"}, f"{_SESSION}.fork"),
    ("session/archive", {"sessionId": "nope"}, f"{_SESSION}.archive"),
    ("session/unarchive", {"sessionId": "nope"}, f"{_SESSION}.archive"),
    ("session/status", {"sessionId": "nope"}, f"{_SESSION}.status"),
    ("session/set_title", {"sessionId": "nope", "title": "x"}, f"{_SESSION}.title"),
    ("auth/status", {}, "auth.status"),
    ("logout", {}, "auth.logout"),
    ("providers/list", {}, "providers"),
)
"""The methods behind capabilities, with params that do no harm."""

_VERSIONS: Final = (0, 2, 7, 65535)


async def bare(stage: AgentFixture) -> None:
    """Only the version is given; the agent must do with that, and ask such a client for nothing."""
    talk = await stage.connect()
    answer = await talk.begin(owes=74)
    if not stage.ledger.judge(74, answer.ok, "it begins", f"initialize gave {answer.says}", answer.shown):
        return
    version = at(answer.result, "protocolVersion")
    stage.ledger.judge(62, version == 1, "1 gave 1", f"1 gave {answer.says}", answer.shown)
    info = at(answer.result, "agentInfo")
    named = isinstance(at(info, "name"), str) and isinstance(at(info, "version"), str)
    bad = "no `agentInfo` with name and version"
    stage.ledger.judge(67, named, f"it is {at(info, 'name')} {at(info, 'version')}", bad, [answer.line.shown])
    session = await stage.session(talk)
    for act, values in (
        ("read", {"file": "notes.txt"}),
        ("write", {"file": "new.txt", "text": "x"}),
        ("run", {}),
    ):
        if stage.can(act):
            await stage.play(talk, session, act, **values)


async def versions(stage: AgentFixture) -> None:
    for version in _VERSIONS:
        talk = await stage.connect(f"version {version}")
        answer = await talk.begin({}, version=version, owes=63)
        told = at(answer.result, "protocolVersion")
        sound = isinstance(told, int) and not isinstance(told, bool) and (told == 1 or told == version == 2)
        bad = f"{version} gave {answer.says}; expected a version it speaks"
        stage.ledger.judge(63, sound, f"{version} gave {told}", bad, answer.shown)


async def bad_versions(stage: AgentFixture) -> None:
    talk = await stage.connect()
    for version in ("1", True, 1.5, 70000):
        answer = await talk.begin({}, version=version)
        bad = f"the version {version!r} gave {answer.says}; expected an error"
        stage.ledger.judge(72, not answer.ok, f"{version!r} is refused", bad, answer.shown)
    answer = await talk.begin({}, owes=72)
    if not answer.ok and stage.ledger.of(72)[-1].outcome == "kept":
        stage.ledger.broken(72, "after wrong versions it does not begin any more", answer.shown)


async def malformed(stage: AgentFixture) -> None:
    for capabilities in (False, {"fs": {"readTextFile": "yes"}, "terminal": 1}):
        talk = await stage.connect()
        answer = await talk.begin(capabilities, owes=70)
        bad = f"clientCapabilities {capabilities} gave {answer.says}"
        if not stage.ledger.judge(70, answer.ok, "read as none", bad, answer.shown) or not capabilities:
            continue
        if stage.can("read"):
            session = await stage.session(talk)
            turn = await stage.play(talk, session, "read", file="notes.txt")
            asked = turn.asked("fs/read_text_file")
            bad = '`readTextFile: "yes"` counts as yes'
            stage.ledger.judge(70, not asked, "read as no", bad, [line.shown for line in asked])
            talk.offered = EVERYTHING  # judged here, not by the watch


async def too_early(stage: AgentFixture) -> None:
    talk = await stage.connect()
    tries: tuple[tuple[str, Any], ...] = (
        ("session/new", {"cwd": stage.cwd, "mcpServers": []}),
        ("session/list", {}),
    )
    for method, params in tries:
        answer = await talk.call(method, params, owes=73)
        if answer.ok:
            stage.ledger.broken(73, f"{method} before initialize gave a result", answer.shown)
            continue
        if method == "session/new":
            stage.ledger.kept(73, f"{method} before initialize gave {answer.says}", answer.shown)
        bad = f"{method} before initialize gave {answer.says}; expected -32600"
        stage.ledger.judge(386, answer.code == -32600, "-32600 before initialize", bad, answer.shown)
    answer = await talk.begin({}, owes=386)
    bad = f"after early requests initialize gave {answer.says}"
    stage.ledger.judge(386, answer.ok, "initialize works afterwards", bad, answer.shown)


async def advertised(stage: AgentFixture) -> None:
    talk = await stage.begin()
    rows = [_row(talk, method, params, gate) for method, params, gate in METHODS]
    await play(talk, sorted(rows, key=lambda row: row.method == "logout"), cwd=stage.cwd)
    if not any(row.rule == 66 for row in rows):
        raise CaseUnavailable("it advertises everything there is")


def _row(talk: AgentUnderTest, method: str, params: Any, gate: str) -> CallCase:
    return CallCase(65, method, params, "known") if talk.has(gate) else CallCase(66, method, params, -32601)


HANDSHAKE_CASES: Final = (
    AgentCase("a bare client", "initialize with nothing but the version, then tools", (62, 67, 68, 74), bare),
    AgentCase("other versions", "initialize with 0, 2, 7 and 65535", (63,), versions),
    AgentCase("versions that are none", 'initialize with "1", true, 1.5 and 70000', (72,), bad_versions),
    AgentCase(
        "malformed capabilities", "capabilities of wrong types, then a tool that reads", (70,), malformed
    ),
    AgentCase("too early", "session/new and session/list before initialize", (73, 386), too_early),
    AgentCase("what is advertised", "every method behind a capability is called", (65, 66), advertised),
)


# MERGED check.agent.scenes.login: Signing in and out. Only what the script names is tried: other methods may want a person.

_GATED: Final = -32000


async def offers(stage: AgentFixture) -> None:
    """What is offered to a client with a terminal for logins, and to one without."""
    rich = await stage.begin(login=False)
    poor = await stage.begin(without("auth"), login=False)
    methods = listed(rich.initialized, "authMethods")
    if not methods:
        for rule in (76, 77, 85):
            stage.ledger.absent(rule, "it has no auth methods")
    elif not any(at(one, "type") == "terminal" for one in methods):
        stage.ledger.absent(77, "it has no terminal login")
    if methods:
        answer = await poor.call("authenticate", {"methodId": "nope"})
        bad = f"authenticate with `nope` gave {answer.says}"
        stage.ledger.judge(85, not answer.ok, "an unknown method is refused", bad, answer.shown)
        if not answer.ok:
            bad = f"authenticate with `nope` gave {answer.says}; expected -32602"
            stage.ledger.judge(387, answer.code == -32602, "unknown values give -32602", bad, answer.shown)


async def signing_in(stage: AgentFixture) -> None:
    talk = await stage.begin(login=False)
    first = await talk.new(stage.cwd)
    if first.ok:
        for rule in (82, 83, 87):
            stage.ledger.absent(rule, "sessions need no login here")
        return
    if not stage.script.login:
        raise CaseUnavailable("sessions need a login, and the script names none that needs no person")
    signed = await talk.call("authenticate", {"methodId": stage.script.login})
    second = await talk.new(stage.cwd)
    worked = signed.ok and second.ok
    bad = f"authenticate gave {signed.says}, then session/new {second.says}"
    # A result that is no object is a matter of rule 34, which the watch judges.
    stage.ledger.judge(82, worked, "sessions work once signed in", bad, (*signed.shown, second.line.shown))
    if not second.ok:
        return
    bad = f"session/new before the login gave {first.says}; expected {_GATED}"
    stage.ledger.judge(83, first.code == _GATED, "it says that a login is needed", bad, first.shown)
    if not talk.has("auth.logout"):
        stage.ledger.absent(87, "it does not advertise auth.logout")
        return
    out = await talk.call("logout", ABSENT)
    stage.ledger.judge(26, out.ok, "logout without params works", f"logout gave {out.says}", out.shown)
    third = await talk.new(stage.cwd)
    bad = f"session/new after logout gave {third.says}; expected {_GATED}"
    stage.ledger.judge(87, third.code == _GATED, "a login is needed again", bad, third.shown)


async def status(stage: AgentFixture) -> None:
    talk = await stage.begin(login=False)
    before = await talk.new(stage.cwd)
    answer = await talk.call("auth/status", {})
    after = await talk.new(stage.cwd)
    sound = answer.ok and (before.ok == after.ok)
    bad = f"auth/status gave {answer.says}, and session/new then {after.says}"
    if not answer.ok or answer.code == _GATED or before.ok != after.ok:
        stage.ledger.judge(358, sound, "", bad, answer.shown)
    else:
        stage.ledger.kept(358, "it tells, and changes nothing", answer.shown)
    if not stage.script.login:
        raise CaseUnavailable("the script names no login that needs no person")
    await talk.call("authenticate", {"methodId": stage.script.login})
    if talk.has("auth.logout"):
        await talk.call("logout", {})
    await talk.barrier()


LOGIN_CASES: Final = (
    AgentCase(
        "what logins are offered", "clients with and without a terminal for logins", (76, 77, 85, 387), offers
    ),
    AgentCase(
        "signing in and out",
        "session/new, authenticate, session/new, logout, session/new",
        (34, 82, 83, 87),
        signing_in,
    ),
    AgentCase("auth status", "auth/status, sign in, sign out", (358, 359, 360, 361), status, "auth.status"),
)


CASES: Final = (
    *FRAMING_CASES,
    *HANDSHAKE_CASES,
    *LOGIN_CASES,
)
