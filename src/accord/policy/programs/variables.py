"""Environment variables: which of them make a program run or load something else, and which merely inform it."""

import re
from typing import Final

from ..lists import words

_RUNS_SOMETHING: Final = re.compile(
    r"""
    LD_.* | DYLD_.* | GCONV_PATH | LOCPATH | NLSPATH | MALLOC_.*            # what the loader and libc load
    | PATH | HOME | SHELL | ENV | BASH.* | SHELLOPTS | IFS | PS[0-9] | PROMPT_.* | CDPATH | FPATH | ZDOTDIR
    | GLOBIGNORE | EXECIGNORE | FUNCNEST | HISTFILE | TMPDIR | OLDPWD | PWD | POSIXLY_CORRECT
    | GIT_.* | SSH_.* | SVN_.* | HG.*
    | .*PAGER | .*EDITOR | VISUAL | BROWSER | LESS.* | TERMCAP | TERMINFO.* | EXINIT | VIM.* | NVIM.*
    | PYTHON(?!UNBUFFERED$|DONTWRITEBYTECODE$|HASHSEED$|UTF8$|IOENCODING$|FAULTHANDLER$).*
    | NODE_OPTIONS | NODE_PATH | NODE_.*CERT.* | NPM_CONFIG_.* | npm_config_.* | YARN_.* | BUN_.* | DENO_.*
    | RUBY.* | GEM_.* | BUNDLE_.* | PERL.* | PHP.* | LUA_.*
    | JAVA_.* | _JAVA_.* | JDK_.* | MAVEN_.* | GRADLE_.* | CLASSPATH | DOTNET_.* | COMPLUS_.* | CORECLR_.*
    | MAKE.* | GNUMAKEFLAGS | CC | CXX | CPP | AR | LD | CFLAGS | CXXFLAGS | LDFLAGS | RUSTC.* | RUSTFLAGS
    | CARGO_(?!TERM_|INCREMENTAL$|TARGET_DIR$).* | GO(FLAGS|ROOT|PATH|BIN|PROXY|TOOLCHAIN|ENV|NOSUMDB|INSECURE)
    | PIP_.* | UV_.* | POETRY_.* | CONDA_.* | VIRTUAL_ENV | TOX_.* | PYTEST_.*
    | TAR_OPTIONS | GREP_OPTIONS | RIPGREP_CONFIG_PATH | FZF_.* | BAT_.* | MANOPT | MAN.*
    | CURL_.* | WGETRC | OPENSSL_.* | SSL_.* | .*_PROXY | .*_proxy | NETRC | RSYNC_.*
    | DOCKER_.* | COMPOSE_.* | KUBE.* | HELM_.* | AWS_.* | AZURE_.* | GOOGLE_.* | CLOUDSDK_.* | TF_.* | ANSIBLE_.*
    | XDG_.* | DISPLAY | DBUS_.* | QT_.* | GTK_.* | OPENAI_.* | ANTHROPIC_.* | ACCORD_.*
    """,
    re.VERBOSE,
)
_HARMLESS: Final = re.compile(
    r"LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR(_FORCE)?|CI|COLORTERM"
)
_SPOKEN: Final = words(
    """
    HOME PWD USER LOGNAME SHELL PATH LANG TERM TZ HOSTNAME RANDOM SECONDS ? # $ ! 0
    """
)


def steers(name: str) -> bool:
    """Whether setting it can make a program run, load or reach something it otherwise would not."""
    return _RUNS_SOMETHING.fullmatch(name) is not None


def harmless(name: str) -> bool:
    """Whether setting it changes nothing but the look of what a program that only reads prints."""
    return _HARMLESS.fullmatch(name) is not None


def may_be_shown(name: str) -> bool:
    """Whether its value is no secret. A variable nobody knows may well hold a key."""
    return name in _SPOKEN
