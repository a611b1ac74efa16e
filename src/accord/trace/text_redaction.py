"""Removes secrets from free text: credential shapes, named values, addresses, blocks of several lines.

Each pattern consumes its match once, so the time is linear in the length of a line. Long text is processed in
pieces, so that other threads get the interpreter in between.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

from accord.trace.secret_names import (
    KINDS,
    REDACTED,
    TRIVIAL,
    is_secret,
    is_secret_option,
    is_secret_variable,
    words,
)

__all__ = ["REDACTED", "TRIVIAL", "redact_shapes", "redact_text"]


_HINTS: Final = words(
    "key token secret pass pwd auth cookie cred jwt dsn otp sas pat sig bearer basic env -e -u -user "
    "--build-arg"
)
_NAME: Final = r"[A-Za-z_][A-Za-z0-9_.\-]{0,80}"

# A quoted value ends at its quote, at the end of the line or of the text: a cut-off one is still a secret.
# An unquoted one may contain punctuation, unless the next name or nothing follows it.
# (`(?!)`, which never matches, is for Python before 3.11.5: there a possessive repetition keeps what its last
# failing round consumed, unless one more alternative is tried after it.)
_NEXT_NAME: Final = rf"""(?=\s|$|["'\\)\]}}]|{_NAME}["']?[ \t]?[:=])"""
_VALUE: Final = (
    r"""(?:\\"(?:[^"\\\n]|\\[^"\n]|(?!))*+(?:\\")?"""
    r"""|\\'(?:[^'\\\n]|\\[^'\n]|(?!))*+(?:\\')?|\\{2,3}["'][^"'\n]*+["']?"""
    r"""|"(?:[^"\\\n]|\\.|(?!))*+"?|'(?:[^'\\\n]|\\.|(?!))*+'?"""
    rf"""|(?:[^\s"'\\,;&|<>]|[,;&|](?!{_NEXT_NAME})|\\(?![nr"'])[^\n]?|(?!))++)"""
)
_SCHEME: Final = r"(?:(?:bearer|basic|digest|token|negotiate|apikey)[ \t]+)?"
_SECRET_VALUE: Final = re.compile(_SCHEME + _VALUE, re.IGNORECASE)
_CLOSERS: Final = {"(": ")", "[": "]", "{": "}", "<": ">"}

_REFERENCE: Final = re.compile(r"""["']?(?:\$\{[A-Za-z_][A-Za-z0-9_]*\}|\$\{\{.*|\.\.\.)["'`]?""")
_SENTENCE_CONTINUES: Final = re.compile(r"[ \t][a-z]{1,20}(?:[ \t,.;]|$)")
_TYPES: Final = frozenset(
    words("bytes int bool float any final optional object dict list tuple set number boolean self secretstr")
)

_NAMED: Final = re.compile(
    rf"""(?<![A-Za-z0-9])({_NAME})([\\"'\]]{{0,5}}[ \t]{{0,4}}(?:=>|:=|==?|:)[ \t]{{0,4}})"""
)
_OPTION: Final = re.compile(r"(?<!\S)(--?[A-Za-z][A-Za-z0-9_.\-]{1,80})([ \t]+)(?!-)")
_SHELL: Final = re.compile(
    rf"(?<!\S)(?:setx|setenv|export|ENV|ARG|SETENV|set(?:[ \t]+--?[A-Za-z]{{1,12}}){{1,4}})"
    rf"[ \t]+({_NAME})([ \t]+)(?=[^\s=])"
)
_BEFORE: Final = re.compile(r"([A-Za-z]+)[ \t]?$")

# `Cookie: a=b; c="d"` has several values: the whole line counts as one.
_HEADER: Final = re.compile(
    r"(?i)(?<![A-Za-z0-9_])(?:(?:proxy-)?authorization|(?:set-)?cookie)[\\\"']{0,4}"
    r"[ \t]{0,8}(?:=>|[:=])[ \t]{0,8}"
)
_HEADER_VALUE: Final = re.compile(
    r"""\\?"(?:[^"\\\r\n]|\\[^"]|(?!))*+\\?"?|\\?'[^'\r\n]*+'?"""
    r"""|(?:=[ \t]?"[^"\r\n]*+"?|=[ \t]?'[^'\r\n]*+'?|[^\r\n"']|(?!))++"""
)
_BEARER: Final = re.compile(
    r"\b(bearer|basic)([ \t]+)(?=[^\s\"']*[0-9A-Z._~+/=\-])[A-Za-z0-9._~+/=\-]{8,}", re.IGNORECASE
)
_LOGIN: Final = re.compile(r"(?<!\S)(-u[ \t=]*|--(?:proxy-)?user[ \t=]+)([^\s:]+:\S+)")
_PROGRAM_PASSWORD: Final = re.compile(
    r"(\bsshpass[ \t]+-p[ \t]*"
    r"|\b(?:mysql|mariadb)[a-z]{0,12}\b[^|;&\n]{0,200}?[ \t]-p(?=[^\s])"
    r"|\bredis-cli\b[^|;&\n]{0,200}?[ \t]-a[ \t]+)"
    r"(\S+)"
)
_NETRC: Final = re.compile(
    r"(?m)(?<!\S)(?:((?:login|user|account)[ \t]+\S+[ \t]+password[ \t]+)\S+"
    r"|^([ \t]*+password[ \t]+)(?![A-Za-z]+$)\S++[ \t]*$)"
)
_ELEMENT: Final = re.compile(r"<([A-Za-z_][A-Za-z0-9_.:\-]{1,80})(?:[ \t][^<>]{0,200})?>([^<>]++)(?=</)")
_PROPERTY: Final = re.compile(r"<key>([^<>]{1,100})</key>\s{0,80}<string>([^<>]+)")
_ATTRIBUTES: Final = re.compile(r"""(?:key|name)=["']([^"'<>]{1,100})["'][ \t]{1,8}value=["']([^"'<>\n]+)""")
_VARIABLE: Final = r"[A-Z_][A-Z0-9_]{0,80}"
_VARIABLE_OPTION: Final = re.compile(
    rf"""(?<!\S)(?:-e[ \t]*|--(?:set-)?env(?:-add|-var)?[ \t=]+|--build-arg[ \t=]+)["']?({_VARIABLE})(=)"""
)
_ENV: Final = re.compile(r"(?<![\w.\-])env(?:[ \t]+-[A-Za-z\-]{1,30})*+[ \t]+")
_ASSIGNMENT: Final = re.compile(rf"({_NAME})(=)({_VALUE}|(?=\s|$))[ \t]*")
# `the password is X`, `OPENAI_API_KEY to X`, `token X`: only if X is not an ordinary word.
_IN_SENTENCE: Final = re.compile(
    r"(?<![A-Za-z0-9_\-])([A-Za-z_][A-Za-z0-9_\-]{2,80})([ \t]+(?:(?:is|was|to|as)[ \t]+)?)(?=\S{8})"
)
_GENERATED: Final = re.compile(r"""["'`]?([A-Za-z0-9_\-+=~!@#$%^&*]{8,})["'`]?(?=[\s.,;!?)]|$)""")


_ONE_PASS_LENGTH: Final = 512


def redact_named(text: str) -> str:
    """Redact the values that follow names of secrets."""
    lowered = text.lower()
    hints = [word for word in _HINTS if word in lowered]
    if not hints:
        return text
    if len(text) <= _ONE_PASS_LENGTH or "\n" not in text:
        return _redact_line(text, lowered)
    # The patterns are slow and most lines name no secret, so only lines with a hint are processed.
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
        line = _PROGRAM_PASSWORD.sub(rf"\1{REDACTED}", line)
        line = _NETRC.sub(lambda found: f"{found[1] or found[2]}{REDACTED}", line)
    if "<" in line:
        line = _without_elements(line)
    if "name=" in lowered or "key=" in lowered:
        line = _ATTRIBUTES.sub(_second_of_pair, line)
    return _without_secrets_in_sentences(line) if " " in line else line


def _without(names: "re.Pattern[str]", text: str, secret: "Callable[[re.Match[str], str], bool]") -> str:
    """Redact the values that follow names of secrets.

    Values are searched only there: the text after another name, such as the rest of a URL after `https:`, may
    contain names itself.
    """
    parts: list[str] = []
    place = 0
    for found in names.finditer(text):
        if found.start() < place or not secret(found, text):
            continue
        value = _SECRET_VALUE.match(text, found.end())
        if value is None:
            continue
        end = found.end() + len(_unclosed(value[0]))
        bare = text[found.end() : end].strip("\\\"'").lower()
        if bare not in TRIVIAL and not _is_plain(
            found[1], found[2], text[found.end() : end], text[end : end + 40]
        ):
            parts += (text[place : found.end()], REDACTED)
            place = end
    return "".join([*parts, text[place:]]) if parts else text


def _unclosed(value: str) -> str:
    """Return an unquoted value without closing brackets that were opened before it."""
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
    """Tell whether a value after a secret name is harmless: a type, a reference, a folder, a sentence."""
    if "==" in sign:
        return value[0] not in "\\\"'"  # a comparison in program code
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
    return value.isalpha() and value.islower() and _SENTENCE_CONTINUES.match(after) is not None


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
    line = _without(_VARIABLE_OPTION, line, lambda found, _: is_secret_variable(found[1]))
    parts: list[str] = []
    place = 0
    for found in _ENV.finditer(line):
        at = found.end()
        while at >= place and (pair := _ASSIGNMENT.match(line, at)) is not None:
            if is_secret_variable(pair[1]) and pair[3].strip("\\\"'").lower() not in TRIVIAL:
                parts += (line[place : pair.start(3)], REDACTED)
                place = pair.end(3)
            at = pair.end()
    return "".join([*parts, line[place:]]) if parts else line


def _without_secrets_in_sentences(line: str) -> str:
    parts: list[str] = []
    place = 0
    for found in _IN_SENTENCE.finditer(line):
        if found.start() < place or not (is_secret(found[1]) or _is_kind_of_key(found, line)):
            continue
        value = _GENERATED.match(line, found.end())
        if value is not None and _looks_generated(value[1], linked=not found[2].isspace()):
            parts += (line[place : value.start(1)], REDACTED)
            place = value.end(1)
    return "".join([*parts, line[place:]]) if parts else line


def _is_kind_of_key(found: "re.Match[str]", text: str) -> bool:
    """Tell whether this is the second word of a name such as `API key`."""
    if found[1].lower() not in ("key", "keys"):
        return False
    before = _BEFORE.search(text, max(0, found.start() - 24), found.start())
    return before is not None and before[1].lower() in KINDS


def _looks_generated(word: str, *, linked: bool) -> bool:
    """Tell whether a word mixes letters and digits like a generated key.

    Without `is` before it, be stricter.
    """
    digits = any(map(str.isdigit, word))
    letters = any(map(str.isalpha, word))
    if not digits or not letters:
        return False
    return linked or (len(word) >= 12 and word != word.lower() and word != word.upper())


_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]{0,30})?://([^\s\"'<>`]+)")
_AUTHORITY_END: Final = re.compile(r"[/?#]")
_PARAMETER: Final = re.compile(r"([?&;#])([A-Za-z0-9_.\-%\[\]]{1,80})=([^\s&#\"'<>]+)")
_PARAMETERS: Final = frozenset(words("key sig signature code auth sign hash pass pwd ticket assertion"))
_WEBHOOK: Final = re.compile(
    r"(?i)((?:hooks\.slack\.com/(?:services|workflows|triggers)|discord(?:app)?\.com/api/webhooks"
    r"|\.webhook\.office\.com"
    r"|hooks\.zapier\.com/hooks|chat\.googleapis\.com/v1/spaces)/|api\.telegram\.org/bot)[^\s\"'<>]+"
)
_PLAIN_USERS: Final = ("git", "hg", "svn", "anonymous")


