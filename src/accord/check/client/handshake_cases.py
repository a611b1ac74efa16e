"""Cases: `initialize`, sign-in, envelopes, ids, noise."""

from typing import Any, Final

from accord.check.checked_connection import ConnectionOver, WireLine
from accord.check.client.agent_responder import EVERYTHING, Reply, error, result
from accord.check.client.client_fixture import ClientCase, ClientFixture, ClientTurn, tail
from accord.check.client.client_under_test import ClientUnderTest
from accord.check.client.user_decision_cases import permission
from accord.check.findings import Rule
from accord.trace.trace_steps import at, listed

# MERGED check.client.scenes.meeting: Meeting: a plain turn, an agent that says little of itself, one with odd capabilities, one of another version.

WORD: Final = "marigold"
HARD_PROMPT: Final = "Say hello,\nin two lines: 你好 👋🏽"


async def plain(stage: ClientFixture) -> None:
    turn = await stage.turn(prompt=HARD_PROMPT)
    if stage.prompts:
        said = "".join(
            str(at(block, "text"))
            for block in listed(turn.prompt.params, "prompt")
            if at(block, "type") == "text"
        )
        whole = HARD_PROMPT.replace("\n", "") in said.replace("\n", "").replace("\r", "")
        bad = f"the prompt arrived as {said!r}"
        stage.ledger.judge(6, whole, "what is not ASCII arrived", bad, [turn.prompt.shown])
        kept = "\n" in said
        stage.ledger.judge(4, kept, "a prompt of two lines came in one", bad, [turn.prompt.shown])
    turn.part.update("agent_thought_chunk", content={"type": "text", "text": "thinking"})
    await stage.finish(turn, WORD)


async def says_little(stage: ClientFixture) -> None:
    stage.desk.initialized = {"protocolVersion": 1}
    stage.desk.blamed = 69
    turn = await stage.turn(owes=75)
    stage.ledger.kept(75, "it went on with what it had", [turn.prompt.shown])
    await stage.finish(turn, WORD)
    stage.ledger.kept(69, "nothing was used that was not advertised", [turn.prompt.shown])


async def wants_more(stage: ClientFixture) -> None:
    """Everything that the script can make it want, of an agent that has none of it: nothing gated may come."""
    stage.desk.initialized = {"protocolVersion": 1}
    stage.desk.blamed = 69
    for act, values in (
        ("session", {"session": "old"}),
        ("newest", {}),
        ("roots", {}),
        ("servers", {}),
        ("delete", {"session": "old"}),
    ):
        if stage.can(act):
            number = len(stage.parts) + 1
            await stage.start(act, **values)
            part = await stage.agent(number)
            prompt = await part.hears("session/prompt", bound=stage.bounds.soon)
            if prompt is not None:
                part.stop(prompt)
            await stage.over()
            await stage.client.end()
            stage.ledger.kept(69, f"made to want it ({act}), it did without", [])


async def odd(stage: ClientFixture) -> None:
    stage.desk.initialized = {
        "protocolVersion": 1,
        "agentCapabilities": {
            "loadSession": "yes",
            "sessionCapabilities": False,
            "promptCapabilities": {"image": 1},
        },
        "agentInfo": {"name": "accord-check", "version": "1"},
    }
    stage.desk.blamed = 71
    turn = await stage.turn(owes=71)
    stage.ledger.kept(71, "it went on as if they were not there", [turn.prompt.shown])
    await stage.finish(turn, WORD)


async def newer(stage: ClientFixture) -> None:
    stage.desk.initialized = {**stage.desk.initialized, "protocolVersion": 9}
    await stage.start()
    part = await stage.agent()
    left = await part.left(stage.bounds.soon)
    more = [
        line for line in part.lines if line.sender == "client" and line.method and line.method != "initialize"
    ]
    if more:
        stage.ledger.broken(64, f"it went on with {more[0].method}", [more[0].shown])
    elif not left:
        stage.ledger.broken(64, "it neither went on nor closed", [part.lines[-1].shown])
    else:
        await stage.over()
        told = bool(stage.client.output.strip())
        stage.ledger.judge(64, told, f"it says: {tail(stage.client.output, 120)}", "it closed without a word")


