"""`git`, where all it does is to show: which subcommands, with which options.

Missing on purpose: whatever writes a file (`--output`), runs another program (`--ext-diff`, `-O`, `--exec`), asks the
network, shows addresses (which may hold logins), or sets configuration for the call (`-c`).
"""

from typing import Final

from ..shell.words import Word
from .options import Parsed, names, parse
from .readonly import Reads

GLOBAL_FLAGS: Final = names(
    "-P --no-pager --no-optional-locks --literal-pathspecs --glob-pathspecs --icase-pathspecs"
)
GLOBAL_VALUED: Final = names("-C")

_DIFF_FLAGS: Final = names(
    """
    -pusbwaRzWMCDrtcm --patch --no-patch --stat --numstat --shortstat --dirstat --summary --name-only --name-status --raw
    --cached --staged --merge-base --check --quiet --exit-code --minimal --patience --histogram --no-renames --no-indent-heuristic
    --find-renames --find-copies --find-copies-harder --word-diff --color-words --color --no-color --color-moved --no-ext-diff
    --no-textconv --text --binary --full-index --ignore-all-space --ignore-space-change --ignore-space-at-eol
    --ignore-blank-lines --ignore-cr-at-eol --function-context --relative --no-relative --no-prefix --default-prefix --abbrev
    --pickaxe-all --pickaxe-regex --submodule --ignore-submodules --cc --irreversible-delete --compact-summary --cumulative
    """
)
_DIFF_VALUED: Final = names(
    """
    -U -S -G --unified --stat --dirstat --diff-filter --diff-algorithm --word-diff --word-diff-regex --color --color-words
    --color-moved --find-renames --find-copies --abbrev --relative --submodule --ignore-submodules --src-prefix --dst-prefix
    --inter-hunk-context --anchored --line-prefix --stat-width --stat-count
    """
)
_LOG_FLAGS: Final = _DIFF_FLAGS | names(
    """
    -iEFPgq --oneline --graph --all --branches --tags --remotes --decorate --no-decorate --merges --no-merges --first-parent
    --reverse --follow --abbrev-commit --no-abbrev-commit --relative-date --topo-order --date-order --author-date-order
    --walk-reflogs --left-right --cherry --cherry-pick --cherry-mark --boundary --ancestry-path --simplify-by-decoration
    --full-history --dense --sparse --no-walk --source --no-notes --show-pulls --parents --children --regexp-ignore-case
    --extended-regexp --fixed-strings --perl-regexp --invert-grep --all-match --count --objects --not --do-walk --shortstat
    --full-diff --log-size --left-only --right-only --no-mailmap --use-mailmap --clear-decorations --pretty
    """
)
_LOG_VALUED: Final = _DIFF_VALUED | names(
    """
    -n -L --max-count --skip --since --until --after --before --author --committer --grep --format --pretty --date --decorate
    --glob --exclude --branches --tags --remotes --decorate-refs --decorate-refs-exclude --encoding --min-parents --max-parents
    --no-walk --max-age --min-age
    """
)
_DIFF: Final = (_DIFF_FLAGS, _DIFF_VALUED)
_LOG: Final = (_LOG_FLAGS, _LOG_VALUED)

