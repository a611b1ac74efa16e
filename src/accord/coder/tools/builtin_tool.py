"""A built-in tool: its argument type with the JSON Schema, the repair of arguments, and its description file.

A repair never changes valid arguments and never guesses. Incomplete JSON, an ambiguous value and a value that
would lose information are errors.
"""

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
    text_outcome,
)
from accord.coder.tools.tool_context import ToolContext
from accord.errors import AccordError, RpcError
from accord.safe_text import one_line
from accord.schema.content import ToolCallContent, ToolKind


@cache
def schema_of(arguments: type[Struct]) -> dict[str, Any]:
    """Return the JSON Schema of an argument type, inlined and without `null`, as all providers accept it.

    The result is cached: do not change it.
    """
    (schema,), definitions = msgspec.json.schema_components([arguments])
    return cast(dict[str, Any], _simplify(schema, definitions))


def _simplify(schema: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_simplify(item, definitions) for item in cast(list[Any], schema)]
    if not isinstance(schema, dict):
        return schema
    members: dict[str, Any] = cast(dict[str, Any], schema)
    if "$ref" in members:
        return _simplify(definitions[members["$ref"].rpartition("/")[2]], definitions)
    branches = [branch for branch in members.get("anyOf", ()) if branch != {"type": "null"}]
    if len(branches) == 1:
        rest = {name: value for name, value in members.items() if name != "anyOf"}
        return _simplify({**branches[0], **rest}, definitions)
    if isinstance(members.get("enum"), list) and "type" not in members:
        members = {"type": "string", **members}  # all our enums are strings
    return {
        name: {member: _simplify(inner, definitions) for member, inner in value.items()}
        if name == "properties"
        else _simplify(value, definitions)
        for name, value in members.items()
        if name != "title" and (name != "default" or value not in (None, [], False))
    }


class ToolArguments(Struct, omit_defaults=True):
    """The base of the argument types of all tools."""

    @classmethod
    def repair(cls, members: dict[str, Any]) -> dict[str, Any]:
        """Return the members, named as in the schema, with the repairs that only this tool needs."""
        return members


A = TypeVar("A", bound=ToolArguments)

_ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
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
        "edits": "changes replacements",
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
"""Names that models use for an argument because other agents have them."""

_WRAPPER_NAMES: Final = ("arguments", "args", "input", "parameters", "params")
_CODE_FENCE: Final = re.compile(r"\s*```\w*\n(.*)\n```\s*", re.DOTALL)
_INTEGER: Final = re.compile(r"\s*[+-]?\d{1,18}(?:\.0*)?\s*")
_CAMEL_CASE: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_MAX_LITERAL_CHARS: Final = 200_000


def read_arguments(tool: str, cls: type[A], raw: Any) -> A:
    """Convert the arguments of a model to the tool's type.

    Raises BadArguments, with the received and expected values.
    """
    properties = schema_of(cls)["properties"]
    arguments = _convert(cls, raw, properties) or _convert_repaired(tool, cls, raw, properties)
    try:
        msgspec.json.encode(arguments)
    except UnicodeEncodeError:
        raise BadArguments(f"{tool} was not run: its arguments contain a lone surrogate") from None
    return arguments


def _convert(cls: type[A], raw: Any, properties: Mapping[str, Any]) -> A | None:
    """Convert arguments that need no repair; None for others."""
    if isinstance(raw, dict) and properties.keys() >= cast(dict[str, Any], raw).keys():
        try:
            return msgspec.convert(raw, cls)
        except (msgspec.ValidationError, TypeError):
            pass
    return None


def _convert_repaired(tool: str, cls: type[A], raw: Any, properties: Mapping[str, Any]) -> A:
    members = cls.repair(_rename_members(_read_members(tool, cls, raw), properties))
    values: dict[str, Any] = {}
    problems: list[str] = []
    for field in fields(cls):
        value = members.get(field.name)
        if value is None or (
            value == "" and not field.required and _schema_type(properties[field.name]) != "string"
        ):
            if field.required:
                problems.append(f"`{field.name}` is missing: {_describe_expected(properties[field.name])}")
            continue
        repaired = _repair_value(value, properties[field.name])
        try:
            values[field.name] = msgspec.convert(repaired, field.type)
        except (msgspec.ValidationError, TypeError) as error:
            problems.append(_describe_problem(field, properties[field.name], value, error))
    if problems:
        raise BadArguments(
            "\n".join((f"{tool} was not run: its arguments are invalid:", *problems, _usage(tool, cls)))
        )
    return cls(**values)


