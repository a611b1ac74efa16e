"""Git commands that run without a question start no program of the project and show no secret file."""

import shutil
from pathlib import Path

import pytest
from tests.coder.tools.git_project import GitProject

from accord.policy import MODES
from accord.policy.secret_files import is_secret

READING = (
    "git status; git status -s; git diff; git diff HEAD; git log -p -2; git log -1 --format=%G?; git show; "
    "git grep -n text; git blame main.txt; git describe --dirty --always; git ls-files -m; "
    "git diff-index -p HEAD; git diff-files -p; git diff-tree -p HEAD; git submodule status; "
    "git stash show -p; git log -G text; "
    "git cat-file -p HEAD; git show HEAD:main.txt; git log --show-pulls -S text; git reflog; git branch -vv"
)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a submodule, a stash, changed files, and a commit that says it is signed."""
    folder = tmp_path_factory.mktemp("template")
    library = folder / "library"
    library.mkdir()
    (folder / "project").mkdir()
    made = GitProject(folder / "project")
    made.git("init", "-q", "-b", "main", ".", folder=library)
    made.git("commit", "-q", "--allow-empty", "-m", "library", folder=library)
    (library / "code.txt").write_text("text\n")
    made.git("add", ".", folder=library)
    made.git("commit", "-q", "-m", "code", folder=library)
    made.commit("first", **{"main.txt": "text\n", ".gitattributes": "*.txt diff=evil filter=evil\n"})
    made.git("submodule", "add", "-q", str(library), "lib")
    made.commit("second", **{"main.txt": "text\nmore\n"})
    made.write("main.txt", "stashed text\n")
    made.git("stash", "-q")
    raw = made.git("cat-file", "commit", "HEAD").replace(
        "\n\n", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n", 1
    )
    made.write("commit", raw)
    made.git("reset", "-q", "--soft", made.git("hash-object", "-t", "commit", "-w", "commit").strip())
    (made.root / "commit").unlink()
    made.write("main.txt", "other text\n")
    made.write("lib/code.txt", "other text\n")
    return folder


@pytest.fixture
def project(tmp_path: Path, template: Path) -> GitProject:
    """A copy of the template."""
    shutil.copytree(template, tmp_path, symlinks=True, dirs_exist_ok=True)
    return GitProject(tmp_path / "project")


def plant(project: GitProject, what: str) -> None:
    """Let the repository name a program, in one of the ways that git knows."""
    program = project.program("evil")
    hooks = project.root / ".git" / "hooks"
    if what == "hooksPath":
        folder = project.root.parent / "hooks"
        folder.mkdir()
        (folder / "post-index-change").symlink_to(program)
        project.git("config", "core.hooksPath", str(folder))
    elif what == "hook":
        hooks.mkdir(exist_ok=True)
        (hooks / "post-index-change").symlink_to(program)
    elif what == "include":
        project.write(
            "settings.inc", f'[core]\n\tfsmonitor = {program}\n[filter "evil"]\n\tclean = {program}\n'
        )
        project.git("config", "include.path", "../settings.inc")
    elif what == "submodule":
        project.git("config", "core.fsmonitor", program, folder=project.root / "lib")
    elif what == "worktree config":
        project.git("config", "extensions.worktreeConfig", "true")
        project.git("config", "--worktree", "core.fsmonitor", program)
    elif what == "signature":
        project.git("config", "gpg.program", program)
        project.git("config", "log.showSignature", "true")
    else:
        project.git("config", what, program)


@pytest.mark.parametrize(
    "what",
    [
        "core.fsmonitor",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "filter.evil.clean",
        "filter.evil.process",
        "gpg.program",
        "signature",
        "hooksPath",
        "hook",
        "include",
        "submodule",
        "worktree config",
    ],
)
async def test_a_program_of_the_configuration_does_not_run(project: GitProject, what: str):
    plant(project, what)
    project.plain(READING)
    assert project.marker.exists(), "this configuration runs nothing, so the test would prove nothing"
    project.marker.unlink()
    (project.root / "main.txt").touch()
    assert [line for line in READING.split("; ") if project.verdict(line) != "allow"] == []
    output = await project.run(READING)
    assert not project.marker.exists(), output
    assert "other text" in output


@pytest.mark.parametrize("how", ["filter", "conditional include"])
async def test_a_program_of_a_repository_inside_does_not_run(project: GitProject, how: str):
    """Git looks into a submodule, also into one that is a repository of its own and not in .gitmodules."""
    inner = project.root / "inner"
    inner.mkdir()
    project.git("init", "-q", "-b", "main", ".", folder=inner)
    project.write("inner/code.txt", "text\n")
    project.write("inner/.gitattributes", "* filter=inner\n")
    project.git("add", ".", folder=inner)
    project.git("commit", "-q", "-m", "inner", folder=inner)
    project.git("add", "inner")
    settings = project.write("settings.inc", f'[filter "inner"]\n\tclean = {project.program("evil")}\n')
    condition = "include" if how == "filter" else f"includeIf.gitdir:{inner}/"
    project.git("config", f"{condition}.path", str(settings), folder=inner)
    project.write("inner/code.txt", "else\n")
    project.plain("git status")
    assert project.marker.exists(), "this configuration runs nothing, so the test would prove nothing"
    project.marker.unlink()
    project.write("inner/code.txt", "more\n")
    assert project.verdict("git status; git diff; git describe --dirty --always") == "allow"
    output = await project.run("git status; git diff; git describe --dirty --always")
    assert not project.marker.exists(), output
    assert project.verdict("timeout 9 git status") == "deny"


@pytest.mark.parametrize("content", ["", "gitdir: ..", "gitdir: ../.git"])
async def test_a_submodule_that_leads_back_to_its_repository_is_no_endless_search(
    project: GitProject, content: str
):
    (project.root / "lib" / ".git").write_text(content)
    assert project.verdict("git log --oneline") == "allow"
    assert "second" in await project.run("git log --oneline")


async def test_a_program_at_the_end_of_a_long_configuration_does_not_run(project: GitProject):
    with (project.root / ".git" / "config").open("a") as file:
        file.write("# nothing\n" * 120_000)
        file.write(f'[filter "evil"]\n\tclean = {project.program("evil")}\n')
    project.plain("git diff")
    assert project.marker.exists(), "this configuration runs nothing, so the test would prove nothing"
    project.marker.unlink()
    project.write("main.txt", "third text\n")
    await project.run("git status; git diff")
    assert not project.marker.exists()


async def test_a_search_in_the_reflog_asks(project: GitProject):
    """It converts files to text, and no option of `git reflog` switches that off."""
    project.git("config", "diff.evil.textconv", project.program("evil"))
    project.plain("git reflog -G text")
    assert project.marker.exists(), "this configuration runs nothing, so the test would prove nothing"
    for line in ("git reflog -G text", "git reflog show -Stext"):
        assert project.verdict(line) == "deny"
        assert project.verdict(line, "ask") == "ask"


async def test_a_filter_with_an_unusual_name_does_not_run(project: GitProject):
    """The name of a filter may contain anything but a line break."""
    name = """x" 'y' $(z) `w` \\ .clean"""
    project.git("config", f"filter.{name}.clean", project.program("evil"))
    project.git("config", "filter.evil.clean", project.program("evil"))
    await project.run("git status; git diff")
    assert not project.marker.exists()


