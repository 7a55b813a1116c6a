"""What rules of permission say of commands: what is allowed, and what is not, by kind of rule."""

from __future__ import annotations

import os

import pytest

from periplus.agent.policies.permission import MODES, Permission, parse_rule
from periplus.shell.judgement import judge
from periplus.trail.shell_words import program_of

pytestmark = pytest.mark.quick

HOME, WORK = "/home/ada", "/home/ada/src/shop"


def verdict(command, *rules, mode="default", workspace=WORK):
    permission = Permission(mode, map(parse_rule, rules), home=HOME, workspace=workspace)
    found = permission.authorize_tool("shell", {"command": command})
    return "deny" if not found.allow else "ask" if found.ask else "allow"


def lines(text):
    return [line for line in text.strip("\n").split("\n") if line]


# -- what is denied by name (A3) ------------------------------------------------------------------------------------------

PUSHES = lines(r"""
git push
git push origin main
env git push
env A=1 git push
env -i A=1 git push
env -u A git push
env -S 'git push'
env -S'git push origin'
env --split-string='git push'
timeout 5 git push
timeout -s KILL -k 1 5 git push
timeout --signal=INT 5 git push
gtimeout 5 git push
sudo git push
sudo -u bob git push
sudo -E A=1 git push
doas git push
nice git push
nice -n 5 git push
ionice -c 2 -n 7 git push
nohup git push
nohup git push &
setsid -w git push
stdbuf -oL git push
time git push
time -p git push
command git push
exec git push
exec -a x git push
builtin git push
xargs git push
xargs -n1 -I{} git push {}
echo origin | xargs -r git push
find . -maxdepth 0 -exec git push \;
find . -execdir git push {} +
fd -x git push
/usr/bin/git push
./git push
\git push
g''it push
'git' push
git -C . push
git -C /tmp/x push
git --no-pager push
git -c a.b=c push
git --git-dir=.git push
git --work-tree . push
git -P --no-optional-locks push
bash -c 'git push'
sh -ec "git push"
bash -lc 'cd x && git push'
eval git push
eval "git push"
trap 'git push' EXIT
f() { git push; }; f
if true; then git push; fi
for x in 1; do git push; done
{ git push; }
(git push)
! git push
ls && git push
ls; git push
ls | git push
echo $(git push)
echo `git push`
cat <(git push)
X=push; git $X
C='git push'; $C
git${IFS}push
echo 'git push' | sh
sh <<< 'git push'
watch -n 1 git push
watch 'git push'
parallel git push ::: a
flock /tmp/l git push
flock /tmp/l -c 'git push'
chroot / git push
strace -f -o x git push
script -c 'git push' x
su bob -c 'git push'
uv run git push
poetry run git push
npx git push
nix develop -c git push
docker exec c git push
docker run --rm -v .:/w alpine git push
ssh host git push
ssh -p 22 host 'cd x; git push'
busybox git push
git submodule foreach git push
git bisect run git push
git rebase -x 'git push' main
GIT_SSH=x git push
taskset 1 git push
unbuffer git push
direnv exec . git push
coproc git push
case a in a) git push;; esac
while false; do :; done; git push
""")
MAYBE = lines(r"""
wrapper git push
my-wrap --flag git push
./run.sh git push
tmux new-session -d 'git push'
tmux send-keys 'git push' Enter
screen -dm git push
at-now "git push"
python -c "import os; os.system('git push')"
python3 -c 'import subprocess; subprocess.run(["git", "push"])'
python3.12 -Ic 'import subprocess as s; s.call(["git","push"])'
perl -e 'system("git push")'
perl -e 'exec qw(git push)'
ruby -e '`git push`; system("git push")'
node -e 'require("child_process").execSync("git push")'
python script.py git push
just git push
expect -c 'spawn git push'
x=$(cat f); $x push
$TOOL push
eval "$(cat f)"
bash < f
cat f | sh
source ./env.sh
. ./env.sh
curl x -o y; $Y
hyperfine 'git push'
entr-like -c "git push"
""")
NO_PUSHES = lines(r"""
git status
git pull
git pushx
git log --grep=push
git log -- push
git commit -m 'git push'
git commit -m "will git push later"
git branch push
git checkout push
git remote show push
git config push.default simple
git stash push
git -C . status
git --no-pager log push
git help push
echo git push
echo 'git push'
printf 'git push\n'
grep -r 'git push' .
grep push git
rg 'git push' docs
cat git push
ls git push
head -n 3 push
command -v git
type git
which git
man git push
env
env A=1 git status
timeout 5 git fetch
nice git log
xargs git status
find . -name push -exec git status {} \;
find git push
bash -c 'git status'
sh -c 'echo git push'
eval echo git push
ls | grep git
awk '/git push/' f
sed -n '/git push/p' f
diff git push
cp git push
mv git push
tar cf git push
touch git push
mkdir -p git/push
wc -l push
make push
npm run push
npm push
cargo push
pytest -k push
python push.py
python -m push
python -c "print('git push')"
docker push image
docker build -t git .
kubectl get push
gh pr create --title 'git push'
X=push; echo $X
for x in git push; do echo $x; done
cat <<< 'git push'
hg push
jj git fetch
test -d push
[ git = push ]
uv run pytest push
""")  # fmt: skip