def redact_addresses(text: str) -> str:
    """Redact the URLs of a text that contains `://`."""
    if "@" in text:
        text = _URL.sub(_without_password, text)
    if "=" in text:
        text = _PARAMETER.sub(_without_parameter, text)
    return _WEBHOOK.sub(rf"\1{REDACTED}", text)


def _without_password(found: "re.Match[str]") -> str:
    scheme, rest = found[1] or "", found[2]
    end = _password_end(scheme.lower(), rest)
    if end <= 0 or rest[:end] in _PLAIN_USERS:
        return found[0]
    return f"{scheme}://{REDACTED}{rest[end:]}"


def _password_end(scheme: str, rest: str) -> int:
    """Return the position of the @ before the host, or 0. A password may contain an unescaped @ or slash."""
    first = rest.find("@")
    if first < 0:
        return 0
    found = _AUTHORITY_END.search(rest)
    place = found.start() if found else len(rest)
    if first > place:
        colon = rest.find(":", 0, place)
        if colon < 0 or rest[colon + 1 : place].isdigit() or rest[0] == "[":
            return 0  # a host, perhaps with a port, and an @ in the path
    if not scheme.startswith("http"):
        return rest.rfind("@")  # paths of databases and proxies contain no @
    found = _AUTHORITY_END.search(rest, first)
    return rest.rfind("@", 0, found.start() if found else len(rest))


