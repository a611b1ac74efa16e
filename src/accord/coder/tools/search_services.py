"""The search services of `web_search`: Brave, Tavily, Exa and SearXNG, and the choice of one.

Each needs one request. A key goes to its service and nowhere else: redirects are not followed.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, cast
from urllib.parse import quote_plus, urlsplit

import msgspec

from accord.coder.models.agent_as_model import ACP
from accord.coder.models.credentials import Secret, find_key, key_variables
from accord.coder.models.endpoints import Endpoint
from accord.coder.models.model import RequestUsage
from accord.coder.models.model_name import REHEARSAL
from accord.coder.tools.tool import ToolFailure
from accord.coder.user_config import WebConfig, address_error
from accord.errors import AccordError
from accord.frontend.web_client import WebAccess, WebPage, call_api, parse_url
from accord.safe_text import one_line

if TYPE_CHECKING:
    from accord.coder.turn.session_runtime import SessionRuntime


_MAX_BYTES: Final = 2 * 1024 * 1024
_MAX_RESULTS: Final = 100
_TEXT_CHARS: Final = 2000
_ERROR_CHARS: Final = 300


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """What to look for."""

    text: str
    count: int = 8
    domains: tuple[str, ...] = ()
    """Host names; results of other sites are not wanted."""

    @property
    def text_with_sites(self) -> str:
        """The query for services that take sites only as words."""
        sites = " OR ".join(f"site:{domain}" for domain in self.domains)
        return f"{self.text} {sites}".strip()


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One page that was found. All of it is foreign text."""

    title: str
    url: str
    text: str = ""
    site: str = ""
    """The host of the page, if the address only leads to it."""


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """What a service answers."""

    results: tuple[SearchResult, ...]
    summary: str = ""
    """An answer that the service wrote from the results."""


class SearchService(Protocol):
    """What `web_search` asks: a service of this module, or the search of the model's provider."""

    @property
    def name(self) -> str:
        """The name, for the user."""
        ...

    @property
    def address(self) -> str:
        """The address to which the query goes, for the permission."""
        ...

    @property
    def cost_note(self) -> str:
        """What a search costs, in one sentence."""
        ...

    async def search(self, query: SearchQuery) -> SearchAnswer:
        """Raises AccordError; its message never shows the key."""
        ...


@dataclass(frozen=True, slots=True)
class _ApiFormat:
    """The form of requests and responses of one service."""

    title: str
    official_address: str | None
    path: str
    key_header: Callable[[str], dict[str, str]]
    query: Callable[[SearchQuery], str]
    """The query of the address; empty for a POST."""
    body: Callable[[SearchQuery], dict[str, Any]]
    """The JSON of a POST; empty for a GET."""
    results: tuple[str, ...]
    """The members that lead to the list of results."""
    text: tuple[str, ...]
    """The members of a result that may have its text, best first."""
    cost_note: str


def _no_body(query: SearchQuery) -> dict[str, Any]:
    return {}


def _no_query(query: SearchQuery) -> str:
    return ""


def _tavily_body(query: SearchQuery) -> dict[str, Any]:
    body: dict[str, Any] = {"query": query.text, "max_results": query.count, "search_depth": "basic"}
    return {**body, "include_domains": list(query.domains)} if query.domains else body


def _exa_body(query: SearchQuery) -> dict[str, Any]:
    body: dict[str, Any] = {
        "query": query.text,
        "numResults": query.count,
        "contents": {"text": {"maxCharacters": _TEXT_CHARS}},
    }
    return {**body, "includeDomains": list(query.domains)} if query.domains else body


