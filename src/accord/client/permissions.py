"""Permission requests, ready-made answers, and the open requests of a session."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final, TypeAlias

from accord.schema import (
    CancelledOutcome,
    PermissionOption,
    PermissionOptionKind,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SelectedPermissionOutcome,
)
from accord.schema.dialects import display_kind, official_kind
from accord.session import PermissionAnswered, PermissionAsked, ToolCallState
from accord.session.protocol_v1 import permission_asked

if TYPE_CHECKING:
    from accord.client.client_session import ClientSession


# MERGED client.permissions: Permission requests: what a handler is asked, ready-made policies, and how a decision becomes an answer.
#
# Consent fails closed: only an option that was offered is ever selected. A policy that approves by itself relies on kinds
# in official spelling as the agent sent them, and only ever picks `allow_once`.

Decision: TypeAlias = str | PermissionOption | None
"""The id of an offered option, the option itself, or None: nobody decided."""

READING: Final = frozenset(("read", "search"))
"""Tool kinds that change nothing and reach nobody outside."""


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """May this tool call run? The agent waits for the answer before it acts."""

    session: "ClientSession"
    call: ToolCallState
    """The tool call as it stands, with what the request said about it."""
    sent: RequestPermissionRequest
    """The request as the agent sent it."""

    @property
    def options(self) -> list[PermissionOption]:
        """The answers on offer, in the agent's order."""
        return self.sent.options

    @property
    def official_kind(self) -> str | None:
        """The tool kind, where the agent itself sent an official one: the only kind an automatic decision may look at."""
        sent = self.sent.tool_call
        if sent.kind:
            return official_kind(sent)
        # A kind that only a repair could read shows up for display; what was known before is then no ground either.
        return official_kind(self.call) if display_kind(sent) == "other" else None

    def option(self, kind: PermissionOptionKind) -> PermissionOption | None:
        """The first offered option that the agent itself declared as of this kind."""
        return next((option for option in self.options if official_kind(option) == kind), None)


PermissionHandler: TypeAlias = Callable[[PermissionRequest], Decision | Awaitable[Decision]]


def reject_all(request: PermissionRequest) -> Decision:
    """Refuse, by the offered option for it where there is one. The default."""
    return request.option("reject_once")


def allow_reads(request: PermissionRequest) -> Decision:
    """Allow once what only reads or searches, by the agent's own official word; refuse the rest."""
    if request.official_kind in READING:
        return request.option("allow_once") or reject_all(request)
    return reject_all(request)


def allow_all(request: PermissionRequest) -> Decision:
    """Allow everything, once each time. Where that is not offered, refuse: `allow_always` is nobody's default."""
    return request.option("allow_once") or reject_all(request)


def chosen(options: list[PermissionOption], decision: object) -> PermissionOption | None:
    """The one offered option that a handler's decision names, or None for everything else.

    An id that several options share names none of them: a refusal might be read as the consent beside it.
    """
    if isinstance(decision, PermissionOption):
        decision = decision.option_id
    if not isinstance(decision, str):
        return None
    named = [option for option in options if option.option_id == decision]
    return named[0] if len(named) == 1 else None


def answer(option: PermissionOption | None) -> RequestPermissionResponse:
    """What is sent for it."""
    if option is None:
        return RequestPermissionResponse(CancelledOutcome())
    return RequestPermissionResponse(SelectedPermissionOutcome(option.option_id))


# MERGED client.questions: The open permission questions of one session: asked side by side, answered once each, dismissed together.


class PendingPermissions:
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
