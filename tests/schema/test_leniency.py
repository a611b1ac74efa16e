"""Which malformed fields a reader accepts and which it rejects, as annotated in the schema."""

import json
from typing import Any

import pytest

from accord.schema import (
    UNSET,
    AgentMessageChunk,
    AuthMethodAgent,
    AuthMethodTerminal,
    ClientCapabilities,
    CompactionUpdate,
    ConfigOptionUpdate,
    CreateTerminalRequest,
    Diff,
    FileSystemCapabilities,
    InitializeRequest,
    InitializeResponse,
    ListSessionsRequest,
    ListSessionsResponse,
    LoadSessionRequest,
    McpServerHttp,
    McpServerStdio,
    NewSessionRequest,
    NewSessionResponse,
    Notice,
    Plan,
    PlanEntry,
    PromptRequest,
    PromptResponse,
    ReadTextFileRequest,
    RequestPermissionRequest,
    RequestPermissionResponse,
    ResumeSessionRequest,
    SessionConfigBoolean,
    SessionInfo,
    SessionMode,
    SessionModeState,
    SessionNotification,
    SetProviderRequest,
    SetSessionConfigOptionRequest,
    SubagentUpdate,
    TextContent,
    ToolCall,
    ToolCallChange,
    ToolCallLocation,
    Unknown,
    Usage,
)
from accord.schema.base import Mismatch
from accord.schema.codec import decode


def received(cls: Any, **members: Any) -> Any:
    return decode(cls, json.dumps(members).encode())


def rejected(cls: Any, **members: Any) -> str:
    with pytest.raises(Mismatch) as failure:
        received(cls, **members)
    return str(failure.value)


def updated(**update: Any) -> Any:
    return received(SessionNotification, sessionId="s", update=update).update


STDIO = {"name": "db", "command": "/bin/db", "args": [], "env": []}
HTTP = {"type": "http", "name": "web", "url": "https://h", "headers": []}


class TestInvalidOptionalFieldsAreAbsent:
    @pytest.mark.rule("tool-call.unknown-kind")
    def test_kind_and_status_of_a_tool_call(self) -> None:
        call = updated(sessionUpdate="tool_call", toolCallId="c", title="Look", kind="file", status="weird")
        assert call == ToolCall("c", "Look")

    @pytest.mark.rule("tool-call.unknown-kind")
    def test_kind_and_status_of_a_change(self) -> None:
        change = updated(
            sessionUpdate="tool_call_update", toolCallId="c", kind=5, status="weird", title="Look"
        )
        assert change == ToolCallChange("c", title="Look")

    @pytest.mark.rule("extension.agent-malformed-meta", "extension.client-malformed-meta")
    @pytest.mark.parametrize("meta", ["x", [], 5, True])
    def test_a_malformed_meta(self, meta: Any) -> None:
        chunk = {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": "hi", "_meta": meta},
        }
        assert updated(**chunk, _meta=meta) == AgentMessageChunk(TextContent("hi"))
        assert received(NewSessionRequest, cwd="/", mcpServers=[], _meta=meta) == NewSessionRequest("/", [])

    def test_null_for_a_plain_value_is_absent(self) -> None:
        call = updated(sessionUpdate="tool_call", toolCallId="c", title="t", kind=None, content=None)
        assert call == ToolCall("c", "t")

    def test_null_stays_null_where_it_is_allowed(self) -> None:
        change = updated(sessionUpdate="tool_call_update", toolCallId="c", kind=None, content=None)
        assert change == ToolCallChange("c", kind=None, content=None)

    @pytest.mark.rule("initialize.agent-malformed-capability")
    def test_capabilities_of_the_client(self) -> None:
        assert received(InitializeRequest, protocolVersion=1, clientCapabilities=False) == InitializeRequest(
            1
        )
        capabilities = {"fs": {"readTextFile": "yes", "writeTextFile": True}, "terminal": 1}
        request = received(InitializeRequest, protocolVersion=1, clientCapabilities=capabilities)
        assert request.client_capabilities == ClientCapabilities(
            fs=FileSystemCapabilities(write_text_file=True)
        )

    @pytest.mark.rule("initialize.client-malformed-capability")
    def test_capabilities_of_the_agent(self) -> None:
        capabilities = {"loadSession": "yes", "sessionCapabilities": False, "auth": {"logout": {}}}
        answer = received(InitializeResponse, protocolVersion=1, agentCapabilities=capabilities)
        assert answer.agent_capabilities.load_session is UNSET
        assert answer.agent_capabilities.session_capabilities is UNSET
        assert answer.agent_capabilities.auth.logout is not UNSET

    def test_a_number_out_of_range(self) -> None:
        assert received(ToolCallLocation, path="/a", line=-1) == ToolCallLocation("/a")
        assert received(ToolCallLocation, path="/a", line=2**32) == ToolCallLocation("/a")

    def test_an_incomplete_object(self) -> None:
        answer = received(PromptResponse, stopReason="end_turn", usage={"totalTokens": 3})
        assert answer == PromptResponse("end_turn")

    def test_the_modes_of_a_session(self) -> None:
        assert received(NewSessionResponse, sessionId="s", modes="all") == NewSessionResponse("s")


