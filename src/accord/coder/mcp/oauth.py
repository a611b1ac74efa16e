"""OAuth for MCP servers with the flow of the mcp package; tokens in a file that only its owner can read.

Imported on first use: it loads mcp.
"""

import os
import stat
import time
from pathlib import Path
from typing import Any, Final

import msgspec
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from msgspec import Struct, field
from pydantic import AnyUrl, ValidationError

from accord.coder.mcp.server_interface import McpServerFailure
from accord.coder.mcp.sign_in import McpSignIn, free_port
from accord.errors import BadSettings
from accord.file_format import FileFormat
from accord.paths import config_dir
from accord.private_files import locked, private_folder

TOKENS_FILE: Final = "mcp-tokens.json"


class _ServerTokens(Struct):
    """What is kept of one server."""

    tokens: dict[str, Any] | None = None
    expires_at: float | None = None
    client: dict[str, Any] | None = None
    port: int = 0
    """The port of the return address that the client was registered with."""


class _TokensFile(Struct):
    servers: dict[str, _ServerTokens] = field(default_factory=dict[str, _ServerTokens])


def tokens_file() -> Path:
    return config_dir() / TOKENS_FILE


def _read_file() -> _TokensFile:
    file = tokens_file()
    try:
        with file.open("rb") as stream:
            mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
            if os.name == "posix" and mode & 0o077:
                raise BadSettings(f"{file}: other users can read it, so it is not used: chmod 600 {file}")
            return FileFormat().decode(stream.read(), _TokensFile, file)
    except FileNotFoundError:
        return _TokensFile()
    except OSError as error:
        raise BadSettings(f"{file}: cannot be read ({error.strerror})") from None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise BadSettings(f"{file}: damaged; delete it and sign in again") from None


class TokenFile:
    """The tokens of one server. Implements `TokenStorage` of the mcp package."""

    def __init__(self, url: str) -> None:
        self._url = url

    def load(self) -> _ServerTokens:
        """What is kept of the server. Raises McpServerFailure."""
        try:
            return _read_file().servers.get(self._url, _ServerTokens())
        except BadSettings as error:
            raise McpServerFailure(str(error)) from None

    def remove(self) -> bool:
        """Forget the tokens and the registration. Returns whether there were any."""
        known = self.load() != _ServerTokens()
        if known:
            self._change(None)
        return known

    async def get_tokens(self) -> OAuthToken | None:
        try:
            tokens = self.load().tokens
            return None if tokens is None else OAuthToken.model_validate(tokens)
        except ValidationError:
            return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        entry = self.load()
        entry.tokens = tokens.model_dump(mode="json", exclude_none=True)
        entry.expires_at = None if tokens.expires_in is None else time.time() + tokens.expires_in
        self._change(entry)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        try:
            client = self.load().client
            return None if client is None else OAuthClientInformationFull.model_validate(client)
        except ValidationError:
            return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        entry = self.load()
        entry.client = client_info.model_dump(mode="json", exclude_none=True)
        addresses = client_info.redirect_uris or ()
        entry.port = next((address.port for address in addresses if address.port), 0)
        self._change(entry)

    def _change(self, entry: _ServerTokens | None) -> None:
        file = tokens_file()
        private_folder(file.parent)
        with locked(file.with_suffix(".lock")):
            content = _read_file()
            if entry is None:
                content.servers.pop(self._url, None)
            else:
                content.servers[self._url] = entry
            FileFormat().write(file, content)


class _Provider(OAuthClientProvider):
    """The provider of the mcp package, which also knows when a stored token expires."""

    async def _initialize(self) -> None:
        await super()._initialize()
        storage = self.context.storage
        if isinstance(storage, TokenFile):
            self.context.token_expiry_time = storage.load().expires_at


def oauth_provider(url: str, sign_in: McpSignIn) -> OAuthClientProvider | None:
    """Signs the requests to a server. None if the user has not signed in and does not want to now."""
    storage = TokenFile(url)
    entry = storage.load()
    if entry.tokens is None and sign_in.show is None:
        return None
    port = entry.port or free_port()

    async def open_page(address: str) -> None:
        await sign_in.open_page(address, port)

    async def wait_for_return() -> AuthorizationCodeResult:
        returned = await sign_in.wait_for_return()
        await sign_in.finish()
        return AuthorizationCodeResult(code=returned.code, state=returned.state, iss=returned.issuer)

    metadata = OAuthClientMetadata(
        redirect_uris=[AnyUrl(f"http://127.0.0.1:{port}/callback")],
        client_name="Accord",
        token_endpoint_auth_method="none",
    )
    return _Provider(url, metadata, storage, open_page, wait_for_return)
