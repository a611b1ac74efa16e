"""The types that a session and its MCP servers share: hooks, limits, states and features.

Also cleans the text of servers.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from accord.clock import Clock
from accord.coder.bounded_text import truncate
from accord.errors import AccordError

if TYPE_CHECKING:
    from accord.coder.mcp.sign_in import McpSignIn

Status: TypeAlias = Literal["connecting", "ready", "failed", "closed"]


class McpServerFailure(AccordError):
    """A request to a server failed. One line: server, problem, what to do."""


class ServerConnectionLost(McpServerFailure):
    """The connection ended before the answer arrived."""


class SessionExpired(McpServerFailure):
    """The server has forgotten its session and did nothing. A new connection can retry the request."""


class McpHooks(Protocol):
    """What a session does for its servers."""

    def changed(self) -> None:
        """Tools, prompts or states have changed."""
        ...

    def failed(self, name: str, reason: str) -> None:
        """A server failed, at its start or later. `reason` is one line, without the name."""
        ...

    def left_out(self, name: str, tools: Sequence[str]) -> None:
        """A server lists more tools than are used. These are not used."""
        ...

    async def elicit_form(self, message: str, schema: dict[str, Any]) -> tuple[str, dict[str, Any] | None]:
        """Show the user a form. Return the action (`accept`, `decline`, `cancel`) and the values."""
        ...

    async def elicit_url(self, message: str, url: str) -> str:
        """Ask the user to open a page. Return the action."""
        ...


class AcpRequest(Protocol):
    """Calls a server that the client provides. `AgentSession.mcp_request` implements it."""

    async def __call__(
        self,
        server_id: str,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        on_notification: Callable[[str, Mapping[str, Any]], object] | None = None,
    ) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class McpLimits:
    """The limits of size and time for one server."""

    connect_seconds: float = 60
    """From the start to the list of tools. The first start by `npx` or `uvx` downloads the server."""
    call_seconds: float = 300
    """The longest time without progress. The time in which the user answers a question does not count."""
    max_call_seconds: float = 3600
    list_seconds: float = 30
    cancel_seconds: float = 0.5
    """The time to send the cancellation of a call."""
    leave_seconds: float = 1.5
    """From the end of the session to SIGTERM, and from there to SIGKILL."""
    refresh_seconds: float = 1
    """The shortest interval between two lists of a server that reports changes."""
    restarts: int = 3
    """The maximum number of restarts in a row without a successful call."""
    message_bytes: int = 32 * 1024 * 1024
    tools: int = 256
    """The maximum number per server. More are left out."""
    prompts: int = 128
    resources: int = 1000
    description_chars: int = 8_000
    schema_bytes: int = 100_000
    """The largest schema of a tool. A tool with a larger one is left out."""
    log_lines: int = 500
    """The maximum number of lines of stderr, and of log messages, that are logged per connection."""


@dataclass(frozen=True, slots=True)
class ServerState:
    """The state of a server."""

    name: str
    """The cleaned name, unique in its session, as tools and commands show it."""
    transport: str
    status: Status
    reason: str = ""
    """One line, if it failed."""
    tools: int = 0
    prompts: int = 0
    resources: int = 0
    command: str = ""
    """The command line of a stdio server on one line, without secrets."""
    left_out: int = 0
    """The number of its tools that are not used."""


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool, as the server describes it."""

    name: str
    """The server's own name, used only in requests to it."""
    title: str
    description: str
    schema: dict[str, Any]
    read_only: bool = False
    """The claim of the server."""
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    """The server's names of arguments that have another name in the schema."""


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """An argument of a prompt."""

    name: str
    description: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class OfferedPrompt:
    """A prompt, as the server describes it."""

    name: str
    title: str
    description: str
    arguments: tuple[PromptArgument, ...] = ()


@dataclass(frozen=True, slots=True)
class OfferedResource:
    """A resource, or a template of resource URIs."""

    uri: str
    name: str
    description: str = ""
    mime_type: str = ""
    template: bool = False


@dataclass(frozen=True, slots=True)
class OfferedFeatures:
    """All features of a server at one time, cleaned, bounded and independent of the MCP version."""

    tools: tuple[OfferedTool, ...] = ()
    prompts: tuple[OfferedPrompt, ...] = ()
    resources: tuple[OfferedResource, ...] = ()
    instructions: str = ""
    has_resources: bool = field(default=False)
    """Whether it supports resources, even if it has none now."""
    left_out: tuple[str, ...] = ()
    """The tools that are not used, because there are too many or they are unusable."""