class TestListsSkipInvalidItems:
    @pytest.mark.rule("tool-call.invalid-content-item")
    def test_content_and_locations_of_a_tool_call(self) -> None:
        content = [{"type": "x"}, "text", {"type": "diff", "path": "/a", "newText": "n"}, None]
        call = updated(sessionUpdate="tool_call", toolCallId="c", title="t", content=content, locations=[1])
        assert call.content == [Diff("/a", "n")]
        assert call.locations == []

    def test_an_entry_with_an_unknown_priority(self) -> None:
        good = {"content": "b", "priority": "low", "status": "pending"}
        plan = updated(sessionUpdate="plan", entries=[{**good, "priority": "urgent"}, good])
        assert plan == Plan([PlanEntry("b", "low", "pending")])

    @pytest.mark.rule("option.unknown-type")
    def test_a_config_option_of_an_unknown_type(self) -> None:
        slider = {"id": "v", "name": "Volume", "type": "slider", "currentValue": 3}
        switch = {"id": "a", "name": "Auto", "type": "boolean", "currentValue": True}
        update = updated(sessionUpdate="config_option_update", configOptions=[slider, switch])
        assert update == ConfigOptionUpdate([SessionConfigBoolean("a", "Auto", True)])

    def test_required_lenient_lists_read_as_empty(self) -> None:
        assert updated(sessionUpdate="plan", entries="none") == Plan([])
        assert updated(sessionUpdate="config_option_update", configOptions=None) == ConfigOptionUpdate([])
        assert received(ListSessionsResponse, sessions={}) == ListSessionsResponse([])
        assert received(
            SessionModeState, currentModeId="a", availableModes=[{"id": "a", "name": "A"}, {}]
        ) == (SessionModeState("a", [SessionMode("a", "A")]))

    def test_required_lenient_lists_must_be_present(self) -> None:
        assert "entries is missing" in rejected(
            SessionNotification, sessionId="s", update={"sessionUpdate": "plan"}
        )
        assert "sessions is missing" in rejected(ListSessionsResponse)

    def test_the_directories_of_a_listed_session(self) -> None:
        info = received(SessionInfo, sessionId="s", cwd="/a", additionalDirectories=["/b", 5])
        assert info.additional_directories == ["/b"]


