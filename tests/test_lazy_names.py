"""Modules that asyncio gets only when it uses them. Each check runs in a process without asyncio."""

import subprocess
import sys

START = "import sys; from accord import lazy_names; sys.modules['accord.lazy_names'].import_asyncio()\n"


def output(code: str) -> str:
    run = subprocess.run([sys.executable, "-c", START + code], capture_output=True, text=True, check=True)
    return run.stdout.strip()


def test_rarely_used_modules_are_not_loaded_with_asyncio() -> None:
    names = ("ssl", "inspect", "asyncio.sslproto", "platform", "typing_extensions")
    assert output(f"print([name for name in {names} if name in sys.modules], 'msgspec' in sys.modules)") == (
        "[] True"
    )


def test_asyncio_uses_the_real_modules_when_it_needs_them() -> None:
    code = """
import asyncio, ssl
assert asyncio.base_events.ssl.SSLContext is ssl.SSLContext
assert asyncio.sslproto.SSLProtocol.__module__ == "asyncio.sslproto"
assert not hasattr(asyncio.base_events.ssl, "no_such_name")

async def main():
    server = await asyncio.start_server(print, "127.0.0.1", ssl=ssl.create_default_context())
    server.close()
    return asyncio.iscoroutinefunction(main)

print(asyncio.run(main()))
"""
    assert output(code) == "True"


def test_an_import_gives_the_module_itself() -> None:
    code = """
import inspect, platform, typing_extensions, uuid
print(inspect.__file__ is not None, inspect.isclass(int), len(str(uuid.uuid1())), bool(platform.release()))
"""
    assert output(code) == "True True 36 True"


def test_the_first_name_of_the_package_loads_asyncio_without_them() -> None:
    code = "import sys, accord; accord.Agent; print('asyncio' in sys.modules, 'ssl' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["True", "False"]
