"""Removes secrets from parsed JSON, frames and command lines.

A secret is found by the name of its member, by its position (environment, headers, command lines) and by its
shape. It becomes `[redacted]`; everything else stays, and a value without secrets is returned as the same
object. Values are copied before they are changed. A secret that streaming splits into chunks, or that looks
like an ordinary word, is not recognized, so treat a recording as private.

What a replay would offer to the user stays: the values of config options, modes and models, and the choices
of forms. They are ids, although a name beside them may be "API key".

Broken JSON (cut off, with text around it, nested too deeply) is repaired as far as possible, so that secrets
are found by name and position there too. Parts nested too deeply are replaced. Only copies of frames are
redacted, never the frames that pass through.
"""

import json
import os
import re
import shlex
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

import msgspec

from accord.schema.codec import NotJson, parse_json
from accord.trace.secret_names import (
    HARMLESS_VALUES,
    REDACTED,
    counts_tokens,
    is_secret,
    is_secret_header,
    is_secret_member,
    is_secret_option,
    is_secret_variable,
    pair_kind,
    words,
)
from accord.trace.text_redaction import redact_shapes, redact_text

_MAX_TOKEN_COUNT: Final = 1_000_000_000
"""Larger numbers are not token counts."""
_MAX_NAME_LENGTH: Final = 200
_VALUE_MEMBERS: Final = frozenset(
    words("value currentvalue defaultvalue default newvalue oldvalue previousvalue initialvalue rawvalue")
)
_NAME_MEMBERS: Final = words("name key id configId variable header")
_COMMAND_MEMBERS: Final = frozenset(words("args argv arguments command cmd commandline"))
_PRIVATE_KEY_MEMBERS: Final = frozenset(words("d p q dp dq qi k"))  # private members of a JSON Web Key
_CHOICE_IDS: Final = frozenset(words("modeid modelid currentmodeid currentmodelid"))
_SCHEMA_MEMBERS: Final = frozenset(
    words(
        "type title description enum enumNames oneOf anyOf items default format pattern minLength maxLength "
        "minimum maximum minItems maxItems uniqueItems"
    )
)
"""The members of a form field. An object with others is not one."""
_SIGN_IN_COMMAND: Final = "terminal-auth"  # describes a sign-in command and is not a secret


def redact_value(value: Any) -> Any:
    """Redact parsed JSON; without secrets, return the same object."""
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, dict):
        return _redact_object(cast(dict[str, Any], value))
    if isinstance(value, list):
        return _redact_array(cast(list[Any], value))
    return value


def _redact_object(members: dict[str, Any]) -> dict[str, Any]:
    changed: dict[str, Any] | None = None
    has_secret_names = False
    for key, value in members.items():
        kind = _member_kind(key) if len(key) <= _MAX_NAME_LENGTH else _classify_member(key)
        if kind:
            if kind == "name":
                has_secret_names = True
            redacted = _redact_member(kind, key, value, members)
        elif isinstance(value, str):
            redacted = redact_text(value)
        elif isinstance(value, dict):
            redacted = _redact_object(cast(dict[str, Any], value))
        elif isinstance(value, list):
            redacted = _redact_array(cast(list[Any], value))
        else:
            continue
        if redacted is not value and redacted != value:
            if changed is None:
                changed = dict(members)
            changed[key] = redacted
    if has_secret_names:
        return _redact_member_names(members if changed is None else changed)
    return members if changed is None else changed


def _classify_member(key: str) -> str:
    """Return what a member of this name contains.

    "" is nothing special. "name" means that the name itself is a secret. "env" and "headers" are pairs of
    names and values, "value" is the value of one.
    """
    if redact_shapes(key) is not key or (len(key) > _MAX_NAME_LENGTH and redact_text(key) != key):
        return "name"
    if key == _SIGN_IN_COMMAND:
        return ""
    lowered = key.lower()
    if is_secret_member(key):
        return "secret"
    if lowered in _VALUE_MEMBERS:
        return "value"
    if lowered in _COMMAND_MEMBERS:
        return "command"
    if lowered == "kty":
        return ""
    if lowered in _PRIVATE_KEY_MEMBERS:
        return "private key"
    if lowered in _CHOICE_IDS:
        return "choice id"
    return pair_kind(key) or _KINDS_BY_NAME.get(lowered, "")


