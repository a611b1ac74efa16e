"""Makes an example of every name of accord.schema: the code, and the JSON that it encodes to.

An example that is not in the tables follows from the type. Each is checked when it is made: its code runs,
and its JSON is valid and reads back as the same value.
"""

import json
import re
from functools import cache
from typing import Any, cast

from msgspec import UNSET, Struct
from tools.public_api import public_names

from accord import schema
from accord.schema.codec import decode, encode
from accord.schema.type_shape import (
    Boolean,
    Constants,
    Field,
    Integer,
    ListOf,
    MapOf,
    Nullable,
    Number,
    ObjectOf,
    Shape,
    Text,
    UnionOf,
    shape_of,
)
from accord.schema.validation import violations

WIDTH = 78

FIELDS: dict[str, Any] = {
    "base_url": "https://models.example.org/v1",
    "blob": "JVBERi0xLjcK",
    "compaction_id": "compaction-1",
    "config_id": "model",
    "content": "Hello, Ada\n",
    "current_mode_id": "ask",
    "cwd": "/home/me/project",
    "data": "iVBORw0KGgo=",
    "elicitation_id": "question-1",
    "exit_code": 0,
    "hint": "a branch or a commit",
    "message": "Which branch?",
    "message_id": "message-1",
    "method": "tools/list",
    "method_id": "api-key",
    "mime_type": "image/png",
    "mode_id": "ask",
    "option_id": "allow",
    "path": "/home/me/project/app.py",
    "plan_id": "plan-1",
    "protocol_version": 1,
    "provider_id": "main",
    "request_id": 7,
    "server_id": "server-1",
    "session_id": "session-1",
    "terminal_id": "terminal-1",
    "text": "Hello",
    "title": "Fix the greeting",
    "tool_call_id": "call-1",
    "uri": "file:///home/me/project/app.py",
}
"""Values by the name of a field, where the type says too little."""

_ALLOW = schema.PermissionOption(option_id="allow", name="Allow", kind="allow_once")
_REJECT = schema.PermissionOption(option_id="reject", name="Reject", kind="reject_once")
_BRANCH = schema.StringPropertySchema(title="Branch", enum=["main", "next"])
_SMALL = schema.SessionConfigSelectOption(value="small", name="Small")
_MODEL = schema.SessionConfigSelect(id="model", name="Model", current_value="small", options=[_SMALL])
_SERVER = schema.McpServerStdio(name="docs", command="docs-server", args=["--stdio"], env=[])
_FAILURE = schema.McpError(code=-32602, message="Unknown tool: search")
_HEADER = schema.HttpHeader(name="Authorization", value="Bearer ...")

