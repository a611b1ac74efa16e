"""What OpenAI's models accept: levels of thinking, cache marks, strict schemas. Both formats use it."""

import os
from typing import Any, Final, NamedTuple, cast

from accord.coder.models.endpoints import Endpoint, is_openai
from accord.coder.models.model import Effort, RequestUsage
from accord.coder.models.wire_format import WireFormat, count, members_of
from accord.coder.user_config import ModelFacts


class OpenAIModel(NamedTuple):
    """Properties of a family of models."""

    efforts: tuple[str, ...] = ()
    """The levels of thinking that it accepts, from least to most; empty if it does not think."""
    keeps_thoughts: bool = False
    """Whether it can use the thoughts of all turns (`reasoning.context`), and labels texts with a phase."""
    cache_marks: bool = False
    """Whether parts of a prompt can be marked for the cache."""


_ALL: Final = ("none", "minimal", "low", "medium", "high", "xhigh")
_TO_MAX: Final = ("low", "medium", "high", "xhigh", "max")
_PRO: Final = ("medium", "high", "xhigh")

_MODELS: Final[tuple[tuple[str, OpenAIModel], ...]] = (
    ("gpt-6-astra", OpenAIModel(_TO_MAX, True, True)),
    ("gpt-6.1-sol", OpenAIModel(_TO_MAX, True, True)),
    ("gpt-6.1-terra", OpenAIModel(("none", *_TO_MAX), True, True)),
    ("gpt-6-sol", OpenAIModel(("none", *_TO_MAX), True, True)),
    ("gpt-6-luna", OpenAIModel(("none", *_TO_MAX), True, True)),
    ("gpt-5.6", OpenAIModel(("none", *_TO_MAX), True, True)),
    ("gpt-5.5-pro", OpenAIModel(_PRO, True)),
    ("gpt-5.5", OpenAIModel(_ALL, True)),
    ("gpt-5.4-pro", OpenAIModel(_PRO, True)),
    ("gpt-5.4", OpenAIModel(_ALL, True)),
    ("gpt-5.3-chat", OpenAIModel(("medium",))),
    ("gpt-5.3", OpenAIModel(_ALL)),
    ("gpt-5.2-pro", OpenAIModel(_PRO)),
    ("gpt-5.2-chat", OpenAIModel(("medium",))),
    ("gpt-5.2", OpenAIModel(_ALL)),
    ("gpt-5.1-codex", OpenAIModel(("low", "medium", "high", "xhigh"))),
    ("gpt-5.1-chat", OpenAIModel(("medium",))),
    ("gpt-5.1", OpenAIModel(_ALL)),
    ("gpt-5-chat", OpenAIModel()),
    ("gpt-5-pro", OpenAIModel(("high",))),
    ("gpt-5-codex", OpenAIModel(("low", "medium", "high"))),
    ("gpt-5", OpenAIModel(("minimal", "low", "medium", "high"))),
    ("o1", OpenAIModel(("low", "medium", "high"))),
    ("o3", OpenAIModel(("low", "medium", "high"))),
    ("o4", OpenAIModel(("low", "medium", "high"))),
)
"""By the beginning of the name; the first match counts. Other models do not think."""


def openai_model(name: str) -> OpenAIModel:
    """Return the properties of a model."""
    return next((model for prefix, model in _MODELS if name.startswith(prefix)), OpenAIModel())


_ORDER: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def nearest_effort(effort: Effort, accepted: tuple[str, ...]) -> str | None:
    """Return the lowest accepted level that is not below the wanted one, else the highest.

    `off` is the lowest level. None means that the model does not think.
    """
    if not accepted:
        return None
    if effort == "off":
        return accepted[0]
    wanted = _ORDER.index(effort)
    above = [level for level in accepted if level != "none" and _ORDER.index(level) >= wanted]
    return above[0] if above else accepted[-1]


class OpenAIFormat(WireFormat):
    """What both formats of OpenAI have in common."""

    official_address: str = "https://api.openai.com/v1"
    list_path: str = "/models"

    def __init__(self, endpoint: Endpoint, model: str, facts: ModelFacts) -> None:
        super().__init__(endpoint, model, facts)
        self.features: OpenAIModel = openai_model(model)
        official = endpoint.base_url is None or endpoint.family == "azure" or is_openai(endpoint.base_url)
        self.takes_cache_key: bool = official  # some compatible servers refuse members that they do not know
        self.cache_marks: bool = endpoint.base_url is None and self.features.cache_marks

    def headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        if self.endpoint.key is not None and self.endpoint.family == "azure":
            headers["api-key"] = self.endpoint.key.reveal()
        elif self.endpoint.key is not None:
            headers["authorization"] = f"Bearer {self.endpoint.key.reveal()}"
        if self.endpoint.family == "openai":
            for name, variable in (
                ("openai-organization", "OPENAI_ORG_ID"),
                ("openai-project", "OPENAI_PROJECT_ID"),
            ):
                if value := os.environ.get(variable, "").strip():
                    headers[name] = value
        return headers


def openai_usage(usage: dict[str, Any], input_name: str, output_name: str) -> RequestUsage | None:
    """Return the tokens of a request; None if the server counted none."""
    input_tokens, output_tokens = (
        count(usage.get(f"{input_name}_tokens")),
        count(usage.get(f"{output_name}_tokens")),
    )
    if not (input_tokens or output_tokens):
        return None
    input_details = members_of(usage.get(f"{input_name}_tokens_details"))
    output_details = members_of(usage.get(f"{output_name}_tokens_details"))
    return RequestUsage(
        input=input_tokens,
        output=output_tokens,
        cached_read=count(input_details.get("cached_tokens")),
        cached_write=count(input_details.get("cache_write_tokens")),
        thought=count(output_details.get("reasoning_tokens")),
    )


CACHE_MARK: Final = {"mode": "explicit"}
CACHE_OPTIONS: Final = {"mode": "implicit", "ttl": "30m"}

_STRICT_KEYS: Final = frozenset((
    "type", "properties", "required", "items", "enum", "description", "anyOf", "additionalProperties",
    "title",
))  # fmt: skip


def strict_schema(schema: Any) -> dict[str, Any] | None:
    """Return the schema in the form that OpenAI enforces; None if it cannot be enforced.

    Every property must be required, no other property is allowed, and only some keywords exist.
    """
    if not isinstance(schema, dict):
        return None
    members = dict(cast(dict[str, Any], schema))
    if not members.keys() <= _STRICT_KEYS or members.get("additionalProperties", False) is not False:
        return None
    if "anyOf" in members:
        members["anyOf"] = _strict_all(members["anyOf"])
        if members["anyOf"] is None:
            return None
    if "items" in members:
        members["items"] = strict_schema(members["items"])
        if members["items"] is None:
            return None
    if members.get("type") == "object" or "properties" in members:
        properties = cast(dict[str, Any], members.get("properties", {}))
        strict = _strict_all(list(properties.values()))
        if strict is None or set(cast(list[str], members.get("required", []))) != set(properties):
            return None
        members |= {
            "properties": dict(zip(properties, strict, strict=True)),
            "required": list(properties),
            "additionalProperties": False,
        }
    return members if members.get("type") or members.get("anyOf") or members.get("enum") else None


def _strict_all(schemas: Any) -> list[dict[str, Any]] | None:
    strict = [strict_schema(schema) for schema in schemas]
    return None if None in strict else cast(list[dict[str, Any]], strict)
