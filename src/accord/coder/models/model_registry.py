"""All models: which can be chosen, which one is chosen first, lookup by name, lists from providers."""

import asyncio
import inspect
import logging
import os
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from accord.clock import SYSTEM_CLOCK, Clock, within
from accord.coder.library_imports import provider_loaded
from accord.coder.models.credentials import variable
from accord.coder.models.endpoints import Endpoint, Endpoints, family_of
from accord.coder.models.model import Model, ModelError
from accord.coder.models.model_name import (
    REHEARSAL,
    REHEARSAL_CONTEXT,
    ModelName,
    provider_name,
    read_name,
    sees_by_name,
)
from accord.coder.models.remote_model import ModelConnections, RemoteModel
from accord.coder.user_config import Kind, ModelFacts, ModelsConfig, load_models_config
from accord.errors import MissingExtra, UsageError

# MERGED coder.models.choice: Which model an agent starts with: what was asked for, else what is configured, else whoever's key is there.

Source: TypeAlias = Literal["flag", "environment", "config", "credentials", "rehearsal"]

VARIABLE = "ACCORD_MODEL"


class ModelChoice(Struct, frozen=True):
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
) -> ModelChoice:
    """The flag, `ACCORD_MODEL`, the config, a provider whose key is there, or else the rehearsal."""
    asked: list[tuple[Source, str | None]] = [
        ("flag", flag),
        ("environment", environment.get(VARIABLE)),
        ("config", config.model),
    ]
    for source, text in asked:
        if text and text.strip():
            name = find_model(text, endpoints)
            return ModelChoice(name, source, missing_key(name.provider, endpoints))
    for provider in endpoints.names:
        model = endpoints.default_model(provider)
        if model and (endpoints.get(provider).key is not None or endpoints.withheld_key(provider)):
            return ModelChoice(ModelName(provider, model), "credentials", missing_key(provider, endpoints))
    return ModelChoice(ModelName(REHEARSAL, REHEARSAL), "rehearsal", unnamed=_unnamed(endpoints))


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


# MERGED coder.models.offers: The models that a server offers: asked once in a while, in bounded time, else what the config names.

_log = logging.getLogger(__name__)


class AvailableModel(Struct, frozen=True):
    """A model that can be chosen."""

    name: str
    title: str
    context: int | None = None