class TestFieldsThatAcceptOnlyNull:
    @pytest.mark.rule("session.null-reads-as-empty")
    @pytest.mark.parametrize("cls", [NewSessionRequest, LoadSessionRequest, ResumeSessionRequest])
    def test_null_for_servers_and_directories_is_empty(self, cls: Any) -> None:
        session = {} if cls is NewSessionRequest else {"sessionId": "s"}
        request = received(cls, cwd="/", mcpServers=None, additionalDirectories=None, **session)
        assert not request.mcp_servers
        assert not request.additional_directories

    @pytest.mark.rule("session.null-reads-as-empty")
    def test_null_inside_a_server_is_empty(self) -> None:
        servers = [{**STDIO, "args": None, "env": None}, {**HTTP, "headers": None}]
        request = received(NewSessionRequest, cwd="/", mcpServers=servers)
        assert request.mcp_servers == [
            McpServerStdio("db", "/bin/db", [], []),
            McpServerHttp("web", "https://h", []),
        ]

    @pytest.mark.rule("session.mcp-servers-invalid-refused")
    @pytest.mark.parametrize(
        "servers", ["x", {}, 5, [{"name": "a"}], [5], [None], [STDIO, {**STDIO, "args": [1]}]]
    )
    @pytest.mark.parametrize("cls", [NewSessionRequest, LoadSessionRequest, ResumeSessionRequest])
    def test_any_other_value_for_servers_fails(self, cls: Any, servers: Any) -> None:
        assert "mcpServers" in rejected(cls, sessionId="s", cwd="/", mcpServers=servers)

    @pytest.mark.rule("session.roots-invalid-on-load")
    @pytest.mark.parametrize("directories", ["x", [5], {}, ["/a", None]])
    @pytest.mark.parametrize("cls", [NewSessionRequest, LoadSessionRequest, ResumeSessionRequest])
    def test_any_other_value_for_directories_fails(self, cls: Any, directories: Any) -> None:
        reason = rejected(cls, sessionId="s", cwd="/", mcpServers=[], additionalDirectories=directories)
        assert "additionalDirectories" in reason

    @pytest.mark.rule("terminal.create-null-params")
    def test_null_in_a_terminal_is_the_default(self) -> None:
        request = received(
            CreateTerminalRequest,
            sessionId="s",
            command="ls",
            args=None,
            env=None,
            cwd=None,
            outputByteLimit=None,
        )
        assert not any((request.args, request.env, request.cwd, request.output_byte_limit))

    @pytest.mark.rule("terminal.create-invalid-params")
    @pytest.mark.parametrize(
        "wrong",
        [
            {"args": "x"},
            {"args": [1]},
            {"env": {}},
            {"env": [{"name": "A"}]},
            {"cwd": 5},
            {"outputByteLimit": "1"},
        ],
    )
    def test_any_other_value_in_a_terminal_fails(self, wrong: dict[str, Any]) -> None:
        assert f"$.{next(iter(wrong))}" in rejected(
            CreateTerminalRequest, sessionId="s", command="ls", **wrong
        )


