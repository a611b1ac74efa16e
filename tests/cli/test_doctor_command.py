"""`accord doctor` on the coding agent: config, models, keys, store and ripgrep, with advice for each."""

import asyncio
import os
from pathlib import Path

import pytest
from tests.accord_command import run_accord

from accord.coder.models.credentials import save_key
from accord.store import open_store
from accord.testing.model_script import ModelFault
from accord.testing.model_server import ModelServer, Provider

KEY = "sk-test-0123456789abcdef"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in os.environ:
        if name.endswith(("_API_KEY", "_BASE_URL", "_MODEL")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path))
    return tmp_path


def doctor(*words: str, code: int = 0) -> dict[str, str]:
    """Return the report by the first word of its lines."""
    run = run_accord("doctor", *words)
    assert (run.returncode, run.stderr) == (code, "")
    assert KEY not in run.stdout
    return {line.split()[0]: line.partition(" ")[2].strip() for line in run.stdout.splitlines()}


def configure(home: Path, text: str) -> Path:
    file = home / "config" / "config.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


def test_the_doctor_on_a_fresh_machine_creates_nothing(home: Path) -> None:
    report = doctor()
    assert report["config"] == f"none       {home}/config/config.toml does not exist"
    assert report["model"].startswith("ready      rehearsal: no AI")
    assert "accord agent --login" in report["model"]
    assert report["google"] == "no key     set GOOGLE_API_KEY or run `accord agent --login google`"
    assert report["store"] == f"none       {home}/data/sessions.db; the first session creates it"
    assert report["ripgrep"].startswith(("found", "missing"))
    assert report["next"].startswith("accord tour ")
    assert list(home.iterdir()) == []


