"""OAuth for MCP servers with the flow of the mcp package; tokens in a file that only its owner can read.

Imported on first use: it loads mcp.
"""

import os
import stat
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final

import httpx2
import msgspec
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
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
    metadata: dict[str, Any] | None = None
    """What the authorization server says about itself, such as the address that refreshes tokens."""
    resource: dict[str, Any] | None = None
    """What the server says about its authorization."""


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

    def set_metadata(
        self, metadata: OAuthMetadata | None, resource: ProtectedResourceMetadata | None
    ) -> None:
        """Keep where tokens are refreshed."""
        entry = self.load()
        entry.metadata = metadata and metadata.model_dump(mode="json", exclude_none=True)
        entry.resource = resource and resource.model_dump(mode="json", exclude_none=True)
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
    """The provider of the mcp package, which also keeps when and where a stored token is refreshed.

    Several sessions share the file: a token that another one has refreshed is used, because many servers take
    each refresh token only once.
    """

    async def _initialize(self) -> None:
        await super()._initialize()
        context = self.context
        if isinstance(context.storage, TokenFile):
            context.token_expiry_time = (entry := context.storage.load()).expires_at
            try:
                if entry.metadata is not None and context.oauth_metadata is None:
                    context.oauth_metadata = OAuthMetadata.model_validate(entry.metadata)
                if entry.resource is not None and context.protected_resource_metadata is None:
                    resource = ProtectedResourceMetadata.model_validate(entry.resource)
                    context.protected_resource_metadata = resource
            except ValidationError:
                pass  # it is asked for again

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if not self.context.is_token_valid():
            self._initialized = False  # the file may have a newer one
        flow = super()._auth_flow(request)
        try:
            sent = await anext(flow)
            while True:
                sent = await flow.asend((yield sent))
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    async def _handle_refresh_response(self, response: httpx2.Response) -> bool:
        tried = self.context.current_tokens
        if await super()._handle_refresh_response(response):
            return True
        await self._initialize()
        if self.context.current_tokens != tried and self.context.is_token_valid():
            return True  # another session was faster
        self.context.clear_tokens()
        return False

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        await super()._handle_token_response(response)
        if isinstance(self.context.storage, TokenFile):
            self.context.storage.set_metadata(
                self.context.oauth_metadata, self.context.protected_resource_metadata
            )


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
