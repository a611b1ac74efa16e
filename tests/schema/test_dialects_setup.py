"""Dialects other than updates and permissions: prompts, content, session setup, config, results, method
names.
"""

from typing import Any

import pytest
from tests.schema.repair_checks import method_of, params_after, read_params, read_result, result_after

from accord.schema.codec import read
from accord.schema.content import ContentBlock, PromptResponse
from accord.schema.dialects import (
    DIALECTS,
    final_text,
    repair_params,
    repair_result,
    set_method_of,
    stop_reason_as_sent,
    variables,
)
from accord.schema.initialize import InitializeRequest, InitializeResponse
from accord.schema.methods import ALIASES, METHOD_ALIASES, aliases, notification, request
from accord.schema.session_requests import NewSessionResponse

HI = {"type": "text", "text": "hi"}
SESSION_STARTS = ("session/new", "session/load", "session/resume", "session/fork")


def prompt_after(prompt: Any, *rows: int) -> Any:
    return params_after("session/prompt", {"sessionId": "s", "prompt": prompt}, *rows)["prompt"]


def servers_after(servers: Any, *rows: int) -> Any:
    return params_after("session/new", {"cwd": "/w", "mcpServers": servers}, *rows)["mcpServers"]


# -- prompts and content --


@pytest.mark.dialect(1)
@pytest.mark.parametrize("prompt", ["hi", ["hi"], HI])
def test_a_prompt_as_text_or_as_one_block(prompt: Any):
    assert prompt_after(prompt, 1) == [HI]


@pytest.mark.dialect(1)
def test_a_prompt_of_texts_and_blocks_keeps_its_order():
    assert prompt_after(["a", HI, "b"], 1) == [
        {"type": "text", "text": "a"},
        HI,
        {"type": "text", "text": "b"},
    ]


@pytest.mark.parametrize("prompt", [[{"type": "text"}], [5], 5, None, True])
def test_a_malformed_prompt_is_not_repaired(prompt: Any):
    params = {"sessionId": "s", "prompt": prompt}
    assert repair_params("session/prompt", params) == (params, (), ())


@pytest.mark.dialect(2)
def test_a_timeout_next_to_the_prompt_is_ignored():
    read_params("session/prompt", {"sessionId": "s", "prompt": [HI], "timeoutMs": 60000})


@pytest.mark.dialect(55)
def test_embedded_resources_that_are_flat_or_have_another_tag():
    resource = {"uri": "file:///a", "text": "x", "mimeType": "text/plain"}
    official = [{"type": "resource", "resource": resource}]
    assert prompt_after([{"type": "embedded_resource", "resource": resource}], 55) == official
    assert prompt_after([{"type": "embedded_resource", **resource}], 55) == official
    assert prompt_after([{"type": "resource", **resource}], 55) == official


@pytest.mark.dialect(56)
@pytest.mark.parametrize(
    ("tag", "body", "meant"),
    [
        ("TextContentBlock", {"text": "x"}, "text"),
        ("ImageContentBlock", {"data": "", "mimeType": "image/png"}, "image"),
        ("AudioContentBlock", {"data": "", "mimeType": "audio/wav"}, "audio"),
        ("ResourceContentBlock", {"uri": "file:///a", "name": "a"}, "resource_link"),
        ("EmbeddedResourceContentBlock", {"resource": {"uri": "file:///a", "text": ""}}, "resource"),
    ],
)
def test_class_names_as_block_tags(tag: str, body: dict[str, Any], meant: str):
    assert prompt_after([{"type": tag, **body}], 56) == [{"type": meant, **body}]


@pytest.mark.dialect(57)
@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("file:///home/me/a%20b.py", "a b.py"),
        ("https://h/dir/?q=1/2#x/y", "dir"),
        ("untitled", "untitled"),
        ("///", "///"),
        ("", ""),
    ],
)
def test_a_resource_link_without_a_name_is_named_after_its_uri(uri: str, name: str):
    assert prompt_after([{"type": "resource_link", "uri": uri}], 57)[0]["name"] == name


@pytest.mark.dialect(73)
def test_block_tags_in_camel_case():
    assert prompt_after([{"type": "resourceLink", "uri": "u", "name": "n"}], 73)[0]["type"] == "resource_link"


# -- the end of a turn --