_KINDS_BY_NAME: Final = {
    "key": "key", "pin": "pin", "options": "options", "properties": "properties", "data": "data"
}  # fmt: skip


_member_kind = lru_cache(4096)(_classify_member)


def _redact_member(kind: str, key: str, value: Any, members: dict[str, Any]) -> Any:
    match kind:
        case "secret":
            if _is_directory(key, value):
                return redact_value(value)
            return _redact_secret_value(value, counts_tokens(key) or key.lower() == "pass")
        case "env":
            return _redact_pairs(key, value, is_secret_variable)
        case "headers":
            return _redact_pairs(key, value, is_secret_header)
        case "value":
            return _redact_named_value(value, members)
        case "command":
            if isinstance(value, list) and all(isinstance(word, str) for word in cast(list[Any], value)):
                redacted = redact_command(cast(list[str], value))
                return redacted if redacted != value else cast(Any, value)
        case "private key":
            return REDACTED if "kty" in members and isinstance(value, str) else redact_value(value)
        case "key":
            return REDACTED if isinstance(value, str) and _looks_like_key(value) else redact_value(value)
        case "choice id":
            return value if isinstance(value, str) else redact_value(value)
        case "options":
            is_config_option = "currentValue" in members or members.get("type") == "select"
            return _redact_choices(value) if is_config_option else redact_value(value)
        case "properties":
            return _redact_properties(value)
        case "data" if isinstance(value, str) and "mimeType" not in members:
            return _redact_output(value)
        case "pin":
            return REDACTED if isinstance(value, str) and value.isdigit() else redact_value(value)
        case _:
            pass
    return redact_value(value)


def _redact_output(data: str) -> str:
    """Redact the output of a terminal in version 2, which is encoded as base64."""
    try:
        text = b64decode(data, validate=True).decode(errors="surrogateescape")
    except ValueError:
        return redact_text(data)
    redacted = redact_text(text)
    if redacted == text:
        return redact_text(data)
    return b64encode(redacted.encode(errors="surrogateescape")).decode()


def _redact_named_value(value: Any, members: dict[str, Any]) -> Any:
    """Redact a value next to its name, as in `{"name": "API_KEY", "value": ...}`."""
    if isinstance(value, str) and value in _offered_values(members.get("options")):
        return value
    for name_member in _NAME_MEMBERS:
        name = members.get(name_member)
        if isinstance(name, str) and is_secret(name):
            return _redact_secret_value(value, counts_tokens(name))
    if isinstance(value, str) and "configId" in members and "sessionId" in members:
        return value  # a choice that the agent offered
    return redact_value(value)


def _redact_choices(value: Any) -> Any:
    """Redact the choices of a config option, but not their values. They may be in groups."""
    if not isinstance(value, list):
        return redact_value(value)
    redacted = [_redact_choice(choice) for choice in cast(list[Any], value)]
    return cast(Any, value) if redacted == value else redacted


def _redact_choice(choice: Any) -> Any:
    if not isinstance(choice, dict):
        return redact_value(choice)
    members = cast(dict[str, Any], choice)
    if "group" in members or "groupId" in members:
        return {
            key: _redact_choices(value) if key == "options" else redact_value(value)
            for key, value in members.items()
        }
    kept = {"value": members["value"]} if isinstance(members.get("value"), str) else {}
    return {**members, **redact_value({key: members[key] for key in members if key not in kept}), **kept}


def _offered_values(options: Any) -> set[str]:
    """Return the values of the choices, also of those in groups."""
    values: set[str] = set()
    for choice in cast(list[Any], options) if isinstance(options, list) else ():
        if isinstance(choice, dict):
            members = cast(dict[str, Any], choice)
            if isinstance(members.get("value"), str):
                values.add(members["value"])
            if "group" in members or "groupId" in members:
                values |= _offered_values(members.get("options"))
    return values