_SHOWS: Final[dict[str, tuple[frozenset[str], frozenset[str]]]] = {
    "status": (
        names(
            "-s -b -v -z -u --short --branch --long --porcelain --show-stash --ahead-behind --no-ahead-behind --renames "
            "--untracked-files --ignored --ignore-submodules --column"
        ),
        names("--porcelain --untracked-files --ignored --ignore-submodules --column -u"),
    ),
    "log": _LOG,
    "whatchanged": _LOG,
    "show": _LOG,
    "rev-list": _LOG,
    "reflog": _LOG,
    "shortlog": (
        _LOG_FLAGS | names("-e -n -w --numbered --summary --email"),
        (_LOG_VALUED - {"-n"}) | names("-w --group"),
    ),
    "diff": _DIFF,
    "diff-tree": (_DIFF[0] | names("--root --no-commit-id --stdin -v"), _DIFF[1]),
    "diff-index": _DIFF,
    "diff-files": _DIFF,
    "range-diff": _DIFF,
    "blame": (
        names("-belnpfstwCM --porcelain --line-porcelain --show-name --show-number --show-email --root --show-stats -c"),
        names("-L -S --date --since --abbrev"),
    ),
    "annotate": (names("-b -l -t"), names("-L")),
    "describe": (
        names("--all --tags --long --always --contains --exact-match --first-parent --dirty --abbrev"),
        names("--abbrev --match --exclude --candidates --dirty"),
    ),
    "rev-parse": (
        names(
            "--short --abbrev-ref --show-toplevel --show-prefix --show-cdup --git-dir --absolute-git-dir --git-common-dir --verify "
            "-q --quiet --is-inside-work-tree --is-inside-git-dir --is-bare-repository --symbolic --symbolic-full-name --all "
            "--branches --tags --remotes --show-superproject-working-tree --is-shallow-repository"
        ),
        names("--short --abbrev-ref"),
    ),
    "ls-files": (
        names(
            "-cdmoikstuvzf --cached --deleted --modified --others --ignored --stage --killed --unmerged --directory --full-name "
            "--exclude-standard --error-unmatch --eol --deduplicate --no-empty-directory --abbrev"
        ),
        names("-x --exclude --format --abbrev"),
    ),
    "ls-tree": (names("-drtlz --long --name-only --name-status --full-name --full-tree --abbrev"), names("--format --abbrev")),
    "cat-file": (names("-t -s -e -p"), names("")),
    "for-each-ref": (
        names("--ignore-case"),
        names("--count --sort --format --points-at --merged --no-merged --contains --no-contains"),
    ),
    "show-ref": (names("-dqs --head --heads --tags --branches --verify --quiet --hash"), names("--hash --abbrev")),
    "merge-base": (names("-a --all --octopus --is-ancestor --fork-point --independent"), names("")),
    "name-rev": (names("--tags --all --name-only --always --no-undefined"), names("--refs --exclude")),
    "count-objects": (names("-v -H --verbose --human-readable"), names("")),
    "check-ignore": (names("-q -v -n -z --quiet --verbose --non-matching --no-index"), names("")),
    "check-attr": (names("-a -z --all --cached"), names("")),
    "cherry": (names("-v --abbrev"), names("--abbrev")),
    "grep": (
        names(
            "-aIivwnlLcoqEFGPhHWpz --text --ignore-case --word-regexp --invert-match --line-number --files-with-matches "
            "--name-only --files-without-match --count --only-matching --quiet --cached --extended-regexp --fixed-strings "
            "--perl-regexp --color --heading --break --full-name --column --show-function --function-context --all-match --and --or --not"
        ),
        names("-e -A -B -C -m --max-depth --threads --after-context --before-context --context --max-count --color"),
    ),
    "version": (names("--build-options"), names("")),
}  # fmt: skip
_LISTS: Final[dict[str, tuple[frozenset[str], frozenset[str]]]] = {
    "branch": (
        names(
            "-a -r -v -l -i --all --remotes --list --show-current --verbose --no-color --color --ignore-case --abbrev --column"
        ),
        names("--contains --no-contains --merged --no-merged --points-at --sort --format --abbrev --column"),
    ),
    "tag": (
        names("-l -i -n --list --ignore-case --column"),
        names("-n --contains --no-contains --merged --no-merged --points-at --sort --format --column"),
    ),
}


def git_reads(arguments: tuple[Word, ...]) -> Reads | None:
    """The files, revisions and folders it looks at, if it only looks."""
    outer = parse(arguments, GLOBAL_FLAGS, GLOBAL_VALUED, first_operand_ends=True)
    if outer is None or not outer.operands:
        return None
    subcommand, *rest = outer.operands
    folders = tuple(outer.values("-C"))
    mentions = _mentions(subcommand.text or "", tuple(rest))
    return None if mentions is None else Reads((*folders, *mentions), mentions=mentions)


def _mentions(subcommand: str, rest: tuple[Word, ...]) -> tuple[Word, ...] | None:
    if subcommand in _SHOWS:
        flags, valued = _SHOWS[subcommand]
        parsed = parse(rest, flags, valued, digits=True)
        if subcommand == "reflog" and parsed and parsed.operands and parsed.operands[0].text != "show":
            return None  # expire, delete
        return None if parsed is None else (*parsed.operands, *_ranges(parsed))
    if subcommand in _LISTS:
        flags, valued = _LISTS[subcommand]
        parsed = parse(rest, flags, valued)
        if parsed is None or (parsed.operands and not parsed.has("-l", "--list")):
            return None
        return ()
    words = [word.text for word in rest]
    if None in words:
        return None
    return () if (subcommand, *words) in _EXACTLY or _one_more(subcommand, words) else None


_EXACTLY: Final = frozenset(
    tuple(line.split())
    for line in (
        "remote", "stash list", "stash show", "stash show -p", "worktree list",
        "worktree list --porcelain", "submodule status", "submodule", "config user.name", "config user.email",
        "config --get user.name", "config --get user.email", "config --get init.defaultBranch",
    )
)  # fmt: skip


def _one_more(subcommand: str, words: list[str | None]) -> bool:
    """`symbolic-ref NAME` shows; with one argument more it sets."""
    return subcommand == "symbolic-ref" and len(words) == 1 and not (words[0] or "-").startswith("-")


def _ranges(parsed: Parsed) -> list[Word]:
    """`-L 1,5:file`: the file behind the range."""
    return parsed.values("-L")
