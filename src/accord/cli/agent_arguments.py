"""The arguments of `accord agent`: its parser, the checks of the values, and `accord agent rules`.

Imported on first use: most editors start the agent without arguments.
"""

import json
import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accord.cli.budget_options import add_budget_options, read_budgets
from accord.cli.command_parser import Parser, print_table
from accord.errors import UsageError
from accord.paths import explain_file_error
from accord.policy.mode_names import MODES
from accord.safe_text import visible

if TYPE_CHECKING:
    from accord.coder.resources import CoderOptions
    from accord.policy.permission_store import KeptRule

_NO_VALUE: Final = "\0"
"""The value of an option that was passed without one. It cannot be typed."""


def run_other_task(arguments: Sequence[str]) -> int | None:
    """Run `accord agent rules`, `--login` or `--logout`; None if the agent is to be started."""
    if arguments[0] == "rules":
        return manage_rules(arguments[1:])
    parsed = _parser().parse_args(arguments)
    return None if parsed.login is None and parsed.logout is None else _log_in_or_out(parsed)


def start_options(arguments: Sequence[str]) -> "CoderOptions":
    """Check the values and return the start options of the coding agent."""
    parsed = _parser().parse_args(arguments)
    from accord.coder.resources import CoderOptions  # after the parser: `--help` does not need it

    _check_not_empty(model=parsed.model, resume=parsed.resume, store=parsed.store, log=parsed.log)
    _check_mode(parsed.mode)
    return CoderOptions(
        model=parsed.model,
        budgets=read_budgets(parsed),
        mode=parsed.mode,
        resume=True if parsed.resume == _NO_VALUE else parsed.resume,
        store=_store_path(parsed.store),
        trace_file=_log_path(parsed.log),
        strict=parsed.strict,
    )


def _log_in_or_out(parsed: Namespace) -> int:
    """Store or delete the key of a model provider."""
    # A client that signs in by terminal appends --login to the agent's usual arguments.
    from accord.cli.provider_login import log_in, log_out

    login, logout = parsed.login, parsed.logout
    if login is not None and logout is not None:
        raise UsageError("--login and --logout exclude each other; use one of them")
    if login is not None:
        return log_in(None if login == _NO_VALUE else login, parsed.model)
    return log_out(None if logout == _NO_VALUE else logout)


def _parser() -> Parser:
    parser = Parser(
        "accord agent", "Run the coding agent. It speaks ACP on stdin and stdout; editors start it."
    )
    parser.usage = "accord agent [OPTIONS]\n       accord agent rules [revoke ID ...]"
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
    add_budget_options(parser)
    option(
        "--login PROVIDER",
        "store the key of a model provider and exit, or add a server as NAME=URL; "
        "without a terminal, read the key from stdin",
        nargs="?",
        const=_NO_VALUE,
    )
    option(
        "--logout PROVIDER", "delete the key of a provider, or all keys, and exit", nargs="?", const=_NO_VALUE
    )
    return parser


def _check_not_empty(**values: str | None) -> None:
    for name, value in values.items():
        if value is not None and not value.strip():
            raise UsageError(f"--{name} has an empty value; omit the option or pass a value")


def _check_mode(mode: str | None) -> None:
    if mode is not None and mode not in MODES:
        raise UsageError(f"unknown mode {mode!r}; use one of: {', '.join(MODES)}")


def _store_path(text: str | None) -> Path | None:
    """Return the path of the session store. Raises UsageError if it cannot be one."""
    if text is None:
        return None
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


def _log_path(text: str | None) -> Path | None:
    """Return the path of the trace file, created for its owner alone if it is missing."""
    if text is None:
        return None
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


def manage_rules(arguments: Sequence[str]) -> int:
    """List what the user always allows the agent, or run `accord agent rules revoke`."""
    if arguments and arguments[0] == "revoke":
        return _revoke_rules(arguments[1:])
    parser = Parser("accord agent rules", "List what you always allow the coding agent.")
    parser.usage = "accord agent rules [--json]\n       accord agent rules revoke ID ... | --all"
    parser.option("--json", "print the rules as JSON")
    options = parser.parse_args(arguments)
    from accord.policy.permission_store import PermissionStore  # it loads the policy

    rules = PermissionStore().rules()
    if options.json:
        print(json.dumps([_rule_json(rule) for rule in rules], indent=2, ensure_ascii=False))
    elif not rules:
        print('There are no rules. Answers such as "Always allow ... in this project" add them.')
    else:
        rows = [("ID", "ALLOWS", "WHERE", "SINCE")]
        rows += [(rule.id, visible(str(rule.scope)), _rule_place(rule), rule.created[:10]) for rule in rules]
        print_table(rows)
    return 0


def _revoke_rules(arguments: Sequence[str]) -> int:
    parser = Parser("accord agent rules revoke", "Revoke rules, so that the coding agent asks again.")
    parser.add_argument("id", nargs="*", metavar="ID", help="id from `accord agent rules`")
    parser.option("--all", "revoke all rules")
    options = parser.parse_args(arguments)
    if bool(options.id) == options.all:
        raise UsageError("name the ids from `accord agent rules`, or pass --all")
    from accord.policy.permission_store import PermissionStore

    store = PermissionStore()
    known = [rule.id for rule in store.rules()]
    for rule_id in options.id:
        if rule_id not in known:
            raise UsageError(f"unknown rule {rule_id!r}; `accord agent rules` lists them")
    try:
        removed = store.revoke(known if options.all else options.id)
    except OSError as error:
        raise UsageError(explain_file_error(error)) from None
    for rule in removed:
        print(f"Revoked {rule.id}: {visible(str(rule.scope))} in {_rule_place(rule)}.")
    if not removed:
        print("There are no rules.")
    return 0


def _rule_place(rule: "KeptRule") -> str:
    return "all folders" if rule.folder is None else visible(rule.folder)


def _rule_json(rule: "KeptRule") -> dict[str, object]:
    return {
        "id": rule.id,
        "allows": str(rule.scope),
        "grants": [{"kind": kind, "key": list(key)} for kind, key in rule.grants],
        "folder": rule.folder,
        "created": rule.created,
    }