async def test_missing_objects_are_not_fetched(project: GitProject, tmp_path: Path):
    """A partial clone fetches what is missing, with a program that its configuration may name."""
    project.git("config", "uploadpack.allowFilter", "true")
    project.git("stash", "drop", "-q")
    clone = tmp_path / "clone"
    project.git("clone", "-q", "--filter=blob:none", "--no-checkout", f"file://{project.root}", str(clone))
    project.git("config", "remote.origin.uploadpack", project.program("evil", "exit 1"), folder=clone)
    other = GitProject(clone)
    other.plain("git log -p")
    assert project.marker.exists(), "the clone is complete, so the test would prove nothing"
    project.marker.unlink()
    await other.run("git log -p; git show HEAD:main.txt; git grep text HEAD; git cat-file -p HEAD:main.txt")
    assert not project.marker.exists()


@pytest.mark.parametrize(
    "line",
    [
        "/usr/bin/git status",
        "timeout 9 git status",
        "env git status",
        "sh -c 'git status'",
        "command git status",
    ],
)
def test_git_that_another_program_starts_is_asked_about_if_it_may_run_something(
    project: GitProject, line: str
):
    """The function of the shell is not used there, so the programs cannot be switched off."""
    assert project.verdict(line) == "allow"
    project.git("config", "core.fsmonitor", project.program("evil"))
    assert (project.verdict(line), project.verdict(line, "ask")) == ("deny", "ask")


