"""Takes secrets out of what is stored: by the name they are under, by their place, and by their shape.

Out comes `[redacted]` wherever a secret stood; everything else stays as it was, and what holds none is returned as the
very same object. Only copies are changed, never what is passed on. A secret that is cut into pieces by streaming, or
that looks like any other word, is not recognised: a recording is still to be treated as private.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, cast

import msgspec

from accord.schema.jsontext import NotJson, parse_json
from accord.trace.names import is_secret, is_secret_header, is_secret_variable

REDACTED: Final = "[redacted]"

_HINTS: Final = ("=", ":", "-", "_", "eyJ", "ya29.", "hvs.", "SG.", "AKIA", "ASIA", "AIza", "earer")
_SHORT: Final = 64
_PIECE: Final = 8 * 1024
_LONGEST: Final = 8 * _PIECE  # a run of characters longer than this is data, no key
_BREAK: Final = re.compile(r"[^A-Za-z0-9_\-.+/=:]")
_PRIVATE_KEY: Final = "PRIVATE KEY"

# A quoted value ends at its quote, at the end of the line, or with the text: a cut one is still a secret.
_VALUE: Final = r"""(?:\\{0,3}"(?:[^"\\\n]|\\.)*"?|\\{0,3}'(?:[^'\\\n]|\\.)*'?|[^\s"',;&|<>(){}\[\]\\]+)"""
_SCHEME: Final = r"(?:(?:bearer|basic|digest|token|negotiate|apikey)[ \t]+)?"
# `Cookie: a=b; c=d` has several values: the whole line is one.
_HEADER_LINE: Final = re.compile(
    r"(?i)(?<![A-Za-z0-9_])((?:proxy-)?authorization|(?:set-)?cookie)([\\\"']{0,4}[ \t]*[:=][ \t]*)[\\\"']{0,4}[^\r\n\"']+"
)
_SET: Final = re.compile(
    rf"(?<![A-Za-z0-9])([A-Za-z_][A-Za-z0-9_.\-]{{1,80}})([\\\"'\]]{{0,5}}[ \t]{{0,4}}(?:=>|:=|==?|:)[ \t]{{0,4}})({_SCHEME}{_VALUE})",
    re.IGNORECASE,
)
_OPTION: Final = re.compile(rf"(?<!\S)(--?[A-Za-z][A-Za-z0-9_.\-]{{1,80}})([ \t]+)({_VALUE})")
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
_TRIVIAL: Final = frozenset(
    ("", "true", "false", "null", "none", "0", "1", "yes", "no", "on", "off", REDACTED)
)


def redact_frame(frame: bytes) -> bytes:
    """One frame without its secrets: the very same bytes where there were none."""
    try:
        value = parse_json(frame)
    except NotJson:
        text = frame.decode("utf-8", "surrogateescape")
        shown = redact_text(_broken_json(text))
        return frame if shown == text else shown.encode("utf-8", "surrogateescape")
    shown = redact_value(value)
    return frame if shown is value else msgspec.json.encode(shown)


def redact_value(value: Any) -> Any:
    """Parsed JSON without its secrets: the very same object where there were none."""
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, dict):
        return _object(cast(dict[str, Any], value))
    if isinstance(value, list):
        return _array(cast(list[Any], value))
    return value


def redact_text(text: str) -> str:
    """Free text without what has the shape of a secret, or stands behind the name of one."""
    for hint in _HINTS:
        if hint in text:
            break
    else:
        return text
    if len(text) <= _SHORT:
        shown = _redact_short(text)
        return text if shown == text else shown
    if _PRIVATE_KEY in text:
        text = _without_private_keys(text)
    if len(text) <= _PIECE:
        return _redact_piece(text)
    pieces = _pieces(text)
    shown = [_redact_piece(piece) for piece in pieces]
    return text if shown == pieces else "".join(shown)


def redact_command(words: Sequence[str]) -> list[str]:
    """A command line without its secrets: `--token x`, `--token=x`, `NAME=x`."""
    return _array(list(words))


def _object(members: dict[str, Any]) -> dict[str, Any]:
    changed: dict[str, Any] | None = None
    name = members.get("name", members.get("configId", members.get("key")))
    for key, value in members.items():
        if is_secret(key) and not _is_count_or_form(key, value):
            shown = _hidden(value)
        elif key in ("env", "environment"):
            shown = _pairs(value, is_secret_variable)
        elif key == "headers":
            shown = _pairs(value, is_secret_header)
        elif key == "value" and isinstance(name, str) and is_secret(name):
            shown = _hidden(value)
        elif isinstance(value, (str, dict, list)):
            shown = redact_value(value)
        else:
            continue
        if shown is not value and shown != value:
            if changed is None:
                changed = dict(members)
            changed[key] = shown
    return members if changed is None else changed


