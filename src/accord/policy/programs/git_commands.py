"""How git is called: its read-only commands with their safe options, and what writes its configuration.

Imported on first use.
"""

import re
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal

from accord.policy.programs.program_options import ParsedArguments, option_names, parse_arguments
from accord.policy.programs.readonly_commands import ReadOnlyUse
from accord.policy.secret_files import is_secret_word
from accord.policy.shell.syntax import SimpleCommand, Word

# git. These options are missing on purpose: those that write a file (`--output`), run a program
# (`--ext-diff`, `-O`, `--exec`), use the network, print addresses (which may hold logins), set configuration
# (`-c`), or read a file and print it if it has another format than expected (`git blame -S`).

GIT_GLOBAL_FLAGS: Final = option_names(
    "-P --no-pager --no-optional-locks --literal-pathspecs --glob-pathspecs --icase-pathspecs"
)
GIT_GLOBAL_VALUED: Final = option_names("-C")

_DIFF_FLAGS: Final = option_names(
    """
    -pusbwaRzWMCDrtcm --patch --no-patch --stat --numstat --shortstat --dirstat --summary --name-only
    --name-status --raw --cached --staged --merge-base --check --quiet --exit-code --minimal --patience
    --histogram --no-renames --no-indent-heuristic --find-renames --find-copies --find-copies-harder
    --word-diff --color-words --color --no-color --color-moved --no-ext-diff --no-textconv --text --binary
    --full-index --ignore-all-space --ignore-space-change --ignore-space-at-eol --ignore-blank-lines
    --ignore-cr-at-eol --function-context --relative --no-relative --no-prefix --default-prefix --abbrev
    --pickaxe-all --pickaxe-regex --submodule --ignore-submodules --cc --irreversible-delete
    --compact-summary --cumulative
    """
)
_DIFF_VALUED: Final = option_names(
    """
    -U -S -G --unified --stat --dirstat --diff-filter --diff-algorithm --word-diff --word-diff-regex --color
    --color-words --color-moved --find-renames --find-copies --abbrev --relative --submodule
    --ignore-submodules --src-prefix --dst-prefix --inter-hunk-context --anchored --line-prefix --stat-width
    --stat-count
    """
)
_LOG_FLAGS: Final = _DIFF_FLAGS | option_names(
    """
    -iEFPgq --oneline --graph --all --branches --tags --remotes --decorate --no-decorate --merges --no-merges
    --first-parent --reverse --follow --abbrev-commit --no-abbrev-commit --relative-date --topo-order
    --date-order --author-date-order --walk-reflogs --left-right --cherry --cherry-pick --cherry-mark
    --boundary --ancestry-path --simplify-by-decoration --full-history --dense --sparse --no-walk --source
    --no-notes --show-pulls --parents --children --regexp-ignore-case --extended-regexp --fixed-strings
    --perl-regexp --invert-grep --all-match --count --objects --not --do-walk --shortstat --full-diff
    --log-size --left-only --right-only --no-mailmap --use-mailmap --clear-decorations --pretty
    """
)
_LOG_VALUED: Final = _DIFF_VALUED | option_names(
    """
    -n -L --max-count --skip --since --until --after --before --author --committer --grep --format --pretty
    --date --decorate --glob --exclude --branches --tags --remotes --decorate-refs --decorate-refs-exclude
    --encoding --min-parents --max-parents --no-walk --max-age --min-age
    """
)
_DIFF: Final = (_DIFF_FLAGS, _DIFF_VALUED)
_LOG: Final = (_LOG_FLAGS, _LOG_VALUED)