def _redact_properties(value: Any) -> Any:
    """Redact the fields of a form. Titles and choices stay; the default of a secret field does not."""
    if not isinstance(value, dict):
        return redact_value(value)
    fields = cast(dict[str, Any], value)
    redacted: dict[str, Any] = {}
    for name, field in fields.items():
        if not isinstance(field, dict) or not _SCHEMA_MEMBERS.issuperset(cast(dict[str, Any], field)):
            redacted |= _redact_object({name: field})
            continue
        schema = cast(dict[str, Any], field)
        redacted[name] = _redact_field(schema)
        if is_secret_member(name) and "default" in schema and not _is_offered(schema["default"], schema):
            redacted[name] = {**redacted[name], "default": _redact_secret_value(schema["default"])}
    return fields if redacted == fields else redacted


def _is_offered(default: Any, schema: dict[str, Any]) -> bool:
    """Whether a form field offers its default as a choice: one of them, or a list of them."""
    items: Any = schema.get("items")
    if isinstance(default, list):
        field = cast(dict[str, Any], items) if isinstance(items, dict) else {}
        return all(_is_offered(item, field) for item in cast(list[Any], default))
    values, *constants = (schema.get(member) for member in ("enum", "oneOf", "anyOf"))
    if isinstance(values, list) and default in values:
        return True
    choices = [choice for group in constants if isinstance(group, list) for choice in cast(list[Any], group)]
    objects = [cast(dict[str, Any], choice) for choice in choices if isinstance(choice, dict)]
    return any("const" in choice and choice["const"] == default for choice in objects)


def _redact_field(schema: dict[str, Any]) -> dict[str, Any]:
    """Redact the schema of a form field, but not the values of its choices."""
    redacted = cast(dict[str, Any], redact_value(schema))
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "enum":
            kept[key] = value
        elif key == "items" and isinstance(value, dict):
            kept[key] = _redact_field(cast(dict[str, Any], value))
        elif key in ("oneOf", "anyOf") and isinstance(value, list):
            kept[key] = [_redact_constant(item) for item in cast(list[Any], value)]
    return {**redacted, **kept}


def _redact_constant(choice: Any) -> Any:
    if not isinstance(choice, dict) or "const" not in choice:
        return redact_value(choice)
    members = cast(dict[str, Any], choice)
    return {**redact_value(members), "const": members["const"]}


def _is_directory(key: str, value: Any) -> bool:
    return key.lower() == "pwd" and isinstance(value, str) and value[:1] in ("/", "~", ".")


def _looks_like_key(word: str) -> bool:
    """Tell whether a word looks like a generated key: long, with digits, lower and upper case."""
    tests = (str.isdigit, str.islower, str.isupper)
    return len(word) >= 16 and not any(map(str.isspace, word)) and all(any(map(test, word)) for test in tests)


def _redact_member_names(members: dict[str, Any]) -> dict[str, Any]:
    """Redact member names that are secrets themselves; the names stay distinct."""
    redacted: dict[str, Any] = {}
    for key, value in members.items():
        name = redact_text(key)
        while name in redacted and name != key:
            name += "'"
        redacted[name] = value
    return redacted


def _redact_array(items: list[Any]) -> list[Any]:
    if any(isinstance(item, str) and item[:1] == "-" for item in items):
        return _redact_array_with_options(items)
    redacted = [redact_value(item) if isinstance(item, (str, dict, list)) else item for item in items]
    for item, redacted_item in zip(items, redacted, strict=True):
        if item is not redacted_item:
            return redacted
    return items


def _redact_array_with_options(items: list[Any]) -> list[Any]:
    """Redact an array that contains command options."""
    redacted_words = redact_command([item if isinstance(item, str) else "" for item in items])
    redacted = [
        text if isinstance(item, str) else redact_value(item)
        for item, text in zip(items, redacted_words, strict=True)
    ]
    return items if redacted == items else redacted


