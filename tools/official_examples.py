"""Fetches what the tests need of the official Python SDK, below the prefix of this Python.

`python -m tools.official_examples` fetches the examples of the installed version, which only its source
distribution has, and installs the pre-release with version 2 of the protocol in an environment of its own.
"""

import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(sys.prefix) / "official-sdk"
PRERELEASE = FOLDER / "prerelease"
PACKAGE = "agent-client-protocol"
PRERELEASE_VERSION = "1.0.0rc3"


def main() -> int:
    """Fetch what is not there. Without a registry, say so: the tests that need it are skipped."""
    if not (FOLDER / "examples").is_dir():
        _fetch_examples()
    if not PRERELEASE.is_dir():
        _install_prerelease()
    return 0


def _install_prerelease() -> None:
    subprocess.run([sys.executable, "-m", "venv", PRERELEASE], check=True)
    python = PRERELEASE / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    options = ("--quiet", "--disable-pip-version-check")
    pip = [python, "-m", "pip", "install", *options, f"{PACKAGE}=={PRERELEASE_VERSION}"]
    if subprocess.run(pip, stderr=subprocess.DEVNULL, check=False).returncode:
        shutil.rmtree(PRERELEASE)
        print("The pre-release of the official SDK cannot be fetched: the tests that need it are skipped.")


def _fetch_examples() -> None:
    options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary", ":all:")
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", *options, "--dest", folder]
        try:
            subprocess.run([*pip, f"{PACKAGE}=={version(PACKAGE)}"], check=True, stderr=subprocess.DEVNULL)
        except subprocess.CalledProcessError:
            print("The examples of the official SDK cannot be fetched: the tests that need them are skipped.")
            return
        [archive] = Path(folder).glob("*.tar.gz")
        subprocess.run(["tar", "-xzf", archive, "-C", folder], check=True)
        [unpacked] = Path(folder).glob("*/examples")
        shutil.copytree(unpacked, FOLDER / "examples")


if __name__ == "__main__":
    sys.exit(main())