INITIALIZE_CASES: Final = (
    ClientCase(
        "a plain turn",
        "a prompt of two lines with what is not ASCII, a thought, a word, the end",
        (2, 4, 6, 8, 30, 43, 45, 47, 58, 59, 60, 61, 90, 91, "schema"),
        plain,
    ),
    ClientCase("an agent that says little", "initialize answers with the version alone", (69, 75), says_little),
    ClientCase("wants more than there is", "old sessions, folders and servers for an agent that advertises nothing", (69,), wants_more),
    ClientCase("odd capabilities", "capabilities of wrong types", (71,), odd),
    ClientCase("another version", "initialize answers version 9", (64,), newer),
)  # fmt: skip


# MERGED check.client.scenes.login: Signing in: what a client does when the agent wants it first.

_AGENT: Final[dict[str, Any]] = {"id": "sign-in-here", "name": "Marigold sign-in"}
_TERMINAL: Final[dict[str, Any]] = {
    "type": "terminal",
    "id": "at-a-terminal",
    "name": "Thistle terminal",
    "args": ["--login"],
    "env": {"ACCORD_CHECK_LOGIN": "marigold"},
}
_BAD: Final[dict[str, Any]] = {"type": "terminal", "id": "spoiled", "name": "Spoiled", "args": "--login"}


def _gate(stage: ClientFixture, *methods: dict[str, Any]) -> None:
    """Make the agent want a login."""
    stage.desk.initialized = {**stage.desk.initialized, "authMethods": list(methods)}
    signed_in = False

    def authenticate(line: WireLine) -> Reply:
        nonlocal signed_in
        signed_in = at(line.params, "methodId") == _AGENT["id"]
        return result({}) if signed_in else error(-32602, "Unknown method")

    def new(_: WireLine) -> Reply:
        return (
            result({"sessionId": stage.desk.session})
            if signed_in or stage.logins
            else error(-32000, "Authentication required")
        )

    stage.desk.answers |= {"authenticate": authenticate, "session/new": new}


async def _tried(stage: ClientFixture) -> ClientUnderTest:
    """Let the client try its turn, whatever comes of it."""
    await stage.start()
    part = await stage.agent()
    asked = await part.hears("session/new")
    if asked is None:
        return part
    prompt = await part.hears("session/prompt", bound=stage.bounds.soon)
    if prompt is not None:
        part.stop(prompt)
    await stage.over()
    return part


def _ids(part: ClientUnderTest) -> list[Any]:
    return [at(line.params, "methodId") for line in part.calls("authenticate")]


async def wanted(stage: ClientFixture) -> None:
    _gate(stage, _AGENT)
    part = await _tried(stage)
    tried = part.calls("session/new")
    again = _AGENT["id"] in _ids(part) and len(tried) > 1
    offered = again or _AGENT["name"] in stage.client.output
    bad = f"neither tried nor told; it says: {tail(stage.client.output)}"
    good = "it signed in and tried again" if again else "it tells how to sign in"
    stage.ledger.judge(84, offered, good, bad, [line.shown for line in tried[:1]])
    if _ids(part):
        kept = _AGENT["id"] in _ids(part)
        stage.ledger.judge(81, kept, "it was used as one of the agent's", "it was not used by its id", [])
    elif offered:
        stage.ledger.kept(81, "it is offered as one of the agent's")
    else:
        stage.ledger.unseen(81, "it did not sign in")


async def terminal(stage: ClientFixture) -> None:
    """The only way is a login at a terminal: another start of the agent, after which the client comes again."""
    _gate(stage, _TERMINAL)
    await stage.start()
    part = await stage.agent()
    await part.hears("session/new")
    try:
        again = await stage.agent(2)
    except ConnectionOver:
        again = None
    if again is not None:
        prompt = await again.hears("session/prompt", bound=stage.bounds.soon)
        if prompt is not None:
            again.stop(prompt)
    await stage.over()
    tried = [line for one in stage.parts for line in one.calls("authenticate")]
    passed = [line.shown for line in tried if at(line.params, "methodId") == _TERMINAL["id"]]
    stage.ledger.judge(
        79, not passed, "it was not passed to authenticate", "it was passed to authenticate", passed
    )
    _judge_login(stage, again)


def _judge_login(stage: ClientFixture, again: ClientUnderTest | None) -> None:
    if not stage.logins:
        stage.ledger.unseen(80, "it did not start the login; that may need a person at a terminal")
        return
    wire = stage.logins[0]
    given = list(wire.words) == _TERMINAL["args"] and wire.login == "marigold"
    bad = f"the login was started with {list(wire.words)} and the variable {wire.login!r}"
    if stage.ledger.judge(80, given, "with its words and its variable", bad):
        begun = again is not None and bool(again.calls("initialize"))
        stage.ledger.judge(80, begun, "then it began again", "it did not begin again after the login")


