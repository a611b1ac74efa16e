"""Signing in: the ways that `initialize` offers, and what they do. A key never crosses the wire, in either direction.

The user gives it to `accord agent --login` or to the environment; `authenticate` looks whether it is there by now. Light: read before
`initialize` is answered, so the models are imported on use.
"""

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from accord.errors import AuthRequired, InternalError, UsageError
from accord.schema.auth import AuthMethod, AuthMethodAgent, AuthMethodTerminal

if TYPE_CHECKING:
    from accord.agent import ClientRequest
    from accord.coder.models import Choice, Models

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

    def __init__(self, models: "Callable[[], Models]", flag: str | None = None) -> None:
        """`models` gives the models there are, imported on use; `flag` is the model that the command line names."""
        self._models = models
        self._flag = flag

    def require(self, choice: "Choice") -> None:
        """Raise AuthRequired, with the line that says what to do, unless a session may begin with this model."""
        if choice.missing is not None:
            raise AuthRequired(choice.missing)

    def authenticate(self, method_id: str, call: "ClientRequest") -> None:
        """Look again whether a key is there. Raises AuthRequired, with the line that says what to do."""
        try:
            models = self._models()
            before, models.endpoints.signed_out = models.endpoints.signed_out, False
            choice = models.choose(self._flag)
        except UsageError as error:
            raise AuthRequired(str(error)) from None
        if choice.missing is None and choice.source != "rehearsal":
            return
        models.endpoints.signed_out = before
        nothing = f"no key of a model provider was found: {_HOW}, or set {_SUCH_AS}"
        raise AuthRequired(choice.missing or choice.unnamed or nothing)

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
