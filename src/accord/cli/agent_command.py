"""`accord agent`: checks the arguments and serves the coding agent on stdin and stdout.

Loaded before `initialize` is answered: keep heavy imports out. The parser is built only if there are
arguments, and the checks avoid imports where they can. Only `--help` writes to stdout.
"""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

from accord.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from accord.cli.command_parser import Parser

_TERMINAL_HINT: Final = (
    "accord agent: waiting for an ACP client on stdin. `accord agents setup EDITOR` configures an editor, "
    "`accord chat` starts a chat, `accord agent --help` lists the options. Ctrl-D ends the agent."
)
_NO_VALUE: Final = "\0"
"""The value of an option that was passed without one. It cannot be typed."""


def script() -> int:
    """Run `accord agent` as the program `accord-agent`."""
    from accord.cli import main as accord

    return accord(["agent", *sys.argv[1:]])


def main(arguments: Sequence[str]) -> int:
    """Serve until the client disconnects; or sign in or out."""
    model: str | None = None
    mode: str | None = None
    resume: str | Literal[True] | None = None
    store: Path | None = None
    log: Path | None = None
    strict = False
    if arguments:
        options = _parser().parse_args(arguments)
        if options.login is not None or options.logout is not None:
            return _log_in_or_out(options.login, options.logout, options.model)
        model, mode, strict = options.model, options.mode, options.strict
        resume = True if options.resume == _NO_VALUE else options.resume
        _check_not_empty(model=model, resume=options.resume, store=options.store, log=options.log)
        _check_mode(mode)
        store, log = _store_path(options.store), _log_path(options.log)
    _check_config()
    _check_model(model)

    if sys.stdin is not None and sys.stdin.isatty():  # a user started it by hand
        print(_TERMINAL_HINT, file=sys.stderr, flush=True)
    from accord.coder.coding_agent import serve
    from accord.coder.resources import CoderOptions

    serve(CoderOptions(model=model, mode=mode, resume=resume, store=store, trace_file=log, strict=strict))
    return 0


def _parser() -> "Parser":
    from accord.cli.command_parser import Parser
    from accord.policy.mode_names import MODES

    parser = Parser(
        "accord agent", "Run the coding agent. It speaks ACP on stdin and stdout; editors start it."
    )
    option = parser.option
    option("--model M", "provider:name, a provider alone, or rehearsal")
    option("--mode MODE", f"what the agent may do without asking: {', '.join(MODES)}")
    option(
        "--resume ID",
        "continue this session, or the newest of the folder, when the client opens its first session",
        nargs="?",
        const=_NO_VALUE,
    )
    option("--store PATH", "session store to use instead of the default file")
    option("--log FILE", "record all protocol messages in this file")
    option("--strict", "reject nonstandard messages instead of repairing them")
    option(
        "--login PROVIDER",
        "store the key of a model provider and exit; without a terminal, read the key from stdin",
        nargs="?",
        const=_NO_VALUE,
    )
    option(
        "--logout PROVIDER", "delete the key of a provider, or all keys, and exit", nargs="?", const=_NO_VALUE
    )
    return parser


def _log_in_or_out(login: str | None, logout: str | None, model: str | None) -> int:
    # A client that signs in by terminal appends --login to the agent's usual arguments.
    from accord.cli.provider_login import log_in, log_out

    if login is not None and logout is not None:
        raise UsageError("--login and --logout exclude each other; use one of them")
    if login is not None:
        return log_in(None if login == _NO_VALUE else login, model)
    return log_out(None if logout == _NO_VALUE else logout)


def _check_not_empty(**values: str | None) -> None:
    for name, value in values.items():
        if value is not None and not value.strip():
            raise UsageError(f"--{name} has an empty value; omit the option or pass a value")


def _check_mode(mode: str | None) -> None:
    from accord.policy.mode_names import MODES

    if mode is not None and mode not in MODES:
        raise UsageError(f"unknown mode {mode!r}; use one of: {', '.join(MODES)}")


def _check_config() -> None:
    from accord.paths import CONFIG_NAMES, config_folder

    if any(os.path.exists(os.path.join(config_folder(), name)) for name in CONFIG_NAMES):
        from accord.coder.user_config import PERMISSION_KEYS, load_config

        config = load_config()
        if config.file is not None and any(key in config.mapping for key in PERMISSION_KEYS):
            from accord.coder.permissions.permission_settings import permission_settings

            permission_settings(config.mapping, config.file)


def _check_model(text: str | None) -> None:
    from accord.coder.models.model_name import MODEL_VARIABLE, PROVIDER_KINDS, REHEARSAL, normalize_provider

    text = text or os.environ.get(MODEL_VARIABLE)
    if text is None or not text.strip() or text.strip() == REHEARSAL:
        return
    provider, _, name = text.replace("/", ":").partition(":")
    if not (name.strip() and normalize_provider(provider) in PROVIDER_KINDS):
        from accord.coder.models import ModelRegistry

        if ModelRegistry().find(text).provider == REHEARSAL:
            return
    from accord.extras import require

    require("agent", f"the model {text.strip()}")


def _store_path(text: str | None) -> "Path | None":
    """Return the path of the session store. Raises UsageError if it cannot be one."""
    if text is None:
        return None
    from pathlib import Path

    path = Path(text).expanduser().absolute()
    problem: str | None = None
    try:
        if path.is_dir():
            problem = "is a folder"
        elif path.exists():
            with path.open("r+b") as file:
                if file.read(16) not in (b"", b"SQLite format 3\x00"):
                    problem = "is not a session store"
        else:
            parent = next(folder for folder in path.parents if folder.exists())
            if not parent.is_dir():
                problem = f"cannot be created ({parent} is not a folder)"
            elif not os.access(parent, os.W_OK | os.X_OK):
                problem = f"cannot be created ({parent} is not writable)"
    except OSError as error:
        problem = f"cannot be used ({error.strerror})"
    if problem:
        raise UsageError(f"--store {path} {problem}; use another file")
    return path


def _log_path(text: str | None) -> "Path | None":
    """Return the path of the trace file, created for its owner alone if it is missing."""
    if text is None:
        return None
    from pathlib import Path

    path = Path(text).expanduser().absolute()
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    except FileNotFoundError:
        raise UsageError(
            f"cannot write --log {path} (missing folder {path.parent}); create it first"
        ) from None
    except OSError as error:
        raise UsageError(f"cannot write --log {path} ({error.strerror}); use another file") from None
    return path