@pytest.mark.parametrize(
    "line",
    [
        "git branch --contains {commit}",
        "git branch --merged {commit}",
        "git branch --merged",
        "git branch --sort refname --no-contains {commit}",
        "git tag --contains {commit}",
    ],
)
async def test_lists_fetch_no_missing_commits(project: GitProject, tmp_path: Path, line: str):
    project.git("tag", "v1")
    clone = tmp_path / "clone"
    project.git("clone", "-q", "--no-recurse-submodules", str(project.root), str(clone))
    other = GitProject(clone)
    commit = other.git("rev-parse", "HEAD~1").strip()
    (clone / ".git" / "objects" / commit[:2] / commit[2:]).unlink()
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.uploadpack": project.program("evil", "exit 1"),
    }.items():
        other.git("config", key, value)
    other.plain(line.format(commit=commit))
    assert project.marker.exists(), "nothing is fetched, so the test would prove nothing"
    project.marker.unlink()
    assert other.verdict(line.format(commit=commit)) == "allow"
    await other.run(line.format(commit=commit))
    assert not project.marker.exists()


@pytest.mark.parametrize("head", ["file", "link", "other folder"])
def test_a_folder_that_git_takes_for_a_bare_repository_is_asked_about(project: GitProject, head: str):
    """A clone may contain such a folder, with a configuration that names programs."""
    bare = project.root / "docs"
    store = project.root / "store" if head == "other folder" else bare
    bare.mkdir()
    for name in ("objects", "refs"):
        (store / name).mkdir(parents=True)
    (store / "config").write_text(f"[core]\n\tfsmonitor = {project.program('evil')}\n")
    if head == "link":
        (bare / "HEAD").symlink_to("refs/heads/none")
    else:
        (bare / "HEAD").write_text("ref: refs/heads/main\n")
    if head == "other folder":
        (bare / "commondir").write_text("../store\n")
    assert project.git("rev-parse", "--absolute-git-dir", folder=bare).strip() == str(bare)
    for line in ("git -C docs status", "cd docs && git log", "cd docs && /usr/bin/git log"):
        assert (project.verdict(line), project.verdict(line, "ask")) == ("deny", "ask")
    assert project.verdict("git status") == "allow"


def test_a_git_folder_that_git_passes_over_is_asked_about(project: GitProject):
    (project.root / "docs" / ".git").mkdir(parents=True)
    project.git("config", "filter.evil.clean", project.program("evil"))
    assert project.verdict("cd docs && git status", "ask") == "ask"
    assert project.verdict("git status") == "allow"


@pytest.mark.parametrize("pointer", ["gitdir: store \n", "gitdir: link/../store \r\n"])
async def test_a_pointer_to_the_repository_is_read_like_git_reads_it(tmp_path: Path, pointer: str):
    """Spaces belong to the name, and links are followed before `..`."""
    (tmp_path / "project").mkdir()
    project = GitProject(tmp_path / "project")
    project.commit("first", **{"main.txt": "text\n", ".gitattributes": "*.txt filter=evil\n"})
    (project.root / "deep" / "er").mkdir(parents=True)
    (project.root / "link").symlink_to("deep/er")
    git_dir = project.root / ("deep" if "link" in pointer else ".") / "store "
    (project.root / ".git").rename(git_dir)
    (project.root / "store").mkdir()
    (project.root / ".git").write_text(pointer, newline="")
    project.git("config", "filter.evil.clean", project.program("evil"))
    project.write("main.txt", "else\n")
    project.plain("git status")
    assert project.marker.exists(), "git does not use this repository, so the test would prove nothing"
    project.marker.unlink()
    project.write("main.txt", "more\n")
    assert project.verdict("git status; git diff") == "allow"
    assert "+more" in await project.run("git status; git diff")
    assert not project.marker.exists()


