"""Writing outside the roots, by every way that comes to mind."""

import os
from pathlib import Path

import pytest
from tests.policy.sandbox.cage import Cage, refused


def test_the_roots_and_the_private_folders_can_be_written(cage: Cage):
    lines = cage.attempt(
        "attempt(write, 'new.txt'); attempt(os.mkdir, 'folder'); attempt(os.rename, 'new.txt', 'folder/new.txt')\n"
        "attempt(os.link, 'folder/new.txt', 'linked'); attempt(os.symlink, 'linked', 'pointed')\n"
        "attempt(write, os.path.join(os.environ['TMPDIR'], 'x')); attempt(write, os.path.expanduser('~/y'))"
    )
    assert [line.split(":")[0] for line in lines] == ["done"] * 7
    assert (cage.project / "linked").read_text() == "intruder"
    assert cage.untouched()


def test_by_absolute_path(cage: Cage):
    lines = cage.attempt(
        "v = sys.argv[1]; d = os.path.dirname(v)\n"
        "for mode in ('w', 'a', 'r+'): attempt(write, v, mode)\n"
        "attempt(write, d + '/new'); attempt(os.mkdir, d + '/folder'); attempt(os.remove, v); attempt(os.truncate, v, 0)\n"
        "attempt(os.symlink, '/', d + '/link'); attempt(os.mkfifo, d + '/fifo'); attempt(os.rmdir, d)",
        cage.victim,
    )
    assert refused(lines)
    assert cage.untouched()


@pytest.mark.parametrize(
    "way", ["{root}/../../../outside", "/proc/self/root{outside}", "/proc/self/cwd/../../../outside"]
)
def test_by_a_way_round(cage: Cage, way: str):
    path = way.format(root=cage.project, outside=cage.outside)
    assert refused(
        cage.attempt("attempt(write, sys.argv[1] + '/victim'); attempt(write, sys.argv[1] + '/new')", path)
    )
    assert cage.untouched()


def test_through_links_that_lead_out(cage: Cage):
    (cage.project / "file").symlink_to(cage.victim)
    (cage.project / "folder").symlink_to(cage.outside)
    lines = cage.attempt(
        "attempt(write, 'file'); attempt(write, 'folder/new')\n"
        "os.symlink(sys.argv[1], 'own'); attempt(write, 'own/victim')",
        cage.outside,
    )
    assert refused(lines)
    assert cage.untouched()


def test_by_moving_and_hard_links(cage: Cage):
    lines = cage.attempt(
        "v = sys.argv[1]\n"
        "attempt(os.rename, 'main.py', v); attempt(os.rename, v, 'stolen'); attempt(os.link, v, 'linked')\n"
        "attempt(os.link, 'main.py', v + '2'); attempt(os.replace, os.getcwd(), v + '3')",
        cage.victim,
    )
    assert refused(lines)
    assert (cage.project / "main.py").exists()
    assert cage.untouched()


def test_the_home_folder_and_the_parent_of_a_root_stay_as_they_are(cage: Cage):
    cage.shell(
        f"mkdir ~/made; echo x > ~/.bashrc; echo x > '{cage.home}/.profile'; echo x > ../beside; mkdir '{cage.home}/dir'"
    )
    assert cage.untouched()


def test_through_the_root_of_a_process_outside(cage: Cage):
    path = f"/proc/{os.getpid()}/root{cage.victim}"
    assert refused(
        cage.attempt(
            "attempt(write, sys.argv[1]); attempt(write, '/proc/1/root' + sys.argv[2])", path, cage.victim
        )
    )
    assert cage.untouched()


def test_the_kernels_settings(cage: Cage):
    """Root may write them, also from within namespaces; a program named in one of them would run outside."""
    settings = ["/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/vm/drop_caches"]
    lines = cage.attempt(
        "for path in sys.argv[1:]: attempt(os.open, path, os.O_WRONLY)", *filter(os.path.exists, settings)
    )
    assert refused(lines)


