"""Removes secrets from messages and commands, including broken JSON and duplicate keys."""

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

# MERGED trace.commands: Secrets in the words of a command line: `--token x`, `-e NAME=x`, `env NAME=x`, `-u user:x`.

_OPTION: Final = re.compile(r"(--?[A-Za-z][A-Za-z0-9_.\-]*)(=)?(.*)", re.DOTALL)
_PAIR: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_.\-]*)=(.*)", re.DOTALL)
_VARIABLE_NAME: Final = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_GIVES_VARIABLE: Final = re.compile(r"-e|--(?:set-)?env(?:-add|-var)?|--build-arg|-E")
_LOGINS: Final = ("-u", "--user", "--proxy-user")


def redact_words(words: Sequence[str]) -> list[str]:
    """The words, each without its secret; as many as before. The command itself may be among them or not."""
    shown = list(map(redact_text, words))
    variables = False  # whether the words that follow `env` are still its own
    for place, word in enumerate(words):
        before = words[place - 1] if place else ""
        pair = _PAIR.fullmatch(word)
        if pair is not None and (variables or place == 0 or _GIVES_VARIABLE.fullmatch(before)):
            shown[place] = _option_pair(word, pair)
        elif _is_given(before, word):
            shown[place] = word if word.lower() in TRIVIAL else REDACTED
        elif word[:1] == "-":
            shown[place] = _option(word, shown[place])
        variables = os.path.basename(word) == "env" or (variables and (pair is not None or word[:1] == "-"))
    return shown


def _is_given(before: str, word: str) -> bool:
    """Whether a word is what the one before it asks for, and that is a secret."""
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
    name, given = option[1], option[3]
    if _GIVES_VARIABLE.fullmatch(name) and (pair := _PAIR.fullmatch(given)) is not None:
        return f"{name}={_option_pair(given, pair)}"
    if is_secret_option(name) or (name in _LOGINS and ":" in given):
        return word if given.lower() in TRIVIAL else f"{name}={REDACTED}"
    return shown


def _option_pair(word: str, pair: "re.Match[str]") -> str:
    name, value = pair.groups()
    if not is_secret_variable(name):
        return redact_text(word)
    return word if value.lower() in TRIVIAL else f"{name}={REDACTED}"


# MERGED trace.twice: Whether a JSON text says every member once: what is judged is its value, and of two of a name that is the last.

_MEMBER: Final = re.compile(rb'"[ \t\r\n]*:')
_WRITTEN_OUT: Final = re.compile(rb"\\u00(?:20|22|3a)", re.IGNORECASE)  # a space, a quote, a colon


def says_once(text: bytes, value: Any) -> bool:
    """Whether the text holds nothing that its value does not."""
    written = msgspec.json.encode(value)
    if written == text:
        return True
    # The same number of names and of what looks like them, unless something is spelled in another way.
    if not _WRITTEN_OUT.search(text) and len(_MEMBER.findall(text)) == len(_MEMBER.findall(written)):
        return True
    try:
        json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return False
    return True


def _once(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a member twice")


# MERGED trace.redact: Takes secrets out of what is stored: by the name they are under, by their place, and by their shape.
#
# Out comes `[redacted]` wherever a secret stood; everything else stays as it was, and what holds none is returned as the
# very same object. Only copies are changed, never what is passed on. A secret that is cut into pieces by streaming, or
# that looks like any other word, is not recognised: a recording is still to be treated as private.

_MOST_TOKENS: Final = 1_000_000_000  # a number above this is no count of tokens
_LONGEST_NAME: Final = 200
_VALUES: Final = frozenset(
    words("value currentvalue defaultvalue default newvalue oldvalue previousvalue initialvalue rawvalue")
)
_NAMED_BY: Final = words("name key id configId variable header")
_COMMANDS: Final = frozenset(words("args argv arguments command cmd commandline"))
_PRIVATE_PARTS: Final = frozenset(words("d p q dp dq qi k"))  # of a key written as JSON
_SIGNS_IN: Final = "terminal-auth"  # describes a command that signs in; is no secret itself


def redact_frame(frame: bytes) -> bytes:
    """One frame without its secrets: the very same bytes where there were none."""
    try:
        value = parse_json(frame)
        shown = redact_value(value)
    except (NotJson, RecursionError):
        text = frame.decode("utf-8", "surrogateescape")
        shown = redact_broken(text)
        return frame if shown == text else shown.encode("utf-8", "surrogateescape")
    return frame if shown is value and says_once(frame, value) else msgspec.json.encode(shown)


def redact_value(value: Any) -> Any:
    """Parsed JSON without its secrets: the very same object where there were none."""
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, dict):
        return _object(cast(dict[str, Any], value))
    if isinstance(value, list):
        return _array(cast(list[Any], value))
    return value


