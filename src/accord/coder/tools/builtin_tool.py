"""A tool of this package: argument type, JSON Schema, argument repair, description file."""

import ast
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final, Generic, TypeVar, cast

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo, fields

from accord.coder.tools.tool import (
    BadArguments,
    Category,
    PreparedCall,
    Report,
    ToolFailure,
    ToolOutcome,
    said,
)
from accord.coder.tools.tool_context import ToolContext
from accord.errors import AccordError, RpcError
from accord.safe_text import one_line
from accord.schema.content import ToolCallContent, ToolKind

# MERGED coder.tools.schema: The JSON Schema of a tool's arguments, made from their type: inlined and without `null`, as all providers take it.


@cache
def schema_of(arguments: type[Struct]) -> dict[str, Any]:
    """The schema of one argument type. Shared: not to be changed."""
    (schema,), definitions = msgspec.json.schema_components([arguments])
    return cast(dict[str, Any], _plain(schema, definitions))


def _plain(schema: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_plain(item, definitions) for item in cast(list[Any], schema)]
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Any] = cast(dict[str, Any], schema)
    if "$ref" in found:
        return _plain(definitions[found["$ref"].rpartition("/")[2]], definitions)
    branches = [branch for branch in found.get("anyOf", ()) if branch != {"type": "null"}]
    if len(branches) == 1:
        rest = {name: value for name, value in found.items() if name != "anyOf"}
        return _plain({**branches[0], **rest}, definitions)
    if isinstance(found.get("enum"), list) and "type" not in found:
        found = {"type": "string", **found}  # all of ours are
    return {
        name: {member: _plain(inner, definitions) for member, inner in value.items()}
        if name == "properties"
        else _plain(value, definitions)
        for name, value in found.items()
        if name != "title" and (name != "default" or value not in (None, [], False))
    }


# MERGED coder.tools.arguments: The arguments of a tool call: what the model sent, repaired where its meaning is plain, or an error it can act on.
#
# A repair never changes arguments that fit, and never guesses: half an object, two readings or a value that would lose
# something are errors.


class ToolArguments(Struct, omit_defaults=True):
    """What a tool is called with; each tool has its own."""


A = TypeVar("A", bound=ToolArguments)

_ALSO_KNOWN_AS: Final[Mapping[str, tuple[str, ...]]] = {
    name: tuple(aliases.split())
    for name, aliases in {
        "path": "file_path filepath filename file absolute_path target_file directory dir folder uri",
        "content": "contents text file_text file_content body",
        "old_text": "old_string old_str old search find",
        "new_text": "new_string new_str new replace replacement replace_with",
        "replace_all": "all allow_multiple",
        "command": "cmd shell_command script",
        "pattern": "query regex search",
        "glob": "include file_pattern include_pattern",
        "url": "uri link href address",
        "offset": "line start_line start line_number from_line",
        "limit": "max_lines num_lines lines head_limit max_results",
        "timeout": "timeout_seconds timeout_s",
        "background": "run_in_background is_background",
        "cwd": "workdir working_directory work_dir directory dir",
        "source": "source_path from src old_path path file_path",
        "destination": "destination_path to dest dst new_path target",
        "entries": "plan steps todos items tasks",
        "question": "prompt message text query",
        "options": "choices",
        "prompt": "task instructions instruction message",
        "description": "title name summary",
        "id": "job job_id bash_id task_id",
        "stop": "kill",
        "ignore_case": "case_insensitive",
        "context": "context_lines",
        "mode": "output_mode",
        "depth": "max_depth",
        "plan": "summary",
    }.items()
}
"""What models call an argument when they mean it, because other agents do."""

_WRAPPERS: Final = ("arguments", "args", "input", "parameters", "params")
_FENCE: Final = re.compile(r"\s*```\w*\n(.*)\n```\s*", re.DOTALL)
_WHOLE: Final = re.compile(r"\s*[+-]?\d{1,18}(?:\.0*)?\s*")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_LONGEST_LITERAL: Final = 200_000


