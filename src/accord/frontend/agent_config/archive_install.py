"""Download an agent's archive, check it and unpack it. Nothing of it is started.

An archive is untrusted: sizes and numbers of files are limited, paths and links must stay inside its folder,
and only plain files, folders and such links are accepted. Links are made last, so that no file is written
through one.
"""

import hashlib
import http.client
import os
import re
import shutil
import stat
import sys
import tarfile
import tempfile
import urllib.request
import zipfile
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final
from urllib.parse import unquote, urlsplit

from accord.errors import UsageError
from accord.private_files import private_folder

MAX_DOWNLOAD: Final = 1024 * 1024 * 1024
MAX_UNPACKED: Final = 1024 * 1024 * 1024
MAX_FILES: Final = 20_000
_TIMEOUT: Final = 60.0
_CHUNK: Final = 1024 * 1024
_TAR_SUFFIXES: Final = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar")
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_MACHINES: Final = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
_SYSTEMS: Final = {"linux": "linux", "darwin": "darwin", "win32": "windows"}


def this_platform() -> str:
    """Return the platform of this machine as the registry names it, such as `linux-x86_64`."""
    import platform

    machine = platform.machine().lower()
    return f"{_SYSTEMS.get(sys.platform, sys.platform)}-{_MACHINES.get(machine, machine)}"


def is_url(text: str) -> bool:
    """Whether a text is a web address and not the path of a file."""
    return text.startswith(("http://", "https://"))


def download(url: str, target: IO[bytes], max_bytes: int) -> str:
    """Download an address into a file and return its SHA-256 in hex. Raises UsageError."""
    check_address(url)
    digest, size = hashlib.sha256(), 0
    opener = urllib.request.build_opener(_CheckedRedirects())
    request = urllib.request.Request(url, headers={"User-Agent": "accord", "Accept-Encoding": "identity"})
    try:
        with opener.open(request, timeout=_TIMEOUT) as response:
            length = response.headers.get("Content-Length", "")
            while data := response.read(_CHUNK):
                size += len(data)
                if size > max_bytes:
                    raise UsageError(f"{url} is larger than {max_bytes} bytes and was not downloaded")
                digest.update(data)
                target.write(data)
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise UsageError(f"cannot download {url} ({getattr(reason, 'strerror', None) or reason})") from None
    if length.isdecimal() and int(length) != size:
        raise UsageError(f"cannot download {url} (the connection ended after {size} of {length} bytes)")
    return digest.hexdigest()


def check_address(url: str) -> None:
    """Raise UsageError unless an address is https, or http of this machine."""
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        return
    raise UsageError(f"{url} is refused; use an https address")


