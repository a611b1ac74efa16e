"""What the agent asks of the user, put on the screen: permissions, forms, addresses, plain questions. One at a time."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

from accord.client import DECLINED, Address, ClientSession, Form, Launch, PermissionRequest
from accord.client.askuser import answer_to, read_question
from accord.client.elicitation import FormAnswer
from accord.policy.request import Decision, Request
from accord.schema import AuthMethod, PermissionOption
from accord.tui.dialogs.address import AddressDialog
from accord.tui.dialogs.form import FormDialog
from accord.tui.dialogs.permission import AccessDialog, PermissionDialog
from accord.tui.dialogs.question import QuestionDialog
from accord.tui.dialogs.signin import SignInDialog
from accord.tui.dialogs.trust import TrustDialog
from accord.tui.outside import run_outside

if TYPE_CHECKING:
    from accord.client.servers.reading import ServersFile
    from accord.client.servers.trusting import Trusting
    from accord.tui.dialogs.dialog import Dialog


class Asker(Protocol):
    """Where dialogs are shown."""

    async def ask(self, dialog: "Dialog") -> Any:
        """Show it and wait for the answer; None when the user went away. Cancelling takes it off the screen."""
        ...

    def lend_terminal(self, run: Callable[[], int]) -> int:
        """Leave the terminal to something else until it is done."""
        ...


class Questions:
    """The user, as the client's handlers know them."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._one_at_a_time = asyncio.Lock()
        self.waiting = 0
        """Questions that are open, the one on the screen included."""

    @asynccontextmanager
    async def asked(self) -> AsyncGenerator["Questions"]:
        """Have the user's attention."""
        self.waiting += 1
        try:
            async with self._one_at_a_time:
                yield self
        finally:
            self.waiting -= 1

    # -- by those who have it -----------------------------------------------------------------------------------

    async def permission(
        self, asked: PermissionRequest, request: Request, decision: Decision
    ) -> PermissionOption | None:
        """May this tool call run?"""
        return await self._asker.ask(PermissionDialog(asked, request, decision))

    async def access(
        self,
        session: ClientSession,
        what: str,
        extras: Sequence[str],
        decision: Decision,
        options: Sequence[PermissionOption],
    ) -> PermissionOption | None:
        """May the agent do this through this client?"""
        return await self._asker.ask(AccessDialog(session.life.name, what, extras, decision, options))

    # -- by the handlers of the client --------------------------------------------------------------------------

    async def form(self, form: Form) -> FormAnswer:
        """A form of the agent."""
        async with self.asked():
            return await self._asker.ask(FormDialog(form))

    async def address(self, address: Address) -> bool | None:
        """A web address: shown in full, opened by the user or by nobody."""
        async with self.asked():
            answer = await self._asker.ask(AddressDialog(address))
        return False if answer is DECLINED else answer

    async def question(self, params: Any) -> dict[str, Any]:
        """`_agentao.cn/ask_user`."""
        asked = read_question(params)
        if asked is None:
            return answer_to(None)
        async with self.asked():
            return answer_to(await self._asker.ask(QuestionDialog(*asked)))

    async def sign_in(
        self, agent: str, why: str, methods: Sequence[AuthMethod], launch: Launch | None
    ) -> AuthMethod | None:
        """By which of these ways?"""
        async with self.asked():
            return await self._asker.ask(SignInDialog(agent, why, methods, launch))

    async def login(self, launch: Launch) -> int:
        """Run a program of the agent in the terminal of the user."""
        async with self.asked():
            return self._asker.lend_terminal(lambda: run_outside(launch))

    def trusting(self) -> "Trusting":
        """Asks whether a project's file counts. For a thread, which waits for the answer."""
        loop = asyncio.get_running_loop()

        def ask(file: "ServersFile") -> bool:
            return asyncio.run_coroutine_threadsafe(self._trust(file), loop).result()

        return ask

    async def _trust(self, file: "ServersFile") -> bool:
        async with self.asked():
            agreed = await self._asker.ask(TrustDialog(file)) is True
        if agreed:
            from accord.policy.trust import Trust

            Trust().trust(file.path, file.content)
        return agreed
