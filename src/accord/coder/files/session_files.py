"""The files of a session, through the client's `fs/*` or the disk, and which of them the model has read."""

from typing import Literal, Protocol

from accord.coder.files.exact_disk import DiskRefused, ExactDisk, ResolvedFile
from accord.coder.files.text_document import MARK, Document, TextEncoding, as_client_gave, decode
from accord.errors import AccordError, BadAnswer, RpcError

# MERGED coder.workspace: The files of a session: through the client's `fs/*` where it offers them, so that unsaved buffers count, else here.
#
# The client speaks in text. What text cannot carry stays on this machine: files that are not UTF-8, and bytes. Where the
# client does not know a file that is here, or fails to read it, the one here counts; what it refuses to write is not
# written behind its back.


class NotText(AccordError):
    """The file is not text."""

    def __init__(self, place: ResolvedFile, data: bytes) -> None:
        super().__init__(f"{place.path} is not text: {len(data):,} bytes of binary data")
        self.data = data


class ClientFiles(Protocol):
    """The files of the client; `SessionClient` is one."""

    @property
    def can_read_files(self) -> bool: ...
    @property
    def can_write_files(self) -> bool: ...
    async def read_text_file(
        self, path: str, *, line: int | None = None, limit: int | None = None
    ) -> str: ...
    async def write_text_file(self, path: str, content: str) -> None: ...


class SessionFiles:
    """Texts at the places that the policy has judged."""

    def __init__(self, client: ClientFiles | None = None) -> None:
        self.disk = ExactDisk()
        self._client = client

    async def read(self, place: ResolvedFile, most: int) -> Document | None:
        """The text of a file, of at most so many bytes; None if there is none. Raises NoText, TooLarge, DiskRefused."""
        data = await self.disk.read(place, most)
        disk = None if data is None else _document(place, data)
        client = self._client
        if client is None or not client.can_read_files or (disk and disk.form.encoding != "utf-8"):
            return disk
        try:
            text = await client.read_text_file(place.path)
        except (RpcError, BadAnswer):
            return disk
        if disk is None and not text:
            return None  # some clients answer so for a file that does not exist
        return as_client_gave(text, disk)

    async def read_part(self, place: ResolvedFile, line: int, limit: int, most: int) -> str:
        """Some lines of a file that is too large to be read whole."""
        client = self._client
        if client is not None and client.can_read_files:
            try:
                text = await client.read_text_file(place.path, line=line, limit=limit)
            except (RpcError, BadAnswer):
                pass
            else:
                return text if len(text) <= most else text[:most]
        data = await self.disk.read_lines(place, line, limit, most)
        if (decoded := decode(data)) is None:
            raise NotText(place, data)
        return decoded[0]

    async def write(self, place: ResolvedFile, text: str, before: Document | None) -> Document:
        """Make this the text of the file, in the form it had `before`; None makes a new one. Raises DiskRefused."""
        form = TextEncoding() if before is None else before.form
        try:
            data = form.encode(text)
        except UnicodeEncodeError as error:
            raise DiskRefused(_cannot_hold(place, form, text, error)) from None
        client = self._client
        if client is None or not client.can_write_files or form.encoding != "utf-8":
            await self.disk.write(place, data, None if before is None else before.on_disk)
            return Document(text, form, data)
        if before is None:
            await self.disk.make_folder(place)
        marks = before is not None and (before.client_marks or (form.marked and not before.of_client))
        try:
            await client.write_text_file(place.path, (MARK if marks else "") + text)
        except RpcError as error:
            raise DiskRefused(f"the editor did not write {place.path}: {error.message}") from None
        if form.marked and not marks:
            await self._mark_again(place, data)
        return Document(text, form, data, of_client=True, client_marks=marks)

    async def _mark_again(self, place: ResolvedFile, data: bytes) -> None:
        """A client that takes the byte order mark off when it reads may forget to put it back when it writes."""
        bare = data.removeprefix(MARK.encode())
        if await self.disk.read(place, len(data)) == bare:
            await self.disk.write(place, data, bare)


def _document(place: ResolvedFile, data: bytes) -> Document:
    decoded = decode(data)
    if decoded is None:
        raise NotText(place, data)
    text, form = decoded
    return Document(text, form, data)


def _cannot_hold(place: ResolvedFile, form: TextEncoding, text: str, error: UnicodeEncodeError) -> str:
    if form.encoding.startswith("utf"):
        return f"cannot write {place.path}: the text has half a character (a lone surrogate) at position {error.start}"
    return (
        f"cannot write {place.path}: it is kept in {form.encoding}, which has no {text[error.start]!r}; "
        "use other characters, or convert the file to UTF-8 first"
    )


# MERGED coder.files.ledger: Which files the model has read, and what was in them: nothing is overwritten that it does not know.

Standing = Literal["same", "changed", "unread"]


class ReadFiles:
    """The digests of texts as the model last saw or wrote them, by real path."""

    def __init__(self) -> None:
        self._digests: dict[str, str] = {}

    def note(self, place: ResolvedFile, digest: str) -> None:
        """The model knows this text now."""
        self._digests[place.real] = digest

    def standing(self, place: ResolvedFile, digest: str) -> Standing:
        """Whether the text is still the one that the model knows."""
        known = self._digests.get(place.real)
        if known is None:
            return "unread"
        return "same" if known == digest else "changed"

    def forget(self, place: ResolvedFile) -> None:
        """The file is gone."""
        self._digests.pop(place.real, None)

    def moved(self, source: ResolvedFile, destination: ResolvedFile) -> None:
        """The file has another name now; so have those below it, if it is a folder."""
        below = source.real.rstrip("/") + "/"
        for real, digest in list(self._digests.items()):
            if real == source.real:
                self._digests[destination.real] = self._digests.pop(real)
            elif real.startswith(below):
                self._digests[f"{destination.real}/{real[len(below) :]}"] = digest
                del self._digests[real]