def _without_parameter(found: "re.Match[str]") -> str:
    sign, name, _ = found.groups()
    plain = unquote(name)
    lowered = plain.lower()
    secret = is_secret(plain) or lowered in _PARAMETERS or lowered.startswith("x-amz-")
    return f"{sign}{name}={REDACTED}" if secret else found[0]


PRIVATE_KEY: Final = "PRIVATE KEY"
_MAX_KEY_LINES: Final = 160
"""A private key without its end hides at most this many lines."""
_BLOCK_START: Final = re.compile(
    r"""(?m)^([ \t]*+)(?:-[ \t]++)?["']?([A-Za-z_][A-Za-z0-9_.\-]{1,80})["']?"""
    r"""[ \t]{0,8}[:=][ \t]{0,8}([|>][+\-0-9]{0,3})?[ \t]{0,8}$"""
)
_SPACE: Final = re.compile(r"\s*")
_VALUE_BELOW: Final = re.compile(r"""[:=][ \t]{0,8}\r?\n\s{0,400}(?=["'])(?!\"\"\"|''')""")
_NAME_BEFORE: Final = re.compile(r"""([A-Za-z_][A-Za-z0-9_.\-]{1,80})["']?[ \t]{0,8}$""")
_QUOTED: Final = re.compile(r""""[^"\n]*+"?|'[^'\n]*+'?""")


