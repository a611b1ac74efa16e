"""Removes secrets from messages and commands, including broken JSON and duplicate keys.

A secret is found by the name of its member, by its position (environment, headers, command lines) and by its
shape. It becomes `[redacted]`; everything else stays, and a value without secrets is returned as the same
object. Only copies are changed, never the messages that pass through. A secret that streaming splits into
chunks, or that looks like an ordinary word, is not recognized, so treat a recording as private.

Broken JSON (cut off, with text around it, nested too deeply) is repaired as far as possible, so that
secrets are found by name and position there too. Parts nested too deeply are replaced.
"""

import json
import os
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

import msgspec

from accord.schema.codec import NotJson, parse_json
from accord.trace.secret_names import (
    REDACTED,
    TRIVIAL,
    counts_tokens,
    holds_pairs,
    is_secret,
    is_secret_header,
    is_secret_member,
    is_secret_option,
    is_secret_variable,
    words,
)
from accord.trace.text_redaction import redact_shapes, redact_text

_OPTION: Final = re.compile(r"(--?[A-Za-z][A-Za-z0-9_.\-]*)(=)?(.*)", re.DOTALL)
_PAIR: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_.\-]*)=(.*)", re.DOTALL)
_VARIABLE_NAME: Final = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_VARIABLE_OPTION: Final = re.compile(r"-e|--(?:set-)?env(?:-add|-var)?|--build-arg|-E")
_LOGINS: Final = ("-u", "--user", "--proxy-user")


def _is_secret_value(before: str, word: str) -> bool:
    """Tell whether a word is the secret value of the option or name before it."""
    if before[:1] != "-":
        return _VARIABLE_NAME.fullmatch(before) is not None and is_secret(before)
    if before in _LOGINS:
        return ":" in word
    return "=" not in before and is_secret_option(before)


def _option(word: str, shown: str) -> str:
    if word.startswith("-u") and not word.startswith("--") and ":" in word:
        return f"-u{REDACTED}"
    attached = _PAIR.fullmatch(word, 2) if word[1:2] in ("e", "E") else None
    if attached is not None and _VARIABLE_NAME.fullmatch(attached[1]):
        return word[:2] + _option_pair(word[2:], attached)
    option = _OPTION.fullmatch(word)
    if option is None or not option[2]:
        return shown
    name, value = option[1], option[3]
    if _VARIABLE_OPTION.fullmatch(name) and (pair := _PAIR.fullmatch(value)) is not None:
        return f"{name}={_option_pair(value, pair)}"
    if is_secret_option(name) or (name in _LOGINS and ":" in value):
        return word if value.lower() in TRIVIAL else f"{name}={REDACTED}"
    return shown


def _option_pair(word: str, pair: "re.Match[str]") -> str:
    name, value = pair.groups()
    if not is_secret_variable(name):
        return redact_text(word)
    return word if value.lower() in TRIVIAL else f"{name}={REDACTED}"


_MEMBER: Final = re.compile(rb'"[ \t\r\n]*:')
_ESCAPED: Final = re.compile(rb"\\u00(?:20|22|3a)", re.IGNORECASE)  # an escaped space, quote or colon


def redact_frame(frame: bytes) -> bytes:
    """Redact a frame; without secrets, return the same bytes object."""
    try:
        value = parse_json(frame)
        shown = redact_value(value)
    except (NotJson, RecursionError):
        text = frame.decode("utf-8", "surrogateescape")
        shown = redact_broken(text)
        return frame if shown == text else shown.encode("utf-8", "surrogateescape")
    return frame if shown is value and has_unique_keys(frame, value) else msgspec.json.encode(shown)


def redact_value(value: Any) -> Any:
    """Redact parsed JSON; without secrets, return the same object."""
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, dict):
        return _object(cast(dict[str, Any], value))
    if isinstance(value, list):
        return _array(cast(list[Any], value))
    return value