async def spoiled(stage: ClientFixture) -> None:
    _gate(stage, _BAD, _AGENT)
    part = await _tried(stage)
    shown = [line.shown for line in part.calls("authenticate")]
    if _BAD["id"] in _ids(part):
        stage.ledger.broken(329, "a method that cannot be used was passed to authenticate", shown)
    elif _AGENT["id"] in _ids(part) or _AGENT["name"] in stage.client.output:
        stage.ledger.kept(329, "the good one is offered or used, the spoiled one is not")
    elif part.calls("session/new"):
        stage.ledger.unseen(329, "it neither signed in nor told how")
    else:
        stage.ledger.broken(329, "one bad method made it give up", [part.lines[-1].shown])


async def later(stage: ClientFixture) -> None:
    turn = await stage.turn()
    turn.part.reply(turn.prompt, error(-32000, "Authentication required"))
    ended = await stage.over()
    exit = stage.client.exit
    if not stage.traits.leaves:
        answer = await turn.part.barrier(owes=88)
        stage.ledger.kept(88, "it lives on", answer.shown)
        return
    crashed = exit is not None and exit.signal is not None
    bad = "it hangs" if not ended else f"it {exit}: {tail(stage.client.output)}"
    kept = ended and not crashed and "Traceback" not in stage.client.output
    stage.ledger.judge(88, kept, "the turn ended with an error", bad)


LOGIN_CASES: Final = (
    ClientCase("sign in first", "session/new fails until somebody has signed in", (81, 84), wanted),
    ClientCase("sign in at a terminal", "the only method is of type terminal", (79, 80), terminal),
    ClientCase("a spoiled method", "a terminal method with bad args beside a good one", (329,), spoiled),
    ClientCase("signed out in a turn", "the prompt fails because nobody is signed in", (88,), later),
)


# MERGED check.client.scenes.envelopes: Ids, unknown methods, notifications, bad params, additional members, `_meta`, noise.

_VENDOR: Final = {"example.com/x": {"a": [1]}}


async def ids(stage: ClientFixture) -> None:
    turn = await stage.turn()
    part = turn.part
    for id in (0, "perm_1", -7, 9007199254740991, "", "0"):
        answer = await part.call("session/request_permission", permission(part), id=id, owes=10)
        stage.ledger.kept(10, f"the id {id!r} came back", answer.shown)
    for rule, method in ((16, "nope/nope"), (18, "_test/x")):
        answer = await part.call(method, {}, owes=rule)
        bad = f"{method} gave {answer.says}; expected -32601"
        stage.ledger.judge(rule, answer.code == -32601, f"{method} gave -32601", bad, answer.shown)
    await _bad_params(stage, part)
    await stage.finish(turn, "marigold")


async def _bad_params(stage: ClientFixture, part: ClientUnderTest) -> None:
    tries: list[tuple[str, Any]] = [
        ("session/request_permission", {"sessionId": part.desk.session, "options": []}),
        ("session/request_permission", {"toolCall": {"toolCallId": "c"}, "options": []}),
    ]
    if part.has("fs.readTextFile"):
        tries.append(("fs/read_text_file", {"sessionId": part.desk.session}))
        tries.append(("fs/read_text_file", {"sessionId": part.desk.session, "path": 5}))
    for method, params in tries:
        answer = await part.call(method, params, owes=25)
        bad = f"{method} with {sorted(params)} gave {answer.says}; expected -32602"
        stage.ledger.judge(25, answer.code == -32602, f"{method} gave -32602", bad, answer.shown)


async def notifications(stage: ClientFixture) -> None:
    turn = await stage.turn()
    part = turn.part
    answered = await part.barrier()
    for number in range(50):
        part.say(f"{number} ")
    tries: tuple[tuple[Rule, str, Any], ...] = (
        (20, "_test/n", {"a": 1}),
        (20, "nope/n", {}),
        (53, "$/cancel_request", {"requestId": "never"}),
        (53, "$/cancel_request", {"requestId": answered.asked.id}),
        (57, "$/progress", {"token": 1}),
    )
    for rule, method, params in tries:
        sent = part.notify(method, params)
        answer = await part.barrier(owes=rule)
        between = [
            line for line in part.lines[sent.number : answer.line.number - 1] if line.sender == "client"
        ]
        if any(line.is_answer for line in between):
            stage.ledger.broken(14, f"{method} was answered", [sent.shown, between[0].shown])
        stage.ledger.kept(rule, f"{method} changed nothing", [sent.shown, answer.line.shown])
    stage.ledger.kept(14, "notifications stay without an answer")
    await stage.finish(turn, "marigold")


