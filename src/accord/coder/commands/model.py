"""`/model`: which models there are, or another one."""

from typing import TYPE_CHECKING, Final

from accord.agent.turn import Turn
from accord.coder.commands.command import BuiltIn, Reply
from accord.coder.tools.tool import one_line
from accord.errors import RpcError
from accord.schema.config import SessionConfigSelect, SessionConfigSelectOption

if TYPE_CHECKING:
    from accord.coder.workbench import Workbench

SHOWN: Final = 60


async def run(text: str, turn: Turn, bench: "Workbench") -> Reply:
    """List the models, or think with the one that is named from the next prompt on."""
    from accord.coder.options import ask_for_models, set_model

    conversation = bench.conversation
    if not text:
        await ask_for_models(conversation)
        return Reply(_listed(str(conversation.model), _choices(turn)))
    before = conversation.model
    try:
        name = await set_model(conversation, text, tell=True)
    except RpcError as error:
        return Reply(f"The model stays `{before}`: {one_line(error.message, 500)}")
    if name == before:
        return Reply(f"The model is `{name}` already.")
    return Reply(f"The model is `{name}` now.")


def _choices(turn: Turn) -> list[SessionConfigSelectOption]:
    for option in turn.session.config_options:
        if option.id == "model" and isinstance(option, SessionConfigSelect):
            return [choice for choice in option.options if isinstance(choice, SessionConfigSelectOption)]
    return []


def _listed(current: str, choices: list[SessionConfigSelectOption]) -> str:
    lines = ["Models (the current one is marked):", ""]
    for choice in choices[:SHOWN]:
        mark = " **(current)**" if choice.value == current else ""
        lines.append(f"- `{choice.value}`{mark}")
    if len(choices) > SHOWN:
        lines.append(f"- and {len(choices) - SHOWN} more")
    lines += ["", "Choose one with `/model provider:name`; names that are not listed are taken as well."]
    return "\n".join(lines)


MODEL: Final = BuiltIn("model", "Show the models, or think with another one", "provider:name", run)