@pytest.mark.dialect(3)
def test_the_final_text_in_the_result_is_kept():
    result = {"sessionId": "s", "stopReason": "end_turn", "content": "all of it"}
    got = read(PromptResponse, result_after("session/prompt", result, 3))
    assert (got.stop_reason, final_text(got)) == ("end_turn", "all of it")
    assert final_text(read(PromptResponse, {"stopReason": "end_turn"})) is None


@pytest.mark.dialect(4)
def test_tool_use_ends_a_turn_and_the_sent_reason_is_kept():
    got = read(PromptResponse, result_after("session/prompt", {"stopReason": "tool_use"}, 4))
    assert (got.stop_reason, stop_reason_as_sent(got)) == ("end_turn", "tool_use")


@pytest.mark.dialect(5)
def test_an_unknown_stop_reason_is_not_repaired():
    result = {"stopReason": "budget"}
    assert repair_result("session/prompt", result) == (result, (), ())
    assert read(PromptResponse, result).stop_reason != "end_turn"


@pytest.mark.dialect(73)
@pytest.mark.parametrize(("sent", "meant"), [("canceled", "cancelled"), ("endTurn", "end_turn")])
def test_stop_reason_spelling(sent: str, meant: str):
    assert result_after("session/prompt", {"stopReason": sent}, 73) == {"stopReason": meant}


@pytest.mark.dialect(65)
def test_usage_in_the_result_is_read():
    usage = {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}
    assert read_result("session/prompt", {"stopReason": "end_turn", "usage": usage}).usage.total_tokens == 3


@pytest.mark.dialect(301)
def test_usage_and_stop_reason_in_snake_case():
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    got = result_after("session/prompt", {"stop_reason": "end_turn", "usage": usage}, 301)
    assert got == {
        "stopReason": "end_turn",
        "usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3},
    }


# -- capabilities --


@pytest.mark.dialect(37)
def test_capabilities_are_the_clients_in_version_1():
    params = {"protocolVersion": 1, "capabilities": {"terminal": True}}
    assert params_after("initialize", params, 37)["clientCapabilities"] == {"terminal": True}
    assert (
        params_after("initialize", {"protocolVersion": 1, "capabilities": {}}, 37)["clientCapabilities"] == {}
    )


@pytest.mark.dialect(37)
@pytest.mark.parametrize(
    "params",
    [
        {"protocolVersion": 2, "capabilities": {"terminal": True}},
        {"protocolVersion": True, "capabilities": {"terminal": True}},
        {"protocolVersion": 1, "clientCapabilities": {}, "capabilities": {"terminal": True}},
        {"protocolVersion": 1, "clientCapabilities": None, "capabilities": {"terminal": True}},
        {"protocolVersion": 1, "capabilities": "all"},
        {"protocolVersion": 1, "_meta": {"clientCapabilities": {"terminal": True}}},
    ],
)
def test_other_capabilities_are_not_moved(params: dict[str, Any]):
    assert repair_params("initialize", params) == (params, (), ())


@pytest.mark.dialect(36)
@pytest.mark.parametrize("key", ["clientCapabilities", "capabilities"])
def test_misspelled_file_capabilities_are_not_supported(key: str):
    params = {"protocolVersion": 1, key: {"fs": {"readFile": True, "write_text_file": True}}}
    offered = read(InitializeRequest, repair_params("initialize", params).value).client_capabilities
    assert offered
    assert offered.fs
    assert not offered.fs.read_text_file
    assert not offered.fs.write_text_file


@pytest.mark.dialect(38, 40)
def test_a_minimal_handshake_is_official_in_both_directions():
    assert not read_params("initialize", {"protocolVersion": 1}).client_capabilities
    assert not read_result("initialize", {"protocolVersion": 1}).agent_info


@pytest.mark.dialect(204)
def test_plan_capabilities():
    params = {"protocolVersion": 1, "clientCapabilities": {"planCapabilities": {}}}
    assert params_after("initialize", params, 204)["clientCapabilities"] == {"plan": {}}


@pytest.mark.dialect(68)
def test_meta_at_the_root_of_the_handshake_is_read():
    result = {"protocolVersion": 1, "_meta": {"agentao.cn": {"ask_user": True}}}
    assert read_result("initialize", result).meta == {"agentao.cn": {"ask_user": True}}


@pytest.mark.dialect(70, 205)
def test_auth_methods_with_no_or_an_unknown_type_belong_to_the_agent():
    methods = [{"id": "a", "name": "A"}, {"id": "b", "name": "B", "type": "env_var", "vars": [{"name": "K"}]}]
    got = read(InitializeResponse, {"protocolVersion": 1, "authMethods": methods}).auth_methods
    assert got
    assert [type(one).__name__ for one in got] == ["AuthMethodAgent", "AuthMethodAgent"]


