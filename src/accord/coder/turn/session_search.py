"""Finds what `web_search` asks in a session. Imported on first use: only if the config switches search on."""

import os
from typing import TYPE_CHECKING

from accord.coder.models.agent_as_model import ACP
from accord.coder.models.model import RequestUsage
from accord.coder.models.model_name import REHEARSAL
from accord.coder.models.remote_model import RemoteModel
from accord.coder.tools.search_services import ApiSearch, SearchService, choose_search
from accord.errors import AccordError
from accord.frontend.web_client import WebAccess

if TYPE_CHECKING:
    from accord.coder.turn.session_runtime import SessionRuntime


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
        resolved = await resources.models.resolve(model)
        assert isinstance(resolved, RemoteModel)
    except AccordError as error:
        return None, str(error)

    def on_usage(usage: RequestUsage) -> None:
        runtime.turn_usage.add(usage)
        session.add_usage(usage)

    return await resolved.web_search(on_usage), ""
