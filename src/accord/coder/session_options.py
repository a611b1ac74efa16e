"""What the user can set in a session: its mode, its model, and how hard the model thinks."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from accord.coder.coder_session import CoderSession
from accord.coder.models.model import EFFORTS, Effort
from accord.coder.models.model_name import REHEARSAL, ModelName
from accord.coder.models.model_registry import AvailableModel, UnknownModel, missing_key
from accord.errors import AuthRequired, InvalidParams
from accord.policy.request import DESCRIPTIONS, MODES, Mode
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
AS_USUAL: Final = "default"
"""The thought level that leaves it to the provider."""

_NAMES: Final[dict[Mode, str]] = {
    "read-only": "Read only",
    "ask": "Ask",
    "workspace-write": "Workspace write",
    "full-access": "Full access",
    "plan": "Plan",
}
_LEVELS: Final[dict[Effort, str]] = {"off": "Off", "xhigh": "Very high", "max": "Maximum"}
MOST_MODELS: Final = 300


def modes(current: Mode) -> SessionModeState:
    """The modes on offer."""
    listed = [SessionMode(mode, _NAMES[mode], DESCRIPTIONS[mode]) for mode in MODES]
    return SessionModeState(current, listed)


def options(conversation: CoderSession) -> list[SessionConfigOption]:
    """The options beside the mode, with their values."""
    models = conversation.coder.models
    choices = {str(conversation.model): _choice(conversation.model)}
    for name, offer in _offered(models, conversation.model.provider):
        if len(choices) >= MOST_MODELS:
            break
        choices[str(name)] = _choice(name, offer)
    listed: list[SessionConfigOption] = [
        SessionConfigSelect(
            MODEL,
            "Model",
            str(conversation.model),
            list(choices.values()),
            "Who thinks. Another one can be named as provider:name.",
            "model",
        )
    ]
    if conversation.model.provider != REHEARSAL:
        listed.append(
            SessionConfigSelect(
                EFFORT,
                "Thought level",
                conversation.effort or AS_USUAL,
                [_level(AS_USUAL, "Default"), *(_level(effort, _title(effort)) for effort in EFFORTS)],
                "How hard the model thinks; it takes the nearest level it has.",
                "thought_level",
            )
        )
    return listed


async def set_option(conversation: CoderSession, config_id: str, value: str | bool) -> None:
    """The client chose a value. Raises InvalidParams, and AuthRequired for a model whose key is missing."""
    if config_id == MODEL:
        await set_model(conversation, str(value))
    elif config_id == EFFORT:
        conversation.use_effort(_effort(value))


async def set_model(conversation: CoderSession, text: str, *, tell: bool = False) -> ModelName:
    """Think with the model that is named; a bare name is one of the provider in use. The list of models follows, and the
    client is told, unless the answer to its request lists the options anyway. Raises InvalidParams, AuthRequired."""
    coder = conversation.coder
    try:
        name = coder.models.find(text, conversation.model.provider)
    except UnknownModel as error:
        raise InvalidParams(str(error)) from None
    if coder.start.resolver is None and (missing := missing_key(name.provider, coder.models.endpoints)):
        raise AuthRequired(missing)
    before = conversation.model
    if name != before:
        conversation.use_model(name)
        preload(coder.models, name)
    await conversation.session.set_options(options(conversation), notify=tell and name != before)
    if name.provider != before.provider:
        conversation.soon(ask_for_models(conversation))
    return name


async def ask_for_models(conversation: CoderSession) -> None:
    """Ask the provider what it has, and offer that."""
    before = options(conversation)
    await conversation.coder.models.list_models(conversation.model.provider)
    after = options(conversation)
    if after != before and conversation.session.state != "closed":
        await conversation.session.set_options(after)


def preload(models: "ModelRegistry", name: ModelName) -> None:
    """Import what the model needs, in the background."""
    from accord.coder.library_imports import preload_provider_in_background

    kind = models.kind_of(name)
    if kind is not None:
        preload_provider_in_background(kind)


def _offered(models: "ModelRegistry", first: str) -> Iterator[tuple[ModelName, AvailableModel]]:
    ready = [name for name in models.endpoints.names if missing_key(name, models.endpoints) is None]
    for provider in dict.fromkeys([first, *ready, REHEARSAL]):
        if provider in (first, REHEARSAL) or models.endpoints.get(provider).key is not None:
            yield from ((ModelName(provider, offer.name), offer) for offer in models.known_models(provider))


def _choice(name: ModelName, offer: AvailableModel | None = None) -> SessionConfigSelectOption:
    title = name.name if offer is None else offer.title
    about = "A fixed script, no AI" if name.provider == REHEARSAL else name.provider
    return SessionConfigSelectOption(str(name), title, about)


def _level(value: str, name: str) -> SessionConfigSelectOption:
    return SessionConfigSelectOption(value, name, UNSET)


def _title(effort: Effort) -> str:
    return _LEVELS.get(effort, effort.capitalize())


def _effort(value: str | bool) -> Effort | None:
    return next((effort for effort in EFFORTS if effort == value), None)
