"""Fetches the examples of the official Python SDK, which only its source distribution has.

`python -m tools.official_examples` puts those of the installed version below the prefix of this Python.
"""

import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(sys.prefix) / "official-sdk"
PACKAGE = "agent-client-protocol"


def main() -> int:
    """Fetch them unless they are there. Without a registry, say so: the tests that need them are skipped."""
    if (FOLDER / "examples").is_dir():
        return 0
    options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary", ":all:")
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", *options, "--dest", folder]
        try:
            subprocess.run([*pip, f"{PACKAGE}=={version(PACKAGE)}"], check=True, stderr=subprocess.DEVNULL)
        except subprocess.CalledProcessError:
            print("The examples of the official SDK cannot be fetched: the tests that need them are skipped.")
            return 0
        [archive] = Path(folder).glob("*.tar.gz")
        subprocess.run(["tar", "-xzf", archive, "-C", folder], check=True)
        [unpacked] = Path(folder).glob("*/examples")
        shutil.copytree(unpacked, FOLDER / "examples")
    return 0


if __name__ == "__main__":
    sys.exit(main())
