"""Deletions that no sandbox prevents: in clusters, at cloud services, in databases, at registries, of containers.

From the manuals of the programs. A row has the programs, the effect, and patterns of their arguments without open
repetition. The patterns are searched in all arguments, so that options may stand anywhere. A word that only looks like a
verb (a pod of the name ``delete``) is reported too.
"""

from __future__ import annotations

__all__ = ["remote_deletion_of"]

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

_ARGUMENTS_MAX: Final = 64 * 1024


class _Row(NamedTuple):
    """Rule that applies when all of ``patterns`` are found."""

    programs: frozenset[str]
    patterns: tuple[re.Pattern[str], ...]
    what: str

    def is_met(self, text: str) -> bool:
        return all(pattern.search(text) is not None for pattern in self.patterns)


def _row(programs: str, what: str, *patterns: str) -> _Row:
    return _Row(frozenset(programs.split()), tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns), what)


# A whole word, or the first part of one as in `delete-bucket`.
_B: Final = r"(?:^|[\s:/.'\"(;=])"
_E: Final = r"(?=$|[\s:/.'\");-])"
_SQL: Final = (
    r"\b(?:drop\s+(?:database|table|schema|view|index|user|role|collection|keyspace|owned|tablespace|sequence|type|extension|materialized)|"
    r"truncate\b|delete\s+from|alter\s+table\s+.{1,200}\bdrop\b|update\s+\S{1,200}\s+set\b|flush\s+(?:tables|privileges)|reassign\s+owned|"
    r"dropDatabase|\.drop\(|deleteMany|deleteOne|remove\()"
)
_OF_CONTAINERS: Final = "docker podman nerdctl"
_OF_KUBERNETES: Final = "kubectl oc k3s microk8s"
_OF_CLOUDS: Final = (
    "gcloud gsutil bq az doctl linode-cli hcloud ibmcloud oci aliyun scw exo vultr-cli openstack nova civo"
)
_ESCAPES: Final = "the container would reach files of this machine outside the sandbox"
_CONTAINERS: Final = "containers, images or volumes would be deleted"
_CLUSTER: Final = "resources of the cluster would be deleted"
_UNSEEN: Final = "infrastructure would be changed or deleted without a preview"
_CLOUD: Final = "resources at the cloud service would be deleted"
_STORED: Final = "remote files would be deleted"
_DATA: Final = "data of a database would be deleted"
_FORGE: Final = "resources at the code host would be deleted or changed"
_PACKAGES: Final = "a package would be deleted from its registry"
_STORAGE: Final = "storage of this machine would be deleted"
_ROOTS: Final = r"/(?:|etc|home|root|usr|var|bin|boot|lib\w*|opt|sbin|Users)"
_ROWS: Final = (
    _row(_OF_CONTAINERS, _ESCAPES, r"(?:^|\s)(?:run|create|exec)\b",
         rf"(?:-v|--volume)[= ]?{_ROOTS}(?:/[^:\s]*)?:|(?:source|src)={_ROOTS}(?=[,/\s]|$)|--privileged|docker\.sock|--pid[= ]host|"
         r"--cap-add[= ](?:all|sys_admin)|--userns[= ]host"),
    _row(_OF_CONTAINERS, _CONTAINERS, rf"{_B}(?:rm|rmi|prune|remove|kill|reset){_E}"),
    _row(f"{_OF_CONTAINERS} docker-compose podman-compose", _CONTAINERS, r"\bdown\b", r"\s-v\b|--volumes|--rmi"),
    _row("docker-compose podman-compose", _CONTAINERS, r"(?:^|\s)rm\b"),
    _row(_OF_KUBERNETES, _CLUSTER, rf"{_B}(?:delete|drain|evict|taint){_E}|rollout\s+undo"),
    _row(_OF_KUBERNETES, _CLUSTER, r"\breplace\b", r"--force"),
    _row(_OF_KUBERNETES, _CLUSTER, r"\bscale\b", r"--replicas[= ]0\b"),
    _row(_OF_KUBERNETES, _CLUSTER, r"\bapply\b", r"--prune"),
    _row(_OF_KUBERNETES, _CLUSTER, r"\bpatch\b", r"finalizers"),
    _row("helm helmfile", _CLUSTER, rf"{_B}(?:uninstall|delete|del|rollback|destroy){_E}"),
    _row("helm helmfile", _CLUSTER, r"\bupgrade\b", r"--force"),
    _row("kind minikube k3d eksctl kops kubeadm", "a cluster would be deleted", rf"{_B}(?:delete|reset|destroy){_E}"),
    _row("argocd flux istioctl linkerd velero", _CLUSTER, rf"{_B}(?:delete|uninstall|destroy){_E}"),
    _row("terraform tofu terragrunt", _UNSEEN,
         r"(?:^|\s)destroy\b|state\s+(?:rm|push|mv|replace-provider)|workspace\s+delete|force-unlock|\btaint\b"),
    _row("terraform tofu terragrunt", _UNSEEN, r"(?:^|\s)apply\b", r"-auto-approve|-destroy"),
    _row("pulumi cdk cdktf sam serverless sls sst amplify copilot", _UNSEEN, rf"{_B}(?:destroy|delete|remove|rm|cancel){_E}"),
    _row("pulumi cdk cdktf sam serverless sls sst amplify copilot", _UNSEEN, r"(?:^|\s)(?:up|deploy)\b",
         r"--yes|(?:^|\s)-y\b|--auto-approve|--require-approval[= ]never|--force"),
    _row("ansible ansible-playbook", "files of other machines would be deleted", r"state=absent|-m\s+(?:shell|command|raw)|\brm\b"),
    _row("aws", _CLOUD, rf"{_B}(?:rb|rm|mv){_E}|--delete\b|\bdelete\b|schedule-key-deletion|(?:^|\s)(?:delete|terminate|remove|deregister|purge|disable|stop|"
         r"revoke|detach|reset|empty|cancel|release)-\w"),
    _row(_OF_CLOUDS, _CLOUD, rf"{_B}(?:delete|destroy|rm|rb|remove|purge|terminate|deallocate|reset|disable|undelete|revoke|cancel|stop){_E}|--delete"),
    _row("gsutil", _CLOUD, r"\brsync\b", r"\s-d\b"),
    _row("s3cmd s4cmd s5cmd mc rclone b2 restic borg", _STORED,
         rf"{_B}(?:rb|rm|del|delete|deletefile|purge|sync|cleanup|rmdirs|rmdir|forget|prune|expire|move|delete-file-version){_E}|--remove\b"),
    _row("psql mysql mariadb sqlite3 sqlcmd cqlsh clickhouse clickhouse-client cockroach duckdb mongosh mongo mycli pgcli usql snowsql bq sqlplus influx",
         _DATA, _SQL),
    _row("mysqladmin", _DATA, rf"{_B}(?:drop|flush\S*|shutdown|kill){_E}"),
    _row("redis-cli valkey-cli keydb-cli", _DATA,
         r"\b(?:flushall|flushdb|del|unlink|shutdown|eval|debug|config\s+set|script\s+flush|xtrim|ltrim|rename)\b"),
    _row("mongorestore pg_restore", _DATA, r"--drop|--clean|(?:^|\s)-c\b"),
    _row("dropdb dropuser pg_resetwal pg_dropcluster", _DATA),
    _row("rails rake artisan php", _DATA,
         r"db:(?:drop|reset|purge|truncate\w*|schema:load|migrate:reset|setup|rollback|seed:replant|wipe)|migrate:(?:fresh|reset|refresh|rollback)|schema:drop"),
    _row("python python3 django-admin manage.py flask alembic", _DATA,
         r"\b(?:flush|reset_db|sqlflush)\b|\bmigrate\s+\S+\s+zero\b|\bdowngrade\b|drop_all|drop_db"),
    _row("prisma drizzle-kit sequelize typeorm knex npx pnpm yarn bunx", _DATA, r"migrate\s+reset|db:drop|schema:drop|migrate:undo:all|(?:^|\s)drop\b"),
    _row("prisma npx pnpm yarn bunx", _DATA, r"db\s+push\b", r"--accept-data-loss|--force-reset"),
    _row("knex npx pnpm yarn bunx", _DATA, r"migrate:rollback\b", r"--all"),
    _row("supabase neonctl planetscale pscale turso flyway liquibase dbmate goose atlas", _DATA,
         rf"{_B}(?:reset|clean|dropall|drop|drop-all|delete|destroy|down|rollback|reset-to){_E}"),
    _row("gh glab hub", _FORGE,
         rf"{_B}(?:delete|delete-asset|archive|remove|revoke|cancel|disable){_E}|(?:-X|--method)[= ]?(?:DELETE|PUT|PATCH|POST)\b|repo\s+rename"),
    _row("gh glab hub", _FORGE, r"\bedit\b", r"--visibility"),
    _row("gh glab hub", _FORGE, r"\bmerge\b", r"--admin"),
    _row("npm pnpm yarn bun", _PACKAGES, r"(?:^|\s)(?:unpublish|deprecate)\b|(?:owner|access|dist-tag|token|team)\s+(?:rm|remove|revoke|delete)"),
    _row("cargo gem", _PACKAGES, r"(?:^|\s)yank\b|owner\s+(?:--remove|-r)"),
    _row("heroku flyctl fly vercel netlify railway render wrangler firebase surge dokku cf eb now convex",
         "an application or its data would be deleted",
         rf"{_B}(?:apps:destroy|pg:reset|pg:wipe|[\w-]{{1,40}}:(?:destroy|delete|remove|reset)|destroy|delete|rm|remove|down|terminate|env:unset|"
         rf"hosting:disable|scale\s+\w{{0,40}}=?0){_E}"),
    _row("vagrant virsh multipass lxc incus vboxmanage VBoxManage qm pct limactl colima prlctl", "a virtual machine would be deleted",
         rf"{_B}(?:destroy|undefine|delete|purge|unregistervm|rm|remove|vol-delete|pool-destroy){_E}"),
    _row("zfs zpool btrfs mdadm cryptsetup nvme hdparm", _STORAGE,
         r"\b(?:destroy|rollback|delete|labelclear|luksFormat|luksErase|erase|zero-superblock|format|sanitize|security-erase)\b"),
    _row("lvremove vgremove pvremove", _STORAGE),
    _row("vault consul etcdctl nomad zkCli.sh", "keys at a service would be deleted",
         rf"{_B}(?:delete|del|destroy|purge|lease\s+revoke|secrets\s+disable|auth\s+disable|stop|deleteall|rmr|force-leave|snapshot\s+restore){_E}"),
    _row("kafka-topics kafka-topics.sh rabbitmqctl rabbitmqadmin nats rpk", "queues would be deleted",
         rf"--delete\b|{_B}(?:delete|delete_\w{{1,40}}|purge\w{{0,40}}|reset|force_reset|stop_app|rm){_E}"),
    _row("svn hg p4 fossil jj", "version history would be deleted",
         rf"{_B}(?:delete|del|remove|rm|strip|obliterate|rollback|purge|abandon){_E}"),
    _row("nix-collect-garbage", "older states of the system would be deleted", r"-d\b|--delete-old|--delete-older-than"),
    _row("curl http https xh wget", "a resource on a server would be deleted", r"(?:-X|--request|--method)[= ]?DELETE\b|^\s*DELETE\s"),
    _row("tmutil snapper timeshift", "backups would be deleted", rf"{_B}(?:delete|deletelocalsnapshots|rollback){_E}|--delete"),
)  # fmt: skip
_BY_PROGRAM: Final[dict[str, tuple[_Row, ...]]] = {
    program: tuple(row for row in _ROWS if program in row.programs)
    for program in {one for row in _ROWS for one in row.programs}
}


def remote_deletion_of(program: str, arguments: Sequence[str]) -> str:
    """Describe the remote deletion that ``program`` would make with these arguments; empty where none is known. Takes
    time linear in the arguments.
    """
    rows = _BY_PROGRAM.get(program)
    if rows is None:
        return ""
    text = " ".join(arguments)[:_ARGUMENTS_MAX]
    return next((f"{program}: {row.what}" for row in rows if row.is_met(text)), "")
