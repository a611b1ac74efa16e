"""Sessions between Accord and the official SDKs, both ways: new, settings, list, load, resume, close."""

import pytest
from tests.interop.conversation import SCRIPT, Conversation
from tests.interop.pairs import (
    CONTROLS,
    OFFICIAL_CLIENTS,
    OUR_AGENT,
    OUR_CLIENT,
    OUR_CLIENT_REMOTE,
    OUR_GATEWAY,
    for_pairs,
)

all_pairs = for_pairs(OUR_CLIENT, OUR_CLIENT_REMOTE, OUR_GATEWAY, OUR_AGENT, CONTROLS)


@all_pairs
@pytest.mark.rule("initialize.version-returned", "initialize.agent-info", "auth.method-ids")
def test_initialize_agrees_on_version_1_and_names_the_agent(conversation: Conversation) -> None:
    [reported] = conversation.scenario("initialize").answers("initialize")
    assert reported["protocolVersion"] == 1
    assert reported["agentInfo"] == SCRIPT["agent"]
    assert reported["authMethods"] in ([SCRIPT["sign_in"]], [{**SCRIPT["sign_in"], "type": "agent"}])
    capabilities = reported["agentCapabilities"]
    assert capabilities["loadSession"] is True
    assert {"list", "resume", "close"} <= capabilities["sessionCapabilities"].keys()
    assert capabilities["promptCapabilities"]["image"] is True


@for_pairs(OUR_CLIENT, OUR_CLIENT_REMOTE)
@pytest.mark.rule(
    "initialize.first",
    "initialize.version-sent",
    "initialize.client-info",
    "initialize.client-capabilities-member",
)
def test_our_client_starts_with_initialize_and_its_capabilities(conversation: Conversation) -> None:
    first = conversation.wire.sent_by("client")[0]
    assert first["method"] == "initialize"
    assert first["params"]["protocolVersion"] == 1
    assert first["params"]["clientInfo"].keys() >= {"name", "version"}
    offered = first["params"]["clientCapabilities"]
    assert offered["fs"] == {"readTextFile": True, "writeTextFile": True}
    assert offered["terminal"] is True
    assert offered["elicitation"] == {"form": {}}


@all_pairs
@pytest.mark.rule(
    "session.new-members",
    "session.absolute-cwd",
    "session.unique-id",
    "mode.current-is-available",
    "option.current-value",
    "option.current-value-listed",
)
def test_every_new_session_has_a_unique_id_and_its_settings(conversation: Conversation) -> None:
    opened = [answer for scenario in conversation.scenarios.values() for answer in scenario.answers("new")]
    assert len(opened) > 15
    assert len({answer["sessionId"] for answer in opened}) == len(opened)
    for answer in opened:
        assert answer["modes"] == {"currentModeId": "ask", "availableModes": SCRIPT["modes"]}
        [model] = [option for option in answer["configOptions"] if option["id"] == "model"]
        assert (model["currentValue"], model["options"]) == ("small", SCRIPT["models"])
    for call in conversation.wire.calls("client", "session/new"):
        assert call["params"]["cwd"] == str(conversation.folder)
        assert call["params"]["mcpServers"] == []


@for_pairs(OUR_CLIENT, OUR_CLIENT_REMOTE, OUR_AGENT)
@pytest.mark.rule("command.members")
def test_commands_are_sent_once_per_new_session(conversation: Conversation) -> None:
    reported = [
        call["params"]["update"]["availableCommands"]
        for call in conversation.wire.calls("agent", "session/update")
        if call["params"]["update"]["sessionUpdate"] == "available_commands_update"
    ]
    assert len(reported) == len(conversation.wire.calls("client", "session/new"))
    assert all(commands == SCRIPT["commands"] for commands in reported)


@all_pairs
@pytest.mark.rule("mode.set", "mode.agent-change-sent")
def test_the_mode_is_set_by_the_client_and_changed_by_the_agent(conversation: Conversation) -> None:
    scenario = conversation.scenario("mode")
    assert scenario.answers("set_mode") == [{}]
    assert scenario.texts == ["code"]
    assert scenario.updates_of("current_mode_update")[-1]["currentModeId"] == "ask"


