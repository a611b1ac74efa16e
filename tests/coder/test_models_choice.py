"""Which model is used: names, config, keys, endpoints, the choice, the list, the resolver."""

import asyncio
import logging
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.coder.asking import KEY, ask, request

from accord.coder.models import (
    Choice,
    ConfigError,
    CredentialsError,
    Model,
    ModelError,
    ModelName,
    Models,
    ModelsConfig,
    Rehearsal,
    UnknownModel,
    remove_key,
    save_key,
)
from accord.coder.models.config import EndpointConfig, ModelFacts, from_mapping, load
from accord.coder.models.credentials import Secret, credentials_file, find_key, read_keys
from accord.coder.models.names import read_name
from accord.coder.models.remote import RemoteModel
from accord.testing import FakeClock
from accord.testing.models import Answer, Fault, Gate, ModelServer

NOWHERE = Path("/nowhere/credentials.json")


def models(
    environment: Mapping[str, str] | None = None, config: ModelsConfig | None = None, **more: Any
) -> Models:
    options: dict[str, Any] = {"keys": NOWHERE, **more}
    return Models(config or ModelsConfig(), environment=environment or {}, **options)


# names


@pytest.mark.parametrize(
    ("text", "current", "expected"),
    [
        ("openai:gpt-5", None, ("openai", "gpt-5")),
        ("openai/gpt-5", None, ("openai", "gpt-5")),
        ("OpenAI:gpt-5", None, ("openai", "gpt-5")),
        ("gemini:gemini-2.5-pro", None, ("google", "gemini-2.5-pro")),
        ("openrouter/qwen/qwen3:free", None, ("openrouter", "qwen/qwen3:free")),
        ("openrouter:qwen/qwen3:free", None, ("openrouter", "qwen/qwen3:free")),
        ("claude-opus-5-5", "anthropic", ("anthropic", "claude-opus-5-5")),
        ("llama3:8b", "openrouter", ("openrouter", "llama3:8b")),
        ("qwen/qwen3", "openrouter", ("openrouter", "qwen/qwen3")),
        ("rehearsal", "openai", ("rehearsal", "rehearsal")),
        ("claude-opus-5-5", None, None),
        (":x", None, None),
        ("openai:", None, None),
        ("", "openai", None),
    ],
)
def test_a_model_is_named_with_its_provider_or_at_the_one_in_use(
    text: str, current: str | None, expected: tuple[str, str] | None
) -> None:
    known = ("openai", "anthropic", "google", "openrouter")
    assert read_name(text, lambda name: name in known, current) == expected


def test_a_provider_alone_means_its_first_model_and_an_unknown_one_is_named() -> None:
    library = models({"MINE_BASE_URL": "http://localhost:1/v1", "OPENAI_MODEL": "gpt-x"})
    assert library.find("anthropic").provider == "anthropic"
    assert library.find("openai") == ("openai", "gpt-x")
    with pytest.raises(UnknownModel, match="mine has no default model: name one, as mine:NAME"):
        library.find("mine")
    with pytest.raises(UnknownModel, match=r"'nobody:x' names no known provider \(anthropic, openai, google"):
        library.find("nobody:x")


# config


def test_a_config_file_is_read_and_nothing_is_set_without_one(tmp_path: Path) -> None:
    assert load(tmp_path) == ModelsConfig()
    (tmp_path / "config.toml").write_text(
        """
        model = "local:qwen3"
        effort = "high"
        rules = ["of another room"]

        [endpoints.local]
        base_url = "http://localhost:11434/v1"
        models = ["qwen3", "llama3:8b"]

        [models."local:qwen3"]
        context = 32768
        images = true
        input = 0
        output = 0

        [requests]
        attempts = 3
        """
    )
    config = load(tmp_path)
    assert (config.model, config.effort, config.requests.attempts) == ("local:qwen3", "high", 3)
    assert config.endpoints["local"].models == ("qwen3", "llama3:8b")
    assert config.models["local:qwen3"] == ModelFacts(context=32768, images=True, input=0, output=0)


