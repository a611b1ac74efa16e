"""All models of a program: the choice of the first one, lookup by name, fallbacks, lists of the providers."""

import asyncio
import inspect
import logging
import os
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec import Struct

from accord.clock import SYSTEM_CLOCK, Clock, within
from accord.coder.library_imports import provider_loaded
from accord.coder.model_history import ToolUse
from accord.coder.models.agent_as_model import ACP, agent_as_model
from accord.coder.models.credentials import provider_variable
from accord.coder.models.endpoint_presets import PRESETS
from accord.coder.models.endpoints import Endpoint, Endpoints, family_of
from accord.coder.models.model import (
    Effort,
    ErrorKind,
    Model,
    ModelError,
    ModelEvent,
    ModelRequest,
    Retrying,
    TextDelta,
    ThoughtDelta,
)
from accord.coder.models.model_name import (
    MODEL_VARIABLE,
    REHEARSAL,
    REHEARSAL_CONTEXT,
    Kind,
    ModelName,
    guess_vision,
    normalize_provider,
    parse_model_name,
)
from accord.coder.models.remote_model import ModelConnections, RemoteModel
from accord.coder.user_config import ModelFacts, ModelsConfig, load_models_config
from accord.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from accord.coder.models.local_servers import LocalServer


_log = logging.getLogger(__name__)


ChoiceSource: TypeAlias = Literal["flag", "environment", "config", "credentials", "rehearsal"]

Resolver: TypeAlias = Callable[[ModelName], Model | Awaitable[Model | None] | None]
"""Lets a program that embeds the agent provide the model of a name.

None means that Accord resolves the name.
"""


_ANY_FAILURE: Final[tuple[ErrorKind, ...]] = (
    "auth", "rate", "overloaded", "bad_request", "context_full", "network", "other",
)  # fmt: skip


class ModelChoice(Struct, frozen=True):
    """A model, and where the choice comes from."""

    model: ModelName
    source: ChoiceSource
    missing_key: str | None = None
    """If the model's key is missing: the message that says which one, and how to set it."""
    missing_model: str | None = None
    """If the rehearsal was chosen although a server has a key: the message that asks for a model name."""


class AvailableModel(Struct, frozen=True):
    """A model that can be chosen."""

    name: str
    title: str
    context: int | None = None
    tools: bool | None = None
    """Whether it can call tools; None if the server does not say."""
    images: bool | None = None
    """Whether it accepts images; None if the server does not say."""
    loaded: bool = False
    """Whether a local server has it in memory."""
    elsewhere: bool = False
    """Whether a local server passes requests on to another machine."""

    @property
    def details(self) -> str:
        """The context size and the abilities in a few words; empty if the server says nothing."""
        texts = [f"{self.context // 1000}k tokens" if self.context else ""]
        texts.append("" if self.tools is None else "tools" if self.tools else "no tools: unusable for agents")
        texts.append("images" if self.images else "")
        texts.append("runs elsewhere, not on this machine" if self.elsewhere else "")
        return ", ".join(text for text in texts if text)


class UnknownModel(UsageError):
    """The name belongs to no known server."""