def _is_count_or_form(key: str, value: Any) -> bool:
    """Numbers of tokens are no tokens, and an object under `terminal-auth` describes a way to sign in."""
    lowered = key.lower()
    if isinstance(value, (int, float)):
        return "token" in lowered
    return isinstance(value, dict) and lowered.endswith("auth")


def _array(items: list[Any]) -> list[Any]:
    shown = [redact_value(item) if isinstance(item, (str, dict, list)) else item for item in items]
    for place in range(1, len(items)):
        option = items[place - 1]
        if isinstance(option, str) and option[:1] == "-" and isinstance(items[place], str):
            if is_secret(option) and not items[place].startswith("--"):
                shown[place] = _hidden(items[place])
            elif option in ("-u", "--user", "--proxy-user") and ":" in items[place]:
                shown[place] = REDACTED
    for old, new in zip(items, shown, strict=True):
        if old is not new:
            return shown
    return items


def _hidden(value: Any) -> Any:
    """What stands under the name of a secret: its words and numbers go, its form stays."""
    if isinstance(value, str):
        return value if value.lower() in _TRIVIAL else REDACTED
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return REDACTED
    if isinstance(value, list):
        return [_hidden(item) for item in cast(list[Any], value)] or cast(Any, value)
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        return {key: _hidden(item) for key, item in members.items()} or members
    return value


def _pairs(value: Any, secret: Callable[[str], bool]) -> Any:
    """The values of an environment or of headers, given as `{name: value}` or `[{name, value}]` or `["NAME=value"]`."""
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        return {name: _hidden(item) if secret(name) else redact_value(item) for name, item in members.items()}
    if isinstance(value, list):
        return [_pair(item, secret) for item in cast(list[Any], value)]
    return _hidden(value)


def _pair(item: Any, secret: Callable[[str], bool]) -> Any:
    if isinstance(item, dict):
        members = cast(dict[str, Any], item)
        name = members.get("name", members.get("key"))
        if isinstance(name, str) and not secret(name):
            return redact_value(members)
        return {
            key: part if part is name and key in ("name", "key") else _hidden(part)
            for key, part in members.items()
        }
    if isinstance(item, str):
        name, sign, _ = item.partition("=")
        return redact_text(item) if sign and not secret(name) else f"{name}={REDACTED}" if sign else REDACTED
    return _hidden(item)


@lru_cache(2048)
def _redact_short(text: str) -> str:
    """Ids, kinds and names come again and again."""
    return _redact_piece(text)


def _redact_piece(text: str) -> str:
    for hint in _HINTS:
        if hint in text:
            break
    else:
        return text
    shown = text
    if "@" in shown and "://" in shown:
        shown = _IN_ADDRESS.sub(rf"\1{REDACTED}@", shown)
    if "?" in shown or "&" in shown:
        shown = _IN_QUERY.sub(rf"\1{REDACTED}", shown)
    if ":" in shown or "=" in shown:
        shown = _HEADER_LINE.sub(rf"\1\2{REDACTED}", shown)
        shown = _SET.sub(_if_secret, shown)
    if "-" in shown:
        shown = _LOGIN.sub(rf"\1\2{REDACTED}", _OPTION.sub(_if_secret, shown))
    shown = _SHAPES.sub(REDACTED, _BEARER.sub(rf"\1\2{REDACTED}", shown))
    return text if shown == text else shown


def _if_secret(found: "re.Match[str]") -> str:
    name, sign, value = found.groups()
    secret = is_secret(name) or (name == "KEY" and sign == "=")
    bare = value.strip("\\\"'").lower()
    return f"{name}{sign}{REDACTED}" if secret and bare not in _TRIVIAL else found[0]


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


_VALUE_MEMBER: Final = re.compile(r"""(["']value["']\s*:\s*)("(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?)""")


def _broken_json(text: str) -> str:
    """A line that is no JSON may be one that was cut: what looks like a pair of an environment is taken for one."""
    if '"env"' in text or '"headers"' in text:
        return _VALUE_MEMBER.sub(rf'\1"{REDACTED}"', text)
    return text
