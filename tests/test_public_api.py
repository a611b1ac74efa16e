"""The names people import, and what importing them costs."""

import subprocess
import sys

import pytest

import accord
import accord.testing


@pytest.mark.parametrize("module", [accord, accord.testing], ids=lambda module: module.__name__)
def test_every_public_name_can_be_had(module: object) -> None:
    for name in module.__all__:  # type: ignore[attr-defined]
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        module.no_such_name  # type: ignore[attr-defined]  # noqa: B018


def loaded_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_importing_accord_imports_none_of_its_rooms() -> None:
    assert not {name for name in loaded_after("import accord") if name.startswith("accord.")}


def test_an_agent_never_loads_the_client_or_anything_heavy() -> None:
    loaded = loaded_after("import accord\naccord.Agent('x', version='1')")
    rooms = {".".join(name.split(".")[:2]) for name in loaded if name.startswith("accord.")}
    assert not rooms & {"accord.client", "accord.testing", "accord.cli"}
    assert not loaded & {
        "pydantic",
        "pydantic_ai",
        "mcp",
        "httpx",
        "httpx2",
        "starlette",
        "textual",
        "platformdirs",
    }
