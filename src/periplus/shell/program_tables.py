"""Tables of programs and places: shells, interpreters, wrappers of other programs, protected folders.

Facts are from the programs' manuals (GNU coreutils, util-linux, moreutils, docker, kubectl, uv, npm); names are those
in PATH.
"""

from __future__ import annotations

__all__ = [
    "BUILDERS", "CONTAINER_VALUED", "CREDENTIAL_FOLDERS", "CREDENTIAL_NAMES", "DEVICE", "DOWNLOADERS", "GIT_STARTS", "HARMLESS", "INTERPRETERS",
    "LOSSY", "MACHINE_ENDS", "NOT_READ", "NO_WRAPPERS", "PROGRAM_FOLDERS", "REMOTE", "REWRITERS", "SHELLS", "STARTING_NAMES", "SYSTEM_FOLDERS",
    "SYSTEM_TOPS", "TAKES_FOLDERS", "USER_CHANGERS", "WRAPPERS", "Wrapper",
]  # fmt: skip

import re
from collections.abc import Mapping
from typing import Final, NamedTuple


class Wrapper(NamedTuple):
    """Program that starts another: its options with a value, and the number of operands before the program.

    Without ``adds`` it has no effect of its own, so that a rule for the inner command allows the whole.
    ``is_elsewhere``: in a container, with other paths. ``texts`` are options whose value is a text for a shell.
    """

    valued: frozenset[str] = frozenset()
    operands: int = 0
    adds: bool = False
    is_elsewhere: bool = False
    texts: frozenset[str] = frozenset()


SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "busybox-sh", "rbash", "mksh"})
INTERPRETERS: Final = frozenset({
    "python", "python3", "python2", "pypy", "pypy3", "ipython", "perl", "ruby", "node", "nodejs", "php", "lua", "luajit", "deno", "bun",
    "tclsh", "osascript", "Rscript", "julia", "groovy", "pwsh", "powershell", "tsx", "ts-node", "guile", "elixir", "escript",
})  # fmt: skip
# Their commands stand in a file of the project.
BUILDERS: Final = frozenset(
    {"make", "gmake", "bmake", "just", "task", "rake", "invoke", "ninja", "mage", "ant", "redo", "tup"}
)
# Their commands run on another machine.
REMOTE: Final = frozenset(
    {"ssh", "mosh", "rsh", "slogin", "autossh", "sshpass", "pssh", "pdsh", "clush", "ansible", "salt"}
)
DOWNLOADERS: Final = frozenset(
    {"curl", "wget", "fetch", "aria2c", "http", "https", "lynx", "w3m", "ftp", "nc", "ncat", "xh"}
)
SYSTEM_TOPS: Final = frozenset({
    "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/media", "/mnt", "/opt", "/proc", "/root", "/run",
    "/sbin", "/srv", "/sys", "/usr", "/var", "/usr/bin", "/usr/lib", "/usr/local", "/usr/sbin", "/usr/share", "/var/lib",
    "/var/log", "/Applications", "/Library", "/System", "/Users", "/Volumes", "/private", "/nix", "/snap", "/cores",
    "/tmp",  # noqa: S108 - the folder itself must not be removed
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
# Programs that change their files; those with options only with one of them.
REWRITERS: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(
        ("black", "isort", "rustfmt", "dos2unix", "ed", "ex", "vi", "vim", "nvim", "nano", "emacs", "patch"),
        frozenset[str](),
    ),
    **dict.fromkeys(("yapf", "autopep8", "clang-format"), frozenset({"-i", "--in-place"})),
    **dict.fromkeys(("gofmt", "goimports", "shfmt", "prettier", "biome"), frozenset({"-w", "--write"})),
    **dict.fromkeys(("eslint", "stylelint", "rubocop"), frozenset({"--fix", "-a", "-A"})),
}
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
# Programs whose arguments are printed, recorded or searched for, not used as paths; searching programs take paths
# after the pattern.
HARMLESS: Final = frozenset({"echo", "printf", "git", "grep", "egrep", "fgrep", "rg", "ag", "ack", ":", "true", "false", "gh", "type", "which",
                             "command", "export", "alias", "periplus"})  # fmt: skip
# Programs that do not read the contents of their files.
NOT_READ: Final = frozenset({"ls", "stat", "test", "[", "[[", "chmod", "ssh-keygen", "ssh-add", "ssh", "mkdir", "touch", "dirname", "basename",
                             "realpath", "readlink", "find", "du", "cd", "pushd", "rm"})  # fmt: skip
# Programs that read a folder recursively.
TAKES_FOLDERS: Final = frozenset(
    {"tar", "bsdtar", "zip", "7z", "rsync", "rg", "ag", "ack", "cpio", "pax", "restic", "borg"}
)
# Settings of git that name a program.
GIT_STARTS: Final = re.compile(
    r"(?:core\.(?:pager|editor|sshcommand|fsmonitor|hookspath|askpass|gitproxy)|pager\.|alias\.|sequence\.editor|gpg\.|"
    r"credential|[a-z0-9_.-]+\.(?:cmd|command|external|textconv|helper|program|process|clean|smudge|driver|uploadpack|receivepack))"
)


def _options(text: str) -> frozenset[str]:
    return frozenset(text.split())


_UV: Final = _options("--with --extra --group --only-group --package --project --directory --python -p --env-file --with-requirements --index"
                      " --no-group --with-editable")  # fmt: skip
CONTAINER_VALUED: Final = _options("-e --env -w --workdir -u --user -f --file -p --project-name --env-file -v --volume --entrypoint --name"
                             " --network -c -n --namespace --context --kubeconfig -H --host -l --log-level --profile --project-directory")  # fmt: skip
_CONDA: Final = _options("-n --name -p --prefix --cwd")
_NONE: Final = Wrapper()
# By one word or two. Shell keywords and wrappers without effects of their own add nothing.
WRAPPERS: Final[Mapping[str | tuple[str, str], Wrapper]] = {
    **dict.fromkeys(("command", "builtin", "coproc", "nohup", "setsid", "then", "do", "else", "elif", "if", "while", "until", "!", "{"), _NONE),
    **dict.fromkeys(("unbuffer", "fakeroot", "winpty", "catchsegv", "linux32", "linux64", "noglob", "nocorrect", "dbus-run-session",
                     "proxychains", "proxychains4", "torsocks", "torify", "rlwrap", "eatmydata", "ltrace", "ccache", "sccache"), _NONE),
    **dict.fromkeys(("busybox", "toybox"), _NONE),
    "time": Wrapper(_options("-f -o --format --output")),
    "exec": Wrapper(_options("-a")),
    "sudo": Wrapper(_options("-u -g -C -h -p -D -R -T -r -t -U --user --group --chdir --host --prompt --close-from --chroot")),
    "doas": Wrapper(_options("-u -C -a")),
    "pkexec": Wrapper(_options("--user")),
    "gosu": Wrapper(operands=1),
    "su-exec": Wrapper(operands=1),
    "setpriv": Wrapper(_options("--reuid --regid --groups --inh-caps --bounding-set --securebits --selinux-label --apparmor-profile")),
    "capsh": Wrapper(_options("--user --uid --gid")),
    "runuser": Wrapper(_options("-u -g -G -w")),
    "env": Wrapper(_options("-u -C --unset --chdir")),
    "nice": Wrapper(_options("-n --adjustment")),
    "ionice": Wrapper(_options("-c -n -p --class --classdata")),
    "chrt": Wrapper(_options("-T -P -D"), operands=1),
    "taskset": Wrapper(operands=1),
    "numactl": Wrapper(_options("-i -N -m -C -p")),
    "stdbuf": Wrapper(_options("-i -o -e --input --output --error")),
    "timeout": Wrapper(_options("-s -k --signal --kill-after"), operands=1),
    "gtimeout": Wrapper(_options("-s -k --signal --kill-after"), operands=1),
    "prlimit": Wrapper(),
    "faketime": Wrapper(_options("-f --exclude-monotonic"), operands=1),
    "chroot": Wrapper(operands=1),
    "flock": Wrapper(_options("-w -E --timeout --conflict-exit-code"), operands=1, texts=_options("-c --command")),
    "unshare": Wrapper(_options("-S -G -R -w --root --wd --setuid --setgid")),
    "nsenter": Wrapper(_options("-t --target -S -G --setuid --setgid")),
    "setarch": Wrapper(operands=1),
    "firejail": Wrapper(),
    "strace": Wrapper(_options("-e -o -p -s -E -u -a -P -O -S -U -X")),
    "valgrind": Wrapper(),
    "caffeinate": Wrapper(_options("-t -w")),
    "systemd-run": Wrapper(_options("-u -p -M -H -E --unit --property --uid --gid --slice --description --working-directory --setenv")),
    "systemd-inhibit": Wrapper(),
    "cgexec": Wrapper(_options("-g")),
    "daemonize": Wrapper(_options("-a -c -e -o -p -l -u -E")),
    "xvfb-run": Wrapper(_options("-s -n -e -f -p -w")),
    "ssh-agent": Wrapper(_options("-a -E -P -t")),
    "entr": Wrapper(),
    "dotenv": Wrapper(_options("-f -e"), adds=True),
    **dict.fromkeys(("npx", "bunx", "pnpx"), Wrapper(_options("-p --package"), adds=True, texts=_options("-c --call"))),
    "uvx": Wrapper(_options("--with --from -p --python"), adds=True),
    ("perf", "stat"): Wrapper(_options("-e -o -r -p -t")),
    ("perf", "record"): Wrapper(_options("-e -o -F -c -p -t")),
    ("ip", "netns"): Wrapper(operands=2),
    ("direnv", "exec"): Wrapper(operands=1, adds=True),
    ("aws-vault", "exec"): Wrapper(operands=1, adds=True),
    ("chamber", "exec"): Wrapper(operands=1, adds=True),
    ("doppler", "run"): Wrapper(_options("-p -c --project --config"), adds=True),
    ("op", "run"): Wrapper(_options("--env-file --account"), adds=True),
    ("uv", "run"): Wrapper(_UV, adds=True),
    ("uv", "tool"): Wrapper(_UV, operands=1, adds=True),
    ("poetry", "run"): Wrapper(_options("-C --directory -P --project"), adds=True),
    ("conda", "run"): Wrapper(_CONDA, adds=True),
    ("mamba", "run"): Wrapper(_CONDA, adds=True),
    ("micromamba", "run"): Wrapper(_CONDA, adds=True),
    ("npm", "exec"): Wrapper(_options("-p --package -w --workspace"), adds=True, texts=_options("-c --call")),
    ("pnpm", "exec"): Wrapper(adds=True),
    ("pnpm", "dlx"): Wrapper(adds=True),
    ("yarn", "dlx"): Wrapper(_options("-p"), adds=True),
    ("yarn", "exec"): Wrapper(adds=True),
    ("pipenv", "run"): Wrapper(adds=True),
    ("pixi", "run"): Wrapper(_options("-e --environment --manifest-path"), adds=True),
    ("pipx", "run"): Wrapper(_options("--spec"), adds=True),
    ("bundle", "exec"): Wrapper(adds=True),
    ("mise", "exec"): Wrapper(adds=True),
    ("asdf", "exec"): Wrapper(adds=True),
    ("nix", "develop"): Wrapper(adds=True),
    ("nix", "shell"): Wrapper(adds=True),
    ("coverage", "run"): Wrapper(_options("--source --rcfile --include --omit --concurrency --data-file"), adds=True),
    **dict.fromkeys(
        (("docker", "exec"), ("podman", "exec"), ("nerdctl", "exec"), ("docker-compose", "exec"), ("docker-compose", "run"),
         ("podman-compose", "exec"), ("kubectl", "exec"), ("lxc", "exec"), ("oc", "exec")),
        Wrapper(CONTAINER_VALUED, operands=1, adds=True, is_elsewhere=True),
    ),
    **dict.fromkeys(
        (("docker", "run"), ("podman", "run"), ("nerdctl", "run")),
        Wrapper(CONTAINER_VALUED | _options("-m --memory --cpus --mount -l --label --add-host --device --platform --pull --restart --hostname -h"
                                      " --cap-add --cap-drop --security-opt --shm-size --gpus --ipc --pid --net --ulimit --tmpfs --userns"
                                      " --network-alias --dns --expose -P --publish --link --runtime --cidfile --log-driver"),
                operands=1, adds=True, is_elsewhere=True),
    ),
}  # fmt: skip
USER_CHANGERS: Final = frozenset({"sudo", "doas", "su", "pkexec", "gosu", "su-exec", "runuser", "setpriv"})
PROGRAM_FOLDERS: Final = frozenset(
    {"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/opt/homebrew/bin"}
)
# Variables that make programs run or load other code, as names or patterns: ld.so(8), dyld(1), bash(1), git(1),
# python(1), perlrun(1), node(1), ruby(1), java(1), make(1), less(1), man(1).
STARTING_NAMES: Final = re.compile(
    r"LD_\w+|DYLD_\w+|GCONV_PATH|GLIBC_TUNABLES|PATH|BASH_ENV|ENV|SHELL|SHELLOPTS|BASHOPTS|PS[0-4]|PROMPT_COMMAND|IFS|CDPATH|FPATH|ZDOTDIR|"
    r"BASH_FUNC_.*|HOME|XDG_(?:CONFIG|DATA)_(?:HOME|DIRS)|"
    r"\w*PAGER|\w*EDITOR|VISUAL|BROWSER|LESSOPEN|LESSCLOSE|LESS|LESSKEY\w*|MANROFFOPT|MANOPT|TERMINFO\w*|"
    r"GIT_(?:SSH\w*|EXTERNAL_DIFF|ASKPASS|PROXY_COMMAND|EXEC_PATH|TEMPLATE_DIR|CONFIG\w*|DIR|WORK_TREE|COMMON_DIR|ALTERNATE\w*|HTTP_PROXY_\w+)|"
    r"SSH_ASKPASS|SUDO_ASKPASS|RSYNC_RSH|CVS_RSH|SVN_SSH|HG|HGRCPATH|"
    r"PYTHON(?:PATH|HOME|STARTUP|INSPECT|BREAKPOINT|EXECUTABLE|USERBASE|PLATLIBDIR|PYCACHEPREFIX|WARNINGS)|PYTEST_(?:ADDOPTS|PLUGINS)|COVERAGE_PROCESS_START|"
    r"PERL(?:5LIB|5OPT|5DB|LIB|_\w+)|RUBY(?:OPT|LIB|PATH)|GEM_(?:PATH|HOME)|BUNDLE_GEMFILE|NODE_(?:OPTIONS|PATH|REPL_\w+)|LUA_(?:INIT\w*|PATH\w*|CPATH\w*)|"
    r"PHP(?:RC|_INI_SCAN_DIR)|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|JAVA_HOME|CLASSPATH|MAVEN_OPTS|MAVEN_ARGS|GRADLE_OPTS|ANT_OPTS|JULIA_\w+|R_PROFILE\w*|R_ENVIRON\w*|"
    r"MAKEFLAGS|MAKEFILES|GNUMAKEFLAGS|CC|CXX|CPP|LD|AS|AR|FC|RUSTC\w*|RUSTDOC|RUSTFLAGS|CARGO_\w*(?:RUNNER|LINKER|WRAPPER|HOME)|CARGO_BUILD_\w+|CGO_\w+|GO(?:FLAGS|ROOT|PATH|TOOLCHAIN|PROXY)|"
    r"NPM_CONFIG_\w+|npm_config_\w+|YARN_\w+|PIP_\w+|UV_\w+|POETRY_\w+|DOCKER_(?:HOST|CONFIG|CONTEXT)|KUBECONFIG|KUBE_EDITOR|TF_CLI_\w+|ANSIBLE_\w+|"
    r"OPENSSL_(?:CONF|MODULES|ENGINES)|CURL_HOME|WGETRC|WGET_\w+|INPUTRC|TAR_OPTIONS|TAPE|ZIPOPT|GREP_OPTIONS|FCEDIT|HISTFILE|PSQLRC|PGSYSCONFDIR|MYSQL_\w+|"
    r"AWKPATH|AWKLIBPATH|GTK_MODULES|QT_PLUGIN_PATH|MAILCAPS|WATCHMAN_\w+|TMUX|STARSHIP_\w+|FZF_\w+"
)
# Programs that are known not to start programs named by their arguments; any other may, and is `unclear` around a
# denied one.
NO_WRAPPERS: Final = HARMLESS | NOT_READ | frozenset(
    "cat head tail less more wc sort uniq cut tr sed nl tac rev paste join comm diff cmp patch file strings od xxd hexdump base64 md5sum"
    " sha1sum sha256sum sha512sum cksum cp mv ln rmdir mktemp install truncate dd tee split csplit shred unlink tar bsdtar zip unzip gzip"
    " gunzip zcat bzip2 xz zstd 7z cpio ar jq yq date cal sleep seq printenv pwd whoami id groups hostname uname uptime ps top kill pkill"
    " pgrep killall df free lsof mount umount chown chgrp umask curl wget rsync scp sftp ping dig host nslookup nc python python3 pip"
    " pip3 pytest tox nox ruff black mypy pyright flake8 isort npm yarn pnpm tsc eslint prettier jest vitest cargo rustc rustup go gofmt"
    " gcc g++ cc c++ clang clang++ ld javac java mvn gradle dotnet swift cmake ninja make apt apt-get dnf yum pacman brew snap apk dpkg rpm"
    " docker podman kubectl helm terraform tofu aws gcloud az psql mysql sqlite3 redis-cli mongosh git-lfs hg svn tree fd fdfind bat"
    " exa eza delta column fold fmt expand iconv dos2unix tput clear reset history jobs fg bg wait unset set shift read let break continue"
    " return exit local declare typeset readonly hash ulimit shopt complete bind umask man info whatis apropos help open xdg-open".split()
)  # fmt: skip
