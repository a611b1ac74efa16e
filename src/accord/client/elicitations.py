"""The elicitations of one agent: forms and addresses put before the user, and the addresses that are still out there."""

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

from accord.client.elicitation import Address, Declined, Form, host_of
from accord.errors import InvalidParams
from accord.schema import (
    CompleteElicitationNotification,
    ElicitationAcceptAction,
    ElicitationCancelAction,
    ElicitationDeclineAction,
    ElicitationFormMode,
    ElicitationUrlMode,
    Unknown,
)

if TYPE_CHECKING:
    from accord.client.life import Life
    from accord.client.session import ClientSession

Action = ElicitationAcceptAction | ElicitationDeclineAction | ElicitationCancelAction


class Elicitations:
    """Asks the client's handlers. Whatever goes wrong with that is no acceptance."""

    def __init__(self, life: "Life") -> None:
        self._life = life
        self._outside: dict[str, asyncio.Future[None]] = {}

    async def create(
        self, session: "ClientSession | None", asked: ElicitationFormMode | ElicitationUrlMode | Unknown
    ) -> Action:
        """`elicitation/create`. A mode that was not advertised, or that nobody knows, is refused."""
        handlers = self._life.handlers
        if isinstance(asked, ElicitationFormMode) and handlers.forms is not None:
            return await self._form(session, asked)
        if isinstance(asked, ElicitationUrlMode) and handlers.urls is not None:
            return await self._address(session, asked)
        mode = asked.kind if isinstance(asked, Unknown) else asked.__struct_config__.tag
        raise InvalidParams(f"This client does not offer elicitation by {mode}", {"mode": mode})

    def complete(self, told: CompleteElicitationNotification) -> None:
        """`elicitation/complete`. Unknown ids, and those that are complete already, are nobody's business."""
        future = self._outside.pop(told.elicitation_id, None)
        if future is not None and not future.done():
            future.set_result(None)

    def forget(self) -> None:
        """The agent is gone: nothing outside will be reported as done any more."""
        outside, self._outside = self._outside, {}
        for future in outside.values():
            future.cancel()

    async def _form(self, session: "ClientSession | None", asked: ElicitationFormMode) -> Action:
        life = self._life
        form = Form(life.name, asked.message, asked.requested_schema, session, asked, life.options.clock)
        values = await self._answer_of(life.handlers.forms, form)
        if isinstance(values, Declined):
            return ElicitationDeclineAction()
        if values is None:
            return ElicitationCancelAction()
        problems = await form.problems(values)
        if problems:
            found = "; ".join(f"{name} {problem}" for name, problem in problems.items())
            life.report(f"the form handler gave values that cannot be sent: {found}")
            return ElicitationCancelAction()
        return ElicitationAcceptAction(dict(values))

    async def _address(self, session: "ClientSession | None", asked: ElicitationUrlMode) -> Action:
        host = host_of(asked.url)
        completed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if asked.elicitation_id in self._outside:
            raise InvalidParams("This elicitation id is in use", {"elicitationId": asked.elicitation_id})
        self._outside[asked.elicitation_id] = completed
        agreed: bool | None = None
        try:
            address = Address(self._life.name, asked.message, asked.url, host, session, asked, completed)
            agreed = await self._answer_of(self._life.handlers.urls, address)
        finally:
            if agreed is not True:
                self._outside.pop(asked.elicitation_id, None)
        if agreed is True:
            return ElicitationAcceptAction()
        return ElicitationDeclineAction() if agreed is False else ElicitationCancelAction()

    async def _answer_of(self, handler: Any, question: Form | Address) -> Any:
        try:
            answer = handler(question)
            return await answer if inspect.isawaitable(answer) else answer
        except Exception as error:  # noqa: BLE001 - the boundary to the application's handler
            self._life.report(f"the elicitation handler raised {type(error).__name__}: {error}")
            return None