@pytest.mark.parametrize("command", PUSHES)
@pytest.mark.parametrize("mode", MODES)
def test_what_is_denied_is_denied_however_it_is_started(command, mode):
    assert verdict(command, "deny shell(git push)", "allow shell", mode=mode) == "deny"


@pytest.mark.parametrize("command", MAYBE)
@pytest.mark.parametrize("mode", MODES)
def test_what_may_be_denied_and_cannot_be_told_is_asked_for_in_every_mode(command, mode):
    assert verdict(command, "deny shell(git push)", "allow shell", mode=mode) == "ask"


@pytest.mark.parametrize("command", NO_PUSHES)
def test_what_is_not_denied_is_no_matter_of_the_rule(command):
    assert verdict(command, "deny shell(git push)", mode="autonomous") == "allow"


@pytest.mark.parametrize(
    ("rule", "command", "expected"),
    [
        ("deny shell(git push --force-with-lease)", "git push origin main --force-with-lease", "deny"),
        ("deny shell(git push --force-with-lease)", "git push --force-with-lease=main origin", "deny"),
        ("deny shell(git push --force-with-lease)", "git push origin", "allow"),
        ("deny shell(rm -rf)", "rm build -r -f", "deny"),
        ("deny shell(rm -rf)", "rm -fr build", "deny"),
        ("deny shell(rm -rf)", "rm -r build", "allow"),
        ("deny shell(kubectl apply)", "kubectl -n shop apply -f x", "deny"),
        ("deny shell(kubectl apply)", "kubectl --context=x apply -f x", "deny"),
        ("deny shell(kubectl apply)", "kubectl get apply", "allow"),
        ("deny shell(npm publish)", "npm --prefix web publish", "deny"),
        ("deny shell(npm publish)", "npm run publish", "allow"),
        ("deny shell(docker)", "docker ps", "deny"),
        ("deny shell(docker)", "sudo docker ps", "deny"),
        ("deny shell(sudo)", "sudo docker ps", "deny"),
        ("deny shell(env)", "env A=1 ls", "deny"),
        ("deny shell(/opt/x/tool)", "/opt/x/tool a", "deny"),
        ("deny shell(/opt/x/tool)", "tool a", "allow"),
        ("ask shell(git push)", "timeout 5 git push", "ask"),
        ("ask shell(git push)", "git status", "allow"),
    ],
)  # fmt: skip
def test_a_rule_counts_for_options_wherever_they_stand(rule, command, expected):
    assert verdict(command, rule, mode="autonomous") == expected


# -- what is allowed by name ----------------------------------------------------------------------------------------------

