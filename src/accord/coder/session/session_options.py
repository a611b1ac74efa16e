"""The session options a user can set: mode, model, reasoning effort."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from accord.coder.models.agent_as_model import ACP
from accord.coder.models.model import EFFORTS, Effort
from accord.coder.models.model_name import REHEARSAL, ModelName
from accord.coder.models.model_registry import AvailableModel, UnknownModel, missing_key
from accord.coder.session.coder_session import CoderSession
from accord.errors import AuthRequired, InvalidParams
from accord.policy.mode_names import MODES, Mode
from accord.policy.request import MODE_DESCRIPTIONS
from accord.schema.session_requests import (
    SessionConfigOption,
    SessionConfigSelect,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
)

if TYPE_CHECKING:
    from accord.coder.models import ModelRegistry

MODEL: Final = "model"
EFFORT: Final = "thought_level"
DEFAULT_EFFORT: Final = "default"
"""The thought level that leaves the choice to the provider."""

_MODE_NAMES: Final[dict[Mode, str]] = {
    "read-only": "Read only",
    "ask": "Ask",
    "workspace-write": "Workspace write",
    "full-access": "Full access",
    "plan": "Plan",
}
_EFFORT_NAMES: Final[dict[Effort, str]] = {"off": "Off", "xhigh": "Very high", "max": "Maximum"}
MODEL_LIMIT: Final = 300
SMALL_CONTEXT: Final = 16_000
"""Agents do not work well with fewer tokens."""


def modes(session: CoderSession, current: str) -> SessionModeState:
    """The available modes, and the custom agents that can be one."""
    available = [SessionMode(mode, _MODE_NAMES[mode], MODE_DESCRIPTIONS[mode]) for mode in MODES]
    if session.knows_agents:
        agents = session.agents.modes
        if session.agent is not None and all(agent.name != session.agent.name for agent in agents):
            agents = [*agents, session.agent]  # in use, although its file has changed
        available += [SessionMode(agent.name, f"Agent {agent.name}", agent.description) for agent in agents]
    return SessionModeState(current, available)


async def offer_agents(session: CoderSession) -> None:
    """Offer the custom agents as modes, if they have changed."""
    agent_session = session.agent_session
    now = modes(session, agent_session.mode or session.mode)
    if agent_session.modes is not None and now.available_modes != agent_session.modes.available_modes:
        await agent_session.change_modes(now)


def options(session: CoderSession) -> list[SessionConfigOption]:
    """All options except the mode, with their values."""
    models = session.resources.models
    choices = {str(session.model): _model_option(session.model)}
    for name, model in _available_models(models, session.model.provider):
        if len(choices) >= MODEL_LIMIT:
            break
        choices[str(name)] = _model_option(name, model)
    config_options: list[SessionConfigOption] = [
        SessionConfigSelect(
            MODEL,
            "Model",
            str(session.model),
            list(choices.values()),
            "The model for this session. Others can be set as provider:name.",
            "model",
        )
    ]
    if session.model.provider not in (REHEARSAL, ACP):
        config_options.append(
            SessionConfigSelect(
                EFFORT,
                "Thought level",
                session.effort or DEFAULT_EFFORT,
                [
                    _select_option(DEFAULT_EFFORT, "Default"),
                    *(_select_option(effort, _effort_name(effort)) for effort in EFFORTS),
                ],
                "The reasoning effort. The model uses the nearest level it supports.",
                "thought_level",
            )
        )
    return config_options


async def set_option(session: CoderSession, config_id: str, value: str | bool) -> None:
    """Set an option to the client's choice. Raises InvalidParams, and AuthRequired if a key is missing."""
    if config_id == MODEL:
        await set_model(session, str(value))
    elif config_id == EFFORT:
        session.use_effort(_parse_effort(value))


async def set_model(session: CoderSession, text: str, *, notify: bool = False) -> ModelName:
    """Use the named model; a name without a provider belongs to the current one.

    Updates the options; `notify` also sends them to the client, for requests whose response does not list
    them. Raises InvalidParams, AuthRequired.
    """
    resources = session.resources
    try:
        name = resources.models.find(text, session.model.provider)
    except UnknownModel as error:
        raise InvalidParams(str(error)) from None
    if resources.options.resolver is None and (
        missing := missing_key(name.provider, resources.models.endpoints)
    ):
        raise AuthRequired(missing)
    previous = session.model
    if name != previous or not session.model_is_named:
        session.use_model(name)
        preload(resources.models, name)
    await session.agent_session.set_options(options(session), notify=notify and name != previous)
    if name.provider != previous.provider:
        session.spawn(ask_for_models(session))
    return name


async def ask_for_models(session: CoderSession, *, local: bool = False) -> None:
    """Ask the provider for its models and offer them. `local`: without any key, look on this machine, too."""
    before = options(session)
    models = session.resources.models
    await models.list_models(session.model.provider)
    if local and not any(models.endpoints.get(name).key for name in models.endpoints.names):
        await models.find_local_servers()
    after = options(session)
    if after != before and session.agent_session.state != "closed":
        await session.agent_session.set_options(after)


async def check_window(session: CoderSession) -> None:
    """After the first request to a local server: use the context size it has loaded; warn if it is small."""
    context = await session.resources.models.loaded_context(session.model)
    if context is None or context >= SMALL_CONTEXT:
        return
    advice = (
        "set OLLAMA_CONTEXT_LENGTH=64000 for the server"
        if session.model.provider == "ollama"
        else ("load it with a larger one")
    )
    text = (
        f"{session.model} is loaded with {context} tokens. The server may cut off the beginning of longer "
        f"conversations silently; {advice}."
    )
    await session.agent_session.notice("Small context", text, severity="warning")


def preload(models: "ModelRegistry", name: ModelName) -> None:
    """Import what the model needs in the background."""
    from accord.coder.library_imports import preload_provider_in_background

    kind = models.kind_of(name)
    if kind is not None:
        preload_provider_in_background(kind)


def _available_models(models: "ModelRegistry", first: str) -> Iterator[tuple[ModelName, AvailableModel]]:
    ready = [name for name in models.endpoints.names if missing_key(name, models.endpoints) is None]
    for provider in dict.fromkeys([first, *ready, *models.local_names, REHEARSAL]):
        offered = provider in (first, *models.local_names, REHEARSAL)
        if offered or models.endpoints.get(provider).key is not None:
            yield from ((ModelName(provider, model.name), model) for model in models.known_models(provider))


def _model_option(name: ModelName, model: AvailableModel | None = None) -> SessionConfigSelectOption:
    title = name.name if model is None else model.title
    description = "A fixed script, no AI" if name.provider == REHEARSAL else name.provider
    description = "Another agent" if name.provider == ACP else description
    if model is not None and model.details and name.provider != REHEARSAL:
        description = f"{description}: {model.details}"
    return SessionConfigSelectOption(str(name), title, description)


def _select_option(value: str, name: str) -> SessionConfigSelectOption:
    return SessionConfigSelectOption(value, name, UNSET)


def _effort_name(effort: Effort) -> str:
    return _EFFORT_NAMES.get(effort, effort.capitalize())


def _parse_effort(value: str | bool) -> Effort | None:
    return next((effort for effort in EFFORTS if effort == value), None)
