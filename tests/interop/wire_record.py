"""The recorded messages of a conversation, checked against Accord's schema and the official JSON Schema."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from jsonschema import Draft202012Validator
from tests.requirements import need_official_schemas

from accord.testing.raw_peer import schema_violations
from accord.wire.envelope import id_key

Side = Literal["agent", "client"]
Edition = Literal["schema", "schema.unstable"]
"""The stable schema, or the one with unstable types."""
Message = dict[str, Any]


@dataclass
class WireRecord:
    """All lines of both directions."""

    to_agent: list[bytes]
    to_client: list[bytes]

    @staticmethod
    def read(folder: Path) -> "WireRecord":
        """Read the files that tee.py wrote."""
        return WireRecord(
            *(
                (folder / name).read_bytes().removesuffix(b"\n").split(b"\n")
                for name in ("to_agent", "to_client")
            )
        )

    def lines_of(self, side: Side) -> list[bytes]:
        """The lines that one side sent."""
        return self.to_client if side == "agent" else self.to_agent

    def sent_by(self, side: Side) -> list[Message]:
        """The messages that one side sent."""
        return [json.loads(line) for line in self.lines_of(side)]

    def calls(self, side: Side, method: str) -> list[Message]:
        """The requests or notifications of one method that a side sent."""
        return [message for message in self.sent_by(side) if message.get("method") == method]

    def answers_of(self, side: Side, method: str) -> list[Message]:
        """The responses of a side to the requests of one method."""
        asked = {message["id"] for message in self.calls(other(side), method)}
        return [
            message for message in self.sent_by(side) if "method" not in message and message["id"] in asked
        ]

    def asked_of(self, side: Side) -> dict[Any, str]:
        """The requests that a side received: method by id."""
        return {
            message["id"]: message["method"]
            for message in self.sent_by(other(side))
            if "method" in message and "id" in message
        }

    def breaches(self, side: Side) -> list[str]:
        """Violations of Accord's strict schema in the messages of a side."""
        asked = {id_key(id): method for id, method in self.asked_of(side).items()}
        return [
            f"{json.dumps(message)[:300]}: {fault}"
            for message in self.sent_by(side)
            for fault in schema_violations(message, side, asked)
        ]

    def unofficial(self, side: Side, *, edition: Edition = "schema", version: int = 1) -> list[str]:
        """Violations of the official JSON Schema in the messages of a side."""
        asked = {id_key(id): method for id, method in self.asked_of(side).items()}
        return [
            f"{json.dumps(message)[:300]}: {fault[:300]}"
            for message in self.sent_by(side)
            for fault in official_faults(message, side, asked, edition, version)
        ]

    def answer_counts(self, side: Side) -> Counter[Any]:
        """How often a side answered each id."""
        return Counter(message["id"] for message in self.sent_by(side) if "method" not in message)


def other(side: Side) -> Side:
    """The opposite side."""
    return "client" if side == "agent" else "agent"


def official_faults(
    message: Message, sender: Side, asked: dict[Any, str], edition: Edition = "schema", version: int = 1
) -> Iterator[str]:
    """Faults of one message. Extension methods and their responses have no official type."""
    names = official_names(edition, version)
    if "method" in message:
        method = message["method"]
        kind = "Request" if "id" in message else "Notification"
        name, value = names.get((method, other(sender), kind)), message.get("params", {})
        if name is None and not method.startswith("_"):
            yield f"there is no {kind.lower()} {method}"
    elif "error" in message:
        name, value = "Error", message["error"]
    else:
        name, value = names.get((asked[id_key(message["id"])], sender, "Response")), message["result"]
    if name is not None:
        for fault in official_type(name, edition, version).iter_errors(value):
            yield f"{name}: {fault.message}"


@cache
def official_schema(edition: Edition, version: int = 1) -> dict[str, Any]:
    """The official schema with all its types."""
    return json.loads((need_official_schemas(version) / f"{edition}.json").read_text("utf-8"))


@cache
def official_names(edition: Edition, version: int = 1) -> dict[tuple[str, str, str], str]:
    """The names of the official types, by method, serving side and role."""
    names: dict[tuple[str, str, str], str] = {}
    for name, definition in official_schema(edition, version)["$defs"].items():
        if "x-method" not in definition:
            continue
        kind = next(kind for kind in ("Request", "Response", "Notification") if name.endswith(kind))
        sides = ("agent", "client") if definition["x-side"] == "protocol" else (definition["x-side"],)
        names |= {(definition["x-method"], side, kind): name for side in sides}
    return names


@cache
def official_type(name: str, edition: Edition, version: int = 1) -> Draft202012Validator:
    """A validator for one official type."""
    definitions = official_schema(edition, version)["$defs"]
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": definitions})
