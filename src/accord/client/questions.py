"""The open permission questions of one session: asked side by side, answered once each, dismissed together."""

import asyncio
import inspect
from collections.abc import Awaitable
from itertools import count
from typing import TYPE_CHECKING

from accord.client.permissions import Decision, PermissionRequest, answer, chosen
from accord.schema import PermissionOption, RequestPermissionRequest, RequestPermissionResponse
from accord.session import PermissionAnswered, PermissionAsked, ToolCallState
from accord.session.v1 import permission_asked

if TYPE_CHECKING:
    from accord.client.session import ClientSession


class OpenQuestions:
    """Asks the client's handler. Whatever goes wrong with that is a no."""

    def __init__(self, session: "ClientSession") -> None:
        self._session = session
        self._numbers = count(1)
        self._dismissals: set[asyncio.Future[None]] = set()

    def __len__(self) -> int:
        return len(self._dismissals)

    def dismiss(self) -> None:
        """Answer every open question as cancelled, at once, whatever its handler does."""
        for dismissal in self._dismissals:
            if not dismissal.done():
                dismissal.set_result(None)

    async def ask(self, sent: RequestPermissionRequest) -> RequestPermissionResponse:
        """One request of the agent."""
        session = self._session
        permission_id = str(next(self._numbers))
        asked = session.publish(permission_asked(permission_id, sent))
        call = asked.call if isinstance(asked, PermissionAsked) else None
        request = PermissionRequest(session, call or ToolCallState(sent.tool_call.tool_call_id), sent)
        option: PermissionOption | None = None
        try:
            if session.state.turn != "cancelling":
                option = chosen(sent.options, await self._decide(request))
        finally:
            session.publish(PermissionAnswered(permission_id, option))
        return answer(option)

    async def _decide(self, request: PermissionRequest) -> Decision:
        try:
            decision = self._session.life.handlers.permissions(request)
            if inspect.isawaitable(decision):
                decision = await self._unless_dismissed(decision)
        except Exception as error:  # noqa: BLE001 - the boundary to the application's handler
            self._session.life.report(f"the permission handler raised {type(error).__name__}: {error}")
            return None
        return decision

    async def _unless_dismissed(self, deciding: Awaitable[Decision]) -> Decision:
        dismissal: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = self._session.life.own(_awaited(deciding))
        self._dismissals.add(dismissal)
        try:
            await asyncio.wait((task, dismissal), return_when=asyncio.FIRST_COMPLETED)
            return None if dismissal.done() or task.cancelled() else task.result()
        finally:
            self._dismissals.discard(dismissal)
            task.cancel()


async def _awaited(deciding: Awaitable[Decision]) -> Decision:
    return await deciding
