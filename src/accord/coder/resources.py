"""What all sessions of the process share: start options, config, models, store, sign-in, the stderr log.

Loaded before `initialize` is answered: keep heavy imports out.
"""

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
    from accord.coder.models import ModelChoice, ModelRegistry, Resolver
    from accord.coder.permissions.permission_settings import PermissionSettings
    from accord.coder.user_config import Config
    from accord.store.contract import Store


# MERGED coder.start: How the coding agent is started: what the command line, or a program that embeds it, has decided.


class CoderOptions(Struct, frozen=True, kw_only=True):
    """What was asked for; what is None is found in the environment and the config."""

    model: str | None = None
    """As `provider:name`."""
    mode: str | None = None
    """The mode that new sessions begin in."""
    resume: str | Literal[True] | None = None
    """What the first `session/new` continues: a session by its id, or the newest of its folder."""
    store: "Path | Store | None" = None
    """Where sessions are kept: a file, or a store of the embedding program's own."""
    log: "Path | None" = None
    """Where everything that goes over the wire is recorded."""
    strict: bool = False
    """Messages are judged as sent: no dialect is repaired."""
    resolver: "Resolver | None" = None
    """Gives models to programs that embed the agent."""
    environment: Mapping[str, str] | None = None
    """What to read instead of this process's environment."""
    clock: Clock = SYSTEM_CLOCK


# MERGED coder.auth: Signing in: the ways that `initialize` offers, and what they do. A key never crosses the wire, in either direction.
#
# The user gives it to `accord agent --login` or to the environment; `authenticate` looks whether it is there by now. Light: read before
# `initialize` is answered, so the models are imported on use.

LOGIN: Final = "accord-login"
TERMINAL: Final = "accord-terminal"

_HOW: Final = "run `accord agent --login` in a terminal"
_SUCH_AS: Final = "a variable such as ANTHROPIC_API_KEY"
_STAYS: Final = f"keys and addresses of model providers never travel over ACP: {_HOW}, or set them in the agent's environment"

REFUSED_MEMBERS: Final[Mapping[str, str]] = dict.fromkeys(
    ("apiKey", "baseUrl", "api_key", "base_url"), _STAYS
)
"""For `AgentOptions.refused_members`."""


def auth_methods() -> list[AuthMethod]:
    """The ways to sign in. Clients that cannot run a terminal are not told of the second one."""
    run = {
        "command": sys.executable,
        "args": ["-m", "accord.cli", "agent", "--login"],
        "label": "accord agent --login",
    }
    return [
        AuthMethodAgent(
            LOGIN,
            "Use the key kept on this machine",
            f"Give the key of your model provider to Accord first: {_HOW}, or set {_SUCH_AS}.",
        ),
        AuthMethodTerminal(
            TERMINAL,
            "Enter the key of a model provider",
            "Asks for the key in a terminal and keeps it in a file that only you can read.",
            args=["--login"],
            meta={"terminal-auth": run},  # where clients looked before `args` and `env` were agreed on
        ),
    ]


class SignIn:
    """Whether sessions may use the key of their model.

    A user who signed out is asked again, also where the key is in the environment, which no program can take it out of.
    """

    def __init__(self, models: "Callable[[], ModelRegistry]", flag: str | None = None) -> None:
        """`models` gives the models there are, imported on use; `flag` is the model that the command line names."""
        self._models = models
        self._flag = flag

    def require(self, choice: "ModelChoice") -> None:
        """Raise AuthRequired, with the line that says what to do, unless a session may begin with this model."""
        if choice.missing_key is not None:
            raise AuthRequired(choice.missing_key)

    def authenticate(self, method_id: str, call: "ClientRequest") -> None:
        """Look again whether a key is there. Raises AuthRequired, with the line that says what to do."""
        try:
            models = self._models()
            before, models.endpoints.signed_out = models.endpoints.signed_out, False
            choice = models.choose(self._flag)
        except UsageError as error:
            raise AuthRequired(str(error)) from None
        if choice.missing_key is None and choice.source != "rehearsal":
            return
        models.endpoints.signed_out = before
        nothing = f"no key of a model provider was found: {_HOW}, or set {_SUCH_AS}"
        raise AuthRequired(choice.missing_key or choice.missing_model or nothing)

    def logout(self, call: "ClientRequest") -> None:
        """Forget the kept keys. Those of the environment are left alone until the user signs in again."""
        from accord.coder.models.credentials import CredentialsError, credentials_file, remove_key

        with suppress(UsageError):  # a config that cannot be used keeps nobody from leaving
            self._models().endpoints.signed_out = True
        try:
            try:
                remove_key()
            except CredentialsError:  # broken, or open to others: it goes as a whole
                credentials_file().unlink(missing_ok=True)
        except OSError as error:
            raise InternalError(f"{credentials_file()}: cannot be removed ({error.strerror})") from None


# MERGED coder.coder: The coding agent of one process: what all its sessions share, each made when it is first needed.

_SOON: Final = 0.5
_FILES: Final = ("config.toml", "config.json", "credentials.json")
_LOG = logging.getLogger("accord.coder")