def test_files_of_another_folder_are_asked_about(project: GitProject):
    project.git("config", "core.worktree", str(project.root.parent))
    assert project.verdict("git diff", "ask") == "ask"


async def test_other_git_commands_of_the_line_are_unchanged(project: GitProject):
    """Hooks that the user relies on run when a command is allowed that changes something."""
    project.git("config", "core.fsmonitor", project.program("evil"))
    hook = project.write(".git/hooks/pre-commit", "#!/bin/sh\ntouch hook-ran\n")
    hook.chmod(0o700)
    await project.run("git status && git -c core.fsmonitor=false commit -q -am third && git log -1")
    assert (project.root / "hook-ran").exists()


# -- secrets -------------------------------------------------------------------------------------------------

SECRET = "the-secret-itself"
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


@pytest.fixture(scope="session")
def secrets_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Secrets in the working tree, in the index, in the last commit, and only in the history."""
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "project").mkdir()
    made = GitProject(folder / "project")
    made.commit(
        "old", **{"old/.env.production": f"K={SECRET}\n", "a.txt": "visible\n", ".env.example": "K=\n"}
    )
    made.git("rm", "-q", "-r", "old")
    files = (".env", "src/.ENV", "src/deploy.pem", "id_rsa", "src/token", ".aws/config", "x/credentials.json")
    made.commit("secrets", **dict.fromkeys(files, f"{SECRET}\n"), **{"src/b.txt": "visible too\n"})
    made.write(".env", f"changed {SECRET}\n")
    made.git("stash", "-q")
    made.write("src/token", f"changed {SECRET}\n")
    made.write("a.txt", "visible change\n")
    return folder


@pytest.fixture
def secrets(tmp_path: Path, secrets_template: Path) -> GitProject:
    """A copy of the template."""
    shutil.copytree(secrets_template, tmp_path, symlinks=True, dirs_exist_ok=True)
    return GitProject(tmp_path / "project")


@pytest.mark.parametrize(
    "line",
    [
        "git diff",
        "git diff HEAD~1",
        "git diff --cached HEAD~1",
        "git diff HEAD~1 -- src a.txt",
        "git diff HEAD~1 src a.txt",
        "git diff -a --text HEAD~1 -- .",
        "cd src && git diff HEAD~1",
        "git -C src diff HEAD~1",
        "git show",
        "git show HEAD HEAD~1",
        "git show HEAD~1 -p --stat",
        "git show --format= HEAD~1",
        "git log -p",
        "git log -p --all",
        "git log --oneline -u",
        "git log -U1 --stat",
        "git log --patch -- .",
        "git log -c -p",
        "git log -p --word-diff",
        "git whatchanged -p",
        "git diff-tree -p HEAD~1 HEAD",
        "git diff-index -p HEAD~1",
        "git diff-files -p; git show",
        "git grep -n e",
        "git grep -n -a e HEAD~1",
        "git grep e HEAD -- . ':!nothing'",
        "git log -p | cat",
        "git status && git show && git log -p",
        'x="$(git log -p)"; echo "$x"',
        "for i in 1; do git log -p; done",
        "(git show) | head -500",
    ],
)
async def test_secret_files_are_left_out(secrets: GitProject, line: str):
    assert SECRET in secrets.plain(line), "this line shows no secret, so the test would prove nothing"
    assert secrets.verdict(line) == "allow"
    output = await secrets.run(line)
    assert SECRET not in output
    assert "visible" in output


@pytest.mark.parametrize(
    "first", ["command git log --oneline", "/usr/bin/git log -1", "sh -c 'git log -1'", "timeout 9 git log"]
)
async def test_another_git_command_of_the_line_does_not_show_secrets(secrets: GitProject, first: str):
    """Only a command that the user was asked about shows them."""
    line = f"{first}; git show"
    assert secrets.verdict(line) == "allow"
    assert SECRET not in await secrets.run(line)


async def test_a_stash_is_shown_without_secrets(secrets: GitProject):
    assert secrets.verdict("git stash show -p") == "allow"
    secrets.git("checkout", "-q", ".")
    secrets.write("a.txt", "visible in stash\n")
    secrets.write(".env", f"again {SECRET}\n")
    secrets.git("stash", "-q")
    output = await secrets.run("git stash show -p")
    assert SECRET not in output
    assert "visible in stash" in output


async def test_the_result_names_the_files_that_are_left_out(secrets: GitProject):
    output = await secrets.run("git show")
    assert "[git leaves out files that may hold secrets: .aws/config, .env, id_rsa" in output
    assert ".env.example" not in output.partition("[git leaves out")[2]


async def test_a_commit_with_only_secrets_is_still_listed(secrets: GitProject):
    secrets.git("checkout", "-q", ".")
    secrets.commit("rotate the key", **{".env": f"new {SECRET}\n"})
    for line in ("git log -p -1", "git show"):
        output = await secrets.run(line)
        assert "rotate the key" in output
        assert SECRET not in output


@pytest.mark.parametrize(
    "line",
    [
        "git show HEAD:.env",
        "git show HEAD~1:old/.env.production",
        "git show HEAD:src/token",
        "git show :.env",
        "git show {blob}",
        "git show blob-tag",
        "git cat-file -p {blob}",
        "git cat-file blob {blob}",
        "echo {blob} | git cat-file --batch",
        "git grep . {blob}",
        "git blame .env",
        "git diff -- .env",
        "git log -p -- .env",
        "git log -p --follow a.txt",
        "git log -p --full-diff",
        "git show --full-diff HEAD",
        "git log -L1,1:a.txt",
        "git diff HEAD~1:src HEAD:src",
        "git diff --submodule=diff",
        "git --literal-pathspecs diff HEAD~1 .",
        "git status -v",
        "git reflog -p",
        "git range-diff HEAD~1...HEAD",
        "git stash show -p --text",
        "git archive HEAD",
        "git format-patch -1 --stdout",
        "git fast-export HEAD",
        "git bisect start",
        "/usr/bin/git show",
        "timeout 9 git log -p",
        "bash -c 'git diff'",
        "git rev-list HEAD | xargs git show",
        "git for-each-ref --format='%(raw)'",
        "git for-each-ref --format='%(*raw)'",
        "git tag -l --format '%(*raw)'",
        "git blame -S .env a.txt",
        "git blame -S.env a.txt",
        "git blame HEAD~1 -- secrets",
        "git annotate secrets HEAD~1",
        "git diff {blob} a.txt",
        "git diff {empty} {tree}",
        "git diff {empty}..{tree}",
        "git diff ^{empty} {tree}",
        "git diff --cached {tree}",
        "git diff-tree -p {empty} {tree}",
        "echo {empty} {tree} | git diff-tree -p --stdin",
        "git grep . {tree}",
        "/usr/bin/time git show",
        "\\time git show",
        "LANG=C time git show",
        "unset git; git show",
        "unset x git && git show",
    ],
)
def test_what_cannot_be_left_out_is_asked_about(secrets: GitProject, line: str):
    blob = secrets.git("rev-parse", "HEAD:.env").strip()
    tree = secrets.git("rev-parse", "HEAD:.aws").strip()
    secrets.git("tag", "blob-tag", blob)
    for length in (40, 9):
        names = {"blob": blob[:length], "tree": tree[:length], "empty": EMPTY_TREE}
        assert secrets.verdict(line.format(**names), "ask") == "ask"


@pytest.mark.parametrize(
    "line",
    [
        "git status",
        "git diff",
        "git diff --stat HEAD~1",
        "git diff main -- src a.txt",
        "git diff HEAD~1..HEAD",
        "git diff HEAD^{tree}",
        f"git diff --stat {EMPTY_TREE} HEAD",
        "git log",
        "git log --oneline -5",
        "git log -p -1",
        "git show HEAD",
        "git show HEAD~1 --stat",
        "git show HEAD:a.txt",
        "git grep -n text src",
        "git blame a.txt",
        "git branch -a",
        "git branch --merged",
        "git branch --contains HEAD~1",
        "git tag --contains",
        "git diff -- " + " ".join(f"src/{number}.txt" for number in range(40)),
    ],
)
def test_ordinary_commands_are_not_asked_about(secrets: GitProject, line: str):
    """Although the repository has tracked secrets."""
    for mode in MODES:
        assert secrets.verdict(line, mode) == "allow"


@pytest.mark.parametrize(
    "line",
    ["git archive HEAD", "git format-patch -1 --stdout", "/usr/bin/git show", "git log -p --follow a.txt"],
)
def test_a_sandbox_does_not_hide_tracked_secrets_so_they_are_asked_about(secrets: GitProject, line: str):
    """Git's own files must be readable in the sandbox, and they contain the secrets."""
    assert secrets.verdict(line, "workspace-write", sandboxed=True) == "ask"
    assert secrets.verdict(line, "full-access") == "ask"
    secrets.git("stash", "-q")
    secrets.git("reset", "-q", "--hard", "HEAD~1")
    secrets.git("rm", "-q", "-r", "old")
    assert secrets.verdict(line, "workspace-write", sandboxed=True) == "allow"


