"""Writes docs/configuration.md from the types that read the files and from acp.schema.json: `make docs`."""

import ast
import inspect
import json
import textwrap
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct

from accord.cli.serve_command import ServeSettings
from accord.cluster.settings import ClusterSettings, LeaseTimes
from accord.coder.hooks.hook_config import EVENTS, HookGroup, HookHandler
from accord.coder.lsp.server_table import LspConfig, LspServerConfig
from accord.coder.permissions.permission_settings import PermissionSettings, SandboxSettings
from accord.coder.user_config import (
    EndpointConfig,
    McpConfig,
    ModelFacts,
    ModelsConfig,
    RequestConfig,
    SessionConfig,
    TurnConfig,
    WebConfig,
)
from accord.gateway.access.resource_limits import GatewayLimits
from accord.gateway.notifications.notification_settings import (
    NotificationSettings,
    NtfySettings,
    WebhookSettings,
)
from accord.policy.mode_names import MODES
from accord.policy.rules import Rule, Rules
from accord.tui.chat_settings import SETTINGS, ChatSettings

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "configuration.md"
SCHEMA = ROOT / "src" / "accord" / "frontend" / "agent_config" / "acp.schema.json"

HEAD = """# Configuration reference

Look up a setting. All files are in the config folder, which `accord doctor` shows; `ACCORD_HOME` moves it:

```console
$ accord doctor
...
config     none ...
...
```

| file | read by | guide |
|---|---|---|
| [`config.toml`](#configtoml) or `.json` | the coding agent | [permissions](permissions.md) |
| [`acp.json`](#acpjson) | all commands that start agents | [agents](agents.md) |
| [`serve.json`](#servejson) | `accord serve` | [gateway](gateway-reference.md#servejson) |
| [`chat.json`](#chatjson) | `accord chat` | [chat](chat.md) |

A key that does not exist is an error: the message names the file, the key and the reason. Each file may also
name the version of its [format](store.md#formats), `version`, which is 1.

<!-- Generated. Do not edit: change the types in src/accord and run `make docs`. -->
"""


def field_docs(kind: type) -> dict[str, str]:
    """Return the docstrings of a class's fields, and the comments of its lines."""
    source = textwrap.dedent(inspect.getsource(kind))
    body = cast("ast.ClassDef", ast.parse(source).body[0]).body
    docs: dict[str, str] = {}
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            text = ""
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                text = inspect.cleandoc(str(after.value.value))
            docs[node.target.id] = " ".join(text.split())
    return docs


def type_text(kind: msgspec.inspect.Type) -> str:
    """Return a type in the words of the file formats."""
    match kind:
        case msgspec.inspect.UnionType(types=types):
            given = [part for part in types if not isinstance(part, msgspec.inspect.NoneType)]
            return " or ".join(dict.fromkeys(type_text(part) for part in given))
        case msgspec.inspect.LiteralType(values=values):
            return ", ".join(f"`{value}`" for value in values)
        case msgspec.inspect.VarTupleType(item_type=msgspec.inspect.LiteralType() as item):
            return f"list of {type_text(item)}"
        case msgspec.inspect.VarTupleType(item_type=item) | msgspec.inspect.ListType(item_type=item):
            return f"list of {type_text(item).replace(' or ', 's or ')}s"
        case msgspec.inspect.DictType(value_type=msgspec.inspect.StrType()):
            return "object of texts"
        case msgspec.inspect.StructType() if kind.cls is Rule:
            return "rule"
        case msgspec.inspect.StructType() | msgspec.inspect.DictType():
            return "object"
        case msgspec.inspect.IntType(ge=low, le=high):
            return f"integer{_range(low, high)}"
        case msgspec.inspect.AnyType():
            return "object"
        case msgspec.inspect.FloatType(gt=above, ge=low, le=high):
            return f"number above {above:g}" if above is not None else f"number{_range(low, high)}"
        case _:
            names = {"StrType": "text", "BoolType": "`true` or `false`"}
            return names.get(type(kind).__name__, type(kind).__name__.removesuffix("Type").lower())


