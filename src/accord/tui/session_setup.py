"""What a chat session needs to open and prompt: sign-in, blocks, handlers, options, recorded history.

Imported on first use: it loads accord.client.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from accord.client import (
    AgentCommand,
    ClientFeatures,
    ClientHandlers,
    ClientOptions,
    ClientSession,
    RemoteAgent,
)
from accord.client.client_options import ClientReport
from accord.client.permissions import PermissionChoice, PermissionHandler, PermissionRequest
from accord.clock import Clock
from accord.errors import AccordError, AuthRequired, StoreError
from accord.frontend.agent_config import ConfiguredAgent
from accord.frontend.agent_config.project_trust import TrustCallback, refuse
from accord.frontend.attachments import AttachmentBuilder, find_mentions
from accord.frontend.consent import BeforeChange, Consent, permission_workspace
from accord.frontend.display_text import notice_line
from accord.frontend.policy_handler import shown_diffs
from accord.frontend.recording import RecordedSessions
from accord.frontend.sign_in import missing_variables
from accord.policy.rules import PermissionDefault
from accord.safe_text import clean_line, one_line
from accord.schema import (
    AgentCapabilities,
    AgentMessageChunk,
    AgentThoughtChunk,
    AuthMethod,
    AuthMethodTerminal,
    CompactionSummaryChunk,
    CompactionUpdate,
    ContentBlock,
    SessionInfoUpdate,
    TextContent,
    UserMessageChunk,
)
from accord.schema.dialects import variables
from accord.schema.methods import AGENTAO_ASK_USER
from accord.session import (
    Event,
    MessageChanged,
    PlanChanged,
    ToolCallChanged,
    TurnCancelling,
    TurnEnded,
    TurnStarted,
)
from accord.session.rewind import rewind_marker
from accord.trace import FrameRing, TappedTransport
from accord.tui.chat_types import ChatStart, Draft

if TYPE_CHECKING:
    from accord.tui.parts.note_part import Tone
    from accord.tui.question_dialogs import DialogHandler


class SignInChooser(Protocol):
    """Asks the user how to sign in."""

    async def sign_in(
        self, agent: str, reason: str, methods: Sequence[AuthMethod], launch: AgentCommand | None
    ) -> AuthMethod | None:
        """Return the chosen method; None means not now."""
        ...


async def sign_in(
    agent: RemoteAgent,
    name: str,
    error: AuthRequired,
    chooser: SignInChooser,
    launch: AgentCommand | None,
    note: "Callable[[str, Tone, str], None]",
) -> bool:
    """Let the user sign in. Return whether to retry the refused request.

    `name` is the configured name of the agent. `launch` is the command of a local agent; without it, methods
    that run in the terminal are not offered.
    """
    all_methods = error.methods or agent.auth_methods
    methods = [
        method for method in all_methods if launch is not None or not isinstance(method, AuthMethodTerminal)
    ]
    if not methods:
        return False
    method = await chooser.sign_in(name, str(error), methods, launch)
    if method is None:
        return False
    names = variables(method)
    if names is not None:
        _explain_variables(names, name, launch, note)
        return False
    label = one_line(clean_line(method.name))
    try:
        if not isinstance(method, AuthMethodTerminal):
            note(f"Signing in with {label!r}; the agent may open a browser.", "quiet", "")
        await agent.sign_in(method)
    except AccordError as failure:
        note(str(failure), "bad", "")
    else:
        note(f"Signed in with {label!r}.", "good", "")
    return True


def _explain_variables(
    names: Sequence[str], agent: str, launch: AgentCommand | None, note: "Callable[[str, Tone, str], None]"
) -> None:
    """Tell the user which environment variables to set."""
    listed = ", ".join(map(one_line, names))
    if launch is None:
        note(f"{agent} needs {listed} in its environment, on the machine where it runs.", "warn", "")
        return
    lines = list(missing_variables(names, agent, launch))
    if lines:
        note(
            f"{agent} needs {listed} in its environment; set it, then restart this client.",
            "warn",
            "\n".join(lines),
        )
    else:
        note(f"{agent} already gets {listed} but does not accept the value.", "warn", "")


def prompt_blocks(
    draft: Draft, folders: Sequence[str], capabilities: AgentCapabilities, note: Callable[[str], None]
) -> list[ContentBlock]:
    """Return the blocks of a prompt. Blocking: reads files. Raises UsageError if one cannot be read."""
    builder = AttachmentBuilder(capabilities, note)
    mentions = find_mentions(draft.text, folders, "paste its path to attach it")
    for text in mentions.notes:
        note(text)
    # Only what was typed can mention files: a pasted text may come from anywhere.
    outputs = [attachment.text for attachment in draft.attachments if attachment.text]
    text = "\n\n".join(filter(None, (draft.full_text, *outputs)))
    blocks: list[ContentBlock] = [TextContent(text)] if text.strip() else []
    blocks += [builder.for_mention(path) for path in mentions.paths]
    blocks += [builder.for_attachment(attachment.path) for attachment in draft.attachments if attachment.path]
    pictures = [attachment for attachment in draft.attachments if attachment.picture]
    blocks += filter(None, [builder.for_picture(one.picture, one.name) for one in pictures])
    return blocks


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """The handlers and options of one connection."""

    start: ChatStart
    dialogs: "DialogHandler | None"
    """None if there is no screen to ask the user on."""
    warn: Callable[[str], None]
    clock: Clock
    ring: FrameRing
    """Keeps the latest frames for the wire view."""
    on_stderr: Callable[[str], None]
    """Called with each line that the agent writes to stderr."""

    before_change: BeforeChange
    """Called with the paths of files that the agent is about to change."""

    def handlers(self, configured_agent: ConfiguredAgent) -> ClientHandlers:
        """Return the handlers for requests of the agent."""
        dialogs = self.dialogs
        consent = Consent(configured_agent.policy(self._default(configured_agent)), dialogs, self.warn)
        uses_files = configured_agent.uses_client_files
        return ClientHandlers(
            permissions=self._permissions(consent),
            workspace=permission_workspace(consent, self.before_change) if uses_files else None,
            forms=None if dialogs is None else dialogs.form,
            urls=None if dialogs is None else dialogs.address,
            login=None if dialogs is None else dialogs.login,
            extensions={} if dialogs is None else {AGENTAO_ASK_USER: dialogs.question},
        )

    def _permissions(self, consent: Consent) -> PermissionHandler:
        async def answer(request: PermissionRequest) -> PermissionChoice:
            paths = [diff.path for diff in shown_diffs(request) or ()]
            if request.call.kind in ("edit", "delete", "move"):
                paths += [location.path for location in request.call.locations]
            await self.before_change(paths)
            return await consent(request)

        return answer

    def options(self, configured_agent: ConfiguredAgent) -> ClientOptions:
        """Return the options of the connection."""
        options = configured_agent.options(
            ClientOptions(
                clock=self.clock,
                observer=self._observe,
                wrap=lambda transport: TappedTransport(transport, self.ring, ours="client"),
                on_stderr=self.on_stderr,
                on_notice=lambda _, notice: self.warn(notice_line(notice)),
                features=ClientFeatures(
                    meta={
                        "accord": {
                            "extensions": [AGENTAO_ASK_USER] if self.dialogs else [],
                            "events": True,  # a gateway shows terminals while they print, for example
                        }
                    }
                ),
            )
        )
        return replace(options, restart=None)  # the user restarts the agent with Ctrl+R

    def trusting(self) -> TrustCallback:
        """Return the function that decides whether to trust a project's `acp.json`."""
        return refuse if self.dialogs is None else self.dialogs.trusting()

    def _default(self, configured_agent: ConfiguredAgent) -> PermissionDefault | None:
        """Return the permission default: the option, or None for the agent's file, or the usual one."""
        option = self.start.permissions
        if option is None and self.dialogs is None and configured_agent.unattended is not None:
            return configured_agent.unattended
        if option is not None or (
            configured_agent.permissions is not None
            and configured_agent.permissions.permission_default is not None
        ):
            return option
        return "reads" if self.dialogs is None else "ask"

    def _observe(self, report: ClientReport) -> None:
        if report.kind == "oversized":
            self.warn(f"ignored a message of the agent that is too long: {report.detail}")


_HISTORY_EVENTS: Final = (
    AgentMessageChunk, AgentThoughtChunk, UserMessageChunk, MessageChanged, ToolCallChanged, PlanChanged,
    CompactionUpdate, CompactionSummaryChunk, TurnStarted, TurnEnded, TurnCancelling,
)  # fmt: skip


def restore_history(records: RecordedSessions, session: ClientSession, agent: str) -> None:
    """Apply the recorded history to the state of a session that the agent resumed without a replay.

    Settings are not applied: the agent reports them.
    """
    try:
        recorded = records.find(session.id, agent=agent)
        if recorded is None:
            return
        for event in records.events(recorded):
            if isinstance(event, _HISTORY_EVENTS) or _rewinds(event):
                session.state.apply(event)
    except StoreError:
        return  # the session starts without its history
    if session.state.turn != "idle":
        session.state.apply(TurnEnded())


def _rewinds(event: Event) -> bool:
    return isinstance(event, SessionInfoUpdate) and rewind_marker(event.meta) is not None
