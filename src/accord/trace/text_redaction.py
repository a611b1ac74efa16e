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
    HARMLESS_VALUES,
    KEY_KINDS,
    REDACTED,
    is_secret,
    is_secret_option,
    is_secret_variable,
    words,
)

_PREFIXES: Final = words(
    "sk- k_live_ k_test_ k_prod_ whsec_ ghp_ gho_ ghs_ ghu_ ghr_ github_pat_ gl xox xapp- AKIA ASIA AIDA "
    "AROA AIza ya29. GOCSPX- npm_ pypi- hf_ gsk_ xai- pplx- nvapi- r8_ lin_api_ figd_ dckr_pat_ shpat_ "
    "shpss_ shpca_ SG. hvs. hvb. dop_v1_ ntn_ tvly- AGE-SECRET eyJ eyK acc_"
)
"""`_SHAPES` is tried only on texts with one of these: a new shape needs its prefix here."""
_BARE_PREFIXES: Final = words("AKIA ASIA AIDA AROA AIza")  # prefixes of keys without punctuation
_MAX_CACHED_LENGTH: Final = 64
_CHUNK_LENGTH: Final = 8 * 1024
_MAX_CHUNK_LENGTH: Final = 8 * _CHUNK_LENGTH
"""A longer run of characters is data, not a key."""
_SEPARATOR: Final = re.compile(r"[^A-Za-z0-9_\-.+/=:]")
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
    r"|ntn_[A-Za-z0-9]{30,}|tvly-[\w\-]{16,}|acc_[a-z0-9]{8}_[\w\-]{40,}"
    r"|AGE-SECRET-KEY-1[A-Z0-9]{20,}|ey[JK][\w\-]{8,}\.[\w\-]{8,}(?:\.[\w\-]*)?"
    r")"
)
_MAX_KEY_LINES: Final = 160
"""A private key without its end hides at most this many lines."""


def redact_text(text: str) -> str:
    """Redact free text: everything with the shape of a secret or after the name of one."""
    if len(text) <= _MAX_CACHED_LENGTH:
        redacted = _redact_short(text)
        return text if redacted == text else redacted
    text_without_blocks = _redact_blocks(text)
    if len(text_without_blocks) <= _CHUNK_LENGTH:
        return _redact_chunk(text_without_blocks)
    chunks = _split_into_chunks(text_without_blocks)
    redacted = [_redact_chunk(chunk) for chunk in chunks]
    return text_without_blocks if redacted == chunks else "".join(redacted)


def redact_shapes(text: str) -> str:
    """Redact everything with the shape of a known credential."""
    hints = _PREFIXES if any(map(text.__contains__, "-_.")) else _BARE_PREFIXES
    return _SHAPES.sub(REDACTED, text) if any(map(text.__contains__, hints)) else text


def redact_script(text: str) -> str:
    """Redact a shell command: like `redact_text`, and also after short names such as `key=` and `AUTH=`."""
    return _redact_values_after(
        _NAME_AND_SIGN, redact_text(text), lambda match, _: is_secret_option(match[1])
    )


def holds_credential(text: str) -> bool:
    """Tell whether a part of the text is a known credential, a private key or a password in a URL."""
    if redact_shapes(text) is not text or _URL_PASSWORD.search(text) is not None:
        return True
    return _PRIVATE_KEY in text and _redact_private_keys(text) != text


class StderrRedactor:
    """Redacts blocks in lines that arrive one by one: tells for each line whether it is inside a secret."""

    def __init__(self) -> None:
        self._key_lines_left = 0
        self._block_indent: int | None = None

    def must_redact(self, line: str) -> bool:
        """Tell whether the whole line has to be redacted."""
        if self._key_lines_left:
            self._key_lines_left = 0 if "-----END " in line else self._key_lines_left - 1
            return True
        if self._block_indent is not None:
            if not line.strip() or _indent_width(line) > self._block_indent:
                return bool(line.strip())
            self._block_indent = None
        if _PRIVATE_KEY in line:
            begin = line.rfind("-----BEGIN ")
            if begin >= 0 and "-----END " not in line[begin:]:
                self._key_lines_left = _MAX_KEY_LINES
        elif ":" in line and (match := _BLOCK_START.match(line)) is not None and is_secret(match[2]):
            self._block_indent = _indent_width(match[1])
        return False


