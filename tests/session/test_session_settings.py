"""Modes, config options and the pickers made from them; commands, title, usage."""

from typing import Any

import pytest
from tests.session.session_driver import SessionDriver

from accord.schema import Cost, NewSessionResponse
from accord.schema.codec import read
from accord.session import ModeChanged, Picker, PickerChoice, SessionState, protocol_v1

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


def opened(**answer: Any) -> SessionDriver:
    driver = SessionDriver()
    driver.state.apply(
        protocol_v1.session_opened_event("s1", read(NewSessionResponse, {"sessionId": "s1", **answer}))
    )
    return driver


@pytest.mark.rule("option.modes-as-fallback")
def test_modes_without_options_give_a_mode_picker() -> None:
    driver = opened(modes=MODES)
    settings = driver.state.settings
    assert settings.pickers == [
        Picker(
            "modes",
            "mode",
            "Mode",
            "ask",
            (PickerChoice("ask", "Ask"), PickerChoice("code", "Code", "Edits")),
            "mode",
        )
    ]
    event = driver.update("current_mode_update", currentModeId="code")
    assert event == ModeChanged("code")
    assert settings.pickers[0].current == "code"


@pytest.mark.rule("option.preferred-to-modes")
def test_a_mode_option_hides_the_modes() -> None:
    driver = opened(modes=MODES, configOptions=[select("mode", "code", "ask", "code", category="mode")])
    [picker] = driver.state.settings.pickers
    assert (picker.source, picker.id, picker.current) == ("config", "mode", "code")
    assert driver.state.settings.current_mode_id == "code"


def test_a_mode_option_alone_sets_the_modes() -> None:
    driver = opened(configOptions=[select("m", "ask", "ask", "code", category="mode")])
    settings = driver.state.settings
    assert [mode.id for mode in settings.modes] == ["ask", "code"]
    assert settings.current_mode_id == "ask"
    driver.update("config_option_update", configOptions=[select("m", "code", "ask", "code", category="mode")])
    assert settings.current_mode_id == "code"


def test_a_mode_change_updates_the_mode_option() -> None:
    driver = opened(configOptions=[select("m", "ask", "ask", "code", category="mode"), select("x", "1", "1")])
    driver.update("current_mode_update", currentModeId="code")
    assert [picker.current for picker in driver.state.settings.pickers] == ["code", "1"]
    driver.update("current_mode_update", currentModeId="not an option")
    assert driver.state.settings.pickers[0].current == "code"


def test_a_mode_that_is_no_option_survives_a_snapshot() -> None:
    driver = opened(configOptions=[select("m", "ask", "ask", "code", category="mode")])
    driver.update("current_mode_update", currentModeId="not an option")
    restored = SessionState("s1")
    for event in driver.state.snapshot():
        restored.apply(event)
    assert restored.settings.current_mode_id == driver.state.settings.current_mode_id == "not an option"


def test_a_picker_accepts_only_the_offered_values() -> None:
    switch = {"type": "boolean", "id": "fast", "name": "Fast", "currentValue": False}
    groups = [{"group": "g", "name": "Big", "options": [{"value": "a", "name": "A"}]}]
    grouped = select("model", "a") | {"options": groups}
    driver = opened(configOptions=[switch, grouped])
    fast, model = driver.state.settings.pickers
    assert (fast.offers(True), fast.offers("true"), fast.current) == (True, False, False)
    assert (model.offers("a"), model.offers("b"), model.offers(True)) == (True, False, False)
    assert model.choices == (PickerChoice("a", "A", group="Big"),)


@pytest.mark.rule("option.unknown-type")
def test_options_of_unknown_type_are_ignored() -> None:
    driver = opened()
    slider = {"type": "slider", "id": "t", "name": "T", "currentValue": 3}
    driver.update(
        "config_option_update", configOptions=[select("a", "1", "1"), slider, "?", select("b", "1", "1")]
    )
    assert [picker.id for picker in driver.state.settings.pickers] == ["a", "b"]


