"""Model servers: their names, wire formats, addresses and keys."""

import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from accord.coder.models.credentials import Secret, find_key, key_variables, provider_variable, read_keys
from accord.coder.models.endpoint_presets import PRESETS, preset_address, preset_kind
from accord.coder.models.model_name import PROVIDER_KINDS, Kind
from accord.coder.user_config import ConfigError, EndpointConfig, ModelsConfig, address_error

DEFAULT_MODELS: Final[dict[str, str]] = {
    "anthropic": "claude-sonnet-5-5",
    "openai": "gpt-6.1-sol",
    "google": "gemini-4-argon",
}
"""The built-in providers, in the order in which a key is looked up, and the default model of each."""

_MAX_TOOLS: Final = {"openai": 128, "azure": 128, "groq": 128, "xai": 200}
_OPENAI_HOST: Final = "api.openai.com"
_EXTRA_ADDRESS_VARIABLES: Final[dict[str, tuple[str, ...]]] = {"google": ("GOOGLE_GEMINI_BASE_URL",)}


class Endpoint(Struct, frozen=True):
    """One model server, with what a request to it needs. Its `repr` never shows the key."""

    name: str
    kind: Kind
    base_url: str | None
    """None means the provider's official address."""
    key: Secret | None
    needs_key: bool
    finish_reason: bool = True
    """Whether a complete answer must carry a finish reason."""

    @property
    def family(self) -> str:
        """The provider whose key and address it uses: `openai` for `openai-chat`."""
        return family_of(self.name)

    @property
    def is_official(self) -> bool:
        """Whether this is the provider's own server, not a compatible one."""
        return self.base_url is None and self.family in DEFAULT_MODELS

    @property
    def max_tools(self) -> int | None:
        """How many tools a request may have: the provider refuses one with more. None if unknown."""
        return 512 if self.kind == "google" else _MAX_TOOLS.get(self.family)

    @property
    def is_local(self) -> bool:
        """Whether it is one of the servers that users run on their own machines."""
        return self.family in PRESETS and PRESETS[self.family].local

    @property
    def needs_address(self) -> bool:
        """Whether its address depends on the account, and is not set."""
        return self.base_url is None and self.family in PRESETS

    @property
    def ready(self) -> bool:
        """Whether requests can be sent: it has an address, and a key or needs none."""
        return not self.needs_address and (self.key is not None or not self.needs_key)


class Endpoints:
    """All servers that the environment, the credentials file and the configuration define."""

    def __init__(
        self, config: ModelsConfig, environment: Mapping[str, str] | None = None, keys: Path | None = None
    ) -> None:
        self._config = config
        self._environment = os.environ if environment is None else environment
        self._keys = keys
        self.signed_out: bool = False
        """Whether the user signed out. Keys in the environment are then ignored."""

    def is_provider(self, name: str) -> bool:
        """Return whether a server of this name is defined."""
        return (
            name in PROVIDER_KINDS
            or name in PRESETS
            or name in self._config.endpoints
            or provider_variable(name, "BASE_URL") in self._environment
        )

    @property
    def names(self) -> list[str]:
        """The names of the built-in and the configured servers, and of the others that have a key."""
        stored = read_keys(self._keys)
        with_key = [name for name in PRESETS if name in stored or self.key_variable(name)]
        return list(dict.fromkeys([*DEFAULT_MODELS, *self._config.endpoints, *with_key]))

    @property
    def all_names(self) -> list[str]:
        """The names of all servers that are known."""
        return list(dict.fromkeys([*DEFAULT_MODELS, *PRESETS, *self._config.endpoints]))

    def get(self, name: str, model: str = "") -> Endpoint:
        """Return the server of this name. Some have another address for some models.

        Raises ConfigError or CredentialsError if its settings are unusable.
        """
        family = family_of(name)
        config = self._config.endpoints.get(name) or self._config.endpoints.get(family) or EndpointConfig()
        base_url = self._address(family) or config.base_url
        kind = PROVIDER_KINDS.get(name) or config.kind or "openai-chat"
        preset = PRESETS.get(name)
        if preset is not None:
            base_url = base_url or preset_address(name, self._environment, model)
            kind = config.kind or preset_kind(name, model)
        if name == "openai" and base_url is not None and not is_openai(base_url):
            kind = config.kind or "openai-chat"
        needs_key = config.needs_key
        if needs_key is None:
            is_local = preset is not None and preset.local
            needs_key = base_url is None or not (is_local or is_loopback(base_url))
        return Endpoint(
            name=name,
            kind=kind,
            base_url=base_url,
            key=find_key(family, {} if self.signed_out else self._environment, self._keys),
            needs_key=needs_key,
            finish_reason=config.finish_reason,
        )

    def ignored_key_variable(self, name: str) -> str | None:
        """Return the variable whose key is ignored because the user signed out."""
        return self.key_variable(name) if self.signed_out else None

    def key_variable(self, name: str) -> str | None:
        """Return the variable of the environment that holds the server's key."""
        variables = key_variables(family_of(name))
        return next((name for name in variables if self._environment.get(name, "").strip()), None)

    def default_model(self, name: str) -> str | None:
        """Return the model to use at this server when the user names none."""
        family = family_of(name)
        config = self._config.endpoints.get(name) or self._config.endpoints.get(family) or EndpointConfig()
        chosen = self._environment.get(provider_variable(family, "MODEL")) or config.model
        first = config.models[0] if config.models else None
        if chosen or first:
            return chosen or first
        return DEFAULT_MODELS.get(family) if self._address(family) is None else None

    def configured_models(self, name: str) -> tuple[str, ...]:
        """Return the models that the configuration lists for this server."""
        config = self._config.endpoints.get(name) or self._config.endpoints.get(family_of(name))
        return config.models if config else ()

    def _address(self, family: str) -> str | None:
        for name in (provider_variable(family, "BASE_URL"), *_EXTRA_ADDRESS_VARIABLES.get(family, ())):
            if url := self._environment.get(name, "").strip():
                if fault := address_error(url):
                    raise ConfigError("the environment", name, fault)
                return url
        return None


def family_of(name: str) -> str:
    """Return the provider whose key and address a server uses."""
    return "openai" if name in ("openai-chat", "openai-responses") else name


def is_openai(url: str) -> bool:
    """Return whether an address is one of OpenAI."""
    host = urlsplit(url).hostname or ""
    return host == _OPENAI_HOST or host.endswith(f".{_OPENAI_HOST}")


def is_loopback(url: str) -> bool:
    """Return whether an address is on this machine."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
