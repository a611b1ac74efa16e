"""Which model an agent starts with: what was asked for, else what is configured, else whoever's key is there."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from accord.coder.models.config import ModelsConfig
from accord.coder.models.credentials import variable
from accord.coder.models.endpoints import Endpoints, family_of
from accord.coder.models.names import REHEARSAL, ModelName, provider_name, read_name
from accord.errors import UsageError

Source: TypeAlias = Literal["flag", "environment", "config", "credentials", "rehearsal"]

VARIABLE = "ACCORD_MODEL"


class Choice(Struct, frozen=True):
    """A model, and who chose it."""

    model: ModelName
    source: Source
    missing: str | None = None
    """Why it cannot be used yet: the line to answer with that says which key is missing and how to give it."""
    unnamed: str | None = None
    """For the rehearsal: which server has a key but no model, so that it could not be chosen, and what to do about it."""


class UnknownModel(UsageError):
    """A model was named that no known server has."""


def choose(
    config: ModelsConfig, endpoints: Endpoints, environment: Mapping[str, str], flag: str | None = None
) -> Choice:
    """The flag, `ACCORD_MODEL`, the config, a provider whose key is there, or else the rehearsal."""
    asked: list[tuple[Source, str | None]] = [
        ("flag", flag),
        ("environment", environment.get(VARIABLE)),
        ("config", config.model),
    ]
    for source, text in asked:
        if text and text.strip():
            name = find_model(text, endpoints)
            return Choice(name, source, missing_key(name.provider, endpoints))
    for provider in endpoints.names:
        model = endpoints.default_model(provider)
        if model and (endpoints.get(provider).key is not None or endpoints.withheld_key(provider)):
            return Choice(ModelName(provider, model), "credentials", missing_key(provider, endpoints))
    return Choice(ModelName(REHEARSAL, REHEARSAL), "rehearsal", unnamed=_unnamed(endpoints))


def _unnamed(endpoints: Endpoints) -> str | None:
    for provider in endpoints.names:
        endpoint = endpoints.get(provider)
        if endpoint.key is not None:
            setting = variable(family_of(provider), "MODEL")
            return (
                f"there is a key for {provider} at {endpoint.base_url}, but no model is named: set {setting}, "
                f"or choose one as {provider}:NAME"
            )
    return None


def find_model(text: str, endpoints: Endpoints, current: str | None = None) -> ModelName:
    """The model that is named; a server's name alone means its first model. Raises UnknownModel."""
    alone = provider_name(text.strip().rstrip(":/"))
    if endpoints.is_provider(alone):
        if model := endpoints.default_model(alone):
            return ModelName(alone, model)
        raise UnknownModel(f"{alone} has no default model: name one, as {alone}:NAME")
    # The rehearsal has no other models: a bare name is none of its.
    if name := read_name(text, endpoints.is_provider, None if current == REHEARSAL else current):
        return name
    known = ", ".join([*endpoints.names, REHEARSAL])
    raise UnknownModel(f"{text!r} names no known provider ({known}): write provider:name")


def missing_key(provider: str, endpoints: Endpoints) -> str | None:
    """What to say where the server's key is missing; None if it is there or not needed."""
    if provider == REHEARSAL or endpoints.get(provider).ready:
        return None
    if withheld := endpoints.withheld_key(provider):
        return f"{provider}: you have signed out; sign in to use the key in {withheld} again"
    family = family_of(provider)
    return (
        f"{provider}: no key found; set {variable(family, 'API_KEY')} or run `accord agent --login {family}`"
    )