@pytest.mark.rule("option.unknown-category", "option.order-kept")
def test_any_category_is_accepted_and_the_agents_order_is_kept() -> None:
    ids = ["z", "model_config", "a", "mode"]
    options = [
        select("z", "1", "1", category="_x"),
        select("model_config", "1", "1", category="model_config"),
        select("a", "1", "1"),
        select("mode", "1", "1", category=7),
    ]
    driver = opened(configOptions=options)
    assert [picker.id for picker in driver.state.settings.pickers] == ids
    assert [picker.category for picker in driver.state.settings.pickers] == ["_x", "model_config", None, None]
    driver.update("config_option_update", configOptions=options[::-1])
    assert [picker.id for picker in driver.state.settings.pickers] == ids[::-1]


@pytest.mark.dialect(41, 42)
def test_a_legacy_model_list_is_shown_next_to_the_modes() -> None:
    # The dialect repair turns a `models` object into an option that names the method to set it.
    models = select("model", "m1", "m1", "m2", category="model") | {
        "_meta": {"accord/setBy": "session/set_model"}
    }
    driver = opened(modes=MODES, configOptions=[models])
    assert [picker.source for picker in driver.state.settings.pickers] == ["modes", "models"]
    driver.update("config_option_update", configOptions=[select("x", "1", "1")])
    assert [picker.source for picker in driver.state.settings.pickers] == ["config", "models"]
    driver.update("config_option_update", configOptions=[select("own", "1", "1", category="model")])
    assert [picker.id for picker in driver.state.settings.pickers] == ["own"]


def test_a_response_without_settings_keeps_the_settings() -> None:
    driver = opened(modes=MODES, configOptions=[select("a", "1", "1")])
    driver.state.apply(
        protocol_v1.session_opened_event("s1", read(NewSessionResponse, {"sessionId": "s1", "modes": None}))
    )
    assert [picker.id for picker in driver.state.settings.pickers] == ["a"]
    assert driver.state.settings.current_mode_id == "ask"


@pytest.mark.rule("command.list-replaced")
def test_a_new_command_list_replaces_the_old_one() -> None:
    driver = SessionDriver()
    for names in (["web", "test"], ["plan"], []):
        commands = [{"name": name, "description": name, "input": {"hint": "what"}} for name in names]
        driver.update("available_commands_update", availableCommands=commands)
        assert [command.name for command in driver.state.commands] == names


@pytest.mark.rule("session-info.patch")
def test_omitted_title_and_time_are_kept_and_null_clears_them() -> None:
    driver = SessionDriver()
    driver.update("session_info_update", title="Fix bug", updatedAt="2026-01-01T00:00:00Z")
    driver.update("session_info_update")
    assert (driver.state.title, driver.state.updated_at) == ("Fix bug", "2026-01-01T00:00:00Z")
    driver.update("session_info_update", title=None)
    assert (driver.state.title, driver.state.updated_at) == (None, "2026-01-01T00:00:00Z")
    driver.update("session_info_update", title=["not", "text"], updatedAt=None)
    assert (driver.state.title, driver.state.updated_at) == (None, None)


@pytest.mark.rule("usage.unknown-unit")
def test_a_cost_in_any_currency_is_kept() -> None:
    driver = SessionDriver()
    driver.update("usage_update", used=900, size=200_000, cost={"amount": 3, "currency": "credits"})
    driver.update("usage_update", used=950, size=200_000)
    usage = driver.state.usage
    assert usage is not None
    assert (usage.used, usage.size, usage.cost) == (950, 200_000, Cost(amount=3, currency="credits"))
    driver.update("usage_update", used=950, size=200_000, cost=None)
    assert driver.state.usage is not None
    assert driver.state.usage.cost is None


@pytest.mark.rule("prompt.updates-outside-turn")
def test_updates_outside_a_turn_are_applied() -> None:
    driver = SessionDriver()
    driver.start_turn()
    driver.end_turn()
    driver.update("available_commands_update", availableCommands=[{"name": "web", "description": "Search"}])
    driver.update("session_info_update", title="Later")
    driver.update("usage_update", used=1, size=2)
    state = driver.state
    assert (state.turn, state.title, len(state.commands)) == ("idle", "Later", 1)
    assert state.usage is not None