def _read_members(tool: str, cls: type[Struct], raw: Any) -> dict[str, Any]:
    """Return the arguments as an object. Accepts JSON text, a code block, and an object inside a wrapper."""
    value: Any = {} if raw is None else raw
    for _ in range(3):  # at most three levels of encoded text
        if isinstance(value, str):
            value = _parse(value) if value.strip() else {}
    if not isinstance(value, Mapping):
        raise BadArguments(
            f"{tool} was not run: its arguments must be one complete JSON object, not {_display_value(raw)}. "
            f"{_usage(tool, cls)}"
        )
    members = {str(name): inner for name, inner in cast(Mapping[Any, Any], value).items()}
    if len(members) == 1:
        ((name, inner),) = members.items()
        if (
            name in _WRAPPER_NAMES
            and name not in schema_of(cls)["properties"]
            and isinstance(inner, Mapping | str)
        ):
            return _read_members(tool, cls, inner)
    return members


def _parse(text: str) -> Any:
    """Parse JSON or a Python literal. Return the text itself if it is neither."""
    fenced = _CODE_FENCE.fullmatch(text)
    text = fenced[1] if fenced else text
    try:
        return json.loads(text, strict=False)  # models often put line ends into strings
    except (ValueError, RecursionError):
        pass
    if len(text) > _MAX_LITERAL_CHARS:
        return text
    try:
        return ast.literal_eval(text.strip())  # single quotes, True and None
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def _rename_members(members: dict[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members under the names of the schema. Drops unknown members."""
    normalized = {
        _CAMEL_CASE.sub("_", name).replace("-", "_").lower(): value
        for name, value in members.items()
        if value is not None
    } | {name: value for name, value in members.items() if name in properties and value is not None}
    renamed = {name: value for name, value in normalized.items() if name in properties}
    for name in properties:
        if name not in renamed:
            aliases = (alias for alias in _ALIASES.get(name, ()) if alias not in properties)
            alias = next((alias for alias in aliases if alias in normalized), None)
            if alias is not None:
                renamed[name] = normalized[alias]
    return renamed


def _schema_type(schema: Mapping[str, Any]) -> str:
    return cast(str, schema.get("type", ""))


def _repair_value(value: Any, schema: Mapping[str, Any]) -> Any:
    """Convert the value to the type of the schema if its meaning is clear, else return it unchanged."""
    match _schema_type(schema), value:
        case "integer", str() if _INTEGER.fullmatch(value):
            return int(value.partition(".")[0])
        case "integer", float() if value.is_integer():
            return int(value)
        case "number", str() if _INTEGER.fullmatch(value):
            return float(value)
        case "boolean", str() if value.strip().lower() in ("true", "false"):
            return value.strip().lower() == "true"
        case "boolean", 0 | 1:
            return bool(value)
        case "string", int() if not isinstance(value, bool):
            return str(value)
        case "array", str():
            parsed = _parse(value) if value.lstrip().startswith(("[", "```")) else value
            if isinstance(parsed, list):
                return _repair_value(parsed, schema)
            return [_repair_value(value, schema["items"])]
        case "array", list():
            return [_repair_value(item, schema["items"]) for item in cast(list[Any], value)]
        case "array", dict():
            return [_repair_value(value, schema["items"])]
        case "object", str() if len(schema.get("required", ())) == 1:
            return {schema["required"][0]: value}
        case "object", dict():
            members = _rename_members(cast(dict[str, Any], value), schema["properties"])
            return {
                name: _repair_value(inner, schema["properties"][name])
                for name, inner in members.items()
                if inner is not None
            }
        case _:
            return value


def _describe_problem(field: FieldInfo, schema: Mapping[str, Any], value: Any, error: Exception) -> str:
    location = str(error).partition(" - at `$")[2].rstrip("`")
    detail = f" (at `{field.name}{location}`: {str(error).partition(' - at ')[0]})" if location else ""
    return f"`{field.name}` must be {_describe_expected(schema)}, not {_display_value(value)}{detail}"


def _describe_expected(schema: Mapping[str, Any]) -> str:
    kind = {
        "string": "a string",
        "integer": "a whole number",
        "number": "a number",
        "boolean": "true or false",
        "array": "a list",
        "object": "an object",
    }.get(_schema_type(schema), "a value")
    if "enum" in schema:
        kind = "one of " + ", ".join(json.dumps(value) for value in schema["enum"])
    minimum, maximum = schema.get("minimum"), schema.get("maximum")
    bounds = [f"at least {minimum}"] * (minimum is not None) + [f"at most {maximum}"] * (maximum is not None)
    if _schema_type(schema) == "string" and schema.get("minLength"):
        bounds.append("not empty")
    if _schema_type(schema) == "array" and schema.get("minItems"):
        bounds.append(f"of at least {schema['minItems']}")
    return ", ".join((kind, *bounds))


def _display_value(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return one_line(text, 120)


def _usage(tool: str, cls: type[Struct]) -> str:
    names = [field.name if field.required else f"[{field.name}]" for field in fields(cls)]
    return f"Arguments of {tool}: {', '.join(names)}."


_LOG = logging.getLogger("accord.coder.tools")


@dataclass(frozen=True)
class BuiltInTool(Generic[A]):
    """A `Tool` of this package. `prepare_call` gets valid arguments; its calls may raise any AccordError.

    The description for the model is the file `NAME.md` beside this one.
    """

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
        checked = read_arguments(self.name, self.arguments, arguments)
        call = await self.prepare_call(checked, context)
        run, preview = call.run, call.preview

        async def safe_run(report: Report) -> ToolOutcome:
            try:
                return await run(report)
            except ToolFailure as failure:
                return text_outcome(str(failure), failed=True, shown=failure.shown)
            except RpcError as error:
                return text_outcome(f"{self.name} failed: {error.message}", failed=True)
            except AccordError as error:
                return text_outcome(f"{self.name} failed: {error}", failed=True)
            except Exception as error:  # noqa: BLE001 - a bug in a tool must not end the turn
                _LOG.error("%s failed", self.name, exc_info=error)
                return text_outcome(
                    f"{self.name} failed because of an internal error ({type(error).__name__}).", failed=True
                )

        async def safe_preview() -> Sequence[ToolCallContent]:
            try:
                return await preview()
            except (AccordError, OSError):
                return ()  # the request is sent anyway; the run reports the error

        return replace(
            call,
            run=safe_run,
            preview=safe_preview,
            category=self.category if call.category == "external" else call.category,
            arguments=call.arguments or msgspec.to_builtins(checked),
        )


@dataclass(frozen=True)
class ToolWithChoices:
    """A built-in tool that tells the model which values one of its arguments may have in this session."""

    tool: BuiltInTool[Any]
    argument: str
    choices: tuple[str, ...]
    more: str = ""
    """Added to the description."""

    @property
    def name(self) -> str:
        return self.tool.name

    @property
    def kind(self) -> ToolKind:
        return self.tool.kind

    @property
    def category(self) -> Category:
        return self.tool.category

    @property
    def description(self) -> str:
        return f"{self.tool.description}\n\n{self.more}".strip()

    @property
    def schema(self) -> dict[str, Any]:
        schema = self.tool.schema
        properties: dict[str, Any] = schema["properties"]
        chosen = {**properties[self.argument], "enum": list(self.choices)}
        chosen.pop("minLength", None)
        return {**schema, "properties": {**properties, self.argument: chosen}}

    async def prepare(self, arguments: Any, context: ToolContext) -> PreparedCall:
        return await self.tool.prepare(arguments, context)