_GIT_READING: Final[dict[str, tuple[frozenset[str], frozenset[str]]]] = {
    "status": (
        option_names(
            "-s -b -z -u --short --branch --long --porcelain --show-stash --ahead-behind "
            "--no-ahead-behind --renames "
            "--untracked-files --ignored --ignore-submodules --column"
        ),
        option_names("--porcelain --untracked-files --ignored --ignore-submodules --column -u"),
    ),
    "log": _LOG,
    "whatchanged": _LOG,
    "show": _LOG,
    "rev-list": _LOG,
    "reflog": _LOG,
    "shortlog": (
        _LOG_FLAGS | option_names("-e -n -w --numbered --summary --email"),
        (_LOG_VALUED - {"-n"}) | option_names("-w --group"),
    ),
    "diff": _DIFF,
    "diff-tree": (_DIFF[0] | option_names("--root --no-commit-id -v"), _DIFF[1]),
    "diff-index": _DIFF,
    "diff-files": _DIFF,
    "blame": (
        option_names(
            "-belnpfstwCM --porcelain --line-porcelain --show-name --show-number --show-email --root "
            "--show-stats -c",
        ),
        option_names("-L --date --since --abbrev"),
    ),
    "annotate": (option_names("-b -l -t"), option_names("-L")),
    "describe": (
        option_names("--all --tags --long --always --contains --exact-match --first-parent --dirty --abbrev"),
        option_names("--abbrev --match --exclude --candidates --dirty"),
    ),
    "rev-parse": (
        option_names(
            "--short --abbrev-ref --show-toplevel --show-prefix --show-cdup --git-dir --absolute-git-dir "
            "--git-common-dir --verify "
            "-q --quiet --is-inside-work-tree --is-inside-git-dir --is-bare-repository --symbolic "
            "--symbolic-full-name --all "
            "--branches --tags --remotes --show-superproject-working-tree --is-shallow-repository"
        ),
        option_names("--short --abbrev-ref"),
    ),
    "ls-files": (
        option_names(
            "-cdmoikstuvzf --cached --deleted --modified --others --ignored --stage --killed --unmerged "
            "--directory --full-name "
            "--exclude-standard --error-unmatch --eol --deduplicate --no-empty-directory --abbrev"
        ),
        option_names("-x --exclude --format --abbrev"),
    ),
    "ls-tree": (
        option_names("-drtlz --long --name-only --name-status --full-name --full-tree --abbrev"),
        option_names("--format --abbrev"),
    ),
    "cat-file": (option_names("-t -s -e -p"), option_names("")),
    "for-each-ref": (
        option_names("--ignore-case"),
        option_names("--count --sort --format --points-at --merged --no-merged --contains --no-contains"),
    ),
    "show-ref": (
        option_names("-dqs --head --heads --tags --branches --verify --quiet --hash"),
        option_names("--hash --abbrev"),
    ),
    "merge-base": (
        option_names("-a --all --octopus --is-ancestor --fork-point --independent"),
        option_names(""),
    ),
    "name-rev": (
        option_names("--tags --all --name-only --always --no-undefined"),
        option_names("--refs --exclude"),
    ),
    "count-objects": (option_names("-v -H --verbose --human-readable"), option_names("")),
    "check-ignore": (
        option_names("-q -v -n -z --quiet --verbose --non-matching --no-index"),
        option_names(""),
    ),
    "check-attr": (option_names("-a -z --all --cached"), option_names("")),
    "cherry": (option_names("-v --abbrev"), option_names("--abbrev")),
    "grep": (
        option_names(
            "-aIivwnlLcoqEFGPhHWpz --text --ignore-case --word-regexp --invert-match --line-number "
            "--files-with-matches "
            "--name-only --files-without-match --count --only-matching --quiet --cached --extended-regexp "
            "--fixed-strings "
            "--perl-regexp --color --heading --break --full-name --column --show-function "
            "--function-context --all-match --and --or --not"
        ),
        option_names(
            "-e -A -B -C -m --max-depth --threads --after-context --before-context --context --max-count "
            "--color",
        ),
    ),
    "version": (option_names("--build-options"), option_names("")),
}  # fmt: skip
_GIT_LISTING: Final[dict[str, tuple[frozenset[str], frozenset[str]]]] = {
    "branch": (
        option_names(
            "-a -r -v -l -i --all --remotes --list --show-current --verbose --no-color --color "
            "--ignore-case --abbrev --column"
        ),
        option_names(
            "--contains --no-contains --merged --no-merged --points-at --sort --format --abbrev --column"
        ),
    ),
    "tag": (
        option_names("-l -i -n --list --ignore-case --column"),
        option_names("-n --contains --no-contains --merged --no-merged --points-at --sort --format --column"),
    ),
}


_RAW: Final = re.compile(r"%\(\*?raw")
_HEAD_BY_DEFAULT: Final = frozenset(("--contains", "--no-contains", "--merged", "--no-merged"))
"""Options of `git branch` and `git tag` that mean HEAD if no commit follows."""