@lru_cache(2048)
def _redact_short(text: str) -> str:
    """Redact a short text. Cached, because ids, kinds and names repeat."""
    return _redact_chunk(_redact_blocks(text))


def _redact_chunk(text: str) -> str:
    redacted = _redact_urls(text) if "://" in text else text
    redacted = redact_shapes(_redact_named_values(redacted))
    return text if redacted == text else redacted


def _split_into_chunks(text: str) -> list[str]:
    """Split a text into pieces at positions where no key can be."""
    chunks: list[str] = []
    position = 0
    while len(text) - position > _CHUNK_LENGTH:
        newline = text.rfind("\n", position + _CHUNK_LENGTH // 2, position + _CHUNK_LENGTH)
        if newline >= 0:
            end = newline + 1
        else:
            gap = _SEPARATOR.search(text, position + _CHUNK_LENGTH, position + _MAX_CHUNK_LENGTH)
            end = gap.end() if gap else min(position + _MAX_CHUNK_LENGTH, len(text))
        chunks.append(text[position:end])
        position = end
    chunks.append(text[position:])
    return chunks


# -- values after names of secrets

_HINTS: Final = words(
    "key token secret pass pwd auth cookie cred jwt dsn otp sas pat sig bearer basic netrc env -e -u -user "
    "--build-arg"
)
"""Named values are searched only in texts with one of these: a new secret name needs a part of it here."""
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
_BRACKETS: Final = {"(": ")", "[": "]", "{": "}", "<": ">"}

_PLACEHOLDER: Final = re.compile(r"""["']?(?:\$\{[A-Za-z_][A-Za-z0-9_]*\}|\$\{\{.*|\.\.\.)["'`]?""")
_SENTENCE_CONTINUES: Final = re.compile(r"[ \t][a-z]{1,20}(?:[ \t,.;]|$)")
_TYPE_NAMES: Final = frozenset(
    words("bytes int bool float any final optional object dict list tuple set number boolean self secretstr")
)

_NAME_AND_SIGN: Final = re.compile(
    rf"""(?<![A-Za-z0-9])({_NAME})([\\"'\]]{{0,5}}[ \t]{{0,4}}(?:=>|:=|==?|:)[ \t]{{0,4}})"""
)
_OPTION_NAME: Final = re.compile(r"(?<!\S)(--?[A-Za-z][A-Za-z0-9_.\-]{1,80})([ \t]+)(?!-)")
_SHELL_VARIABLE: Final = re.compile(
    rf"(?<!\S)(?:setx|setenv|export|ENV|ARG|SETENV|set(?:[ \t]+--?[A-Za-z]{{1,12}}){{1,4}})"
    rf"[ \t]+({_NAME})([ \t]+)(?=[^\s=])"
)
_WORD_BEFORE: Final = re.compile(r"([A-Za-z]+)[ \t]?$")

# `Cookie: a=b; c="d"` has several values: the whole line counts as one.
_HEADER_NAME: Final = re.compile(
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
_LOGIN_OPTION: Final = re.compile(r"(?<!\S)(-u[ \t=]*|--(?:proxy-)?user[ \t=]+)([^\s:]+:\S+)")
_PROGRAM_PASSWORD: Final = re.compile(
    r"(\bsshpass[ \t]+-p[ \t]*"
    r"|\b(?:mysql|mariadb)[a-z]{0,12}\b[^|;&\n]{0,200}?[ \t]-p(?=[^\s])"
    r"|\bredis-cli\b[^|;&\n]{0,200}?[ \t]-a[ \t]+)"
    r"(\S+)"
)
_NETRC_PASSWORD: Final = re.compile(
    r"(?m)(?<!\S)(?:((?:login|user|account)[ \t]+\S+[ \t]+password[ \t]+)\S+"
    r"|^([ \t]*+password[ \t]+)(?![A-Za-z]+$)\S++[ \t]*$)"
)
_XML_ELEMENT: Final = re.compile(r"<([A-Za-z_][A-Za-z0-9_.:\-]{1,80})(?:[ \t][^<>]{0,200})?>([^<>]++)(?=</)")
_PLIST_ENTRY: Final = re.compile(r"<key>([^<>]{1,100})</key>\s{0,80}<string>([^<>]+)")
_NAME_AND_VALUE_ATTRIBUTES: Final = re.compile(
    r"""(?:key|name)=["']([^"'<>]{1,100})["'][ \t]{1,8}value=["']([^"'<>\n]+)"""
)
_VARIABLE: Final = r"[A-Z_][A-Z0-9_]{0,80}"
_VARIABLE_OPTION: Final = re.compile(
    rf"""(?<!\S)(?:-e[ \t]*|--(?:set-)?env(?:-add|-var)?[ \t=]+|--build-arg[ \t=]+)["']?({_VARIABLE})(=)"""
)
_ENV_COMMAND: Final = re.compile(r"(?<![\w.\-])env(?:[ \t]+-[A-Za-z\-]{1,30})*+[ \t]+")
_ASSIGNMENT: Final = re.compile(rf"({_NAME})(=)({_VALUE}|(?=\s|$))[ \t]*")
# `the password is X`, `OPENAI_API_KEY to X`, `token X`: only if X is not an ordinary word.
_IN_SENTENCE: Final = re.compile(
    r"(?<![A-Za-z0-9_\-])([A-Za-z_][A-Za-z0-9_\-]{2,80})([ \t]+(?:(?:is|was|to|as)[ \t]+)?)(?=\S{8})"
)
_WORD_AFTER_NAME: Final = re.compile(r"""["'`]?([A-Za-z0-9_\-+=~!@#$%^&*]{8,})["'`]?(?=[\s.,;!?)]|$)""")


_MAX_SINGLE_PASS: Final = 512


def _redact_named_values(text: str) -> str:
    """Redact the values that follow names of secrets."""
    lowered = text.lower()
    hints = [word for word in _HINTS if word in lowered]
    if not hints:
        return text
    if len(text) <= _MAX_SINGLE_PASS or "\n" not in text:
        return _redact_line(text, lowered)
    # The patterns are slow and most lines name no secret, so only lines with a hint are processed.
    return "\n".join(
        _redact_line(line, low) if any(map((low := line.lower()).__contains__, hints)) else line
        for line in text.split("\n")
    )


def _redact_line(line: str, lowered: str) -> str:
    if "=" in line and ("env" in lowered or "-e" in line or "--build-arg" in line):
        line = _redact_variables(line)
    if ":" in line or "=" in line:
        if "authorization" in lowered or "cookie" in lowered:
            line = _redact_headers(line)
        line = _redact_values_after(_NAME_AND_SIGN, line, _is_secret_name)
    if "-" in line:
        line = _redact_values_after(_OPTION_NAME, line, lambda match, _: is_secret_option(match[1]))
        line = _LOGIN_OPTION.sub(lambda match: _redact_login(match, "curl" in lowered), line)
    if "set" in lowered or "export" in lowered or "ENV" in line or "ARG" in line:
        line = _redact_values_after(_SHELL_VARIABLE, line, lambda match, _: is_secret(match[1]))
    if "bearer" in lowered or "basic" in lowered:
        line = _BEARER.sub(rf"\1\2{REDACTED}", line)
    if "pass" in lowered or "-cli" in lowered or "sql" in lowered or "mariadb" in lowered:
        line = _PROGRAM_PASSWORD.sub(rf"\1{REDACTED}", line)
        line = _NETRC_PASSWORD.sub(lambda match: f"{match[1] or match[2]}{REDACTED}", line)
    if "<" in line:
        line = _redact_elements(line)
    if "name=" in lowered or "key=" in lowered:
        line = _NAME_AND_VALUE_ATTRIBUTES.sub(_redact_second_group, line)
    return _redact_sentences(line) if " " in line else line


def _redact_values_after(
    names: "re.Pattern[str]", text: str, is_secret_match: "Callable[[re.Match[str], str], bool]"
) -> str:
    """Redact the values that follow names of secrets.

    Values are searched only there: the text after another name, such as the rest of a URL after `https:`, may
    contain names itself.
    """
    parts: list[str] = []
    position = 0
    for match in names.finditer(text):
        if match.start() < position or not is_secret_match(match, text):
            continue
        value = _SECRET_VALUE.match(text, match.end())
        if value is None:
            continue
        end = match.end() + len(_without_outer_closers(value[0]))
        stripped = text[match.end() : end].strip("\\\"'").lower()
        if stripped not in HARMLESS_VALUES and not _is_harmless_value(
            match[1], match[2], text[match.end() : end], text[end : end + 40]
        ):
            parts += (text[position : match.end()], REDACTED)
            position = end
    return "".join([*parts, text[position:]]) if parts else text


def _without_outer_closers(value: str) -> str:
    """Return an unquoted value without closing brackets that were opened before it."""
    if value[-1] not in _BRACKETS.values() or value[0] in "\\\"'":
        return value
    unopened = {closer: value.count(closer) - value.count(opener) for opener, closer in _BRACKETS.items()}
    end = len(value)
    while end and unopened.get(value[end - 1], 0) > 0:
        end -= 1
        unopened[value[end]] -= 1
    return value[:end]


def _is_secret_name(match: "re.Match[str]", text: str) -> bool:
    name, sign = match[1], match[2]
    if is_secret(name):
        return True
    lowered = name.lower()
    if lowered in ("pass", "pwd"):
        return "=" in sign
    return (name == "KEY" and sign == "=") or _is_kind_of_key(match, text)


def _is_harmless_value(name: str, sign: str, value: str, after: str) -> bool:
    """Tell whether a value after a secret name is harmless: a type, a reference, a folder, a sentence."""
    if "==" in sign:
        return value[0] not in "\\\"'"  # a comparison in program code
    lowered = name.lower()
    if lowered in ("pass", "pwd"):
        return value.isdigit() or value[0] in "/~.$%"
    if _PLACEHOLDER.fullmatch(value):
        return True
    if ":" not in sign or "pass" in lowered:
        return False
    if value == "#" or value.partition("[")[0].lower() in _TYPE_NAMES:
        return True
    # `the token: it is made by ...`
    return value.isalpha() and value.islower() and _SENTENCE_CONTINUES.match(after) is not None


def _redact_headers(line: str) -> str:
    parts: list[str] = []
    position = 0
    for match in _HEADER_NAME.finditer(line):
        start = match.end()
        if match.start() < position or start == len(line):
            continue
        quote = line[match.start() - 1] if match.start() else ""
        if quote in ('"', "'") and line[start] not in "\\\"'":
            closing = line.find(quote, start)
            end = closing if closing >= 0 else len(line)
            end -= line[end - 1] == "\\"
        else:
            value = _HEADER_VALUE.match(line, start)
            end = value.end() if value else start
        if end > start:
            parts += (line[position:start], REDACTED)
            position = end
    return "".join([*parts, line[position:]]) if parts else line


def _redact_login(match: "re.Match[str]", is_curl: bool) -> str:
    return f"{match[1]}{REDACTED}" if is_curl or match[1] != "-u" else match[0]


def _redact_elements(line: str) -> str:
    line = _XML_ELEMENT.sub(_redact_element, line)
    return _PLIST_ENTRY.sub(_redact_second_group, line) if "<key>" in line else line


def _redact_element(match: "re.Match[str]") -> str:
    name = match[1]
    closed = match.string.startswith(f"</{name}", match.end())
    if not closed or not (is_secret(name) or name.lower() in ("pass", "pwd")):
        return match[0]
    return (
        match[0] if match[2].strip().lower() in HARMLESS_VALUES else f"{match[0][: -len(match[2])]}{REDACTED}"
    )


def _redact_second_group(match: "re.Match[str]") -> str:
    return f"{match[0][: -len(match[2])]}{REDACTED}" if is_secret(match[1]) else match[0]


def _redact_variables(line: str) -> str:
    line = _redact_values_after(_VARIABLE_OPTION, line, lambda match, _: is_secret_variable(match[1]))
    parts: list[str] = []
    position = 0
    for match in _ENV_COMMAND.finditer(line):
        start = match.end()
        while start >= position and (pair := _ASSIGNMENT.match(line, start)) is not None:
            if is_secret_variable(pair[1]) and pair[3].strip("\\\"'").lower() not in HARMLESS_VALUES:
                parts += (line[position : pair.start(3)], REDACTED)
                position = pair.end(3)
            start = pair.end()
    return "".join([*parts, line[position:]]) if parts else line


def _redact_sentences(line: str) -> str:
    parts: list[str] = []
    position = 0
    for match in _IN_SENTENCE.finditer(line):
        if match.start() < position or not (is_secret(match[1]) or _is_kind_of_key(match, line)):
            continue
        value = _WORD_AFTER_NAME.match(line, match.end())
        if value is not None and _looks_generated(value[1], after_verb=not match[2].isspace()):
            parts += (line[position : value.start(1)], REDACTED)
            position = value.end(1)
    return "".join([*parts, line[position:]]) if parts else line


def _is_kind_of_key(match: "re.Match[str]", text: str) -> bool:
    """Tell whether this is the second word of a name such as `API key`."""
    if match[1].lower() not in ("key", "keys"):
        return False
    before = _WORD_BEFORE.search(text, max(0, match.start() - 24), match.start())
    return before is not None and before[1].lower() in KEY_KINDS


def _looks_generated(word: str, *, after_verb: bool) -> bool:
    """Tell whether a word mixes letters and digits like a generated key.

    Without `is` before it, be stricter.
    """
    digits = any(map(str.isdigit, word))
    letters = any(map(str.isalpha, word))
    if not digits or not letters:
        return False
    return after_verb or (len(word) >= 12 and word != word.lower() and word != word.upper())


# -- URLs

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]{0,30})?://([^\s\"'<>`]+)")
_URL_PASSWORD: Final = re.compile(r"://[^/\s:@]*:[^/\s@]+@")
_AUTHORITY_END: Final = re.compile(r"[/?#]")
_QUERY_PARAMETER: Final = re.compile(r"([?&;#])([A-Za-z0-9_.\-%\[\]]{1,80})=([^\s&#\"'<>]+)")
_SECRET_PARAMETERS: Final = frozenset(
    words("key sig signature code auth sign hash pass pwd ticket assertion")
)
_WEBHOOK: Final = re.compile(
    r"(?i)((?:hooks\.slack\.com/(?:services|workflows|triggers)|discord(?:app)?\.com/api/webhooks"
    r"|\.webhook\.office\.com"
    r"|hooks\.zapier\.com/hooks|chat\.googleapis\.com/v1/spaces)/|api\.telegram\.org/bot)[^\s\"'<>]+"
)
_HARMLESS_USERS: Final = ("git", "hg", "svn", "anonymous")


