"""Ready names of model servers: addresses, formats, keys, and requests over the wire."""

import pytest
from tests.coder.models.harness import KEY, ask, final_message, models

from accord.coder.models import ModelError
from accord.coder.models.endpoints import Endpoints
from accord.coder.models.model_name import ModelName
from accord.coder.models.model_registry import UnknownModel
from accord.coder.user_config import ConfigError, ModelsConfig
from accord.testing.model_script import ModelAnswer
from accord.testing.model_server import ModelServer


@pytest.mark.parametrize(
    ("name", "model", "environment", "kind", "address"),
    [
        ("openrouter", "qwen/qwen3", {}, "openai-chat", "https://openrouter.ai/api/v1"),
        ("groq", "m", {}, "openai-chat", "https://api.groq.com/openai/v1"),
        ("deepseek", "m", {}, "openai-chat", "https://api.deepseek.com/v1"),
        ("mistral", "m", {}, "openai-chat", "https://api.mistral.ai/v1"),
        ("xai", "m", {}, "openai-chat", "https://api.x.ai/v1"),
        ("azure", "gpt-5", {}, "openai-responses", None),
        (
            "azure",
            "gpt-5",
            {"AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com/"},
            "openai-responses",
            "https://r.openai.azure.com/openai/v1",
        ),
        (
            "bedrock",
            "openai.gpt-oss-120b",
            {"AWS_REGION": "eu-west-1"},
            "openai-chat",
            "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1",
        ),
        (
            "bedrock",
            "anthropic.claude-opus-4-8",
            {},
            "anthropic",
            "https://bedrock-mantle.us-east-1.api.aws/anthropic",
        ),
        ("vertex", "gemini-4-argon", {}, "google", "https://aiplatform.googleapis.com/v1"),
        (
            "vertex",
            "claude-opus-4-6",
            {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "us-east5"},
            "anthropic",
            "https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5",
        ),
        ("ollama", "qwen3", {}, "openai-chat", "http://127.0.0.1:11434/v1"),
        ("ollama", "qwen3", {"OLLAMA_HOST": "gpu"}, "openai-chat", "http://gpu:11434/v1"),
        ("ollama", "qwen3", {"OLLAMA_HOST": ":99"}, "openai-chat", "http://127.0.0.1:99/v1"),
        ("ollama", "qwen3", {"OLLAMA_HOST": "0.0.0.0:99"}, "openai-chat", "http://127.0.0.1:99/v1"),
        ("ollama", "qwen3", {"OLLAMA_HOST": "[::1]"}, "openai-chat", "http://[::1]:11434/v1"),
        ("ollama", "qwen3", {"OLLAMA_HOST": "http://gpu"}, "openai-chat", "http://gpu/v1"),
        ("ollama", "qwen3", {"OLLAMA_HOST": "https://gpu:7/v1/"}, "openai-chat", "https://gpu:7/v1"),
        ("lmstudio", "m", {"LMSTUDIO_HOST": "gpu"}, "openai-chat", "http://gpu:1234/v1"),
        ("llamacpp", "m", {}, "openai-chat", "http://127.0.0.1:8080/v1"),
        ("groq", "m", {"GROQ_BASE_URL": "https://proxy.example/g"}, "openai-chat", "https://proxy.example/g"),
    ],
)
def test_ready_names_have_a_format_and_an_address(
    name: str, model: str, environment: dict[str, str], kind: str, address: str | None
) -> None:
    registry = models(environment)
    assert registry.find(f"{name}:{model}") == (name, model)
    endpoint = registry.endpoints.get(name, model)
    assert (endpoint.kind, endpoint.base_url) == (kind, address)
    assert endpoint.ready is (name in ("ollama", "lmstudio", "llamacpp"))


def test_an_unusable_variable_is_named() -> None:
    with pytest.raises(ConfigError, match="OLLAMA_HOST: an address must not have a name, password or query"):
        models({"OLLAMA_HOST": "http://me:secret@gpu"}).endpoints.get("ollama")


