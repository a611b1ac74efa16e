"""What the user of the agent does: settings, and answers to questions."""

from typing import Any

from tests.agent.scene import Client
from tests.coder.agent.desk import Desk

NOTHING_CONFINES = "[sandbox]\nenabled = false\n"


def configure(desk: Desk, text: str) -> None:
    """Write the config."""
    (desk.home / "config").mkdir(exist_ok=True)
    (desk.home / "config" / "config.toml").write_text(text)


def choose(client: Client, asked: Any, kind: str) -> None:
    """Answer a question with the option of this kind."""
    [option] = [option["optionId"] for option in asked["params"]["options"] if option["kind"] == kind]
    client.raw.reply(asked, {"outcome": {"outcome": "selected", "optionId": option}})