CLASSES: dict[type[Struct], Struct] = {
    type(example): example
    for example in (
        _ALLOW, _MODEL, _SERVER, _FAILURE, _SMALL, _BRANCH, _HEADER,
        schema.AuthAccount(label="ada@example.org", active=True),
        schema.AuthMethodAgent(id="browser", name="Sign in with the browser"),
        schema.AuthMethodTerminal(id="terminal", name="Sign in here", args=["--login"]),
        schema.AvailableCommand(name="review", description="Review the changes"),
        schema.AudioContent(data="UklGRg==", mime_type="audio/wav"),
        schema.BooleanPropertySchema(title="Run the tests too", default=True),
        schema.ClientCapabilities(
            fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True), terminal=True
        ),
        schema.Cost(amount=0.12, currency="USD"),
        schema.CreateTerminalRequest(
            session_id="session-1", command="pytest", args=["-q"], cwd="/home/me/project"
        ),
        schema.Diff(path="/home/me/project/app.py", old_text="Hello\n", new_text="Hello, Ada\n"),
        schema.ElicitationAcceptAction(content={"branch": "main"}),
        schema.ElicitationFormMode(
            message="Which branch?",
            session_id="session-1",
            requested_schema=schema.ElicitationSchema(properties={"branch": _BRANCH}, required=["branch"]),
        ),
        schema.ElicitationSchema(properties={"branch": _BRANCH}, required=["branch"]),
        schema.ElicitationUrlMode(
            message="Sign in",
            session_id="session-1",
            elicitation_id="question-1",
            url="https://example.org/sign-in",
        ),
        schema.EnumOption(const="main", title="The main branch"),
        schema.EnvVariable(name="LANG", value="C.UTF-8"),
        schema.Error(code=-32602, message="cwd is not absolute"),
        schema.Implementation(name="hello", version="1.0", title="Hello"),
        schema.InitializeRequest(
            protocol_version=1, client_info=schema.Implementation(name="my-editor", version="1.0")
        ),
        schema.InitializeResponse(
            protocol_version=1,
            agent_capabilities=schema.AgentCapabilities(load_session=True),
            agent_info=schema.Implementation(name="hello", version="1.0"),
        ),
        schema.IntegerPropertySchema(title="Retries", minimum=0, maximum=5),
        schema.LoadSessionRequest(session_id="session-1", cwd="/home/me/project", mcp_servers=[]),
        schema.McpResult(result={"tools": []}),
        schema.McpServerAcp(name="docs", server_id="server-1"),
        schema.McpServerHttp(name="docs", url="https://example.org/mcp", headers=[_HEADER]),
        schema.McpServerSse(name="docs", url="https://example.org/sse", headers=[]),
        schema.MessageMcpNotification(server_id="server-1", request_id="1", method="notifications/progress"),
        schema.MessageMcpRequest(server_id="server-1", request_id="1", method="tools/list"),
        schema.NewSessionRequest(cwd="/home/me/project", mcp_servers=[_SERVER]),
        schema.Notice(severity="warning", title="The model answers slowly"),
        schema.NumberPropertySchema(title="Temperature", minimum=0, maximum=2),
        schema.Object(meta={"example.org/trace": "7f3a"}),
        schema.PlanEntry(content="Read the tests", priority="high", status="in_progress"),
        schema.PlanFile(plan_id="plan-1", uri="file:///home/me/project/PLAN.md"),
        schema.PlanMarkdown(plan_id="plan-1", content="1. Read the tests"),
        schema.ProxySuccessorNotification(method="session/cancel", params={"sessionId": "session-1"}),
        schema.ProxySuccessorRequest(method="session/list", params={}),
        schema.ReadTextFileRequest(session_id="session-1", path="/home/me/project/app.py", line=10, limit=20),
        schema.RequestPermissionRequest(
            session_id="session-1",
            tool_call=schema.ToolCallUpdate(tool_call_id="call-1", title="Edit app.py", kind="edit"),
            options=[_ALLOW, _REJECT],
        ),
        schema.RequestPermissionResponse(outcome=schema.SelectedPermissionOutcome(option_id="allow")),
        schema.ResourceLink(name="app.py", uri="file:///home/me/project/app.py"),
        schema.ScopedElicitation(message="Which branch?", session_id="session-1"),
        schema.SessionConfigBoolean(id="tests", name="Run tests", current_value=True),
        schema.SessionConfigSelectGroup(group="local", name="Local models", options=[_SMALL]),
        schema.SessionInfo(session_id="session-1", cwd="/home/me/project", title="Fix the greeting"),
        schema.SessionMessage(message_id="message-1", content=[schema.TextContent(text="Hello")]),
        schema.SessionMode(id="ask", name="Ask before edits"),
        schema.SessionNotification(
            session_id="session-1",
            update=schema.AgentMessageChunk(content=schema.TextContent(text="Hello")),
        ),
        schema.SetSessionConfigOptionRequest(session_id="session-1", config_id="model", value="small"),
        schema.StringMultiSelectItems(enum=["main", "next"]),
        schema.SubagentUpdate(session_id="session-2", title="Search the docs"),
        schema.SystemPrompt(mode="append", content=[schema.TextContent(text="Answer in French.")]),
        schema.TerminalOutputResponse(output="2 passed in 0.31s\n", truncated=False),
        schema.ToolCall(tool_call_id="call-1", title="Edit app.py", kind="edit", status="pending"),
        schema.ToolCallChange(tool_call_id="call-1", status="completed"),
        schema.ToolCallLocation(path="/home/me/project/app.py", line=12),
        schema.ToolCallUpdate(tool_call_id="call-1", title="Edit app.py", kind="edit"),
        schema.Usage(total_tokens=1500, input_tokens=1200, output_tokens=300),
        schema.UsageUpdate(used=12_000, size=200_000),
    )
}  # fmt: skip
"""Examples that show more than the required fields, or better values."""

ALIASES: dict[str, Any] = {
    "ElicitationContentValue": "main",
    "ErrorCode": -32602,
    "ExtNotification": {"level": "debug"},
    "ExtRequest": {"level": "debug"},
    "ExtResponse": {"ok": True},
    "McpServer": _SERVER,
    "ProxySuccessorResponse": {"sessions": []},
    "SessionUpdate": schema.AgentMessageChunk(content=schema.TextContent(text="Hello")),
}
"""Values of types that are not classes."""

OTHERS: dict[str, str] = {
    "Record": 'assert isinstance(schema.Cost(amount=0.12, currency="USD"), schema.Record)',
    "UNSET": 'assert schema.ToolCallLocation(path="/app.py").line is schema.UNSET',
    "Unknown": 'block = schema.Unknown("video", {"type": "video", "uri": "file:///demo.mp4"})',
    "UnsetType": "assert isinstance(schema.UNSET, schema.UnsetType)",
}
"""The code of the names that are not messages."""