ALLOWS = (
    "allow shell(git log)", "allow shell(git status)", "allow shell(git diff)", "allow shell(echo)", "allow shell(cat)", "allow shell(grep)",
    "allow shell(ls)", "allow shell(head)", "allow shell(wc)", "allow shell(sort)", "allow shell(pytest)", "allow shell(make test)",
    "allow shell(python -m pytest)", "allow shell(python tools/check.py)", "allow shell(npm test)", "allow shell(uv run pytest)",
    "allow shell(find)", "allow shell(cd)", "allow shell(test)", "allow shell(true)", "allow shell(tee)", "allow shell(mkdir)", "allow shell(cp)",
    "allow shell(sed)", "allow shell(cargo test)", "allow shell(touch)", "allow shell(timeout 9 make all)",
)  # fmt: skip
ALLOWED = lines(r"""
git log
git log -3 --oneline
git log --format='%h > %s'
git -C sub log
git --no-pager log
git -P log
/usr/bin/git log
/bin/ls
env git log
env TZ=UTC git log
TZ=UTC git log
LC_ALL=C sort a
CI=1 npm test
FORCE_COLOR=0 NO_COLOR=1 npm test
PAGER=cat git log
GIT_PAGER=cat git diff
GIT_EDITOR=true git status
timeout 5 git log
timeout -k 1 5 pytest -q
nice -n 5 pytest
nohup pytest
time pytest
command ls
stdbuf -oL pytest
xargs git log
find . -name '*.py' -exec grep -n x {} +
bash -c 'git log'
sh -c "git log | head"
eval git log
git log | head -3
git log && git status
git log; ls
ls | sort | wc -l
(git log)
{ ls; }
if test -f a; then cat a; fi
for f in a b; do cat $f; done
cat "$F"
echo $HOME
echo $(git log)
cat <(git log)
git log > /dev/null
git log 2>&1
git log 2>/dev/null
git log >&2
git log > out.txt
git status --short > b.txt
echo hi >> docs/notes.md
echo hi > ./a/b
ls | tee out.txt
tee a b < c
mkdir -p build/x
cp a build/b
sed -n 1,5p a
sed -i s/a/b/ src/a.py
pytest -q tests
make test
make test CASE=1
python -m pytest -q
python tools/check.py --all
uv run pytest -q
npm test
cargo test -q
cat <<< text
cat < a
! true
timeout 9 make all
touch src/new.py
cd src && pytest
x=1; echo $x
""")  # fmt: skip
NOT_ALLOWED = lines(r"""
git push
git log > /home/ada/.bashrc
git status --short > /tmp/b.txt
echo hi >> ~/.profile
echo hi > ../other/a
echo hi > .git/hooks/pre-commit
echo hi > .periplus/config.toml
echo hi > $F
echo hi &> /home/ada/x
echo hi >& /home/ada/x
echo hi >| /srv/x
cat a >> "$HOME/.zshrc"
ls | tee ~/.bashrc
tee -a /home/ada/.profile < a
cp a ~/.config/autostart/x
cp -t /home/ada a
mkdir /srv/x
touch ~/x
sed -i s/a/b/ ~/.bashrc
sed 's/a/touch x/e' a
sed -n 'w /tmp/x' a
sort -o /home/ada/x a
GIT_PAGER='touch x' git log
PAGER=less git log
LD_PRELOAD=./x.so git log
LD_LIBRARY_PATH=. git log
PATH=.:$PATH git log
env PATH=. git log
env LD_PRELOAD=x git log
export PATH=.; git log
PATH=.; git log
declare -x GIT_EXTERNAL_DIFF=./x; git diff
GIT_EXTERNAL_DIFF=./x git diff
GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.pager GIT_CONFIG_VALUE_0=x git log
GIT_DIR=/tmp/x git log
PYTHONPATH=/tmp/x pytest
PYTEST_ADDOPTS=-pevil pytest
NODE_OPTIONS='-r ./x' npm test
BASH_ENV=./x bash -c 'git log'
MAKEFLAGS=-f/tmp/x make test
make test SHELL=./x
HOME=/tmp/x git log
IFS=x git log
read PATH < f; git log
git -c core.pager='touch x' log
git -c alias.x='!touch x' x
git --exec-path=/tmp/x log
git diff --ext-diff
git log --textconv
git grep -Otouch x
./git log
/tmp/git log
bin/ls
wrap git log
sudo git log
env
xargs
uv run git log
npx git log
docker exec c git log
ssh host git log
make
make deploy
make -f /tmp/x test
make -C /tmp test
python -c 'print(1)'
python3 -m pytest
python tools/other.py
python -m pip install x
echo 'print(1)' | python tools/check.py | python
bash x.sh
source x
$X git log
git log | sh
git log; make deploy
git log $(make deploy)
git log & make deploy
find . -exec make deploy \;
find . -delete
bash -c 'git log; make deploy'
eval "make deploy"
xargs make deploy
timeout 9 make deploy
git() { make deploy; }; git log
trap 'make deploy' EXIT; ls
hash -p /tmp/x git; git log
cat <<< $(make deploy)
""")


