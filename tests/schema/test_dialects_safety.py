"""What no repair may do for any input: raise, change its input, change an official message, add a folder."""

import copy
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import repetitions
from tests.schema.repair_checks import method_of

from accord.schema.dialects import DIALECTS, repair_params, repair_result
from accord.schema.message_reader import PARAMS_TELLTALES, RESULT_TELLTALES
from accord.schema.methods import METHODS

NAMES = sorted(
    {method.name for method in METHODS} | {"session/set_model", "config/set", "request_permission", "_x"}
)

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=4)
    | st.sampled_from(
        ["tool_call", "agentMessageChunk", "text", "resource", "select", "file", "http", "selected"]
    )
)
KEYS = st.sampled_from(
    [
        "sessionId",
        "session_id",
        "update",
        "sessionUpdate",
        "session_update",
        "type",
        "kind",
        "content",
        "text",
        "toolCall",
        "toolCallId",
        "id",
        "name",
        "title",
        "label",
        "status",
        "toolName",
        "args",
        "input",
        "raw_input",
        "result",
        "error",
        "options",
        "optionId",
        "permissionId",
        "description",
        "prompt",
        "mcpServers",
        "mcp_servers",
        "env",
        "headers",
        "command",
        "url",
        "configOptions",
        "configId",
        "currentValue",
        "value",
        "models",
        "availableModels",
        "modelId",
        "capabilities",
        "clientCapabilities",
        "protocolVersion",
        "auth",
        "authMethods",
        "plan",
        "planId",
        "entries",
        "outcome",
        "stopReason",
        "usage",
        "requestedSchema",
        "properties",
        "format",
        "_meta",
        "additionalDirectories",
        "additional_directories",
        "resource",
        "uri",
        "modes",
        "availableModes",
        "providers",
        "sessions",
        "exitStatus",
        "authenticated",
        "state",
        "summary",
    ]
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=25,
)


@settings(max_examples=repetitions(300))
@given(st.sampled_from(NAMES), JSON)
def test_repairs_neither_raise_nor_change_their_input(method: str, value: Any):
    before = copy.deepcopy(value)
    params = repair_params(method, value)
    result = repair_result(method, value, value)
    assert value == before
    for repaired in (params, result):
        assert set(repaired.rows) <= set(DIALECTS)
        json.dumps([repaired.value, *repaired.more])
        if not repaired.rows:
            assert not repaired.more
    if not params.rows and value is not None:
        assert params.value is value


@settings(max_examples=repetitions(300))
@given(st.sampled_from(NAMES), JSON)
def test_repairs_are_idempotent(method: str, value: Any):
    once = repair_params(method, value)
    for params in (once.value, *once.more):
        again = repair_params(
            "session/set_config_option" if method == "session/set_model" else method, params
        )
        assert again == (params if params is not None else {}, (), ())


def additional_directories_in(value: Any) -> list[Any]:
    if isinstance(value, dict):
        own = [value["additionalDirectories"]] if "additionalDirectories" in value else []
        return own + [root for part in value.values() for root in additional_directories_in(part)]
    return (
        [root for part in value for root in additional_directories_in(part)]
        if isinstance(value, list)
        else []
    )


@given(st.sampled_from([name for name in NAMES if name.startswith("session/")]), JSON)
def test_no_repair_adds_additional_directories(method: str, value: Any):
    sent = additional_directories_in(value)
    for repaired in (repair_params(method, value), repair_result(method, value)):
        if isinstance(repaired.value, dict) and not isinstance(value, list):
            assert all(root in sent for root in additional_directories_in(repaired.value))


@pytest.mark.parametrize("method", ["session/new", "session/load", "session/resume", "session/fork"])
@pytest.mark.parametrize(
    "roots", [{"additional_directories": ["/"]}, {"_meta": {"additionalDirectories": ["/"]}}]
)
def test_additional_directories_under_another_key_are_ignored(method: str, roots: dict[str, Any]):
    params = {"session_id": "s", "cwd": "/w", **roots}
    got = repair_params(method, params)
    assert got.rows
    assert "additionalDirectories" not in got.value


@pytest.mark.parametrize("roots", ["/x", ["x", 1], {"a": "/x"}, 5])
def test_malformed_additional_directories_are_not_repaired(roots: Any):
    params = {"cwd": "/w", "additionalDirectories": roots}
    assert repair_params("session/new", params).value["additionalDirectories"] == roots


def test_paths_are_never_changed():
    for method in ("fs/read_text_file", "fs/write_text_file"):
        params = {"session_id": "s", "path": "../x", "file_path": "/etc/passwd"}
        assert repair_params(method, params).value == {
            "sessionId": "s",
            "path": "../x",
            "file_path": "/etc/passwd",
        }


@pytest.mark.parametrize(
    "answer", [{"action": "accepted"}, {"action": "Accept"}, {"outcome": "accept"}, "accept", True]
)
def test_an_elicitation_answer_is_never_repaired(answer: Any):
    assert repair_result("elicitation/create", answer) == (answer, (), ())


