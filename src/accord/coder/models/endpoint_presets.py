"""Ready model servers, hosted and local: their names, wire formats, addresses and variables."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from accord.coder.models.model_name import Kind
from accord.coder.user_config import ConfigError, address_error


class EndpointPreset(Struct, frozen=True):
    """A server that needs no entry in the config."""

    base_url: str | None = None
    """None if it depends on the account, such as the resource at Azure."""
    kind: Kind = "openai-chat"
    address_variables: tuple[str, ...] = ()
    """Variables of other programs with its address, besides `{NAME}_BASE_URL`."""
    path: str = ""
    """Appended to an address of `address_variables` that lacks it."""
    port: int = 443
    """The port of an address without a scheme and a port."""
    local: bool = False
    """Whether it usually runs on this machine, and needs no key."""
    advice: str = ""
    """How to set the address, if there is no default."""


PRESETS: Final[dict[str, EndpointPreset]] = {
    "openrouter": EndpointPreset("https://openrouter.ai/api/v1"),
    "groq": EndpointPreset("https://api.groq.com/openai/v1"),
    "deepseek": EndpointPreset("https://api.deepseek.com/v1"),
    "mistral": EndpointPreset("https://api.mistral.ai/v1"),
    "xai": EndpointPreset("https://api.x.ai/v1"),
    "azure": EndpointPreset(
        kind="openai-responses",
        address_variables=("AZURE_OPENAI_ENDPOINT", "AZURE_API_BASE"),
        path="/openai/v1",
        advice="set AZURE_OPENAI_ENDPOINT to https://RESOURCE.openai.azure.com",
    ),
    "bedrock": EndpointPreset(),
    "vertex": EndpointPreset(kind="google"),
    "ollama": EndpointPreset(
        "http://127.0.0.1:11434/v1", address_variables=("OLLAMA_HOST",), path="/v1", port=11434, local=True
    ),
    "lmstudio": EndpointPreset(
        "http://127.0.0.1:1234/v1", address_variables=("LMSTUDIO_HOST",), path="/v1", port=1234, local=True
    ),
    "llamacpp": EndpointPreset("http://127.0.0.1:8080/v1", local=True),
    "vllm": EndpointPreset("http://127.0.0.1:8000/v1", local=True),
    "docker": EndpointPreset(
        "http://127.0.0.1:12434/engines/v1", address_variables=("DOCKER_MODEL_RUNNER_API_BASE",), local=True
    ),
    "jan": EndpointPreset("http://127.0.0.1:1337/v1", local=True),
}
"""The providers that need no entry in the config, besides the built-in ones."""


def preset_kind(name: str, model: str) -> Kind:
    """Return the wire format of a preset. Claude has its own at Bedrock and Vertex, too."""
    return "anthropic" if _is_claude(name, model) else PRESETS[name].kind


def preset_address(name: str, environment: Mapping[str, str], model: str = "") -> str | None:
    """Return the address of a preset, without `{NAME}_BASE_URL`; None if it is not known.

    Raises ConfigError for an unusable variable.
    """
    preset = PRESETS[name]
    for variable in preset.address_variables:
        if text := environment.get(variable, "").strip():
            url = _complete_address(text, preset)
            if fault := address_error(url):
                raise ConfigError("the environment", variable, fault)
            return url
    if name == "bedrock":
        region = _first_set(environment, "AWS_REGION", "AWS_DEFAULT_REGION") or "us-east-1"
        if _is_claude(name, model):
            return f"https://bedrock-mantle.{region}.api.aws/anthropic"
        return f"https://bedrock-runtime.{region}.amazonaws.com/openai/v1"
    if name == "vertex":
        return _vertex_address(environment, needs_project=_is_claude(name, model))
    return preset.base_url


def _is_claude(name: str, model: str) -> bool:
    return name in ("bedrock", "vertex") and "claude" in model


def _vertex_address(environment: Mapping[str, str], *, needs_project: bool) -> str:
    """Return the address of the project, or without one that of an express mode key. Raises ConfigError."""
    project = _first_set(environment, "VERTEX_PROJECT", "GOOGLE_CLOUD_PROJECT")
    if not project and needs_project:
        raise ConfigError("the environment", "VERTEX_PROJECT", "not set; Claude at Vertex needs a project")
    if not project:
        return "https://aiplatform.googleapis.com/v1"
    location = _first_set(environment, "VERTEX_LOCATION", "GOOGLE_CLOUD_LOCATION") or "global"
    host = "aiplatform" if location == "global" else f"{location}-aiplatform"
    return f"https://{host}.googleapis.com/v1/projects/{project}/locations/{location}"


def _complete_address(text: str, preset: EndpointPreset) -> str:
    """Return the URL that a variable such as `OLLAMA_HOST` means: `host`, `:port`, `host:port` or a URL."""
    if "://" not in text:
        host = f"127.0.0.1{text}" if text.startswith(":") else text
        scheme = "http" if preset.local else "https"
        has_port = host.rpartition(":")[2].isdecimal() and not host.endswith("]")
        text = f"{scheme}://{host}" if has_port or not preset.local else f"{scheme}://{host}:{preset.port}"
    text = text.rstrip("/").replace("://0.0.0.0", "://127.0.0.1")  # a server listens there, no client can
    return text if urlsplit(text).path.endswith(preset.path) else text + preset.path


def _first_set(environment: Mapping[str, str], *names: str) -> str:
    return next((value for name in names if (value := environment.get(name, "").strip())), "")
