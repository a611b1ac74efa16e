"""Places that must not be destroyed: the system's folders, the home folder, the session's roots, disks, accounts."""

import re
from pathlib import Path
from typing import Final

from .bounds import Bounds
from .lists import words

_SYSTEM: Final = frozenset(
    Path(folder)
    for folder in words(
        """
    / /bin /boot /dev /etc /home /lib /lib32 /lib64 /libx32 /media /mnt /opt /proc /root /run /sbin /srv /sys /usr /var
    /usr/bin /usr/sbin /usr/lib /usr/lib32 /usr/lib64 /usr/local /usr/local/bin /usr/local/lib /usr/share /usr/include /usr/libexec
    /var/lib /var/log /var/cache /var/spool /var/mail /var/www /var/lib/dpkg /var/lib/docker /etc/ssh /etc/ssl /etc/systemd /etc/pam.d
    /Applications /Library /System /Users /Volumes /private /private/etc /private/var /nix /nix/store /snap
    """
    )
)
_DISK: Final = re.compile(
    r"/dev/(?:[shv]d[a-z]\d*|xvd[a-z]\d*|nvme\d+(?:n\d+(?:p\d+)?)?|mmcblk\d+(?:p\d+)?|r?disk\d+(?:s\d+)?|md\d+|dm-\d+"
    r"|mapper/.+|disk/.+|loop\d+|nbd\d+|pmem\d+|mem|kmem|port|root)"
)
_VITAL_FILE: Final = re.compile(
    r"/etc/(?:passwd|shadow|group|gshadow|sudoers|fstab|crypttab|ld\.so\.preload|sudoers\.d/.+|pam\.d/.+)-?|/boot/.+"
    r"|/proc/sysrq-trigger|/proc/sys/.+|/sys/power/.+|/sys/firmware/.+"
)


def vital_folder(path: Path, bounds: Bounds) -> str | None:
    """What would be lost with this folder, if it is one that must not be lost."""
    if path in _SYSTEM:
        return f"{path}, a folder of the system" if path != Path("/") else "the whole file system"
    if path == bounds.home or bounds.home.is_relative_to(path):
        return f"{path}, your home folder"
    root = next((root for root in bounds.roots if root.is_relative_to(path)), None)
    return f"{root}, a root of this session" if root is not None else None


def is_disk(path: Path) -> bool:
    """Whether it is a disk, or the machine's memory, as a whole."""
    return _DISK.fullmatch(path.as_posix()) is not None


def is_vital_file(path: Path) -> bool:
    """Whether writing it breaks or takes over the machine."""
    return _VITAL_FILE.fullmatch(path.as_posix()) is not None