class ModelRegistry:
    """Creates and looks up models. Owns their connections: close it at the end of the program."""

    def __init__(
        self,
        config: ModelsConfig | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        keys: Path | None = None,
        resolver: Resolver | None = None,
        clock: Clock = SYSTEM_CLOCK,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.config: ModelsConfig = load_models_config() if config is None else config
        self._environment = os.environ if environment is None else environment
        self.endpoints: Endpoints = Endpoints(self.config, self._environment, keys)
        self._resolver = resolver
        self._clock = clock
        self._jitter = jitter
        self._connections = ModelConnections(self.config.requests)
        self._lists = ModelListCache(self._connections, clock)
        self._models: dict[tuple[ModelName, Endpoint], RemoteModel] = {}
        self._reported: set[str] = set()
        self.local_names: list[str] = []
        """The local servers that were found last."""

    def choose(self, flag: str | None = None) -> ModelChoice:
        """Choose the model to start with. Raises UnknownModel, ConfigError, CredentialsError."""
        choice = choose(self.config, self.endpoints, self._environment, flag)
        if choice.missing_key and self._resolver is not None:
            return ModelChoice(choice.model, choice.source)  # the resolver may provide it without a key
        return choice

    def find(self, text: str, current: str | None = None) -> ModelName:
        """Return the model of this name.

        A bare name means one of the current provider. Raises UnknownModel.
        """
        return find_model(text, self.endpoints, current)

    def kind_of(self, name: ModelName) -> Kind | None:
        """Return the kind of server, which decides the modules to load; None for others than models."""
        return (
            None if name.provider in (REHEARSAL, ACP) else self.endpoints.get(name.provider, name.name).kind
        )

    def sees_images(self, name: ModelName) -> bool:
        """Return whether the model accepts images, by the configuration or its name. Sends no request."""
        if name.provider in (REHEARSAL, ACP):
            return name.provider == ACP
        images = self._facts(name).images
        return guess_vision(name.name) if images is None else images

    async def resolve(self, name: ModelName, *, named: bool = True) -> Model:
        """Return the model. Raises ModelError, with kind `auth` if its key is missing.

        `named`: whether the user chose it. The rehearsal follows commands only then.
        """
        if self._resolver is not None and (model := await self._from_resolver(name, self._resolver)):
            return model
        if name.provider == REHEARSAL:
            from accord.coder.models.rehearsal_model import RehearsalModel

            return RehearsalModel(self._facts(name).context or REHEARSAL_CONTEXT, named=named)
        if name.provider == ACP:
            return agent_as_model(name.name)
        if missing := missing_key(name.provider, self.endpoints):
            raise ModelError("auth", missing)
        endpoint = self.endpoints.get(name.provider, name.name)
        remote = self._models.get((name, endpoint))
        if remote is None:
            remote = self._models[name, endpoint] = RemoteModel(
                endpoint,
                name.name,
                self._connections,
                self._facts(name),
                self.config.requests,
                self._clock,
                self._jitter,
            )
        listed = self._lists.cached(endpoint) or ()
        found = next((model for model in listed if model.name == name.name), None)
        remote.reported_context = None if found is None else found.context
        remote.reported_images = None if found is None else found.images
        return remote

    async def resolve_with_fallbacks(self, name: ModelName, *, named: bool = True) -> Model:
        """Return the model, with the fallback models of the configuration behind it.

        Raises ModelError, and UnknownModel for a name in the configuration.
        """
        model = await self.resolve(name, named=named)
        if name.provider in (REHEARSAL, ACP):
            return model
        fallbacks = [self.find(text) for text in self.config.fallback_models]
        others = [await self.resolve(other) for other in fallbacks if other != name and self._usable(other)]
        return FallbackModel([model, *others]) if others else model

    async def small_model(self, model: Model) -> Model:
        """Return the small model of the configuration, with `model` behind it; `model` if there is none.

        Raises UnknownModel.
        """
        if self.config.small_model is None or model.provider in (REHEARSAL, ACP):
            return model
        name = self.find(self.config.small_model)
        if name == (model.provider, model.name) or not self._usable(name):
            return model
        return FallbackModel([await self.resolve(name), model], after=_ANY_FAILURE)

    def _usable(self, name: ModelName) -> bool:
        """Whether a model of the configuration has its key. Logs the reason once if not."""
        reason = None if self._resolver is not None else missing_key(name.provider, self.endpoints)
        if reason is not None and reason not in self._reported:
            self._reported.add(reason)
            _log.warning("%s is not used: %s", name, reason)
        return reason is None

    def known_models(self, provider: str) -> Sequence[AvailableModel]:
        """Return the provider's models without a request: its last list, else those of the configuration."""
        if provider == REHEARSAL:
            return [AvailableModel(REHEARSAL, REHEARSAL, REHEARSAL_CONTEXT)]
        if provider == ACP:
            return []
        models = self._lists.cached(self.endpoints.get(provider))
        return self._configured(provider) if models is None else models

    async def list_models(self, provider: str) -> Sequence[AvailableModel]:
        """Return the provider's models: its own list, fetched in bounded time, else those of the
        configuration.
        """
        if provider in (REHEARSAL, ACP):
            return self.known_models(provider)
        models = await self._lists.get(self.endpoints.get(provider))
        return self._configured(provider) if models is None else models

    async def count_models(self, endpoint: Endpoint) -> int | None:
        """Test a server's address and key; return the number of its models, None without a list.

        Raises ModelError. Call it only after the provider code is loaded.
        """
        from accord.coder.models.provider_request import count_models

        return await count_models(endpoint, self._connections.http())

    async def loaded_context(self, name: ModelName) -> int | None:
        """Return the context size with which a local server has loaded a model; None if it does not say.

        It may be smaller than the model's own, and is known only after the first request.
        """
        if name.provider == ACP:
            return None
        endpoint = self.endpoints.get(name.provider)
        if not endpoint.is_local:
            return None
        models = await self._lists.get(endpoint, fresh=True) or ()
        loaded = [model.context for model in models if model.name == name.name and model.loaded]
        return loaded[0] if loaded else None

    async def find_local_servers(self) -> "list[LocalServer]":
        """Return the model servers on this machine. Their lists count as fetched."""
        from accord.coder.models.local_servers import find_local_servers

        servers = await asyncio.to_thread(find_local_servers, self.endpoints)
        for server in servers:
            self._lists.store(server.name, server.models)
        self.local_names = [server.name for server in servers]
        return servers

    async def aclose(self) -> None:
        """Close all connections."""
        await self._lists.aclose()
        await self._connections.aclose()

    def _configured(self, provider: str) -> list[AvailableModel]:
        return [
            AvailableModel(name, name, self._facts(ModelName(provider, name)).context)
            for name in self.endpoints.configured_models(provider)
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
        except Exception as error:  # noqa: BLE001  (code of the embedding program; its text may hold secrets)
            failure = type(error).__name__
        _log.warning("the model resolver failed for provider %s: %s", name.provider, failure)
        raise ModelError("other", f"{name.provider}: the program's model resolver failed ({failure})")


def choose(
    config: ModelsConfig, endpoints: Endpoints, environment: Mapping[str, str], flag: str | None = None
) -> ModelChoice:
    """Choose the model of the flag, of `ACCORD_MODEL`, of the configuration, of a provider with a key, or the
    rehearsal.
    """
    candidates: list[tuple[ChoiceSource, str | None]] = [
        ("flag", flag),
        ("environment", environment.get(MODEL_VARIABLE)),
        ("config", config.model),
    ]
    for source, text in candidates:
        if text and text.strip():
            name = find_model(text, endpoints)
            return ModelChoice(name, source, missing_key(name.provider, endpoints))
    for provider in endpoints.names:
        model = endpoints.default_model(provider)
        if model and (endpoints.get(provider).key is not None or endpoints.ignored_key_variable(provider)):
            return ModelChoice(ModelName(provider, model), "credentials", missing_key(provider, endpoints))
    return ModelChoice(ModelName(REHEARSAL, REHEARSAL), "rehearsal", missing_model=_missing_model(endpoints))


def _missing_model(endpoints: Endpoints) -> str | None:
    for provider in endpoints.names:
        endpoint = endpoints.get(provider)
        if endpoint.key is not None:
            setting = provider_variable(family_of(provider), "MODEL")
            return (
                f"there is a key for {provider} at {endpoint.base_url}, but no model is named: "
                f"set {setting}, or choose one as {provider}:NAME"
            )
    return None


def find_model(text: str, endpoints: Endpoints, current: str | None = None) -> ModelName:
    """Return the model of this name. A server's name alone means its default model. Raises UnknownModel."""
    if (agent := _other_agent(text)) is not None and not endpoints.is_provider(ACP):
        return agent
    provider = normalize_provider(text.strip().rstrip(":/"))
    if endpoints.is_provider(provider):
        if model := endpoints.default_model(provider) or _first_local_model(provider, endpoints):
            return ModelName(provider, model)
        raise UnknownModel(f"{provider} has no default model: name one, as {provider}:NAME")
    # The rehearsal provider has one model, and an agent is named in full: a bare name is none of them.
    if name := parse_model_name(
        text, endpoints.is_provider, None if current in (REHEARSAL, ACP) else current
    ):
        return name
    provider_names = ", ".join([*endpoints.all_names, REHEARSAL])
    raise UnknownModel(
        f"{text!r} names no known provider ({provider_names}); use provider:name, or add your server with "
        "`accord agent --login NAME=URL`, [endpoints.NAME] in config.toml or NAME_BASE_URL"
    )


def _other_agent(text: str) -> ModelName | None:
    """The agent that `acp:NAME` names; None for other names."""
    provider, separator, name = text.strip().replace("/", ":", 1).partition(":")
    if provider.casefold() != ACP or not (separator or text.strip() == ACP):
        return None
    if not name.strip():
        raise UnknownModel(f"{ACP}: name an agent of acp.json, as {ACP}:NAME")
    return ModelName(ACP, name.strip())


def _first_local_model(provider: str, endpoints: Endpoints) -> str | None:
    """Ask a local server for the model to use when only the server is named."""
    endpoint = endpoints.get(provider)
    if not endpoint.is_local:
        return None
    from accord.coder.models.local_servers import probe

    server = probe(endpoint)
    if server is None:
        raise UnknownModel(f"{provider} does not answer at {endpoint.base_url}; start it, or name a model")
    model = server.first_model
    if model is None:
        raise UnknownModel(f"{provider} at {endpoint.base_url} has no model that can call tools")
    return model.name


def missing_key(provider: str, endpoints: Endpoints) -> str | None:
    """Return the message about the server's missing key; None if it has a key or needs none."""
    if provider in (REHEARSAL, ACP) or endpoints.get(provider).ready:
        return None
    if variable := endpoints.ignored_key_variable(provider):
        return f"{provider}: you have signed out; sign in to use the key in {variable} again"
    family = family_of(provider)
    if endpoints.get(provider).needs_address:
        return (
            f"{provider}: no address found; {PRESETS[family].advice} or run `accord agent --login {family}`"
        )
    key = provider_variable(family, "API_KEY")
    return f"{provider}: no key found; set {key} or run `accord agent --login {family}`"


class ModelListCache:
    """The model lists of all servers. Fetches a list in bounded time and keeps it for a while."""

    def __init__(
        self,
        connections: ModelConnections,
        clock: Clock,
        *,
        timeout: float = 5.0,
        lifetime: float = 600.0,
        failure_lifetime: float = 30.0,
    ) -> None:
        self._connections = connections
        self._clock = clock
        self._timeout = timeout
        self._lifetime = lifetime
        self._failure_lifetime = failure_lifetime
        self._lists: dict[str, tuple[float, list[AvailableModel] | None]] = {}
        """By server: when the list expires, and the list."""
        self._fetches: dict[str, asyncio.Task[list[AvailableModel]]] = {}

    def cached(self, endpoint: Endpoint) -> Sequence[AvailableModel] | None:
        """Return the server's last list, even an expired one; None if it never sent one."""
        _, models = self._lists.get(endpoint.name, (0.0, None))
        return models

    async def get(self, endpoint: Endpoint, *, fresh: bool = False) -> Sequence[AvailableModel] | None:
        """Return the server's list; None if it sends none.

        Fetches it only if the last one has expired, or if it must be `fresh`.
        """
        expires, models = self._lists.get(endpoint.name, (0.0, None))
        if (self._clock.now() < expires and not fresh) or not endpoint.ready:
            return models
        try:
            await provider_loaded(endpoint.kind)
        except MissingExtra as error:
            _log.info("%s", error)
            return models
        task = self._fetches.get(endpoint.name)
        if task is None:
            task = self._fetches[endpoint.name] = asyncio.ensure_future(self._fetch(endpoint))
            task.add_done_callback(lambda _: self._fetches.pop(endpoint.name, None))
        if await within(self._clock, self._timeout, task):
            return self.cached(endpoint)
        task.cancel()
        self._store(endpoint, None)
        _log.info("%s did not list its models in time", endpoint.name)
        return self.cached(endpoint)

    async def _fetch(self, endpoint: Endpoint) -> list[AvailableModel]:
        from accord.coder.models.provider_request import fetch_models

        try:
            models = await self._local_models(endpoint)
            if models is None:
                models = await fetch_models(endpoint, self._connections.http())
        except ModelError as error:
            _log.info("%s", error)
            self._store(endpoint, None)
            return []
        self._store(endpoint, models)
        return models

    async def _local_models(self, endpoint: Endpoint) -> list[AvailableModel] | None:
        """Return the models of a local server with their abilities; None if it does not answer as one."""
        if not endpoint.is_local:
            return None
        from accord.coder.models.local_servers import probe

        server = await asyncio.to_thread(probe, endpoint)
        return None if server is None else list(server.models)

    def store(self, name: str, models: Sequence[AvailableModel]) -> None:
        """Keep the list of a server."""
        self._lists[name] = (self._clock.now() + self._lifetime, list(models))

    def _store(self, endpoint: Endpoint, models: list[AvailableModel] | None) -> None:
        """Keep a list, or after a failure (None) the old one for a shorter time."""
        now = self._clock.now()
        if models is None:
            _, old = self._lists.get(endpoint.name, (0.0, None))
            self._lists[endpoint.name] = (now + self._failure_lifetime, old)
        else:
            self.store(endpoint.name, models)

    async def aclose(self) -> None:
        """Cancel all requests."""
        tasks = list(self._fetches.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


_TEMPORARY: Final[tuple[ErrorKind, ...]] = ("rate", "overloaded", "network", "other")
"""Failures of a provider. A refused key, a wrong request or a full context is for the user to solve."""


class FallbackModel:
    """Asks the first model; if it fails for good, the next one.

    The model that answered is asked first from then on. Create one for each turn, so that the next turn tries
    the first model again.
    """

    def __init__(self, models: Sequence[Model], *, after: Sequence[ErrorKind] = _TEMPORARY) -> None:
        """`after`: the failures after which the next model is asked."""
        self._models = list(models)
        self._after = after

    @property
    def name(self) -> str:
        return self._models[0].name

    @property
    def provider(self) -> str:
        return self._models[0].provider

    @property
    def sees_images(self) -> bool:
        return self._models[0].sees_images

    @property
    def context_size(self) -> int | None:
        return self._models[0].context_size

    @property
    def efforts(self) -> Sequence[Effort]:
        return self._models[0].efforts

    @property
    def max_tools(self) -> int | None:
        return min((model.max_tools for model in self._models if model.max_tools), default=None)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events of the first model that answers, with a `Retrying` event before each other one."""
        while True:
            began, failure = False, None
            try:
                async with aclosing(self._models[0].stream(request)) as events:
                    async for event in events:
                        began = began or isinstance(event, TextDelta | ThoughtDelta | ToolUse)
                        yield event
                return
            except ModelError as error:
                failure = error
            if len(self._models) == 1 or failure.kind not in self._after:
                raise failure
            self._models.pop(0)
            next_model = f"{self.provider}:{self.name}"
            yield Retrying(1, 0.0, str(failure), began, next_model=next_model)
