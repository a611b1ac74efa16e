"""Secrets in one line of free text, known by what stands before them: a name, an option, a header, a command.

Every pattern takes what it has matched, once, so that the time is that of the length of the line.
"""

import re
from collections.abc import Callable
from typing import Final

from accord.trace.names import (
    KINDS,
    REDACTED,
    TRIVIAL,
    is_secret,
    is_secret_option,
    is_secret_variable,
    words,
)

_HINTS: Final = words(
    "key token secret pass pwd auth cookie cred jwt dsn otp sas pat sig bearer basic env -e -u -user --build-arg"
)
_NAME: Final = r"[A-Za-z_][A-Za-z0-9_.\-]{0,80}"

# A quoted value ends at its quote, at the end of the line, or with the text: a cut one is still a secret. An unquoted
# one goes on over signs that a password may hold, unless they are followed by the next name or by nothing.
# (The alternative that never fits, `(?!)`, is for Pythons before 3.11.5: there a repetition that gives nothing back keeps what its last,
# failing round had taken, unless one more alternative was tried after it.)
_NEXT_NAME: Final = rf"""(?=\s|$|["'\\)\]}}]|{_NAME}["']?[ \t]?[:=])"""
_VALUE: Final = (
    r"""(?:\\"(?:[^"\\\n]|\\[^"\n]|(?!))*+(?:\\")?|\\'(?:[^'\\\n]|\\[^'\n]|(?!))*+(?:\\')?|\\{2,3}["'][^"'\n]*+["']?"""
    r"""|"(?:[^"\\\n]|\\.|(?!))*+"?|'(?:[^'\\\n]|\\.|(?!))*+'?"""
    rf"""|(?:[^\s"'\\,;&|<>]|[,;&|](?!{_NEXT_NAME})|\\(?![nr"'])[^\n]?|(?!))++)"""
)
_SCHEME: Final = r"(?:(?:bearer|basic|digest|token|negotiate|apikey)[ \t]+)?"
_GIVEN: Final = re.compile(_SCHEME + _VALUE, re.IGNORECASE)
_CLOSERS: Final = {"(": ")", "[": "]", "{": "}", "<": ">"}

_REFERENCE: Final = re.compile(r"""["']?(?:\$\{[A-Za-z_][A-Za-z0-9_]*\}|\$\{\{.*|\.\.\.)["'`]?""")
_GOES_ON: Final = re.compile(r"[ \t][a-z]{1,20}(?:[ \t,.;]|$)")
_TYPES: Final = frozenset(
    words("bytes int bool float any final optional object dict list tuple set number boolean self secretstr")
)

_NAMED: Final = re.compile(
    rf"""(?<![A-Za-z0-9])({_NAME})([\\"'\]]{{0,5}}[ \t]{{0,4}}(?:=>|:=|==?|:)[ \t]{{0,4}})"""
)
_OPTION: Final = re.compile(r"(?<!\S)(--?[A-Za-z][A-Za-z0-9_.\-]{1,80})([ \t]+)(?!-)")
_SHELL: Final = re.compile(
    rf"(?<!\S)(?:setx|setenv|export|ENV|ARG|SETENV|set(?:[ \t]+--?[A-Za-z]{{1,12}}){{1,4}})[ \t]+({_NAME})([ \t]+)(?=[^\s=])"
)
_BEFORE: Final = re.compile(r"([A-Za-z]+)[ \t]?$")

