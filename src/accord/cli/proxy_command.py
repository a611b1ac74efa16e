"""`accord proxy`: runs an agent behind middlewares that change messages.

Keep heavy imports out: it runs between a client and its agent and delays the start.
"""

import importlib
import importlib.util
import os
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from accord.cli.command_parser import (
    Parser,
    add_env_option,
    add_trust_option,
    quoted_command,
    read_env,
    split_command,
)
from accord.errors import UsageError

if TYPE_CHECKING:
    from accord.proxy import Middleware

_USE_HELP: Final = (
    "middleware, as package.module:Name or path/to/file.py:Name; repeatable, the first is next "
)


def main(arguments: Sequence[str]) -> int:
    """Run the proxy and return the agent's exit code."""
    own_words, command = split_command(arguments)
    options, extra_words = parser().parse_known_args(own_words)
    if extra_words:
        hint = quoted_command(extra_words)
        raise UsageError(f"unknown arguments {hint}; put the agent's command after `--`")
    if options.use and options.part:
        raise UsageError("--use and --part cannot be combined; run the middlewares as a part of their own")
    if not (options.use or options.part):
        raise UsageError(
            "missing middleware; use `accord proxy --use MODULE:NAME -- COMMAND ...`, or for proxies that "
            "are programs `accord proxy --part PROXY -- COMMAND ...`"
        )
    if options.in_chain and (command or options.agent or options.part):
        raise UsageError("--in-chain takes no agent: the conductor that starts this proxy connects it")
    env = read_env(options.env)
    middlewares = [load_middleware(name) for name in options.use]
    if options.in_chain:
        from accord.proxy import run_proxy

        return run_proxy(*middlewares)

    from accord.cli.agent_choice import choose_agent
    from accord.frontend.agent_config.project_trust import refuse
    from accord.proxy import run_proxy

    cwd = os.getcwd()
    # The client is on stdin: the user cannot be asked.
    agent = choose_agent(options.agent, command, cwd, trust=options.trust, ask_trust=refuse, env=env)
    launch = agent.launch(cwd)
    if options.part:
        from accord.proxy import run_chain

        parts = [shlex.split(part) for part in options.part]
        return run_chain(*parts, agent=launch.command, cwd=launch.cwd, env=launch.env)
    return run_proxy(*middlewares, command=launch.command, cwd=launch.cwd, env=launch.env)


def parser() -> Parser:
    """Return the parser of the arguments before `--`."""
    parser = Parser(
        "accord proxy",
        "Run an agent and change its messages with middlewares. Use this as the agent's command in a client; "
        "what no middleware handles passes unchanged. The exit code is the agent's.",
    )
    parser.usage = (
        "accord proxy (--use MODULE:NAME | --part COMMAND) ... [OPTIONS] [-a NAME | -- COMMAND ...]"
    )
    parser.option("--use MODULE:NAME", f"{_USE_HELP}to the client", repeat=True)
    parser.option(
        "--part COMMAND",
        "start this proxy, a program with `--in-chain`; repeatable, the first is next to the client",
        repeat=True,
    )
    parser.option("--in-chain", "be a part of a chain: the program that starts this proxy connects the agent")
    parser.option("-a --agent NAME", "configured agent (default: the one of `accord run`)")
    add_env_option(parser)
    add_trust_option(parser)
    return parser


def load_middleware(text: str) -> "Middleware":
    """Return the middleware that a value of `--use` names. Raises UsageError."""
    place, colon, name = text.rpartition(":")
    if not colon or not place or not name:
        raise UsageError(f"--use {text}: write MODULE:NAME or FILE.py:NAME, such as `./shout.py:Shout`")
    try:
        value: Any = _load_file(place) if place.endswith(".py") else importlib.import_module(place)
        for part in name.split("."):
            value = getattr(value, part)
        value = value() if callable(value) else value
    except AttributeError as error:
        raise UsageError(f"--use {text}: {error}") from None
    except ModuleNotFoundError as error:
        hint = "; write a file as `./FILE.py:NAME`" if error.name == place else ""
        raise UsageError(f"--use {text}: {error}{hint}") from None
    except Exception as error:  # noqa: BLE001 - the boundary to the user's code
        raise UsageError(f"--use {text}: {type(error).__name__}: {error}") from None
    from accord.proxy import Middleware

    if not isinstance(value, Middleware):
        raise UsageError(f"--use {text}: {name} is no subclass of accord.proxy.Middleware")
    return value


def _load_file(path: str) -> Any:
    path = os.path.abspath(os.path.expanduser(path))
    if not os.path.isfile(path):
        raise ModuleNotFoundError(f"there is no file {path}")
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look a class up by its module
    spec.loader.exec_module(module)
    return module
