"""The servers of models: which there are, how each is spoken to, and whether its key is there."""

import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from accord.coder.models.credentials import Secret, find_key, key_variables, variable
from accord.coder.user_config import ConfigError, EndpointConfig, Kind, ModelsConfig, fault_of_address

DEFAULT_MODELS: Final = {
    "anthropic": "claude-sonnet-5-5",
    "openai": "gpt-6.1-sol",
    "google": "gemini-4-argon",
}
"""The built-in providers, in the order in which their keys are looked for, and the model each starts with."""

_KINDS: Final[dict[str, Kind]] = {
    "openai": "openai-responses",
    "openai-responses": "openai-responses",
    "openai-chat": "openai-chat",
    "anthropic": "anthropic",
    "google": "google",
}
_OPENAI_HOSTS: Final = ("api.openai.com", ".api.openai.com")
_ADDRESS_NAMES: Final = {"google": ("GOOGLE_GEMINI_BASE_URL",)}


class Endpoint(Struct, frozen=True):
    """One server, ready to be asked. Shows no key, whoever prints it."""

    name: str
    kind: Kind
    base_url: str | None
    """None for the provider's own address."""
    key: Secret | None
    needs_key: bool
    finish_reason: bool = True

    @property
    def family(self) -> str:
        """The name under which its key and address are kept; `openai-chat` shares those of `openai`."""
        return family_of(self.name)

    @property
    def is_own(self) -> bool:
        """Whether this is the provider itself and not a server that speaks like it."""
        return self.base_url is None and self.family in DEFAULT_MODELS

    @property
    def ready(self) -> bool:
        """Whether requests can be sent: the key is there, or none is needed."""
        return self.key is not None or not self.needs_key


class Endpoints:
    """All servers that the environment, the file of keys and the config know."""

    def __init__(
        self, config: ModelsConfig, environment: Mapping[str, str] | None = None, keys: Path | None = None
    ) -> None:
        self._config = config
        self._environment = os.environ if environment is None else environment
        self._keys = keys
        self.signed_out = False
        """Whether keys of the environment are left alone: no program can take them out of it, but a user may sign out."""

    def is_provider(self, name: str) -> bool:
        """Whether there is such a server."""
        return (
            name in _KINDS
            or name in self._config.endpoints
            or variable(name, "BASE_URL") in self._environment
        )

    @property
    def names(self) -> list[str]:
        """The servers known by name: the built-in ones and those of the config."""
        return list(dict.fromkeys([*DEFAULT_MODELS, *self._config.endpoints]))

    def get(self, name: str) -> Endpoint:
        """The server of this name. Raises ConfigError or CredentialsError where its settings cannot be used."""
        family = family_of(name)
        config = self._config.endpoints.get(name) or self._config.endpoints.get(family) or EndpointConfig()
        base_url = self._address(family) or config.base_url
        kind = _KINDS.get(name) or config.kind or "openai-chat"
        if name == "openai" and base_url is not None and not _is_openai(base_url):
            kind = config.kind or "openai-chat"
        needs_key = config.needs_key
        if needs_key is None:
            needs_key = base_url is None or not _is_here(base_url)
        return Endpoint(
            name=name,
            kind=kind,
            base_url=base_url,
            key=find_key(family, {} if self.signed_out else self._environment, self._keys),
            needs_key=needs_key,
            finish_reason=config.finish_reason,
        )

    def withheld_key(self, name: str) -> str | None:
        """The variable whose key is left alone because the user signed out."""
        if not self.signed_out:
            return None
        variables = key_variables(family_of(name))
        return next((name for name in variables if self._environment.get(name, "").strip()), None)

    def default_model(self, name: str) -> str | None:
        """The model to use at this server where none is named."""
        family = family_of(name)
        config = self._config.endpoints.get(name) or self._config.endpoints.get(family) or EndpointConfig()
        named = self._environment.get(variable(family, "MODEL")) or config.model
        listed = config.models[0] if config.models else None
        return named or listed or (DEFAULT_MODELS.get(family) if self._address(family) is None else None)

    def listed_models(self, name: str) -> tuple[str, ...]:
        """The models that the config names for this server."""
        config = self._config.endpoints.get(name) or self._config.endpoints.get(family_of(name))
        return config.models if config else ()

    def _address(self, family: str) -> str | None:
        for name in (variable(family, "BASE_URL"), *_ADDRESS_NAMES.get(family, ())):
            if url := self._environment.get(name, "").strip():
                if fault := fault_of_address(url):
                    raise ConfigError("the environment", name, fault)
                return url
        return None


def family_of(name: str) -> str:
    """The provider whose key and address a server uses."""
    return "openai" if name in ("openai-chat", "openai-responses") else name


def _is_openai(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host == _OPENAI_HOSTS[0] or host.endswith(_OPENAI_HOSTS[1])


def _is_here(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