# `Cookie: a=b; c="d"` has several values: the whole line is one.
_HEADER: Final = re.compile(
    r"(?i)(?<![A-Za-z0-9_])(?:(?:proxy-)?authorization|(?:set-)?cookie)[\\\"']{0,4}[ \t]{0,8}(?:=>|[:=])[ \t]{0,8}"
)
_HEADER_VALUE: Final = re.compile(
    r"""\\?"(?:[^"\\\r\n]|\\[^"]|(?!))*+\\?"?|\\?'[^'\r\n]*+'?|(?:=[ \t]?"[^"\r\n]*+"?|=[ \t]?'[^'\r\n]*+'?|[^\r\n"']|(?!))++"""
)
_BEARER: Final = re.compile(
    r"\b(bearer|basic)([ \t]+)(?=[^\s\"']*[0-9A-Z._~+/=\-])[A-Za-z0-9._~+/=\-]{8,}", re.IGNORECASE
)
_LOGIN: Final = re.compile(r"(?<!\S)(-u[ \t=]*|--(?:proxy-)?user[ \t=]+)([^\s:]+:\S+)")
_OF_PROGRAM: Final = re.compile(
    r"(\bsshpass[ \t]+-p[ \t]*|\b(?:mysql|mariadb)[a-z]{0,12}\b[^|;&\n]{0,200}?[ \t]-p(?=[^\s])|\bredis-cli\b[^|;&\n]{0,200}?[ \t]-a[ \t]+)"
    r"(\S+)"
)
_NETRC: Final = re.compile(
    r"(?m)(?<!\S)(?:((?:login|user|account)[ \t]+\S+[ \t]+password[ \t]+)\S+|^([ \t]*+password[ \t]+)(?![A-Za-z]+$)\S++[ \t]*$)"
)
_ELEMENT: Final = re.compile(r"<([A-Za-z_][A-Za-z0-9_.:\-]{1,80})(?:[ \t][^<>]{0,200})?>([^<>]++)(?=</)")
_PROPERTY: Final = re.compile(r"<key>([^<>]{1,100})</key>\s{0,80}<string>([^<>]+)")
_ATTRIBUTES: Final = re.compile(r"""(?:key|name)=["']([^"'<>]{1,100})["'][ \t]{1,8}value=["']([^"'<>\n]+)""")
_VARIABLE: Final = r"[A-Z_][A-Z0-9_]{0,80}"
_GIVEN_VARIABLE: Final = re.compile(
    rf"""(?<!\S)(?:-e[ \t]*|--(?:set-)?env(?:-add|-var)?[ \t=]+|--build-arg[ \t=]+)["']?({_VARIABLE})(=)"""
)
_ENV: Final = re.compile(r"(?<![\w.\-])env(?:[ \t]+-[A-Za-z\-]{1,30})*+[ \t]+")
_ASSIGNED: Final = re.compile(rf"({_NAME})(=)({_VALUE}|(?=\s|$))[ \t]*")
# `the password is X`, `OPENAI_API_KEY to X`, `token X`: only what no dictionary has.
_SAID: Final = re.compile(
    r"(?<![A-Za-z0-9_\-])([A-Za-z_][A-Za-z0-9_\-]{2,80})([ \t]+(?:(?:is|was|to|as)[ \t]+)?)(?=\S{8})"
)
_MADE_UP: Final = re.compile(r"""["'`]?([A-Za-z0-9_\-+=~!@#$%^&*]{8,})["'`]?(?=[\s.,;!?)]|$)""")


_FEW: Final = 512


def redact_named(text: str) -> str:
    """The text without what stands behind the names of secrets."""
    lowered = text.lower()
    hints = [word for word in _HINTS if word in lowered]
    if not hints:
        return text
    if len(text) <= _FEW or "\n" not in text:
        return _redact_line(text, lowered)
    # The patterns are slow and most lines name no secret: only those that may are looked at.
    return "\n".join(
        _redact_line(line, low) if any(map((low := line.lower()).__contains__, hints)) else line
        for line in text.split("\n")
    )


def _redact_line(line: str, lowered: str) -> str:
    if "=" in line and ("env" in lowered or "-e" in line or "--build-arg" in line):
        line = _without_variables(line)
    if ":" in line or "=" in line:
        if "authorization" in lowered or "cookie" in lowered:
            line = _without_headers(line)
        line = _without(_NAMED, line, _names_secret)
    if "-" in line:
        line = _without(_OPTION, line, lambda found, _: is_secret_option(found[1]))
        line = _LOGIN.sub(lambda found: _login(found, "curl" in lowered), line)
    if "set" in lowered or "export" in lowered or "ENV" in line or "ARG" in line:
        line = _without(_SHELL, line, lambda found, _: is_secret(found[1]))
    if "bearer" in lowered or "basic" in lowered:
        line = _BEARER.sub(rf"\1\2{REDACTED}", line)
    if "pass" in lowered or "-cli" in lowered or "sql" in lowered or "mariadb" in lowered:
        line = _OF_PROGRAM.sub(rf"\1{REDACTED}", line)
        line = _NETRC.sub(lambda found: f"{found[1] or found[2]}{REDACTED}", line)
    if "<" in line:
        line = _without_elements(line)
    if "name=" in lowered or "key=" in lowered:
        line = _ATTRIBUTES.sub(_second_of_pair, line)
    return _without_said(line) if " " in line else line


def _without(names: "re.Pattern[str]", text: str, secret: "Callable[[re.Match[str], str], bool]") -> str:
    """The text without what stands behind the names of secrets. Values are looked for only there: what stands behind
    another name, as the rest of an address behind `https:`, may hold names itself.
    """
    parts: list[str] = []
    place = 0
    for found in names.finditer(text):
        if found.start() < place or not secret(found, text):
            continue
        value = _GIVEN.match(text, found.end())
        if value is None:
            continue
        end = found.end() + len(_unclosed(value[0]))
        said = text[found.end() : end].strip("\\\"'").lower()
        if said not in TRIVIAL and not _is_plain(
            found[1], found[2], text[found.end() : end], text[end : end + 40]
        ):
            parts += (text[place : found.end()], REDACTED)
            place = end
    return "".join([*parts, text[place:]]) if parts else text


