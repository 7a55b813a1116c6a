"""What is taken away where no sandbox reaches: in clusters, at cloud services, in databases, at registries, of containers.

By the manuals of the programs: a row has the programs, a pattern of their arguments, and what would happen. It is read over the whole of the arguments,
so that options may stand anywhere; a word that only looks like a verb (a pod of the name ``delete``) is asked for, too.
"""

from __future__ import annotations

__all__ = ["loss_of"]

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

_ARGUMENTS_MAX: Final = 64 * 1024


class _Row(NamedTuple):
    programs: frozenset[str]
    pattern: re.Pattern[str]
    what: str


def _row(programs: str, pattern: str, what: str) -> _Row:
    return _Row(frozenset(programs.split()), re.compile(pattern, re.IGNORECASE), what)


# A word of its own, or the first part of one as in `delete-bucket`.
_B: Final = r"(?:^|[\s:/.'\"(;=])"
_E: Final = r"(?=$|[\s:/.'\");-])"
_SQL: Final = (
    r"\b(?:drop\s+(?:database|table|schema|view|index|user|role|collection|keyspace|owned|tablespace|sequence|type|extension|materialized)|"
    r"truncate\b|delete\s+from|alter\s+table\s+.{1,200}\bdrop\b|update\s+\S{1,200}\s+set\b|flush\s+(?:tables|privileges)|reassign\s+owned|"
    r"dropDatabase|\.drop\(|deleteMany|deleteOne|remove\()"
)
_ROWS: Final = (
    _row("docker podman nerdctl", r"(?:^|\s)(?:run|create|exec)\b.*(?:(?:-v|--volume)[= ]?/(?:|etc|home|root|usr|var|bin|boot|lib\w*|opt|sbin|Users)(?:/[^:\s]*)?:"
         r"|(?:source|src)=/(?=[,\s]|$|etc|home|root|usr|var)|--privileged|docker\.sock|--pid[= ]host|--cap-add[= ](?:all|sys_admin)|--userns[= ]host)",
         "the container would reach files of this machine that no sandbox keeps from it"),
    _row("docker podman nerdctl", rf"{_B}(?:rm|rmi|prune|remove|kill|reset){_E}", "containers, images or volumes would be taken away"),
    _row("docker podman nerdctl docker-compose podman-compose", r"\bdown\b.*(?:\s-v\b|--volumes|--rmi)|(?:^|\s)rm\s.*-[a-z]*[fsv]", "volumes of the services would be taken away"),
    _row("kubectl oc k3s microk8s kubectl.exe", rf"{_B}(?:delete|drain|evict|taint){_E}|replace\b.*--force|scale\b.*--replicas[= ]0\b|rollout\s+undo|apply\b.*--prune|"
         r"patch\b.*finalizers", "things of the cluster would be taken away"),
    _row("helm helmfile", rf"{_B}(?:uninstall|delete|del|rollback|destroy){_E}|upgrade\b.*--force", "a release of the cluster would be taken away"),
    _row("kind minikube k3d eksctl kops kubeadm", rf"{_B}(?:delete|reset|destroy){_E}", "a cluster would be taken away"),
    _row("argocd flux istioctl linkerd velero", rf"{_B}(?:delete|uninstall|destroy){_E}", "things of the cluster would be taken away"),
    _row("terraform tofu terragrunt", r"(?:^|\s)(?:run-all\s+)?destroy\b|apply\b.*(?:-auto-approve|-destroy)|state\s+(?:rm|push|mv|replace-provider)|"
         r"workspace\s+delete|force-unlock|\btaint\b", "infrastructure would be changed or taken away unseen"),
    _row("pulumi cdk cdktf sam serverless sls sst amplify copilot", rf"{_B}(?:destroy|delete|remove|rm|cancel){_E}|(?:up|deploy)\b.*(?:--yes|-y\b|--auto-approve|--require-approval[= ]never|--force)",
         "infrastructure would be changed or taken away unseen"),
    _row("ansible ansible-playbook", r"(?:state=absent|-m\s+(?:shell|command|raw)|\brm\b)", "files of other machines would be taken away"),
    _row("aws", rf"{_B}(?:rb|rm|mv){_E}|--delete\b|(?:^|\s)(?:delete|terminate|remove|deregister|purge|disable|stop|revoke|detach|reset|schedule-key-deletion|"
         r"empty|cancel|release)-\w|schedule-key-deletion|\bdelete\b", "things at the cloud service would be taken away"),
    _row("gcloud gsutil bq az doctl linode-cli hcloud ibmcloud oci aliyun scw exo vultr-cli openstack nova civo", rf"{_B}(?:delete|destroy|rm|rb|remove|purge|terminate|"
         r"deallocate|reset|disable|undelete|revoke|cancel|stop)" + _E + r"|\s-d\b.*rsync|rsync\b.*\s-d\b|--delete", "things at the cloud service would be taken away"),
    _row("s3cmd s4cmd s5cmd mc rclone b2 restic borg", rf"{_B}(?:rb|rm|del|delete|deletefile|purge|sync|cleanup|rmdirs|rmdir|forget|prune|mirror\s.*--remove|expire|move|delete-file-version){_E}",
         "what is stored elsewhere would be taken away"),
    _row("psql mysql mariadb sqlite3 sqlcmd cqlsh clickhouse clickhouse-client cockroach duckdb mongosh mongo mycli pgcli usql snowsql bq sqlplus influx", _SQL, "data of a database would be taken away"),
    _row("mysqladmin", rf"{_B}(?:drop|flush\S*|shutdown|kill){_E}", "data of a database would be taken away"),
    _row("redis-cli valkey-cli keydb-cli", r"\b(?:flushall|flushdb|del|unlink|shutdown|eval|debug|config\s+set|script\s+flush|xtrim|ltrim|rename)\b", "data of a database would be taken away"),
    _row("mongorestore pg_restore", r"--drop|--clean|\s-c\b|^-c\b", "data of a database would be taken away"),
    _row("dropdb dropuser pg_resetwal pg_dropcluster", r"", "data of a database would be taken away"),
    _row("rails rake bin/rails artisan php", r"db:(?:drop|reset|purge|truncate\w*|schema:load|migrate:reset|setup|rollback|seed:replant|wipe)|migrate:(?:fresh|reset|refresh|rollback)|db:wipe|schema:drop",
         "data of a database would be taken away"),
    _row("python python3 django-admin manage.py flask alembic", r"(?:manage\.py|django-admin)?\s*\b(?:flush|reset_db|sqlflush)\b|\bmigrate\s+\S+\s+zero\b|\bdowngrade\b|drop_all|drop_db",
         "data of a database would be taken away"),
    _row("prisma drizzle-kit sequelize typeorm knex npx pnpm yarn bunx", r"migrate\s+reset|db\s+push\b.*(?:--accept-data-loss|--force-reset)|db:drop|schema:drop|migrate:undo:all|migrate:rollback\b.*--all|\bdrop\b",
         "data of a database would be taken away"),
    _row("supabase neonctl planetscale pscale turso flyway liquibase dbmate goose atlas", rf"{_B}(?:reset|clean|dropall|drop|drop-all|delete|destroy|down|rollback|reset-to){_E}|schema\s+clean", "data of a database would be taken away"),
    _row("gh glab hub", rf"{_B}(?:delete|delete-asset|archive|remove|revoke|cancel|disable){_E}|\b(?:-X|--method)[= ]?(?:DELETE|PUT|PATCH|POST)\b|repo\s+(?:rename|edit\b.*--visibility)|pr\s+merge\b.*--admin",
         "things at the forge would be taken away or changed"),
    _row("npm pnpm yarn bun", r"(?:^|\s)(?:unpublish|deprecate)\b|(?:owner|access|dist-tag|token|team)\s+(?:rm|remove|revoke|delete)", "a package would be taken away from its registry"),
    _row("cargo gem", r"(?:^|\s)yank\b|owner\s+(?:--remove|-r)", "a package would be taken away from its registry"),
    _row("heroku flyctl fly vercel netlify railway render wrangler firebase surge dokku cf eb now convex", rf"{_B}(?:apps:destroy|pg:reset|pg:wipe|[\w-]+:(?:destroy|delete|remove|reset)|destroy|delete|rm|remove|down|terminate|"
         r"env:unset|projects?:delete|hosting:disable|firestore:delete|database:remove|sites:delete|kv\s+key\s+delete|scale\s+\w*=?0)" + _E, "an application or its data would be taken away"),
    _row("vagrant virsh multipass lxc incus vboxmanage VBoxManage qm pct limactl colima prlctl", rf"{_B}(?:destroy|undefine|delete|purge|unregistervm|rm|remove|vol-delete|pool-destroy){_E}", "a virtual machine would be taken away"),
    _row("zfs zpool lvremove vgremove pvremove btrfs mdadm cryptsetup nvme hdparm", r"\b(?:destroy|rollback|delete|labelclear|luksFormat|luksErase|erase|zero-superblock|format|sanitize|security-erase)\b|^(?=.*)(?:-f|-y|/dev)", "storage of this machine would be taken away"),
    _row("vault consul etcdctl nomad zkCli.sh", rf"{_B}(?:delete|del|destroy|purge|kv\s+metadata\s+delete|lease\s+revoke|secrets\s+disable|auth\s+disable|stop|deleteall|rmr|force-leave|snapshot\s+restore){_E}", "keys at a service would be taken away"),
    _row("kafka-topics kafka-topics.sh rabbitmqctl rabbitmqadmin nats rpk", rf"--delete\b|{_B}(?:delete|delete_\w+|purge\w*|reset|force_reset|stop_app|rm){_E}", "queues would be taken away"),
    _row("svn hg p4 fossil jj", rf"{_B}(?:delete|del|remove|rm|strip|obliterate|rollback|purge|abandon){_E}", "what is kept of the history would be taken away"),
    _row("nix-collect-garbage", r"-d\b|--delete-old|--delete-older-than", "older states of the system would be taken away"),
    _row("curl http https xh wget", r"(?:-X|--request|--method)[= ]?DELETE\b|^\s*DELETE\s", "something at a server would be taken away"),
    _row("tmutil snapper timeshift", rf"{_B}(?:delete|deletelocalsnapshots|rollback){_E}|--delete", "backups would be taken away"),
)  # fmt: skip
_BY_PROGRAM: Final[dict[str, tuple[_Row, ...]]] = {
    program: tuple(row for row in _ROWS if program in row.programs)
    for program in {one for row in _ROWS for one in row.programs}
}


def loss_of(program: str, arguments: Sequence[str]) -> str:
    """What ``program`` would take away with these arguments, in words; empty where nothing is known. Takes time linear in the arguments."""
    rows = _BY_PROGRAM.get(program)
    if rows is None:
        return ""
    text = " ".join(arguments)[:_ARGUMENTS_MAX]
    return next((f"{program}: {row.what}" for row in rows if row.pattern.search(text)), "")