def redact_command(words: Sequence[str]) -> list[str]:
    """A command line without its secrets."""
    return redact_words(words)


def _object(members: dict[str, Any]) -> dict[str, Any]:
    changed: dict[str, Any] | None = None
    hidden_names = False
    for key, value in members.items():
        place = _place(key) if len(key) <= _LONGEST_NAME else _place_of(key)
        if place:
            if place == "name":
                hidden_names = True
            shown = _in_place(place, key, value, members)
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
        return _renamed(members if changed is None else changed)
    return members if changed is None else changed


def _place_of(key: str) -> str:
    """What a member of this name holds: nothing special, a secret, a command line, pairs of names and values, the value
    of one; or the name is a secret itself.
    """
    if redact_shapes(key) is not key or (len(key) > _LONGEST_NAME and redact_text(key) != key):
        return "name"
    if key == _SIGNS_IN:
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


_place = lru_cache(4096)(_place_of)


def _in_place(place: str, key: str, value: Any, members: dict[str, Any]) -> Any:
    match place:
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
                shown = redact_words(cast(list[str], value))
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
    """A value beside its name, as in `{"name": "API_KEY", "value": ...}`."""
    for by in _NAMED_BY:
        name = members.get(by)
        if isinstance(name, str) and is_secret(name):
            return _hidden(value, counts_tokens(name))
    return redact_value(value)


def _is_folder(key: str, value: Any) -> bool:
    return key.lower() == "pwd" and isinstance(value, str) and value[:1] in ("/", "~", ".")


def _is_random(word: str) -> bool:
    """Whether a word has the looks of a key that a program made."""
    signs = (str.isdigit, str.islower, str.isupper)
    return len(word) >= 16 and not any(map(str.isspace, word)) and all(any(map(sign, word)) for sign in signs)


def _renamed(members: dict[str, Any]) -> dict[str, Any]:
    """The members, with names that are secrets themselves taken out; two of them stay two."""
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
    """An array with options of a command among its items."""
    texts = redact_words([item if isinstance(item, str) else "" for item in items])
    shown = [
        text if isinstance(item, str) else redact_value(item) for item, text in zip(items, texts, strict=True)
    ]
    return items if shown == items else shown


def _hidden(value: Any, counts: bool = False) -> Any:
    """What stands under the name of a secret: its words and numbers go, its form stays. Numbers of tokens do not go."""
    if isinstance(value, str):
        return value if value.lower() in TRIVIAL else REDACTED
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value if counts and abs(value) < _MOST_TOKENS else REDACTED
    if isinstance(value, list):
        return [_hidden(item, counts) for item in cast(list[Any], value)] or cast(Any, value)
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        return {key: _hidden(item, counts) for key, item in members.items()} or members
    return value


def _pairs(key: str, value: Any, secret: Callable[[str], bool]) -> Any:
    """The values of an environment or of headers, given as `{name: value}` or `[{name, value}]` or `["NAME=value"]`."""
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


# MERGED trace.broken: Secrets in lines that are no JSON, or none that can be judged: a message that was cut, one with something before or
# after it, one nested too deep.
#
# As much of the line as can be is read as the JSON it was meant to be, so that names and places count there too. What is
# nested too deep to be judged is not kept.

