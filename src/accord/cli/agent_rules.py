"""`accord agent rules`: lists and revokes what the user always allows the coding agent.

Imported on first use: it loads the policy.
"""

import json
from collections.abc import Sequence

from accord.cli.command_parser import Parser, print_table
from accord.errors import UsageError
from accord.paths import explain_file_error
from accord.policy.permission_store import KeptRule, PermissionStore
from accord.safe_text import visible


def main(arguments: Sequence[str]) -> int:
    """List the rules, or run `accord agent rules revoke`."""
    if arguments and arguments[0] == "revoke":
        return _revoke(arguments[1:])
    parser = Parser("accord agent rules", "List what you always allow the coding agent.")
    parser.usage = "accord agent rules [--json]\n       accord agent rules revoke ID ... | --all"
    parser.option("--json", "print the rules as JSON")
    options = parser.parse_args(arguments)
    rules = PermissionStore().rules()
    if options.json:
        print(json.dumps([_rule_json(rule) for rule in rules], indent=2, ensure_ascii=False))
    elif not rules:
        print('There are no rules. Answers such as "Always allow ... in this project" add them.')
    else:
        rows = [("ID", "ALLOWS", "WHERE", "SINCE")]
        rows += [(rule.id, visible(str(rule.scope)), _place(rule), rule.created[:10]) for rule in rules]
        print_table(rows)
    return 0


def _revoke(arguments: Sequence[str]) -> int:
    parser = Parser("accord agent rules revoke", "Revoke rules, so that the coding agent asks again.")
    parser.add_argument("id", nargs="*", metavar="ID", help="id from `accord agent rules`")
    parser.option("--all", "revoke all rules")
    options = parser.parse_args(arguments)
    if bool(options.id) == options.all:
        raise UsageError("name the ids from `accord agent rules`, or pass --all")
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
        print(f"Revoked {rule.id}: {visible(str(rule.scope))} in {_place(rule)}.")
    if not removed:
        print("There are no rules.")
    return 0


def _place(rule: KeptRule) -> str:
    return "all folders" if rule.folder is None else visible(rule.folder)


def _rule_json(rule: KeptRule) -> dict[str, object]:
    return {
        "id": rule.id,
        "allows": str(rule.scope),
        "grants": [{"kind": kind, "key": list(key)} for kind, key in rule.grants],
        "folder": rule.folder,
        "created": rule.created,
    }
