"""How a model is chosen: names, endpoints and precedence."""

import pytest
from tests.coder.models.harness import models

from accord.coder.models import ModelError
from accord.coder.models.credentials import Secret
from accord.coder.models.model_name import ModelName, parse_model_name
from accord.coder.models.model_registry import ModelChoice, UnknownModel
from accord.coder.user_config import EndpointConfig, ModelsConfig


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
def test_model_name_is_read_with_its_provider_or_the_current_one(
    text: str, current: str | None, expected: tuple[str, str] | None
) -> None:
    known = ("openai", "anthropic", "google", "openrouter")
    assert parse_model_name(text, lambda name: name in known, current) == expected


def test_provider_alone_means_its_default_model() -> None:
    registry = models({"MINE_BASE_URL": "http://localhost:1/v1", "OPENAI_MODEL": "gpt-x"})
    assert registry.find("anthropic").provider == "anthropic"
    assert registry.find("openai") == ("openai", "gpt-x")
    with pytest.raises(UnknownModel, match="mine has no default model: name one, as mine:NAME"):
        registry.find("mine")
    with pytest.raises(UnknownModel, match=r"'nobody:x' names no known provider \(anthropic, openai, google"):
        registry.find("nobody:x")


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
def test_endpoint_kind_and_readiness(
    provider: str, environment: dict[str, str], kind: str, ready: bool
) -> None:
    endpoint = models(environment).endpoints.get(provider)
    assert (endpoint.kind, endpoint.ready) == (kind, ready)


def test_environment_overrides_address_and_key_of_a_configured_endpoint() -> None:
    config = ModelsConfig(
        endpoints={"my-proxy": EndpointConfig(kind="anthropic", base_url="https://a.example", model="m")}
    )
    endpoint = models({"MY_PROXY_API_KEY": "k"}, config).endpoints.get("my-proxy")
    assert (endpoint.kind, endpoint.base_url, endpoint.key) == ("anthropic", "https://a.example", Secret("k"))
    moved = models({"MY_PROXY_BASE_URL": "https://b.example", "OPENAI_API_KEY": "not this"}, config)
    assert moved.endpoints.get("my-proxy").base_url == "https://b.example"
    assert moved.endpoints.get("my-proxy").key is None


CONFIGURED = ModelsConfig(model="google:gemini-2.5-pro")
KEYS = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "GOOGLE_API_KEY": "k"}


def test_precedence_is_flag_environment_config_credentials() -> None:
    environment = {**KEYS, "ACCORD_MODEL": "openai/gpt-5"}
    assert models(environment, CONFIGURED).choose("anthropic:a") == ModelChoice(
        ModelName("anthropic", "a"), "flag"
    )
    assert models(environment, CONFIGURED).choose() == ModelChoice(
        ModelName("openai", "gpt-5"), "environment"
    )
    assert models(KEYS, CONFIGURED).choose() == ModelChoice(ModelName("google", "gemini-2.5-pro"), "config")
    assert models(KEYS).choose().source == "credentials"
    assert models({"GOOGLE_API_KEY": "k"}).choose().model.provider == "google"
    assert models().choose() == ModelChoice(ModelName("rehearsal", "rehearsal"), "rehearsal")


def test_key_of_a_configured_server_counts_only_with_a_model() -> None:
    config = ModelsConfig(endpoints={"mine": EndpointConfig(base_url="https://m.example", models=("a", "b"))})
    assert models({"MINE_API_KEY": "k"}, config).choose() == ModelChoice(
        ModelName("mine", "a"), "credentials"
    )
    nameless = ModelsConfig(endpoints={"mine": EndpointConfig(base_url="https://m.example")})
    choice = models({"MINE_API_KEY": "k"}, nameless).choose()
    assert choice.source == "rehearsal"
    assert choice.missing_model == (
        "there is a key for mine at https://m.example, but no model is named: "
        "set MINE_MODEL, or choose one as mine:NAME"
    )
    assert models({}, nameless).choose().missing_model is None
    assert models({"MINE_API_KEY": "k", "MINE_MODEL": "c"}, nameless).choose().model == ("mine", "c")


async def test_chosen_provider_without_a_key_is_reported_as_missing() -> None:
    registry = models()
    choice = registry.choose("anthropic:claude-opus-5-5")
    assert choice.model == ("anthropic", "claude-opus-5-5")
    assert choice.missing_key is not None
    assert "ANTHROPIC_API_KEY" in choice.missing_key
    assert "accord agent --login anthropic" in choice.missing_key
    with pytest.raises(ModelError) as caught:
        await registry.resolve(choice.model)
    assert (caught.value.kind, str(caught.value)) == ("auth", choice.missing_key)
    assert models({"ACCORD_MODEL": "openai-chat:x"}).choose().missing_key
    assert models({}, CONFIGURED).choose().missing_key
    assert models({"OPENAI_BASE_URL": "http://localhost:9/v1"}).choose("openai:x").missing_key is None


def test_unknown_name_is_an_error() -> None:
    with pytest.raises(UnknownModel, match="use provider:name"):
        models(KEYS).choose("gpt-5")