def test_by_devices_mounts_and_namespaces(cage: Cage):
    lines = cage.attempt(
        "attempt(os.mknod, 'disk', 0o60600, os.makedev(8, 0)); attempt(os.chroot, '.')\n"
        "def mount():\n"
        "    if libc.mount(b'none', b'.', b'tmpfs', 0, None): raise OSError(ctypes.get_errno(), 'mount')\n"
        "attempt(mount)"
    )
    assert refused(lines)
    assert not (cage.project / "disk").exists()


def test_a_namespace_of_its_own_brings_nothing_back(cage: Cage):
    cage.shell(
        f"unshare --user --map-root-user --mount sh -c 'umount -l /tmp ~; mount -t proc proc /proc; mount -o remount,rw /;"
        f" echo x > {cage.victim}; echo x > {cage.outside}/new; mkdir {cage.home}/made'"
    )
    assert cage.untouched()


def test_writing_to_a_read_only_root_of_tools_fails(cage: Cage):
    assert refused(
        cage.attempt(
            "attempt(write, '/usr/bin/planted'); attempt(write, '/etc/planted'); attempt(write, '/planted')"
        )
    )


def test_what_makes_git_run_programs_is_read_only(mounted: Cage):
    git = mounted.project / ".git"
    (git / "hooks").mkdir(parents=True)
    (git / "config").write_text("[core]\n")
    (mounted.project / ".accord").mkdir()
    lines = mounted.attempt(
        "attempt(write, '.git/hooks/post-checkout'); attempt(write, '.git/config'); attempt(os.rename, '.git', 'git2')\n"
        "attempt(os.rename, '.git/hooks', '.git/hooks2'); attempt(os.remove, '.git/config'); attempt(write, '.accord/rules')\n"
        "attempt(os.rename, '.accord', 'x')"
    )
    assert refused(lines)
    assert mounted.attempt("attempt(write, '.git/index')") == ["done: 8"]


def test_a_command_cannot_lead_the_next_one_astray(cage: Cage):
    """What is mounted or linked into the private home must not follow what a command planted there."""
    (cage.home / ".local" / "bin").mkdir(parents=True)
    cage.shell(
        f"mv ~/src ~/src2; mv ~/.local ~/.local2; rm -rf ~/.local; rmdir ~/src;"
        f"ln -s {cage.outside} ~/src; ln -s /oldroot{cage.outside} ~/.local; ln -s {cage.outside} ~/.cargo"
    )
    assert cage.run("true").code == 0
    (cage.home / ".local" / "bin").rmdir()
    (cage.home / ".local").rmdir()
    assert cage.untouched()


def test_a_folder_swapped_for_a_link_is_not_followed_into_the_next_command(cage: Cage):
    """PATH and an extra root lead through the project, where commands can change what they find."""
    (cage.project / "bin").mkdir()
    (cage.project / "deep" / "root").mkdir(parents=True)
    cage.env["PATH"] = f"{cage.project}/bin:/usr/bin:/bin"
    cage.options["writable"] = [cage.project / "deep" / "root"]
    assert (
        cage.shell(
            f"rm -rf bin deep; ln -s {cage.outside} bin; mkdir deep; ln -s {cage.outside} deep/root"
        ).code
        == 0
    )
    cage.sandbox.scan()
    assert refused(
        cage.attempt("attempt(os.listdir, sys.argv[1]); attempt(write, 'deep/root/victim')", cage.outside)
    )
    assert cage.untouched()


def test_a_file_system_of_its_own_keeps_modes_and_times_too(mounted: Cage):
    lines = mounted.attempt(
        "attempt(os.chmod, sys.argv[1], 0o777); attempt(os.utime, sys.argv[1])", mounted.victim
    )
    assert refused(lines)


def test_landlock_says_that_modes_can_be_changed(landlocked: Cage):
    assert "modes and times of files also elsewhere" in landlocked.sandbox.boundary.fact("writes").text


def test_the_private_folder_goes_with_the_sandbox(cage: Cage, tmp_path: Path):
    cage.shell("mkdir -p ~/a/b && chmod 500 ~/a/b ~/a && echo x > $TMPDIR/x")
    private = Path(cage.sandbox.private.path)
    assert private.exists()
    cage.close()
    assert not private.exists()