def _redact_urls(text: str) -> str:
    """Redact the URLs of a text that contains `://`."""
    if "@" in text:
        text = _URL.sub(_redact_password, text)
    if "=" in text:
        text = _QUERY_PARAMETER.sub(_redact_parameter, text)
    return _WEBHOOK.sub(rf"\1{REDACTED}", text)


def _redact_password(match: "re.Match[str]") -> str:
    scheme, rest = match[1] or "", match[2]
    end = _password_end(scheme.lower(), rest)
    if end <= 0 or rest[:end] in _HARMLESS_USERS:
        return match[0]
    return f"{scheme}://{REDACTED}{rest[end:]}"


def _password_end(scheme: str, rest: str) -> int:
    """Return the position of the @ before the host, or 0. A password may contain an unescaped @ or slash."""
    first = rest.find("@")
    if first < 0:
        return 0
    match = _AUTHORITY_END.search(rest)
    position = match.start() if match else len(rest)
    if first > position:
        colon = rest.find(":", 0, position)
        if colon < 0 or rest[colon + 1 : position].isdigit() or rest[0] == "[":
            return 0  # a host, perhaps with a port, and an @ in the path
    if not scheme.startswith("http"):
        return rest.rfind("@")  # paths of databases and proxies contain no @
    match = _AUTHORITY_END.search(rest, first)
    return rest.rfind("@", 0, match.start() if match else len(rest))


