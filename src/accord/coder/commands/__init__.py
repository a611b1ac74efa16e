"""Slash commands: those of the agent, the user's own from files, the project's once trusted, and the prompts of MCP servers.

A prompt that begins with a slash but names none of them is a prompt. What a command says to the user is in the session's
log, but not in the model's memory: the model has not said it.
"""

from accord.coder.commands.command import Ask, Command, Reply
from accord.coder.commands.commands import Commands

__all__ = ["Ask", "Command", "Commands", "Reply"]
