"""docs/chat.md is true: its pictures are there, its settings, actions and keys are those of the program."""

import json
import re
from pathlib import Path

from tests.tui.screens import SCENES

from accord.tui.actions import ACTIONS
from accord.tui.settings.file import read_settings, settings_file
from accord.tui.settings.table import SETTINGS

GUIDE = (Path(__file__).parents[2] / "docs" / "chat.md").read_text()


def test_every_picture_is_there_and_shown() -> None:
    shown = set(re.findall(r"images/chat-([a-z-]+)\.svg", GUIDE))
    assert shown == set(SCENES)
    for name in shown:
        text = (Path(__file__).parents[2] / "docs" / "images" / f"chat-{name}.svg").read_text()
        assert "http" not in text.replace("http://www.w3.org/", "").replace("https://www.textualize.io", "")
        assert "/tmp" not in text


def test_the_settings_of_the_guide_are_those_there_are() -> None:
    example = re.search(r"```json\n(\{.*?\n\})\n```", GUIDE, re.DOTALL)
    assert example
    members = json.loads(example[1])
    assert set(members) == {one.key for one in SETTINGS} | {"keys"}
    settings_file().parent.mkdir(parents=True)
    settings_file().write_text(example[1])
    read_settings([action.name for action in ACTIONS])
    for setting in SETTINGS:
        row = next(line for line in GUIDE.splitlines() if line.startswith(f"| `{setting.key}` |"))
        assert all(f"`{value}`" in row for value in setting.values)


def test_every_action_is_named_and_no_two_share_a_key() -> None:
    row = next(line for line in GUIDE.splitlines() if line.startswith("| `keys` |"))
    assert re.findall(r"`([a-z_]+)`", row)[1:] == [action.name for action in ACTIONS]
    keys = [action.key for action in ACTIONS if action.key]
    assert len(set(keys)) == len(keys)
    for action in ACTIONS:
        assert not action.shown or action.shown in GUIDE, action.name
