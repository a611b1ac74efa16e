"""Model servers on this machine: detection, model lists with abilities, and the window that is loaded."""

import asyncio
import contextlib
from typing import Any

import pytest
from tests.coder.models.harness import models
from tests.patience import PATIENCE

from accord.coder.models.local_servers import LocalServer, find_local_servers, probe
from accord.coder.models.model_registry import AvailableModel, UnknownModel
from accord.testing.model_server import ModelServer

OLLAMA_MODELS = {
    "qwen3:8b": {
        "capabilities": ["completion", "tools"],
        "model_info": {"general.x": 1, "qwen3.context_length": 40960},
    },
    "llava": {"capabilities": ["completion", "vision"], "model_info": {"llama.context_length": 4096}},
    "gpt-oss:120b-cloud": {"capabilities": ["completion", "tools", "thinking"]},
    "nomic": {"capabilities": ["embedding"]},
}


def ollama(*loaded: tuple[str, int]) -> dict[str, Any]:
    return {
        "/api/version": {"version": "0.12"},
        "/api/tags": {"models": [{"model": name} for name in OLLAMA_MODELS]},
        "/api/ps": {"models": [{"model": name, "context_length": size} for name, size in loaded]},
        "/api/show": lambda body: OLLAMA_MODELS[body["model"]],
    }


LM_STUDIO = {
    "/api/v1/models": {
        "models": [
            {
                "key": "qwen/qwen3",
                "display_name": "Qwen3",
                "type": "llm",
                "max_context_length": 262144,
                "loaded_instances": [{"config": {"context_length": 32768}}],
                "capabilities": {"trained_for_tool_use": True, "vision": False},
            },
            {"key": "nomic", "type": "embedding"},
        ]
    }
}
OLD_LM_STUDIO = {
    "/api/v0/models": {"data": [{"id": "q", "type": "vlm", "max_context_length": 8192, "state": "loaded"}]}
}
LLAMA_CPP = {
    "/props": {
        "build_info": "b1",
        "default_generation_settings": {"n_ctx": 16384},
        "modalities": {"vision": True},
        "chat_template_caps": {"supports_tools": True},
    },
    "/v1/models": {"object": "list", "data": [{"id": "q.gguf"}]},
}
VLLM = {
    "/version": {"version": "1"},
    "/v1/models": {"object": "list", "data": [{"id": "q", "max_model_len": 32000}, {"id": "lora"}]},
}
DOCKER = {"/v1/models": {"object": "list", "data": [{"id": "ai/smollm2"}]}}


@pytest.mark.parametrize(
    ("name", "pages", "expected"),
    [
        (
            "ollama",
            ollama(("qwen3:8b", 8192)),
            [
                AvailableModel("qwen3:8b", "qwen3:8b", 8192, True, False, True),
                AvailableModel("llava", "llava", 4096, False, True),
                AvailableModel("gpt-oss:120b-cloud", "gpt-oss:120b-cloud", None, True, False, elsewhere=True),
            ],
        ),
        ("lmstudio", LM_STUDIO, [AvailableModel("qwen/qwen3", "Qwen3", 32768, True, False, True)]),
        ("lmstudio", OLD_LM_STUDIO, [AvailableModel("q", "q", 8192, None, True, True)]),
        ("llamacpp", LLAMA_CPP, [AvailableModel("q.gguf", "q.gguf", 16384, True, True, True)]),
        ("vllm", VLLM, [AvailableModel("q", "q", 32000), AvailableModel("lora", "lora")]),
        ("docker", DOCKER, [AvailableModel("ai/smollm2", "ai/smollm2")]),
    ],
)
async def test_models_of_a_local_server_are_listed_with_their_abilities(
    name: str, pages: dict[str, Any], expected: list[AvailableModel]
) -> None:
    async with ModelServer(pages=pages) as server:
        endpoint = models({f"{name.upper()}_BASE_URL": server.base_url()}).endpoints.get(name)
        found = await asyncio.to_thread(probe, endpoint, PATIENCE)
    assert found == LocalServer(name, server.base_url(), expected)


@pytest.mark.parametrize(
    "pages",
    [
        {"/": {}},
        {"/api/version": [], "/api/v1/models": {"models": 3}, "/props": {}, "/version": b"<html>"},
        {"/api/version": {"version": 1}, "/api/tags": {"models": [{"name": "no model"}]}},
    ],
)
async def test_other_programs_at_the_port_are_not_taken_for_a_server(pages: dict[str, Any]) -> None:
    async with ModelServer(pages=pages) as server:
        address = server.base_url()
        names = ("ollama", "lmstudio", "llamacpp", "vllm")
        registry = models({f"{name.upper()}_BASE_URL": address for name in names})
        endpoints = [registry.endpoints.get(name) for name in names]
        found = [await asyncio.to_thread(probe, endpoint, PATIENCE) for endpoint in endpoints]
        server.unexpected.clear()
    assert found == [None] * 4


async def test_only_the_loopback_address_is_searched() -> None:
    async with ModelServer(pages=ollama()) as server:
        environment = dict.fromkeys(("LMSTUDIO_BASE_URL", "LLAMACPP_BASE_URL"), "http://192.0.2.1:1/v1")
        environment |= dict.fromkeys(("VLLM_BASE_URL", "DOCKER_BASE_URL"), "http://models.example/v1")
        registry = models({**environment, "JAN_BASE_URL": "nonsense", "OLLAMA_HOST": server.base_url()})
        found = await asyncio.to_thread(find_local_servers, registry.endpoints, PATIENCE)
    assert [one.name for one in found] == ["ollama"]


async def test_a_server_alone_means_a_loaded_model_or_one_with_tools() -> None:
    async with ModelServer(pages=ollama()) as server:
        registry = models({"OLLAMA_BASE_URL": server.base_url()})
        first = await asyncio.to_thread(registry.find, "ollama")
        server.pages |= ollama(("gpt-oss:120b-cloud", 9))
        loaded = await asyncio.to_thread(registry.find, "ollama")
    assert (first.name, loaded.name) == ("qwen3:8b", "gpt-oss:120b-cloud")
    with pytest.raises(UnknownModel, match=r"ollama does not answer at http://127.0.0.1:\d+/v1; start it"):
        registry.find("ollama")


async def test_a_server_that_never_ends_its_answer_is_given_up() -> None:
    ended = asyncio.Event()

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
        while not reader.at_eof():  # until the probe disconnects
            writer.write(b" ")
            with contextlib.suppress(TimeoutError, ConnectionError):
                await asyncio.wait_for(reader.read(1000), 0.01)
        writer.close()
        ended.set()

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        endpoint = models({"LLAMACPP_BASE_URL": f"http://127.0.0.1:{port}/v1"}).endpoints.get("llamacpp")
        assert await asyncio.to_thread(probe, endpoint, 0.1) is None
        await ended.wait()


async def test_names_and_sizes_that_cannot_be_are_left_out() -> None:
    names = ["a\x1b[2Jb", "a\nb", "x" * 300, "fine"]
    pages = VLLM | {
        "/v1/models": {"object": "list", "data": [{"id": n, "max_model_len": 10**30} for n in names]}
    }
    async with ModelServer(pages=pages) as server:
        endpoint = models({"VLLM_BASE_URL": server.base_url()}).endpoints.get("vllm")
        found = await asyncio.to_thread(probe, endpoint, PATIENCE)
    assert found is not None
    assert list(found.models) == [AvailableModel("fine", "fine")]
