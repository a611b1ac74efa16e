"""`accord doctor --online`: tests the key and the address of each model provider with a request.

Imported on first use: it loads the provider code.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from accord.cli.doctor_command import BROKEN, DoctorFinding
from accord.coder.library_imports import provider_loaded
from accord.coder.models import ModelError, ModelRegistry
from accord.errors import MissingExtra
from accord.text_width import count_text

_SECONDS: Final = 15.0


def check_providers(findings: Sequence[DoctorFinding], models: ModelRegistry) -> list[DoctorFinding]:
    """Return the findings about the providers, with the result of a request to each that is ready."""
    return asyncio.run(_test_all(findings, models))


async def _test_all(findings: Sequence[DoctorFinding], models: ModelRegistry) -> list[DoctorFinding]:
    try:
        return list(await asyncio.gather(*(_test(finding, models) for finding in findings)))
    finally:
        await models.aclose()


async def _test(finding: DoctorFinding, models: ModelRegistry) -> DoctorFinding:
    endpoint = models.endpoints.get(finding.name)
    if not endpoint.ready:
        return finding
    try:
        await provider_loaded(endpoint.kind)
        async with asyncio.timeout(_SECONDS):
            count = await models.count_models(endpoint)
    except MissingExtra as error:
        return DoctorFinding(finding.name, "missing", str(error))
    except TimeoutError:
        return DoctorFinding(finding.name, BROKEN, f"no answer within {_SECONDS:g} s; {finding.remark}")
    except ModelError as error:
        problem = str(error).removeprefix(f"{endpoint.name}: ")
        return DoctorFinding(finding.name, BROKEN, f"{problem}; {finding.remark}")
    if count is None:
        return DoctorFinding(finding.name, "answers", f"it lists no models; {finding.remark}")
    return DoctorFinding(finding.name, "works", f"{count_text(count, 'model')}; {finding.remark}")