# Text of servers is untrusted. Names and descriptions are shortened and lose invisible characters (controls,
# direction marks, tags). Results lose only terminal controls.
_INVISIBLE: Final = frozenset(("Cc", "Cf", "Co", "Cs", "Cn"))
_JOINER_CHARACTERS: Final = "\u200c\u200d"
_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|"
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
_MIN_SECRET_CHARS: Final = 6
_MAX_DEPTH: Final = 40


def clean(text: str, limit: int) -> str:
    """Clean a description: keep visible characters and line ends, at most `limit` characters."""
    if len(text) > 4 * limit:
        text = text[: 2 * limit] + text[-2 * limit :]
    text = _ESCAPES.sub("", text)
    visible = "".join(
        c for c in text if c in "\n\t" + _JOINER_CHARACTERS or unicodedata.category(c) not in _INVISIBLE
    )
    return truncate(visible.strip(), limit).strip()


def clean_line(text: str, limit: int) -> str:
    """Clean a name or title, on one line."""
    line = " ".join(clean(text, 4 * limit).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def clean_result(text: str) -> str:
    """Clean a result: remove terminal controls and lone surrogates."""
    return _ESCAPES.sub("", text).encode("utf-8", "replace").decode("utf-8")


def clean_schema(schema: dict[str, Any], limit: int) -> dict[str, Any]:
    """Clean the descriptions of an argument schema, repair it, and make it an object schema.

    Raises ValueError if it nests too deep.
    """
    cleaned = repair_schema(cast(dict[str, Any], _clean_value(schema, limit, 0)))
    if cleaned.get("type") != "object":
        cleaned["type"] = "object"
    if not isinstance(cleaned.get("properties"), dict):
        cleaned["properties"] = {}
    return _without_combinations(cleaned)


def _without_combinations(schema: dict[str, Any]) -> dict[str, Any]:
    """Fold `anyOf` and its like at the top into the properties: providers refuse the whole request for one.

    What only some alternatives require becomes optional; the server checks the arguments anyway.
    """
    if schema.keys().isdisjoint(_COMBINATIONS):
        return schema
    found: dict[str, list[Any]] = {}
    required = _collect_properties(schema, schema, found, set())
    kept = {keyword: value for keyword, value in schema.items() if keyword not in _COMBINATIONS}
    kept["properties"] = {
        name: forms[0] if len(forms) == 1 else {"anyOf": forms} for name, forms in found.items()
    }
    if names := [name for name in dict.fromkeys(required) if name in found]:
        kept["required"] = names
    else:
        kept.pop("required", None)
    return kept


def _collect_properties(
    schema: Any, whole: Mapping[str, Any], found: dict[str, list[Any]], followed: set[str]
) -> Sequence[str]:
    """Add the properties of a schema and of its alternatives. Returns those that are always required.

    Each reference is followed once: they may lead in circles.
    """
    if not isinstance(schema, dict):
        return ()
    members = cast(dict[str, Any], schema)
    for name, form in members.get("properties", {}).items():
        forms = found.setdefault(name, [])
        if form not in forms:
            forms.append(form)
    required = [*members.get("required", ())]
    reference = str(members.get("$ref", ""))
    area, _, name = reference.removeprefix("#/").partition("/")
    is_known = area in ("$defs", "definitions") and reference not in followed
    referred = whole.get(area, {}).get(name) if is_known else None
    followed.add(reference)
    for inner in (referred, *members.get("allOf", ())):
        required += _collect_properties(inner, whole, found, followed)
    for inner in (*members.get("anyOf", ()), *members.get("oneOf", ())):
        _collect_properties(inner, whole, found, followed)
    return required


def with_usable_names(schema: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Rename the properties of a clean schema whose names Anthropic refuses, such as `$filter`.

    Also return their original names by the new ones.
    """
    properties: dict[str, Any] = schema["properties"]
    renamed: dict[str, str] = {}
    for name in properties:
        if not _ARGUMENT_NAME.fullmatch(name):
            usable = _NOT_IN_ARGUMENTS.sub("_", name).strip("_")[:_USABLE_CHARS] or "argument"
            while usable in properties or usable in renamed:
                usable += "_"
            renamed[usable] = name
    if not renamed:
        return schema, renamed
    ours = {theirs: usable for usable, theirs in renamed.items()}
    changed = {**schema, "properties": {ours.get(name, name): form for name, form in properties.items()}}
    if "required" in schema:
        changed["required"] = [ours.get(name, name) for name in schema["required"]]
    return changed, renamed


def repair_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Drop the members of a JSON Schema that have a wrong form.

    The mcp package rejects the whole list of tools for one of them, and a provider the whole request.
    """
    repaired: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _SCHEMA_MAPS:
            if isinstance(value, dict):
                members = cast(dict[str, Any], value)
                repaired[keyword] = {name: _repair_subschema(inner) for name, inner in members.items()}
        elif keyword in _SCHEMA_LISTS:
            if isinstance(value, list) and value:
                repaired[keyword] = [_repair_subschema(inner) for inner in cast(list[Any], value)]
        elif keyword in _SUBSCHEMAS:
            if isinstance(value, dict | bool):
                repaired[keyword] = _repair_subschema(value)
        elif keyword not in _KEYWORD_FORMS or _KEYWORD_FORMS[keyword](value):
            repaired[keyword] = value
    return repaired


def _repair_subschema(value: Any) -> dict[str, Any] | bool:
    if isinstance(value, bool):
        return value
    return repair_schema(cast(dict[str, Any], value)) if isinstance(value, dict) else {}


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_name_list(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, cast(list[Any], value)))


def _is_type(value: Any) -> bool:
    names = cast(list[Any], value) if isinstance(value, list) else [value]
    return bool(names) and all(isinstance(name, str) and name in _TYPES for name in names)


_TYPES: Final = frozenset(("array", "boolean", "integer", "null", "number", "object", "string"))
_SCHEMA_MAPS: Final = frozenset(
    ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
)
_SCHEMA_LISTS: Final = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_COMBINATIONS: Final = frozenset(("$ref", "allOf", "anyOf", "enum", "not", "oneOf"))
_ARGUMENT_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NOT_IN_ARGUMENTS: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_USABLE_CHARS: Final = 56
_SUBSCHEMAS: Final = frozenset(
    (
        *("additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then"),
        *("unevaluatedItems", "unevaluatedProperties", "contentSchema"),
    )
)
_KEYWORD_FORMS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "type": _is_type,
    "required": _is_name_list,
    "enum": lambda value: isinstance(value, list) and bool(cast(list[Any], value)),
    "examples": lambda value: isinstance(value, list),
    **dict.fromkeys(
        ("uniqueItems", "deprecated", "readOnly", "writeOnly"), lambda value: isinstance(value, bool)
    ),
    **dict.fromkeys(("$schema", "$id", "$ref", "$anchor", "title", "description", "format"), _is_text),
    **dict.fromkeys(("pattern", "$comment", "$dynamicRef", "contentEncoding"), _is_text),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _is_count),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), _is_count),
}


