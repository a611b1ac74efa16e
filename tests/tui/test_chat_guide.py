"""docs/chat.md matches the program: screenshots, settings, actions and keys."""

import json
import re
from pathlib import Path

from tests.tui.screenshots import SCREENSHOTS

from accord.tui.actions import ACTIONS, key_names
from accord.tui.chat_settings import SETTINGS, read_settings, settings_file

GUIDE = (Path(__file__).parents[2] / "docs" / "chat.md").read_text()


def test_every_screenshot_exists_and_is_in_the_guide() -> None:
    shown = set(re.findall(r"images/chat-([a-z-]+)\.svg", GUIDE))
    assert shown == set(SCREENSHOTS)
    for name in shown:
        text = (Path(__file__).parents[2] / "docs" / "images" / f"chat-{name}.svg").read_text()
        assert "http" not in text.replace("http://www.w3.org/", "").replace("https://www.textualize.io", "")
        assert "/tmp" not in text


def test_the_settings_in_the_guide_are_complete() -> None:
    example = re.search(r"```json\n(\{.*?\n\})\n```", GUIDE, re.DOTALL)
    assert example
    members = json.loads(example[1])
    assert set(members) == {one.key for one in SETTINGS} | {"keys"}
    settings_file().parent.mkdir(parents=True)
    settings_file().write_text(example[1])
    read_settings(key_names())
    for setting in SETTINGS:
        row = next(line for line in GUIDE.splitlines() if line.startswith(f"| `{setting.key}` |"))
        assert all(f"`{value}`" in row for value in setting.values)


def test_the_guide_names_every_action_and_keys_are_unique() -> None:
    row = next(line for line in GUIDE.splitlines() if line.startswith("| `keys` |"))
    assert re.findall(r"`([a-z_]+)`", row)[1:] == key_names()
    keys = [action.key for action in ACTIONS if action.key]
    assert len(set(keys)) == len(keys)
    for action in ACTIONS:
        assert not action.key_label or action.key_label in GUIDE, action.name