CONTENT_COMMANDS: Final = frozenset(
    """
    diff diff-tree diff-index diff-files log whatchanged show reflog grep blame annotate cat-file stash
    range-diff archive format-patch fast-export bundle difftool request-pull send-email checkout-index
    """.split()
)
"""Commands that may print the content of tracked files."""

_PATCH_OPTIONS: Final = option_names(
    """
    -p -u -U -c -W -L --patch --unified --cc --word-diff --color-words --word-diff-regex --binary --check
    --function-context
    """
)


def git_use(arguments: tuple[Word, ...]) -> ReadOnlyUse | None:
    """Return the files, revisions and folders that `git` reads; None if it may do more.

    Also None if it may print a secret file that no pathspec can leave out.
    """
    outer = parse_arguments(arguments, GIT_GLOBAL_FLAGS, GIT_GLOBAL_VALUED, first_operand_ends=True)
    if outer is None or not outer.operands:
        return None
    first, *rest = outer.operands
    subcommand = first.text or ""
    folders = tuple(outer.values("-C"))
    if subcommand not in _GIT_READING:
        mentions = _other_mentions(subcommand, tuple(rest))
        shows = (subcommand, *(word.text for word in rest)) == ("stash", "show", "-p")
        return None if mentions is None else ReadOnlyUse((*folders, *mentions), shows_tracked=shows)
    flags, valued = _GIT_READING[subcommand]
    parsed = parse_arguments(tuple(rest), flags, valued, digits=True)
    if parsed is None or _prints_raw(parsed):
        return None
    operands = [word.text or "" for word in parsed.operands]
    if subcommand == "reflog" and (
        operands[:1] not in ([], ["show"]) or parsed.has("-S", "-G", *_PATCH_OPTIONS)
    ):
        return None  # it expires or deletes entries, or reads files in a way that cannot be made safe
    prints_file = subcommand in ("blame", "annotate")
    if any(is_secret_word(Path(text.rpartition(":")[2])) for text in operands if prints_file or ":" in text):
        return None  # the file need not exist any more
    shows = _shows_tracked(subcommand, parsed)
    literal_paths = outer.has("--literal-pathspecs", "--glob-pathspecs", "--icase-pathspecs")
    if shows and (literal_paths or not _can_exclude(subcommand, parsed)):
        return None
    mentions = (*parsed.operands, *parsed.values("-L"))  # `-L 1,5:file`: the file behind the range
    objects = tuple(text for text in operands if text and ":" not in text)
    prints_objects = (
        subcommand in ("show", "grep")
        or subcommand.startswith("diff")
        or (subcommand == "cat-file" and not parsed.has("-t", "-s", "-e"))
    )
    return ReadOnlyUse((*folders, *mentions), False, mentions, shows, objects if prints_objects else ())


def _prints_raw(parsed: ParsedArguments) -> bool:
    """Whether the format contains the object itself (`%(raw)`), or the one that a tag points to."""
    return any(_RAW.search(word.text or "") for word in parsed.values("--format"))


def _shows_tracked(subcommand: str, parsed: ParsedArguments) -> bool:
    if subcommand in ("log", "whatchanged"):
        return parsed.has(*_PATCH_OPTIONS)
    return subcommand in ("show", "grep") or subcommand.startswith("diff")


def _can_exclude(subcommand: str, parsed: ParsedArguments) -> bool:
    """Whether further pathspecs can leave files out of what it prints."""
    if parsed.has("-L", "--follow", "--full-diff") or any(
        word.text == "diff" for word in parsed.values("--submodule")
    ):
        return False
    return subcommand == "show" or not any(":" in (word.text or "").lstrip(":") for word in parsed.operands)


def _other_mentions(subcommand: str, rest: tuple[Word, ...]) -> tuple[Word, ...] | None:
    if subcommand in _GIT_LISTING:
        flags, valued = _GIT_LISTING[subcommand]
        if rest and rest[-1].text in _HEAD_BY_DEFAULT:
            rest = rest[:-1]
        parsed = parse_arguments(rest, flags, valued)
        if parsed is None or (parsed.operands and not parsed.has("-l", "--list")):
            return None
        return None if _prints_raw(parsed) else ()
    words = [word.text for word in rest]
    if None in words:
        return None
    return () if (subcommand, *words) in _GIT_EXACT or _shows_symbolic_ref(subcommand, words) else None


