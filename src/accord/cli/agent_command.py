"""`accord agent`: the coding agent on stdin and stdout. Reads the arguments, says in one line what cannot work, and serves.

Until `initialize` is answered every import counts. So arguments are parsed only where there are some, and what is wrong
with them is found, where possible, without the rooms they are meant for. Nothing here writes to stdout but `--help`.
"""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

from accord.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from accord.cli.command_parser import Parser

MODES: Final = ("read-only", "ask", "workspace-write", "full-access", "plan")
"""The policy's modes, by name."""
PROVIDERS: Final = ("anthropic", "openai", "openai-chat", "openai-responses", "google", "gemini")
"""Providers that are known without looking into the config."""

_PERMISSIONS: Final = ("mode", "permissions", "permission_seconds", "sandbox")
_FOR_EDITORS: Final = (
    "accord agent waits for an editor: it speaks ACP here, one JSON object a line. `accord agents setup EDITOR` tells an "
    "editor about it, `accord agent --help` its options. Ctrl-D ends it."
)
_NO_VALUE: Final = "\0"  # what an option holds that was given without its value: nobody can type that


def script() -> int:
    """The program `accord-agent`, which is `accord agent`."""
    from accord.cli import main as accord

    return accord(["agent", *sys.argv[1:]])


def main(arguments: Sequence[str]) -> int:
    """Serve until the client goes away, or sign in or out."""
    model: str | None = None
    mode: str | None = None
    resume: str | Literal[True] | None = None
    store: Path | None = None
    log: Path | None = None
    strict = False
    if arguments:
        given = _parser().parse_args(arguments)
        if given.login is not None or given.logout is not None:
            return _keys(given.login, given.logout, given.model)
        model, mode, strict = given.model, given.mode, given.strict
        resume = True if given.resume == _NO_VALUE else given.resume
        _check_words(model=model, resume=given.resume, store=given.store, log=given.log)
        _check_mode(mode)
        store, log = _store(given.store), _log(given.log)
    _check_config()
    _check_model(model or os.environ.get("ACCORD_MODEL"))

    if sys.stdin is not None and sys.stdin.isatty():  # somebody is trying it out: silence would be a riddle
        print(_FOR_EDITORS, file=sys.stderr, flush=True)
    from accord.coder.coding_agent import serve
    from accord.coder.resources import CoderOptions

    serve(CoderOptions(model=model, mode=mode, resume=resume, store=store, log=log, strict=strict))
    return 0


def _parser() -> "Parser":
    from accord.cli.command_parser import Parser

    parser = Parser("accord agent", "The coding agent. Speaks ACP on stdin and stdout: editors start it.")
    option = parser.add_argument
    option("--model", metavar="M", help="provider:name, a provider alone, or rehearsal")
    option("--mode", metavar="MODE", help=f"what may be done without asking: {', '.join(MODES)}")
    option(
        "--resume",
        metavar="ID",
        nargs="?",
        const=_NO_VALUE,
        help="continue this session, or the newest one of the folder, in the first session of the client",
    )
    option("--store", metavar="PATH", help="the file of session logs, instead of the user's own")
    option("--log", metavar="FILE", help="record everything that goes over the wire in this file")
    option("--strict", action="store_true", help="judge messages as they are sent; repair no dialects")
    option(
        "--login",
        metavar="PROVIDER",
        nargs="?",
        const=_NO_VALUE,
        help="keep the key of a model provider, and leave; without a terminal the key is read from stdin",
    )
    option(
        "--logout",
        metavar="PROVIDER",
        nargs="?",
        const=_NO_VALUE,
        help="forget the key of a provider, or all keys, and leave",
    )
    return parser


def _keys(login: str | None, logout: str | None, model: str | None) -> int:
    # A client that signs in by terminal puts --login behind everything else it starts the agent with.
    from accord.cli.provider_login import log_in, log_out

    if login is not None and logout is not None:
        raise UsageError("--login and --logout at the same time make no sense: choose one")
    if login is not None:
        return log_in(None if login == _NO_VALUE else login, model)
    return log_out(None if logout == _NO_VALUE else logout)


def _check_words(**values: str | None) -> None:
    for name, value in values.items():
        if value is not None and not value.strip():
            raise UsageError(f"--{name} was given an empty value: leave it out, or name one")


def _check_mode(mode: str | None) -> None:
    if mode is not None and mode not in MODES:
        raise UsageError(f"there is no mode {mode!r}; there are: {', '.join(MODES)}")


def _check_config() -> None:
    if any(os.path.exists(os.path.join(_config_folder(), name)) for name in ("config.toml", "config.json")):
        from accord.coder.user_config import load_config

        config = load_config()
        if config.file is not None and any(key in config.mapping for key in _PERMISSIONS):
            from accord.coder.permissions.permission_settings import from_mapping

            from_mapping(config.mapping, config.file)


def _config_folder() -> str:
    """Where the config is, without the imports of `accord.paths` on the system where the answer is easy."""
    if home := os.environ.get("ACCORD_HOME"):
        return os.path.join(os.path.expanduser(home), "config")
    if sys.platform == "linux":
        base = os.environ.get("XDG_CONFIG_HOME", "").strip() or os.path.expanduser("~/.config")
        return os.path.join(base, "accord")
    from accord.paths import config_dir

    return str(config_dir())


def _check_model(text: str | None) -> None:
    if text is None or not text.strip() or text.strip() == "rehearsal":
        return
    provider, _, name = text.strip().lower().replace("/", ":").partition(":")
    if not (name and provider in PROVIDERS):
        from accord.coder.models import ModelRegistry

        if ModelRegistry().find(text).provider == "rehearsal":
            return
    from accord.extras import require

    require("agent", f"the model {text.strip()}")


def _store(text: str | None) -> "Path | None":
    """The file of session logs; refused where it is plain to see that it cannot be one."""
    if text is None:
        return None
    from pathlib import Path

    path = Path(text).expanduser().absolute()
    wrong: str | None = None
    try:
        if path.is_dir():
            wrong = "is a folder, not a file"
        elif path.exists():
            with path.open("r+b") as file:
                if file.read(16) not in (b"", b"SQLite format 3\x00"):
                    wrong = "is no session store"
        else:
            above = next(folder for folder in path.parents if folder.exists())
            if not above.is_dir():
                wrong = f"cannot be made: {above} is not a folder"
            elif not os.access(above, os.W_OK | os.X_OK):
                wrong = f"cannot be made: {above} is not yours to write in"
    except OSError as error:
        wrong = f"cannot be used ({error.strerror})"
    if wrong:
        raise UsageError(f"--store {path} {wrong}: name another file")
    return path


def _log(text: str | None) -> "Path | None":
    """The file to record in, made if it is missing, for its owner alone."""
    if text is None:
        return None
    from pathlib import Path

    path = Path(text).expanduser().absolute()
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    except FileNotFoundError:
        raise UsageError(f"--log {path}: there is no folder {path.parent}: make it first") from None
    except OSError as error:
        raise UsageError(f"--log {path}: cannot be written ({error.strerror}): name another file") from None
    return path