_MOST: Final = 4 * 1024 * 1024
_MOST_OBJECTS: Final = 200
_DEEPEST: Final = 100
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.|(?!))*+("?)|[{}\[\]]', re.DOTALL)
_CLOSE: Final = {"{": "}", "[": "]"}
_HOLDS_STRING: Final = re.compile(r"""[:\[,{]\s{0,80}["']""")


class _Extent(NamedTuple):
    """Where an object ends, what would close it where it does not, and what is nested too deep in it."""

    end: int
    closers: str
    too_deep: list[tuple[int, int]]


def redact_broken(text: str) -> str:
    """The line without its secrets."""
    if len(text) > _MOST:
        return redact_text(_without_pairs(text))
    parts: list[str] = []
    place = 0
    for _ in range(_MOST_OBJECTS):
        begin = text.find("{", place)
        if begin < 0:
            break
        end, closers, too_deep = _extent(text, begin)
        body = text[begin:end]
        if too_deep:
            body = _pruned(text, begin, end, too_deep)
        read = _read(body, closers)
        if read is None:
            break
        value, meant, rest = read
        shown = redact_value(value)
        if shown is value and says_once(meant, value):
            kept = body[: len(body) - len(rest)]
        else:
            kept = msgspec.json.encode(shown).decode()
        parts += (redact_text(text[place:begin]), kept, _rest(rest))
        place = end
    return "".join([*parts, redact_text(_without_pairs(text[place:]))])


def _extent(text: str, begin: int) -> _Extent:
    stack: list[str] = []
    too_deep: list[tuple[int, int]] = []
    opened = begin
    for token in _TOKEN.finditer(text, begin):
        mark = token[0]
        if mark in _CLOSE:
            stack.append(_CLOSE[mark])
            if len(stack) == _DEEPEST:
                opened = token.start()
        elif mark in ("}", "]"):
            if not stack or stack.pop() != mark:
                return _Extent(len(text), "", too_deep)
            if len(stack) == _DEEPEST - 1:
                too_deep.append((opened, token.end()))
            if not stack:
                return _Extent(token.end(), "", too_deep)
        elif not token[1]:
            stack.append('"')  # a string without its end
            break
    if len(stack) >= _DEEPEST:
        too_deep.append((opened, len(text)))
        del stack[_DEEPEST - 1 :]
    return _Extent(len(text), "".join(reversed(stack)), too_deep)


def _pruned(text: str, begin: int, end: int, too_deep: list[tuple[int, int]]) -> str:
    parts: list[str] = []
    for start, stop in too_deep:
        parts += (text[begin:start], f'"{REDACTED}"')
        begin = stop
    return "".join([*parts, text[begin:end]])


def _read(body: str, closers: str) -> tuple[Any, bytes, str] | None:
    """The value that was meant, the JSON it is read from, and the last part of the body where that is not in it."""
    raw = body.encode("utf-8", "replace").decode()  # half of a character is no reason to miss a secret
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
        meant = attempt.encode()
        try:
            return parse_json(meant), meant, rest
        except NotJson:
            continue
    return None


def _rest(text: str) -> str:
    """The last part, of which nobody knows under which name it stands: no string of it is kept."""
    return f", {REDACTED}" if _HOLDS_STRING.search(text) else redact_text(text)


_QUOTED: Final = re.compile(
    r"""("(?:[^"\\]|\\.|(?!))*+"?|'(?:[^'\\]|\\.|(?!))*+'?)(\s{0,80}:)?|[{}\[\]]""", re.DOTALL
)


def _without_pairs(text: str) -> str:
    """What cannot be read at all: every value below the name of an environment or of headers is taken for a secret."""
    lowered = text.lower()
    if "env" not in lowered and "headers" not in lowered:
        return text
    parts: list[str] = []
    place = depth = 0
    hidden: int | None = None  # below which depth values are taken out
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