@pytest.mark.parametrize("command", ALLOWED)
def test_what_is_surely_meant_by_the_rules_is_allowed(command):
    assert verdict(command, *ALLOWS) == "allow"


@pytest.mark.parametrize(
    ("rule", "expected"),
    [("allow shell(python3 -c)", "allow"), ("allow shell(python3)", "ask"), ("allow shell", "ask"), ("allow *", "ask")],
)
def test_code_for_an_interpreter_is_allowed_by_who_names_it_alone(rule, expected):
    assert verdict("python3 -c 'print(1)'", rule) == expected
    assert verdict("env A=1 python3 -c 'print(1)'", rule) == expected


@pytest.mark.parametrize("command", NOT_ALLOWED)
def test_what_no_rule_surely_means_is_asked_for(command):
    assert verdict(command, *ALLOWS) in ("ask", "deny")


# -- what is written (A1) -------------------------------------------------------------------------------------------------

WRITERS = lines(r"""
echo x > {}
echo x >> {}
echo x >| {}
echo x &> {}
echo x &>> {}
echo x >& {}
echo x 1> {}
echo x 2> {}
echo x 2>> {}
echo x <> {}
: > {}
> {}
cat a > {}
cat < a > {}
(echo x) > {}
{{ echo x; }} > {}
if true; then echo x > {}; fi
for a in b; do echo $a; done > {}
f() {{ echo x > {}; }}; f
bash -c 'echo x > {}'
eval 'echo x > {}'
echo x | tee {}
echo x | tee -a {}
echo x | sudo tee {}
cp a {}
cp -t {} a
mv a {}
ln -s a {}
install -m 644 a {}
dd if=a of={}
sed -i s/a/b/ {}
sed -ni p {}
sed --in-place=.bak p {}
touch {}
mkdir -p {}
rm {}
rm -f {}
mv {} b
truncate -s 0 {}
shred {}
unlink {}
rmdir {}
sort -o {} a
sort --output={} a
curl -o {} https://x.example
wget -O {} https://x.example
env A=1 cp a {}
timeout 5 cp a {}
find . -maxdepth 0 -exec cp a {} \;
xargs cp a {}
cat <<E > {}
F={}; echo x > $F
cd . && echo x > {}
echo x > "{}"
echo x > '{}'
echo x > ./{}
echo x > lib/../{}
exec > {}
exec 3> {}
echo $(echo x > {})
cat <(echo x > {})
echo x | tee a {} b
""")


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize(
    ("path", "expected"),
    [("secrets/key", "deny"), ("lib/asked", "ask"), ("lib/free", "")],
)
def test_what_a_command_writes_is_an_edit(form, path, expected):
    """62 forms: with a rule that denies, one that asks, and none."""
    command = form.format(path) + ("\nx\nE" if "<<E" in form else "")
    rules = ("deny edit(secrets/**)", "ask edit(lib/asked)")
    if "sudo" in form:
        expected = expected or "allow"
    found = verdict(command, *rules, mode="autonomous")
    assert found == (expected or "allow")


