"""Commands that are never allowed: denied in every mode and under every rule. Similar commands are not."""

import pytest
from tests.policy.command_line_cases import split
from tests.policy.project import Project

EVERYTHING = {"allow": ["execute", "edit", "delete", "move", {"tool": "*"}], "default": "all"}

DENIED = r"""
rm -rf /
rm -rf /*
rm -rf / --no-preserve-root
rm --no-preserve-root -r x
rm -r -f /
rm -fr /
rm -Rf /
rm --recursive --force /
rm --recur /
rm -rf -- /
rm -rf //
rm -rf /.
rm -rf /./
rm -rf /../
rm -rf /usr/..
rm -rf /etc
rm -rf /etc/
rm -rf /usr/bin
rm -rf /home
rm -rf /var/lib
rm -rf /{bin,etc}
rm -rf /u*
rm -rf ~
rm -rf ~/
rm -rf ~/*
rm -rf ~/.*
rm -rf $HOME
rm -rf "$HOME"
rm -rf ${HOME}/
rm -rf "$HOME"/*
rm -rf .
rm -rf ./
rm -rf *
rm -rf ./*
rm -rf ..
rm -rf ../
rm -rf ../..
rm -rf src/..
rm -rf src/../../
rm -rf a/../../ --no-preserve-root
rm -rf "$PWD"
rm -rf $(pwd)
rm -rf `pwd`
rm -rf inside_link/..
rm -rf "$X"/
rm -rf $X/*
rm -rf "$(foo)"/*
D=/; rm -rf $D
D=/; rm -rf "${D}"
export D=/etc; rm -rf $D
for d in build /; do rm -rf $d; done
cd / && rm -rf *
cd /; rm -rf *
cd ~ && rm -rf ./*
cd .. && rm -rf *
cd build; rm -rf *
cd build || rm -rf *
cd src && cd / && rm -rf .
pushd / && rm -rf *
(cd /; rm -rf *)
{ rm -rf /; }
ls && rm -rf /
ls || rm -rf /
ls; rm -rf /
ls | rm -rf /
rm -rf / &
echo $(rm -rf /)
echo `rm -rf /`
echo "$(rm -rf /)"
cat <(rm -rf /)
cat <<EOF
$(rm -rf /)
EOF
if true; then rm -rf /; fi
while true; do rm -rf /; done
! rm -rf /
time rm -rf /
sudo rm -rf /
sudo -n -u root rm -rf /
doas rm -rf /
su -c 'rm -rf /'
env rm -rf /
env FOO=1 rm -rf /
FOO=1 rm -rf /
nohup rm -rf /
nice -n 3 rm -rf /
timeout 5 rm -rf /
exec rm -rf /
command rm -rf /
builtin command rm -rf /
eval 'rm -rf /'
eval rm -rf /
sh -c 'rm -rf /'
bash -lc "rm -rf /"
bash -c 'bash -c "rm -rf /"'
zsh -c 'rm -rf /'
echo 'rm -rf /' | sh
bash <<'EOF'
rm -rf /
EOF
bash <<< 'rm -rf /'
echo / | xargs rm -rf
xargs rm -rf /
find / | xargs rm -rf
find / -type f -print0 | xargs -0 rm -rf
trap 'rm -rf /' EXIT
watch rm -rf /
busybox rm -rf /
ssh host rm -rf /
ssh host 'cd / && rm -rf *'
parallel rm -rf ::: /
strace rm -rf /
uv run rm -rf /
chroot /x rm -rf /
tmux new -d 'rm -rf /'
script -c 'rm -rf /'
/bin/rm -rf /
\rm -rf /
r\m -rf /
'rm' -rf /
r''m -rf /
$'\x72m' -rf /
rm $'-rf' /
rm -rf $'/'
rm -rf "/"
rm >/dev/null -rf /
f() { rm -rf /; }; f
find / -delete
find / -name '*' -delete
find / -name x -delete
find . -delete
find -delete
find ~ -delete
find . -type f -delete
find . -mindepth 1 -delete
find . -exec rm -rf {} +
find . -ok rm {} \;
find /etc -exec rm {} \;
find . -name '*' -exec rm {} \;
mv / x
mv ~ x
mv /* x
mv /usr x
mv . ../x
mv -t x /etc
rsync -a --delete empty/ /
rsync --delete-before e/ ~
chmod -R 777 /
chmod 000 /
chmod -R 777 /etc
chmod -R 777 /*
chown -R me /
chown -R me:me /usr
chgrp -R x /var
dd if=x of=/dev/sda
dd of=/dev/nvme0n1 if=/dev/zero
dd if=/dev/zero of=/dev/disk2
mkfs.ext4 /dev/sda1
mkfs -t ext4 /dev/sdb
mkswap /dev/sda2
mkfs.ext4 $DEV
wipefs -a /dev/sda
fdisk /dev/sda
parted /dev/sda mklabel gpt
sgdisk --zap-all /dev/sda
blkdiscard /dev/sda
cryptsetup luksFormat /dev/sda
lvremove vg/x
zpool destroy tank
shred /dev/sda
cat x > /dev/sda
echo > /dev/sda
cat x | tee /dev/sda
cp x /dev/sda
> /dev/sda
truncate -s 0 /dev/mem
echo x > /etc/passwd
echo x >> /etc/shadow
tee -a /etc/sudoers < x
tee /etc/sudoers.d/me < x
cp x /etc/passwd
mv x /etc/shadow
ln -sf x /etc/passwd
sed -i s/x/y/ /etc/passwd
sed --in-place s/x/y/ /etc/passwd
rm /etc/passwd
rm -f /etc/shadow
chmod 777 /etc/shadow
truncate -s 0 /etc/fstab
echo b > /proc/sysrq-trigger
echo x > /boot/vmlinuz
echo 1 > /proc/sys/kernel/x
shutdown now
shutdown -h now
reboot
reboot -f
halt
poweroff
init 0
init 6
telinit 6
systemctl poweroff
systemctl reboot
sudo systemctl --force reboot
kill -9 -1
kill -1 -1
kill -KILL -- -1
kill 1
insmod x.ko
rmmod x
modprobe x
kexec -e
:(){ :|:& };:
:(){ :|: & };:
: ( ) { : | : & } ; :
bomb() { bomb | bomb & }; bomb
f(){ f|f& };f
python -c "import shutil; shutil.rmtree('/')"
python3 -c 'import shutil; shutil.rmtree("/etc")'
python3 -c 'import shutil,os; shutil.rmtree(os.path.expanduser("~"))'
python -c "import os; os.system('rm -rf /')"
python -c "import subprocess; subprocess.run('rm -rf ~', shell=True)"
python3 <<'EOF'
import shutil
shutil.rmtree("/")
EOF
perl -e 'system("rm -rf /")'
perl -e '`rm -rf /`'
ruby -e 'FileUtils.rm_rf("/")'
node -e 'require("fs").rmSync("/", {recursive: true})'
"""

