"""From a name to a model, and the list to choose from."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from tests.coder.asking import KEY, ask, request
from tests.coder.library import models

from accord.coder.models import (
    Model,
    ModelError,
    ModelName,
    ModelsConfig,
    Rehearsal,
    save_key,
)
from accord.coder.models.config import EndpointConfig, ModelFacts
from accord.coder.models.remote import RemoteModel
from accord.testing import FakeClock
from accord.testing.models import Answer, Fault, Gate, ModelServer


async def test_the_rehearsal_is_resolved_with_the_context_of_the_config() -> None:
    config = ModelsConfig(models={"rehearsal": ModelFacts(context=500)})
    assert isinstance(
        model := await models(config=config).resolve(ModelName("rehearsal", "rehearsal")), Rehearsal
    )
    assert model.context_size == 500


async def test_a_model_is_made_once_and_a_new_key_makes_a_new_one(tmp_path: Path) -> None:
    file = tmp_path / "credentials.json"
    save_key("openai", "first", file)
    library = models(keys=file)
    name = ModelName("openai", "gpt-5")
    first = await library.resolve(name)
    assert isinstance(first, RemoteModel)
    assert await library.resolve(name) is first
    save_key("openai", "second", file)
    assert await library.resolve(name) is not first
    await library.aclose()


async def test_what_the_config_says_of_a_model_holds() -> None:
    config = ModelsConfig(
        models={"openai:gpt-5": ModelFacts(context=1000), "local-llm": ModelFacts(context=2000, images=True)}
    )
    library = models({"OPENAI_API_KEY": "k", "MINE_BASE_URL": "http://localhost:1/v1"}, config)
    known = await library.resolve(ModelName("openai", "gpt-5"))
    local = await library.resolve(ModelName("mine", "local-llm"))
    unknown = await library.resolve(ModelName("mine", "other"))
    assert [(model.context_size, model.sees_images) for model in (known, local, unknown)] == [
        (1000, True),
        (2000, True),
        (None, False),
    ]


async def test_the_libraries_know_the_context_of_a_providers_own_models_and_of_nobody_elses() -> None:
    async with ModelServer([Answer("ok")]) as server:
        library = models({**server.environment("openai")})
        elsewhere = await library.resolve(ModelName("openai", "gpt-5"))
        await ask(elsewhere)
        assert elsewhere.context_size is None
        await library.aclose()


class Fixed(Rehearsal):
    name = "fixed"


async def test_a_resolver_comes_first_and_may_leave_it_to_accord() -> None:
    asked: list[ModelName] = []

    async def resolver(name: ModelName) -> Model | None:
        asked.append(name)
        return Fixed() if name.provider == "openai" else None

    library = models(resolver=resolver)
    assert library.choose("openai:x").missing is None
    assert (await library.resolve(ModelName("openai", "x"))).name == "fixed"
    assert isinstance(await library.resolve(ModelName("rehearsal", "rehearsal")), Rehearsal)
    assert asked == [("openai", "x"), ("rehearsal", "rehearsal")]


async def test_of_a_failing_resolver_only_provider_and_type_are_logged(
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
async def test_the_models_are_asked_from_the_provider_and_kept_for_a_while(provider: Any) -> None:
    clock = FakeClock()
    async with ModelServer(models=["big", "small"]) as server:
        library = models(server.environment(provider), clock=clock)
        assert list(library.known(provider)) == []
        assert [offer.name for offer in await library.offered(provider)] == ["big", "small"]
        assert [offer.name for offer in library.known(provider)] == ["big", "small"]
        server.models = ["new"]
        await clock.advance(599)
        assert [offer.name for offer in await library.offered(provider)] == ["big", "small"]
        await clock.advance(2)
        assert [offer.name for offer in await library.offered(provider)] == ["new"]
        await library.aclose()
    assert len(server.listings) == 2


async def test_the_context_that_a_provider_tells_is_used() -> None:
    async with ModelServer(models=["gemini-x"]) as server:
        library = models(server.environment("google"))
        name = ModelName("google", "gemini-x")
        assert (await library.resolve(name)).context_size is None
        await library.offered("google")
        assert (await library.resolve(name)).context_size == 1048576
        await library.aclose()


async def test_a_provider_that_does_not_list_leaves_it_to_the_config() -> None:
    clock = FakeClock()
    config = ModelsConfig(endpoints={"openai": EndpointConfig(models=("a", "b"))})
    async with ModelServer(listing=Fault(404), models=["real"]) as server:
        library = models(server.environment("openai"), config, clock=clock)
        assert [offer.name for offer in await library.offered("openai")] == ["a", "b"]
        server.listing = None
        assert [offer.name for offer in await library.offered("openai")] == ["a", "b"]
        await clock.advance(31)
        assert [offer.name for offer in await library.offered("openai")] == ["real"]
        await library.aclose()


async def test_a_provider_that_stalls_on_its_list_is_not_waited_for() -> None:
    clock, gate = FakeClock(), Gate()
    async with ModelServer(listing=gate) as server:
        library = models(server.environment("openai"), clock=clock)
        asking = asyncio.create_task(library.offered("openai"))
        await gate.reached()
        await clock.advance(6)
        assert list(await asking) == []
        await library.aclose()


async def test_without_a_key_nobody_is_asked() -> None:
    library = models()
    assert list(await library.offered("openai")) == []
    assert [offer.name for offer in await library.offered("rehearsal")] == ["rehearsal"]


async def test_a_named_endpoint_answers() -> None:
    async with ModelServer([Answer("hi")]) as server:
        environment = {"MY_SERVER_BASE_URL": server.base_url(), "MY_SERVER_API_KEY": "k"}
        library = models(environment)
        model = await library.resolve(library.find("my-server/some/model:8b"))
        assert [event async for event in model.stream(request())]
        await library.aclose()
    (seen,) = server.requests
    assert (seen.format, seen.model, seen.headers["authorization"]) == (
        "openai-chat",
        "some/model:8b",
        "Bearer k",
    )