@pytest.mark.dialect(205)
def test_the_variables_of_an_auth_method_are_kept():
    listed = [{"name": "KEY", "secret": True}, {"label": "no name"}, 5]
    method = {"id": "b", "name": "B", "type": "env_var", "vars": listed}
    result = result_after("initialize", {"protocolVersion": 1, "authMethods": [method]}, 205)
    [got] = read(InitializeResponse, result).auth_methods or []
    assert variables(got) == ["KEY"]
    [plain] = read(InitializeResponse, {"protocolVersion": 1, "authMethods": [method]}).auth_methods or []
    assert variables(plain) is None


@pytest.mark.dialect(73)
def test_auth_methods_with_a_label():
    result = {"protocolVersion": 1, "authMethods": [{"id": "a", "label": "A"}]}
    assert result_after("initialize", result, 73)["authMethods"] == [{"id": "a", "name": "A"}]


@pytest.mark.dialect(207)
def test_the_draft_form_of_auth_status():
    offered = {"protocolVersion": 1, "agentCapabilities": {"auth": {"status": True}}}
    assert result_after("initialize", offered, 207)["agentCapabilities"] == {"auth": {"status": {}}}
    assert result_after("auth/status", {"authenticated": True}, 207)["state"] == "authenticated"
    assert result_after("auth/status", {"authenticated": False}, 207)["state"] == "unauthenticated"
    both = {"state": "unauthenticated", "authenticated": True}
    assert repair_result("auth/status", both) == (both, (), ())


# -- sessions and MCP servers --


@pytest.mark.dialect(32)
def test_missing_mcp_servers_read_as_an_empty_list():
    assert params_after("session/new", {"cwd": "/w"}, 32)["mcpServers"] == []
    assert params_after("session/load", {"sessionId": "s", "cwd": "/w"}, 32)["mcpServers"] == []
    params_after("session/resume", {"sessionId": "s", "cwd": "/w"})


@pytest.mark.dialect(33)
def test_mcp_servers_as_a_map():
    server = {"command": "/bin/db", "args": [], "env": []}
    assert servers_after({"db": server}, 33) == [{"name": "db", **server}]
    assert servers_after({}, 33) == []


@pytest.mark.dialect(33)
@pytest.mark.parametrize("servers", [{"db": 5}, {"db": None, "x": {}}, "x", 5, [5]])
def test_invalid_mcp_servers_are_not_repaired(servers: Any):
    params = {"cwd": "/w", "mcpServers": servers}
    assert repair_params("session/new", params) == (params, (), ())


@pytest.mark.dialect(34)
def test_the_server_type_stdio_is_official_and_is_dropped_during_repair():
    server = {"type": "stdio", "name": "db", "command": "/bin/db", "args": [], "env": []}
    read_params("session/new", {"cwd": "/w", "mcpServers": [server]})
    [got] = servers_after([server | {"env": {}}], 34, 35)
    assert "type" not in got


@pytest.mark.dialect(35)
def test_env_and_headers_as_maps_or_missing():
    stdio = {"name": "db", "command": "/bin/db", "args": []}
    pairs = [{"name": "K", "value": "V"}]
    assert servers_after([stdio | {"env": {"K": "V"}}], 35) == [stdio | {"env": pairs}]
    assert servers_after([stdio], 35) == [stdio | {"env": []}]
    assert servers_after([{"name": "db", "command": "/bin/db"}], 35) == [stdio | {"env": []}]
    http = {"type": "http", "name": "web", "url": "https://h"}
    assert servers_after([http | {"headers": {"K": "V"}}], 35) == [http | {"headers": pairs}]
    assert servers_after([http], 35) == [http | {"headers": []}]
    terminal = {"sessionId": "s", "command": "env", "env": {"K": "V"}}
    assert params_after("terminal/create", terminal, 35)["env"] == pairs


@pytest.mark.dialect(35)
def test_an_env_with_non_text_values_is_not_repaired():
    params = {"sessionId": "s", "command": "env", "env": {"PORT": 80}}
    assert repair_params("terminal/create", params) == (params, (), ())