def redact_command(words: Sequence[str]) -> list[str]:
    """Redact the words of a command line, with or without the program; returns as many words."""
    shown = list(map(redact_text, words))
    variables = False  # whether the word may still be a variable of a preceding `env`
    for place, word in enumerate(words):
        before = words[place - 1] if place else ""
        pair = _PAIR.fullmatch(word)
        if pair is not None and (variables or place == 0 or _VARIABLE_OPTION.fullmatch(before)):
            shown[place] = _option_pair(word, pair)
        elif _is_secret_value(before, word):
            shown[place] = word if word.lower() in TRIVIAL else REDACTED
        elif word[:1] == "-":
            shown[place] = _option(word, shown[place])
        variables = os.path.basename(word) == "env" or (variables and (pair is not None or word[:1] == "-"))
    return shown


def redact_broken(text: str) -> str:
    """Redact a line that is not valid JSON."""
    if len(text) > _MAX_REPAIRED_LENGTH:
        return redact_text(_redact_unparsed_pairs(text))
    parts: list[str] = []
    place = 0
    for _ in range(_MAX_OBJECTS):
        begin = text.find("{", place)
        if begin < 0:
            break
        end, closers, too_deep = _extent(text, begin)
        body = text[begin:end]
        if too_deep:
            body = _prune(text, begin, end, too_deep)
        repaired = _repair(body, closers)
        if repaired is None:
            break
        value, json_text, rest = repaired
        shown = redact_value(value)
        if shown is value and has_unique_keys(json_text, value):
            kept = body[: len(body) - len(rest)]
        else:
            kept = msgspec.json.encode(shown).decode()
        parts += (redact_text(text[place:begin]), kept, _redact_rest(rest))
        place = end
    return "".join([*parts, redact_text(_redact_unparsed_pairs(text[place:]))])


def has_unique_keys(text: bytes, value: Any) -> bool:
    """Tell whether a JSON text has no duplicate keys. Parsing keeps only the last one."""
    encoded = msgspec.json.encode(value)
    if encoded == text:
        return True
    # Fast path: the same number of member names, unless some characters are escaped.
    if not _ESCAPED.search(text) and len(_MEMBER.findall(text)) == len(_MEMBER.findall(encoded)):
        return True
    try:
        json.loads(text, object_pairs_hook=_reject_duplicates)
    except (ValueError, RecursionError):
        return False
    return True


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("duplicate key")


_MAX_TOKEN_COUNT: Final = 1_000_000_000
"""A larger number does not count tokens."""
_MAX_NAME_LENGTH: Final = 200
_VALUES: Final = frozenset(
    words("value currentvalue defaultvalue default newvalue oldvalue previousvalue initialvalue rawvalue")
)
_NAMED_BY: Final = words("name key id configId variable header")
_COMMANDS: Final = frozenset(words("args argv arguments command cmd commandline"))
_PRIVATE_PARTS: Final = frozenset(words("d p q dp dq qi k"))  # private members of a JSON Web Key
_SIGN_IN_MEMBER: Final = "terminal-auth"  # describes a sign-in command and is not a secret


def _object(members: dict[str, Any]) -> dict[str, Any]:
    changed: dict[str, Any] | None = None
    hidden_names = False
    for key, value in members.items():
        kind = _member_kind(key) if len(key) <= _MAX_NAME_LENGTH else _classify_member(key)
        if kind:
            if kind == "name":
                hidden_names = True
            shown = _redact_member(kind, key, value, members)
        elif isinstance(value, str):
            shown = redact_text(value)
        elif isinstance(value, dict):
            shown = _object(cast(dict[str, Any], value))
        elif isinstance(value, list):
            shown = _array(cast(list[Any], value))
        else:
            continue
        if shown is not value and shown != value:
            if changed is None:
                changed = dict(members)
            changed[key] = shown
    if hidden_names:
        return _redact_names(members if changed is None else changed)
    return members if changed is None else changed


def _classify_member(key: str) -> str:
    """Return what a member of this name contains.

    "" is nothing special. "name" means that the name itself is a secret. "env" and "headers" are pairs of
    names and values, "value" is the value of one.
    """
    if redact_shapes(key) is not key or (len(key) > _MAX_NAME_LENGTH and redact_text(key) != key):
        return "name"
    if key == _SIGN_IN_MEMBER:
        return ""
    lowered = key.lower()
    if is_secret_member(key):
        return "secret"
    if lowered in _VALUES:
        return "value"
    if lowered in _COMMANDS:
        return "command"
    if lowered == "kty":
        return ""
    if lowered in _PRIVATE_PARTS:
        return "part"
    return holds_pairs(key) or {"key": "key", "pin": "pin"}.get(lowered, "")


