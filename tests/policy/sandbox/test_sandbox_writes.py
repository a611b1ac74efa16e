"""Attempts to write outside the roots of a sandbox."""

import os
from pathlib import Path

import pytest
from tests.policy.sandbox.sandbox_harness import SandboxHarness, refused


def test_roots_and_private_folders_can_be_written(harness: SandboxHarness):
    lines = harness.attempt(
        "attempt(write, 'new.txt'); attempt(os.mkdir, 'folder')\n"
        "attempt(os.rename, 'new.txt', 'folder/new.txt')\n"
        "attempt(os.link, 'folder/new.txt', 'linked'); attempt(os.symlink, 'linked', 'pointed')\n"
        "attempt(write, os.path.join(os.environ['TMPDIR'], 'x')); attempt(write, os.path.expanduser('~/y'))"
    )
    assert [line.split(":")[0] for line in lines] == ["done"] * 7
    assert (harness.project / "linked").read_text() == "intruder"
    assert harness.untouched()


def test_writing_by_absolute_path_is_refused(harness: SandboxHarness):
    lines = harness.attempt(
        "v = sys.argv[1]; d = os.path.dirname(v)\n"
        "for mode in ('w', 'a', 'r+'): attempt(write, v, mode)\n"
        "attempt(write, d + '/new'); attempt(os.mkdir, d + '/folder')\n"
        "attempt(os.remove, v); attempt(os.truncate, v, 0)\n"
        "attempt(os.symlink, '/', d + '/link'); attempt(os.mkfifo, d + '/fifo'); attempt(os.rmdir, d)",
        harness.victim,
    )
    assert refused(lines)
    assert harness.untouched()


@pytest.mark.parametrize(
    "way", ["{root}/../../../outside", "/proc/self/root{outside}", "/proc/self/cwd/../../../outside"]
)
def test_writing_by_an_indirect_path_is_refused(harness: SandboxHarness, way: str):
    path = way.format(root=harness.project, outside=harness.outside_path)
    assert refused(
        harness.attempt("attempt(write, sys.argv[1] + '/victim'); attempt(write, sys.argv[1] + '/new')", path)
    )
    assert harness.untouched()


def test_writing_through_links_is_refused(harness: SandboxHarness):
    (harness.project / "file").symlink_to(harness.victim)
    (harness.project / "folder").symlink_to(harness.outside_path)
    lines = harness.attempt(
        "attempt(write, 'file'); attempt(write, 'folder/new')\n"
        "os.symlink(sys.argv[1], 'own'); attempt(write, 'own/victim')",
        harness.outside_path,
    )
    assert refused(lines)
    assert harness.untouched()


def test_moving_and_hard_linking_across_the_boundary_are_refused(harness: SandboxHarness):
    lines = harness.attempt(
        "v = sys.argv[1]\n"
        "attempt(os.rename, 'main.py', v); attempt(os.rename, v, 'stolen'); attempt(os.link, v, 'linked')\n"
        "attempt(os.link, 'main.py', v + '2'); attempt(os.replace, os.getcwd(), v + '3')",
        harness.victim,
    )
    assert refused(lines)
    assert (harness.project / "main.py").exists()
    assert harness.untouched()


def test_the_home_folder_and_the_parent_of_a_root_are_not_changed(harness: SandboxHarness):
    harness.shell(
        f"mkdir ~/made; echo x > ~/.bashrc; echo x > '{harness.home}/.profile'; "
        f"echo x > ../beside; mkdir '{harness.home}/dir'"
    )
    assert harness.untouched()


def test_writing_through_the_root_of_another_process_is_refused(harness: SandboxHarness):
    path = f"/proc/{os.getpid()}/root{harness.victim}"
    assert refused(
        harness.attempt(
            "attempt(write, sys.argv[1]); attempt(write, '/proc/1/root' + sys.argv[2])", path, harness.victim
        )
    )
    assert harness.untouched()


def test_kernel_settings_cannot_be_written(harness: SandboxHarness):
    """Root can write them, also inside namespaces, and a program named in one of them would run outside."""
    settings = ["/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/vm/drop_caches"]
    lines = harness.attempt(
        "for path in sys.argv[1:]: attempt(os.open, path, os.O_WRONLY)", *filter(os.path.exists, settings)
    )
    assert refused(lines)


