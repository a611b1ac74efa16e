"""Every store, held to the one contract."""

from pathlib import Path

import pytest
from tests.store.homes import HOMES, home_of
from tests.store.store_contract import CHECKS


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("kind", HOMES)
async def test_contract(kind: str, check: str, tmp_path: Path) -> None:
    with home_of(kind, tmp_path) as home:
        result = CHECKS[check](home)
        if result is not None:
            await result
