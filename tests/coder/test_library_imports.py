"""Heavy libraries are imported only when needed, and without blocking. Threads import safely."""

import ast
import asyncio
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE

import accord
from accord.coder.library_imports import preload_provider_in_background, provider_loaded

HEAVY = ("pydantic", "pydantic_ai", "openai", "anthropic", "google", "httpx2", "platformdirs")


def run(code: str, **environment: str) -> list[Any]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={"PATH": os.environ["PATH"], "ACCORD_HOME": "/nowhere", **environment},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_choosing_and_resolving_models_imports_nothing_heavy() -> None:
    modules = run(
        """
        import asyncio, json, sys
        from accord.coder.model_history import user_message
        from accord.coder.models import ModelRequest, ModelRegistry

        async def main():
            models = ModelRegistry()
            assert models.choose("anthropic").missing_key
            await models.resolve(models.find("openai:gpt-5"))
            rehearsal = await models.resolve(models.find("rehearsal"))
            assert [event async for event in rehearsal.stream(ModelRequest("", [user_message("hi")]))]

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
        from accord.coder.library_imports import IMPORT_LOCK, provider_loaded, preload_provider_in_background

        async def main():
            with IMPORT_LOCK:  # the thread waits for it
                preload_provider_in_background("openai-chat")
                before = "httpx2" in sys.modules
            await provider_loaded("openai-chat")
            print(json.dumps([before, "httpx2" in sys.modules]))

        asyncio.run(main())
        preload_provider_in_background("anthropic")
        """
    )
    assert (before, after) == (False, True)


def test_missing_library_is_named_with_the_install_command() -> None:
    (line,) = run(
        """
        import asyncio, json, sys
        sys.modules["httpx2"] = None
        from accord.coder.models import ModelError, ModelRegistry, ModelRequest
        from accord.coder.model_history import user_message

        async def main():
            models = ModelRegistry()
            model = await models.resolve(models.find("openai:gpt-5"))
            try:
                async for _ in model.stream(ModelRequest("", [user_message("hi")])):
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


# Imports in threads. A thread waits for a module that another thread imports. If two threads wait for each
# other, Python gives one of them a module that is only partly loaded, and its import fails.


def test_session_and_preload_thread_import_mcp_at_the_same_time() -> None:
    """The preload thread is paused in the package until the session waits for a module it is importing."""
    failures = run(
        """
        import importlib, json, sys, threading, time
        from _frozen_importlib import _blocking_on

        failures, entered = [], threading.Event()

        def load(module):
            try:
                importlib.import_module(module)
            except Exception as error:
                failures.append(f"{module}: {error!r}")
            entered.set()

        def pause(event, args):
            if event != "import" or not args[0].startswith("accord.coder.mcp."):
                return
            if threading.current_thread() is session:
                entered.wait()
            elif args[0] == "accord.coder.mcp.host":
                entered.set()
                while session.is_alive() and session.ident not in _blocking_on:
                    time.sleep(0.01)

        preload = threading.Thread(target=load, args=["accord.coder.turn.session_runtime"])
        session = threading.Thread(target=load, args=["accord.coder.mcp.host"])
        importlib.import_module("accord.coder.session.session_lifecycle")
        sys.addaudithook(pause)
        for thread in (preload, session):
            thread.start()
        for thread in (preload, session):
            thread.join()
        print(json.dumps(failures))
        """
    )
    assert failures == []


def test_modules_that_threads_import_have_no_import_cycle() -> None:
    """A module imports its package too. What is loaded with `session_lifecycle` is not checked: every handler
    imports that first.
    """
    loaded = run(
        """
        import json, sys
        import accord.coder.coding_agent, accord.coder.session.session_lifecycle
        print(json.dumps(sorted(sys.modules)))
        """
    )
    root = Path(accord.__file__).parent
    files = {_module_name(file, root): file for file in root.rglob("*.py")}
    remaining = [name for name in files if name.startswith("accord.coder.")]
    graph: dict[str, set[str]] = {}
    while remaining:
        name = remaining.pop()
        if name in files and name not in graph and name not in loaded:
            graph[name] = {name.rpartition(".")[0], *_imports(ast.parse(files[name].read_text("utf-8")).body)}
            graph[name] -= set(loaded)
            remaining += graph[name]
    assert "accord.policy.shell.syntax" in graph
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules


def _module_name(file: Path, root: Path) -> str:
    parts = file.relative_to(root.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(body: Sequence[ast.stmt]) -> Iterator[str]:
    """The modules that a module imports while it is loaded."""
    for statement in body:
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.module is not None:
            yield statement.module
            yield from (f"{statement.module}.{alias.name}" for alias in statement.names)
        elif isinstance(statement, ast.If):
            yield from _imports(statement.orelse)
            if ast.unparse(statement.test) != "TYPE_CHECKING":
                yield from _imports(statement.body)
        elif isinstance(statement, ast.Try | ast.With | ast.ClassDef):
            yield from _imports(statement.body)