def test_devices_mounts_and_chroot_are_refused(harness: SandboxHarness):
    lines = harness.attempt(
        "attempt(os.mknod, 'disk', 0o60600, os.makedev(8, 0)); attempt(os.chroot, '.')\n"
        "def mount():\n"
        "    if libc.mount(b'none', b'.', b'tmpfs', 0, None): raise OSError(ctypes.get_errno(), 'mount')\n"
        "attempt(mount)"
    )
    assert refused(lines)
    assert not (harness.project / "disk").exists()


def test_a_new_namespace_cannot_undo_the_restrictions(harness: SandboxHarness):
    harness.shell(
        f"unshare --user --map-root-user --mount sh -c 'umount -l /tmp ~; "
        f"mount -t proc proc /proc; mount -o remount,rw /;"
        f" echo x > {harness.victim}; echo x > {harness.outside_path}/new; mkdir {harness.home}/made'"
    )
    assert harness.untouched()


def test_system_folders_are_read_only(harness: SandboxHarness):
    assert refused(
        harness.attempt(
            "attempt(write, '/usr/bin/planted'); attempt(write, '/etc/planted'); attempt(write, '/planted')"
        )
    )


def test_git_hooks_git_config_and_accord_folders_are_read_only(mounted: SandboxHarness):
    git = mounted.project / ".git"
    (git / "hooks").mkdir(parents=True)
    (git / "config").write_text("[core]\n")
    (mounted.project / ".accord").mkdir()
    lines = mounted.attempt(
        "attempt(write, '.git/hooks/post-checkout'); attempt(write, '.git/config')\n"
        "attempt(os.rename, '.git', 'git2'); attempt(os.rename, '.git/hooks', '.git/hooks2')\n"
        "attempt(os.remove, '.git/config'); attempt(write, '.accord/rules')\n"
        "attempt(os.rename, '.accord', 'x')"
    )
    assert refused(lines)
    assert mounted.attempt("attempt(write, '.git/index')") == ["done: 8"]


def test_links_planted_in_the_private_home_are_not_followed(harness: SandboxHarness):
    """Mounts and links of the next command must not follow what a command placed in the private home."""
    (harness.home / ".local" / "bin").mkdir(parents=True)
    harness.shell(
        f"mv ~/src ~/src2; mv ~/.local ~/.local2; rm -rf ~/.local; rmdir ~/src;"
        f"ln -s {harness.outside_path} ~/src; ln -s /oldroot{harness.outside_path} ~/.local; "
        f"ln -s {harness.outside_path} ~/.cargo"
    )
    assert harness.run("true").code == 0
    (harness.home / ".local" / "bin").rmdir()
    (harness.home / ".local").rmdir()
    assert harness.untouched()


def test_a_folder_replaced_by_a_link_is_not_followed_by_the_next_command(harness: SandboxHarness):
    """PATH and an extra root lead through the project, where a command can replace folders."""
    (harness.project / "bin").mkdir()
    (harness.project / "deep" / "root").mkdir(parents=True)
    harness.env["PATH"] = f"{harness.project}/bin:/usr/bin:/bin"
    harness.options["writable"] = [harness.project / "deep" / "root"]
    assert (
        harness.shell(
            f"rm -rf bin deep; ln -s {harness.outside_path} bin; mkdir deep; "
            f"ln -s {harness.outside_path} deep/root"
        ).code
        == 0
    )
    harness.sandbox.scan()
    assert refused(
        harness.attempt(
            "attempt(os.listdir, sys.argv[1]); attempt(write, 'deep/root/victim')", harness.outside_path
        )
    )
    assert harness.untouched()


def test_a_mounted_file_system_protects_modes_and_times(mounted: SandboxHarness):
    lines = mounted.attempt(
        "attempt(os.chmod, sys.argv[1], 0o777); attempt(os.utime, sys.argv[1])", mounted.victim
    )
    assert refused(lines)


def test_landlock_reports_that_modes_can_be_changed(landlocked: SandboxHarness):
    assert "modes and times of files also elsewhere" in landlocked.sandbox.report.fact("writes").text


def test_closing_the_sandbox_removes_its_private_folder(harness: SandboxHarness, tmp_path: Path):
    harness.shell("mkdir -p ~/a/b && chmod 500 ~/a/b ~/a && echo x > $TMPDIR/x")
    private = Path(harness.sandbox.private.path)
    assert private.exists()
    harness.close()
    assert not private.exists()
