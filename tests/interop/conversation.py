"""A scripted client and a scripted agent in processes of their own, and what came of their conversation.

The client plays all scenes of peers/script.json and prints what it observes; tee.py between the two records the wire.
"""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.interop.served import PEERS, served
from tests.interop.wire_record import WireRecord
from tests.requirements import need_node, need_npm

SCRIPT = json.loads((PEERS / "script.json").read_text("utf-8"))
NOTES = "one\ntwo\nthree\n"
LIMIT = 45
"""Seconds after which a conversation is given up; a good one takes about two."""


def command_of(side: str, peer: str) -> list[str]:
    """How to start a peer: `accord`, `python` or `typescript`, as `agent` or `client`; `coder` is `accord agent`."""
    match peer:
        case "accord":
            return [sys.executable, "-W", "error", str(PEERS / f"accord_{side}.py")]
        case "coder":
            return [sys.executable, "-W", "error", "-m", "accord.cli", "agent"]
        case "python":
            return [sys.executable, str(PEERS / f"official_python_{side}.py")]
        case _:
            need_npm("@agentclientprotocol/sdk")
            return [need_node(), str(PEERS / f"official_ts_{side}.mjs")]


class Scene:
    """What a client observed in one scene, in order."""

    def __init__(self, observations: list[dict[str, Any]]) -> None:
        self.observations = observations

    def seen(self, what: str, **more: Any) -> list[dict[str, Any]]:
        """The observations of one sort."""
        wanted = {"what": what, **more}
        return [one for one in self.observations if wanted.items() <= one.items()]

    @cached_property
    def updates(self) -> list[dict[str, Any]]:
        """The session updates, but for those that say which commands there are: they come when they come."""
        updates = [without_nulls(one["update"]) for one in self.seen("update")]
        return [one for one in updates if one["sessionUpdate"] != "available_commands_update"]

    def updates_of(self, kind: str) -> list[dict[str, Any]]:
        """The updates of one kind."""
        return [one for one in self.updates if one["sessionUpdate"] == kind]

    @property
    def texts(self) -> list[str]:
        """What the agent said, piece by piece."""
        return [one["content"]["text"] for one in self.updates_of("agent_message_chunk")]

    @property
    def said_json(self) -> Any:
        """The value that the agent said."""
        return json.loads("".join(self.texts))

    @property
    def stop_reasons(self) -> list[str]:
        """How the prompts of the scene ended, those that failed aside."""
        return [one["stopReason"] for one in self.answers("prompt")]

    def answers(self, to: str) -> list[Any]:
        """The results of a step."""
        return [without_nulls(one["result"]) for one in self.seen("answer", to=to)]

    def error(self, to: str) -> dict[str, Any]:
        """The only error of a step."""
        [error] = self.seen("error", to=to)
        return error

    @property
    def tool_call(self) -> "ToolCallSeen":
        """The only tool call of the scene."""
        reports = [one for one in self.updates if one["sessionUpdate"] in ("tool_call", "tool_call_update")]
        assert reports[0]["sessionUpdate"] == "tool_call"
        assert len({one["toolCallId"] for one in reports}) == 1
        last: dict[str, Any] = {}
        for report in reports:
            last |= report
        return ToolCallSeen(
            reports[0]["toolCallId"], [one["status"] for one in reports if "status" in one], last
        )


@dataclass
class ToolCallSeen:
    """A tool call, put together from its reports."""

    id: str
    statuses: list[str]
    last: dict[str, Any]


@dataclass
class Conversation:
    """All scenes between one client and one agent."""

    client: str
    agent: str
    folder: Path
    scenes: dict[str, Scene]
    wire: WireRecord
    stderr: str

    def scene(self, name: str) -> Scene:
        """One of the scenes of the script."""
        return self.scenes[name]

    @property
    def complaints(self) -> list[str]:
        """What the client's library found fault with."""
        return [one["text"] for scene in self.scenes.values() for one in scene.seen("complaint")]


def play(client: str, agent: str, folder: Path) -> Conversation:
    """Let the two talk through the whole script; `folder` is where the sessions work.

    The name of an agent behind an address says how it is reached: `python-ws`, `typescript-http`.
    """
    script = "coder_script.json" if agent == "coder" else "script.json"
    peer, _, carrier = agent.partition("-")
    work, record = folder / "work", folder / "record"
    work.mkdir()
    record.mkdir()
    (work / "notes.txt").write_text(NOTES)
    tee = [sys.executable, str(Path(__file__).with_name("tee.py")), str(record)]
    env = {**_without_keys(), "SCRIPT": script, "ACCORD_HOME": str(folder / "home")}
    with ExitStack() as servers:
        if carrier:
            server = servers.enter_context(served(peer, carrier, folder))
            reached = [server.url]
            facts = {"CERTIFICATE": server.certificate, "TOKEN": server.token}
            env |= {name: value for name, value in facts.items() if value}
            if peer != "accord":  # the front records by itself
                env["RECORD"] = str(record)
        else:
            reached = [*tee, *command_of("agent", agent)]
        done = _finished([*command_of("client", client), str(work), *reached], env, f"{client} and {agent}")
    stderr = done.stderr.decode(errors="replace")
    assert done.returncode == 0, f"the client exited with {done.returncode}:\n{stderr}"
    scenes: dict[str, list[dict[str, Any]]] = {}
    for line in done.stdout.splitlines():
        observation = json.loads(line)
        scenes.setdefault(observation["scene"], []).append(observation)
    seen = {name: Scene(observations) for name, observations in scenes.items()}
    return Conversation(client, agent, work, seen, WireRecord.read(record), stderr)


def _finished(command: list[str], env: dict[str, str], who: str) -> "subprocess.CompletedProcess[bytes]":
    try:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT, check=False, env=env
        )
    except subprocess.TimeoutExpired as error:
        last = (error.stdout or b"").splitlines()[-1:]
        raise AssertionError(f"{who} did not come to an end; the last observation: {last}") from None


def _without_keys() -> dict[str, str]:
    ours = ("_API_KEY", "_BASE_URL", "_MODEL")
    return {name: value for name, value in os.environ.items() if not name.endswith(ours)}


def without_nulls(value: Any) -> Any:
    """The same value; members that are null count as absent."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value