def test_the_doctor_shows_where_keys_are_but_not_the_keys(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    save_key("openai", KEY)
    file = configure(home, '[endpoints.here]\nbase_url = "http://localhost:1234/v1"\nmodel = "m"\n')
    report = doctor()
    assert report["config"] == f"valid      {file}"
    assert report["model"].startswith("ready      openai:")
    assert report["openai"] == f"ready      key from {home}/config/credentials.json"
    assert report["google"] == "ready      key from GEMINI_API_KEY"
    assert report["here"] == "ready      needs no key at http://localhost:1234/v1"
    assert report["anthropic"].startswith("no key")
    assert report["next"] == 'accord run "Explain this project"   # everything is ready'


def test_a_model_without_its_key_is_reported(home: Path) -> None:
    configure(home, 'model = "anthropic:claude"\n')
    report = doctor()
    assert report["model"].startswith("no key     anthropic:claude: anthropic: no key found")
    assert report["next"].startswith("accord agent --login anthropic ")


def test_fallback_and_small_models_are_checked(home: Path) -> None:
    names = 'fallback_models = ["google:gemini-9", "nope:x"]\nsmall_model = "here:tiny"\n'
    configure(home, names + '[endpoints.here]\nbase_url = "http://localhost:1234/v1"\n')
    report = doctor(code=1)
    assert report["small"] == "ready      here:tiny: chosen in the config"
    assert report["fallback"].startswith("BROKEN     'nope:x' names no known provider (anthropic, ")
    assert report["next"].endswith("broken: fallback")
    configure(home, 'fallback_models = ["google:gemini-9"]')
    assert doctor()["fallback"].startswith(
        "no key     google:gemini-9: google: no key found; set GOOGLE_API_KEY"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model = [", "not valid TOML"),
        (
            '[endpoints.rehearsal]\nbase_url = "http://localhost:1/v1"',
            "endpoints.rehearsal: the name is built in",
        ),
        ('modle = "x"', "modle"),
        ('mode = "yolo"', "mode: 'yolo' is not one of"),
        ('[permissions]\nallow = [{tol = "bash"}]', "permissions"),
    ],
)
def test_a_broken_config_is_reported_and_exits_with_1(home: Path, text: str, expected: str) -> None:
    file = configure(home, text)
    report = doctor(code=1)
    assert report["config"].startswith(f"BROKEN     {file}")
    assert expected in report["config"]
    assert report["model"].startswith("unknown")
    assert report["next"].endswith("broken: config")


def test_keys_that_others_can_read_exit_with_1(home: Path) -> None:
    save_key("openai", KEY).chmod(0o644)
    assert "chmod 600" in doctor(code=1)["model"]


def test_an_invalid_store_exits_with_1(home: Path) -> None:
    open_store().close()
    path = home / "data" / "sessions.db"
    report = doctor()
    assert report["store"] == f"opens      {path}"
    assert report["next"].startswith("accord agent --login ")
    path.write_text("a text saved in its place")
    assert f"BROKEN     {path} is not a session store" in doctor(code=1)["store"]


async def test_online_each_key_and_address_is_tested_in_all_formats(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        ModelServer(models=["a", "b"]) as working,
        ModelServer(listing=ModelFault(401, f"bad key {KEY}")) as refusing,
        ModelServer(listing=ModelFault(404)) as listless,
    ):
        servers: dict[Provider, ModelServer] = {"openai": working, "anthropic": working, "google": refusing}
        for provider, server in servers.items():
            monkeypatch.setenv(f"{provider.upper()}_API_KEY", KEY)
            monkeypatch.setenv(f"{provider.upper()}_BASE_URL", server.base_url(provider))
        configure(
            home,
            f'[endpoints.work]\nkind = "openai-responses"\nbase_url = "{working.base_url()}"\n'
            f'[endpoints.other]\nbase_url = "{listless.base_url()}"\n'
            '[endpoints.gone]\nbase_url = "http://127.0.0.1:9/v1"\n',
        )
        monkeypatch.setenv("ACCORD_MODEL", "mine:a")  # a server that only its variable names
        monkeypatch.setenv("MINE_BASE_URL", working.base_url())
        report = await asyncio.to_thread(doctor, "--online", code=1)
    assert report["openai"].startswith("works      2 models; key from OPENAI_API_KEY at http://127.0.0.1:")
    assert report["anthropic"].startswith("works      2 models; ")
    assert report["work"].startswith("works      2 models; needs no key at ")
    assert report["google"].startswith("BROKEN     the key was refused (401): bad key ***; check GOOGLE_API")
    assert report["other"].startswith("answers    it lists no models; needs no key at")
    assert report["gone"].startswith(
        "BROKEN     the connection at http://127.0.0.1:9/v1 failed: connection ref"
    )
    assert report["mine"].startswith("works      2 models; needs no key at ")
    assert len(working.listings) == 4


def test_the_doctor_names_the_web_search_that_would_be_used(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = run_accord("agent", "--login", "brave", stdin=f"{KEY}\n".encode())
    assert (stored.returncode, 'search = "brave" under [web]' in stored.stderr) == (0, True)
    found = '[web] search = "auto" would use: Brave Search, key from credentials.json'
    assert doctor()["search"] == f"off        {found}"
    configure(home, '[web]\nsearch = "searxng"\n')
    assert doctor()["search"].startswith("missing    SearXNG needs an address: set SEARXNG_URL")
    configure(home, '[web]\nsearch = "auto"\n')
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    assert doctor()["search"] == "ready      the search of anthropic, billed by it"


def test_the_doctor_names_skills_and_agents_and_files_that_cannot_be_used(home: Path) -> None:
    for name, text in {"pdf": "---\ndescription: D\n---\nP", "broken": "no header"}.items():
        file = home / "config" / "skills" / name / "SKILL.md"
        file.parent.mkdir(parents=True)
        file.write_text(text)
    agent = home / "config" / "agents" / "reviewer.md"
    agent.parent.mkdir()
    agent.write_text("---\ndescription: D\n---\nP")
    lines = run_accord("doctor").stdout.splitlines()
    assert "skills     1          pdf" in lines
    assert "sub-agents 1          reviewer" in lines
    [remark] = [line for line in lines if line.startswith("skills     remark")]
    assert "broken/SKILL.md`: it does not begin with a `---` header" in remark


def test_the_doctor_names_mcp_servers_and_entries_that_cannot_be_used(home: Path) -> None:
    configure(home, '[mcp.clock]\ncommand = "uvx"\n[mcp.typo]\ncomand = "uvx"\n')
    found = [line for line in run_accord("doctor").stdout.splitlines() if line.startswith("mcp ")]
    assert found[0] == "mcp        1          clock; `/mcp` shows their state"
    assert "mcp.typo.comand: unknown key" in found[1]
