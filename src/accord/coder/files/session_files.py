"""The files of a session, through the client's `fs/*` or the disk, and which of them the model has read.

The client's methods carry only text, so files that are not UTF-8 are read and written on this machine. If the
client does not know a file or fails to read it, the file on this machine is used. If the client refuses a
write, the write fails.
"""

from typing import Literal, Protocol

from accord.coder.files.exact_disk import DiskError, ExactDisk, FileRecorder, ResolvedFile
from accord.coder.files.text_document import BOM, Document, TextEncoding, client_document, decode
from accord.errors import AccordError, BadAnswer, RpcError


class NotText(AccordError):
    """The file is not text."""

    def __init__(self, file: ResolvedFile, data: bytes) -> None:
        super().__init__(f"{file.path} is not text: {len(data):,} bytes of binary data")
        self.data: bytes = data


class ClientFiles(Protocol):
    """The client's `fs/*` methods. `SessionClient` implements it."""

    @property
    def can_read_files(self) -> bool: ...
    @property
    def can_write_files(self) -> bool: ...
    async def read_text_file(
        self, path: str, *, line: int | None = None, limit: int | None = None
    ) -> str: ...
    async def write_text_file(self, path: str, content: str) -> None: ...


class SessionFiles:
    """Reads and writes text files at the paths that the policy has allowed."""

    def __init__(self, client: ClientFiles | None = None, recorder: FileRecorder | None = None) -> None:
        self.disk: ExactDisk = ExactDisk(recorder)
        self._client = client

    async def read(self, file: ResolvedFile, max_bytes: int, *, from_client: bool = True) -> Document | None:
        """Return the text of a file, or None if there is none. Raises NotText, FileTooLarge, DiskRefused."""
        data = await self.disk.read(file, max_bytes)
        disk = None if data is None else _document(file, data)
        client = self._client if from_client else None
        if client is None or not client.can_read_files or (disk and disk.encoding.name != "utf-8"):
            return disk
        try:
            text = await client.read_text_file(file.path)
        except (RpcError, BadAnswer):
            return disk
        if disk is None and not text:
            return None  # some clients send an empty text for a missing file
        return client_document(text, disk)

    async def read_part(self, file: ResolvedFile, line: int, limit: int, max_bytes: int) -> str:
        """Return some lines of a file that is too large to be read whole.

        A longer text of the client is cut to `max_bytes`. Raises NotText, FileTooLarge, DiskError.
        """
        client = self._client
        if client is not None and client.can_read_files:
            try:
                text = await client.read_text_file(file.path, line=line, limit=limit)
            except (RpcError, BadAnswer):
                pass
            else:
                return _cut_to_bytes(text, max_bytes)
        data = await self.disk.read_lines(file, line, limit, max_bytes)
        if (decoded := decode(data)) is None:
            raise NotText(file, data)
        return decoded[0]

    async def write(self, file: ResolvedFile, text: str, before: Document | None) -> Document:
        """Write the text in the encoding of `before`, or as a new UTF-8 file if it is None.

        Raises DiskRefused.
        """
        encoding = TextEncoding() if before is None else before.encoding
        data = encode_text(file, text, encoding)
        client = self._client
        if client is None or not client.can_write_files or encoding.name != "utf-8":
            await self.disk.write(file, data, None if before is None else before.disk_bytes)
            return Document(text, encoding, data)
        send_bom = before is not None and (
            before.client_sends_bom or (encoding.has_bom and not before.from_client)
        )
        async with self.disk.recorded(file):
            if before is None:
                await self.disk.make_folder(file)
            try:
                await client.write_text_file(file.path, (BOM if send_bom else "") + text)
            except RpcError as error:
                raise DiskError(f"the editor did not write {file.path}: {error.message}") from None
            if encoding.has_bom and not send_bom:
                await self._restore_bom(file, data)
        return Document(text, encoding, data, from_client=True, client_sends_bom=send_bom)

    async def _restore_bom(self, file: ResolvedFile, data: bytes) -> None:
        """Restore the byte order mark if the client removed it on reading and did not write it back."""
        without_bom = data.removeprefix(BOM.encode())
        if await self.disk.read(file, len(data)) == without_bom:
            await self.disk.write(file, data, without_bom)


def _cut_to_bytes(text: str, max_bytes: int) -> str:
    """Return the start of a text that has at most `max_bytes` bytes in UTF-8."""
    data = text.encode("utf-8", "replace")
    return text if len(data) <= max_bytes else data[:max_bytes].decode("utf-8", "ignore")


def _document(file: ResolvedFile, data: bytes) -> Document:
    decoded = decode(data)
    if decoded is None:
        raise NotText(file, data)
    text, encoding = decoded
    return Document(text, encoding, data)


def encode_text(file: ResolvedFile, text: str, encoding: TextEncoding) -> bytes:
    """Return the bytes of a text. Raises DiskError if the encoding of the file lacks a character."""
    try:
        return encoding.encode(text)
    except UnicodeEncodeError as error:
        raise DiskError(_encoding_error(file, encoding, text, error)) from None


def _encoding_error(file: ResolvedFile, encoding: TextEncoding, text: str, error: UnicodeEncodeError) -> str:
    if encoding.name.startswith("utf"):
        return f"cannot write {file.path}: the text has a lone surrogate at position {error.start}"
    return (
        f"cannot write {file.path}: its encoding is {encoding.name}, which has no {text[error.start]!r}; "
        "use other characters, or convert the file to UTF-8 first"
    )


ReadState = Literal["same", "changed", "unread"]


class ReadFiles:
    """The texts that the model last read or wrote, as digests by real path.

    Tools refuse to change files that the model has not read.
    """

    def __init__(self) -> None:
        self._digests: dict[str, str] = {}

    def record(self, file: ResolvedFile, digest: str) -> None:
        """Record that the model knows this text."""
        self._digests[file.real] = digest

    def was_read(self, file: ResolvedFile) -> bool:
        """Return whether the model has read or written the file."""
        return file.real in self._digests

    def state(self, file: ResolvedFile, digest: str) -> ReadState:
        """Return whether the model has read the file, and whether it changed since."""
        read_digest = self._digests.get(file.real)
        if read_digest is None:
            return "unread"
        return "same" if read_digest == digest else "changed"

    def forget(self, file: ResolvedFile) -> None:
        """Remove a deleted file."""
        self._digests.pop(file.real, None)

    def move(self, source: ResolvedFile, destination: ResolvedFile) -> None:
        """Record that a file, or a folder with all files in it, was renamed."""
        prefix = source.real.rstrip("/") + "/"
        for real, digest in list(self._digests.items()):
            if real == source.real:
                self._digests[destination.real] = self._digests.pop(real)
            elif real.startswith(prefix):
                self._digests[f"{destination.real}/{real[len(prefix) :]}"] = digest
                del self._digests[real]
