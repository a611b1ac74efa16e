"""The public names of the package: all there, all loaded late."""

import subprocess
import sys

import accord


def test_every_public_name_is_there():
    for name in accord.__all__:
        assert getattr(accord, name) is not None, name


def test_importing_the_package_loads_none_of_its_rooms():
    code = "import accord, sys; print([name for name in sys.modules if name.startswith('accord.')])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_an_agent_does_not_load_the_client():
    code = "import accord, sys; accord.Agent; print('accord.client' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
