"""The heavy provider libraries are imported only when needed, and without blocking."""

import asyncio
import json
import os
import subprocess
import sys
import textwrap
from typing import Any

import pytest

from accord.coder.library_imports import preload_provider_in_background, provider_loaded

HEAVY = ("pydantic", "pydantic_ai", "openai", "anthropic", "google", "httpx2", "platformdirs")


def run(code: str, **environment: str) -> list[Any]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        env={"PATH": os.environ["PATH"], "ACCORD_HOME": "/nowhere", **environment},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_choosing_and_resolving_models_imports_nothing_heavy() -> None:
    modules = run(
        """
        import asyncio, json, sys
        from accord.coder.model_history import user
        from accord.coder.models import ModelRequest, ModelRegistry

        async def main():
            models = ModelRegistry()
            assert models.choose("anthropic").missing_key
            await models.resolve(models.find("openai:gpt-5"))
            rehearsal = await models.resolve(models.find("rehearsal"))
            assert [event async for event in rehearsal.stream(ModelRequest("", [user("hi")]))]

        asyncio.run(main())
        print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
        """,
        OPENAI_API_KEY="k",
    )
    assert not set(HEAVY) & set(modules)


def test_preload_runs_in_the_background_and_does_not_block_exit() -> None:
    before, after = run(
        """
        import asyncio, json, sys
        from accord.coder.library_imports import provider_loaded, preload_provider_in_background

        async def main():
            preload_provider_in_background("openai-chat")
            before = "pydantic_ai.models.openai" in sys.modules
            await provider_loaded("openai-chat")
            print(json.dumps([before, "pydantic_ai.models.openai" in sys.modules]))

        asyncio.run(main())
        preload_provider_in_background("anthropic")
        """
    )
    assert (before, after) == (False, True)


def test_missing_library_is_named_with_the_install_command() -> None:
    (line,) = run(
        """
        import asyncio, json, sys
        sys.modules["pydantic_ai"] = None
        from accord.coder.models import ModelError, ModelRegistry, ModelRequest
        from accord.coder.model_history import user

        async def main():
            models = ModelRegistry()
            model = await models.resolve(models.find("openai:gpt-5"))
            try:
                async for _ in model.stream(ModelRequest("", [user("hi")])):
                    pass
            except ModelError as error:
                print(json.dumps([str(error)]))
            await models.aclose()

        asyncio.run(main())
        """,
        OPENAI_API_KEY="k",
    )
    assert "pip install 'accord[agent]'" in line


async def test_concurrent_callers_wait_for_the_same_import() -> None:
    preload_provider_in_background("openai-chat")
    await asyncio.gather(*(provider_loaded("openai-chat") for _ in range(5)))


@pytest.mark.parametrize("kind", ["openai-chat", "openai-responses", "anthropic", "google"])
async def test_warm_up_answer_is_understood_by_the_libraries(kind: str) -> None:
    from accord.coder.models.provider_connection import send_warm_up_request

    await send_warm_up_request(kind)  # type: ignore[arg-type]
