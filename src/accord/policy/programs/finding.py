"""`find`, where all it does is to find."""

from typing import Final

from ..lists import words
from ..shell.words import Word
from .readonly import Reads

_PLAIN: Final = words(
    """
    ! ( ) , -a -and -o -or -not -depth -d -empty -executable -readable -writable -false -true
    -ls -mount -xdev -nogroup -nouser -print -print0 -prune -quit -daystart -noleaf -ignore_readdir_race
    """
)
_VALUED: Final = words(
    """
    -amin -atime -cmin -ctime -mmin -mtime -gid -uid -group -user -iname -name -ipath -path -iwholename
    -wholename -iregex -regex -regextype -inum -links -lname -ilname -maxdepth -mindepth -perm -size
    -type -xtype -used -printf -fstype
    """
)
_FILES: Final = frozenset(("-newer", "-anewer", "-cnewer", "-samefile"))


def find_reads(arguments: tuple[Word, ...]) -> Reads | None:
    """The folders it starts from. It shows names, no content."""
    words = list(arguments)
    files: list[Word] = []
    while words and words[0].text == "-P":  # the others follow links out of the roots
        words.pop(0)
    while words and (words[0].text is None or words[0].text[:1] not in ("-", "(", "!", ",")):
        files.append(words.pop(0))
    while words:
        test = words.pop(0).text
        if test in _PLAIN:
            continue
        if test not in _VALUED and test not in _FILES:
            return None
        if not words or words[0].text is None:
            return None
        value = words.pop(0)
        if test in _FILES:
            files.append(value)
    return Reads(tuple(files))
