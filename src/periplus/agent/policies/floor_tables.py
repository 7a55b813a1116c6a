"""What the floor knows of programs and places."""

from __future__ import annotations

__all__ = [
    "CREDENTIAL_FOLDERS", "CREDENTIAL_NAMES", "DEVICE", "DOWNLOADERS", "GIT_STARTS", "HARMLESS", "INTERPRETERS", "LOSSY", "MACHINE_ENDS",
    "NOT_READ", "SHELLS", "SYSTEM_FOLDERS", "SYSTEM_TOPS", "TAKES_FOLDERS", "WRAPPERS", "Wrapper",
]  # fmt: skip

import re
from collections.abc import Mapping
from typing import Final, NamedTuple


class Wrapper(NamedTuple):
    """A program that starts another: its options that take a value, and how many operands stand before the program."""

    valued: frozenset[str] = frozenset()
    operands: int = 0


SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "busybox-sh", "rbash", "mksh"})
INTERPRETERS: Final = frozenset(
    {"python", "python3", "python2", "perl", "ruby", "node", "php", "lua", "deno", "bun", "tclsh", "osascript"}
)
DOWNLOADERS: Final = frozenset(
    {"curl", "wget", "fetch", "aria2c", "http", "https", "lynx", "w3m", "ftp", "nc", "ncat", "xh"}
)
SYSTEM_TOPS: Final = frozenset({
    "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/media", "/mnt", "/opt", "/proc", "/root", "/run",
    "/sbin", "/srv", "/sys", "/usr", "/var", "/usr/bin", "/usr/lib", "/usr/local", "/usr/sbin", "/usr/share", "/var/lib",
    "/var/log", "/Applications", "/Library", "/System", "/Users", "/Volumes", "/private", "/nix", "/snap", "/cores",
    "/tmp",  # noqa: S108 - the folder itself, which nobody removes
})  # fmt: skip
SYSTEM_FOLDERS: Final = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/sbin", "/sys", "/usr", "/var/lib", "/var/log",
    "/Applications", "/Library", "/System", "/nix/store",
)  # fmt: skip
DEVICE: Final = re.compile(
    r"/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|rdisk|dm-|md|loop|mapper/|mem$|kmem$|port$|sr\d|nbd)"
)
MACHINE_ENDS: Final = frozenset({"shutdown", "reboot", "halt", "poweroff", "killall5", "telinit"})
LOSSY: Final = frozenset({
    "shred", "unlink", "truncate", "pkill", "killall", "dropdb", "dropuser", "userdel", "groupdel", "mkfs", "fdisk", "parted", "iptables",
    "nft", "ufw", "systemctl", "launchctl", "mount", "umount", "swapoff", "passwd", "chpasswd", "visudo", "apt", "apt-get", "dnf",
    "yum", "pacman", "brew",
})  # fmt: skip
CREDENTIAL_FOLDERS: Final = (
    ".ssh",
    ".gnupg",
    ".aws",
    ".kube",
    ".docker",
    ".config/gcloud",
    ".password-store",
    ".config/gh",
    ".azure",
)
CREDENTIAL_NAMES: Final = (
    ".ssh/id_*", ".ssh/*.pem", ".ssh/*_key", ".ssh/authorized_keys", ".gnupg/private-keys-v1.d/*", ".gnupg/secring.gpg", ".aws/credentials",
    ".aws/sso/cache/*", ".netrc", "_netrc", ".git-credentials", ".config/git/credentials", ".pgpass", ".my.cnf", ".npmrc", ".pypirc",
    ".cargo/credentials*", ".gem/credentials", ".docker/config.json", ".kube/config", ".config/gcloud/*credentials*", ".config/gcloud/*.db",
    ".azure/*token*", ".config/gh/hosts.yml", ".config/hub", ".terraform.d/credentials*", ".vault-token", ".password-store/*",
    ".config/periplus/keys.json", ".claude/.credentials.json", ".codex/auth.json", ".local/share/keyrings/*", "Library/Keychains/*",
    ".mozilla/firefox/*/logins.json", ".mozilla/firefox/*/key4.db", ".config/google-chrome/*/Login Data", ".bash_history", ".zsh_history",
)  # fmt: skip
# Programs whose words are printed, recorded or searched for, not used as paths; of the searching ones the rest are paths.
HARMLESS: Final = frozenset({"echo", "printf", "git", "grep", "egrep", "fgrep", "rg", "ag", "ack", ":", "true", "false", "gh", "type", "which",
                             "command", "export", "alias", "periplus"})  # fmt: skip
# Programs that look at a file without reading what is in it.
NOT_READ: Final = frozenset({"ls", "stat", "test", "[", "[[", "chmod", "ssh-keygen", "ssh-add", "ssh", "mkdir", "touch", "dirname", "basename",
                             "realpath", "readlink", "find", "du", "cd", "pushd", "rm"})  # fmt: skip
# Programs that read a folder with all that is in it.
TAKES_FOLDERS: Final = frozenset(
    {"tar", "bsdtar", "zip", "7z", "rsync", "rg", "ag", "ack", "cpio", "pax", "restic", "borg"}
)
# Settings of git that name a program.
GIT_STARTS: Final = re.compile(
    r"(?:core\.(?:pager|editor|sshcommand|fsmonitor|hookspath|askpass|gitproxy)|pager\.|alias\.|sequence\.editor|gpg\.|"
    r"credential|[a-z0-9_.-]+\.(?:cmd|command|external|textconv|helper|program|process|clean|smudge|driver|uploadpack|receivepack))"
)
_NONE: Final = Wrapper()
WRAPPERS: Final[Mapping[str, Wrapper]] = {
    **dict.fromkeys(
        ("command", "exec", "builtin", "coproc", "nohup", "setsid", "time", "busybox", "toybox", "then", "do", "else"),
        _NONE,
    ),
    "sudo": Wrapper(frozenset({"-u", "-g", "-C", "-h", "-p", "-D", "-R", "-T", "--user", "--group", "--chdir"})),
    "doas": Wrapper(frozenset({"-u", "-C"})),
    "pkexec": Wrapper(frozenset({"--user"})),
    "env": Wrapper(frozenset({"-u", "-C", "--unset", "--chdir"})),
    "nice": Wrapper(frozenset({"-n", "--adjustment"})),
    "ionice": Wrapper(frozenset({"-c", "-n", "-p"})),
    "stdbuf": Wrapper(frozenset({"-i", "-o", "-e"})),
    "timeout": Wrapper(frozenset({"-s", "-k", "--signal", "--kill-after"}), operands=1),
    "chroot": Wrapper(frozenset(), operands=1),
    "flock": Wrapper(frozenset({"-w", "-E"}), operands=1),
    "unshare": Wrapper(frozenset({"-S", "-G"})),
    "strace": Wrapper(frozenset({"-e", "-o", "-p", "-s"})),
    "watch": Wrapper(frozenset({"-n", "--interval"})),
    "caffeinate": Wrapper(frozenset({"-t", "-w"})),
    "runuser": Wrapper(frozenset({"-u", "-g", "-G", "-w"})),
    "systemd-run": Wrapper(frozenset({"-u", "-p", "-M", "-H", "-E", "--unit", "--property", "--uid", "--gid"})),
}
