"""Modes, config options and the pickers made of them; commands, title, usage."""

from typing import Any

import pytest
from tests.session.scene import Scene

from accord.schema import Cost, NewSessionResponse
from accord.schema.codec import read
from accord.session import Choice, ModeChanged, Picker, v1

MODES = {
    "currentModeId": "ask",
    "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code", "description": "Edits"}],
}


def select(option_id: str, current: str, *values: str, **members: Any) -> dict[str, Any]:
    options = [{"value": value, "name": value.title()} for value in values]
    return {
        "type": "select",
        "id": option_id,
        "name": option_id.title(),
        "currentValue": current,
        "options": options,
        **members,
    }


def opened(**answer: Any) -> Scene:
    scene = Scene()
    scene.state.apply(v1.opened("s1", read(NewSessionResponse, {"sessionId": "s1", **answer})))
    return scene


@pytest.mark.rule(226)
def test_modes_alone_make_the_picker() -> None:
    scene = opened(modes=MODES)
    settings = scene.state.settings
    assert settings.pickers == [
        Picker(
            "modes", "mode", "Mode", "ask", (Choice("ask", "Ask"), Choice("code", "Code", "Edits")), "mode"
        )
    ]
    event = scene.says("current_mode_update", currentModeId="code")
    assert event == ModeChanged("code")
    assert settings.pickers[0].current == "code"


@pytest.mark.rule(224)
def test_with_both_the_options_win_and_the_modes_are_hidden() -> None:
    scene = opened(modes=MODES, configOptions=[select("mode", "code", "ask", "code", category="mode")])
    [picker] = scene.state.settings.pickers
    assert (picker.source, picker.id, picker.current) == ("config", "mode", "code")
    assert scene.state.settings.current_mode_id == "code"


def test_modes_can_come_as_an_option_only() -> None:
    scene = opened(configOptions=[select("m", "ask", "ask", "code", category="mode")])
    settings = scene.state.settings
    assert [mode.id for mode in settings.modes] == ["ask", "code"]
    assert settings.current_mode_id == "ask"
    scene.says("config_option_update", configOptions=[select("m", "code", "ask", "code", category="mode")])
    assert settings.current_mode_id == "code"


def test_a_mode_change_moves_the_option_of_the_same_meaning() -> None:
    scene = opened(configOptions=[select("m", "ask", "ask", "code", category="mode"), select("x", "1", "1")])
    scene.says("current_mode_update", currentModeId="code")
    assert [picker.current for picker in scene.state.settings.pickers] == ["code", "1"]
    scene.says("current_mode_update", currentModeId="not an option")
    assert scene.state.settings.pickers[0].current == "code"


def test_a_picker_knows_what_may_be_sent() -> None:
    switch = {"type": "boolean", "id": "fast", "name": "Fast", "currentValue": False}
    groups = [{"group": "g", "name": "Big", "options": [{"value": "a", "name": "A"}]}]
    grouped = select("model", "a") | {"options": groups}
    scene = opened(configOptions=[switch, grouped])
    fast, model = scene.state.settings.pickers
    assert (fast.offers(True), fast.offers("true"), fast.current) == (True, False, False)
    assert (model.offers("a"), model.offers("b"), model.offers(True)) == (True, False, False)
    assert model.choices == (Choice("a", "A", group="Big"),)


@pytest.mark.rule(221)
def test_options_of_unknown_type_are_ignored() -> None:
    scene = opened()
    slider = {"type": "slider", "id": "t", "name": "T", "currentValue": 3}
    scene.says(
        "config_option_update", configOptions=[select("a", "1", "1"), slider, "?", select("b", "1", "1")]
    )
    assert [picker.id for picker in scene.state.settings.pickers] == ["a", "b"]