class CoderResources:
    """Config, models and the store."""

    def __init__(self, start: CoderOptions) -> None:
        self.start = start
        self.resume = start.resume
        """What the next `session/new` is to continue; None once one has."""
        self.sign_in = SignIn(lambda: self.models, start.model)
        self.opened = threading.Event()
        """Set once a session is open."""
        self.told: set[str] = set()
        """What was said on stderr and need not be said again for every session."""
        self._store: Store | None = None

    @cached_property
    def config(self) -> "Config":
        """The user's settings. Raises ConfigError."""
        from accord.coder.user_config import load_config

        return load_config()

    @cached_property
    def models(self) -> "ModelRegistry":
        """Where models come from. Raises ConfigError, CredentialsError."""
        from accord.coder.models import ModelRegistry

        return ModelRegistry(
            self.config.models,
            environment=self.start.environment,
            resolver=self.start.resolver,
            clock=self.start.clock,
        )

    @cached_property
    def permissions(self) -> "PermissionSettings":
        """What the user allows, asks for and denies. Raises ConfigError, BadRules."""
        from accord.coder.permissions.permission_settings import from_mapping

        return from_mapping(self.config.mapping, self.config.file or "config.toml")

    @property
    def first_mode(self) -> str:
        """The mode that new sessions begin in."""
        return self.start.mode or str(self.config.mapping.get("mode", "ask"))

    @cached_property
    def sees_images(self) -> bool:
        """Whether the model that sessions begin with can look at pictures. Costs nothing where plainly no model is set up."""
        if self.start.resolver is None:
            if not something_is_set_up(self.start):
                return False
            if (name := _plainly_named(self.start)) is not None:
                from accord.coder.models.model_name import guess_vision

                return guess_vision(name)
        from accord.coder.models.model_registry import UnknownModel

        try:
            return self.models.sees_images(self.models.choose(self.start.model).model)
        except (UnknownModel, UsageError):
            return False  # said in full to the first session

    @property
    def store(self) -> "Store":
        """The session logs, opened on first use. Raises StoreError."""
        if self._store is None:
            from accord.store import open_store

            given = self.start.store
            self._store = open_store(given) if given is None or isinstance(given, os.PathLike) else given
        return self._store

    # A `Committing`, for the transport: frames wait for the log, and there is none before the first session.

    @property
    def dirty(self) -> bool:
        """Whether something was logged and is not committed yet."""
        return self._store is not None and self._store.dirty

    def commit(self) -> None:
        """See that everything logged so far is in the file."""
        if self._store is not None:
            self._store.commit()

    def preload(self) -> None:
        """Import, in a thread, what the first session and then its first turn need: the client has its answer."""
        threading.Thread(target=self._preload, name="accord-preload", daemon=True).start()

    def _preload(self) -> None:
        try:
            import_module("accord.coder.session_lifecycle")
            self.opened.wait(_SOON)  # most clients open a session at once: nothing competes with it
            import_module("accord.coder.session_runtime")
            from accord.coder.session_options import preload
            from accord.coder.tools import built_in_tools

            built_in_tools()
            preload(self.models, self.models.choose(self.start.model).model)
        except Exception as error:  # noqa: BLE001 - the top of a thread; whoever needs it gets the error, too
            _LOG.info("what the first turn needs could not be loaded ahead: %s", error)

    async def aclose(self) -> None:
        """Let everything go."""
        models: ModelRegistry | None = self.__dict__.get("models")
        if models is not None:
            await models.aclose()
        if self._store is not None:
            try:
                self._store.close()
            except StoreError as error:
                _LOG.error("%s", error)


def _plainly_named(start: CoderOptions) -> str | None:
    """The name of a model, where the command line or the environment gives it whole and no config says more about it."""
    environment = os.environ if start.environment is None else start.environment
    text = (start.model or environment.get("ACCORD_MODEL") or "").strip()
    if any(os.path.exists(os.path.join(config_folder(), name)) for name in _FILES[:2]):
        return None
    return text.replace("/", ":", 1).partition(":")[2] or None


def something_is_set_up(start: CoderOptions) -> bool:
    """Whether any model may have been chosen or any key given; found out without importing anything for it."""
    environment = os.environ if start.environment is None else start.environment
    if start.model or environment.get("ACCORD_MODEL"):
        return True
    if any(name.endswith("_API_KEY") for name in environment):
        return True
    folder = config_folder()
    return any(os.path.exists(os.path.join(folder, name)) for name in _FILES)


# MERGED coder.logs: What the agent's process says on stderr beside its errors: warnings, one line each, and no tracebacks unless asked for.
#
# Editors show an agent's stderr to people. `ACCORD_DEBUG=1` brings everything, tracebacks included.

_Info = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def log_to_stderr() -> None:
    """Send what is logged in this process to stderr."""
    debug = bool(os.environ.get("ACCORD_DEBUG"))
    handler = logging.StreamHandler(sys.stderr)
    form = "%(levelname)s %(name)s: %(message)s"
    handler.setFormatter(logging.Formatter(form) if debug else _OneLine(f"accord agent: {form}"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if debug else logging.WARNING)


def tell(line: str) -> None:
    """Say something to whoever reads stderr. Where that is closed, nobody does."""
    with suppress(OSError, ValueError):
        if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison] - so it is where the launcher closed it
            sys.stderr.write(f"accord agent: {line}\n")
            sys.stderr.flush()


class _OneLine(logging.Formatter):
    """Says where an error came from, and no more."""

    def format(self, record: logging.LogRecord) -> str:
        return " ".join(super().format(record).split())

    def formatException(self, ei: _Info) -> str:  # noqa: N802 - the name is theirs
        kind, error, trace = ei
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = "" if trace is None else f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        return f"({'' if kind is None else kind.__name__}: {error}{where}; ACCORD_DEBUG=1 shows more)"
