"""Asking a server which models it has."""

import re
from collections.abc import Iterator
from typing import Any, Final, cast

import httpx2

from accord.coder.models.endpoints import Endpoint
from accord.coder.models.live.failing import one_line
from accord.coder.models.model import ModelError
from accord.coder.models.offers import Offer

_ADDRESSES: Final = {
    "openai-chat": "https://api.openai.com/v1",
    "openai-responses": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "google": "https://generativelanguage.googleapis.com",
}
_PATHS: Final = {
    "openai-chat": "/models",
    "openai-responses": "/models",
    "anthropic": "/v1/models?limit=1000",
    "google": "/v1beta/models?pageSize=1000",
}
_NO_TALKERS: Final = re.compile(
    r"embedding|tts|whisper|dall-e|image|audio|realtime|moderation|transcribe|davinci|babbage|sora|instruct"
)
"""OpenAI's list has everything it serves; these do not hold conversations."""


async def ask_for_models(endpoint: Endpoint, http: httpx2.AsyncClient) -> list[Offer]:
    """The models of the server, as it lists them. Raises ModelError."""
    address = (endpoint.base_url or _ADDRESSES[endpoint.kind]).rstrip("/") + _PATHS[endpoint.kind]
    failure: str
    try:
        response = await http.get(address, headers=_headers(endpoint), follow_redirects=False)
        if response.status_code == 200:
            offers = list(dict.fromkeys(_offers(endpoint, response.json())))
            return sorted(offers, key=lambda offer: offer.name) if endpoint.is_own else offers
        failure = f"status {response.status_code}"
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        failure = type(error).__name__
    except (ValueError, TypeError, AttributeError, KeyError):
        failure = "the list is unreadable"
    raise ModelError("network", one_line(f"{endpoint.name}: no list of models: {failure}", endpoint.key))


def _headers(endpoint: Endpoint) -> dict[str, str]:
    headers = {"accept": "application/json"}
    if endpoint.kind == "anthropic":
        headers["anthropic-version"] = "2023-06-01"
    if endpoint.key is None:
        return headers
    name = {"anthropic": "x-api-key", "google": "x-goog-api-key"}.get(endpoint.kind)
    key = endpoint.key.reveal()
    return {**headers, name: key} if name else {**headers, "authorization": f"Bearer {key}"}


def _offers(endpoint: Endpoint, listed: Any) -> Iterator[Offer]:
    entries = cast(list[dict[str, Any]], listed["models"] if endpoint.kind == "google" else listed["data"])
    for entry in entries:
        if endpoint.kind == "google":
            if "generateContent" not in entry.get("supportedGenerationMethods", ()):
                continue
            name = str(entry["name"]).removeprefix("models/")
        else:
            name = str(entry["id"])
            if endpoint.is_own and endpoint.kind != "anthropic" and _NO_TALKERS.search(name):
                continue
        title = entry.get("display_name") or entry.get("displayName")
        yield Offer(name, str(title) if title else name, _context(entry))


def _context(entry: dict[str, Any]) -> int | None:
    """The size of the context, under the names that servers have for it."""
    for key in ("inputTokenLimit", "max_input_tokens", "context_length", "max_model_len"):
        value = entry.get(key)
        if isinstance(value, int) and value > 0:
            return value
    return None