def _redact_secret_value(value: Any, may_count_tokens: bool = False) -> Any:
    """Redact the value of a secret name: strings and numbers, but not the structure and not token counts."""
    if isinstance(value, str):
        return value if value.lower() in HARMLESS_VALUES else REDACTED
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value if may_count_tokens and abs(value) < _MAX_TOKEN_COUNT else REDACTED
    if isinstance(value, list):
        return [_redact_secret_value(item, may_count_tokens) for item in cast(list[Any], value)] or cast(
            Any, value
        )
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        return {key: _redact_secret_value(item, may_count_tokens) for key, item in members.items()} or members
    return value


def _redact_pairs(key: str, value: Any, is_secret_name: Callable[[str], bool]) -> Any:
    """Redact an environment or headers: `{name: value}`, `[{name, value}]` or `["NAME=value"]`."""
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        return {
            name: _redact_secret_value(item) if is_secret_name(name) else redact_value(item)
            for name, item in members.items()
        }
    if isinstance(value, list):
        return [_redact_pair(item, is_secret_name) for item in cast(list[Any], value)]
    if (
        isinstance(value, str)
        and "=" not in value
        and ":" not in value
        and key.lower() not in ("env", "headers")
    ):
        return redact_text(value)  # `"environment": "production"`
    return _redact_secret_value(value)


def _redact_pair(item: Any, is_secret_name: Callable[[str], bool]) -> Any:
    if isinstance(item, dict):
        members = cast(dict[str, Any], item)
        name = members.get("name", members.get("key"))
        if isinstance(name, str) and not is_secret_name(name):
            return redact_value(members)
        return {
            key: member if member is name and key in ("name", "key") else _redact_secret_value(member)
            for key, member in members.items()
        }
    if isinstance(item, str):
        name, sign, _ = item.partition("=")
        return (
            redact_text(item)
            if sign and not is_secret_name(name)
            else f"{name}={REDACTED}"
            if sign
            else REDACTED
        )
    return _redact_secret_value(item)


# -- frames

_MEMBER_NAME: Final = re.compile(rb'"[ \t\r\n]*:')
_ESCAPED_CHARACTER: Final = re.compile(rb"\\u00(?:20|22|3a)", re.IGNORECASE)  # space, quote or colon