def redact_blocks(text: str) -> str:
    """Redact private keys and the blocks below names of secrets."""
    if PRIVATE_KEY in text:
        text = _without_private_keys(text)
    if "\n" in text and ":" in text:
        text = _without_blocks(text)
        text = _without_below(text)
    return text


def _without_below(text: str) -> str:
    parts: list[str] = []
    place = 0
    for found in _VALUE_BELOW.finditer(text):
        name = _NAME_BEFORE.search(text, max(place, found.start() - 96), found.start())
        value = _QUOTED.match(text, found.end())
        if name is not None and value is not None and is_secret(name[1]):
            parts += (text[place : found.end()], REDACTED)
            place = value.end()
    return "".join([*parts, text[place:]]) if parts else text


def _without_private_keys(text: str) -> str:
    parts: list[str] = []
    place = 0
    while (begin := text.find("-----BEGIN ", place)) >= 0:
        head = text.find("-----", begin + 11, begin + 100)
        if head < 0 or PRIVATE_KEY not in text[begin:head]:
            parts.append(text[place : begin + 11])
            place = begin + 11
            continue
        end = text.find("-----END ", head)
        close = text.find("-----", end + 9) if end >= 0 else -1
        parts += (text[place:begin], REDACTED)
        place = close + 5 if close >= 0 else len(text)
    return "".join([*parts, text[place:]])


def _without_blocks(text: str) -> str:
    parts: list[str] = []
    place = 0
    for found in _BLOCK_START.finditer(text):
        indent, name, block = found.groups()
        if found.start() < place or not is_secret(name):
            continue
        below = _SPACE.match(text, found.end())
        start = below.end() if below else len(text)
        if block is None and text[start : start + 1] in ("", "{", "[", "#"):
            continue  # nothing below, or an object whose members are checked one by one
        end = _block_end(text, found.end() + 1, _depth(indent))
        if start >= end:
            continue
        parts += (text[place:start], REDACTED)
        place = end
    return "".join([*parts, text[place:]]) if parts else text


def _block_end(text: str, start: int, indent: int) -> int:
    """Return the end of the lines with a deeper indent, including blank lines in between."""
    end = place = start
    while place < len(text):
        newline = text.find("\n", place)
        newline = len(text) if newline < 0 else newline
        line = text[place:newline]
        bare = line.strip()
        if bare and _depth(line) <= indent:
            # In JSON the value may be on the next line with the same indent.
            return newline if place == start and bare[0] in "\"'" and ":" not in bare else end
        if bare:
            end = newline
        place = newline + 1
    return min(end, len(text))


def _depth(line: str) -> int:
    """Return the indent of a line in columns."""
    return len(line[: len(line) - len(line.lstrip())].expandtabs())


class StderrLines:
    """Redacts blocks in lines that arrive one by one: tells for each line whether it is inside a secret."""

    def __init__(self) -> None:
        self._left = 0
        self._indent: int | None = None

    def hides(self, line: str) -> bool:
        """Tell whether the whole line has to be redacted."""
        if self._left:
            self._left = 0 if "-----END " in line else self._left - 1
            return True
        if self._indent is not None:
            if not line.strip() or _depth(line) > self._indent:
                return bool(line.strip())
            self._indent = None
        if PRIVATE_KEY in line:
            begin = line.rfind("-----BEGIN ")
            if begin >= 0 and "-----END " not in line[begin:]:
                self._left = _MAX_KEY_LINES
        elif ":" in line and (found := _BLOCK_START.match(line)) is not None and is_secret(found[2]):
            self._indent = _depth(found[1])
        return False


