"""Signing in and out. Only what the script names is tried: other methods may want a person."""

from typing import Final

from accord.check.agent.scene import Scene
from accord.check.agent.stage import Stage, without
from accord.check.conversation import ABSENT
from accord.check.scene import Missing
from accord.trace.exchange import at, listed

_GATED: Final = -32000


async def offers(stage: Stage) -> None:
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


async def signing_in(stage: Stage) -> None:
    talk = await stage.begin(login=False)
    first = await talk.new(stage.cwd)
    if first.ok:
        for rule in (82, 83, 87):
            stage.ledger.absent(rule, "sessions need no login here")
        return
    if not stage.script.login:
        raise Missing("sessions need a login, and the script names none that needs no person")
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


async def status(stage: Stage) -> None:
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
        raise Missing("the script names no login that needs no person")
    await talk.call("authenticate", {"methodId": stage.script.login})
    if talk.has("auth.logout"):
        await talk.call("logout", {})
    await talk.barrier()


SCENES: Final = (
    Scene(
        "what logins are offered", "clients with and without a terminal for logins", (76, 77, 85, 387), offers
    ),
    Scene(
        "signing in and out",
        "session/new, authenticate, session/new, logout, session/new",
        (34, 82, 83, 87),
        signing_in,
    ),
    Scene("auth status", "auth/status, sign in, sign out", (358, 359, 360, 361), status, "auth.status"),
)
