"""Which paths are inside the roots and which are secret: links, `..`, spellings."""

from pathlib import Path

import pytest
from tests.policy.project import Project, granted

from accord.errors import UsageError
from accord.policy import Policy, SessionDirectories, is_secret


def test_a_path_is_inside_when_its_resolved_form_is_in_a_root(project: Project):
    for path in (
        "a.py",
        "./src/../a.py",
        "new/folder/file",
        project.extra / "more.txt",
        "inside_link/main.py",
        ".",
    ):
        assert project.decide(project.read(path)).effect == "allow", path
    for path in (
        "..", "../elsewhere/other.txt", "leads_out", "leads_out/other.txt", "src/../../x", "/", "/etc/passwd",
        "~", "~/notes/todo.md", project.home, project.root.parent, str(project.root) + "x",
        str(project.root).upper(),
    ):  # fmt: skip
        assert project.decide(project.read(path)).effect == "ask", path


def test_dotdot_after_a_link_starts_at_the_target_of_the_link(project: Project):
    assert project.decide(project.read("leads_out/../work/a.py")).effect == "allow"
    assert project.decide(project.read("leads_out/../home/x")).effect == "ask"


@pytest.mark.parametrize("path", ["", "a\0b", "x" * 5000, "\ud800"])
def test_an_invalid_path_is_never_inside(project: Project, path: str):
    assert project.decide(project.read(path)).effect == "ask"
    assert project.decide(project.edit(path, mode="workspace-write")).effect == "ask"


def test_a_root_must_be_absolute():
    with pytest.raises(UsageError, match="absolute"):
        SessionDirectories.of("work")


SECRETS = """
.env .env.local .env.production prod.env .envrc .netrc _netrc .npmrc .pypirc .pgpass .git-credentials
id_rsa id_ed25519 id_ecdsa_sk server.pem tls.key cert.p12 a.pfx store.jks vault.kdbx me.ppk
credentials.json service-account.json service_account_prod.json client_secret_1.json secrets.yml
secrets.json .secrets token.json .token auth.json .bash_history .zsh_history terraform.tfstate
prod.tfvars .htpasswd .vault-token .s3cfg .boto .dockercfg .my.cnf prod.kubeconfig .ENV Id_Rsa
SERVER.PEM rclone.conf .yarnrc.yml .ssh/config .ssh/id_foo .ssh/known_hosts .aws/credentials
.aws/config .kube/config .gnupg/x .docker/config.json .azure/x .config/gcloud/x
.config/gh/hosts.yml .cargo/credentials.toml .cargo/credentials .password-store/x.gpg .config/op/x
"""
NO_SECRETS = """
.env.example .env.sample .env.template env environment.py token.py secrets.py credentials.ts
id_rsa.pub .ssh/id_rsa.pub keys.py key.md README.md package.json .gitignore config.json
docker/config.json kube/config pem.py monkey turkey.txt history.md test_token.py secrets.md
src/secret/main.py tokenizer.json .eslintrc .prettierrc Makefile
"""


@pytest.mark.parametrize("name", SECRETS.split())
def test_a_secret_is_asked_for_in_every_mode(project: Project, name: str):
    assert is_secret(Path("/x") / name)
    for mode in ("read-only", "ask", "workspace-write", "full-access", "plan"):
        decision = project.decide(project.read(name, mode=mode))
        assert (decision.effect, decision.rule) == ("ask", "secret")
        assert project.decide(project.run(f"cat '{name}'", mode=mode)).effect == "ask"


@pytest.mark.parametrize("name", NO_SECRETS.split())
def test_a_file_that_only_resembles_a_secret_is_allowed(project: Project, name: str):
    assert project.decide(project.read(name)).effect == "allow"


def test_ambiguous_names_are_secret_only_when_they_are_files(project: Project, tmp_path: Path):
    (tmp_path / "token").write_text("x")
    (tmp_path / "secrets").mkdir()
    directories = SessionDirectories.of(tmp_path)
    assert project.decide(project.read("token", directories=directories)).effect == "ask"
    assert project.decide(project.read("secrets/main.py", directories=directories)).effect == "allow"
    assert project.decide(project.read("token")).effect == "allow"


def test_a_link_to_a_secret_is_secret(project: Project):
    decision = project.decide(project.read("harmless_name"))
    assert (decision.effect, decision.rule) == ("ask", "secret")


def test_the_files_of_accord_are_secret(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path / "own"))
    directories = SessionDirectories.of(tmp_path)
    for path in ("own/data/trust/x.json", "own/config/config.json"):
        for request in (
            project.read(path, directories=directories),
            project.edit(path, directories=directories),
        ):
            assert project.decide(request).rule == "secret"
    assert (
        project.decide(project.edit("own/data/x", directories=directories, mode="full-access")).effect
        == "ask"
    )


def test_a_search_leaves_out_files_that_would_be_asked_for(project: Project):
    policy = Policy()
    request = project.request(tool="grep", category="read-only", kind="search", paths=(project.root,))
    found = [
        project.root / name
        for name in ("a.py", ".env", "certs/server.pem", "harmless_name", "leads_out/other.txt")
    ]
    assert [path.name for path in found if policy.may_show(path, request)] == ["a.py"]


def test_always_for_a_path_covers_only_that_path_and_tool(project: Project):
    grants = granted((project.read(".env"), "allow_always"), (project.edit("../elsewhere/x"), "allow_always"))
    assert project.decide(project.read(".env", grants=grants)).effect == "allow"
    assert project.decide(project.read("./src/../.env", grants=grants)).effect == "allow"
    assert project.decide(project.read("certs/server.pem", grants=grants)).effect == "ask"
    assert project.decide(project.edit(".env", grants=grants)).effect == "ask"
    assert project.decide(project.edit("../elsewhere/x", grants=grants)).effect == "allow"
    assert project.decide(project.edit("../elsewhere/y", grants=grants)).effect == "ask"
    assert project.verdict("cat .env", grants=grants) == "ask"