def test_a_link_out_of_the_project_is_outside(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    os.symlink(tmp_path, work / "out")
    rules = ("allow shell(echo)", f"allow edit({tmp_path}/open/**)")
    assert verdict("echo x > a", *rules, workspace=str(work)) == "allow"
    assert verdict("echo x > out/a", *rules, workspace=str(work)) == "ask"
    assert verdict(f"echo x > {tmp_path}/open/a", *rules, workspace=str(work)) == "allow"


# -- what is lost beyond all sandboxes (A5) -------------------------------------------------------------------------------

LOST = lines(r"""
docker run -v /:/host alpine rm -rf /host
docker run --rm -v /etc:/e alpine ls
docker run --volume=/home:/h alpine ls
docker run --mount type=bind,source=/,target=/h alpine ls
docker run --privileged alpine ls
docker run -v /var/run/docker.sock:/s alpine ls
docker run --pid=host alpine ls
docker system prune -af
docker volume rm data
docker rm -f web
docker compose down -v
docker-compose down --volumes
docker exec db rm -rf /data
podman rmi x
kubectl delete ns --all
kubectl -n shop delete pod x
kubectl --context prod delete deployment/web
kubectl drain node1
kubectl scale deploy/web --replicas=0
kubectl replace --force -f x
helm uninstall web
helm delete web --purge
kind delete cluster
eksctl delete cluster x
terraform destroy
terraform destroy -auto-approve
terraform -chdir=x destroy
terraform apply -auto-approve
terraform state rm x
tofu destroy
pulumi destroy --yes
cdk destroy --all
serverless remove
aws s3 rb s3://b --force
aws s3 rm s3://b --recursive
aws s3 sync . s3://b --delete
aws ec2 terminate-instances --instance-ids i-1
aws --profile x rds delete-db-instance --db-instance-identifier x
aws dynamodb delete-table --table-name x
aws iam delete-user --user-name x
gcloud projects delete x
gcloud compute instances delete x -q
gsutil rm -r gs://b
gsutil -m rsync -d a gs://b
az group delete -n x -y
doctl compute droplet delete 1
rclone purge r:x
rclone sync a r:x
mc rb --force m/b
psql -c 'DROP DATABASE x'
psql -c "truncate users"
psql -h db -c 'delete from users'
mysql -e 'DROP TABLE x'
sqlite3 a.db 'DELETE FROM t'
mongosh --eval 'db.dropDatabase()'
redis-cli FLUSHALL
redis-cli -h x flushdb
dropdb x
mysqladmin drop x
rails db:drop
bundle exec rails db:reset
php artisan migrate:fresh
python manage.py flush
npx prisma migrate reset --force
alembic downgrade base
gh repo delete a/b --yes
gh release delete v1
gh api -X DELETE repos/a/b
npm unpublish x
cargo yank x
heroku apps:destroy x
heroku pg:reset
flyctl destroy x
vercel rm x
vagrant destroy -f
virsh undefine x
zfs destroy tank/x
vault kv delete secret/x
curl -X DELETE https://x.example/a
env AWS_PROFILE=x aws s3 rb s3://b
timeout 9 terraform destroy
bash -c 'kubectl delete pod x'
xargs kubectl delete pod
ssh host docker system prune
ls; terraform destroy
""")
NOT_LOST = lines(r"""
docker ps
docker run --rm alpine ls
docker run --rm -v .:/w -w /w node npm test
docker run -v data:/data db
docker build -t x .
docker compose up -d
docker compose down
docker logs web
docker exec web ls
docker images
docker inspect web
podman ps
kubectl get pods
kubectl -n shop get pods -o wide
kubectl describe pod x
kubectl logs -f x
kubectl apply -f x.yaml
kubectl scale deploy/web --replicas=3
helm list
helm upgrade web chart
helm template chart
kind get clusters
terraform plan
terraform init
terraform validate
terraform fmt
terraform state list
pulumi preview
cdk diff
cdk deploy
aws s3 ls
aws s3 cp a s3://b/a
aws ec2 describe-instances
aws sts get-caller-identity
aws logs tail x
gcloud projects list
gcloud compute instances list
gsutil ls gs://b
az group list
rclone ls r:x
rclone copy a r:x
mc ls m/b
psql -c 'SELECT 1'
psql -c "select dropped from t"
psql -f x.sql
mysql -e 'SHOW TABLES'
sqlite3 a.db .tables
sqlite3 a.db 'select * from t'
mongosh --eval 'db.users.find()'
redis-cli GET x
redis-cli PING
rails db:migrate
rails test
php artisan test
python manage.py migrate
python manage.py test
npx prisma generate
alembic upgrade head
gh pr list
gh pr create -t x
gh api repos/a/b
npm install
npm publish
cargo build
heroku logs
flyctl status
vercel ls
vagrant up
virsh list
zfs list
vault kv get secret/x
curl https://x.example/delete
echo terraform destroy
git commit -m 'kubectl delete ns'
grep -r 'DROP TABLE' .
""")


@pytest.mark.parametrize("command", LOST)
def test_what_is_lost_beyond_all_sandboxes_is_asked_for_whatever_allows_it(command):
    judgement = judge(command, home=HOME, workspace=WORK)
    assert judgement.level == "destructive"
    assert [verdict(command, "allow shell", "allow *", mode=mode) for mode in MODES] == ["ask"] * len(MODES)


@pytest.mark.parametrize("command", NOT_LOST)
def test_what_takes_nothing_away_is_plain(command):
    assert judge(command, home=HOME, workspace=WORK).level == "plain"
    assert verdict(command, "allow shell") == "allow"


# -- expansions (A4) ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", lines(r"""
rm${IFS}-rf${IFS}/
rm$IFS-rf$IFS/
rm${IFS}-rf${IFS}"/"
rm$IFS$9-rf$IFS$9/
${X:-rm} -rf /
X='rm -rf /'; $X
X=rm; Y=-rf; $X $Y /
X="-rf /"; rm $X
IFS=,; X=rm,-rf,/; $X
$(echo rm -rf /)
$(printf 'rm -rf /')
`echo rm` -rf /
{rm,-rf,/}
rm -rf $1/
rm -rf "$@"/
rm -rf ${1:-/}
r""m -rf /
r\m -r\f /
uv run rm -rf /
ssh host 'rm -rf /'
bash -c 'rm${IFS}-rf${IFS}/'
X=/; rm -rf "$X"
for x in /; do rm -rf $x; done
"""))  # fmt: skip
def test_expansions_are_split_as_a_shell_splits_them(command):
    assert judge(command, home=HOME, workspace=WORK).level == "catastrophic"


@pytest.mark.parametrize("command", lines(r"""
echo "$IFS-rf$IFS/"
X='rm -rf /'; echo "$X"
X='rm -rf /'; "$X"
echo rm${IFS}-rf${IFS}/
git commit -m "rm${IFS}-rf /"
"rm -rf /"
'rm${IFS}-rf'
"""))  # fmt: skip
def test_what_is_in_quotes_is_one_word(command):
    assert judge(command, home=HOME, workspace=WORK).level == "plain"


# -- one reading for all ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [
    "env A=1", "timeout 5", "sudo -u bob", "nice -n 5", "uv run --with x", "npx", "docker exec -it web", "docker compose exec web",
    "A=1 B=2", "stdbuf -oL", "xvfb-run -s x", "poetry run", "conda run -n x", "command", "time", "taskset 3", "direnv exec .",
])  # fmt: skip
def test_trails_list_what_rules_see(start):
    words = [*start.split(), "pytest", "-q"]
    assert program_of(words) == ["pytest", "-q"]
    assert verdict(" ".join(words), "deny shell(pytest)", mode="autonomous") == "deny"
