"""Compares our types with the official JSON Schemas in both directions: nothing missing, extra or
different.
"""

import json
from typing import Any

import pytest
from tests.requirements import need_official_schemas
from tests.schema import our_facts
from tests.schema.official_facts import OfficialSchema

EXPLAINED = {
    # The schema allows any `type` next to a value id, so a reader must accept a type it does not know and may
    # drop it.
    "SetSessionConfigOptionRequest.type: one of boolean, optional": (
        "SetSessionConfigOptionRequest.type: one of boolean, optional, on error absent"
    ),
}
"""Official facts that our types state differently on purpose."""

EXPLAINED_V2 = {
    # A value of a form is a text, a number, a switch or a list. No field can have another one.
    "ElicitationContentValue = anything or boolean or int64 or list of string or number or string": (
        "ElicitationContentValue = boolean or int64 or list of string or number or string"
    ),
    "CreateElicitationResponse<accept>.content: null or map of anything or boolean or int64 or "
    "list of string or number or string, optional": (
        "CreateElicitationResponse<accept>.content: null or map of boolean or int64 or list of string or "
        "number or string, optional"
    ),
    # The data of an error may be anything; two forms have types.
    "Error.data: null or ErrorData, optional, on error absent": (
        "Error.data: anything, optional, on error absent"
    ),
    "ErrorData is told apart by order": "ErrorData = anything",
    # The value depends on `type`, which may be one of a later version.
    "SetSessionConfigOptionRequest.value: anything or boolean or string, required": (
        "SetSessionConfigOptionRequest.value: anything, required"
    ),
    # The stable file leaves out a state that is legal there, too, because the states are open.
    "SessionUpdate<state_update>.state: open: one of running idle requires_action, required": (
        "SessionUpdate<state_update>.state: open: one of running idle requires_action unknown, required"
    ),
}
"""The same for version 2."""

FILES = [
    pytest.param(version, file, file == "schema.json", id=f"v{version}-{file}")
    for version in (1, 2)
    for file in ("schema.unstable.json", "schema.json")
]


def load(version: int, name: str) -> dict[str, Any]:
    return json.loads((need_official_schemas(version) / name).read_text(encoding="utf-8"))


def differences(official: set[str], ours: set[str], version: int = 1) -> list[str]:
    explained = EXPLAINED if version == 1 else EXPLAINED_V2
    official = {explained.get(fact, fact) for fact in official if not fact.startswith("ErrorData<")}
    missing = [f"missing: {fact}" for fact in sorted(official - ours)]
    return missing + [f"extra:   {fact}" for fact in sorted(ours - official)]


def fail_on(found: list[str]) -> None:
    if found:
        pytest.fail("our types differ from the official schema:\n" + "\n".join(found), pytrace=False)


@pytest.mark.parametrize(("version", "file", "stable"), FILES)
def test_types_match_the_official_schema(version: int, file: str, stable: bool) -> None:
    official = set(OfficialSchema(load(version, file)).facts())
    fail_on(differences(official, set(our_facts.facts(stable=stable, version=version)), version))


@pytest.mark.parametrize(("version", "file", "stable"), FILES)
def test_method_table_matches_the_official_schema(version: int, file: str, stable: bool) -> None:
    official = set(OfficialSchema(load(version, file)).method_facts())
    fail_on(differences(official, set(our_facts.method_facts(stable=stable, version=version)), version))


@pytest.mark.parametrize(
    ("definition", "change", "seen"),
    [
        (
            "NewSessionRequest",
            lambda d: d["required"].remove("cwd"),
            "NewSessionRequest.cwd: string, optional",
        ),
        ("Diff", lambda d: d["properties"].pop("oldText"), "extra:   Diff.oldText"),
        (
            "Diff",
            lambda d: d["properties"].update(mode={"type": "integer", "format": "int32"}),
            "Diff.mode: int32",
        ),
        ("Role", lambda d: d["oneOf"].append({"const": "system"}), "Role = one of assistant system user"),
        ("NoticeSeverity", lambda d: d["anyOf"].pop(), "missing: NoticeSeverity = one of error info warning"),
        ("ToolCallLocation", lambda d: d["properties"]["line"].update(minimum=1), "null or 1..4294967295"),
        (
            "ToolCallLocation",
            lambda d: d["properties"]["line"].update(type="integer"),
            "line: uint32, optional",
        ),
        (
            "Plan",
            lambda d: d["properties"]["entries"].pop("x-deserialize-skip-invalid-items"),
            "Plan.entries",
        ),
        ("TextContent", lambda d: d["properties"].pop("_meta"), "extra:   ContentBlock<text>._meta"),
        ("AuthCapabilities", lambda d: d["properties"]["terminal"].update(default=True), "default True"),
        ("ContentBlock", lambda d: d["oneOf"].pop(), "extra:   ContentBlock<resource> is an object"),
        ("McpServer", lambda d: d["anyOf"].pop(), "extra:   McpServer<untagged> is an object"),
        ("StateUpdate", lambda d: d["anyOf"].pop(), "extra:   StateUpdate is open"),
    ],
)
def test_the_comparison_finds_every_kind_of_difference(definition: str, change: Any, seen: str) -> None:
    document = load(1, "schema.unstable.json")
    change(document["$defs"][definition])
    found = differences(set(OfficialSchema(document).facts()), set(our_facts.facts(stable=False)))
    assert any(seen in line for line in found), found
