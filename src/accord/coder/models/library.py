"""All models of a program: which is chosen, which can be chosen, and the one of a name."""

import inspect
import logging
import os
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from accord.clock import SYSTEM_CLOCK, Clock
from accord.coder.models.choice import Choice, choose, find_model, missing_key
from accord.coder.models.config import Kind, ModelFacts, ModelsConfig, load
from accord.coder.models.endpoints import Endpoint, Endpoints
from accord.coder.models.model import Model, ModelError
from accord.coder.models.names import REHEARSAL, ModelName
from accord.coder.models.offers import Offer, Offers
from accord.coder.models.rehearsal.model import CONTEXT_SIZE, Rehearsal
from accord.coder.models.remote import Connections, RemoteModel
from accord.coder.models.seeing import sees_by_name

_log = logging.getLogger(__name__)

Resolver: TypeAlias = Callable[[ModelName], Model | Awaitable[Model | None] | None]
"""Gives the model of a name, for those who embed the agent; None leaves it to Accord."""


class Models:
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
        self.config = load() if config is None else config
        self._environment = os.environ if environment is None else environment
        self.endpoints = Endpoints(self.config, self._environment, keys)
        self._resolver = resolver
        self._clock = clock
        self._chance = chance
        self._connections = Connections(self.config.requests)
        self._offers = Offers(self._connections, clock)
        self._models: dict[tuple[ModelName, Endpoint], RemoteModel] = {}

    def choose(self, flag: str | None = None) -> Choice:
        """The model to begin with. Raises UnknownModel, ConfigError, CredentialsError."""
        choice = choose(self.config, self.endpoints, self._environment, flag)
        if choice.missing and self._resolver is not None:
            return Choice(choice.model, choice.source)  # the resolver may know a way
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
            return Rehearsal.sees_images
        images = self._facts(name).images
        return sees_by_name(name.name) if images is None else images

    async def resolve(self, name: ModelName) -> Model:
        """The model. Raises ModelError, of kind `auth` where its key is missing."""
        if self._resolver is not None and (given := await self._from_resolver(name, self._resolver)):
            return given
        if name.provider == REHEARSAL:
            return Rehearsal(self._facts(name).context or CONTEXT_SIZE)
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

    def known(self, provider: str) -> Sequence[Offer]:
        """What can be chosen at this provider, as far as it is known without asking."""
        if provider == REHEARSAL:
            return [Offer(REHEARSAL, REHEARSAL, CONTEXT_SIZE)]
        offers = self._offers.known(self.endpoints.get(provider))
        return self._listed(provider) if offers is None else offers

    async def offered(self, provider: str) -> Sequence[Offer]:
        """What can be chosen at this provider: asked from it, in bounded time, else what the config lists."""
        if provider == REHEARSAL:
            return self.known(provider)
        offers = await self._offers.ask(self.endpoints.get(provider))
        return self._listed(provider) if offers is None else offers

    async def aclose(self) -> None:
        """Close all connections."""
        await self._offers.aclose()
        await self._connections.aclose()

    def _listed(self, provider: str) -> list[Offer]:
        return [
            Offer(name, name, self._facts(ModelName(provider, name)).context)
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