class AvailableModels:
    """What each server offers, as far as it is known."""

    def __init__(
        self,
        connections: ModelConnections,
        clock: Clock,
        *,
        seconds: float = 5.0,
        keep: float = 600.0,
        forget: float = 30.0,
    ) -> None:
        self._connections = connections
        self._clock = clock
        self._seconds = seconds
        self._keep = keep
        self._forget = forget
        self._known: dict[str, tuple[float, list[AvailableModel] | None]] = {}
        self._asking: dict[str, asyncio.Task[list[AvailableModel]]] = {}

    def known(self, endpoint: Endpoint) -> Sequence[AvailableModel] | None:
        """What the server said when it was last asked; None if it never answered."""
        _, offers = self._known.get(endpoint.name, (0.0, None))
        return offers

    async def ask(self, endpoint: Endpoint) -> Sequence[AvailableModel] | None:
        """What the server offers; None if it does not say. Asks again only when the last answer is old."""
        until, offers = self._known.get(endpoint.name, (0.0, None))
        if self._clock.now() < until or not endpoint.ready:
            return offers
        try:
            await provider_loaded(endpoint.kind)
        except MissingExtra as error:
            _log.info("%s", error)
            return offers
        task = self._asking.get(endpoint.name)
        if task is None:
            task = self._asking[endpoint.name] = asyncio.ensure_future(self._ask(endpoint))
            task.add_done_callback(lambda _: self._asking.pop(endpoint.name, None))
        if await within(self._clock, self._seconds, task):
            return self.known(endpoint)
        task.cancel()
        self._remember(endpoint, None)
        _log.info("%s did not list its models in time", endpoint.name)
        return self.known(endpoint)

    async def _ask(self, endpoint: Endpoint) -> list[AvailableModel]:
        from accord.coder.models.provider_connection import ask_for_models

        try:
            offers = await ask_for_models(endpoint, self._connections.http())
        except ModelError as error:
            _log.info("%s", error)
            self._remember(endpoint, None)
            return []
        self._remember(endpoint, offers)
        return offers

    def _remember(self, endpoint: Endpoint, offers: list[AvailableModel] | None) -> None:
        now = self._clock.now()
        if offers is None:
            self._known[endpoint.name] = (now + self._forget, self._known.get(endpoint.name, (0.0, None))[1])
        else:
            self._known[endpoint.name] = (now + self._keep, offers)

    async def aclose(self) -> None:
        """Stop asking."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# MERGED coder.models.library: All models of a program: which is chosen, which can be chosen, and the one of a name.

Resolver: TypeAlias = Callable[[ModelName], Model | Awaitable[Model | None] | None]
"""Gives the model of a name, for those who embed the agent; None leaves it to Accord."""


class ModelRegistry:
    """Where models come from. Holds their connections: close it at the end of the program."""

    def __init__(
        self,
        config: ModelsConfig | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        keys: Path | None = None,
        resolver: Resolver | None = None,
        clock: Clock = SYSTEM_CLOCK,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.config = load_models_config() if config is None else config
        self._environment = os.environ if environment is None else environment
        self.endpoints = Endpoints(self.config, self._environment, keys)
        self._resolver = resolver
        self._clock = clock
        self._chance = chance
        self._connections = ModelConnections(self.config.requests)
        self._offers = AvailableModels(self._connections, clock)
        self._models: dict[tuple[ModelName, Endpoint], RemoteModel] = {}

    def choose(self, flag: str | None = None) -> ModelChoice:
        """The model to begin with. Raises UnknownModel, ConfigError, CredentialsError."""
        choice = choose(self.config, self.endpoints, self._environment, flag)
        if choice.missing and self._resolver is not None:
            return ModelChoice(choice.model, choice.source)  # the resolver may know a way
        return choice

    def find(self, text: str, current: str | None = None) -> ModelName:
        """The model that is named; a bare name is one of the current provider. Raises UnknownModel."""
        return find_model(text, self.endpoints, current)

    def kind_of(self, name: ModelName) -> Kind | None:
        """Which libraries it needs, to load them in the background; None for the rehearsal."""
        return None if name.provider == REHEARSAL else self.endpoints.get(name.provider).kind

    def sees_images(self, name: ModelName) -> bool:
        """Whether the model can look at pictures, as far as it is known without asking anybody."""
        if name.provider == REHEARSAL:
            return False
        images = self._facts(name).images
        return sees_by_name(name.name) if images is None else images

    async def resolve(self, name: ModelName) -> Model:
        """The model. Raises ModelError, of kind `auth` where its key is missing."""
        if self._resolver is not None and (given := await self._from_resolver(name, self._resolver)):
            return given
        if name.provider == REHEARSAL:
            from accord.coder.models.rehearsal_model import RehearsalModel

            return RehearsalModel(self._facts(name).context or REHEARSAL_CONTEXT)
        if missing := missing_key(name.provider, self.endpoints):
            raise ModelError("auth", missing)
        endpoint = self.endpoints.get(name.provider)
        model = self._models.get((name, endpoint))
        if model is None:
            model = self._models[name, endpoint] = RemoteModel(
                endpoint,
                name.name,
                self._connections,
                self._facts(name),
                self.config.requests,
                self._clock,
                self._chance,
            )
        model.told_context = next(
            (offer.context for offer in self._offers.known(endpoint) or () if offer.name == name.name), None
        )
        return model

    def known(self, provider: str) -> Sequence[AvailableModel]:
        """What can be chosen at this provider, as far as it is known without asking."""
        if provider == REHEARSAL:
            return [AvailableModel(REHEARSAL, REHEARSAL, REHEARSAL_CONTEXT)]
        offers = self._offers.known(self.endpoints.get(provider))
        return self._listed(provider) if offers is None else offers

    async def offered(self, provider: str) -> Sequence[AvailableModel]:
        """What can be chosen at this provider: asked from it, in bounded time, else what the config lists."""
        if provider == REHEARSAL:
            return self.known(provider)
        offers = await self._offers.ask(self.endpoints.get(provider))
        return self._listed(provider) if offers is None else offers

    async def aclose(self) -> None:
        """Close all connections."""
        await self._offers.aclose()
        await self._connections.aclose()

    def _listed(self, provider: str) -> list[AvailableModel]:
        return [
            AvailableModel(name, name, self._facts(ModelName(provider, name)).context)
            for name in self.endpoints.listed_models(provider)
        ]

    def _facts(self, name: ModelName) -> ModelFacts:
        return self.config.models.get(str(name)) or self.config.models.get(name.name) or ModelFacts()

    async def _from_resolver(self, name: ModelName, resolver: Resolver) -> Model | None:
        failure: str
        try:
            model = resolver(name)
            return await model if inspect.isawaitable(model) else model
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001  (the embedder's code; what it says may hold secrets)
            failure = type(error).__name__
        _log.warning("the model resolver failed for provider %s: %s", name.provider, failure)
        raise ModelError("other", f"{name.provider}: the program's model resolver failed ({failure})")
