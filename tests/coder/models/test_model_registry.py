"""Resolving model names, and listing the models to choose from."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from tests.coder.models.harness import KEY, ask, models, request

from accord.coder.models import Model, ModelError
from accord.coder.models.credentials import save_key
from accord.coder.models.model_name import ModelName
from accord.coder.models.rehearsal_model import RehearsalModel
from accord.coder.models.remote_model import RemoteModel
from accord.coder.user_config import EndpointConfig, ModelFacts, ModelsConfig
from accord.testing import FakeClock
from accord.testing.model_script import ModelAnswer, ModelFault, StreamPause
from accord.testing.model_server import ModelServer


async def test_rehearsal_uses_the_configured_context_size() -> None:
    config = ModelsConfig(models={"rehearsal": ModelFacts(context=500)})
    assert isinstance(
        model := await models(config=config).resolve(ModelName("rehearsal", "rehearsal")), RehearsalModel
    )
    assert model.context_size == 500


async def test_model_is_cached_until_its_key_changes(tmp_path: Path) -> None:
    file = tmp_path / "credentials.json"
    save_key("openai", "first", file)
    registry = models(keys=file)
    name = ModelName("openai", "gpt-5")
    first = await registry.resolve(name)
    assert isinstance(first, RemoteModel)
    assert await registry.resolve(name) is first
    save_key("openai", "second", file)
    assert await registry.resolve(name) is not first
    await registry.aclose()


async def test_configured_model_facts_are_used() -> None:
    config = ModelsConfig(
        models={"openai:gpt-5": ModelFacts(context=1000), "local-llm": ModelFacts(context=2000, images=True)}
    )
    registry = models({"OPENAI_API_KEY": "k", "MINE_BASE_URL": "http://localhost:1/v1"}, config)
    known = await registry.resolve(ModelName("openai", "gpt-5"))
    local = await registry.resolve(ModelName("mine", "local-llm"))
    unknown = await registry.resolve(ModelName("mine", "other"))
    assert [(model.context_size, model.sees_images) for model in (known, local, unknown)] == [
        (1000, True),
        (2000, True),
        (None, False),
    ]


async def test_context_size_at_other_addresses_is_known_by_name() -> None:
    async with ModelServer([ModelAnswer("ok"), ModelAnswer("ok")]) as server:
        registry = models({**server.environment("openai")})
        known = await registry.resolve(ModelName("openai", "gpt-5"))
        unknown = await registry.resolve(ModelName("openai", "qwen3"))
        await ask(known)
        await ask(unknown)
        assert (known.context_size, unknown.context_size) == (400_000, None)
        await registry.aclose()


class CustomModel(RehearsalModel):
    name = "fixed"


async def test_resolver_comes_first_and_may_return_none() -> None:
    requested_names: list[ModelName] = []

    async def resolver(name: ModelName) -> Model | None:
        requested_names.append(name)
        return CustomModel() if name.provider == "openai" else None

    registry = models(resolver=resolver)
    assert registry.choose("openai:x").missing_key is None
    assert (await registry.resolve(ModelName("openai", "x"))).name == "fixed"
    assert isinstance(await registry.resolve(ModelName("rehearsal", "rehearsal")), RehearsalModel)
    assert requested_names == [("openai", "x"), ("rehearsal", "rehearsal")]


async def test_resolver_failure_shows_only_provider_and_type(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)

    def resolver(name: ModelName) -> Model | None:
        raise RuntimeError(f"vault said no to {KEY} for {name}")

    with pytest.raises(ModelError) as caught:
        await models(resolver=resolver).resolve(ModelName("acme", "secret-model"))
    assert str(caught.value) == "acme: the program's model resolver failed (RuntimeError)"
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert [record.getMessage() for record in caplog.records if record.name.startswith("accord")] == [
        "the model resolver failed for provider acme: RuntimeError"
    ]


@pytest.mark.parametrize("provider", ["openai", "anthropic", "google"])
async def test_model_list_is_fetched_and_cached(provider: Any) -> None:
    clock = FakeClock()
    async with ModelServer(models=["big", "small"]) as server:
        registry = models(server.environment(provider), clock=clock)
        assert list(registry.known_models(provider)) == []
        assert [model.name for model in await registry.list_models(provider)] == ["big", "small"]
        assert [model.name for model in registry.known_models(provider)] == ["big", "small"]
        server.models = ["new"]
        await clock.advance(599)
        assert [model.name for model in await registry.list_models(provider)] == ["big", "small"]
        await clock.advance(2)
        assert [model.name for model in await registry.list_models(provider)] == ["new"]
        await registry.aclose()
    assert len(server.listings) == 2


async def test_context_size_from_the_model_list_is_used() -> None:
    async with ModelServer(models=["gemini-x"]) as server:
        registry = models(server.environment("google"))
        name = ModelName("google", "gemini-x")
        assert (await registry.resolve(name)).context_size is None
        await registry.list_models("google")
        assert (await registry.resolve(name)).context_size == 1048576
        await registry.aclose()


async def test_failed_model_list_falls_back_to_the_config() -> None:
    clock = FakeClock()
    config = ModelsConfig(endpoints={"openai": EndpointConfig(models=("a", "b"))})
    async with ModelServer(listing=ModelFault(404), models=["real"]) as server:
        registry = models(server.environment("openai"), config, clock=clock)
        assert [model.name for model in await registry.list_models("openai")] == ["a", "b"]
        server.listing = None
        assert [model.name for model in await registry.list_models("openai")] == ["a", "b"]
        await clock.advance(31)
        assert [model.name for model in await registry.list_models("openai")] == ["real"]
        await registry.aclose()


async def test_stalled_model_list_times_out() -> None:
    clock, pause = FakeClock(), StreamPause()
    async with ModelServer(listing=pause) as server:
        registry = models(server.environment("openai"), clock=clock)
        task = asyncio.create_task(registry.list_models("openai"))
        await pause.reached()
        await clock.advance(6)
        assert list(await task) == []
        await registry.aclose()


async def test_models_are_not_listed_without_a_key() -> None:
    registry = models()
    assert list(await registry.list_models("openai")) == []
    assert [model.name for model in await registry.list_models("rehearsal")] == ["rehearsal"]


async def test_configured_endpoint_answers() -> None:
    async with ModelServer([ModelAnswer("hi")]) as server:
        environment = {"MY_SERVER_BASE_URL": server.base_url(), "MY_SERVER_API_KEY": "k"}
        registry = models(environment)
        model = await registry.resolve(registry.find("my-server/some/model:8b"))
        assert [event async for event in model.stream(request())]
        await registry.aclose()
    (seen,) = server.requests
    assert (seen.format, seen.model, seen.headers["authorization"]) == (
        "openai-chat",
        "some/model:8b",
        "Bearer k",
    )