@all_pairs
@pytest.mark.rule("option.set-returns-all", "option.update-has-all", "option.select-without-type")
def test_an_option_is_set_by_the_client_and_changed_by_the_agent(conversation: Conversation) -> None:
    scenario = conversation.scenario("config")
    [answer] = scenario.answers("set_config")
    changed = scenario.updates_of("config_option_update")[-1]
    at_first = scenario.answers("new")[0]["configOptions"]
    for listed, value in ((answer["configOptions"], "large"), (changed["configOptions"], "small")):
        assert [option["id"] for option in listed] == [option["id"] for option in at_first]
        assert [option["currentValue"] for option in listed if option["id"] == "model"] == [value]
    assert scenario.texts == ["large"]


@all_pairs
@pytest.mark.rule("session.list-entry-members", "session.list-last-page", "session.list-cursor-verbatim")
def test_sessions_are_listed_page_by_page(conversation: Conversation) -> None:
    scenario = conversation.scenario("sessions")
    listed = scenario.answers("list")[0]["sessions"]
    mine = scenario.answers("new")[0]["sessionId"]
    assert mine in [info["sessionId"] for info in listed]
    assert {info["cwd"] for info in listed} == {str(conversation.folder)}
    calls = conversation.wire.calls("client", "session/list")
    cursors = [call["params"].get("cursor") for call in calls[: len(listed)]]
    assert cursors == [None, *(str(place) for place in range(1, len(listed)))]


@all_pairs
@pytest.mark.rule(
    "session.load-replays",
    "session.load-result-object",
    "session.load-shown-as-history",
    "session.resume-without-history",
    "session.closed-refuses-prompts",
)
def test_a_closed_session_can_be_loaded_and_resumed(conversation: Conversation) -> None:
    scenario = conversation.scenario("sessions")
    assert scenario.answers("close") == [{}, {}]
    assert scenario.error("prompt"), "a closed session accepts no prompts"
    reported = [
        (one["sessionUpdate"], one["content"]["text"]) for one in scenario.updates if "content" in one
    ]
    assert reported == [
        ("agent_message_chunk", "remember me"),
        ("user_message_chunk", "echo remember me"),  # the replay: this line and the next
        ("agent_message_chunk", "remember me"),
        ("agent_message_chunk", "loaded"),
        ("agent_message_chunk", "resumed"),
    ]
    for step in ("load", "resume"):
        [answer] = scenario.answers(step)
        assert answer["modes"]["availableModes"] == SCRIPT["modes"]


@all_pairs
@pytest.mark.rule("session.load-exists", "accord.agent-unknown-session")
def test_an_unknown_session_cannot_be_loaded(conversation: Conversation) -> None:
    refused = conversation.scenario("sessions").error("load")
    assert refused["code"] == -32002
    assert refused["data"] == {"sessionId": "nope"}


@for_pairs(OFFICIAL_CLIENTS)
@pytest.mark.rule("session.closed-refuses-prompts", "accord.agent-unknown-session")
def test_our_agent_names_the_closed_session_in_the_error(conversation: Conversation) -> None:
    refused = conversation.scenario("sessions").error("prompt")
    assert refused["code"] == -32002
    assert refused["data"] == {"sessionId": conversation.scenario("sessions").answers("new")[0]["sessionId"]}


@all_pairs
@pytest.mark.rule("session.delete-needs-capability", "session.delete-leaves-list")
def test_a_deleted_session_is_no_longer_listed(conversation: Conversation) -> None:
    scenario = conversation.scenario("sessions")
    mine = scenario.answers("new")[0]["sessionId"]
    before, after = ([info["sessionId"] for info in one["sessions"]] for one in scenario.answers("list"))
    if scenario.seen("not-offered", to="delete"):  # the official Python SDK supports no session/delete
        assert after == before
        assert not conversation.wire.calls("client", "session/delete")
    else:
        assert scenario.answers("delete") == [{}]
        assert after == [id for id in before if id != mine]


@all_pairs
@pytest.mark.rule("auth.unknown-method")
def test_sign_in_works_only_with_the_listed_method(conversation: Conversation) -> None:
    scenario = conversation.scenario("sign-in")
    assert scenario.answers("authenticate") == [{}]
    # Accord's client refuses an unlisted method before it sends anything.
    assert scenario.error("authenticate")["code"] == (None if conversation.client == "accord" else -32602)
