"""Small programs inside a command line (sed, awk, jq): do they only read?

Each is held against a grammar of what is harmless; a script that does not fit is simply not known.
"""

import re
from typing import Final

# A slash in [brackets] does not end a pattern, so there must be none: then nobody can disagree about where it ends.
_BRACKETS: Final = r"\[\^?\]?(?:\[:[a-z]+:\]|(?!{end})[^\]\[\\\n])*\]"
_PATTERN: Final = rf"(?:(?!{{end}})[^\\\n\[]|\\.|{_BRACKETS})*"
_SLASHED: Final = _PATTERN.replace("{end}", "/")
_DELIMITED: Final = _PATTERN.replace("{end}", "(?P=d)")
_ADDRESS: Final = rf"(?:[0-9]+(?:~[0-9]+)?|\$|/{_SLASHED}/[IM]*)"
_SED_COMMAND: Final = re.compile(
    rf"[ \t]*(?:{_ADDRESS}(?:[ \t]*,[ \t]*(?:{_ADDRESS}|\+[0-9]+|~[0-9]+))?)?[ \t]*!?[ \t]*"
    r"(?:[{}]|[pdlnNgGhHxDP=](?![A-Za-z0-9])|[qQ][0-9]*"
    rf"|[sy](?P<d>[/|,#@:%!_]){_DELIMITED}(?P=d)(?:(?!(?P=d))[^\\\n]|\\.)*(?P=d)[gpiI0-9]*)"
    r"[ \t]*(?:;|\n|(?=\})|\Z)+"
)
_AWK_SUSPICIOUS: Final = re.compile(
    r"""[|>@`]|\bsystem\b|\bgetline\b|\bENVIRON\b|\bPROCINFO\b|\bSYMTAB\b|\bARGV\b|\bARGC\b|\bclose\b"""
)
_JQ_SUSPICIOUS: Final = re.compile(
    r"\benv\b|\$ENV|\binput\b|\binputs\b|\bimport\b|\binclude\b|\bmodulemeta\b|\$__|\bhalt|\bdebug\b|\blimit\b.*\brepeat\b"
)


def sed_only_reads(script: str) -> bool:
    """Whether a sed script neither writes files (`w`) nor runs commands (`e`) nor reads other files (`r`)."""
    at = 0
    while at < len(script):
        found = _SED_COMMAND.match(script, at)
        if found is None or found.end() == at:
            return False
        at = found.end()
    return bool(script.strip())


def awk_only_reads(program: str) -> bool:
    """Whether an awk program neither runs, writes nor reads anything but its input."""
    return _AWK_SUSPICIOUS.search(program) is None


def jq_only_reads(program: str) -> bool:
    """Whether a jq filter looks at nothing but its input."""
    return _JQ_SUSPICIOUS.search(program) is None