def _clean_value(value: Any, limit: int, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise ValueError("it nests too deep")
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        return {
            name: clean(inner, limit)
            if name in ("description", "title") and isinstance(inner, str)
            else _clean_value(inner, limit, depth + 1)
            for name, inner in members.items()
        }
    if isinstance(value, list):
        return [_clean_value(inner, limit, depth + 1) for inner in cast(list[Any], value)]
    return value


class Secrets:
    """Secret values in the configuration of a server. Masks them in text."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        secrets = {
            secret
            for value in values
            for secret in (value, *value.split())
            if len(secret) >= _MIN_SECRET_CHARS
        }
        self._secrets = sorted(secrets, key=len, reverse=True)

    def masked(self, text: str) -> str:
        """Return the text with the secrets masked."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


def secrets_of_url(url: str) -> list[str]:
    """Return the parts of a URL that may be credentials: user, password and query values."""
    try:
        parts = urlsplit(url)
        values = [parts.username or "", parts.password or "", *(value for _, value in parse_qsl(parts.query))]
    except ValueError:
        return [url]
    return [*values, *map(unquote, values), parts.query]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerContext:
    """What a connection to a server needs. All connections to it share the values except the last two."""

    name: str
    cwd: str
    roots: tuple[str, ...]
    hooks: McpHooks
    limits: McpLimits
    clock: Clock
    environment: Mapping[str, str] | None
    secrets: Secrets
    acp: AcpRequest | None
    sign_in: "McpSignIn"
    on_lost: Callable[[str], None]
    """Call when the connection is lost, with the reason in one line without the name."""
    on_features_changed: Callable[[], None]
    """Call when the features of the server have changed."""