@pytest.mark.rule(222, 223)
def test_any_category_or_none_is_usable_and_the_order_is_the_agents() -> None:
    ids = ["z", "model_config", "a", "mode"]
    options = [
        select("z", "1", "1", category="_x"),
        select("model_config", "1", "1", category="model_config"),
        select("a", "1", "1"),
        select("mode", "1", "1", category=7),
    ]
    scene = opened(configOptions=options)
    assert [picker.id for picker in scene.state.settings.pickers] == ids
    assert [picker.category for picker in scene.state.settings.pickers] == ["_x", "model_config", None, None]
    scene.says("config_option_update", configOptions=options[::-1])
    assert [picker.id for picker in scene.state.settings.pickers] == ids[::-1]


@pytest.mark.dialect(41, 42)
def test_a_legacy_model_list_stands_beside_the_modes() -> None:
    # As the dialect reading makes it of a `models` object: an option that says how it is set.
    models = select("model", "m1", "m1", "m2", category="model") | {
        "_meta": {"accord/setBy": "session/set_model"}
    }
    scene = opened(modes=MODES, configOptions=[models])
    assert [picker.source for picker in scene.state.settings.pickers] == ["modes", "models"]
    scene.says("config_option_update", configOptions=[select("x", "1", "1")])
    assert [picker.source for picker in scene.state.settings.pickers] == ["config", "models"]
    scene.says("config_option_update", configOptions=[select("own", "1", "1", category="model")])
    assert [picker.id for picker in scene.state.settings.pickers] == ["own"]


def test_an_answer_that_says_nothing_takes_nothing_back() -> None:
    scene = opened(modes=MODES, configOptions=[select("a", "1", "1")])
    scene.state.apply(v1.opened("s1", read(NewSessionResponse, {"sessionId": "s1", "modes": None})))
    assert [picker.id for picker in scene.state.settings.pickers] == ["a"]
    assert scene.state.settings.current_mode_id == "ask"


@pytest.mark.rule(228)
def test_a_new_command_list_replaces_the_old() -> None:
    scene = Scene()
    for names in (["web", "test"], ["plan"], []):
        commands = [{"name": name, "description": name, "input": {"hint": "what"}} for name in names]
        scene.says("available_commands_update", availableCommands=commands)
        assert [command.name for command in scene.state.commands] == names


@pytest.mark.rule(231)
def test_title_and_time_omitted_keep_and_null_clears() -> None:
    scene = Scene()
    scene.says("session_info_update", title="Fix bug", updatedAt="2026-01-01T00:00:00Z")
    scene.says("session_info_update")
    assert (scene.state.title, scene.state.updated_at) == ("Fix bug", "2026-01-01T00:00:00Z")
    scene.says("session_info_update", title=None)
    assert (scene.state.title, scene.state.updated_at) == (None, "2026-01-01T00:00:00Z")
    scene.says("session_info_update", title=["not", "text"], updatedAt=None)
    assert (scene.state.title, scene.state.updated_at) == (None, None)


@pytest.mark.rule(321)
def test_a_cost_in_any_unit_is_kept_as_it_is() -> None:
    scene = Scene()
    scene.says("usage_update", used=900, size=200_000, cost={"amount": 3, "currency": "credits"})
    scene.says("usage_update", used=950, size=200_000)
    usage = scene.state.usage
    assert usage is not None
    assert (usage.used, usage.size, usage.cost) == (950, 200_000, Cost(amount=3, currency="credits"))
    scene.says("usage_update", used=950, size=200_000, cost=None)
    assert scene.state.usage is not None
    assert scene.state.usage.cost is None


@pytest.mark.rule(155)
def test_updates_outside_a_turn_are_taken_in() -> None:
    scene = Scene()
    scene.prompts()
    scene.answers()
    scene.says("available_commands_update", availableCommands=[{"name": "web", "description": "Search"}])
    scene.says("session_info_update", title="Later")
    scene.says("usage_update", used=1, size=2)
    state = scene.state
    assert (state.turn, state.title, len(state.commands)) == ("idle", "Later", 1)
    assert state.usage is not None
