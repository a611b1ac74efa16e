"""What the model of a session is told besides the prompts: the system prompt, made once, and notes on what changes later."""

import os
import platform
import shutil
from datetime import datetime
from typing import TYPE_CHECKING

from accord.coder.context.fence import fenced
from accord.coder.context.instructions import InstructionsSeen, find_instructions, told
from accord.coder.context.system import Surroundings, mode_note, system_prompt
from accord.coder.messages import UserMessage, note
from accord.coder.permissions.confinement import Confinement
from accord.coder.toolbox import Toolbox
from accord.policy.request import Mode

if TYPE_CHECKING:
    from accord.coder.conversation import Conversation


class Briefing:
    """What the model knows of where it is, and what it still has to be told."""

    def __init__(self, conversation: "Conversation", confinement: Confinement) -> None:
        self._conversation = conversation
        self._confinement = confinement
        self._system: str | None = None
        self._mode_in_system: Mode = conversation.mode
        self._told_mode: Mode = conversation.mode
        self._heard: set[str] = set()
        """The MCP servers whose words the model has."""
        self._seen = InstructionsSeen(conversation.session.cwd, conversation.session.additional_directories)

    @property
    def made(self) -> str:
        """The system prompt, if it has been made."""
        return self._system or ""

    async def system(self) -> str:
        """The system prompt: made once, so that providers can keep it; what changes later is told by notes."""
        if self._system is None:
            conversation = self._conversation
            session = conversation.session
            await self._confinement.ready()
            found = await find_instructions(session.cwd, session.additional_directories)
            self._seen = InstructionsSeen(session.cwd, session.additional_directories, found)
            self._told_mode = self._mode_in_system = conversation.mode
            self._system = system_prompt(
                Surroundings(
                    cwd=session.cwd,
                    roots=session.additional_directories,
                    platform=f"{platform.system()} {platform.release()} ({platform.machine()})",
                    shell=os.path.basename(shutil.which("bash") or "sh"),
                    day=datetime.now().astimezone().date(),
                    repository=_in_repository(session.cwd),
                    mode=self._told_mode,
                    boundary=self._confinement.summary(),
                    instructions=found,
                    client_prompt=session.system_prompt,
                )
            )
        return self._system

    def forget(self) -> None:
        """Make the system prompt anew for the next turn: the files with instructions have changed."""
        self._system = None

    def context_lost(self) -> None:
        """The model has forgotten what it was told on the way: it is told again when it matters."""
        self._seen.forget()
        self._heard.clear()
        self._told_mode = self._mode_in_system

    async def notes(self, toolbox: Toolbox) -> list[UserMessage]:
        """What is to be told before the next request: another mode, instructions on the way, servers' words."""
        notes: list[UserMessage] = []
        mode = self._conversation.mode
        if mode != self._told_mode:
            self._told_mode = mode
            notes.append(note(mode_note(mode)))
        touched, toolbox.touched = dict.fromkeys(toolbox.touched), []
        nested = [await self._seen.nested(path) for path in touched]
        notes += [note(told(found)) for found in nested if found]
        if (servers := self._conversation.mcp) is not None:
            for name, words in servers.instructions.items():
                if name not in self._heard:
                    self._heard.add(name)
                    notes.append(note(fenced("server", words, name=name)))
        return notes


def _in_repository(folder: str) -> bool:
    while True:
        if os.path.exists(os.path.join(folder, ".git")):
            return True
        above = os.path.dirname(folder)
        if above == folder:
            return False
        folder = above