_member_kind = lru_cache(4096)(_classify_member)


def _redact_member(kind: str, key: str, value: Any, members: dict[str, Any]) -> Any:
    match kind:
        case "secret":
            if _is_folder(key, value):
                return redact_value(value)
            return _hidden(value, counts_tokens(key) or key.lower() == "pass")
        case "env":
            return _pairs(key, value, is_secret_variable)
        case "headers":
            return _pairs(key, value, is_secret_header)
        case "value":
            return _value(value, members)
        case "command":
            if isinstance(value, list) and all(isinstance(word, str) for word in cast(list[Any], value)):
                shown = redact_command(cast(list[str], value))
                return shown if shown != value else cast(Any, value)
        case "part":
            return REDACTED if "kty" in members and isinstance(value, str) else redact_value(value)
        case "key":
            return REDACTED if isinstance(value, str) and _is_random(value) else redact_value(value)
        case "pin":
            return REDACTED if isinstance(value, str) and value.isdigit() else redact_value(value)
        case _:
            pass
    return redact_value(value)


def _value(value: Any, members: dict[str, Any]) -> Any:
    """Redact a value next to its name, as in `{"name": "API_KEY", "value": ...}`."""
    for by in _NAMED_BY:
        name = members.get(by)
        if isinstance(name, str) and is_secret(name):
            return _hidden(value, counts_tokens(name))
    return redact_value(value)


def _is_folder(key: str, value: Any) -> bool:
    return key.lower() == "pwd" and isinstance(value, str) and value[:1] in ("/", "~", ".")


def _is_random(word: str) -> bool:
    """Tell whether a word looks like a generated key: long, with digits, lower and upper case."""
    tests = (str.isdigit, str.islower, str.isupper)
    return len(word) >= 16 and not any(map(str.isspace, word)) and all(any(map(test, word)) for test in tests)


def _redact_names(members: dict[str, Any]) -> dict[str, Any]:
    """Redact member names that are secrets themselves; the names stay distinct."""
    shown: dict[str, Any] = {}
    for key, value in members.items():
        name = redact_text(key)
        while name in shown and name != key:
            name += "'"
        shown[name] = value
    return shown


def _array(items: list[Any]) -> list[Any]:
    if any(isinstance(item, str) and item[:1] == "-" for item in items):
        return _with_options(items)
    shown = [redact_value(item) if isinstance(item, (str, dict, list)) else item for item in items]
    for old, new in zip(items, shown, strict=True):
        if old is not new:
            return shown
    return items


def _with_options(items: list[Any]) -> list[Any]:
    """Redact an array that contains command options."""
    texts = redact_command([item if isinstance(item, str) else "" for item in items])
    shown = [
        text if isinstance(item, str) else redact_value(item) for item, text in zip(items, texts, strict=True)
    ]
    return items if shown == items else shown


def _hidden(value: Any, counts: bool = False) -> Any:
    """Redact the value of a secret name: strings and numbers, but not the structure and not token counts."""
    if isinstance(value, str):
        return value if value.lower() in TRIVIAL else REDACTED
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value if counts and abs(value) < _MAX_TOKEN_COUNT else REDACTED
    if isinstance(value, list):
        return [_hidden(item, counts) for item in cast(list[Any], value)] or cast(Any, value)
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        return {key: _hidden(item, counts) for key, item in members.items()} or members
    return value


def _pairs(key: str, value: Any, secret: Callable[[str], bool]) -> Any:
    """Redact an environment or headers: `{name: value}`, `[{name, value}]` or `["NAME=value"]`."""
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        return {name: _hidden(item) if secret(name) else redact_value(item) for name, item in members.items()}
    if isinstance(value, list):
        return [_pair(item, secret) for item in cast(list[Any], value)]
    if (
        isinstance(value, str)
        and "=" not in value
        and ":" not in value
        and key.lower() not in ("env", "headers")
    ):
        return redact_text(value)  # `"environment": "production"`
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


