"""What the tools that change files require of a file before they change it."""

import stat

from accord.coder.files.exact_disk import FileTooLarge, ResolvedFile
from accord.coder.files.session_files import NotText
from accord.coder.files.text_document import Document
from accord.coder.tools.tool import ToolFailure
from accord.coder.tools.tool_context import ToolContext


class ChangedFile:
    """A file that a call will change, or create. A file must have been read by the model before."""

    def __init__(self, file: ResolvedFile, context: ToolContext) -> None:
        self._file = file
        self._context = context
        self.last_read: Document | None = None
        self._was_missing = False

    async def read(self) -> Document | None:
        """Return the file, or None for a new one. Raises ToolFailure if the model does not know its text.

        A client that had no such file is not asked again: creating a file reads it once.
        """
        file, context = self._file, self._context
        exists = await context.files.disk.stat(file) is not None
        if not exists and self._was_missing:
            return None
        # The client is not asked for a file that the model has not read: the call fails anyway.
        from_client = not exists or context.read_files.was_read(file)
        try:
            document = await context.files.read(file, context.limits.file_bytes, from_client=from_client)
        except NotText as error:
            raise ToolFailure(str(error), "it can only be replaced with bash") from None
        except FileTooLarge as error:
            raise ToolFailure(f"{error}, more than can be edited", "use bash") from None
        self._was_missing = document is None
        if document is None:
            return None
        match context.read_files.state(file, document.digest):
            case "unread":
                raise ToolFailure(f"{file.path} exists but was not read", "read it first with read_file")
            case "changed":
                raise ToolFailure(
                    f"{file.path} has changed since it was read", "read it again, then repeat this"
                )
            case "same":
                self.last_read = document
                return document


async def require_existing(file: ResolvedFile, context: ToolContext) -> None:
    """Raise ToolFailure if the file does not exist or is a symbolic link, whose target was not checked."""
    status = await context.files.disk.stat(file)
    if status is None:
        raise ToolFailure(f"{file.path} does not exist")
    if stat.S_ISLNK(status.st_mode):
        raise ToolFailure(f"{file.path} is a symbolic link", "use the bash tool instead")
