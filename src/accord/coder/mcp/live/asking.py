"""What servers ask us: the user's word by a form or a page, and the folders of the session. In doubt, the answer is no."""

import logging
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

from mcp.client import ClientRequestContext
from mcp_types import (
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    ListRootsResult,
    Root,
)
from pydantic import FileUrl

from accord.agent.elicitation import looks_secret
from accord.coder.mcp.cleaning import clean, clean_line, clean_schema
from accord.coder.mcp.terms import Terms

_LOG: Final = logging.getLogger("accord.coder.mcp")
_LONGEST_QUESTION: Final = 2000
_LONGEST_URL: Final = 2000
_MOST_FIELDS: Final = 50
_FIELDS: Final = frozenset(("string", "number", "integer", "boolean", "array"))
_NO: Final = ElicitResult(action="decline")


class Asking:
    """Takes the questions of one server to the session."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self.open = 0
        """Questions that the user has before them."""

    async def elicit(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        """The user's answer to a question of the server."""
        return await self.answer(params)

    async def answer(self, params: ElicitRequestParams) -> ElicitResult:
        """The same, whatever it came with."""
        message = f"{self._terms.name} asks: {clean(params.message, _LONGEST_QUESTION)}"
        self.open += 1
        try:
            if isinstance(params, ElicitRequestFormParams):
                return await self._form(message, params)
            return await self._page(message, params)
        except Exception as error:  # noqa: BLE001  (whatever the session's side does wrong, the server gets a no)
            _LOG.error("a question of %s could not be asked (%s)", self._terms.name, type(error).__name__)
            return _NO
        finally:
            self.open -= 1

    async def _form(self, message: str, params: ElicitRequestFormParams) -> ElicitResult:
        schema = clean_schema(params.requested_schema, _LONGEST_QUESTION)
        refused = why_not(schema, params.message)
        if refused is not None:
            _LOG.warning("a form of %s was declined unseen: %s", self._terms.name, refused)
            return _NO
        action, content = await self._terms.hooks.elicit_form(message, schema)
        if action == "accept" and isinstance(content, dict):
            return ElicitResult(action="accept", content=content)
        return ElicitResult(action="cancel") if action == "cancel" else _NO

    async def _page(self, message: str, params: ElicitRequestURLParams) -> ElicitResult:
        if not is_openable(params.url):
            _LOG.warning("%s wanted an address opened that is none; declined", self._terms.name)
            return _NO
        action = await self._terms.hooks.elicit_url(message, params.url)
        return ElicitResult(action=action) if action in ("accept", "cancel") else _NO

    async def roots(self, context: ClientRequestContext) -> ListRootsResult:
        """The folders of the session."""
        return ListRootsResult(
            roots=[
                Root(uri=FileUrl(Path(root).as_uri()), name=clean_line(Path(root).name, 100) or None)
                for root in self._terms.roots
            ]
        )


def why_not(schema: dict[str, Any], message: str) -> str | None:
    """Why a form is not shown, if it is not: it is no flat form, or it asks for a secret."""
    fields = cast(dict[str, Any], schema["properties"])
    if len(fields) > _MOST_FIELDS:
        return "it has too many fields"
    for name, described in fields.items():
        field = cast(dict[str, Any], described) if isinstance(described, dict) else {}
        if field.get("type") not in _FIELDS:
            return "it is no flat form"
        if field["type"] != "string" or "enum" in field or "oneOf" in field:
            continue
        hints = (name, field.get("title"), field.get("description"), message)
        if field.get("format") == "password" or looks_secret(*hints):
            return "it asks for a secret"
    return None


def is_openable(url: str) -> bool:
    """Whether a user may be sent there: https, or this machine, without a password in it."""
    if len(url) > _LONGEST_URL or not url.isascii() or not url.isprintable():
        return False
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    local = host in ("localhost", "127.0.0.1", "::1")
    return (
        bool(host) and not parts.password and (parts.scheme == "https" or (parts.scheme == "http" and local))
    )
