"""The whole of `accord run`: start the agent, open a session, run the turn, and say how it went."""

import asyncio
from collections.abc import Iterable
from typing import Final

from accord.cli import DONE, FAILED, INTERRUPTED, NO_PERMISSION, exit_code
from accord.cli.output import Output
from accord.cli.running.arguments import Arguments
from accord.cli.running.forms import Asking
from accord.cli.running.interrupts import Interrupts
from accord.cli.running.notes import Notes
from accord.cli.running.person import Person
from accord.cli.running.turn import Result, TurnRun
from accord.client import (
    ClientHandlers,
    ClientOptions,
    ClientSession,
    Features,
    RemoteAgent,
    TimeLimits,
    run_in_terminal,
)
from accord.client.askuser import ASK_USER
from accord.client.attachments import Attaching
from accord.client.connect import Connecting
from accord.client.consent import Consent
from accord.client.entering import Opening, reachable
from accord.client.guarded import guarded_workspace
from accord.client.mentions import mentions_in
from accord.client.options import ClientReport
from accord.client.recording import Recorder
from accord.client.restart import RestartPolicy
from accord.client.servers import Server
from accord.client.settings import apply_settings
from accord.client.signin import how_to_sign_in
from accord.errors import AccordError, AuthRequired
from accord.policy.rules import Word
from accord.schema import ContentBlock, TextContent

_NOISE_TOLD: Final = 3


class Job:
    """One run."""

    def __init__(
        self, given: Arguments, prompt: str, server: Server, output: Output, person: Person | None
    ) -> None:
        self._given = given
        self._prompt = prompt
        self._server = server
        self._output = output
        self._person = person
        policy = server.policy(_word(given, server, person is not None))
        self._consent = Consent(policy, person, Notes(output.note))
        self._asking = Asking(person, Notes(output.note))
        self._interrupts = Interrupts(output.note)
        self._noise = 0
        self._code: int | None = None
        self._recorder: Recorder | None = None

    async def run(self) -> int:
        """Everything, to the last line."""
        try:
            with self._interrupts.watched():
                await self._connected()
        except AccordError as error:
            self._finish(Result(error=error))
        except asyncio.CancelledError:
            if not self._interrupts.count:
                raise
            self._finish(Result())
        finally:
            if self._recorder is not None:
                self._recorder.close()
        assert self._code is not None, "every way out tells how it went"
        return self._code

    async def _connected(self) -> None:
        source = self._given.remote or self._server.launch(self._given.cwd)
        async with Connecting(source, self._handlers(), self._options()) as agent:
            servers = reachable(self._server.mcp_servers(), agent, self._output.note)
            opening = Opening(agent, self._server.name, self._given.cwd, self._given.add_dir, servers)
            self._recorder = recorder = Recorder(self._server.name, self._output.note)
            session = await self._opened(opening, recorder)
            self._finish(await self._turn(opening, session, recorder).run(self._blocks(agent)))

    # -- what the agent is started with -------------------------------------------------------------------------

    def _handlers(self) -> ClientHandlers:
        # The agent of this package works on this machine anyway, and keeps its own rules: a detour over us gains nothing.
        offered = self._server.name != "accord" or bool(self._server.command)
        return ClientHandlers(
            permissions=self._consent,
            workspace=guarded_workspace(self._consent) if offered else None,
            forms=self._asking.form,
            urls=self._asking.address,
            login=run_in_terminal,  # by `accord agents login`: said here so that the agent tells of such ways, too
            extensions={ASK_USER: self._asking.question},
        )

    def _options(self) -> ClientOptions:
        given = self._given
        limits = TimeLimits() if given.timeout is None else TimeLimits(silence=given.timeout)
        return self._server.options(
            ClientOptions(
                limits=limits,
                strict=given.strict,
                observer=self._observe,
                restart=RestartPolicy(),
                features=Features(meta={"accord": {"extensions": [ASK_USER]}}),
            )
        )

    def _observe(self, report: ClientReport) -> None:
        if report.kind == "oversized":
            self._output.note(f"a message of the agent is left out: {report.detail}")
        if report.kind != "noise":
            return
        self._noise += 1
        if self._noise <= _NOISE_TOLD:
            line = report.frame[:200].decode(errors="replace")
            self._output.note(f"the agent printed what is no message: {line}")
        elif self._noise == _NOISE_TOLD + 1:
            self._output.note("it prints more of that, which is not shown")

    # -- the session and its turn -------------------------------------------------------------------------------

    async def _opened(self, opening: Opening, recorder: Recorder) -> ClientSession:
        if self._given.session is not None:
            session = await opening.again(self._given.session)
        elif self._given.newest:
            session = await opening.again(await opening.newest(recorder.records))
        else:
            session = await opening.new()
        await apply_settings(self._given, opening.agent, session)
        recorder.begin(session)
        self._output.opened(session, opening.agent)
        return session

    def _turn(self, opening: Opening, session: ClientSession, recorder: Recorder) -> TurnRun:
        given, restart = self._given, session.life.options.restart
        turn = TurnRun(
            session,
            self._output,
            lambda: recorder.recording,
            served=lambda: self._consent.done + self._asking.done,
            deadline=given.deadline,
            retries=restart.max_restarts if given.retry and restart is not None else 0,
            settle=lambda session: apply_settings(given, opening.agent, session),
            reopen=None if given.session or given.newest else lambda: self._opened(opening, recorder),
            stopping=None if self._person is None else self._person.dismiss,
        )
        self._consent.caught_up = turn.caught_up
        self._interrupts.stop_turn = turn.stop
        return turn

    def _blocks(self, agent: RemoteAgent) -> list[ContentBlock]:
        given, note = self._given, self._output.note
        found = mentions_in(self._prompt, (given.cwd, *given.add_dir))
        for text in found.notes:
            note(text)
        attaching = Attaching(agent.capabilities, note)
        blocks: list[ContentBlock] = [TextContent(self._prompt)]
        blocks += [attaching.mentioned(path) for path in found.paths]
        blocks += [attaching.attached(path) for path in given.attach]
        return blocks

    # -- how it went --------------------------------------------------------------------------------------------

    def _finish(self, result: Result) -> None:
        """Say how it went. What comes later, while the agent is being ended, changes nothing any more."""
        if self._code is not None:
            return
        if isinstance(result.error, AuthRequired):
            for line in self._ways_to_sign_in(result.error):
                self._output.note(line)
        self._code = self._exit_code(result)
        self._output.finished(result.ended, result.error, self._code)

    def _ways_to_sign_in(self, error: AuthRequired) -> Iterable[str]:
        if self._given.remote is not None:
            return (
                f"sign in by {method.name!r} on the machine where the agent runs" for method in error.methods
            )
        name = None if self._given.command else self._server.name
        return how_to_sign_in(error, name, self._server.launch(self._given.cwd))

    def _exit_code(self, result: Result) -> int:
        if self._interrupts.count:
            return INTERRUPTED
        if result.error is not None:
            return exit_code(result.error)
        if result.ended is not None and result.ended.stop_reason not in ("end_turn", "cancelled"):
            return FAILED
        if self._consent.refused:
            return NO_PERMISSION
        return DONE if result.ended is not None and result.ended.stop_reason == "end_turn" else FAILED


def _word(given: Arguments, server: Server, somebody: bool) -> Word | None:
    """What takes the place of the default in the user's rules: what was said, else what their file says, else by who is there."""
    if given.permissions is not None:
        return given.permissions
    if not somebody and server.unattended is not None:
        return server.unattended
    if server.permissions is not None and server.permissions.word is not None:
        return None
    return "ask" if somebody else "reads"
