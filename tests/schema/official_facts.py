"""The official JSON Schema as facts, one line each, to compare it with our types line by line.

A definition that composes others (`allOf`, `anyOf`, common properties) is first expanded into its
alternatives. Those that our types distinguish by a tag become variants; all others are merged into one
object.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any

from accord.schema.type_shape import BOUNDS

ENVELOPES = {
    f"{side}{kind}"
    for side in ("Agent", "Client", "Proxy")
    for kind in ("Request", "Response", "Notification")
}
"""Unions of all messages of one direction. The method table represents them."""

ABSORBED = {
    "SessionConfigSelect",
    "SessionConfigBoolean",
    "ElicitationFormMode",
    "ElicitationUrlMode",
    "ElicitationAcceptAction",
    "ErrorStopReason",
}
"""Definitions that appear only merged with the members around them. Our types hold the merged form."""

MERGED = {"IdleStateUpdate", "SetSessionConfigOptionRequest"}
"""Definitions whose alternatives differ in one member only. Our types hold each as one object."""

Node = dict[str, Any]


class OfficialSchema:
    """One of the two official schema files."""

    def __init__(self, document: Node) -> None:
        self.defs: dict[str, Node] = document["$defs"]

    def names(self) -> set[str]:
        """Every definition that should have a type."""
        return set(self.defs) - ENVELOPES - {"ErrorStopReason"}

    def facts(self) -> Iterator[str]:
        """All facts about all definitions."""
        for name in sorted(self.names()):
            yield f"{name} exists"
            if name not in ABSORBED:
                yield from self._definition_facts(name, self.defs[name])

    def method_facts(self) -> Iterator[str]:
        """Which definitions are the parameters and results of which methods."""
        for name, node in self.defs.items():
            if "x-method" in node:
                side = {"protocol": "both"}.get(node["x-side"], node["x-side"])
                yield f"{node['x-method']} served by {side}: {name} as {self._role(name)}"

    def _role(self, name: str) -> str:
        envelopes = {
            "request": ("AgentRequest", "ClientRequest", "ProxyRequest"),
            "result": ("AgentResponse", "ClientResponse", "ProxyResponse"),
            "notification": ("AgentNotification", "ClientNotification", "ProxyNotification"),
        }
        for role, places in envelopes.items():
            if any(f'"#/$defs/{name}"' in repr(self.defs.get(place)).replace("'", '"') for place in places):
                return role
        return "notification"  # `$/cancel_request` is in no envelope

    def _definition_facts(self, name: str, node: Node) -> Iterator[str]:
        if not self._is_object(node):
            yield f"{name} = {self.describe(node)}"
            return
        alternatives = self._alternatives(node)
        if name in MERGED or len(alternatives) == 1:
            yield from self._object_facts(name, alternatives)
            if node.get("additionalProperties") is True:
                yield f"{name} takes extra members"
            return
        tag = _tag(alternatives)
        yield f"{name} is told apart by {tag or 'order'}"
        groups: dict[str, list[Node]] = {}
        for place, alternative in enumerate(alternatives):
            groups.setdefault(_label(alternative, tag, place), []).append(alternative)
        for label, members in groups.items():
            if label == "other":
                yield f"{name} is open"
                if not any("message" in member["properties"] for member in members):
                    continue
            yield from self._object_facts(f"{name}<{label}>", members, tag)

    def _object_facts(self, name: str, alternatives: list[Node], tag: str | None = None) -> Iterator[str]:
        yield f"{name} is an object"
        fields = dict.fromkeys(field for one in alternatives for field in one["properties"] if field != tag)
        for field in fields:
            nodes = [one["properties"][field] for one in alternatives if field in one["properties"]]
            required = all(field in one["required"] for one in alternatives)
            yield f"{name}.{field}: {self._describe_field(_merged(nodes), required)}"

    def _describe_field(self, node: Node, required: bool) -> str:
        words = [self.describe(node), "required" if required else "optional"]
        if node.get("x-deserialize-default-on-error"):
            words.append("on error absent")
        if node.get("x-deserialize-default-on-null"):
            words.append("on null empty")
        if node.get("x-deserialize-skip-invalid-items"):
            words.append("skips items")
        if "default" in node:
            words.append(f"default {node['default']}")
        return ", ".join(words)

    def describe(self, node: Node) -> str:
        """Describe the JSON that a node accepts."""
        if "$ref" in node:
            name = node["$ref"].removeprefix("#/$defs/")
            target = self.defs[name]
            if "anyOf" in target and len(target["anyOf"]) == 1:  # a union of one is its only member
                return self.describe(target["anyOf"][0])
            return name if self._is_object(target) else self.describe(target)
        if "allOf" in node:
            return self.describe(node["allOf"][0])
        if isinstance(node.get("type"), list):
            inner = next(kind for kind in node["type"] if kind != "null")
            return f"null or {self.describe({**node, 'type': inner})}"
        if "oneOf" in node or "anyOf" in node:
            return self._describe_union(node.get("oneOf") or node["anyOf"])
        if "const" in node:
            return f"one of {node['const']}"
        match node.get("type"):
            case None:
                return "anything"
            case "array":
                return f"list of {self.describe(node['items'])}"
            case "object":
                values = node.get("additionalProperties", True)
                return f"map of {'anything' if values is True else self.describe(values)}"
            case "integer":
                low, high = BOUNDS[node["format"]]
                low, high = node.get("minimum", low), node.get("maximum", high)
                return node["format"] if (low, high) == BOUNDS[node["format"]] else f"{low}..{high}"
            case "string" if node.get("minLength"):
                return f"string of at least {node['minLength']}"
            case kind:
                return str(kind)

    def _describe_union(self, nodes: list[Node]) -> str:
        parts = [node for node in nodes if node.get("type") != "null"]
        constants = [node["const"] for node in parts if "const" in node]
        if constants:
            rest = [node for node in parts if "const" not in node]
            known = " ".join(map(str, constants if rest else sorted(constants)))
            words = f"{'open: ' if rest else ''}one of {known}"
            if rest and rest[0]["type"] == "integer":
                words = f"{rest[0]['format']}, {words}"
        else:
            words = " or ".join(sorted(self.describe(node) for node in parts))
        return words if len(parts) == len(nodes) else f"null or {words}"

    def _is_object(self, node: Node) -> bool:
        if "$ref" in node:
            return self._is_object(self.defs[node["$ref"].removeprefix("#/$defs/")])
        parts = node.get("allOf") or node.get("oneOf") or node.get("anyOf") or ()
        return "properties" in node or node.get("type") == "object" or any(map(self._is_object, parts))

    def _alternatives(self, node: Node) -> list[Node]:
        """Every object that a definition describes, as plain properties and required names."""
        if "$ref" in node:
            return self._alternatives(self.defs[node["$ref"].removeprefix("#/$defs/")])
        factors: list[list[Node]] = [[{"properties": {}, "required": [], **node}]]
        factors += [self._alternatives(part) for part in node.get("allOf", ())]
        if choices := node.get("oneOf") or node.get("anyOf"):
            factors.append([one for choice in choices for one in self._alternatives(choice)])
        return [_joined(parts) for parts in product(*factors)]


def _tag(alternatives: list[Node]) -> str | None:
    """The member whose constants distinguish the alternatives."""
    members = (item for one in alternatives for item in one["properties"].items())
    return next((name for name, node in members if "const" in node), None)


def _label(alternative: Node, tag: str | None, place: int) -> str:
    if tag is None:
        return str(place)
    node = alternative["properties"].get(tag, {})
    return node.get("const") or ("other" if alternative["title"] == "other" else "untagged")


def _joined(parts: tuple[Node, ...]) -> Node:
    """Join several descriptions of one object. A later, narrower description of a member wins."""
    joined: Node = {"properties": {}, "required": []}
    for part in parts:
        for name, node in part["properties"].items():
            joined["properties"][name] = {**joined["properties"].get(name, {}), **node}
        joined["required"] += part["required"]
        joined["title"] = "other" if "other" in (part.get("title"), joined.get("title")) else None
    return joined


def _merged(nodes: list[Node]) -> Node:
    """One member as described by several alternatives of the same object."""
    different = list({repr(node): node for node in nodes}.values())
    marks = {key: value for key, value in nodes[0].items() if key.startswith("x-")}
    return different[0] if len(different) == 1 else {"anyOf": different, **marks}
