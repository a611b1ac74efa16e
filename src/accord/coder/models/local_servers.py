"""Model servers on this machine: finds them and lists their models, with context sizes and abilities.

A probe is a short GET request to the loopback address, without a key and without a proxy. What answers must
look like the server that it is taken for.
"""

import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, cast
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct

from accord.coder.models.endpoint_presets import PRESETS
from accord.coder.models.endpoints import Endpoint, Endpoints, is_loopback
from accord.coder.models.model_registry import AvailableModel
from accord.errors import UsageError
from accord.safe_text import one_line

PROBE_SECONDS: Final = 0.3
"""How long each request may take while servers are looked for. One that the user named gets more time."""
_NAMED_SECONDS: Final = 2.0
_MAX_REQUESTS_TIME: Final = 5
"""How many times longer all requests to a server may take than one."""
_MAX_BYTES: Final = 4 * 1024 * 1024
_MAX_NAME_CHARS: Final = 200
_MAX_CONTEXT: Final = 1_000_000_000
_MAX_MODELS: Final = 100
_THREADS: Final = 16

TITLES: Final[dict[str, str]] = {
    "ollama": "Ollama",
    "lmstudio": "LM Studio",
    "llamacpp": "llama.cpp",
    "vllm": "vLLM",
    "docker": "Docker Model Runner",
    "jan": "Jan",
}


class LocalServer(Struct, frozen=True):
    """A model server that answered."""

    name: str
    """The provider, as in `ollama:qwen3`."""
    base_url: str
    models: Sequence[AvailableModel]

    @property
    def first_model(self) -> AvailableModel | None:
        """The model to use when none is named: one that can call tools, preferably a loaded one."""
        usable = [model for model in self.models if model.tools is not False]
        return next((model for model in usable if model.loaded), usable[0] if usable else None)


def find_local_servers(endpoints: Endpoints, seconds: float = PROBE_SECONDS) -> list[LocalServer]:
    """Return the servers that answer on this machine. Takes well under a second."""
    candidates: list[Endpoint] = []
    for name in TITLES:
        try:
            endpoint = endpoints.get(name)
        except UsageError:  # an unusable address in a variable; using the server reports it
            continue
        if endpoint.base_url is not None and is_loopback(endpoint.base_url):
            candidates.append(endpoint)
    with ThreadPoolExecutor(len(TITLES), "accord-probe") as pool:
        found = list(pool.map(probe, candidates, [seconds] * len(candidates)))
    return [server for server in found if server is not None]


def probe(endpoint: Endpoint, seconds: float = _NAMED_SECONDS) -> LocalServer | None:
    """Return what runs at the address of a local server; None if it is not that server."""
    read = _READERS.get(endpoint.family)
    if read is None or endpoint.base_url is None:
        return None
    server = _Server(endpoint.base_url, seconds)
    try:
        models = read(server)
    except (KeyError, TypeError, ValueError, AttributeError, msgspec.MsgspecError):
        return None
    if models is None:
        return None
    usable = [model for model in models if model.name.isprintable() and len(model.name) <= _MAX_NAME_CHARS]
    return LocalServer(endpoint.name, endpoint.base_url, usable[:_MAX_MODELS])


class _Server:
    """Sends requests to one address."""

    def __init__(self, base_url: str, seconds: float) -> None:
        parts = urlsplit(base_url)
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds * _MAX_REQUESTS_TIME
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port
        self.path: str = parts.path.rstrip("/")
        """The path of the OpenAI API."""

    def get(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """Return the JSON object at a path; None if there is none. With a body it is a POST request."""
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        seconds = min(self._seconds, self._deadline - time.monotonic())
        if seconds <= 0:
            return None
        connection = kind(self._host, self._port, timeout=seconds)
        timer: threading.Timer | None = None
        try:
            connection.connect()
            # The time limit of a socket is for each read: a server may send a byte now and then for ever.
            timer = threading.Timer(seconds, _disconnect, (connection.sock,))
            timer.start()
            data = None if body is None else msgspec.json.encode(body)
            headers = {"accept": "application/json", "content-type": "application/json"}
            connection.request("GET" if body is None else "POST", path, data, headers)
            response = connection.getresponse()
            if response.status != 200:
                return None
            value: Any = msgspec.json.decode(response.read(_MAX_BYTES))
        except (OSError, http.client.HTTPException, msgspec.MsgspecError, UnicodeError, RecursionError):
            return None
        finally:
            if timer is not None:
                timer.cancel()
            connection.close()
        return cast(dict[str, Any], value) if isinstance(value, dict) else None


def _disconnect(connected: socket.socket) -> None:
    with suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)


