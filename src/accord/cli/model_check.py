"""Whether `accord run` has a usable model. Keep heavy imports out: most runs need none of them."""

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from accord.cli.command_parser import can_ask
from accord.errors import AuthRequired, UsageError

if TYPE_CHECKING:
    from accord.client import ClientSession
    from accord.coder.models import ModelRegistry
    from accord.frontend.agent_config import ConfiguredAgent
    from accord.tui.chat_types import KeyState

_REHEARSAL: Final = "rehearsal"
_COMMANDS_WITHOUT_MODEL: Final = (
    *("/agents", "/help", "/hooks", "/mcp", "/memory", "/mode", "/model", "/redo", "/rewind", "/skills"),
    *("/tools", "/undo", "/usage"),
)
"""The commands of the coding agent that no model answers."""
_ADVICE: Final = (
    "set a key such as ANTHROPIC_API_KEY, run `accord agent --login`, or choose one with --model{}; "
    "`--model rehearsal` runs the built-in script"
)


async def check_model(
    session: "ClientSession", agent: "ConfiguredAgent", cwd: str, prompt: str, note: Callable[[str], None]
) -> None:
    """Raise AuthRequired if the prompt needs a model, but only the rehearsal is there and was not chosen.

    On a terminal, print a note instead.
    """
    if prompt.split(None, 1)[:1] and prompt.split(None, 1)[0] in _COMMANDS_WITHOUT_MODEL:
        return
    current = next((option for option in session.state.settings.config_options if option.id == "model"), None)
    if getattr(current, "current_value", None) != _REHEARSAL or _names_model(agent.command):
        return
    changes = agent.launch(cwd).env or {}
    if "ACCORD_HOME" in changes or {**os.environ, **changes}.get("ACCORD_MODEL"):
        return  # it has other settings, or the user named the model
    from accord.coder.models import ModelRegistry

    environment = {name: value for name, value in {**os.environ, **changes}.items() if value is not None}
    try:
        models = ModelRegistry(environment=environment)
        choice = models.choose()
    except UsageError:
        return  # the agent reports it
    if choice.source != _REHEARSAL:
        return
    if choice.missing_model is not None:
        reason = choice.missing_model
    else:
        reason = f"no model is set up; {_ADVICE.format(await asyncio.to_thread(_local_example, models))}"
    if not can_ask():
        raise AuthRequired(reason)
    note(f"{reason}. Until then, the script answers.")


def model_key_state(online: bool) -> "KeyState":
    """Return whether the coding agent has a model with a key; `online` tests the key with a request."""
    from accord.coder.models import ModelRegistry
    from accord.tui.chat_types import KeyState

    try:
        models = ModelRegistry()
        choice = models.choose()
        if choice.source == _REHEARSAL:
            return KeyState("", "", choice.missing_model or "no model key yet")
        name = str(choice.model)
        if choice.missing_key is not None:
            return KeyState(name, "", choice.missing_key)
        if choice.model.provider in (_REHEARSAL, "acp"):
            return KeyState(name)
        endpoint = models.endpoints.get(choice.model.provider, choice.model.name)
        source = models.endpoints.key_variable(endpoint.name) or "stored key"
        if not online or endpoint.key is None:
            return KeyState(name, "" if endpoint.key is None else source)
    except UsageError as error:
        return KeyState(problem=str(error))
    return _tested_key(name, endpoint.name, source, models)


def _tested_key(model: str, provider: str, source: str, models: "ModelRegistry") -> "KeyState":
    from accord.cli.doctor_command import BROKEN, DoctorFinding
    from accord.cli.doctor_online import check_providers
    from accord.tui.chat_types import KeyState

    (finding,) = check_providers([DoctorFinding(provider, "ready", "")], models)
    if finding.state == BROKEN:
        return KeyState(model, source, f"{provider}: {finding.remark.rstrip('; ')}")
    return KeyState(model, f"{source}, works" if finding.state == "works" else source)


def _names_model(command: tuple[str, ...]) -> bool:
    return any(word == "--model" or word.startswith("--model=") for word in command)


def _local_example(models: "ModelRegistry") -> str:
    """Return a model of a server on this machine as an example, if one runs."""
    from accord.coder.models.local_servers import find_local_servers

    for server in find_local_servers(models.endpoints):
        if (model := server.first_model) is not None:
            return f" (here runs {server.name}:{model.name})"
    return ""