class TestStrictFields:
    @pytest.mark.rule("framing.agent-invalid-params", "framing.client-invalid-params")
    @pytest.mark.parametrize(
        ("cls", "members", "missing"),
        [
            (PromptRequest, {"sessionId": "s"}, "prompt"),
            (NewSessionRequest, {"mcpServers": []}, "cwd"),
            (NewSessionRequest, {"cwd": "/"}, "mcpServers"),
            (ReadTextFileRequest, {"sessionId": "s"}, "path"),
        ],
    )
    def test_a_missing_member_fails(self, cls: Any, members: dict[str, Any], missing: str) -> None:
        assert rejected(cls, **members) == f"$: {missing} is missing"

    @pytest.mark.rule("file.invalid-line-or-limit")
    @pytest.mark.parametrize(
        "wrong", [{"line": "2"}, {"limit": -1}, {"limit": 1.5}, {"line": True}, {"line": 2**32}]
    )
    def test_lines_of_a_file(self, wrong: dict[str, Any]) -> None:
        assert f"$.{next(iter(wrong))}" in rejected(ReadTextFileRequest, sessionId="s", path="/a", **wrong)

    def test_lines_of_a_file_may_be_null(self) -> None:
        request = received(ReadTextFileRequest, sessionId="s", path="/a", line=None, limit=3)
        assert request == ReadTextFileRequest("s", "/a", None, 3)

    @pytest.mark.rule("initialize.invalid-version")
    @pytest.mark.parametrize("version", ["1", True, 1.5, 70000, -1, None, [1]])
    def test_the_protocol_version(self, version: Any) -> None:
        assert "protocolVersion" in rejected(InitializeRequest, protocolVersion=version)

    @pytest.mark.parametrize("wrong", [{"cwd": 5}, {"cursor": 5}, {"archived": 5}])
    def test_the_filters_of_a_list(self, wrong: dict[str, Any]) -> None:
        assert f"$.{next(iter(wrong))}" in rejected(ListSessionsRequest, **wrong)

    def test_the_system_prompt(self) -> None:
        assert "systemPrompt" in rejected(NewSessionRequest, cwd="/", mcpServers=[], systemPrompt="be brief")

    def test_the_headers_of_a_provider(self) -> None:
        members = {"providerId": "p", "apiType": "openai", "baseUrl": "u"}
        assert "headers" in rejected(SetProviderRequest, **members, headers=[])
        assert received(SetProviderRequest, **members, headers={"A": "b"}).headers == {"A": "b"}

    def test_the_roots_of_a_child_session(self) -> None:
        members = {"sessionUpdate": "subagent_update", "sessionId": "c"}
        for wrong in ({"cwd": 5}, {"additionalDirectories": ["/a", 5]}):
            assert "$.update" in rejected(SessionNotification, sessionId="s", update={**members, **wrong})
        assert updated(**members, title=5) == SubagentUpdate("c")

    @pytest.mark.parametrize("prompt", ["hi", [{"type": "text"}], [{"type": "hologram"}], ["hi"], None])
    def test_a_prompt(self, prompt: Any) -> None:
        assert "$.prompt" in rejected(PromptRequest, sessionId="s", prompt=prompt)

    @pytest.mark.parametrize(
        "option",
        [{"optionId": "y", "name": "Yes", "kind": "allow"}, {"optionId": "y", "kind": "allow_once"}, "yes"],
    )
    def test_the_options_of_a_permission_request(self, option: Any) -> None:
        good = {"optionId": "n", "name": "No", "kind": "reject_once"}
        call = {"toolCallId": "c"}
        reason = rejected(RequestPermissionRequest, sessionId="s", toolCall=call, options=[good, option])
        assert "$.options[1]" in reason

    @pytest.mark.parametrize(
        "outcome",
        ["allowed", {"outcome": "approved"}, {"outcome": "selected"}, {"optionId": "y"}, None, True],
    )
    def test_a_permission_outcome_is_never_guessed(self, outcome: Any) -> None:
        assert "$.outcome" in rejected(RequestPermissionResponse, outcome=outcome)

    def test_token_counts(self) -> None:
        counts = {"totalTokens": 2**64 - 1, "inputTokens": 2**63, "outputTokens": 0}
        assert received(Usage, **counts) == Usage(2**64 - 1, 2**63, 0)
        assert "uint64" in rejected(Usage, **{**counts, "totalTokens": 2**64})
        assert "$.inputTokens" in rejected(Usage, **{**counts, "inputTokens": -1})

    def test_a_float_without_a_fraction_is_an_integer(self) -> None:
        counts = received(Usage, totalTokens=3.0, inputTokens=2, outputTokens=1)
        assert counts.total_tokens == 3
        assert isinstance(counts.total_tokens, int)