def _range(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f" from {low:,g} to {high:,g}"
    return f" of at least {low:,g}" if low is not None else ""


def default_text(value: object) -> str:
    """Return a default as it would stand in the file."""
    if value is None or value is msgspec.UNSET or isinstance(value, Struct) or value in ((), {}, ""):
        return ""
    return f"`{json.dumps(value)}`"


def row(key: str, kind: str, default: str, about: str) -> str:
    """Return a row of a table."""
    cells = (f"`{key}`", kind, default, about)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


TABLE = ["| key | type | default | meaning |", "|---|---|---|---|"]


def struct_table(kind: type[Struct], *, leave_out: tuple[str, ...] = ()) -> list[str]:
    """Return the table of a struct's keys."""
    docs = field_docs(kind)
    info = cast("msgspec.inspect.StructType", msgspec.inspect.type_info(kind))
    lines = [*TABLE]
    for field in info.fields:
        if field.name in leave_out:
            continue
        default = default_text(None if field.default is msgspec.NODEFAULT else field.default)
        lines.append(row(field.encode_name, type_text(field.type), default, docs[field.name]))
    return lines


def about(kind: type) -> str:
    """Return the docstring of a class, without the key that it begins with."""
    text = " ".join((inspect.getdoc(kind) or "").split())
    return text.partition("`: ")[2] if text.startswith("`") else text


def section(title: str, kind: type[Struct], *, leave_out: tuple[str, ...] = ()) -> list[str]:
    """Return a heading, what the table is for, and the table."""
    words = about(kind)
    return [
        f"### {title}",
        "",
        words[:1].upper() + words[1:],
        "",
        *struct_table(kind, leave_out=leave_out),
        "",
    ]


def config_toml() -> list[str]:
    """Return the section of the coding agent's file."""
    docs = field_docs(PermissionSettings)
    defaults = PermissionSettings()
    models = struct_table(ModelsConfig, leave_out=("endpoints", "models", "requests"))[2:]
    modes = ", ".join(f"`{mode}`" for mode in MODES)
    seconds = row(
        "permission_seconds",
        "number above 0, or `inf`",
        default_text(defaults.question_seconds),
        docs["question_seconds"].partition(";")[0] + ", in seconds; `inf` waits until the turn ends.",
    )
    lines = ["## config.toml", "", "At the top of the file:", "", *TABLE, *models]
    lines += [row("mode", modes, default_text(defaults.mode), docs["mode"]), seconds, ""]
    lines += section("[endpoints.NAME]", EndpointConfig)
    lines += section('[models."PROVIDER:NAME"]', ModelFacts)
    lines += section("[requests]", RequestConfig)
    lines += section("[turn]", TurnConfig)
    lines += section("[session]", SessionConfig)
    lines += section("[permissions]", Rules, leave_out=("source",))
    lines += section("A rule of [permissions]", Rule)
    lines += section("[sandbox]", SandboxSettings)
    lines += section("[web]", WebConfig)
    lines += section("[mcp]", McpConfig)
    lines += mcp_servers()
    lines += hooks()
    lines += section("[lsp]", LspConfig, leave_out=("servers",))
    return lines + section("[lsp.servers.NAME]", LspServerConfig)


def mcp_servers() -> list[str]:
    """Return the section of the user's own MCP servers."""
    server = cast("dict[str, Any]", json.loads(SCHEMA.read_text("utf-8")))["$defs"]
    lines = [
        "### [mcp.NAME]",
        "",
        "An MCP server of yours. `mcp.json` has the same keys, see [MCP](mcp.md).",
        "",
    ]
    members = {key: value for key, value in server["mcpServer"]["properties"].items() if key != "name"}
    lines += schema_table(members, server)
    return [*lines, "| `enabled` | `true` or `false` | Whether the server is used. |", ""]


def hooks() -> list[str]:
    """Return the sections of hooks."""
    events = ", ".join(f"`{event}`" for event in EVENTS)
    lines = [
        "### [hooks]",
        "",
        "Commands of yours at events of a session. `hooks.json` has the same keys, see [hooks](hooks.md).",
        "",
        *TABLE,
        row(
            "format",
            "`true` or `false`",
            "`false`",
            "Format files after the agent has edited them; only here.",
        ),
        row("disableAllHooks", "`true` or `false`", "`false`", "Switch all hooks off."),
        row("EVENT", "list of objects", "", f"What runs at this event: one of {events}."),
        "",
    ]
    lines += section("[[hooks.EVENT]]", HookGroup)
    return lines + section("An entry of hooks", HookHandler)


def acp_json() -> list[str]:
    """Return the section of the list of agents."""
    schema = cast("dict[str, Any]", json.loads(SCHEMA.read_text("utf-8")))
    lines = ["## acp.json", "", schema["description"], ""]
    lines += schema_table(schema["properties"], schema["$defs"])
    titles = {
        "serverKeys": "An agent",
        "permissions": "The permissions of an agent",
        "rules": "Rules",
        "mcpServer": "An MCP server",
    }
    for name, title in titles.items():
        definition = schema["$defs"][name]
        if "properties" in definition:
            lines += ["", f"### {title}", ""]
            if "description" in definition:
                lines += [definition["description"], ""]
            lines += schema_table(definition["properties"], schema["$defs"])
    return [*lines, ""]


def schema_table(properties: dict[str, Any], definitions: dict[str, Any]) -> list[str]:
    """Return the table of a JSON Schema's properties, without those that are only tolerated."""
    lines = ["| key | type | meaning |", "|---|---|---|"]
    for key, value in properties.items():
        if key != "$schema" and isinstance(value, dict):
            known = cast("dict[str, Any]", value)
            words = str(known.get("description", ""))
            kind = schema_type(known, definitions).replace("|", "\\|")
            lines.append(f"| `{key}` | {kind} | {words.replace('|', chr(92) + '|')} |")
    return lines


def schema_type(value: Any, definitions: dict[str, Any]) -> str:
    """Return the type of a JSON Schema in words."""
    if not isinstance(value, dict):
        return "any"
    value = cast("dict[str, Any]", value)
    if "enum" in value:
        return ", ".join(f"`{item}`" for item in value["enum"] if item is not None)
    for key in ("oneOf", "anyOf"):
        if key in value:
            kinds = dict.fromkeys(schema_type(part, definitions) for part in value[key])
            return " or ".join(kind for kind in kinds if kind != "null")
    if "$ref" in value:
        return schema_type(definitions[str(value["$ref"]).rpartition("/")[2]], definitions)
    kinds = value.get("type", "object")
    names = [kinds] if isinstance(kinds, str) else [kind for kind in kinds if kind != "null"]
    if names == ["array"] and "items" in value:
        return f"list of {schema_type(value['items'], definitions)}s"
    return " or ".join({"string": "text", "boolean": "`true` or `false`"}.get(name, name) for name in names)


def chat_json() -> list[str]:
    """Return the section of the terminal client's file."""
    lines = ["## chat.json", "", *TABLE]
    defaults = ChatSettings()
    for setting in SETTINGS:
        kind = ", ".join(f"`{value}`" for value in setting.values)
        kind = kind or ("a theme" if setting.key == "theme" else "`true` or `false`")
        words = "; ".join(f"`{value}`: {text}" for value, text in setting.values.items())
        meaning = f"{setting.help}. {words}".strip()
        lines.append(row(setting.key, kind, default_text(getattr(defaults, setting.name)), meaning))
    lines.append(row("keys", "object of texts", "", field_docs(ChatSettings)["keys"]))
    return [*lines, ""]


def page() -> str:
    """Return the whole page."""
    serve = ["## serve.json", "", about(ServeSettings), "", *struct_table(ServeSettings), ""]
    serve += section("limits", GatewayLimits)
    serve += section("notifications", NotificationSettings)
    serve += section("notifications.ntfy", NtfySettings)
    serve += section("notifications.webhooks", WebhookSettings)
    serve += section("cluster", ClusterSettings)
    serve += section("cluster.times", LeaseTimes)
    return "\n".join([HEAD, *config_toml(), *acp_json(), *serve, *chat_json()]).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