def _redact_parameter(match: "re.Match[str]") -> str:
    sign, name, _ = match.groups()
    decoded = unquote(name)
    lowered = decoded.lower()
    is_secret_parameter = is_secret(decoded) or lowered in _SECRET_PARAMETERS or lowered.startswith("x-amz-")
    return f"{sign}{name}={REDACTED}" if is_secret_parameter else match[0]


# -- private keys, and blocks below names of secrets

_PRIVATE_KEY: Final = "PRIVATE KEY"
_BLOCK_START: Final = re.compile(
    r"""(?m)^([ \t]*+)(?:-[ \t]++)?["']?([A-Za-z_][A-Za-z0-9_.\-]{1,80})["']?"""
    r"""[ \t]{0,8}[:=][ \t]{0,8}([|>][+\-0-9]{0,3})?[ \t]{0,8}$"""
)
_SPACE: Final = re.compile(r"\s*")
_NAME_LINE_END: Final = re.compile(r"""[:=][ \t]{0,8}\r?\n\s{0,400}(?=["'])(?!\"\"\"|''')""")
_NAME_BEFORE: Final = re.compile(r"""([A-Za-z_][A-Za-z0-9_.\-]{1,80})["']?[ \t]{0,8}$""")
_QUOTED: Final = re.compile(r""""[^"\n]*+"?|'[^'\n]*+'?""")