READING_COMMANDS: Final = (*_GIT_READING, *_GIT_LISTING)
LISTING_VALUED: Final = sorted(
    frozenset[str]().union(*(valued - flags for flags, valued in _GIT_LISTING.values()))
)
"""Options of `git branch` and `git tag` whose value is the next word."""


_GIT_EXACT: Final = frozenset(
    tuple(line.split())
    for line in (
        "remote", "stash list", "stash show", "stash show -p", "worktree list",
        "worktree list --porcelain", "submodule status", "submodule", "config user.name", "config user.email",
        "config --get user.name", "config --get user.email", "config --get init.defaultBranch",
    )
)  # fmt: skip


def _shows_symbolic_ref(subcommand: str, words: list[str | None]) -> bool:
    """`symbolic-ref NAME` prints; with a second argument it sets."""
    return subcommand == "symbolic-ref" and len(words) == 1 and not (words[0] or "-").startswith("-")


# git config. Every form that may write is recognized, also one with options that are not known here.

_OUTER_VALUED: Final = option_names(
    "-C -c --git-dir --work-tree --namespace --super-prefix --config-env --attr-source"
)
ConfigScope = Literal["local", "worktree", "global", "system"]
_CONFIG_SCOPES: Final[tuple[ConfigScope, ...]] = ("global", "system", "worktree")
_CONFIG_READERS: Final = frozenset(
    "--get --get-all --get-regexp --get-urlmatch --get-color --get-colorbool -l --list get list".split()
)
_CONFIG_WRITERS: Final = frozenset(
    "--add --unset --unset-all --replace-all --rename-section --remove-section -e --edit "
    "set unset rename-section remove-section edit".split()
)
_CONFIG_VALUED: Final = frozenset("-f --file --blob --type --default --comment --value --url".split())


_CONFIG_FLAGS: Final = frozenset(
    "--global --system --local --worktree --null --name-only --show-origin --show-scope --includes --all "
    "--no-includes --bool --int --bool-or-int --path --expiry-date --no-type --regexp --fixed-value".split()
)


def subcommand_of(command: SimpleCommand) -> tuple[str, tuple[Word, ...]]:
    """Return git's subcommand and its arguments. Empty if there is none or it is not certain."""
    if command.name.startswith("git-"):
        return command.name.removeprefix("git-"), command.arguments
    words = list(command.arguments) if command.name == "git" else []
    while words:
        text = words.pop(0).text
        if text in _OUTER_VALUED and words:
            words.pop(0)
        elif text is None or not text.startswith("-"):
            return text or "", tuple(words)
    return "", ()


def written_config(command: SimpleCommand) -> ConfigScope | None:
    """Return the configuration that a `git config` may write; None for other commands.

    A file that it names (`--file`) is not a configuration of git by itself, unless its name is not certain.
    """
    subcommand, words = subcommand_of(command)
    texts = [word.text for word in words]
    if subcommand != "config" or not _may_write_config(texts):
        return None
    if any((text or "").startswith(("-f", "--fi")) for text in texts):
        uncertain = any(option in ("-f", "--file") and file is None for option, file in pairwise(texts))
        return "local" if uncertain else None
    for scope in _CONFIG_SCOPES:
        if any(text and len(text) > 3 and f"--{scope}".startswith(text) for text in texts):
            return scope
    return "local"


def _may_write_config(texts: list[str | None]) -> bool:
    known = [text for text in texts if text is not None]
    if _CONFIG_WRITERS.intersection(known):
        return True
    rest = list(texts)
    while rest and (text := rest[0]) is not None:
        if text in _CONFIG_READERS or text == "--blob":
            return False
        if not text.startswith("-"):
            break  # from here on git reads no options: `git config NAME VALUE --get` writes
        rest.pop(0)
        if text in _CONFIG_VALUED and rest:
            rest.pop(0)
        elif text.startswith("--") and "=" not in text and text not in _CONFIG_FLAGS:
            return True  # an abbreviation may mean any of them
    return len(rest) > 1 or None in texts
