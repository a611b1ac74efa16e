"""`accord agents login` and `logout`: sign in to an agent by one of its methods, and sign out.

A terminal method runs the agent's program in this terminal. An agent method is the request `authenticate`.
For a method that reads environment variables, the command prints which ones to set.

Imported on first use: it loads accord.client.
"""

import asyncio
import sys
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from accord.cli.agent_choice import choose_agent
from accord.cli.command_parser import (
    Parser,
    add_trust_option,
    can_ask,
    existing_folder,
    is_terminal,
    print_stderr,
)
from accord.cli.exit_codes import AUTH, DONE, FAILED
from accord.cli.output import output_for
from accord.cli.terminal_user import TerminalForms, TerminalUser
from accord.client import AgentCommand, ClientHandlers, ClientOptions, RemoteAgent, run_in_terminal
from accord.client.remote_agent import PendingAgent
from accord.errors import AccordError, NotOffered, UsageError
from accord.frontend.agent_config import ConfiguredAgent
from accord.frontend.sign_in import clear_error, describe_method, missing_variables
from accord.safe_text import clean_line, one_line
from accord.schema import AuthMethod, AuthMethodTerminal
from accord.schema.dialects import variables
from accord.trace.redaction import command_line_text


def log_in(parser: Parser, arguments: Sequence[str]) -> int:
    """Run `accord agents login NAME [METHOD]` and return the exit code."""
    parser.add_argument("name", metavar="NAME", help="name of the agent")
    parser.add_argument("method", metavar="METHOD", nargs="?", help="id of the sign-in method")
    add_trust_option(parser)
    options = parser.parse_args(arguments)
    cwd = existing_folder("--cwd", options.cwd)
    agent = choose_agent(options.name, (), cwd, trust=options.trust)
    return _run(agent, AgentSignIn(agent, cwd).log_in(options.method))


def log_out(parser: Parser, arguments: Sequence[str]) -> int:
    """Run `accord agents logout NAME` and return the exit code."""
    parser.add_argument("name", metavar="NAME", help="name of the agent")
    add_trust_option(parser)
    options = parser.parse_args(arguments)
    cwd = existing_folder("--cwd", options.cwd)
    agent = choose_agent(options.name, (), cwd, trust=options.trust)
    return _run(agent, AgentSignIn(agent, cwd).log_out())


def _run(agent: ConfiguredAgent, call: Coroutine[Any, Any, int]) -> int:
    try:
        return asyncio.run(call)
    except AccordError as error:
        raise clear_error(error, agent) from None


_print = partial(print_stderr, command="agents")


class AgentSignIn:
    """Signs the user of this terminal in to one agent, or out."""

    def __init__(self, agent: ConfiguredAgent, cwd: str) -> None:
        self._agent = agent
        self._launch = agent.launch(cwd)
        self._user: TerminalUser | None = None
        if can_ask():
            terminal = is_terminal(sys.stdout)
            self._user = TerminalUser(
                output_for("quiet", stdout=sys.stdout, stderr=sys.stderr, terminal=terminal)
            )
        self._terminal_exit_code: int | None = None

    async def log_in(self, method_id: str | None) -> int:
        """Sign in by the named method, by the only one, or by the one the user chooses."""
        async with self._connection() as agent:
            if not agent.auth_methods:
                raise UsageError(f"{self._name} offers no sign-in over ACP{self._key_hint()}")
            method = await self._choose_method(agent, method_id)
            names = variables(method)
            if names is not None:
                return self._print_variables(names)
            if isinstance(method, AuthMethodTerminal) and self._user is None:
                raise UsageError(
                    f"sign-in method {one_line(method.id)!r} needs a terminal; run this command in one"
                )
            try:
                await agent.sign_in(method)
            except UsageError as error:
                if self._terminal_exit_code is None:
                    raise
                _print(clean_line(str(error)))
                return FAILED
        _print(f"signed in to {self._name} with {one_line(clean_line(method.name))!r}")
        return DONE

    async def log_out(self) -> int:
        """Sign out. Raises NotOffered if the agent has no `logout`."""
        async with self._connection() as agent:
            auth = agent.capabilities.auth
            if not (auth and auth.logout):
                raise NotOffered(f"{self._name} does not support sign-out over ACP; see its documentation")
            await agent.logout()
        _print(f"signed out of {self._name}")
        return DONE

    @property
    def _name(self) -> str:
        return one_line(self._agent.name)

    def _connection(self) -> PendingAgent:
        forms = TerminalForms(self._user, _print)
        handlers = ClientHandlers(
            login=None if self._user is None else self._run_in_terminal,
            forms=None if self._user is None else forms.form,
            urls=None if self._user is None else forms.address,
        )
        # Some agents print the URL to open or the code to type on stderr.
        options = ClientOptions(on_stderr=lambda line: _print(f"{self._name}: {clean_line(line.rstrip())}"))
        return PendingAgent(self._launch, handlers, replace(self._agent.options(options), restart=None))

    async def _run_in_terminal(self, launch: AgentCommand) -> int:
        _print(f"running {one_line(command_line_text(launch.command))} in this terminal")
        code = await run_in_terminal(launch)
        self._terminal_exit_code = code or None
        return code

    async def _choose_method(self, agent: RemoteAgent, method_id: str | None) -> AuthMethod:
        methods = agent.auth_methods
        if method_id is None and len(methods) == 1:
            return methods[0]
        if method_id is None and self._user is not None:
            return await self._ask_method(self._user, methods)
        for method in methods:
            if method.id == method_id:
                return method
        ids = ", ".join(one_line(method.id) for method in methods)
        if method_id is None:
            raise UsageError(f"{self._name} has several sign-in methods; pass one of: {ids}")
        raise UsageError(f"{self._name} has no sign-in method {method_id!r}; use one of: {ids}")

    async def _ask_method(self, user: TerminalUser, methods: Sequence[AuthMethod]) -> AuthMethod:
        async with user.start_question() as question:
            question.show(f"How do you want to sign in to {self._name}?")
            for number, method in enumerate(methods, 1):
                question.show(
                    f"{number}  {one_line(method.id)}: {describe_method(method, self._launch)}", "  "
                )
            answer = await question.read_line("Number or id: ")
        if not answer:
            raise UsageError("no sign-in method was chosen; nothing was changed")
        if answer.isdecimal() and 1 <= int(answer) <= len(methods):
            return methods[int(answer) - 1]
        for method in methods:
            if method.id == answer:
                return method
        raise UsageError(f"{answer!r} is not one of the methods; nothing was changed")

    def _print_variables(self, names: Sequence[str]) -> int:
        """Say which environment variables the user has to set; there is nothing to call."""
        lines = list(missing_variables(names, self._name, self._launch))
        if not lines:
            _print(f"{self._name} already gets {', '.join(map(one_line, names))}; nothing to do")
            return DONE
        for line in lines:
            _print(line)
        return AUTH

    def _key_hint(self) -> str:
        keys = [key for key in self._agent.keys if "*" not in key]
        return f"; it reads a key from the environment: {', '.join(keys)}" if keys else ""