_MAX_REPAIRED_LENGTH: Final = 4 * 1024 * 1024
_MAX_OBJECTS: Final = 200
_MAX_DEPTH: Final = 100
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.|(?!))*+("?)|[{}\[\]]', re.DOTALL)
_CLOSERS: Final = {"{": "}", "[": "]"}
_CONTAINS_STRING: Final = re.compile(r"""[:\[,{]\s{0,80}["']""")
_QUOTED: Final = re.compile(
    r"""("(?:[^"\\]|\\.|(?!))*+"?|'(?:[^'\\]|\\.|(?!))*+'?)(\s{0,80}:)?|[{}\[\]]""", re.DOTALL
)


def redact_frame(frame: bytes) -> bytes:
    """Redact a frame; without secrets, return the same bytes object."""
    try:
        value = parse_json(frame)
        redacted = redact_value(value)
    except (NotJson, RecursionError):
        text = frame.decode("utf-8", "surrogateescape")
        redacted = redact_broken_json(text)
        return frame if redacted == text else redacted.encode("utf-8", "surrogateescape")
    return frame if redacted is value and has_unique_keys(frame, value) else msgspec.json.encode(redacted)


def redact_broken_json(text: str) -> str:
    """Redact a line that is not valid JSON."""
    if len(text) > _MAX_REPAIRED_LENGTH:
        return redact_text(_redact_unparsed_pairs(text))
    parts: list[str] = []
    position = 0
    for _ in range(_MAX_OBJECTS):
        begin = text.find("{", position)
        if begin < 0:
            break
        end, closers, too_deep = _find_extent(text, begin)
        body = text[begin:end]
        if too_deep:
            body = _replace_deep_parts(text, begin, end, too_deep)
        repaired = _repair_object(body, closers)
        if repaired is None:
            break
        value, json_text, rest = repaired
        redacted = redact_value(value)
        if redacted is value and has_unique_keys(json_text, value):
            redacted_text = body[: len(body) - len(rest)]
        else:
            redacted_text = msgspec.json.encode(redacted).decode()
        parts += (redact_text(text[position:begin]), redacted_text, _redact_unparsed_end(rest))
        position = end
    return "".join([*parts, redact_text(_redact_unparsed_pairs(text[position:]))])


def has_unique_keys(text: bytes, value: Any) -> bool:
    """Tell whether a JSON text has no duplicate keys. Parsing keeps only the last one."""
    encoded = msgspec.json.encode(value)
    if encoded == text:
        return True
    # Fast path: the same number of member names, unless some characters are escaped.
    if not _ESCAPED_CHARACTER.search(text) and len(_MEMBER_NAME.findall(text)) == len(
        _MEMBER_NAME.findall(encoded)
    ):
        return True
    try:
        json.loads(text, object_pairs_hook=_reject_duplicates)
    except (ValueError, RecursionError):
        return False
    return True


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("duplicate key")


class _Extent(NamedTuple):
    """Where an object ends, what closes it if it is cut off, and which parts are nested too deeply."""

    end: int
    closers: str
    too_deep: list[tuple[int, int]]


def _find_extent(text: str, begin: int) -> _Extent:
    stack: list[str] = []
    too_deep: list[tuple[int, int]] = []
    deep_start = begin
    for token in _TOKEN.finditer(text, begin):
        token_text = token[0]
        if token_text in _CLOSERS:
            stack.append(_CLOSERS[token_text])
            if len(stack) == _MAX_DEPTH:
                deep_start = token.start()
        elif token_text in ("}", "]"):
            if not stack or stack.pop() != token_text:
                return _Extent(len(text), "", too_deep)
            if len(stack) == _MAX_DEPTH - 1:
                too_deep.append((deep_start, token.end()))
            if not stack:
                return _Extent(token.end(), "", too_deep)
        elif not token[1]:
            stack.append('"')  # an unterminated string
            break
    if len(stack) >= _MAX_DEPTH:
        too_deep.append((deep_start, len(text)))
        del stack[_MAX_DEPTH - 1 :]
    return _Extent(len(text), "".join(reversed(stack)), too_deep)


def _replace_deep_parts(text: str, begin: int, end: int, too_deep: list[tuple[int, int]]) -> str:
    parts: list[str] = []
    for start, stop in too_deep:
        parts += (text[begin:start], f'"{REDACTED}"')
        begin = stop
    return "".join([*parts, text[begin:end]])


def _repair_object(body: str, closers: str) -> tuple[Any, bytes, str] | None:
    """Return the parsed value, the repaired JSON, and the end of the body that the JSON does not include."""
    raw = body.encode("utf-8", "replace").decode()  # a broken character must not hide a secret
    trimmed = raw.rstrip().rstrip(",")
    closing_brackets = closers.removeprefix('"')
    comma = max(trimmed.rfind(","), 0)
    for attempt, rest in (
        (raw + closers, ""),
        (raw.rstrip("\\") + closers, ""),
        (trimmed + closing_brackets, ""),
        (f"{trimmed}null{closing_brackets}", ""),
        (f"{trimmed}:null{closing_brackets}", ""),
        (f"{raw}{closers[:1]}:null{closing_brackets}", ""),
        (trimmed[:comma] + closing_brackets, raw[comma:]),
    ):
        json_text = attempt.encode()
        try:
            return parse_json(json_text), json_text, rest
        except NotJson:
            continue
    return None


def _redact_unparsed_end(text: str) -> str:
    """Redact the unparsed end of an object. Its member name is unknown, so no string is kept."""
    return f", {REDACTED}" if _CONTAINS_STRING.search(text) else redact_text(text)


def _redact_unparsed_pairs(text: str) -> str:
    """Redact unparsable text: every value below an environment or headers counts as a secret."""
    lowered = text.lower()
    if "env" not in lowered and "headers" not in lowered:
        return text
    parts: list[str] = []
    position = depth = 0
    secret_depth: int | None = None  # values at a greater depth are redacted
    for token in _QUOTED.finditer(text):
        token_text, quoted, named = token[0], token[1], token[2]
        if token_text in _CLOSERS:
            depth += 1
        elif not quoted:
            depth -= 1
            if secret_depth is not None and depth <= secret_depth:
                secret_depth = None
        elif named:
            if secret_depth is None and len(quoted) < 100 and pair_kind(quoted):
                secret_depth = depth
        elif secret_depth is not None and depth > secret_depth:
            parts += (text[position : token.start()], f'"{REDACTED}"')
            position = token.end()
    return "".join([*parts, text[position:]])


# -- command lines

_OPTION: Final = re.compile(r"(--?[A-Za-z][A-Za-z0-9_.\-]*)(=)?(.*)", re.DOTALL)
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_.\-]*)=(.*)", re.DOTALL)
_VARIABLE_NAME: Final = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_VARIABLE_OPTION: Final = re.compile(r"-e|--(?:set-)?env(?:-add|-var)?|--build-arg|-E")
_LOGIN_OPTIONS: Final = ("-u", "--user", "--proxy-user")


