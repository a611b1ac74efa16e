"""Free text without its secrets: what has the shape of a known credential, or stands behind the name of a secret.

Long text is looked through in pieces, so that nobody waits long for the interpreter.
"""

import re
from functools import lru_cache
from typing import Final

from accord.trace.names import is_secret, words

REDACTED: Final = "[redacted]"

TRIVIAL: Final = frozenset(("", REDACTED, *words("true false null none 0 1 yes no on off pass str string")))
"""What nobody keeps secret, in small letters."""

_HINTS: Final = words("= : - _ eyJ ya29. hvs. SG. AKIA ASIA AIza earer")
_WORDS: Final = (
    *words("key token secret pass pwd auth cookie cred jwt dsn otp sas pat sig bearer basic"),
    "-u ",
    "-user",
)
_PREFIXES: Final = words(
    "sk- k_live_ k_test_ k_prod_ whsec_ ghp_ gho_ ghs_ ghu_ ghr_ github_pat_ gl xox xapp- AKIA ASIA AIDA AROA AIza ya29. "
    "GOCSPX- npm_ pypi- hf_ gsk_ xai- pplx- nvapi- r8_ lin_api_ figd_ dckr_pat_ shpat_ shpss_ shpca_ SG. hvs. hvb. dop_v1_ "
    "ntn_ tvly- AGE-SECRET eyJ eyK"
)
_SHORT: Final = 64
_FEW: Final = 512
_PIECE: Final = 8 * 1024
_LONGEST: Final = 8 * _PIECE  # a run of characters longer than this is data, no key
_BREAK: Final = re.compile(r"[^A-Za-z0-9_\-.+/=:]")
_PRIVATE_KEY: Final = "PRIVATE KEY"

# A quoted value ends at its quote, at the end of the line, or with the text: a cut one is still a secret.
_VALUE: Final = r"""(?:\\{0,3}"(?:[^"\\\n]|\\.)*"?|\\{0,3}'(?:[^'\\\n]|\\.)*'?|[^\s"',;&|<>(){}\[\]\\]+)"""
_SCHEME: Final = r"(?:(?:bearer|basic|digest|token|negotiate|apikey)[ \t]+)?"
# `Cookie: a=b; c=d` has several values: the whole line is one.
_HEADER_LINE: Final = re.compile(
    r"(?i)(?<![A-Za-z0-9_])((?:proxy-)?authorization|(?:set-)?cookie)([\\\"']{0,4}[ \t]*(?:=>|[:=])[ \t]*)[\\\"']{0,4}[^\r\n\"']+"
)
_NAMED: Final = re.compile(
    r"""(?<![A-Za-z0-9])([A-Za-z_][A-Za-z0-9_.\-]{1,80})([\\"'\]]{0,5}[ \t]{0,4}(?:=>|:=|==?|:)[ \t]{0,4})"""
)
_OPTION: Final = re.compile(r"(?<!\S)(--?[A-Za-z][A-Za-z0-9_.\-]{1,80})([ \t]+)(?!-)")
_GIVEN: Final = re.compile(_SCHEME + _VALUE, re.IGNORECASE)
_BEARER: Final = re.compile(
    r"\b(bearer|basic)([ \t]+)(?=[^\s\"']*[0-9A-Z._~+/=\-])[A-Za-z0-9._~+/=\-]{8,}", re.IGNORECASE
)
_LOGIN: Final = re.compile(r"(?<!\S)(-u|--user|--proxy-user)([ =]+)(\S+:\S+)")
_IN_ADDRESS: Final = re.compile(r"(://)([^\s/?#@\"'<>]{1,400})@")
_IN_QUERY: Final = re.compile(
    r"(?i)([?&;](?:key|sig|signature|code|auth|sign|hash|x-amz-[a-z-]{1,40})=)[^\s&#\"'<>]+"
)
_SHAPES: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-[A-Za-z0-9_\-]{12,}|[sr]k_(?:live|test|prod)_[A-Za-z0-9]{8,}|whsec_[A-Za-z0-9+/=]{8,}"
    r"|gh[opsur]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|gl[a-z]{1,6}-[\w\-]{16,}|xox[a-z]-[\w\-]{8,}|xapp-[\w\-]{8,}"
    r"|A(?:KIA|SIA|IDA|ROA)[A-Z0-9]{12,}|AIza[\w\-]{30,}|ya29\.[\w\-.]{16,}|GOCSPX-[\w\-]{16,}"
    r"|npm_[A-Za-z0-9]{30,}|pypi-[\w\-]{16,}|hf_[A-Za-z0-9]{20,}|gsk_[A-Za-z0-9]{20,}|xai-[\w\-]{20,}|pplx-[\w\-]{20,}"
    r"|nvapi-[\w\-]{20,}|r8_[A-Za-z0-9]{20,}|lin_api_[A-Za-z0-9]{20,}|figd_[\w\-]{20,}|dckr_pat_[\w\-]{16,}|shp(?:at|ss|ca)_[a-fA-F0-9]{16,}"
    r"|SG\.[\w\-]{16,}\.[\w\-]{16,}|hv[sb]\.[\w\-]{16,}|dop_v1_[a-f0-9]{32,}|ntn_[A-Za-z0-9]{30,}|tvly-[\w\-]{16,}"
    r"|AGE-SECRET-KEY-1[A-Z0-9]{20,}|ey[JK][\w\-]{8,}\.[\w\-]{8,}(?:\.[\w\-]*)?"
    r")"
)