def test_deeply_nested_input_is_kept():
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    params = {"session_id": "s", "toolCall": {"input": deep}, "options": []}
    got = repair_params("session/request_permission", params)
    assert got.value["toolCall"]["rawInput"] is deep


OFFICIAL = """
initialize > {"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true},"terminal":true},\
"clientInfo":{"name":"c","version":"1"}}
initialize < {"protocolVersion":1,"agentCapabilities":{"loadSession":true,"auth":{"logout":{}}},\
"authMethods":[{"id":"login","name":"Sign in"}]}
session/new > {"cwd":"/w","mcpServers":[{"name":"db","command":"/bin/db","args":[],"env":[{"name":"K",\
"value":"V"}]},{"type":"http","name":"web","url":"https://h","headers":[]}]}
session/new < {"sessionId":"s","modes":{"currentModeId":"a","availableModes":[{"id":"a","name":"A"}]},\
"configOptions":[{"id":"m","name":"M","category":"model","type":"select","currentValue":"x",\
"options":[{"group":"g","name":"G","options":[{"value":"x","name":"X"}]}]},{"id":"b","name":"B",\
"type":"boolean","currentValue":false}]}
session/prompt > {"sessionId":"s","prompt":[{"type":"text","text":"hi"},{"type":"resource_link",\
"uri":"file:///a","name":"a"},{"type":"resource","resource":{"uri":"file:///b","text":"x"}}]}
session/prompt < {"stopReason":"end_turn","usage":{"totalTokens":3,"inputTokens":1,"outputTokens":2}}
session/update > {"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","messageId":"m",\
"content":{"type":"text","text":"hi"}}}
session/update > {"sessionId":"s","update":{"sessionUpdate":"plan","entries":[{"content":"x",\
"priority":"high","status":"in_progress"}]}}
session/update > {"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"c","title":"T",\
"name":"n","kind":"edit","status":"pending","locations":[{"path":"/a","line":3}],"rawInput":{"raw_input":1},\
"content":[{"type":"diff","path":"/a","oldText":"a","newText":"b"}]}}
session/update > {"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":"c",\
"status":"completed","content":[{"type":"content","content":{"type":"text","text":"done"}}]}}
session/update > {"sessionId":"s","update":{"sessionUpdate":"plan_update","plan":{"type":"markdown",\
"planId":"p","content":"#"}}}
session/update > {"sessionId":"s","update":{"sessionUpdate":"subagent_update","sessionId":"s2",\
"state":{"state":"running"},"cwd":"/w"}}
session/update > {"sessionId":"s","update":{"sessionUpdate":"compaction_update","compactionId":"k",\
"status":"cancelled"}}
session/request_permission > {"sessionId":"s","toolCall":{"toolCallId":"c","rawInput":{"input":1}},\
"options":[{"optionId":"y","name":"Allow","kind":"allow_once"}]}
session/request_permission < {"outcome":{"outcome":"selected","optionId":"y"}}
session/request_permission < {"outcome":{"outcome":"cancelled"}}
session/set_config_option > {"sessionId":"s","configId":"auto","type":"boolean","value":true}
session/list < {"sessions":[{"sessionId":"s","cwd":"/w","title":"T","updatedAt":"2026-01-01T00:00:00Z"}],\
"nextCursor":"x"}
terminal/create > {"sessionId":"s","command":"npm","args":["test"],"env":[{"name":"CI","value":"1"}],\
"cwd":"/w","outputByteLimit":65536}
terminal/output < {"output":"...","truncated":false,"exitStatus":{"exitCode":null,"signal":"SIGKILL"}}
elicitation/create > {"sessionId":"s","mode":"form","message":"?","requestedSchema":{"type":"object",\
"properties":{"how":{"type":"string","format":"email"}}}}
providers/list < {"providers":[{"providerId":"main","supported":["openai"],"required":true,\
"current":{"apiType":"openai","baseUrl":"https://h"}}]}
"""


@pytest.mark.parametrize("line", OFFICIAL.strip().splitlines())
def test_an_official_message_needs_no_repair(line: str):
    found = re.fullmatch(r"(\S+) ([<>]) (.*)", line)
    assert found
    method, direction, value = found[1], found[2], json.loads(found[3])
    repair = repair_params if direction == ">" else repair_result
    assert repair(method, value) == (value, (), ())
    assert method_of(method)


def test_the_table_describes_every_row():
    assert set(range(1, 75)) <= set(DIALECTS)
    assert str(DIALECTS[7]) == "row 7: update.type instead of update.sessionUpdate"
    for row in DIALECTS.values():
        assert row.text
        assert row.action
        assert row.handled in ("repair", "alias", "official", "behaviour")


def test_telltales_are_not_searched_on_hot_paths():
    looked_at = set(PARAMS_TELLTALES) | set(RESULT_TELLTALES)
    assert not looked_at & {"session/update", "fs/read_text_file", "fs/write_text_file", "terminal/output"}
