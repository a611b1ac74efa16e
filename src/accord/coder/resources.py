"""What all sessions of the process share: start options, config, models, store, sign-in, the stderr log.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import gc
import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

from accord.clock import SYSTEM_CLOCK, Clock
from accord.errors import AuthRequired, InternalError, StoreError, UsageError
from accord.paths import config_folder
from accord.schema.auth import AuthMethod, AuthMethodAgent, AuthMethodTerminal

if TYPE_CHECKING:
    from pathlib import Path

    from accord.agent import ClientRequest
    from accord.coder.models import ModelRegistry
    from accord.coder.models.model_registry import ModelChoice, Resolver
    from accord.coder.permissions.permission_settings import PermissionSettings
    from accord.coder.session.session_index import ListedSessions
    from accord.coder.user_config import Config
    from accord.store.contract import Store


class CoderOptions(Struct, frozen=True, kw_only=True):
    """The start options. A value of None is looked up in the environment and in the config."""

    model: str | None = None
    """As `provider:name`."""
    budgets: Mapping[str, float] = {}
    """Limits of the usage, such as `cost` and `session_cost`. They override those of the config."""
    mode: str | None = None
    """The mode of new sessions."""
    resume: str | Literal[True] | None = None
    """The session that the first `session/new` continues: an id, or True for the newest one of its folder."""
    store: "Path | Store | None" = None
    """The session store: a file, or a store of the embedding program."""
    trace_file: "Path | None" = None
    """The trace file for all frames on the wire."""
    strict: bool = False
    """Judge messages as sent: do not repair dialects."""
    resolver: "Resolver | None" = None
    """Resolves models for programs that embed the agent."""
    environment: Mapping[str, str] | None = None
    """Read this instead of the environment of the process."""
    clock: Clock = SYSTEM_CLOCK


# A key never crosses the wire. The user gives it to `accord agent --login` or sets it in the environment.
AGENT_AUTH_METHOD: Final = "accord-login"
TERMINAL_AUTH_METHOD: Final = "accord-terminal"

_LOGIN_ADVICE: Final = "run `accord agent --login` in a terminal"
_KEY_VARIABLE: Final = "a variable such as ANTHROPIC_API_KEY"
_NO_KEYS_OVER_ACP: Final = (
    f"keys and addresses of model providers are never sent over ACP: {_LOGIN_ADVICE}, "
    "or set them in the agent's environment"
)

REFUSED_MEMBERS: Final[Mapping[str, str]] = dict.fromkeys(
    ("apiKey", "baseUrl", "api_key", "base_url"), _NO_KEYS_OVER_ACP
)
"""For `AgentOptions.refused_members`."""


def auth_methods() -> list[AuthMethod]:
    """The sign-in methods. Clients that cannot run a terminal are not offered the second one."""
    run = {
        "command": sys.executable,
        "args": ["-m", "accord.cli", "agent", "--login"],
        "label": "accord agent --login",
    }
    return [
        AuthMethodAgent(
            AGENT_AUTH_METHOD,
            "Use the key kept on this machine",
            f"Give the key of your model provider to Accord first: {_LOGIN_ADVICE}, or set {_KEY_VARIABLE}.",
        ),
        AuthMethodTerminal(
            TERMINAL_AUTH_METHOD,
            "Enter the key of a model provider",
            "Asks for the key in a terminal and keeps it in a file that only you can read.",
            args=["--login"],
            meta={"terminal-auth": run},  # where older clients look for the command
        ),
    ]


class SignIn:
    """Whether sessions may use the key of their model.

    After a sign-out, keys in the environment are not used until the user signs in again.
    """

    def __init__(self, models: "Callable[[], ModelRegistry]", flag: str | None = None) -> None:
        """`models` returns the registry, imported on use; `flag` is the model of the command line."""
        self._models = models
        self._flag = flag

    def require(self, choice: "ModelChoice") -> None:
        """Raise AuthRequired, with what to do, unless a session may start with this model."""
        if choice.missing_key is not None:
            raise AuthRequired(choice.missing_key)

    def authenticate(self, method_id: str, call: "ClientRequest") -> None:
        """Check again whether a key is there. Raises AuthRequired, with what to do."""
        try:
            models = self._models()
            was_signed_out, models.endpoints.signed_out = models.endpoints.signed_out, False
            choice = models.choose(self._flag)
        except UsageError as error:
            raise AuthRequired(str(error)) from None
        if choice.missing_key is None and choice.source != "rehearsal":
            return
        models.endpoints.signed_out = was_signed_out
        no_key = f"no key of a model provider was found: {_LOGIN_ADVICE}, or set {_KEY_VARIABLE}"
        raise AuthRequired(choice.missing_key or choice.missing_model or no_key)

    def logout(self, call: "ClientRequest") -> None:
        """Delete the stored keys. Keys in the environment are not used until the user signs in again."""
        from accord.coder.models.credentials import CredentialsError, credentials_file, remove_key

        with suppress(UsageError):  # a broken config must not prevent the sign-out
            self._models().endpoints.signed_out = True
        try:
            try:
                remove_key()
            except CredentialsError:  # broken, or readable for others: remove the whole file
                credentials_file().unlink(missing_ok=True)
        except OSError as error:
            raise InternalError(f"{credentials_file()}: cannot be removed ({error.strerror})") from None


_PRELOAD_DELAY: Final = 0.5
_CONFIG_FILES: Final = ("config.toml", "config.json", "credentials.json")
_LOG = logging.getLogger("accord.coder")


class CoderResources:
    """The config, models and store of one process. Each is loaded on first use."""

    def __init__(self, options: CoderOptions) -> None:
        self.options = options
        self.resume = options.resume
        """What the next `session/new` continues; None after the first one."""
        self.sign_in: SignIn = SignIn(lambda: self.models, options.model)
        self.session_opened: threading.Event = threading.Event()
        """Set once a session is open."""
        self.reported_messages: set[str] = set()
        """Messages written to stderr once, not again for every session."""
        self.session_index: ListedSessions | None = None
        """The list of sessions for clients that follow it, once there is one."""
        self.opening_forks: set[str] = set()
        """The ids of forks that no client knows yet."""
        self._store: Store | None = None

    @cached_property
    def config(self) -> "Config":
        """The user's config. Raises ConfigError."""
        from accord.coder.user_config import load_config

        return load_config()

    @cached_property
    def models(self) -> "ModelRegistry":
        """The model registry. Raises ConfigError, CredentialsError."""
        from accord.coder.models import ModelRegistry

        return ModelRegistry(
            self.config.models,
            environment=self.options.environment,
            resolver=self.options.resolver,
            clock=self.options.clock,
        )

    @cached_property
    def permissions(self) -> "PermissionSettings":
        """The permission settings of the user. Raises ConfigError, BadRules."""
        from accord.coder.permissions.permission_settings import permission_settings

        return permission_settings(self.config.mapping, self.config.file or "config.toml")

    @property
    def first_mode(self) -> str:
        """The mode of new sessions."""
        return self.options.mode or str(self.config.mapping.get("mode", "ask"))

    @cached_property
    def sees_images(self) -> bool:
        """Whether the model of new sessions accepts images; true until the user has chosen one."""
        if self.options.resolver is None:
            if not is_configured(self.options):
                return True
            if (name := _complete_model_name(self.options)) is not None:
                from accord.coder.models.model_name import guess_vision

                return name != "rehearsal" and guess_vision(name)
        from accord.coder.models.model_registry import UnknownModel

        try:
            choice = self.models.choose(self.options.model)
            return choice.source == "rehearsal" or self.models.sees_images(choice.model)
        except (UnknownModel, UsageError):
            return False  # the first session reports the error

    @property
    def store(self) -> "Store":
        """The session logs, opened on first use. Raises StoreError."""
        if self._store is None:
            from accord.store import open_store

            store = self.options.store
            self._store = open_store(store) if store is None or isinstance(store, os.PathLike) else store
        return self._store

    @property
    def dirty(self) -> bool:
        """Whether log records wait for `commit`. With it, this class is a `CommitSource`."""
        return self._store is not None and self._store.dirty

    def commit(self) -> None:
        """Commit all log records."""
        if self._store is not None:
            self._store.commit()

    def preload(self) -> None:
        """Import the modules of the first session and turn in a thread, after `initialize` is answered."""
        gc.enable()  # the command line disabled it
        threading.Thread(target=self._preload, name="accord-preload", daemon=True).start()

    def _preload(self) -> None:
        try:
            import_module("accord.coder.session.session_lifecycle")
            self.session_opened.wait(_PRELOAD_DELAY)  # do not slow down a session that opens at once
            import_module("accord.coder.turn.session_runtime")
            from accord.coder.session.session_options import preload
            from accord.coder.tools import built_in_tools

            built_in_tools()
            preload(self.models, self.models.choose(self.options.model).model)
        except Exception as error:  # noqa: BLE001 - the top of a thread; the turn raises the error again
            _LOG.info("preloading for the first turn failed: %s", error)

    async def aclose(self) -> None:
        """Close the models and the store."""
        models: ModelRegistry | None = self.__dict__.get("models")
        if models is not None:
            await models.aclose()
        if self._store is not None:
            try:
                self._store.close()
            except StoreError as error:
                _LOG.error("%s", error)