@pytest.mark.dialect(74)
def test_servers_and_providers_identified_by_id():
    server = {"type": "acp", "name": "ide", "id": "srv"}
    assert servers_after([server], 74) == [{"type": "acp", "name": "ide", "serverId": "srv"}]
    assert params_after("providers/disable", {"id": "main"}, 74) == {"providerId": "main"}
    setting = {"id": "main", "apiType": "openai", "baseUrl": "https://h"}
    assert params_after("providers/set", setting, 74)["providerId"] == "main"
    info = {"id": "main", "supported": ["openai"], "required": True}
    assert result_after("providers/list", {"providers": [info]}, 74)["providers"][0]["providerId"] == "main"


@pytest.mark.dialect(42)
@pytest.mark.parametrize("method", SESSION_STARTS)
def test_a_models_object_becomes_a_select_option(method: str):
    models = {
        "currentModelId": "m1",
        "availableModels": [
            {"modelId": "m1", "name": "M1"},
            {"modelId": "m2", "name": "M2", "description": "d"},
        ],
    }
    got = result_after(method, {"sessionId": "s", "models": models}, 42)
    [option] = read(NewSessionResponse, got).config_options or []
    assert (option.id, option.category, option.current_value) == ("model", "model", "m1")
    assert set_method_of(option) == "session/set_model"
    assert got["configOptions"][0]["options"] == [
        {"value": "m1", "name": "M1"},
        {"value": "m2", "name": "M2", "description": "d"},
    ]


@pytest.mark.dialect(42)
def test_an_official_model_option_wins_over_models():
    option = {
        "id": "x",
        "name": "X",
        "category": "model",
        "type": "select",
        "currentValue": "a",
        "options": [],
    }
    result = {"sessionId": "s", "configOptions": [option], "models": {"currentModelId": "m1"}}
    assert repair_result("session/new", result) == (result, (), ())
    other = {"id": "auto", "name": "Auto", "type": "boolean", "currentValue": True}
    beside = {"sessionId": "s", "configOptions": [other], "models": {"currentModelId": "m1"}}
    got = result_after("session/new", beside, 42)["configOptions"]
    assert [one["id"] for one in got] == ["auto", "model"]
    assert set_method_of(read(NewSessionResponse, result).config_options[0]) is None  # type: ignore[index]


@pytest.mark.dialect(47)
def test_grouped_choices_without_names():
    option = {
        "id": "model",
        "name": "Model",
        "type": "select",
        "currentValue": "a",
        "options": [{"group": "g", "name": "G", "options": [{"value": "a"}]}],
    }
    [got] = result_after("session/new", {"sessionId": "s", "configOptions": [option]}, 47)["configOptions"]
    assert got["options"][0]["options"] == [{"value": "a", "name": "a"}]


@pytest.mark.dialect(44)
def test_config_set_and_booleans_without_a_type():
    assert METHOD_ALIASES["config/set"] == "session/set_config_option"
    params = {"sessionId": "s", "configId": "auto", "value": True}
    assert params_after("config/set", params, 44) == params | {"type": "boolean"}
    plain = {"sessionId": "s", "configId": "model", "value": "m1"}
    assert params_after("config/set", plain) == plain


@pytest.mark.dialect(44)
@pytest.mark.parametrize("result", [{}, None])
def test_an_empty_answer_to_a_setting_gives_an_empty_option_list(result: Any):
    assert result_after("session/set_config_option", result, 44) == {"configOptions": []}


@pytest.mark.dialect(44)
@pytest.mark.parametrize("value", [5, None, ["x"], {"type": "boolean"}])
def test_other_config_values_are_not_repaired(value: Any):
    params = {"sessionId": "s", "configId": "auto", "value": value}
    assert repair_params("session/set_config_option", params) == (params, (), ())


@pytest.mark.dialect(49, 51)
def test_extra_members_in_the_set_mode_answer_are_ignored():
    read_result("session/set_mode", {"modeId": "code", "meta": {"x": 1}})


@pytest.mark.dialect(103, 104)
def test_null_is_an_empty_result_only_for_methods_without_one():
    for method in (
        "fs/write_text_file",
        "terminal/kill",
        "session/close",
        "session/set_mode",
        "authenticate",
    ):
        assert result_after(method, None, 103) == {}
    assert result_after("session/load", None, 104) == {}
    assert result_after("session/resume", None, 104) == {}
    for method in ("session/new", "session/prompt", "fs/read_text_file", "terminal/create"):
        assert repair_result(method, None) == (None, (), ())


