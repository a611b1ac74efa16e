"""Providers: list, set, disable. Only the provider that the script names is touched."""

from typing import Any, Final

from accord.check.agent.scene import Scene
from accord.check.agent.stage import Stage
from accord.check.agent.talk import Talk
from accord.check.scene import Missing
from accord.trace.exchange import at, listed

_SECRET: Final = "a-secret-of-the-check"


async def _provider(talk: Talk, id: str) -> Any:
    answer = await talk.call("providers/list", {})
    return next((one for one in listed(answer.result, "providers") if at(one, "providerId") == id), None)


async def providers(stage: Stage) -> None:
    talk = await stage.begin()
    listing = await talk.call("providers/list", {})
    known = listed(listing.result, "providers")
    answer = await talk.call("providers/disable", {"providerId": "nope"})
    bad = f"disabling an unknown provider gave {answer.says}"
    stage.ledger.judge(298, answer.ok, "disabling what is not there succeeds", bad, answer.shown)
    wrong: dict[str, Any] = {
        "providerId": "nope",
        "apiType": "openai",
        "baseUrl": "https://example.com",
        "headers": {},
    }
    answer = await talk.call("providers/set", wrong)
    bad = f"setting an unknown provider gave {answer.says}; expected -32602"
    stage.ledger.judge(299, answer.code == -32602, "unknown providers are refused", bad, answer.shown)
    required = next((at(one, "providerId") for one in known if at(one, "required") is True), None)
    if required is None:
        stage.ledger.absent(297, "no provider is required")
    else:
        answer = await talk.call("providers/disable", {"providerId": required})
        bad = f"disabling a required provider gave {answer.says}; expected -32602"
        stage.ledger.judge(297, answer.code == -32602, "a required provider stays", bad, answer.shown)
    if not stage.script.provider:
        raise Missing("the script names no provider that may be touched")
    await _touched(stage, talk, stage.script.provider)


async def _touched(stage: Stage, talk: Talk, id: str) -> None:
    told = await _provider(talk, id)
    kinds = listed(told, "supported")
    params = {
        "providerId": id,
        "apiType": kinds[0] if kinds else "openai",
        "baseUrl": "https://example.com/v1",
        "headers": {"Authorization": f"Bearer {_SECRET}"},
    }
    await talk.call("providers/set", params)
    since = len(talk.lines)
    await _provider(talk, id)
    echoed = [line for line in talk.lines[since:] if line.sender == "agent" and _SECRET.encode() in line.data]
    bad = "the headers come back"
    stage.ledger.judge(300, not echoed, "headers stay secret", bad, [line.shown for line in echoed])
    answer = await talk.call("providers/disable", {"providerId": id})
    told = await _provider(talk, id)
    bad = f"after disabling, `current` is {str(at(told, 'current'))[:80]}"
    stage.ledger.judge(296, at(told, "current") is None, "a disabled one is not current", bad, answer.shown)


SCENES: Final = (Scene("providers", "list, set, disable", (296, 297, 298, 299, 300), providers, "providers"),)