def _unclosed(value: str) -> str:
    """An unquoted value without the brackets that were opened before it."""
    if value[-1] not in _CLOSERS.values() or value[0] in "\\\"'":
        return value
    spare = {closer: value.count(closer) - value.count(opener) for opener, closer in _CLOSERS.items()}
    end = len(value)
    while end and spare.get(value[end - 1], 0) > 0:
        end -= 1
        spare[value[end]] -= 1
    return value[:end]


def _names_secret(found: "re.Match[str]", text: str) -> bool:
    name, sign = found[1], found[2]
    if is_secret(name):
        return True
    lowered = name.lower()
    if lowered in ("pass", "pwd"):
        return "=" in sign
    return (name == "KEY" and sign == "=") or _is_kind_of_key(found, text)


def _is_plain(name: str, sign: str, value: str, after: str) -> bool:
    """Whether what stands behind the name is none of its secrets: a type, a reference, a folder, a sentence."""
    if "==" in sign:
        return value[0] not in "\\\"'"  # what a program compares with
    lowered = name.lower()
    if lowered in ("pass", "pwd"):
        return value.isdigit() or value[0] in "/~.$%"
    if _REFERENCE.fullmatch(value):
        return True
    if ":" not in sign or "pass" in lowered:
        return False
    if value == "#" or value.partition("[")[0].lower() in _TYPES:
        return True
    # `the token: it is made by ...`
    return value.isalpha() and value.islower() and _GOES_ON.match(after) is not None


def _without_headers(line: str) -> str:
    parts: list[str] = []
    place = 0
    for found in _HEADER.finditer(line):
        start = found.end()
        if found.start() < place or start == len(line):
            continue
        quote = line[found.start() - 1] if found.start() else ""
        if quote in ('"', "'") and line[start] not in "\\\"'":
            closing = line.find(quote, start)
            end = closing if closing >= 0 else len(line)
            end -= line[end - 1] == "\\"
        else:
            value = _HEADER_VALUE.match(line, start)
            end = value.end() if value else start
        if end > start:
            parts += (line[place:start], REDACTED)
            place = end
    return "".join([*parts, line[place:]]) if parts else line


def _login(found: "re.Match[str]", attached: bool) -> str:
    return f"{found[1]}{REDACTED}" if attached or found[1] != "-u" else found[0]


def _without_elements(line: str) -> str:
    line = _ELEMENT.sub(_element, line)
    return _PROPERTY.sub(_second_of_pair, line) if "<key>" in line else line


def _element(found: "re.Match[str]") -> str:
    name = found[1]
    closed = found.string.startswith(f"</{name}", found.end())
    if not closed or not (is_secret(name) or name.lower() in ("pass", "pwd")):
        return found[0]
    return found[0] if found[2].strip().lower() in TRIVIAL else f"{found[0][: -len(found[2])]}{REDACTED}"


def _second_of_pair(found: "re.Match[str]") -> str:
    return f"{found[0][: -len(found[2])]}{REDACTED}" if is_secret(found[1]) else found[0]


def _without_variables(line: str) -> str:
    line = _without(_GIVEN_VARIABLE, line, lambda found, _: is_secret_variable(found[1]))
    parts: list[str] = []
    place = 0
    for found in _ENV.finditer(line):
        at = found.end()
        while at >= place and (pair := _ASSIGNED.match(line, at)) is not None:
            if is_secret_variable(pair[1]) and pair[3].strip("\\\"'").lower() not in TRIVIAL:
                parts += (line[place : pair.start(3)], REDACTED)
                place = pair.end(3)
            at = pair.end()
    return "".join([*parts, line[place:]]) if parts else line


def _without_said(line: str) -> str:
    parts: list[str] = []
    place = 0
    for found in _SAID.finditer(line):
        if found.start() < place or not (is_secret(found[1]) or _is_kind_of_key(found, line)):
            continue
        value = _MADE_UP.match(line, found.end())
        if value is not None and _is_made_up(value[1], linked=not found[2].isspace()):
            parts += (line[place : value.start(1)], REDACTED)
            place = value.end(1)
    return "".join([*parts, line[place:]]) if parts else line


def _is_kind_of_key(found: "re.Match[str]", text: str) -> bool:
    """Whether this is the second word of `API key`, and not any key."""
    if found[1].lower() not in ("key", "keys"):
        return False
    before = _BEFORE.search(text, max(0, found.start() - 24), found.start())
    return before is not None and before[1].lower() in KINDS


def _is_made_up(word: str, *, linked: bool) -> bool:
    """Whether a word is of letters and digits as nobody speaks them; without `is` before it, more so."""
    digits = any(map(str.isdigit, word))
    letters = any(map(str.isalpha, word))
    if not digits or not letters:
        return False
    return linked or (len(word) >= 12 and word != word.lower() and word != word.upper())