def redact_command(words: Sequence[str]) -> list[str]:
    """Redact the words of a command line, with or without the program; returns as many words."""
    redacted = list(map(redact_text, words))
    after_env = False  # whether the word may still be a variable of a preceding `env`
    for index, word in enumerate(words):
        previous = words[index - 1] if index else ""
        assignment = _ASSIGNMENT.fullmatch(word)
        if assignment is not None and (after_env or index == 0 or _VARIABLE_OPTION.fullmatch(previous)):
            redacted[index] = _redact_assignment(word, assignment)
        elif _is_secret_word(previous, word):
            redacted[index] = word if word.lower() in HARMLESS_VALUES else REDACTED
        elif word[:1] == "-":
            redacted[index] = _redact_option(word, redacted[index])
        after_env = os.path.basename(word) == "env" or (
            after_env and (assignment is not None or word[:1] == "-")
        )
    return redacted


def command_line_text(words: Sequence[str]) -> str:
    """Return a command line as one text for people and for files, without secrets."""
    return shlex.join(redact_command(words))


def redact_command_line(text: str) -> str:
    """Redact a command line in one text. Without secrets, return the same text."""
    try:
        words = shlex.split(text)
    except ValueError:
        return redact_text(text)
    redacted = redact_command(words)
    return text if redacted == words else shlex.join(redacted)


def _is_secret_word(previous: str, word: str) -> bool:
    """Tell whether a word is the secret value of the option or name before it."""
    if previous[:1] != "-":
        return _VARIABLE_NAME.fullmatch(previous) is not None and is_secret(previous)
    if previous in _LOGIN_OPTIONS:
        return ":" in word
    return "=" not in previous and is_secret_option(previous)


def _redact_option(word: str, redacted: str) -> str:
    if word.startswith("-u") and not word.startswith("--") and ":" in word:
        return f"-u{REDACTED}"
    attached = _ASSIGNMENT.fullmatch(word, 2) if word[1:2] in ("e", "E") else None
    if attached is not None and _VARIABLE_NAME.fullmatch(attached[1]):
        return word[:2] + _redact_assignment(word[2:], attached)
    option = _OPTION.fullmatch(word)
    if option is None or not option[2]:
        return redacted
    name, value = option[1], option[3]
    if _VARIABLE_OPTION.fullmatch(name) and (assignment := _ASSIGNMENT.fullmatch(value)) is not None:
        return f"{name}={_redact_assignment(value, assignment)}"
    if is_secret_option(name) or (name in _LOGIN_OPTIONS and ":" in value):
        return word if value.lower() in HARMLESS_VALUES else f"{name}={REDACTED}"
    return redacted


def _redact_assignment(word: str, assignment: "re.Match[str]") -> str:
    name, value = assignment.groups()
    if not is_secret_variable(name):
        return redact_text(word)
    return word if value.lower() in HARMLESS_VALUES else f"{name}={REDACTED}"