def test_a_config_may_be_json_but_not_both(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model": "openai:gpt-5"}')
    assert load(tmp_path).model == "openai:gpt-5"
    (tmp_path / "config.toml").write_text("")
    with pytest.raises(ConfigError, match=r"config\.json: stands beside config\.toml: keep one of them"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ({"model": 1}, "c.toml: model: Expected `str | null`, got `int`"),
        ({"effort": "huge"}, "c.toml: effort: Invalid enum value 'huge'"),
        ({"requests": {"attempts": 0}}, "c.toml: requests.attempts: Expected `int` >= 1"),
        ({"requests": {"patience": 1}}, "c.toml: requests.patience: there is no such setting"),
        ({"endpoints": 3}, "c.toml: endpoints: Expected `object`, got `int`"),
        ({"endpoints": {"a": {"models": [1]}}}, "c.toml: endpoints.a.models[0]: Expected `str`, got `int`"),
        ({"endpoints": {"a": {"kind": "x"}}}, "c.toml: endpoints.a.kind: Invalid enum value 'x'"),
        ({"endpoints": {"a": {"url": "x"}}}, "c.toml: endpoints.a.url: there is no such setting"),
        (
            {"endpoints": {"a": {"base_url": "x"}}},
            "c.toml: endpoints.a.base_url: not an http or https address",
        ),
        ({"models": {"openai:x": {"context": -1}}}, "c.toml: models.openai:x.context: Expected `int` >= 1"),
    ],
)
def test_a_wrong_setting_is_named_with_file_key_and_reason(value: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_mapping(value, "c.toml")
    assert str(caught.value) == line


def test_a_key_in_the_config_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError, match=r"endpoints\.a\.api_key: keys do not belong here") as caught:
        from_mapping({"endpoints": {"a": {"api_key": KEY}}}, "c.toml")
    assert KEY not in str(caught.value)


def test_a_broken_config_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("model = [")
    with pytest.raises(ConfigError, match=r"config\.toml: not valid TOML"):
        load(tmp_path)
    (tmp_path / "config.toml").rename(tmp_path / "config.json")
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(ConfigError, match="not an object"):
        load(tmp_path)


# credentials


def test_a_saved_key_is_found_and_the_file_is_closed_to_others(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "credentials.json"
    save_key("openai", f" {KEY}\n", file)
    save_key("anthropic", "sk-2", file)
    assert find_key("openai", {}, file) == Secret(KEY)
    assert find_key("anthropic", {}, file) == Secret("sk-2")
    assert find_key("google", {}, file) is None
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert os.listdir(file.parent) == ["credentials.json"]


def test_signing_out_removes_one_key_or_all(tmp_path: Path) -> None:
    file = tmp_path / "credentials.json"
    save_key("openai", "a", file)
    save_key("google", "b", file)
    assert remove_key("openai", file) == ["openai"]
    assert list(read_keys(file)) == ["google"]
    assert remove_key("openai", file) == []
    assert remove_key(None, file) == ["google"]
    assert not file.exists()
    assert remove_key(None, file) == []


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "credentials.json"
    save_key("google", "from-file", file)
    save_key("my-server", "from-file", file)
    assert find_key("google", {"GEMINI_API_KEY": "g"}, file) == Secret("g")
    assert find_key("google", {"GEMINI_API_KEY": "g", "GOOGLE_API_KEY": "first"}, file) == Secret("first")
    assert find_key("google", {"GOOGLE_API_KEY": "  "}, file) == Secret("from-file")
    assert find_key("my-server", {"MY_SERVER_API_KEY": "e"}, file) == Secret("e")


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o604])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "credentials.json"
    save_key("openai", KEY, file)
    file.chmod(mode)
    with pytest.raises(CredentialsError, match=rf"mode {mode:04o}.*chmod 600") as caught:
        find_key("openai", {}, file)
    assert KEY not in str(caught.value)
    with pytest.raises(CredentialsError):
        save_key("google", "x", file)


def test_a_broken_file_of_keys_is_named_but_not_quoted(tmp_path: Path) -> None:
    file = tmp_path / "credentials.json"
    for content in (f'{{"keys": "{KEY}"}}', KEY, f'{{"openai": "{KEY}"}}', ""):
        file.write_text(content)
        file.chmod(0o600)
        with pytest.raises(CredentialsError, match=r"credentials\.json: not of the form") as caught:
            read_keys(file)
        assert KEY not in str(caught.value)


@pytest.mark.parametrize("key", ["", "  ", "two words", "sk-\u201cquoted\u201d"])
def test_what_cannot_be_a_key_is_not_saved(tmp_path: Path, key: str) -> None:
    with pytest.raises(CredentialsError, match="openai"):
        save_key("openai", key, tmp_path / "credentials.json")
    assert not (tmp_path / "credentials.json").exists()


def test_the_file_is_in_the_config_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path))
    save_key("openai", KEY)
    assert credentials_file() == tmp_path / "config" / "credentials.json"
    assert Models(environment={}).choose().source == "credentials"


# endpoints