async def noise(stage: ClientFixture) -> None:
    """A banner before the first answer. Closing with a clear message is as good as going on."""
    stage.desk.answers["initialize"] = lambda _: None
    await stage.start()
    part = await stage.agent()
    begun = await part.hears("initialize")
    if begun is None:
        return
    banner = part.send("Welcome to the agent! v1.0")
    part.reply(begun, {"result": stage.desk.initialized})
    prompt = await part.hears("session/prompt")
    if prompt is not None:
        part.send("another line of noise")
        await part.barrier(owes=22)
        await stage.finish(ClientTurn(part, prompt), "marigold", (22,))
        return
    await stage.over()
    told = bool(stage.client.output.strip()) and stage.client.exit is not None
    stage.ledger.judge(
        22, told, "it closed with a message", "it does not go on, and does not say why", [banner.shown]
    )


def _extra(value: Any) -> Any:
    """The same with a member more in every object."""
    if isinstance(value, dict):
        return {**{name: _extra(member) for name, member in value.items()}, "zzz": 1}  # pyright: ignore[reportUnknownVariableType]
    return value


async def extra(stage: ClientFixture) -> None:
    stage.desk.initialized = {
        "protocolVersion": 1,
        "agentCapabilities": _extra(EVERYTHING),
        "agentInfo": {"name": "accord-check", "version": "1", "zzz": 1},
        "zzz": 1,
    }
    stage.desk.opened = {"zzz": 1}
    turn = await stage.turn(owes=33)
    part = turn.part
    part.update("tool_call", toolCallId="c1", title="Look", zzz={"a": 1})
    part.update("plan", entries=[{"content": "a", "priority": "high", "status": "pending", "zzz": 1}])
    part.say("some ", zzz=[1])
    await part.barrier(owes=33)
    await stage.finish(turn, "marigold", (33,))


async def _meta(stage: ClientFixture, rule: int, meta: Any) -> None:
    stage.desk.initialized["agentCapabilities"] = {**EVERYTHING, "_meta": meta}
    stage.desk.opened = {"_meta": meta}
    turn = await stage.turn(owes=rule)
    part = turn.part
    part.update("tool_call", toolCallId="c1", title="Look", _meta=meta)
    part.update("plan", entries=[{"content": "a", "priority": "high", "status": "pending", "_meta": meta}])
    part.update(
        "agent_message_chunk", content={"type": "text", "text": "calendula ", "_meta": meta}, _meta=meta
    )
    asked = permission(part)
    asked["options"] = [{**option, "_meta": meta} for option in asked["options"]]
    answer = await part.call("session/request_permission", {**asked, "_meta": meta}, owes=rule)
    if not answer.ok:
        stage.ledger.broken(rule, f"a permission request with `_meta` gave {answer.says}", answer.shown)
    await stage.finish(turn, "marigold", (rule,))
    if stage.traits.shows and "calendula" not in stage.client.printed:
        stage.ledger.broken(rule, "the message with it is not shown")


async def meta(stage: ClientFixture) -> None:
    await _meta(stage, 39, _VENDOR)


async def malformed_meta(stage: ClientFixture) -> None:
    await _meta(stage, 41, [])


ENVELOPE_CASES: Final = (
    ClientCase(
        "ids, unknown methods, bad params",
        "requests under all kinds of ids, methods that nobody has, params that are missing",
        (10, 12, 16, 18, 25, 28),
        ids,
    ),
    ClientCase("notifications", "fifty updates, unknown notifications, cancels of nothing", (14, 20, 53, 57), notifications),
    ClientCase("noise", "a banner before the first answer", (22,), noise),
    ClientCase("additional members", "members that nobody knows, everywhere", (33,), extra),
    ClientCase("_meta", "vendor members on everything", (39,), meta),
    ClientCase("malformed _meta", "`_meta` that is a list", (41,), malformed_meta),
)  # fmt: skip


CASES: Final = (
    *INITIALIZE_CASES,
    *LOGIN_CASES,
    *ENVELOPE_CASES,
)
