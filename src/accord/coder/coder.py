"""The coding agent of one process: what all its sessions share, each made when it is first needed."""

import logging
import os
import threading
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Final

from accord.coder.auth import SignIn
from accord.coder.start import Start
from accord.errors import StoreError, UsageError
from accord.paths import config_folder

if TYPE_CHECKING:
    from accord.coder.config import Config
    from accord.coder.models import Models
    from accord.coder.permissions.settings import PermissionSettings
    from accord.store.contract import Store

_SOON: Final = 0.5
_FILES: Final = ("config.toml", "config.json", "credentials.json")
_LOG = logging.getLogger("accord.coder")


class Coder:
    """Config, models and the store."""

    def __init__(self, start: Start) -> None:
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
        from accord.coder.config import load

        return load()

    @cached_property
    def models(self) -> "Models":
        """Where models come from. Raises ConfigError, CredentialsError."""
        from accord.coder.models import Models

        return Models(
            self.config.models,
            environment=self.start.environment,
            resolver=self.start.resolver,
            clock=self.start.clock,
        )

    @cached_property
    def permissions(self) -> "PermissionSettings":
        """What the user allows, asks for and denies. Raises ConfigError, BadRules."""
        from accord.coder.permissions.settings import from_mapping

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
                from accord.coder.models.seeing import sees_by_name

                return sees_by_name(name)
        from accord.coder.models.choice import UnknownModel

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
            import_module("accord.coder.sessions")
            self.opened.wait(_SOON)  # most clients open a session at once: nothing competes with it
            import_module("accord.coder.workbench")
            from accord.coder.options import preload
            from accord.coder.tools import built_in_tools

            built_in_tools()
            preload(self.models, self.models.choose(self.start.model).model)
        except Exception as error:  # noqa: BLE001 - the top of a thread; whoever needs it gets the error, too
            _LOG.info("what the first turn needs could not be loaded ahead: %s", error)

    async def aclose(self) -> None:
        """Let everything go."""
        models: Models | None = self.__dict__.get("models")
        if models is not None:
            await models.aclose()
        if self._store is not None:
            try:
                self._store.close()
            except StoreError as error:
                _LOG.error("%s", error)


def _plainly_named(start: Start) -> str | None:
    """The name of a model, where the command line or the environment gives it whole and no config says more about it."""
    environment = os.environ if start.environment is None else start.environment
    text = (start.model or environment.get("ACCORD_MODEL") or "").strip()
    if any(os.path.exists(os.path.join(config_folder(), name)) for name in _FILES[:2]):
        return None
    return text.replace("/", ":", 1).partition(":")[2] or None


def something_is_set_up(start: Start) -> bool:
    """Whether any model may have been chosen or any key given; found out without importing anything for it."""
    environment = os.environ if start.environment is None else start.environment
    if start.model or environment.get("ACCORD_MODEL"):
        return True
    if any(name.endswith("_API_KEY") for name in environment):
        return True
    folder = config_folder()
    return any(os.path.exists(os.path.join(folder, name)) for name in _FILES)
