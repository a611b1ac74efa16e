"""`accord agents login` and `logout`: sign in to an agent by one of the ways it offers, and out again.

A terminal method runs the agent's own program in this terminal, an agent's own method is `authenticate`, and for a key in the
environment it is said what to set.
"""

import asyncio
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace

from accord.cli import AUTH, DONE, FAILED
from accord.cli.agent_choice import chosen_server
from accord.cli.agents_command import parser, trust_option
from accord.cli.command_parser import folder
from accord.cli.output import output_for
from accord.cli.terminal_user import TerminalForms, TerminalUser, is_there
from accord.client import AgentCommand, ClientHandlers, ClientOptions, RemoteAgent, run_in_terminal
from accord.client.remote_agent import PendingAgent
from accord.errors import NotOffered, UsageError
from accord.frontend.agent_config import ConfiguredAgent
from accord.frontend.sign_in import described, what_to_set
from accord.safe_text import clean_line, one_line
from accord.schema import AuthMethod, AuthMethodTerminal
from accord.schema.dialects import variables


def log_in(arguments: Sequence[str]) -> int:
    """`accord agents login NAME [METHOD]`; the result is the exit code."""
    options = parser("login")
    options.add_argument("name", metavar="NAME", help="the agent")
    options.add_argument("method", metavar="METHOD", nargs="?", help="the id of one of its ways to sign in")
    trust_option(options)
    given = options.parse_args(arguments)
    cwd = folder("--cwd", given.cwd)
    server = chosen_server(given.name, (), cwd, trust=given.trust)
    return asyncio.run(AgentSignIn(server, cwd).log_in(given.method))


def log_out(arguments: Sequence[str]) -> int:
    """`accord agents logout NAME`; the result is the exit code."""
    options = parser("logout")
    options.add_argument("name", metavar="NAME", help="the agent")
    trust_option(options)
    given = options.parse_args(arguments)
    cwd = folder("--cwd", given.cwd)
    server = chosen_server(given.name, (), cwd, trust=given.trust)
    return asyncio.run(AgentSignIn(server, cwd).log_out())


class AgentSignIn:
    """One agent, and whoever sits at this terminal."""

    def __init__(self, server: ConfiguredAgent, cwd: str) -> None:
        self._server = server
        self._launch = server.launch(cwd)
        self._person: TerminalUser | None = None
        if is_there():
            terminal = sys.stdout.isatty()
            self._person = TerminalUser(
                output_for("quiet", stdout=sys.stdout, stderr=sys.stderr, terminal=terminal)
            )
        self._failed: int | None = None

    async def log_in(self, method_id: str | None) -> int:
        """Sign in by the method that is named, the only one, or the one that is chosen."""
        async with self._connecting() as agent:
            if not agent.auth_methods:
                raise UsageError(f"{self._name} offers no way to sign in over ACP{self._keys()}")
            method = await self._chosen(agent, method_id)
            names = variables(method)
            if names is not None:
                return self._tell_variables(method, names)
            if isinstance(method, AuthMethodTerminal) and self._person is None:
                raise UsageError(
                    f"{one_line(method.id)!r} runs {self._name} in a terminal, and there is none: run this in one"
                )
            try:
                await agent.sign_in(method)
            except UsageError as error:
                if self._failed is None:
                    raise
                _say(clean_line(str(error)))
                return FAILED
        _say(f"signed in to {self._name} by {one_line(clean_line(method.name))!r}")
        return DONE

    async def log_out(self) -> int:
        """Sign out, where the agent can do that."""
        async with self._connecting() as agent:
            auth = agent.capabilities.auth
            if not (auth and auth.logout):
                raise NotOffered(f"{self._name} cannot sign out over ACP: its own documentation says how")
            await agent.logout()
        _say(f"signed out of {self._name}")
        return DONE

    # -- the agent ----------------------------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        return one_line(self._server.name)

    def _connecting(self) -> PendingAgent:
        asking = TerminalForms(self._person, _say)
        handlers = ClientHandlers(
            login=None if self._person is None else self._run,
            forms=None if self._person is None else asking.form,
            urls=None if self._person is None else asking.address,
        )
        # Some agents print there what the user has to open, or a code to type.
        options = ClientOptions(on_stderr=lambda line: _say(f"{self._name}: {clean_line(line.rstrip())}"))
        return PendingAgent(self._launch, handlers, replace(self._server.options(options), restart=None))

    async def _run(self, launch: AgentCommand) -> int:
        _say(f"{one_line(shlex.join(launch.command))} runs in this terminal now")
        code = await run_in_terminal(launch)
        self._failed = code or None
        return code

    # -- the method ---------------------------------------------------------------------------------------------

    async def _chosen(self, agent: RemoteAgent, method_id: str | None) -> AuthMethod:
        methods = agent.auth_methods
        if method_id is None and len(methods) == 1:
            return methods[0]
        if method_id is None and self._person is not None:
            return await self._asked(self._person, methods)
        for method in methods:
            if method.id == method_id:
                return method
        listed = ", ".join(one_line(method.id) for method in methods)
        if method_id is None:
            raise UsageError(f"{self._name} offers several ways to sign in, name one of them: {listed}")
        raise UsageError(f"{self._name} has no way to sign in called {method_id!r}; it has: {listed}")

    async def _asked(self, person: TerminalUser, methods: Sequence[AuthMethod]) -> AuthMethod:
        async with person.asked() as question:
            question.say(f"How do you want to sign in to {self._name}?")
            for number, method in enumerate(methods, 1):
                question.say(f"{number}  {one_line(method.id)}: {described(method, self._launch)}", "  ")
            answer = await question.line("Number or id: ")
        if not answer:
            raise UsageError("no way to sign in was chosen; nothing was changed")
        if answer.isdecimal() and 1 <= int(answer) <= len(methods):
            return methods[int(answer) - 1]
        for method in methods:
            if method.id == answer:
                return method
        raise UsageError(f"there is no {answer!r} among them; nothing was changed")

    def _tell_variables(self, method: AuthMethod, names: Sequence[str]) -> int:
        """A key in the environment: nothing to call, but to set, and to hand on."""
        lines = list(what_to_set(names, self._name, self._launch))
        if not lines:
            _say(f"{self._name} gets {', '.join(map(one_line, names))} already: there is nothing to do")
            return DONE
        for line in lines:
            _say(line)
        return AUTH

    def _keys(self) -> str:
        keys = [key for key in self._server.keys if "*" not in key]
        return f"; it takes a key from the environment: {', '.join(keys)}" if keys else ""


def _say(text: str) -> None:
    print(f"accord agents: {text}", file=sys.stderr, flush=True)