def _complete_model_name(options: CoderOptions) -> str | None:
    """The model name, if the command line or environment gives it in full and there is no config file."""
    environment = os.environ if options.environment is None else options.environment
    text = (options.model or environment.get("ACCORD_MODEL") or "").strip()
    if text == "rehearsal":
        return text
    if any(os.path.exists(os.path.join(config_folder(), name)) for name in _CONFIG_FILES[:2]):
        return None
    return text.replace("/", ":", 1).partition(":")[2] or None


def is_configured(options: CoderOptions) -> bool:
    """Whether a model or a key may be configured. Imports nothing."""
    environment = os.environ if options.environment is None else options.environment
    if options.model or environment.get("ACCORD_MODEL"):
        return True
    if any(name.endswith("_API_KEY") for name in environment):
        return True
    folder = config_folder()
    return any(os.path.exists(os.path.join(folder, name)) for name in _CONFIG_FILES)


_ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def log_to_stderr() -> None:
    """Log warnings to stderr, one line each. `ACCORD_DEBUG=1` logs everything, with tracebacks."""
    debug = bool(os.environ.get("ACCORD_DEBUG"))
    handler = logging.StreamHandler(sys.stderr)
    form = "%(levelname)s %(name)s: %(message)s"
    handler.setFormatter(logging.Formatter(form) if debug else _OneLineFormatter(f"accord agent: {form}"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if debug else logging.WARNING)


def write_stderr(line: str) -> None:
    """Write a line to stderr, unless stderr is closed."""
    with suppress(OSError, ValueError):
        if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison] - None if it was closed
            sys.stderr.write(f"accord agent: {line}\n")
            sys.stderr.flush()


class _OneLineFormatter(logging.Formatter):
    """Logs each record on one line, and of an error only where it was raised."""

    def format(self, record: logging.LogRecord) -> str:
        return " ".join(super().format(record).split())

    def formatException(self, ei: _ExceptionInfo) -> str:  # noqa: N802 - the name of the standard library
        kind, error, trace = ei
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = "" if trace is None else f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        return f"({'' if kind is None else kind.__name__}: {error}{where}; ACCORD_DEBUG=1 shows more)"