def _read_ollama(server: _Server) -> list[AvailableModel] | None:
    if "version" not in (server.get("/api/version") or {}):
        return None
    running = _objects((server.get("/api/ps") or {}).get("models"))
    loaded = {str(model.get("model")): _size(model.get("context_length")) for model in running}
    names = [str(model["model"]) for model in _objects((server.get("/api/tags") or {}).get("models"))]

    def read_model(name: str) -> AvailableModel | None:
        details = server.get("/api/show", {"model": name}) or {}
        abilities = details.get("capabilities")
        if isinstance(abilities, list) and "completion" not in abilities:
            return None  # an embedding model
        info = cast(dict[str, Any], details.get("model_info") or {})
        largest = next((size for key, size in info.items() if key.endswith(".context_length")), None)
        return AvailableModel(
            name,
            name,
            loaded.get(name) or _size(largest),
            tools="tools" in abilities if isinstance(abilities, list) else None,
            images="vision" in abilities if isinstance(abilities, list) else None,
            loaded=name in loaded,
            elsewhere=name.endswith("-cloud"),
        )

    return _each(read_model, names[:_MAX_MODELS])


def _read_lm_studio(server: _Server) -> list[AvailableModel] | None:
    response = server.get("/api/v1/models")
    if response is None or not isinstance(response.get("models"), list):
        return _read_old_lm_studio(server)
    models: list[AvailableModel] = []
    for entry in _objects(response["models"]):
        if "key" not in entry or entry.get("type", "llm") != "llm":
            continue
        abilities = cast(dict[str, Any], entry.get("capabilities") or {})
        instances = _objects(entry.get("loaded_instances"))
        configs = _objects([instance.get("config") for instance in instances])
        sizes = [_size(config.get("context_length")) for config in configs]
        models.append(
            AvailableModel(
                str(entry["key"]),
                one_line(str(entry.get("display_name") or entry["key"]), _MAX_NAME_CHARS),
                next((size for size in sizes if size), None) or _size(entry.get("max_context_length")),
                tools=abilities.get("trained_for_tool_use"),
                images=abilities.get("vision"),
                loaded=bool(instances),
            )
        )
    return models


def _read_old_lm_studio(server: _Server) -> list[AvailableModel] | None:
    response = server.get("/api/v0/models")
    if response is None:
        return None
    entries = [entry for entry in _objects(response["data"]) if entry.get("type") in ("llm", "vlm")]
    if not entries:
        return None  # other servers may have a list at this path, without types
    return [
        AvailableModel(
            str(entry["id"]),
            str(entry["id"]),
            _size(entry.get("loaded_context_length")) or _size(entry.get("max_context_length")),
            images=entry["type"] == "vlm",
            loaded=entry.get("state") == "loaded",
        )
        for entry in entries
    ]


def _read_llama_cpp(server: _Server) -> list[AvailableModel] | None:
    facts = server.get("/props")
    if facts is None or "build_info" not in facts:
        return None
    names = [str(entry["id"]) for entry in _objects((server.get(f"{server.path}/models") or {}).get("data"))]

    def read_model(name: str) -> AvailableModel:
        # `autoload=false`: a server with several models must not load one because of this request.
        own = facts if len(names) == 1 else server.get(f"/props?model={quote(name)}&autoload=false") or {}
        settings = cast(dict[str, Any], own.get("default_generation_settings") or {})
        template = cast(dict[str, Any], own.get("chat_template_caps") or {})
        return AvailableModel(
            name,
            name,
            _size(settings.get("n_ctx")),
            tools=template.get("supports_tools"),
            images=cast(dict[str, Any], own.get("modalities") or {}).get("vision"),
            loaded=len(names) == 1,
        )

    return _each(read_model, names[:_MAX_MODELS])


def _read_vllm(server: _Server) -> list[AvailableModel] | None:
    if "version" not in (server.get("/version") or {}):
        return None
    return _read_openai(server)


def _read_openai(server: _Server) -> list[AvailableModel] | None:
    response = server.get(f"{server.path}/models")
    if response is None or response.get("object") != "list":
        return None
    return [
        AvailableModel(str(entry["id"]), str(entry["id"]), _size(entry.get("max_model_len")))
        for entry in _objects(response["data"])
    ]


_READERS: Final[dict[str, Callable[[_Server], list[AvailableModel] | None]]] = {
    "ollama": _read_ollama,
    "lmstudio": _read_lm_studio,
    "llamacpp": _read_llama_cpp,
    "vllm": _read_vllm,
    "docker": _read_openai,
    "jan": _read_openai,
}
assert _READERS.keys() == {name for name, preset in PRESETS.items() if preset.local} == TITLES.keys()


def _each(read: Callable[[str], AvailableModel | None], names: Iterable[str]) -> list[AvailableModel]:
    with ThreadPoolExecutor(_THREADS, "accord-probe") as pool:
        return [model for model in pool.map(read, names) if model is not None]


def _objects(value: Any) -> list[dict[str, Any]]:
    entries = cast(list[Any], value) if isinstance(value, list) else []
    return [cast(dict[str, Any], entry) for entry in entries if isinstance(entry, dict)]


def _size(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 < value <= _MAX_CONTEXT else None
