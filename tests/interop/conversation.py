"""A scripted client and a scripted agent as separate processes, and the record of their conversation.

The client runs all scenarios of peers/script.json and prints what it observes.
tee.py between the two records the bytes.
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

from tests.interop.agent_server import PEERS, run_agent_server
from tests.interop.wire_record import WireRecord
from tests.patience import PATIENCE
from tests.requirements import need_node, need_npm

SCRIPT = json.loads((PEERS / "script.json").read_text("utf-8"))
NOTES = "one\ntwo\nthree\n"
LIMIT = PATIENCE
"""Seconds until a conversation times out; a normal one takes about two."""


def command_of(side: str, peer: str) -> list[str]:
    """The command that starts a peer: `accord`, `python`, `typescript`, or `coder` for `accord agent`."""
    match peer:
        case "accord":
            return [sys.executable, "-W", "error", str(PEERS / f"accord_{side}.py")]
        case "coder":
            return [sys.executable, "-W", "error", "-m", "accord.cli", "agent", "--model", "rehearsal"]
        case "python":
            return [sys.executable, str(PEERS / f"official_python_{side}.py")]
        case _:
            need_npm("@agentclientprotocol/sdk")
            return [need_node(), str(PEERS / f"official_ts_{side}.mjs")]


class Scenario:
    """What a client observed in one scenario, in order."""

    def __init__(self, observations: list[dict[str, Any]]) -> None:
        self.observations = observations

    def seen(self, what: str, **more: Any) -> list[dict[str, Any]]:
        """The observations of one kind."""
        wanted = {"what": what, **more}
        return [one for one in self.observations if wanted.items() <= one.items()]

    @cached_property
    def updates(self) -> list[dict[str, Any]]:
        """The session updates without the command lists, whose time of arrival is not fixed."""
        updates = [without_nulls(one["update"]) for one in self.seen("update")]
        return [one for one in updates if one["sessionUpdate"] != "available_commands_update"]

    def updates_of(self, kind: str) -> list[dict[str, Any]]:
        """The updates of one kind."""
        return [one for one in self.updates if one["sessionUpdate"] == kind]

    @property
    def texts(self) -> list[str]:
        """The texts of the agent, chunk by chunk."""
        return [one["content"]["text"] for one in self.updates_of("agent_message_chunk")]

    @property
    def json_text(self) -> Any:
        """The JSON value that the agent sent as text."""
        return json.loads("".join(self.texts))

    @property
    def stop_reasons(self) -> list[str]:
        """The stop reasons of the prompts that succeeded."""
        return [one["stopReason"] for one in self.answers("prompt")]

    def answers(self, to: str) -> list[Any]:
        """The results of a step."""
        return [without_nulls(one["result"]) for one in self.seen("answer", to=to)]

    def error(self, to: str) -> dict[str, Any]:
        """The only error of a step."""
        [error] = self.seen("error", to=to)
        return error

    @property
    def tool_call(self) -> "ObservedToolCall":
        """The only tool call of the scenario."""
        reports = [one for one in self.updates if one["sessionUpdate"] in ("tool_call", "tool_call_update")]
        assert reports[0]["sessionUpdate"] == "tool_call"
        assert len({one["toolCallId"] for one in reports}) == 1
        last: dict[str, Any] = {}
        for report in reports:
            last |= report
        return ObservedToolCall(
            reports[0]["toolCallId"], [one["status"] for one in reports if "status" in one], last
        )


@dataclass
class ObservedToolCall:
    """A tool call, merged from its updates."""

    id: str
    statuses: list[str]
    last: dict[str, Any]


@dataclass
class Conversation:
    """All scenarios between one client and one agent."""

    client: str
    agent: str
    folder: Path
    scenarios: dict[str, Scenario]
    wire: WireRecord
    stderr: str

    def scenario(self, name: str) -> Scenario:
        """One scenario of the script."""
        return self.scenarios[name]

    @property
    def complaints(self) -> list[str]:
        """Problems that the client's library reported."""
        return [one["text"] for scenario in self.scenarios.values() for one in scenario.seen("complaint")]


def run_conversation(client: str, agent: str, folder: Path) -> Conversation:
    """Run the whole script between the two; `folder` is where the sessions work.

    The suffix of an agent's name says how it is reached: `python-ws`, `typescript-http`.
    """
    script = "coder_script.json" if agent == "coder" else "script.json"
    peer, _, scheme = agent.partition("-")
    work, record = folder / "work", folder / "record"
    work.mkdir()
    record.mkdir()
    (work / "notes.txt").write_text(NOTES)
    tee = [sys.executable, str(Path(__file__).with_name("tee.py")), str(record)]
    env = {**_without_keys(), "SCRIPT": script, "ACCORD_HOME": str(folder / "home")}
    with ExitStack() as servers:
        if scheme:
            server = servers.enter_context(run_agent_server(peer, scheme, folder))
            target = [server.url]
            settings = {"CERTIFICATE": server.certificate, "TOKEN": server.token}
            env |= {name: value for name, value in settings.items() if value}
            if peer != "accord":  # the gateway front records the messages itself
                env["RECORD"] = str(record)
        else:
            target = [*tee, *command_of("agent", agent)]
        done = _run([*command_of("client", client), str(work), *target], env, f"{client} and {agent}")
    stderr = done.stderr.decode(errors="replace")
    assert done.returncode == 0, f"the client exited with {done.returncode}:\n{stderr}"
    scenarios: dict[str, list[dict[str, Any]]] = {}
    for line in done.stdout.splitlines():
        observation = json.loads(line)
        scenarios.setdefault(observation["scenario"], []).append(observation)
    seen = {name: Scenario(observations) for name, observations in scenarios.items()}
    return Conversation(client, agent, work, seen, WireRecord.read(record), stderr)


def _run(command: list[str], env: dict[str, str], pair: str) -> "subprocess.CompletedProcess[bytes]":
    try:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT, check=False, env=env
        )
    except subprocess.TimeoutExpired as error:
        last = (error.stdout or b"").splitlines()[-1:]
        raise AssertionError(f"{pair} did not finish; the last observation: {last}") from None


def _without_keys() -> dict[str, str]:
    suffixes = ("_API_KEY", "_BASE_URL", "_MODEL")
    return {name: value for name, value in os.environ.items() if not name.endswith(suffixes)}


def without_nulls(value: Any) -> Any:
    """The same value without members that are null."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value
