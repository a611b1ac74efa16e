"""The fixture of one case with a client: temporary folders, script, the client and its agents."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from msgspec import Struct

from accord.check import findings
from accord.check.check_fixture import CheckFixture, ProgramTraits
from accord.check.check_script import ClientCheckScript, ScriptedCommand, fill_placeholders, write_files
from accord.check.checked_connection import CallAnswer, CheckTimeouts, ConnectionOver
from accord.check.client.agent_responder import AgentResponder
from accord.check.client.client_process import ClientLauncher, LaunchedClient
from accord.check.client.client_under_test import AgentPipe, ClientUnderTest
from accord.check.findings import CaseUnavailable, RuleId, RuleNotes
from accord.check.program_launch import StartOptions
from accord.clock import SYSTEM_CLOCK, Clock, within
from accord.trace.trace_steps import at
from accord.wire.envelope import Message


async def check_client_record(client: "ClientUnderTest", notes: RuleNotes) -> None:
    """Check all passive rules on a closed connection with a client."""
    from accord.check.client import client_rules
    from accord.check.client.client_rules import ClientRecord
    from accord.check.wire_rules import check_messages, check_record

    await check_record(
        ClientRecord(client),
        notes,
        [check_messages, client_rules.check_capabilities, client_rules.check_calls],
    )


PROMPT: Final = "Say hello."
ANSWER_TEXT: Final = "AnswerOfTheCheck"
"""The agent's text. It is one word, so that a client does not wrap it when it prints it."""


LONG_COMMAND: Final = "import os,time; print(os.getpid(), flush=True); time.sleep(90)"
"""A Python program that prints its process id and runs for 90 seconds."""


class CheckedTerminal:
    """A terminal of the client."""

    def __init__(self, client: ClientUnderTest, id: str) -> None:
        self.client = client
        self.id = id

    @property
    def _params(self) -> dict[str, Any]:
        return {"sessionId": self.client.responder.session, "terminalId": self.id}

    async def call(self, method: str, rule: RuleId) -> CallAnswer:
        """Call `output`, `wait_for_exit`, `kill` or `release`."""
        return await self.client.call(f"terminal/{method}", self._params, rule=rule)

    def send_request(self, method: str) -> Any:
        """Send the same request without waiting."""
        return self.client.send_request(f"terminal/{method}", self._params)

    async def wait_for_output(self, rule: RuleId) -> str:
        """Wait for its first output; empty after the timeout."""
        deadline = self.client.clock.now() + self.client.timeouts.soon
        while self.client.clock.now() < deadline:
            answer = await self.call("output", rule)
            text = at(answer.result, "output")
            if isinstance(text, str) and text.strip():
                return text
            await self.client.clock.sleep(0.02)
        return ""