_PAID: Final = "It may bill each search."
_FORMATS: Final = {
    "brave": _ApiFormat(
        title="Brave Search",
        official_address="https://api.search.brave.com",
        path="/res/v1/web/search",
        key_header=lambda key: {"X-Subscription-Token": key},
        query=lambda query: f"q={quote_plus(query.text_with_sites)}&count={query.count}",
        body=_no_body,
        results=("web", "results"),
        text=("description",),
        cost_note=_PAID,
    ),
    "tavily": _ApiFormat(
        title="Tavily",
        official_address="https://api.tavily.com",
        path="/search",
        key_header=lambda key: {"Authorization": f"Bearer {key}"},
        query=_no_query,
        body=_tavily_body,
        results=("results",),
        text=("content",),
        cost_note=_PAID,
    ),
    "exa": _ApiFormat(
        title="Exa",
        official_address="https://api.exa.ai",
        path="/search",
        key_header=lambda key: {"x-api-key": key},
        query=_no_query,
        body=_exa_body,
        results=("results",),
        text=("summary", "text"),
        cost_note=_PAID,
    ),
    "searxng": _ApiFormat(
        title="SearXNG",
        official_address=None,
        path="/search",
        key_header=lambda key: {"Authorization": f"Bearer {key}"},
        query=lambda query: f"q={quote_plus(query.text_with_sites)}&format=json",
        body=_no_body,
        results=("results",),
        text=("content",),
        cost_note="",
    ),
}
SEARCH_SERVICES: Final = tuple(_FORMATS)
"""In the order in which `auto` looks for a key."""
SEARXNG_VARIABLE: Final = "SEARXNG_URL"


