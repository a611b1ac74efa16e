"""Names, descriptions and secrets of servers, handled without heavy imports."""

import json
import os
import re
import subprocess
import sys
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import JSONRPCError, JSONRPCResponse
from tests.patience import PATIENCE

from accord.coder.mcp.host import FeatureNames
from accord.coder.mcp.server_features import read_object
from accord.coder.mcp.server_interface import Secrets, clean, clean_line, clean_schema, secrets_of_url
from accord.coder.tools.tool import BadArguments

FIT = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
ANY_TEXT = st.text(st.characters(codec=None), max_size=100)


@given(st.lists(st.tuples(ANY_TEXT, ANY_TEXT), unique=True, max_size=20))
def test_tool_names_are_valid_unique_and_stable(
    offers: list[tuple[str, str]],
) -> None:
    names = FeatureNames("__")
    assigned = [names.name_for(*offer) for offer in offers]
    assert all(FIT.fullmatch(name) for name in assigned)
    assert len(set(assigned)) == len(offers)
    assert [names.name_for(*offer) for offer in reversed(offers)] == assigned[::-1]


def test_ordinary_names_are_kept() -> None:
    names = FeatureNames("__")
    assert names.name_for("git", "list-commits") == "git__list-commits"
    assert names.name_for("a__b", "c") == "a__b__c"
    assert re.fullmatch(r"a__b__c_[0-9a-f]{6}", names.name_for("a", "b__c"))
    assert names.name_for("9 lives", "é") == "_9_lives__unnamed"


@given(st.text(st.characters(codec=None)), st.integers(20, 300))
def test_cleaned_text_is_printable_and_bounded(text: str, most: int) -> None:
    line = clean_line(text, most)
    assert len(line) <= most
    assert line.replace("\u200c", "").replace("\u200d", "").isprintable()
    assert len(clean(text, most).encode()) <= 4 * (most + 100)


def test_schemas_become_objects_and_deep_ones_are_refused() -> None:
    assert clean_schema({}, 100) == {"type": "object", "properties": {}}
    deep: dict[str, object] = {}
    for _ in range(500):
        deep = {"properties": {"a": deep}}
    with pytest.raises(ValueError, match="too deep"):
        clean_schema(deep, 100)


def test_alternatives_at_the_top_of_a_schema_become_optional_properties() -> None:
    """Anthropic and OpenAI refuse a whole request for one such tool."""
    text, number = {"type": "string"}, {"type": "number"}
    schema = {
        "$ref": "#/$defs/Place",
        "$defs": {
            "Place": {"properties": {"place": text}, "required": ["place"]},
            "Me": {"allOf": 50 * [{"$ref": "#/$defs/Me"}]},
        },
        "properties": {"a": text},
        "required": ["a", "gone"],
        "anyOf": [
            {"properties": {"b": text, "c": text}, "required": ["b"]},
            {"oneOf": [{"properties": {"c": number}}, True, {"$ref": "#/$defs/Me"}, {"$ref": "x#/$defs/Y"}]},
        ],
        "allOf": [{"required": ["c"]}],
        "not": {"required": ["a", "b"]},
    }
    assert clean_schema(schema, 100) == {
        "type": "object",
        "$defs": schema["$defs"],
        "properties": {"a": text, "place": text, "b": text, "c": {"anyOf": [text, number]}},
        "required": ["a", "place", "c"],
    }
    pair = {"anyOf": [{"required": ["route"]}, {"required": ["file"]}], "properties": {"route": text}}
    assert clean_schema(pair, 100) == {"type": "object", "properties": {"route": text}}


def nested_list(levels: int) -> bytes:
    """An answer to `tools/list` with an ordinary tool and one whose schema nests this deep."""
    deep = b'{"a":' * levels + b"{}" + b"}" * levels
    tools = b'{"name":"deep","inputSchema":%s},{"name":"plain","inputSchema":{"type":"object"}}' % deep
    return b'{"jsonrpc":"2.0","id":3,"result":{"tools":[%s]}}' % tools


def test_a_deep_schema_costs_at_most_its_tool() -> None:
    from accord.coder.mcp.server_transports import read_message

    message = read_message(nested_list(600))
    assert isinstance(message, JSONRPCResponse)
    assert [tool["name"] for tool in message.result["tools"]] == ["deep", "plain"]
    with pytest.raises(ValueError, match="too deep"):
        clean_schema(message.result["tools"][0]["inputSchema"], 100)


def test_an_answer_that_cannot_be_read_fails_its_call_at_once() -> None:
    from accord.coder.mcp.server_transports import read_message

    message = read_message(nested_list(50_000))
    assert isinstance(message, JSONRPCError)
    assert (message.id, message.error.message) == (3, "its answer cannot be read: nested too deep")
    assert read_message(b'{"a":' * 50_000) is None
    assert read_message(b"ready") is None


def test_secrets_are_masked_whole_and_in_parts() -> None:
    secrets = Secrets(
        ["Bearer abcdef123", "x", *secrets_of_url("https://me:passw0rd@h.test/?key=k%20123456&a=1")]
    )
    told = "Bearer abcdef123, abcdef123, passw0rd, k 123456, key=k%20123456&a=1, x"
    assert secrets.masked(told) == "***, ***, ***, ***, ***, x"


DEEP = '{"a":' * 200 + "1" + "}" * 200


@pytest.mark.parametrize(
    "given_arguments", ["[1]", "{", 5, [1], {"a": "\ud800"}, {"a": object()}, DEEP, json.loads(DEEP)]
)
def test_arguments_that_are_not_an_object_are_refused(given_arguments: object) -> None:
    with pytest.raises(BadArguments):
        read_object("t", given_arguments)


def test_host_needs_no_heavy_imports_and_names_the_missing_extra() -> None:
    code = """
        import asyncio, json, sys
        from accord.coder.mcp.host import McpHost
        from accord.schema.mcp import McpServerStdio

        class Hooks:
            def changed(self): pass
            def failed(self, name, why): told.append(why)

        told = []

        async def main():
            host = McpHost([McpServerStdio("a", "x", [], [])], cwd="/", roots=[], hooks=Hooks())
            told.extend(sorted({name.partition(".")[0] for name in sys.modules} & set(sys.argv[1:])))
            sys.modules["mcp"] = None
            host.start()
            await host.wait_started(30)
            await host.aclose()

        asyncio.run(main())
        print(json.dumps(told))
    """
    heavy = ["mcp", "mcp_types", "pydantic", "httpx2", "anyio", "starlette", "jsonschema"]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *heavy],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={"PATH": os.environ["PATH"]},
    )
    assert done.returncode == 0, done.stderr
    missing = (
        "speaking to MCP servers needs the [mcp] extra, which is not installed: pip install 'accord[mcp]'"
    )
    assert json.loads(done.stdout) == [missing]