def redact_text(text: str) -> str:
    """Free text without what has the shape of a secret, or stands behind the name of one."""
    if len(text) <= _SHORT:
        shown = _redact_short(text)
        return text if shown == text else shown
    if not any(map(text.__contains__, _HINTS)):
        return text
    if _PRIVATE_KEY in text:
        text = _without_private_keys(text)
    if len(text) <= _PIECE:
        return _redact_piece(text)
    pieces = _pieces(text)
    shown = [_redact_piece(piece) for piece in pieces]
    return text if shown == pieces else "".join(shown)


@lru_cache(2048)
def _redact_short(text: str) -> str:
    """Ids, kinds and names come again and again."""
    return _redact_piece(text)


def _redact_piece(text: str) -> str:
    if not any(map(text.__contains__, _HINTS)):
        return text
    shown = text
    if "://" in shown:
        if "@" in shown:
            shown = _IN_ADDRESS.sub(rf"\1{REDACTED}@", shown)
        if "?" in shown:
            shown = _IN_QUERY.sub(rf"\1{REDACTED}", shown)
    if len(shown) <= _FEW or "\n" not in shown:
        shown = _redact_line(shown)
    else:
        shown = "\n".join(map(_redact_line, shown.split("\n")))
    if any(map(shown.__contains__, _PREFIXES)):
        shown = _SHAPES.sub(REDACTED, shown)
    return text if shown == text else shown


def _redact_line(line: str) -> str:
    """The patterns are slow and most lines name no secret: only those that may are looked at."""
    lowered = line.lower()
    if not any(map(lowered.__contains__, _WORDS)):
        return line
    if ":" in line or "=" in line:
        line = _without_named(_NAMED, _HEADER_LINE.sub(rf"\1\2{REDACTED}", line))
    if "-" in line:
        line = _LOGIN.sub(rf"\1\2{REDACTED}", _without_named(_OPTION, line))
    if "bearer" in lowered or "basic" in lowered:
        line = _BEARER.sub(rf"\1\2{REDACTED}", line)
    return line


def _without_named(names: "re.Pattern[str]", text: str) -> str:
    """The text without what stands behind the names of secrets. Values are looked for only there: what stands behind
    another name, as the rest of an address behind `https:`, may hold names itself.
    """
    parts: list[str] = []
    place = 0
    for found in names.finditer(text):
        name, sign = found.groups()
        if found.start() < place or not (is_secret(name) or (name == "KEY" and sign == "=")):
            continue
        value = _GIVEN.match(text, found.end())
        if value is not None and value[0].strip("\\\"'").lower() not in TRIVIAL:
            parts += (text[place : found.end()], REDACTED)
            place = value.end()
    return "".join([*parts, text[place:]]) if parts else text


def _without_private_keys(text: str) -> str:
    parts: list[str] = []
    place = 0
    while (begin := text.find("-----BEGIN ", place)) >= 0:
        head = text.find("-----", begin + 11)
        if head < 0 or _PRIVATE_KEY not in text[begin:head]:
            parts.append(text[place : begin + 11])
            place = begin + 11
            continue
        end = text.find("-----END ", head)
        close = text.find("-----", end + 9) if end >= 0 else -1
        parts += (text[place:begin], REDACTED)
        place = close + 5 if close >= 0 else len(text)
    return "".join([*parts, text[place:]])


def _pieces(text: str) -> list[str]:
    """The text in pieces that one look takes, cut where no key can be."""
    pieces: list[str] = []
    place = 0
    while len(text) - place > _PIECE:
        newline = text.rfind("\n", place + _PIECE // 2, place + _PIECE)
        if newline >= 0:
            end = newline + 1
        else:
            gap = _BREAK.search(text, place + _PIECE, place + _LONGEST)
            end = gap.end() if gap else min(place + _LONGEST, len(text))
        pieces.append(text[place:end])
        place = end
    pieces.append(text[place:])
    return pieces