def read_arguments(tool: str, cls: type[A], given: Any) -> A:
    """The arguments as the tool's type. Raises BadArguments, which says what was given and what is expected."""
    properties = schema_of(cls)["properties"]
    arguments = _fitting(cls, given, properties) or _repaired_to_fit(tool, cls, given, properties)
    try:
        msgspec.json.encode(arguments)
    except UnicodeEncodeError:
        raise BadArguments(
            f"{tool} was not run: there is half a character (a lone surrogate) in its arguments"
        ) from None
    return arguments


def _fitting(cls: type[A], given: Any, properties: Mapping[str, Any]) -> A | None:
    """The arguments if they are as they should be, which they mostly are."""
    if isinstance(given, dict) and properties.keys() >= cast(dict[str, Any], given).keys():
        try:
            return msgspec.convert(given, cls)
        except (msgspec.ValidationError, TypeError):
            pass
    return None


def _repaired_to_fit(tool: str, cls: type[A], given: Any, properties: Mapping[str, Any]) -> A:
    found = _named(_object(tool, cls, given), properties)
    values: dict[str, Any] = {}
    wrong: list[str] = []
    for field in fields(cls):
        value = found.get(field.name)
        if value is None or (
            value == "" and not field.required and _type(properties[field.name]) != "string"
        ):
            if field.required:
                wrong.append(f"`{field.name}` is missing: {_expected(properties[field.name])}")
            continue
        repaired = _repaired(value, properties[field.name])
        try:
            values[field.name] = msgspec.convert(repaired, field.type)
        except (msgspec.ValidationError, TypeError) as error:
            wrong.append(_complaint(field, properties[field.name], value, error))
    if wrong:
        raise BadArguments(
            "\n".join((f"{tool} was not run, its arguments do not fit:", *wrong, _usage(tool, cls)))
        )
    return cls(**values)


def _object(tool: str, cls: type[Struct], given: Any) -> dict[str, Any]:
    """What was sent, as an object: also one in text, in a code block, or inside a wrapper."""
    value: Any = {} if given is None else given
    for _ in range(3):  # text in text in text is no accident any more
        if isinstance(value, str):
            value = _parsed(value) if value.strip() else {}
    if not isinstance(value, Mapping):
        raise BadArguments(
            f"{tool} was not run: its arguments must be one complete JSON object, not {_shown(given)}. {_usage(tool, cls)}"
        )
    found = {str(name): inner for name, inner in cast(Mapping[Any, Any], value).items()}
    if len(found) == 1:
        ((name, inner),) = found.items()
        if (
            name in _WRAPPERS
            and name not in schema_of(cls)["properties"]
            and isinstance(inner, Mapping | str)
        ):
            return _object(tool, cls, inner)
    return found