@pytest.mark.parametrize(
    ("provider", "environment", "kind", "ready"),
    [
        ("openai", {}, "openai-responses", False),
        ("openai", {"OPENAI_API_KEY": "k"}, "openai-responses", True),
        ("openai", {"OPENAI_BASE_URL": "https://api.openai.com/v1"}, "openai-responses", False),
        ("openai", {"OPENAI_BASE_URL": "https://eu.api.openai.com/v1"}, "openai-responses", False),
        ("openai", {"OPENAI_BASE_URL": "https://example.com/v1"}, "openai-chat", False),
        ("openai", {"OPENAI_BASE_URL": "https://notapi.openai.com.evil.org"}, "openai-chat", False),
        ("openai", {"OPENAI_BASE_URL": "http://localhost:1/v1"}, "openai-chat", True),
        ("openai", {"OPENAI_BASE_URL": "http://[::1]:1/v1"}, "openai-chat", True),
        ("openai-chat", {"OPENAI_API_KEY": "k"}, "openai-chat", True),
        ("openai-responses", {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}, "openai-responses", True),
        ("anthropic", {"ANTHROPIC_API_KEY": "k"}, "anthropic", True),
        ("google", {"GEMINI_API_KEY": "k"}, "google", True),
        (
            "deepseek",
            {"DEEPSEEK_BASE_URL": "https://d.example", "DEEPSEEK_API_KEY": "k"},
            "openai-chat",
            True,
        ),
    ],
)
def test_how_a_server_is_spoken_to(
    provider: str, environment: dict[str, str], kind: str, ready: bool
) -> None:
    endpoint = models(environment).endpoints.get(provider)
    assert (endpoint.kind, endpoint.ready) == (kind, ready)


def test_an_endpoint_of_the_config_takes_its_key_and_address_from_the_environment_first() -> None:
    config = ModelsConfig(
        endpoints={"my-proxy": EndpointConfig(kind="anthropic", base_url="https://a.example", model="m")}
    )
    endpoint = models({"MY_PROXY_API_KEY": "k"}, config).endpoints.get("my-proxy")
    assert (endpoint.kind, endpoint.base_url, endpoint.key) == ("anthropic", "https://a.example", Secret("k"))
    moved = models({"MY_PROXY_BASE_URL": "https://b.example", "OPENAI_API_KEY": "not this"}, config)
    assert moved.endpoints.get("my-proxy").base_url == "https://b.example"
    assert moved.endpoints.get("my-proxy").key is None


# the choice


CONFIGURED = ModelsConfig(model="google:gemini-2.5-pro")
KEYS = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "GOOGLE_API_KEY": "k"}


def test_the_flag_wins_then_the_environment_then_the_config_then_whose_key_is_there() -> None:
    environment = {**KEYS, "ACCORD_MODEL": "openai/gpt-5"}
    assert models(environment, CONFIGURED).choose("anthropic:a") == Choice(
        ModelName("anthropic", "a"), "flag"
    )
    assert models(environment, CONFIGURED).choose() == Choice(ModelName("openai", "gpt-5"), "environment")
    assert models(KEYS, CONFIGURED).choose() == Choice(ModelName("google", "gemini-2.5-pro"), "config")
    assert models(KEYS).choose().source == "credentials"
    assert models({"GOOGLE_API_KEY": "k"}).choose().model.provider == "google"
    assert models().choose() == Choice(ModelName("rehearsal", "rehearsal"), "rehearsal")


def test_found_keys_of_configured_servers_count_if_a_model_is_known() -> None:
    config = ModelsConfig(endpoints={"mine": EndpointConfig(base_url="https://m.example", models=("a", "b"))})
    assert models({"MINE_API_KEY": "k"}, config).choose() == Choice(ModelName("mine", "a"), "credentials")
    nameless = ModelsConfig(endpoints={"mine": EndpointConfig(base_url="https://m.example")})
    assert models({"MINE_API_KEY": "k"}, nameless).choose().source == "rehearsal"
    assert models({"MINE_API_KEY": "k", "MINE_MODEL": "c"}, nameless).choose().model == ("mine", "c")


async def test_a_chosen_provider_without_a_key_is_an_outcome_of_its_own() -> None:
    library = models()
    choice = library.choose("anthropic:claude-opus-5-5")
    assert choice.model == ("anthropic", "claude-opus-5-5")
    assert choice.missing is not None
    assert "ANTHROPIC_API_KEY" in choice.missing
    assert "accord agent --login anthropic" in choice.missing
    with pytest.raises(ModelError) as caught:
        await library.resolve(choice.model)
    assert (caught.value.kind, str(caught.value)) == ("auth", choice.missing)
    assert models({"ACCORD_MODEL": "openai-chat:x"}).choose().missing
    assert models({}, CONFIGURED).choose().missing
    assert models({"OPENAI_BASE_URL": "http://localhost:9/v1"}).choose("openai:x").missing is None


def test_a_choice_that_names_nobody_is_an_error_and_not_the_rehearsal() -> None:
    with pytest.raises(UnknownModel, match="write provider:name"):
        models(KEYS).choose("gpt-5")


# resolving


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


# the list


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
