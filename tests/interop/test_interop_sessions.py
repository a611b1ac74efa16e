"""Opening, changing, listing and taking up sessions between Accord and the official SDKs, both ways."""

import pytest
from tests.interop.conversation import SCRIPT, Conversation
from tests.interop.pairs import (
    CONTROLS,
    OFFICIAL_CLIENTS,
    OUR_AGENT,
    OUR_CLIENT,
    OUR_CLIENT_AFAR,
    OUR_FRONT,
    talks,
)

everybody = talks(OUR_CLIENT, OUR_CLIENT_AFAR, OUR_FRONT, OUR_AGENT, CONTROLS)


@everybody
@pytest.mark.rule(62, 67, 76)
def test_the_handshake_agrees_on_version_1_and_says_who_is_there(talk: Conversation) -> None:
    [told] = talk.scene("initialize").answers("initialize")
    assert told["protocolVersion"] == 1
    assert told["agentInfo"] == SCRIPT["agent"]
    assert told["authMethods"] in ([SCRIPT["sign_in"]], [{**SCRIPT["sign_in"], "type": "agent"}])
    capabilities = told["agentCapabilities"]
    assert capabilities["loadSession"] is True
    assert {"list", "resume", "close"} <= capabilities["sessionCapabilities"].keys()
    assert capabilities["promptCapabilities"]["image"] is True


@talks(OUR_CLIENT, OUR_CLIENT_AFAR)
@pytest.mark.rule(58, 59, 60, 61)
def test_our_client_begins_with_initialize_and_says_what_it_offers(talk: Conversation) -> None:
    first = talk.wire.sent_by("client")[0]
    assert first["method"] == "initialize"
    assert first["params"]["protocolVersion"] == 1
    assert first["params"]["clientInfo"].keys() >= {"name", "version"}
    offered = first["params"]["clientCapabilities"]
    assert offered["fs"] == {"readTextFile": True, "writeTextFile": True}
    assert offered["terminal"] is True
    assert offered["elicitation"] == {"form": {}}


@everybody
@pytest.mark.rule(90, 91, 92, 206, 212, 213)
def test_every_new_session_has_an_id_of_its_own_and_its_settings(talk: Conversation) -> None:
    opened = [answer for scene in talk.scenes.values() for answer in scene.answers("new")]
    assert len(opened) > 15
    assert len({answer["sessionId"] for answer in opened}) == len(opened)
    for answer in opened:
        assert answer["modes"] == {"currentModeId": "ask", "availableModes": SCRIPT["modes"]}
        [model] = [option for option in answer["configOptions"] if option["id"] == "model"]
        assert (model["currentValue"], model["options"]) == ("small", SCRIPT["models"])
    for call in talk.wire.calls("client", "session/new"):
        assert call["params"]["cwd"] == str(talk.folder)
        assert call["params"]["mcpServers"] == []


@talks(OUR_CLIENT, OUR_CLIENT_AFAR, OUR_AGENT)
@pytest.mark.rule(227)
def test_commands_are_told_once_the_session_is_known(talk: Conversation) -> None:
    told = [
        call["params"]["update"]["availableCommands"]
        for call in talk.wire.calls("agent", "session/update")
        if call["params"]["update"]["sessionUpdate"] == "available_commands_update"
    ]
    assert len(told) == len(talk.wire.calls("client", "session/new"))
    assert all(commands == SCRIPT["commands"] for commands in told)


@everybody
@pytest.mark.rule(208, 210)
def test_the_mode_is_set_by_the_client_and_changed_by_the_agent(talk: Conversation) -> None:
    scene = talk.scene("mode")
    assert scene.answers("set_mode") == [{}]
    assert scene.texts == ["code"]
    assert scene.updates_of("current_mode_update")[-1]["currentModeId"] == "ask"


@everybody
@pytest.mark.rule(215, 216, 219)
def test_an_option_is_set_by_the_client_and_changed_by_the_agent(talk: Conversation) -> None:
    scene = talk.scene("config")
    [answer] = scene.answers("set_config")
    changed = scene.updates_of("config_option_update")[-1]
    at_first = scene.answers("new")[0]["configOptions"]
    for listed, value in ((answer["configOptions"], "large"), (changed["configOptions"], "small")):
        assert [option["id"] for option in listed] == [option["id"] for option in at_first]
        assert [option["currentValue"] for option in listed if option["id"] == "model"] == [value]
    assert scene.texts == ["large"]


@everybody
@pytest.mark.rule(120, 121, 122)
def test_sessions_are_listed_page_by_page(talk: Conversation) -> None:
    scene = talk.scene("sessions")
    listed = scene.answers("list")[0]["sessions"]
    mine = scene.answers("new")[0]["sessionId"]
    assert mine in [info["sessionId"] for info in listed]
    assert {info["cwd"] for info in listed} == {str(talk.folder)}
    calls = talk.wire.calls("client", "session/list")
    cursors = [call["params"].get("cursor") for call in calls[: len(listed)]]
    assert cursors == [None, *(str(place) for place in range(1, len(listed)))]


@everybody
@pytest.mark.rule(104, 106, 108, 110, 115)
def test_a_closed_session_is_taken_up_again_by_load_and_by_resume(talk: Conversation) -> None:
    scene = talk.scene("sessions")
    assert scene.answers("close") == [{}, {}]
    assert scene.error("prompt"), "a closed session takes no prompts"
    told = [(one["sessionUpdate"], one["content"]["text"]) for one in scene.updates if "content" in one]
    assert told == [
        ("agent_message_chunk", "remember me"),
        ("user_message_chunk", "echo remember me"),  # from here to the next line: the replay
        ("agent_message_chunk", "remember me"),
        ("agent_message_chunk", "loaded"),
        ("agent_message_chunk", "resumed"),
    ]
    for step in ("load", "resume"):
        [answer] = scene.answers(step)
        assert answer["modes"]["availableModes"] == SCRIPT["modes"]


@everybody
@pytest.mark.rule(102, 383)
def test_a_session_that_is_not_there_cannot_be_loaded(talk: Conversation) -> None:
    refused = talk.scene("sessions").error("load")
    assert refused["code"] == -32002
    assert refused["data"] == {"sessionId": "nope"}


@talks(OFFICIAL_CLIENTS)
@pytest.mark.rule(115, 383)
def test_our_agent_names_the_closed_session(talk: Conversation) -> None:
    refused = talk.scene("sessions").error("prompt")
    assert refused["code"] == -32002
    assert refused["data"] == {"sessionId": talk.scene("sessions").answers("new")[0]["sessionId"]}


@everybody
@pytest.mark.rule(126, 127)
def test_a_deleted_session_leaves_the_list(talk: Conversation) -> None:
    scene = talk.scene("sessions")
    mine = scene.answers("new")[0]["sessionId"]
    before, after = ([info["sessionId"] for info in one["sessions"]] for one in scene.answers("list"))
    if scene.seen("not-offered", to="delete"):  # the official Python SDK has neither the call nor the handler
        assert after == before
        assert not talk.wire.calls("client", "session/delete")
    else:
        assert scene.answers("delete") == [{}]
        assert after == [id for id in before if id != mine]


@everybody
@pytest.mark.rule(85)
def test_signing_in_works_by_the_listed_method_only(talk: Conversation) -> None:
    scene = talk.scene("sign-in")
    assert scene.answers("authenticate") == [{}]
    # Our client refuses what is not listed before it sends anything.
    assert scene.error("authenticate")["code"] == (None if talk.client == "accord" else -32602)