def value_of(shape: Shape, name: str) -> Any:
    """Return a value of a shape for a field of this name."""
    match shape:
        case Text(known=known) | Integer(known=known) if known:
            return known[0]
        case Text():
            return f"{name.replace('_', '-').removesuffix('-id')}-1"
        case Integer():
            return 1
        case Number():
            return 0.5
        case Boolean():
            return True
        case Constants(values=values):
            return values[0]
        case Nullable(inner=inner):
            return value_of(inner, name)
        case ListOf(item=item):
            return [value_of(item, name.removesuffix("s"))]
        case MapOf(value=value):
            return {"name": value_of(value, name)}
        case ObjectOf(cls=cls):
            return instance(cls)
        case UnionOf(variants=variants):
            return value_of(variants[0], name)
        case _:
            raise TypeError(f"no example of {name}: add one to the tables of tools/schema_examples.py")


@cache
def instance(cls: type[Struct]) -> Any:
    """Return the example of a class: that of `CLASSES`, else with its required or its first field."""
    if cls in CLASSES:
        return CLASSES[cls]
    shape = shape_of(cls)
    assert isinstance(shape, ObjectOf)
    optional = [field for field in shape.fields if not field.required and field.wire != "_meta"]
    fields = [field for field in shape.fields if field.required] or optional[:1]
    return cls(**{field.name: field_value(field) for field in fields})


def field_value(field: Field) -> Any:
    """Return the value of a field: that of `FIELDS` if it is of the same kind, else one of its type."""
    made = value_of(field.shape, field.name)
    found = FIELDS.get(field.name, made)
    return found if type(found) is type(made) else made


# Code and JSON, on one line or with one part per line.


def laid_out(start: str, parts: list[str], end: str) -> str:
    """Return text in brackets."""
    line = f"{start}{', '.join(parts)}{end}"
    if not parts or ("\n" not in line and len(line) <= WIDTH):
        return line
    inside = ",\n".join("    " + part.replace("\n", "\n    ") for part in parts)
    return f"{start}\n{inside}{',' if end == ')' else ''}\n{end}"


def code_of(value: Any, before: str = "") -> str:
    """Return the Python code of a value, behind the start of a statement."""
    match value:
        case Struct():
            given = [(name, getattr(value, name)) for name in value.__struct_fields__]
            parts = [f"{name}={code_of(item)}" for name, item in given if item is not UNSET]
            return laid_out(f"{before}schema.{type(value).__name__}(", parts, ")")
        case list():
            return laid_out(f"{before}[", [code_of(item) for item in cast("list[Any]", value)], "]")
        case dict():
            members = cast("dict[str, Any]", value).items()
            parts = [f"{code_of(key)}: {code_of(item)}" for key, item in members]
            return laid_out(before + "{", parts, "}")
        case str():
            return before + json.dumps(value)
        case _:
            return f"{before}{value!r}"


def json_of(value: Any) -> str:
    """Return the JSON text of plain values."""
    match value:
        case list():
            return laid_out("[", [json_of(item) for item in cast("list[Any]", value)], "]")
        case dict():
            members = cast("dict[str, Any]", value).items()
            parts = [f"{json.dumps(key)}: {json_of(item)}" for key, item in members]
            return laid_out("{", parts, "}")
        case _:
            return json.dumps(value)


def example(name: str) -> tuple[str, str]:
    """Return the code of a name's example, and its JSON; for a plain value, no JSON."""
    if name in OTHERS:
        exec(OTHERS[name], {"schema": schema})
        return OTHERS[name], ""
    kind = getattr(schema, name)
    value = ALIASES[name] if name in ALIASES else value_of(shape_of(kind), variable(name))
    raw = encode(value)
    wrong = violations(kind, json.loads(raw))
    if wrong or decode(kind, raw) != value:
        raise ValueError(f"the example of accord.schema.{name} is not valid: {wrong or raw}")
    if eval(code_of(value), {"schema": schema}) != value:
        raise ValueError(f"the code of accord.schema.{name} gives another value: {code_of(value)}")
    is_plain = not isinstance(value, Struct | list)
    before = "" if type(value).__name__ == name else f"{variable(name)}: schema.{name} = "
    return code_of(value, before), "" if is_plain else json_of(json.loads(raw))


def variable(name: str) -> str:
    """Return a name for a variable of a type."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def module() -> str:
    """Return all examples as a module, for the type checkers."""
    lines = ["from accord import schema", ""]
    for name in public_names("accord.schema"):
        code, _ = example(name)
        is_bare = code.startswith("schema.")
        lines.append(f"{variable(name)}: schema.{name} = {code}" if is_bare else code)
    return "\n".join([*lines, ""])