def _parsed(text: str) -> Any:
    """The value that the text stands for; the text itself if it is none."""
    fenced = _FENCE.fullmatch(text)
    text = fenced[1] if fenced else text
    try:
        return json.loads(text, strict=False)  # line ends inside strings are a frequent slip
    except (ValueError, RecursionError):
        pass
    if len(text) > _LONGEST_LITERAL:
        return text
    try:
        return ast.literal_eval(text.strip())  # single quotes, True and None
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def _named(found: dict[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    """The members under the names of the schema; what has no place in it is dropped."""
    plain = {
        _HUMP.sub("_", name).replace("-", "_").lower(): value
        for name, value in found.items()
        if value is not None
    } | {name: value for name, value in found.items() if name in properties and value is not None}
    named = {name: value for name, value in plain.items() if name in properties}
    for name in properties:
        if name not in named:
            aliases = (alias for alias in _ALSO_KNOWN_AS.get(name, ()) if alias not in properties)
            alias = next((alias for alias in aliases if alias in plain), None)
            if alias is not None:
                named[name] = plain[alias]
    return named


def _type(schema: Mapping[str, Any]) -> str:
    return cast(str, schema.get("type", ""))


def _repaired(value: Any, schema: Mapping[str, Any]) -> Any:
    """The value in the type that the schema wants, if it plainly is one; else the value."""
    match _type(schema), value:
        case "integer", str() if _WHOLE.fullmatch(value):
            return int(value.partition(".")[0])
        case "integer", float() if value.is_integer():
            return int(value)
        case "number", str() if _WHOLE.fullmatch(value):
            return float(value)
        case "boolean", str() if value.strip().lower() in ("true", "false"):
            return value.strip().lower() == "true"
        case "boolean", 0 | 1:
            return bool(value)
        case "string", int() if not isinstance(value, bool):
            return str(value)
        case "array", str():
            parsed = _parsed(value) if value.lstrip().startswith(("[", "```")) else value
            return (
                _repaired(parsed, schema) if isinstance(parsed, list) else [_repaired(value, schema["items"])]
            )
        case "array", list():
            return [_repaired(item, schema["items"]) for item in cast(list[Any], value)]
        case "array", dict():
            return [_repaired(value, schema["items"])]
        case "object", str() if len(schema.get("required", ())) == 1:
            return {schema["required"][0]: value}
        case "object", dict():
            known = _named(cast(dict[str, Any], value), schema["properties"])
            return {
                name: _repaired(inner, schema["properties"][name])
                for name, inner in known.items()
                if inner is not None
            }
        case _:
            return value


def _complaint(field: FieldInfo, schema: Mapping[str, Any], value: Any, error: Exception) -> str:
    where = str(error).partition(" - at `$")[2].rstrip("`")
    inside = f" (at `{field.name}{where}`: {str(error).partition(' - at ')[0]})" if where else ""
    return f"`{field.name}` must be {_expected(schema)}, not {_shown(value)}{inside}"


def _expected(schema: Mapping[str, Any]) -> str:
    kind = {
        "string": "a string",
        "integer": "a whole number",
        "number": "a number",
        "boolean": "true or false",
        "array": "a list",
        "object": "an object",
    }.get(_type(schema), "a value")
    if "enum" in schema:
        kind = "one of " + ", ".join(json.dumps(value) for value in schema["enum"])
    least, most = schema.get("minimum"), schema.get("maximum")
    bounds = [f"at least {least}"] * (least is not None) + [f"at most {most}"] * (most is not None)
    if _type(schema) == "string" and schema.get("minLength"):
        bounds.append("not empty")
    if _type(schema) == "array" and schema.get("minItems"):
        bounds.append(f"of at least {schema['minItems']}")
    return ", ".join((kind, *bounds))


def _shown(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return one_line(text, 120)


def _usage(tool: str, cls: type[Struct]) -> str:
    named = [field.name if field.required else f"[{field.name}]" for field in fields(cls)]
    return f"Arguments of {tool}: {', '.join(named)}."


# MERGED coder.tools.builtin: A tool of this package: a type for its arguments, a description beside it, and a function that prepares its calls.

_LOG = logging.getLogger("accord.coder.tools")


@dataclass(frozen=True)
class BuiltInTool(Generic[A]):
    """A `Tool`. `prepare_call` gets arguments that fit; its calls may raise ToolFailure or any AccordError."""

    name: str
    kind: ToolKind
    category: Category
    arguments: type[A]
    prepare_call: Callable[[A, ToolContext], Awaitable[PreparedCall]]

    @cached_property
    def description(self) -> str:
        return Path(__file__).with_name(f"{self.name}.md").read_text("utf-8").strip()

    @property
    def schema(self) -> dict[str, Any]:
        return schema_of(self.arguments)

    async def prepare(self, arguments: Any, context: ToolContext) -> PreparedCall:
        read = read_arguments(self.name, self.arguments, arguments)
        call = await self.prepare_call(read, context)
        run, preview = call.run, call.preview

        async def guarded(report: Report) -> ToolOutcome:
            try:
                return await run(report)
            except ToolFailure as failure:
                return said(str(failure), failed=True)
            except RpcError as error:
                return said(f"{self.name} failed: {error.message}", failed=True)
            except AccordError as error:
                return said(f"{self.name} failed: {error}", failed=True)
            except Exception as error:  # noqa: BLE001 - the boundary of a tool's run: a defect in it must not end the turn
                _LOG.error("%s failed", self.name, exc_info=error)
                return said(
                    f"{self.name} failed because of an internal error ({type(error).__name__}).", failed=True
                )

        async def glanced() -> Sequence[ToolCallContent]:
            try:
                return await preview()
            except (AccordError, OSError):
                return ()  # the question is asked all the same; the run will say what is wrong

        return replace(
            call,
            run=guarded,
            preview=glanced,
            category=self.category if call.category == "external" else call.category,
            arguments=call.arguments or msgspec.to_builtins(read),
        )