def _redact_blocks(text: str) -> str:
    """Redact private keys and the blocks below names of secrets."""
    if _PRIVATE_KEY in text:
        text = _redact_private_keys(text)
    if "\n" in text and ":" in text:
        text = _redact_indented_blocks(text)
        text = _redact_values_on_next_line(text)
    return text


def _redact_values_on_next_line(text: str) -> str:
    parts: list[str] = []
    position = 0
    for match in _NAME_LINE_END.finditer(text):
        name = _NAME_BEFORE.search(text, max(position, match.start() - 96), match.start())
        value = _QUOTED.match(text, match.end())
        if name is not None and value is not None and is_secret(name[1]):
            parts += (text[position : match.end()], REDACTED)
            position = value.end()
    return "".join([*parts, text[position:]]) if parts else text


def _redact_private_keys(text: str) -> str:
    parts: list[str] = []
    position = 0
    while (begin := text.find("-----BEGIN ", position)) >= 0:
        head = text.find("-----", begin + 11, begin + 100)
        if head < 0 or _PRIVATE_KEY not in text[begin:head]:
            parts.append(text[position : begin + 11])
            position = begin + 11
            continue
        end = text.find("-----END ", head)
        close = text.find("-----", end + 9) if end >= 0 else -1
        parts += (text[position:begin], REDACTED)
        position = close + 5 if close >= 0 else len(text)
    return "".join([*parts, text[position:]])