SERVERS = [
    ("openrouter", "qwen/qwen3", "OPENROUTER_API_KEY", "/v1", "/v1/chat/completions", "authorization"),
    ("azure", "gpt-5", "AZURE_OPENAI_API_KEY", "/openai/v1", "/openai/v1/responses", "api-key"),
    (
        "bedrock",
        "anthropic.claude-x",
        "AWS_BEARER_TOKEN_BEDROCK",
        "/anthropic",
        "/anthropic/v1/messages",
        "authorization",
    ),
    (
        "vertex",
        "gemini-x",
        "VERTEX_API_KEY",
        "/v1",
        "/v1/publishers/google/models/gemini-x:streamGenerateContent?alt=sse",
        "x-goog-api-key",
    ),
    (
        "vertex",
        "claude-x",
        "VERTEX_API_KEY",
        "/v1",
        "/v1/publishers/anthropic/models/claude-x:streamRawPredict",
        "x-goog-api-key",
    ),
]
"""Provider, model, variable of the key, path of the address, path of the request, header of the key."""


@pytest.mark.parametrize(("name", "model", "variable", "base", "path", "header"), SERVERS)
async def test_requests_go_to_the_path_of_the_server_with_its_key(
    name: str, model: str, variable: str, base: str, path: str, header: str
) -> None:
    async with ModelServer([ModelAnswer("ok")]) as server:
        address = server.base_url("anthropic") + base
        registry = models({variable: KEY, f"{name.upper()}_BASE_URL": address})
        answer = final_message(await ask(await registry.resolve(ModelName(name, model))))
        await registry.aclose()
    assert answer.parts
    (request,) = server.requests
    assert request.path == path
    assert [key for key, value in request.headers.items() if KEY in value] == [header]
    if path.endswith("streamRawPredict"):
        assert request.body["anthropic_version"] == "vertex-2023-10-16"
        assert "model" not in request.body


async def test_an_access_token_of_google_is_sent_as_one() -> None:
    async with ModelServer([ModelAnswer("ok")]) as server:
        registry = models({"VERTEX_API_KEY": "ya29.token", "VERTEX_BASE_URL": server.base_url("google")})
        await ask(await registry.resolve(ModelName("vertex", "gemini-x")))
        await registry.aclose()
    assert server.requests[0].headers["authorization"] == "Bearer ya29.token"


async def test_a_missing_key_or_address_says_what_to_set() -> None:
    registry = models({"AZURE_API_KEY": KEY})
    with pytest.raises(ModelError, match="azure: no address found; set AZURE_OPENAI_ENDPOINT to https://RES"):
        await registry.resolve(ModelName("azure", "gpt-5"))
    with pytest.raises(ModelError, match="groq: no key found; set GROQ_API_KEY or run"):
        await registry.resolve(ModelName("groq", "m"))


def test_a_key_without_a_model_name_is_reported() -> None:
    choice = models({"MISTRAL_API_KEY": KEY}).choose()
    assert choice.source == "rehearsal"
    assert choice.missing_model is not None
    assert choice.missing_model.startswith("there is a key for mistral at https://api.mistral.ai/v1, but no")
    chosen = models({"MISTRAL_API_KEY": KEY, "MISTRAL_MODEL": "m"}).choose()
    assert chosen.model == ("mistral", "m")


def test_the_error_for_an_unknown_name_lists_all_names_and_the_ways_to_add_one() -> None:
    with pytest.raises(UnknownModel) as caught:
        models({}).find("nobody:x")
    for part in ("openrouter, groq", "ollama", "rehearsal", "--login NAME=URL", "[endpoints.NAME]"):
        assert part in str(caught.value)


def test_claude_at_vertex_needs_a_project() -> None:
    with pytest.raises(ConfigError, match="VERTEX_PROJECT: not set; Claude at Vertex needs a project"):
        Endpoints(ModelsConfig(), {"VERTEX_API_KEY": "k"}).get("vertex", "claude-opus-4-6")
