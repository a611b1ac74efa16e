"""Whatever the other side sends, each part of the watch can judge it: no value where it does not belong ends one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.check.memory_talks import arrives, part_for_nobody, talk_with_nobody

from accord.check.agent.stage import EVERYTHING
from accord.check.agent.talk import Talk
from accord.check.agent.watch import watch as watch_agent
from accord.check.client.part import Part
from accord.check.client.watch import watch as watch_client
from accord.check.ledger import Ledger

ODD: tuple[Any, ...] = ([1], {"a": 1}, 5, "x", None, True, 1.5, "http://[bad", "https://x:99999999/?token=1")
UPDATES: dict[str, tuple[str, ...]] = {
    "agent_message_chunk": ("content", "messageId"),
    "tool_call": ("toolCallId", "status", "title", "kind", "content", "locations"),
    "tool_call_update": ("toolCallId", "status", "content", "locations"),
    "plan": ("entries",),
    "plan_update": ("id", "entries", "plan", "planId"),
    "plan_removed": ("id", "planId"),
    "current_mode_update": ("currentModeId",),
    "config_option_update": ("configOptions",),
    "available_commands_update": ("availableCommands",),
    "usage_update": ("used", "size", "cost"),
    "session_info_update": ("title", "updatedAt"),
    "compaction_update": ("compactionId", "status"),
    "subagent_update": ("sessionId", "cwd", "additionalDirectories", "status", "parentSessionId"),
    "notice": ("severity", "message", "id"),
    "session_message": ("sessionId", "messageId"),
}
REQUESTS: dict[str, tuple[str, ...]] = {
    "session/request_permission": ("sessionId", "toolCall", "options"),
    "fs/read_text_file": ("path", "sessionId", "line", "limit"),
    "fs/write_text_file": ("path", "content"),
    "terminal/create": ("command", "args", "env", "cwd", "sessionId"),
    "terminal/release": ("terminalId",),
    "terminal/output": ("terminalId",),
    "terminal/wait_for_exit": ("terminalId",),
    "elicitation/create": (
        *(
            "mode",
            "url",
            "elicitationId",
            "sessionId",
            "requestId",
            "toolCallId",
            "requestedSchema",
            "message",
        ),
    ),
    "elicitation/complete": ("elicitationId",),
    "mcp/message": ("serverId", "requestId", "message", "method"),
    "mcp/connect": ("serverId",),
    "auth/status_update": ("status", "state"),
    "$/cancel_request": ("requestId", "id"),
}
RESULTS = (
    *("modes", "configOptions", "sessions", "sessionId", "nextCursor", "authMethods", "agentCapabilities"),
    *(
        "agentInfo",
        "protocolVersion",
        "models",
        "providers",
        "outcome",
        "content",
        "terminalId",
        "stopReason",
    ),
)
OF_AGENTS = (
    *("initialize", "session/new", "session/load", "session/list", "session/fork", "session/set_mode"),
    *("session/set_config_option", "providers/list", "auth/status", "session/resume", "session/prompt"),
)
OF_CLIENTS: dict[str, tuple[str, ...]] = {
    "initialize": ("protocolVersion", "clientCapabilities", "clientInfo"),
    "session/new": ("cwd", "mcpServers", "additionalDirectories", "systemPrompt"),
    "session/load": ("sessionId", "cwd", "mcpServers"),
    "session/list": ("cursor", "cwd", "archived"),
    "session/set_mode": ("sessionId", "modeId"),
    "session/set_config_option": ("sessionId", "configId", "value", "type"),
    "session/prompt": ("sessionId", "prompt"),
    "session/cancel": ("sessionId",),
    "authenticate": ("methodId",),
}


def oddities(odd: Any) -> Iterator[Any]:
    """The value by itself, in a list, and under every name that somebody may look for."""
    names = (
        "id",
        "name",
        "type",
        "path",
        "line",
        "terminalId",
        "options",
        "value",
        "status",
        "content",
        "serverId",
    )
    named = dict.fromkeys((*names, "optionId", "kind", "cwd", "sessionId", "archived", "currentValue"), odd)
    yield odd
    yield [odd]
    yield [named]
    yield {"properties": {"a": {"type": odd, "title": odd}}}
    yield {"toolCallId": odd, "title": odd, "currentModeId": odd, "availableModes": [named], "_meta": odd}
    yield {"_meta": {"traceparent": odd, "baggage": odd}}


def shaken_hands(talk: Talk) -> None:
    """A session is open, and a turn goes on."""
    talk.initialized = {
        "agentCapabilities": {"sessionCapabilities": {"list": {}, "archive": {}}, "auth": {"status": {}}}
    }
    talk.offered = EVERYTHING
    talk.ask("initialize", {"protocolVersion": 1, "clientCapabilities": EVERYTHING})
    arrives(talk, {"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1, **talk.initialized}})
    talk.ask("session/new", {"cwd": "/x", "mcpServers": []})
    arrives(talk, {"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s1"}})
    talk.prompt("s1", "hi")


async def unjudged(talk: Talk | Part) -> list[str]:
    """What the watch gave up on, with the turn over."""
    ledger = Ledger("scene")
    if isinstance(talk, Talk):
        arrives(talk, {"jsonrpc": "2.0", "id": 3, "result": {"stopReason": "end_turn"}})
        await watch_agent(talk, ledger)
        await talk.leave()
    else:
        await watch_client(talk, ledger)
    assert ledger.notes
    return [note.why for note in ledger.notes if "cannot be judged" in note.why]


@pytest.mark.parametrize("kind", UPDATES)
async def test_updates_of_an_agent(kind: str, tmp_path: Path) -> None:
    talk = talk_with_nobody(tmp_path)
    shaken_hands(talk)
    for name in UPDATES[kind]:
        for value in (value for odd in ODD for value in oddities(odd)):
            update = {"toolCallId": "t", "compactionId": "c", "status": "completed", name: value}
            params = {"sessionId": "s1", "update": {"sessionUpdate": kind, **update}}
            arrives(talk, {"jsonrpc": "2.0", "method": "session/update", "params": params})
    assert await unjudged(talk) == []


@pytest.mark.parametrize("method", REQUESTS)
async def test_requests_of_an_agent(method: str, tmp_path: Path) -> None:
    talk = talk_with_nobody(tmp_path)
    shaken_hands(talk)
    number = 0
    for name in REQUESTS[method]:
        for value in (value for odd in ODD for value in oddities(odd)):
            number += 1
            mode = "url" if name == "url" else "form"
            params = {"sessionId": "s1", "path": str(tmp_path / "x"), "mode": mode, name: value}
            arrives(talk, {"jsonrpc": "2.0", "method": method, "params": params})
            arrives(talk, {"jsonrpc": "2.0", "id": f"q{number}", "method": method, "params": params})
    assert await unjudged(talk) == []


@pytest.mark.parametrize("method", OF_AGENTS)
async def test_results_of_an_agent(method: str, tmp_path: Path) -> None:
    talk = talk_with_nobody(tmp_path)
    shaken_hands(talk)
    for name in RESULTS:
        for value in (value for odd in ODD for value in oddities(odd)):
            asked = talk.ask(method, {"sessionId": "s1", "cwd": "/x", "mcpServers": []})
            arrives(talk, {"jsonrpc": "2.0", "id": asked.id, "result": {name: value}})
    assert await unjudged(talk) == []


def envelopes(odd: Any) -> Iterator[Any]:
    """Messages that are odd themselves."""
    yield odd
    yield {"jsonrpc": odd, "id": 3, "result": odd}
    yield {"jsonrpc": "2.0", "id": odd, "result": {}}
    yield {"jsonrpc": "2.0", "id": odd, "method": "fs/read_text_file", "params": {}}
    yield {"jsonrpc": "2.0", "id": 3, "error": odd}
    yield {"jsonrpc": "2.0", "id": 3, "error": {"code": odd, "message": odd}}
    yield {"jsonrpc": "2.0", "method": odd, "params": {}}
    yield {"jsonrpc": "2.0", "method": "session/update", "params": odd}
    yield {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s1", "update": odd}}
    yield {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": odd, "update": {"a": odd}}}
    yield {"jsonrpc": "2.0", "id": 9, "method": "session/prompt", "params": odd}
    yield {"jsonrpc": "2.0", "id": 9, "method": "terminal/create", "params": odd}


DEEP = ("[" * 90_000, "[" * 90_000 + "]" * 90_000, '{"a":' * 500 + "1" + "}" * 500, "[1,\n2]", "\xff", "{")


async def test_envelopes_of_an_agent(tmp_path: Path) -> None:
    talk = talk_with_nobody(tmp_path)
    shaken_hands(talk)
    for odd in ODD:
        arrives(talk, *envelopes(odd))
    for text in DEEP:
        talk.frames([line.encode("latin-1") for line in text.splitlines()])
    assert await unjudged(talk) == []


async def test_envelopes_of_a_client() -> None:
    part = part_for_nobody()
    for odd in ODD:
        arrives(part, *envelopes(odd))
    for text in DEEP:
        part.frames([line.encode("latin-1") for line in text.splitlines()])
    assert await unjudged(part) == []


@pytest.mark.parametrize("method", OF_CLIENTS)
async def test_calls_of_a_client(method: str) -> None:
    part = part_for_nobody()
    number = 0
    for name in OF_CLIENTS[method]:
        for value in (value for odd in ODD for value in oddities(odd)):
            number += 1
            params = {"sessionId": "check-1", "cwd": "/x", "mcpServers": [], name: value}
            arrives(part, {"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    assert await unjudged(part) == []


async def test_answers_of_a_client() -> None:
    part = part_for_nobody()
    for method in REQUESTS:
        for name in RESULTS:
            for value in (value for odd in ODD[:3] for value in oddities(odd)):
                asked = part.ask(method, {"options": [{"optionId": "a"}]})
                arrives(part, {"jsonrpc": "2.0", "id": asked.id, "result": {name: value}})
    assert await unjudged(part) == []