class _CheckedRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        check_address(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def install_archive(url: str, sha256: str | None, program: str, folder: Path) -> str:
    """Download and unpack an archive to a new folder; return the SHA-256. Raises UsageError.

    `sha256` is the expected checksum. `program` is the path inside the archive of what is started later. It
    and what the archive marks as a program become executable. The folder appears complete or not at all.
    """
    private_folder(folder.parent)
    with tempfile.TemporaryDirectory(prefix=".install-", dir=folder.parent) as work:
        archive, unpacked = Path(work) / "archive", Path(work) / "unpacked"
        with archive.open("wb") as file:
            found = download(url, file, MAX_DOWNLOAD)
        if sha256 is not None and found != sha256:
            raise UsageError(f"{url} has the checksum {found}, not {sha256}; nothing was installed")
        unpacked.mkdir()
        unpack(archive, PurePosixPath(unquote(urlsplit(url).path)).name, program, unpacked)
        started = unpacked / _relative_path(program)
        if not started.is_file() or not started.resolve().is_relative_to(unpacked.resolve()):
            raise UsageError(f"{url} does not contain {program!r}; nothing was installed")
        started.chmod(0o755)
        if folder.exists():
            shutil.rmtree(folder)
        unpacked.rename(folder)
    return found


def program_path(folder: Path, program: str) -> Path:
    """Return where an installed program is. Raises UsageError."""
    return folder / _relative_path(program)


def unpack(archive: Path, name: str, program: str, folder: Path) -> None:
    """Unpack an archive by the suffix of its name; another file is the program itself. Raises UsageError."""
    try:
        if name.lower().endswith(".zip"):
            _unpack_zip(archive, folder)
        elif name.lower().endswith(_TAR_SUFFIXES):
            _unpack_tar(archive, folder)
        else:
            target = folder / _relative_path(program)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(archive, target)
    except (
        tarfile.TarError,
        zipfile.BadZipFile,
        EOFError,
        OSError,
        RuntimeError,
        NotImplementedError,
    ) as error:
        reason = str(error).partition("\n")[0].rstrip(":")
        raise UsageError(f"{name} cannot be unpacked ({reason}); nothing was installed") from None


def _unpack_tar(archive: Path, folder: Path) -> None:
    links: list[tuple[Path, str]] = []
    total = 0
    with tarfile.open(archive) as tar:
        for number, member in enumerate(tar, 1):
            path = folder / _relative_path(member.name)
            _check_limits(total + member.size, number)
            if member.isdir():
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            if member.issym():
                _check_link(member.name, PurePosixPath(member.name).parent, member.linkname)
                links.append((path, member.linkname))
            elif member.islnk():
                _check_link(member.name, PurePosixPath(), member.linkname)
                with (folder / _relative_path(member.linkname)).open("rb") as source:
                    total = _write_file(source, path, total, member.mode)
            elif source := tar.extractfile(member) if member.isreg() else None:
                total = _write_file(source, path, total, member.mode)
            else:
                raise UsageError(f"{member.name!r} is a device or a pipe; nothing was installed")
    for path, target in links:
        path.symlink_to(target)
    for path, _ in links:
        if not path.resolve().is_relative_to(folder.resolve()):
            name = path.relative_to(folder).as_posix()
            raise UsageError(f"the link {name!r} leads out of the archive; nothing was installed")


def _unpack_zip(archive: Path, folder: Path) -> None:
    total = 0
    with zipfile.ZipFile(archive) as zip_file:
        for number, member in enumerate(zip_file.infolist(), 1):
            path = folder / _relative_path(member.filename)
            _check_limits(total + member.file_size, number)
            mode = member.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise UsageError(f"{member.filename!r} is a link or a device; nothing was installed")
            if member.is_dir():
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            with zip_file.open(member) as source:
                total = _write_file(source, path, total, mode)


def _write_file(source: IO[bytes], path: Path, total: int, mode: int) -> int:
    """Write a new file, executable if its mode is, and return the sum of all sizes. Raises UsageError."""
    with path.open("xb") as target:
        while data := source.read(_CHUNK):  # counted, because the size in the archive may be wrong
            total += len(data)
            _check_limits(total, 0)
            target.write(data)
    path.chmod(0o755 if mode & 0o100 else 0o644)
    return total


def _check_limits(size: int, files: int) -> None:
    if size > MAX_UNPACKED or files > MAX_FILES:
        raise UsageError("the archive has too many or too large files; nothing was installed")


def _check_link(name: str, base: PurePosixPath, target: str) -> None:
    path = os.path.normpath(base / target) if target else ".."
    if target.startswith(("/", "\\")) or path == ".." or path.startswith("../"):
        raise UsageError(f"the link {name!r} leads out of the archive; nothing was installed")


def _relative_path(name: str) -> Path:
    """Return the path of an archive's member. Raises UsageError if it could leave the folder."""
    path = PurePosixPath(name)
    if (
        "\\" in name
        or "\0" in name
        or path.is_absolute()
        or ".." in path.parts
        or re.match(r"[A-Za-z]:", name)
    ):
        raise UsageError(f"the path {name!r} leads out of the archive; nothing was installed")
    return Path(*path.parts)
