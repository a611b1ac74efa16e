"""`accord serve audit`: checks that the audit log of the gateway is complete and unchanged.

Imported on first use: it loads accord.gateway.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from accord.cli.command_parser import Parser, find_subcommand, print_stderr
from accord.cli.exit_codes import FAILED
from accord.errors import UsageError
from accord.gateway.access.audit_log import AuditBroken, VerifiedAudit, audit_file, verify_audit_log
from accord.text_width import count_text

_VERIFY: Final = "check the hashes of the audit log and name the first broken line"


def main(arguments: Sequence[str]) -> int:
    """Run one subcommand of `accord serve audit` and return the exit code."""
    if find_subcommand("accord serve audit", {"verify": (_VERIFY,)}, arguments) is None:
        return 0 if arguments else 2
    return _verify(arguments[1:])


def _verify(arguments: Sequence[str]) -> int:
    parser = Parser("accord serve audit verify", _VERIFY)
    parser.option("--expect HASH", "hash that an earlier check printed; must be in the log")
    parser.option("--file F", "log to check (default: the audit log of the gateway)")
    options = parser.parse_args(arguments)
    if options.expect is not None and not re.fullmatch("[0-9a-f]{64}", options.expect):
        raise UsageError(f"--expect {options.expect!r} is not a hash; it has 64 hexadecimal digits")
    path = audit_file() if options.file is None else Path(options.file).absolute()
    try:
        verified = verify_audit_log(path, expect=options.expect)
    except AuditBroken as error:
        print_stderr(f"the audit log is broken: {error}", command="serve")
        return FAILED
    _print_result(path, verified)
    return 0


def _print_result(path: Path, verified: VerifiedAudit) -> None:
    files = "" if verified.files == 1 else f" in {verified.files} files"
    print(f"{path}: {count_text(verified.lines, 'line')}{files}, none changed or removed.")
    if verified.first > 1:
        print(f"It begins with number {verified.first}: rotation has removed older files.")
    if verified.unhashed:
        unhashed = count_text(verified.unhashed, "line")
        print(f"Not checked: {unhashed} of a version without hashes.")
    if verified.last is not None:
        print(f"Last line: number {verified.last.seq}, hash {verified.last.hash}")
        if not verified.has_head:
            print(f"{path}.lock is missing, so lines removed at the end would not be noticed.")