async def test_a_secret_that_the_user_agreed_to_is_shown(secrets: GitProject):
    assert SECRET in await secrets.run("git show HEAD:.env")
    assert SECRET in await secrets.run("git log -p -- .env")
    assert SECRET in await secrets.run("git status; git log -p --follow .env")


NAMES = """
.env .Env .env.local .env.production .env.e .env.ex .env.examples .env.sampl .env.test .env.defaultx .env.d
.env.example .env.sample .env.template .env.dist .env.default .env.defaults .env.schema prod.env .envrc
.netrc _netrc .npmrc .pypirc .pgpass .my.cnf .yarnrc.yml .git-credentials .dockercfg .htpasswd .s3cfg .boto
rclone.conf .vault-token .vault-pass .vault_password .terraformrc my.kubeconfig id_rsa id_rsa.bak id_rsa.pub
id_rsa.pu id_dsa_x id_ed25519_sk id_ed25519.pub id_ecdsa.old server.pem SERVER.KEY a.p12 a.pfx a.jks
a.keystore a.kdbx a.ppk a.p8 a.ovpn a.tfstate a.tfvars a.asc.key credentials.json credentials.yml
credentials.tfrc.json service-account.json service_account_x.json client_secret_1.json secrets.yaml
.secret.toml secret.txt .secrets tokens.json .token.txt .token auth.json .bash_history master.key .gitconfig
secrets token my-token api_token credentials shadow kubeconfig environ .ssh/config .ssh/id.pub .gnupg/x
.aws/credentials .kube/config .config/gh/hosts.yml .docker/config.json .cargo/credentials .codex/auth.json
main.py secrets.py token.ts README.md keys/secrets/code.py keys/tokens/x.md environment
"""


async def test_every_secret_name_is_left_out_and_ordinary_names_are_not(tmp_path: Path):
    """The patterns for git agree with the names that file tools treat as secrets."""
    (tmp_path / "project").mkdir()
    project = GitProject(tmp_path / "project")
    for folder in ("one/", "two/three/"):
        for name in NAMES.split():
            project.write(folder + name, "visible\n")
    project.git("add", "-A", "-f")
    project.git("commit", "-q", "-m", "all")
    tracked = set(project.git("ls-files").splitlines())
    shown = set(
        (await project.run("git grep -l visible | cat")).partition("\n[git leaves out")[0].splitlines()
    )
    secret = {name for name in tracked if is_secret(project.root / name)}
    assert len(secret) > 150
    assert shown & secret == set()
    more = {name.rpartition("/")[2] for name in tracked - shown - secret}
    assert more <= {"id.pub"}, "patterns hide more than they should"