_PREFIXES: Final = words(
    "sk- k_live_ k_test_ k_prod_ whsec_ ghp_ gho_ ghs_ ghu_ ghr_ github_pat_ gl xox xapp- AKIA ASIA AIDA "
    "AROA AIza ya29. GOCSPX- npm_ pypi- hf_ gsk_ xai- pplx- nvapi- r8_ lin_api_ figd_ dckr_pat_ shpat_ "
    "shpss_ shpca_ SG. hvs. hvb. dop_v1_ ntn_ tvly- AGE-SECRET eyJ eyK"
)
_BARE_PREFIXES: Final = words("AKIA ASIA AIDA AROA AIza")  # prefixes of keys without punctuation
_SHORT: Final = 64
_PIECE: Final = 8 * 1024
_MAX_PIECE: Final = 8 * _PIECE
"""A longer run of characters is data, not a key."""
_BREAK: Final = re.compile(r"[^A-Za-z0-9_\-.+/=:]")
_SHAPES: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-[A-Za-z0-9_\-]{12,}|[sr]k_(?:live|test|prod)_[A-Za-z0-9]{8,}|whsec_[A-Za-z0-9+/=]{8,}"
    r"|gh[opsur]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|gl[a-z]{1,6}-[\w\-]{16,}"
    r"|xox[a-z]-[\w\-]{8,}|xapp-[\w\-]{8,}"
    r"|A(?:KIA|SIA|IDA|ROA)[A-Z0-9]{12,}|AIza[\w\-]{30,}|ya29\.[\w\-.]{16,}|GOCSPX-[\w\-]{16,}"
    r"|npm_[A-Za-z0-9]{30,}|pypi-[\w\-]{16,}|hf_[A-Za-z0-9]{20,}|gsk_[A-Za-z0-9]{20,}"
    r"|xai-[\w\-]{20,}|pplx-[\w\-]{20,}"
    r"|nvapi-[\w\-]{20,}|r8_[A-Za-z0-9]{20,}|lin_api_[A-Za-z0-9]{20,}|figd_[\w\-]{20,}"
    r"|dckr_pat_[\w\-]{16,}|shp(?:at|ss|ca)_[a-fA-F0-9]{16,}"
    r"|SG\.[\w\-]{16,}\.[\w\-]{16,}|hv[sb]\.[\w\-]{16,}|dop_v1_[a-f0-9]{32,}"
    r"|ntn_[A-Za-z0-9]{30,}|tvly-[\w\-]{16,}"
    r"|AGE-SECRET-KEY-1[A-Z0-9]{20,}|ey[JK][\w\-]{8,}\.[\w\-]{8,}(?:\.[\w\-]*)?"
    r")"
)


def redact_text(text: str) -> str:
    """Redact free text: everything with the shape of a secret or after the name of one."""
    if len(text) <= _SHORT:
        shown = _redact_short(text)
        return text if shown == text else shown
    whole = redact_blocks(text)
    if len(whole) <= _PIECE:
        return _redact_piece(whole)
    pieces = _pieces(whole)
    shown = [_redact_piece(piece) for piece in pieces]
    return whole if shown == pieces else "".join(shown)


def redact_shapes(text: str) -> str:
    """Redact everything with the shape of a known credential."""
    hints = _PREFIXES if any(map(text.__contains__, "-_.")) else _BARE_PREFIXES
    return _SHAPES.sub(REDACTED, text) if any(map(text.__contains__, hints)) else text


@lru_cache(2048)
def _redact_short(text: str) -> str:
    """Redact a short text. Cached, because ids, kinds and names repeat."""
    return _redact_piece(redact_blocks(text))


def _redact_piece(text: str) -> str:
    shown = redact_addresses(text) if "://" in text else text
    shown = redact_shapes(redact_named(shown))
    return text if shown == text else shown


def _pieces(text: str) -> list[str]:
    """Split a text into pieces at positions where no key can be."""
    pieces: list[str] = []
    place = 0
    while len(text) - place > _PIECE:
        newline = text.rfind("\n", place + _PIECE // 2, place + _PIECE)
        if newline >= 0:
            end = newline + 1
        else:
            gap = _BREAK.search(text, place + _PIECE, place + _MAX_PIECE)
            end = gap.end() if gap else min(place + _MAX_PIECE, len(text))
        pieces.append(text[place:end])
        place = end
    pieces.append(text[place:])
    return pieces
