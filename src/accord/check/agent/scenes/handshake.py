"""`initialize`: versions, capabilities given, malformed and left out, what is advertised and what is there."""

from typing import Any, Final

from accord.check.agent.scene import Scene
from accord.check.agent.stage import EVERYTHING, Stage
from accord.check.agent.talk import Talk
from accord.check.agent.tries import Try, play
from accord.check.scene import Missing
from accord.trace.exchange import at

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


async def bare(stage: Stage) -> None:
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


async def versions(stage: Stage) -> None:
    for version in _VERSIONS:
        talk = await stage.connect(f"version {version}")
        answer = await talk.begin({}, version=version, owes=63)
        told = at(answer.result, "protocolVersion")
        sound = isinstance(told, int) and not isinstance(told, bool) and (told == 1 or told == version == 2)
        bad = f"{version} gave {answer.says}; expected a version it speaks"
        stage.ledger.judge(63, sound, f"{version} gave {told}", bad, answer.shown)


async def bad_versions(stage: Stage) -> None:
    talk = await stage.connect()
    for version in ("1", True, 1.5, 70000):
        answer = await talk.begin({}, version=version)
        bad = f"the version {version!r} gave {answer.says}; expected an error"
        stage.ledger.judge(72, not answer.ok, f"{version!r} is refused", bad, answer.shown)
    answer = await talk.begin({}, owes=72)
    if not answer.ok and stage.ledger.of(72)[-1].outcome == "kept":
        stage.ledger.broken(72, "after wrong versions it does not begin any more", answer.shown)


async def malformed(stage: Stage) -> None:
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


async def too_early(stage: Stage) -> None:
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


async def advertised(stage: Stage) -> None:
    talk = await stage.begin()
    rows = [_row(talk, method, params, gate) for method, params, gate in METHODS]
    await play(talk, sorted(rows, key=lambda row: row.method == "logout"), cwd=stage.cwd)
    if not any(row.rule == 66 for row in rows):
        raise Missing("it advertises everything there is")


def _row(talk: Talk, method: str, params: Any, gate: str) -> Try:
    return Try(65, method, params, "known") if talk.has(gate) else Try(66, method, params, -32601)


SCENES: Final = (
    Scene("a bare client", "initialize with nothing but the version, then tools", (62, 67, 68, 74), bare),
    Scene("other versions", "initialize with 0, 2, 7 and 65535", (63,), versions),
    Scene("versions that are none", 'initialize with "1", true, 1.5 and 70000', (72,), bad_versions),
    Scene("malformed capabilities", "capabilities of wrong types, then a tool that reads", (70,), malformed),
    Scene("too early", "session/new and session/list before initialize", (73, 386), too_early),
    Scene("what is advertised", "every method behind a capability is called", (65, 66), advertised),
)