class ClientFixture(CheckFixture[ClientCheckScript]):
    """The environment of one case. `outside` is not part of the session."""

    client_type: ClassVar[type[ClientUnderTest]] = ClientUnderTest
    responder_type: ClassVar[type[AgentResponder]] = AgentResponder

    def __init__(
        self,
        root: Path,
        launcher: ClientLauncher,
        script: ClientCheckScript,
        notes: RuleNotes,
        *,
        timeouts: CheckTimeouts,
        traits: ProgramTraits | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        files = {
            "project/notes.txt": "one\ntwo\nthree\n",
            "outside/secret.txt": "outside the session's folders\n",
        }
        super().__init__(root, script, notes, timeouts=timeouts, clock=clock, files=files)
        self.traits: ProgramTraits = traits or ProgramTraits()
        self.responder: AgentResponder = self.responder_type()
        self.connections: list[ClientUnderTest] = []
        self.logins: list[AgentPipe] = []
        """One entry for each time the client started the agent's terminal login."""
        self.processes: list[LaunchedClient] = []
        self._launcher = launcher
        self._connected: asyncio.Future[None] | None = None
        self.outside: Path = self.root / "outside"

    # -- the client

    @property
    def process(self) -> LaunchedClient:
        """The client process that runs now."""
        return self.processes[-1]

    @property
    def can_choose_prompt(self) -> bool:
        """Whether the prompt can be chosen."""
        return self._launcher.can_choose_prompt

    def require_actions(self, *actions: str) -> None:
        """Raise `CaseUnavailable` if the script lacks one of these actions."""
        for name in actions:
            if self.script.action(name) is None:
                raise CaseUnavailable(f"the script has no action {name!r}")

    def find_action(self, name: str) -> ScriptedCommand | None:
        return self.script.action(name)

    def available_actions(self, *actions: str) -> tuple[str, ...]:
        """Those of the actions that the script has."""
        return tuple(action for action in actions if self.has_action(action))

    async def start(self, *actions: str, prompt: str = PROMPT, **values: str) -> None:
        """Start the client with a prompt and these actions."""
        placeholder_values = {
            "folder": str(self.folder),
            "home": str(self.home),
            "extra": str(self.extra),
            **values,
        }
        arguments: list[str] = []
        environment = dict(self.script.environment)
        terminal = False
        for name in actions:
            action = self.script.action(name)
            if action is None:
                raise CaseUnavailable(f"the script has no action {name!r}")
            arguments += [fill_placeholders(word, placeholder_values) for word in action.words]
            environment |= action.environment
            terminal = terminal or action.terminal
            write_files(action, placeholder_values)
        options = StartOptions(
            self.folder, self.home, arguments, environment, prompt=prompt, terminal=terminal
        )
        self.processes.append(await self._launcher(options, self._add_connection))

    def _add_connection(self, pipe: AgentPipe) -> None:
        if pipe.arguments:  # a terminal login, which succeeds
            self.logins.append(pipe)
            pipe.exit(0)
            return
        name = f"{self.notes.case} {len(self.connections) + 1}"
        self.connections.append(
            self.client_type(name, pipe, self.responder, self.notes, self.timeouts, self.clock)
        )
        if self._connected is not None and not self._connected.done():
            self._connected.set_result(None)

    async def wait_for_connection(self, number: int = 1, *, rule: RuleId | None = None) -> ClientUnderTest:
        """Wait until the client has started its first, second... agent; returns the connection."""
        deadline = self.clock.now() + self.timeouts.answer
        while len(self.connections) < number:
            remaining = deadline - self.clock.now()
            if remaining <= 0 or self.process.exit is not None:
                reason = "the client did not start the agent"
                if rule is not None:
                    self.notes.add_fail(rule, reason)
                raise ConnectionOver(reason)
            self._connected = asyncio.get_running_loop().create_future()
            await within(self.clock, min(remaining, 0.2), self._connected)
        return self.connections[number - 1]

    async def start_turn(
        self, *actions: str, prompt: str = PROMPT, rule: RuleId | None = None, **values: str
    ) -> "ClientTurn":
        """Start the client and wait for its prompt."""
        number = len(self.connections) + 1
        await self.start(*actions, prompt=prompt, **values)
        client = await self.wait_for_connection(number)
        return ClientTurn(client, await client.wait_for_prompt(rule=rule))

    async def try_turn(self, *actions: str, **values: str) -> ClientUnderTest:
        """Start the client, end its turn if it sends a prompt soon, and end the client."""
        number = len(self.connections) + 1
        await self.start(*actions, **values)
        client = await self.wait_for_connection(number)
        prompt = await client.wait_for_call("session/prompt", timeout=self.timeouts.soon)
        if prompt is not None:
            client.end_turn(prompt)
        await self.wait_for_exit()
        await self.process.end()
        return client

    async def wait_for_exit(self) -> bool:
        """Wait for the client's exit; returns whether it exited. Skips clients that keep running."""
        if not self.traits.exits_after_turn:
            await self.process.wait(0.2)
            return self.process.exit is not None
        return await self.process.wait(self.timeouts.soon)

    async def open_terminal(
        self,
        client: ClientUnderTest,
        code: str,
        rule: RuleId = "terminal.create-at-once",
        **more: Any,
    ) -> CheckedTerminal:
        """Run Python code in a terminal of the client."""
        args = ["-c", code, *more.pop("arguments", [])]
        params = {"sessionId": client.responder.session, "command": sys.executable, "args": args, **more}
        answer = await client.call("terminal/create", params, rule=rule)
        id = at(answer.result, "terminalId")
        if isinstance(id, str):
            return CheckedTerminal(client, id)
        if not self.has_action("allow"):
            raise CaseUnavailable("it did not allow a terminal, and the script has no action 'allow'")
        self.add_fail(rule, f"terminal/create gave {answer.summary}", answer)
        raise CaseUnavailable(f"terminal/create gave {answer.summary}")

    async def finish_turn(
        self, turn: "ClientTurn", answer_text: str = "", rules: Sequence[RuleId] = ()
    ) -> None:
        """Send the text, end the turn, and judge whether the client continues and prints the text."""
        if answer_text:
            turn.client.send_text(answer_text)
        last = turn.client.end_turn(turn.prompt)
        await self.wait_for_exit()
        frames = [last]
        if self.process.exit is not None and self.process.exit.signal is not None:
            for rule in rules:
                self.notes.add_fail(rule, f"the client crashed: it {self.process.exit}", *frames)
            return
        for rule in rules:
            if answer_text and self.traits.prints_messages:
                passed = answer_text in self.process.stdout
                failure = f"later text is not printed; output: {tail(self.process.output)}"
                self.notes.judge(
                    rule, passed, "the turn continued, and later text is printed", failure, *frames
                )
            elif not any(note.outcome == "fail" for note in self.notes.for_rule(rule)):
                self.notes.add_pass(rule, "the turn continued", *frames)

    async def aclose(self) -> None:
        """End all processes and check the records of their connections."""
        for process in self.processes:
            await process.end()
        for client in self.connections:
            await self.check_record(client)

    async def check_record(self, client: ClientUnderTest) -> None:
        """Check all passive rules on a closed connection."""
        await check_client_record(client, self.notes)

    def output_tail(self) -> str:
        """The end of the client's output."""
        return tail(self.process.output) if self.processes else ""


class ClientTurn(Struct, frozen=True):
    """A turn of the client: its connection and its prompt."""

    client: ClientUnderTest
    prompt: Any


def tail(output: str, max_characters: int = 300) -> str:
    """The end of an output in one line."""
    line = " ".join(output.split())
    return f"...{line[-max_characters:]}" if len(line) > max_characters else line or "(nothing)"


class Ping(NamedTuple):
    """A step: the client must still answer requests, otherwise the rule is broken."""

    rule: RuleId


Step: TypeAlias = Message | str | bytes | Ping
"""What the agent of a table does next: send a message or any other line, or test that the client answers."""


async def run_steps(client: ClientUnderTest, steps: Sequence[Step]) -> None:
    """Do the steps of a table in order."""
    for step in steps:
        if isinstance(step, Ping):
            await client.ping(rule=step.rule)
        else:
            client.send(step)


class ClientCases(findings.CaseList[ClientFixture]):
    """The cases of a module. Those that only send a list of messages are written as tables."""

    def turn(
        self, name: str, about: str, rules: str, prepare: Callable[[ClientFixture], None] | None = None
    ) -> Callable[..., None]:
        """Add a case with the steps that the result is called with: the turn must continue after them.

        `prepare` changes the answers of the agent; then the first rule is broken if no prompt follows.
        """
        rule, *_ = rule_ids = rules.split()

        def add(*steps: Step) -> None:
            async def run(fixture: ClientFixture) -> None:
                if prepare is not None:
                    prepare(fixture)
                turn = await fixture.start_turn(rule=rule if prepare is not None else None)
                await run_steps(turn.client, steps)
                await fixture.finish_turn(turn, ANSWER_TEXT, rule_ids)

            self.add(name, about, rules, run)

        return add
