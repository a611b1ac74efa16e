"""Signing in: what a client does when the agent wants it first."""

from typing import Any, Final

from accord.check.client.desk import Reply, error, result
from accord.check.client.part import Part
from accord.check.client.scene import Scene
from accord.check.client.stage import Stage, tail
from accord.check.conversation import Over
from accord.check.lines import Line
from accord.trace.exchange import at

_AGENT: Final[dict[str, Any]] = {"id": "sign-in-here", "name": "Marigold sign-in"}
_TERMINAL: Final[dict[str, Any]] = {
    "type": "terminal",
    "id": "at-a-terminal",
    "name": "Thistle terminal",
    "args": ["--login"],
    "env": {"ACCORD_CHECK_LOGIN": "marigold"},
}
_BAD: Final[dict[str, Any]] = {"type": "terminal", "id": "spoiled", "name": "Spoiled", "args": "--login"}


def _gate(stage: Stage, *methods: dict[str, Any]) -> None:
    """Make the agent want a login."""
    stage.desk.initialized = {**stage.desk.initialized, "authMethods": list(methods)}
    signed_in = False

    def authenticate(line: Line) -> Reply:
        nonlocal signed_in
        signed_in = at(line.params, "methodId") == _AGENT["id"]
        return result({}) if signed_in else error(-32602, "Unknown method")

    def new(_: Line) -> Reply:
        return (
            result({"sessionId": stage.desk.session})
            if signed_in or stage.logins
            else error(-32000, "Authentication required")
        )

    stage.desk.answers |= {"authenticate": authenticate, "session/new": new}


async def _tried(stage: Stage) -> Part:
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


def _ids(part: Part) -> list[Any]:
    return [at(line.params, "methodId") for line in part.calls("authenticate")]


async def wanted(stage: Stage) -> None:
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


async def terminal(stage: Stage) -> None:
    """The only way is a login at a terminal: another start of the agent, after which the client comes again."""
    _gate(stage, _TERMINAL)
    await stage.start()
    part = await stage.agent()
    await part.hears("session/new")
    try:
        again = await stage.agent(2)
    except Over:
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


def _judge_login(stage: Stage, again: Part | None) -> None:
    if not stage.logins:
        stage.ledger.unseen(80, "it did not start the login; that may need a person at a terminal")
        return
    wire = stage.logins[0]
    given = list(wire.words) == _TERMINAL["args"] and wire.login == "marigold"
    bad = f"the login was started with {list(wire.words)} and the variable {wire.login!r}"
    if stage.ledger.judge(80, given, "with its words and its variable", bad):
        begun = again is not None and bool(again.calls("initialize"))
        stage.ledger.judge(80, begun, "then it began again", "it did not begin again after the login")


async def spoiled(stage: Stage) -> None:
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


async def later(stage: Stage) -> None:
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


SCENES: Final = (
    Scene("sign in first", "session/new fails until somebody has signed in", (81, 84), wanted),
    Scene("sign in at a terminal", "the only method is of type terminal", (79, 80), terminal),
    Scene("a spoiled method", "a terminal method with bad args beside a good one", (329,), spoiled),
    Scene("signed out in a turn", "the prompt fails because nobody is signed in", (88,), later),
)