class TestUnknownVariants:
    @pytest.mark.rule("extension.unknown-update")
    def test_an_unknown_update_is_kept(self) -> None:
        update = {"sessionUpdate": "zzz", "answer": 42}
        assert updated(**update) == Unknown("zzz", update)
        assert updated(sessionUpdate="agent_message_chunk", content={"type": "text", "text": "on"}) == (
            AgentMessageChunk(TextContent("on"))
        )

    def test_an_update_without_a_tag_is_rejected(self) -> None:
        assert "sessionUpdate is missing" in rejected(
            SessionNotification, sessionId="s", update={"type": "plan"}
        )
        assert "$.update" in rejected(SessionNotification, sessionId="s", update={"sessionUpdate": 5})
        assert "$.update" in rejected(SessionNotification, sessionId="s", update=[])

    def test_unknown_content_rejects_the_update(self) -> None:
        chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "hologram"}}
        assert "unknown variant 'hologram'" in rejected(SessionNotification, sessionId="s", update=chunk)

    def test_an_unknown_stop_reason_is_kept(self) -> None:
        assert received(PromptResponse, stopReason="tool_use").stop_reason == Unknown("tool_use", "tool_use")
        assert "stopReason" in rejected(PromptResponse, stopReason=5)

    @pytest.mark.rule("notice.unknown-severity", "compaction.unknown-status")
    def test_open_values_are_kept(self) -> None:
        assert updated(sessionUpdate="notice", severity="_x", title="t") == Notice("_x", "t")
        compaction = updated(sessionUpdate="compaction_update", compactionId="k", status="_x")
        assert compaction == CompactionUpdate("k", "_x")

    def test_a_notice_needs_a_title(self) -> None:
        notice = {"sessionUpdate": "notice", "severity": "info", "title": ""}
        assert "must not be empty" in rejected(SessionNotification, sessionId="s", update=notice)

    @pytest.mark.parametrize("kind", ["stdio", "websocket", None, 5])
    def test_any_other_server_type_is_read_as_stdio(self, kind: Any) -> None:
        request = received(NewSessionRequest, cwd="/", mcpServers=[{"type": kind, **STDIO}])
        assert request.mcp_servers == [McpServerStdio("db", "/bin/db", [], [])]
        web = {**HTTP, "type": kind}
        assert "command is missing" in rejected(NewSessionRequest, cwd="/", mcpServers=[web])

    def test_a_known_server_type_is_never_read_as_stdio(self) -> None:
        assert "url is missing" in rejected(
            NewSessionRequest, cwd="/", mcpServers=[{**STDIO, "type": "http"}]
        )

    @pytest.mark.rule("auth.method-without-type")
    @pytest.mark.parametrize("kind", [{}, {"type": "agent"}, {"type": "env_var"}, {"type": None}])
    def test_any_auth_method_but_terminal_belongs_to_the_agent(self, kind: dict[str, Any]) -> None:
        methods = [{"id": "a", "name": "A", **kind}]
        answer = received(InitializeResponse, protocolVersion=1, authMethods=methods)
        assert answer.auth_methods == [AuthMethodAgent("a", "A")]

    @pytest.mark.rule("auth.invalid-terminal-method")
    @pytest.mark.parametrize(
        "wrong", [{"args": "--login"}, {"args": [1]}, {"env": [{"name": "A", "value": "b"}]}]
    )
    def test_an_invalid_terminal_auth_method_is_skipped(self, wrong: dict[str, Any]) -> None:
        bad = {"type": "terminal", "id": "t", "name": "T", **wrong}
        good = {"type": "terminal", "id": "u", "name": "U", "args": None, "env": {"A": "b"}}
        answer = received(
            InitializeResponse, protocolVersion=1, authMethods=[bad, good, {"id": "a", "name": "A"}]
        )
        assert answer.auth_methods == [
            AuthMethodTerminal("u", "U", env={"A": "b"}),
            AuthMethodAgent("a", "A"),
        ]

    @pytest.mark.rule("option.select-without-type")
    def test_a_config_value_with_an_unknown_type(self) -> None:
        members = {"sessionId": "s", "configId": "model", "value": "m1"}
        expected = SetSessionConfigOptionRequest("s", "model", "m1")
        assert received(SetSessionConfigOptionRequest, **members) == expected
        assert received(SetSessionConfigOptionRequest, **members, type="id") == expected
        assert "needs type 'boolean'" in rejected(SetSessionConfigOptionRequest, **{**members, "value": True})


@pytest.mark.rule("framing.agent-extra-members", "framing.client-extra-members")
def test_unknown_members_are_ignored() -> None:
    assert received(NewSessionRequest, cwd="/", mcpServers=[], zzz=1) == NewSessionRequest("/", [])
    chunk = {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "text", "text": "hi", "zzz": 1},
        "zzz": 1,
    }
    assert updated(**chunk) == AgentMessageChunk(TextContent("hi"))


@pytest.mark.rule("extension.agent-accepts-meta", "extension.client-accepts-meta")
def test_meta_is_kept_at_every_level() -> None:
    meta = {"vendor.example/x": {"deep": [1, None]}}
    chunk = {"sessionUpdate": "agent_message_chunk", "_meta": meta}
    update = updated(**chunk, content={"type": "text", "text": "hi", "_meta": meta})
    assert update == AgentMessageChunk(TextContent("hi", meta=meta), meta=meta)