def _redact_indented_blocks(text: str) -> str:
    parts: list[str] = []
    position = 0
    for match in _BLOCK_START.finditer(text):
        indent, name, block = match.groups()
        if match.start() < position or not is_secret(name):
            continue
        gap = _SPACE.match(text, match.end())
        start = gap.end() if gap else len(text)
        if block is None and text[start : start + 1] in ("", "{", "[", "#"):
            continue  # nothing below, or an object whose members are checked one by one
        end = _block_end(text, match.end() + 1, _indent_width(indent))
        if start >= end:
            continue
        parts += (text[position:start], REDACTED)
        position = end
    return "".join([*parts, text[position:]]) if parts else text


def _block_end(text: str, start: int, indent: int) -> int:
    """Return the end of the lines with a deeper indent, including blank lines in between."""
    end = position = start
    while position < len(text):
        newline = text.find("\n", position)
        newline = len(text) if newline < 0 else newline
        line = text[position:newline]
        stripped = line.strip()
        if stripped and _indent_width(line) <= indent:
            # In JSON the value may be on the next line with the same indent.
            return newline if position == start and stripped[0] in "\"'" and ":" not in stripped else end
        if stripped:
            end = newline
        position = newline + 1
    return min(end, len(text))


def _indent_width(line: str) -> int:
    """Return the indent of a line in columns."""
    return len(line[: len(line) - len(line.lstrip())].expandtabs())