_MAX_REPAIRED_LENGTH: Final = 4 * 1024 * 1024
_MAX_OBJECTS: Final = 200
_MAX_DEPTH: Final = 100
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.|(?!))*+("?)|[{}\[\]]', re.DOTALL)
_CLOSE: Final = {"{": "}", "[": "]"}
_CONTAINS_STRING: Final = re.compile(r"""[:\[,{]\s{0,80}["']""")


class _Extent(NamedTuple):
    """Where an object ends, what closes it if it is cut off, and which parts are nested too deeply."""

    end: int
    closers: str
    too_deep: list[tuple[int, int]]


def _extent(text: str, begin: int) -> _Extent:
    stack: list[str] = []
    too_deep: list[tuple[int, int]] = []
    opened = begin
    for token in _TOKEN.finditer(text, begin):
        mark = token[0]
        if mark in _CLOSE:
            stack.append(_CLOSE[mark])
            if len(stack) == _MAX_DEPTH:
                opened = token.start()
        elif mark in ("}", "]"):
            if not stack or stack.pop() != mark:
                return _Extent(len(text), "", too_deep)
            if len(stack) == _MAX_DEPTH - 1:
                too_deep.append((opened, token.end()))
            if not stack:
                return _Extent(token.end(), "", too_deep)
        elif not token[1]:
            stack.append('"')  # an unterminated string
            break
    if len(stack) >= _MAX_DEPTH:
        too_deep.append((opened, len(text)))
        del stack[_MAX_DEPTH - 1 :]
    return _Extent(len(text), "".join(reversed(stack)), too_deep)


def _prune(text: str, begin: int, end: int, too_deep: list[tuple[int, int]]) -> str:
    parts: list[str] = []
    for start, stop in too_deep:
        parts += (text[begin:start], f'"{REDACTED}"')
        begin = stop
    return "".join([*parts, text[begin:end]])


def _repair(body: str, closers: str) -> tuple[Any, bytes, str] | None:
    """Return the parsed value, the repaired JSON, and the end of the body that the JSON does not include."""
    raw = body.encode("utf-8", "replace").decode()  # a broken character must not hide a secret
    bare = raw.rstrip().rstrip(",")
    ends = closers.removeprefix('"')
    comma = max(bare.rfind(","), 0)
    for attempt, rest in (
        (raw + closers, ""),
        (raw.rstrip("\\") + closers, ""),
        (bare + ends, ""),
        (f"{bare}null{ends}", ""),
        (f"{bare}:null{ends}", ""),
        (f"{raw}{closers[:1]}:null{ends}", ""),
        (bare[:comma] + ends, raw[comma:]),
    ):
        json_text = attempt.encode()
        try:
            return parse_json(json_text), json_text, rest
        except NotJson:
            continue
    return None


def _redact_rest(text: str) -> str:
    """Redact the unparsed end of an object. Its member name is unknown, so no string is kept."""
    return f", {REDACTED}" if _CONTAINS_STRING.search(text) else redact_text(text)


_QUOTED: Final = re.compile(
    r"""("(?:[^"\\]|\\.|(?!))*+"?|'(?:[^'\\]|\\.|(?!))*+'?)(\s{0,80}:)?|[{}\[\]]""", re.DOTALL
)


def _redact_unparsed_pairs(text: str) -> str:
    """Redact unparsable text: every value below an environment or headers counts as a secret."""
    lowered = text.lower()
    if "env" not in lowered and "headers" not in lowered:
        return text
    parts: list[str] = []
    place = depth = 0
    hidden: int | None = None  # values at a greater depth are redacted
    for token in _QUOTED.finditer(text):
        mark, quoted, named = token[0], token[1], token[2]
        if mark in _CLOSE:
            depth += 1
        elif not quoted:
            depth -= 1
            if hidden is not None and depth <= hidden:
                hidden = None
        elif named:
            if hidden is None and len(quoted) < 100 and holds_pairs(quoted):
                hidden = depth
        elif hidden is not None and depth > hidden:
            parts += (text[place : token.start()], f'"{REDACTED}"')
            place = token.end()
    return "".join([*parts, text[place:]])