NOT_DENIED = r"""
rm -rf build
rm -rf ./build/
rm -rf build/*
rm -rf src/deep
rm -rf node_modules dist
cd build && rm -rf *
cd build && ls && rm -rf ./*
rm -rf "${X:?}"/*
rm -rf "${X:-build}"/*
X=build; rm -rf "$X"/*
rm -rf inside_link
rm -rf leads_out
rm *.py
rm a.py
rm -f a.py
echo rm -rf /
echo "rm -rf /"
git commit -m 'rm -rf /'
grep 'rm -rf /' a.py
cat <<'EOF'
rm -rf /
EOF
find . -name '*.pyc' -delete
find . -name __pycache__ -exec rm -rf {} +
find build -delete
mv build dist
mv a.py ~/x
cp /etc/passwd .
cat /etc/passwd
chmod -R u+w .
chmod +x run.sh
chown -R me .
dd if=a of=b
dd if=/dev/zero of=disk.img
mkfs.ext4 disk.img
fdisk -l
fdisk -l /dev/sda
kill 123
kill -9 123
kill -1 123
systemctl status x
systemctl restart x
shutdown --help
lsmod
git push --force
git clean -fdx
git reset --hard
python -c "import shutil; shutil.rmtree('build')"
python -c "print('/')"
f() { ls; }; f
f() { f; }; f
ls /dev/sda
cat /proc/sysrq-trigger
rm -rf /tmp/x
docker system prune -af
"""


@pytest.mark.parametrize("line", split(DENIED))
def test_a_destructive_command_is_denied_in_every_mode_and_under_every_rule(project: Project, line: str):
    for mode in ("ask", "workspace-write", "full-access", None):
        decision = project.decide(project.run(line, mode=mode, sandboxed=True), EVERYTHING)
        assert (decision.effect, decision.rule) == ("deny", "floor"), (mode, decision)
        assert decision.reason
        assert "\n" not in decision.reason


@pytest.mark.parametrize("line", split(NOT_DENIED))
def test_a_similar_but_harmless_command_is_not_denied(project: Project, line: str):
    decision = project.decide(project.run(line, mode="full-access"))
    assert decision.rule != "floor", decision
    assert decision.effect in ("allow", "ask")


def test_a_destructive_program_without_a_shell_is_denied(project: Project):
    assert project.decide(project.run(("rm", "-rf", "/"), mode="full-access")).rule == "floor"
    assert project.decide(project.run(("bash", "-c", "rm -rf /"), mode="full-access")).rule == "floor"
    assert project.decide(project.run(("echo", "rm", "-rf", "/"), mode="full-access")).effect == "allow"


@pytest.mark.parametrize("kind", ["delete", "move"])
def test_deleting_or_moving_a_protected_folder_is_denied(project: Project, kind: str):
    for path in ("/", "/etc", project.home, project.root, project.root.parent, "src/..", "~"):
        request = project.request(tool="x", category="write", kind=kind, paths=(path,), mode="full-access")
        assert project.decide(request, EVERYTHING).rule == "floor", path
    for path in ("build", project.root / "src", "a.py"):
        request = project.request(tool="x", category="write", kind=kind, paths=(path,), mode="full-access")
        assert project.decide(request).effect == "allow"


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/etc/sudoers.d/x", "/dev/sda", "/boot/vmlinuz", "/etc/../etc/shadow"]
)
def test_writing_a_protected_file_is_denied(project: Project, path: str):
    assert project.decide(project.edit(path, mode="full-access"), EVERYTHING).rule == "floor"


def test_links_to_protected_paths_are_followed(project: Project, tmp_path):
    from accord.policy import SessionDirectories

    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "link").symlink_to("/")
    (tmp_path / "work" / "passwords").symlink_to("/etc/passwd")
    directories = SessionDirectories.of(tmp_path / "work", home=project.home)
    for line in (
        "rm -rf link/",
        "rm -rf link/*",
        "rm -rf link/etc",
        "echo > passwords",
        "cd link && rm -rf *",
    ):
        assert (
            project.decide(project.run(line, directories=directories, mode="full-access")).rule == "floor"
        ), line
    assert (
        project.decide(project.run("rm -rf link", directories=directories, mode="full-access")).rule
        != "floor"
    )