class ApiSearch:
    """One of the services, at its address and with its key."""

    def __init__(self, service: str, address: str, key: Secret | None, access: WebAccess) -> None:
        """The address is the service's own or one that the user gave: such a host may be a private one."""
        self._format = _FORMATS[service]
        self._key = key
        self.address: str = address.rstrip("/")
        if self.address != self._format.official_address:
            host = urlsplit(address).hostname or ""
            access = replace(access, allowed=(*access.allowed, host))
        self._access = access

    @property
    def name(self) -> str:
        if self.address == self._format.official_address:
            return self._format.title
        return f"{self._format.title} at {self.address}"

    @property
    def cost_note(self) -> str:
        return self._format.cost_note

    async def search(self, query: SearchQuery) -> SearchAnswer:
        form = self._format
        target = f"{self.address}{form.path}"
        if words := form.query(query):
            target = f"{target}?{words}"
        headers = {"Accept": "application/json"}
        if self._key is not None:
            headers |= form.key_header(self._key.reveal())
        body = form.body(query)
        if body:
            headers["Content-Type"] = "application/json"
        data = msgspec.json.encode(body) if body else b""
        page = await call_api(parse_url(target), self._access, headers, data, limit=_MAX_BYTES)
        return self._read(page)

    def _read(self, page: WebPage) -> SearchAnswer:
        """Raises ToolFailure."""
        if not 200 <= page.head.status < 300:
            raise ToolFailure(f"{self.name} answered {page.head.status}{self._explanation(page)}")
        try:
            value: Any = msgspec.json.decode(page.data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            size = "" if page.complete else f", only the first {len(page.data):,} bytes of it"
            raise ToolFailure(f"{self.name} sent an answer that cannot be read{size}") from None
        results: Any = value
        for member in self._format.results:
            results = cast(dict[str, Any], results).get(member) if isinstance(results, dict) else None
        entries = cast(list[Any], results)[:_MAX_RESULTS] if isinstance(results, list) else []
        found = [self._result(cast(dict[str, Any], one)) for one in entries if isinstance(one, dict)]
        return SearchAnswer(tuple(one for one in found if one.url))

    def _result(self, entry: dict[str, Any]) -> SearchResult:
        texts = (entry.get(name) for name in self._format.text)
        text = next((text for text in texts if isinstance(text, str) and text.strip()), "")
        title, url = entry.get("title"), entry.get("url")
        return SearchResult(
            _without_tags(title) if isinstance(title, str) else "",
            url if isinstance(url, str) else "",
            _without_tags(text[:_TEXT_CHARS]),
        )

    def _explanation(self, page: WebPage) -> str:
        """What to do about an error, and what the service says, without the key."""
        if page.head.status == 403 and self._format is _FORMATS["searxng"]:
            return ": add `json` to `search.formats` in its settings.yml"
        if page.head.status in (301, 302, 303, 307, 308):
            return ": it redirects; set `search_url` to the final address"
        from accord.coder.models.provider_errors import failure_of_body

        text = failure_of_body(page.head.status, page.data[:_TEXT_CHARS], {}).text
        text = self._key.redact(text) if self._key is not None else text
        advice = "; check the key" if page.head.status in (401, 403) else ""
        return f"{': ' if text else ''}{one_line(text, _ERROR_CHARS)}{advice}"


_TAG: Final = re.compile(r"</?(?:strong|em|b|mark)>")


def _without_tags(text: str) -> str:
    """The text without the marks around the words that match."""
    from html import unescape

    return unescape(_TAG.sub("", text))


@dataclass(frozen=True, slots=True)
class SearchChoice:
    """The search that the settings and the keys give."""

    service: str | None
    """`provider` or a service of this module; None if there is none."""
    reason: str
    """Where the key or address comes from, or what is missing."""
    address: str = ""
    key: Secret | None = None


_NOTHING: Final = (
    "the provider of the model has no search of its own, and there is no BRAVE_API_KEY, TAVILY_API_KEY, "
    "EXA_API_KEY or SEARXNG_URL"
)


def choose_search(
    web: WebConfig, endpoint: Endpoint | None, environment: Mapping[str, str], keys: Path | None = None
) -> SearchChoice:
    """Choose the search. `endpoint` is the server of the model; None if it is no provider's.

    `auto` uses the search of a provider only at its official address. Raises CredentialsError.
    """
    if web.search == "off":
        return SearchChoice(None, "switched off")
    if web.search in _FORMATS:
        return _service(web.search, web, environment, keys)
    can_search = endpoint is not None and has_search(endpoint)
    if endpoint is not None and can_search and (web.search == "provider" or endpoint.is_official):
        return SearchChoice("provider", f"the search of {endpoint.name}, billed by it")
    if web.search == "provider":
        return SearchChoice(None, "the provider of the model has no search that Accord knows")
    for service in SEARCH_SERVICES:
        choice = _service(service, web if service == "searxng" else WebConfig(), environment, keys)
        if choice.service is not None:
            return choice
    return SearchChoice(None, _NOTHING)


def has_search(endpoint: Endpoint) -> bool:
    """Whether a server can search by itself, as far as its API tells. Claude at other clouds cannot."""
    if endpoint.kind == "anthropic":
        return endpoint.family not in ("vertex", "bedrock")
    return endpoint.kind in ("openai-responses", "google")


def _service(service: str, web: WebConfig, environment: Mapping[str, str], keys: Path | None) -> SearchChoice:
    form = _FORMATS[service]
    key = find_key(service, environment, keys)
    if form.official_address is None:
        address = web.search_url or environment.get(SEARXNG_VARIABLE, "").strip()
        if not address:
            return SearchChoice(
                None, f"{form.title} needs an address: set {SEARXNG_VARIABLE} or `search_url`"
            )
        if fault := address_error(address):
            return SearchChoice(None, f"{SEARXNG_VARIABLE}: {fault}")
        return SearchChoice(service, f"{form.title} at {address}", address, key)
    variable = key_variables(service)[0]
    if key is None:
        return SearchChoice(None, f"{form.title} has no key: set {variable}")
    source = variable if environment.get(variable, "").strip() else "credentials.json"
    address = web.search_url or form.official_address
    return SearchChoice(service, f"{form.title}, key from {source}", address, key)


async def session_search(runtime: "SessionRuntime") -> tuple[SearchService | None, str]:
    """The search of the session's model and settings, and why there is none."""
    session = runtime.session
    resources, web = session.resources, session.resources.config.web
    environment = os.environ if resources.options.environment is None else resources.options.environment
    model = session.model
    is_remote = model.provider not in (REHEARSAL, ACP) and resources.options.resolver is None
    try:
        endpoint = resources.models.endpoints.get(model.provider, model.name) if is_remote else None
        choice = choose_search(web, endpoint, environment)
        if choice.service is None:
            return None, choice.reason
        if choice.service != "provider":
            access = WebAccess(allowed=web.allowed)
            return ApiSearch(choice.service, choice.address, choice.key, access), ""
        from accord.coder.models.remote_model import RemoteModel

        resolved = await resources.models.resolve(model)
        assert isinstance(resolved, RemoteModel)
    except AccordError as error:
        return None, str(error)

    def on_usage(usage: RequestUsage) -> None:
        runtime.turn_usage.add(usage)
        session.add_usage(usage)

    return await resolved.web_search(on_usage), ""