@pytest.mark.dialect(115)
def test_an_unknown_format_in_a_form_is_kept_in_meta():
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "format": "uuid"}, "b": {"type": "string", "format": "uri"}},
    }
    params = {"sessionId": "s", "mode": "form", "message": "?", "requestedSchema": schema}
    fields = params_after("elicitation/create", params, 115)["requestedSchema"]["properties"]
    assert fields["a"] == {"type": "string", "_meta": {"accord/formatAsSent": "uuid"}}
    assert fields["b"] == {"type": "string", "format": "uri"}


@pytest.mark.dialect(53)
def test_errors_may_carry_any_data():
    from accord.errors import InvalidParams, RpcError

    error = RpcError.of(-32602, "Invalid params", {"session_id": "Session not found"})
    assert isinstance(error, InvalidParams)
    assert error.data == {"session_id": "Session not found"}


@pytest.mark.dialect(301)
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/prompt", {"session_id": "s", "prompt": [HI]}),
        ("session/set_mode", {"session_id": "s", "mode_id": "m"}),
        ("session/cancel", {"session_id": "s"}),
        ("session/load", {"session_id": "s", "cwd": "/w", "mcp_servers": []}),
        ("fs/read_text_file", {"session_id": "s", "path": "/a"}),
        ("terminal/output", {"session_id": "s", "terminal_id": "t"}),
        ("authenticate", {"method_id": "login"}),
        ("elicitation/complete", {"elicitation_id": "e"}),
    ],
)
def test_snake_case_parameters(method: str, params: dict[str, Any]):
    params_after(method, params, 301)


@pytest.mark.dialect(301)
@pytest.mark.parametrize(
    ("method", "result"),
    [
        ("initialize", {"protocol_version": 1, "agent_capabilities": {"loadSession": True}}),
        ("session/new", {"session_id": "s"}),
        ("terminal/create", {"terminal_id": "t"}),
    ],
)
def test_snake_case_results(method: str, result: dict[str, Any]):
    result_after(method, result, 301)


# -- method names --


@pytest.mark.dialect(21, 43, 44, 201, 202, 203, 206, 208)
def test_every_alias_maps_to_a_method_of_its_side():
    for alias in ALIASES:
        if alias.sent == alias.method:
            assert notification(alias.side, alias.method)  # the same name, in the other kind of message
            continue
        table = request if alias.kind == "request" else notification
        assert table(alias.side, alias.method), alias
        assert not request(alias.side, alias.sent)
        assert not notification(alias.side, alias.sent)
        assert DIALECTS[alias.row].handled in ("alias", "repair")


@pytest.mark.dialect(21, 43, 202, 203, 206, 208)
def test_aliases_by_side_and_kind():
    assert {a.sent for a in aliases("client", "request")} == {"request_permission", "session/elicitation"}
    assert {a.sent for a in aliases("client", "notification")} == {"session/elicitation/complete"}
    assert {a.sent for a in aliases("agent", "notification")} == {"session/cancelled"}
    assert {a.sent for a in aliases("agent", "request")} == {
        "session/cancel",
        "sessions/list",
        "config/set",
        "session/set_model",
        "session/stop",
    }
    assert {a.sent for a in aliases("proxy", "request")} == {"_proxy/initialize", "_proxy/successor"}


@pytest.mark.dialect(30)
def test_a_cancel_may_be_a_request():
    [alias] = [a for a in aliases("agent", "request") if a.row == 30]
    assert (alias.sent, alias.method) == ("session/cancel", "session/cancel")
    assert method_of("session/cancel").kind == "notification"


@pytest.mark.dialect(201)
def test_set_model_sets_the_model_option():
    got = params_after("session/set_model", {"sessionId": "s", "modelId": "m1"}, 201)
    assert got == {"sessionId": "s", "configId": "model", "value": "m1"}


@pytest.mark.dialect(43)
def test_sessions_list_is_an_alias():
    assert params_after("sessions/list", {"cwd": "/w"}) == {"cwd": "/w"}


def test_the_repairs_know_every_content_and_update_tag():
    from accord.schema.dialects.content_repairs import BLOCK_TAGS
    from accord.schema.dialects.update_repairs import UPDATE_TAGS
    from accord.schema.updates import SessionUpdate

    assert {part.__struct_config__.tag for part in ContentBlock.__args__} == BLOCK_TAGS
    assert {part.__struct_config__.tag for part in SessionUpdate.__args__} == UPDATE_TAGS
