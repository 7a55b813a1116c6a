"""What counts as a secret and what does not. Every sample key is put together here: none stands in this file."""

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from periplus.base.text import secrets
from periplus.base.text.secrets import Secret, find_secrets, mask_secrets
from sampling import sampled

pytestmark = pytest.mark.quick

MIXED = "q7Zt0Xw2Lk9Vb4Nc8Rd1Hs6Jf3Gy5Mp"
LONG = MIXED + MIXED[::-1] + MIXED
UPPER = "Q7ZT0XW2LK9VB4NC"
HEX = "3fa94c1be07d52a86b1f" + "c09e4d7728ab35f160de"
DASHED = "q7Zt0X-w2Lk9_Vb4Nc8Rd1-Hs6Jf3Gy5Mp"
UUID = "550e8400-e29b" + "-41d4-a716-446655440000"
JWT = ".".join(["ey" + "JhbGciOiJIUzI1NiJ9", "ey" + "JzdWIiOiIxMjM0In0", "s5Fz0-" + MIXED])
WORD = "s3Cr-" + "7uLk#9"  # a password of twelve characters
LOWER = "hunter" + "2hunter2"
BASIC = "YWxhZGRpbjpv" + "cGVuc2VzYW1l"
PEM_LINE = "MIIEpAIBAAKCAQEA" + LONG[:48]


def pem(kind, newline="\n", end=True):
    lines = [f"-----BEGIN {kind}" + "PRIVATE KEY-----", PEM_LINE, PEM_LINE, "q7Zt0Xw2=="]
    return newline.join(lines + [f"-----END {kind}" + "PRIVATE KEY-----"] * end)


# text before, the secret, text after, kind
SECRETS = [
    # 40 of base64 beside a key word, which need not look mixed and may begin with a slash
    ("AWS_SECRET_ACCESS_KEY=", "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY", " ", "key"),
    ("export AWS_SECRET_ACCESS_KEY=", "/2vAIiolGmR+3ZAEPZxX" + "xhx1rmJPgbADTQolZ2bs", "; aws s3 ls", "key"),
    ("aws_secret_access_key = ", "/2vAIiolGmR+3ZAEPZxX" + "xhx1rmJPgbADTQolZ2bs", "", "key"),
    ("DB_PASS=", WORD, " ./serve", "password"),
    ("SMTP_PASS=", "correct" + "horse9", "", "password"),
    ("db_pass: '", WORD, "'", "password"),
    # shapes
    ("key id ", "AK" + "IA" + UPPER, ".", "aws_key"),
    ("", "AS" + "IA" + UPPER, "", "aws_key"),
    ("(", "ghp" + "_" + MIXED + "abcd", ")", "github_token"),
    ("gh: ", "gho" + "_" + MIXED + "abcd", "", "github_token"),
    ("", "ghs" + "_" + MIXED + "abcd", "\n", "github_token"),
    ("", "ghu" + "_" + MIXED + "abcd", "\n", "github_token"),
    ("clone with ", "github" + "_pat_" + UPPER + "_" + LONG[:59], "", "github_token"),
    ("", "glp" + "at-" + DASHED[:20], "", "gitlab_token"),
    ("", "s" + "k-" + MIXED + MIXED[:17], "", "openai_key"),
    ("use ", "s" + "k-proj-" + DASHED + LONG, ", please", "openai_key"),
    ("", "s" + "k-or-v1-" + HEX, "", "openai_key"),
    ('"', "s" + "k-ant-api03-" + LONG + "-" + DASHED, '"', "anthropic_key"),
    ("", "xo" + "xb-123456789012-1234567890123-" + MIXED[:24], "", "slack_token"),
    ("", "xo" + "xp-" + "2345678901-abc", "", "slack_token"),
    ("", "sk" + "_live_" + MIXED[:24], "", "stripe_key"),
    ("", "rk" + "_live_" + MIXED[:24], "", "stripe_key"),
    ("//registry/:_x=", "np" + "m_" + MIXED + "abcde", "", "npm_token"),
    ("", "py" + "pi-AgEIcHlwaS5vcmc" + LONG, "", "pypi_token"),
    ("?k=", "AI" + "za" + "SyD" + LONG[:32], "&v=1", "google_key"),
    ("cookie ", JWT, ";", "jwt"),
    ("Authorization: Bearer ", JWT, "", "jwt"),
    ("Bearer ", HEX, "\n", "bearer_token"),
    ("curl -H 'authorization: bearer ", MIXED + "==", "' x", "bearer_token"),
    ("a\n", pem("RSA "), "\nb", "private_key"),
    ("a ", pem(""), " b", "private_key"),
    ('"', pem("OPENSSH ", "\\n"), '"', "private_key"),
    ("", pem("EC ", '\\n"\n  "'), "", "private_key"),
    ("escaped once more\\n", "ghp" + "_" + MIXED + "abcd", "\\n", "github_token"),
    # credentials in URLs
    ("https://me:", "pa" + "ss", "@host/x", "url_password"),
    ("DATABASE_URL=postgres://app:", "pw" + "-9x", "@db.internal:5432/app", "url_password"),
    ("redis://:", LOWER, "@cache:6379/0", "url_password"),
    ("mysql+pymysql://root:", "t%40" + "or", "@127.0.0.1/x", "url_password"),
    ("mongodb+srv://u:", "p@" + "ss", "@cluster0.example.net/?w=1", "url_password"),
    ("amqp://guest:", "gu" + "est", "@[::1]:5672", "url_password"),
    ('{"url": "https://bot:', MIXED, '@git.example.org/r.git"}', "url_password"),
    # values beside key words
    ('password = "', WORD, '"', "password"),
    ("DB_PASSWORD=", LOWER, "\n", "password"),
    ("DB_PASSWORD=", "winter" + "2024", "\n", "password"),
    ("db:\n  password: ", LOWER, "\n", "password"),
    ('{"passwd": "', WORD, '"}', "password"),
    ("pwd: '", WORD, "'", "password"),
    ('passphrase := "', WORD, '"', "password"),
    ("mysql --password=", LOWER, " db", "password"),
    ("tool --password ", LOWER, " db", "password"),
    ("tool --api-key '", HEX, "'", "key"),
    ('password: str = "', WORD, '"', "password"),
    ("config['password'] = '", WORD, "'", "password"),
    ('{\\"password\\": \\"', WORD, '\\"}', "password"),
    ("client_secret=", HEX, "&grant_type=x", "secret"),
    ("AWS_SECRET_ACCESS_KEY=", LONG[:40], "\n", "key"),
    ('"secretKey": "', LONG[:40], '"', "key"),
    ("SECRET = '", "Sup3r" + "Secret!", "'", "secret"),
    ("api_key=", HEX, "", "key"),
    ("apikey: '", "abcdef" + "1234567890", "'", "key"),
    ("AccountKey=", LONG[:86] + "==", ";Endpoint", "key"),
    ("private_key => `", HEX, "`", "key"),
    ("export ACCESS_TOKEN=", HEX, "", "token"),
    ("access_token: ", HEX, "\n", "token"),
    ('"refresh_token":"', DASHED, '"', "token"),
    ("?token=", MIXED, "&x=1", "token"),
    ("token = '", UUID, "'", "token"),
    ("X-Auth-Token: ", HEX, "\r\n", "token"),
    ('"auth": "', BASIC, '"', "auth"),
    ("Authorization: Basic ", BASIC, "", "auth"),
    ("Authorization: token ", HEX, "", "auth"),
    ("credentials: '", MIXED, "'", "credential"),
    # more shapes
    ("login(token='", "h" + "f_" + MIXED + "abcd", "')", "huggingface_token"),
    ("", "gs" + "k_" + LONG[:52], "", "groq_key"),
    ("", "shp" + "at_" + HEX[:32], "", "shopify_token"),
    ("", "dckr" + "_pat_" + DASHED[:27], "", "docker_token"),
    ("", "dop" + "_v1_" + HEX + HEX[:24], "", "digitalocean_token"),
    ("vault login ", "hv" + "s." + MIXED[:24], "", "vault_token"),
    ("", "S" + "G." + MIXED[:22] + "." + LONG[:43], "", "sendgrid_key"),
    ("", "ya" + "29." + DASHED, "", "google_token"),
    ("https://hooks.slack.com/services/", "T0123ABCD/B0123ABCD/" + MIXED[:24], "", "slack_webhook"),
    # words of commands
    ("curl -u admin:", "tr0ub", " https://example.org", "password"),
    ("curl -sSfu 'admin:", "tr 0ub", "' https://example.org", "password"),
    ("/usr/bin/curl https://example.org -uadmin:", "x1", "", "password"),
    ("x=$(curl --user admin:", "letmein", " https://example.org)", "password"),
    ("curl \\\n  --proxy-user=me:", "letmein", " \\\n  https://example.org", "password"),
    ('run `curl -u "me:', "let me in", '" https://example.org` first', "password"),
    ("$ mysql -uroot -p", "letmein", " shop < dump.sql", "password"),
    ("docker exec db mysqldump -h db -p'", "let me in", "' shop", "password"),
    ("mariadb-admin -p", "letmein", ";", "password"),
    ("sshpass -p ", "letmein", " ssh me@host", "password"),
    ("sshpass -p'", "letmein", "' ssh me@host", "password"),
    ("docker login -u me -p ", "letmein", " registry.example.org", "password"),
    ("helm registry login --password=", "letmein", "", "password"),
    ("redis-cli -h cache -a ", "letmein", " ping", "password"),
    ("PGPASSWORD=", LOWER, " psql -h db", "password"),
    ("MYSQL_PWD=", LOWER, " mysql", "password"),
    ("machine git.example.org login me password ", LOWER, "\n", "password"),
    ("DATABASE_URL='postgresql://app:", "letmein", "@db/app'", "url_password"),
    ("Зашифровано: İ PASSWORD=", LOWER, " …", "password"),
]

ORDINARY = [
    "max_tokens=4096",
    "token = tokenizer.encode(x)",
    "password = getpass()",
    "secret: string",
    'api_key=os.environ["X"]',
    'api_key = os.getenv("OPENAI_API_KEY")',
    "PASSWORD_MIN_LENGTH = 12",
    "--token $TOKEN",
    "--token ${TOKEN_2024_production}",
    '--api-key "$(cat /run/keys/api2024key)"',
    "token: <your-token>",
    "Authorization: Bearer <your-token-0123456789abcdef>",
    "Authorization: Bearer $GITHUB_TOKEN_0123456789abcdef",
    "Bearer authentication-is-described-in-the-manual",
    "password=xxxxxxxxxxxx",
    "api_key='xxxx-xxxx-xxxx-xxxx-1234'",
    "ghp" + "_" + "x" * 36,
    "s" + "k-ant-api03-your-key-goes-here-0123",
    "s" + "k-ant-...",
    f"run {UUID} finished",
    f"sha256:{HEX}{HEX[:24]} is the digest",
    f"commit {HEX}",
    f"data:image/png;base64,{LONG}",
    f"integrity sha512-{LONG[:86]}==",
    "pip install sk-learn",
    "sk-learn-contrib-extension-packages",
    "task-abcdefghijklmnopqrstuvwxyz01",
    "risk-0123456789abcdefghijklmnopq",
    "npm_config_registry_and_other_settings_of_it",
    "pypi-publish-on-every-tag-of-the-main-branch",
    "xoxb-is-the-prefix-of-bot-keys",
    "glpat-is-the-prefix-of-personal-keys",
    "AKIA and ASIA begin the key ids",
    "AKIAlowercaseisnotakey0",
    "look for -----BEGIN RSA " + "PRIVATE KEY----- in every file that is new",
    "-----BEGIN " + "PRIVATE KEY-----\n...\n-----END " + "PRIVATE KEY-----",
    "-----BEGIN CERTIFICATE-----\n" + PEM_LINE + "\n-----END CERTIFICATE-----",
    "eyJ is how base64 of JSON begins, eyJhbGciOiJIUzI1NiJ9.x.y",
    "git@github.com:owner/repository.git",
    "https://host:8080/@scope/package",
    "https://example.org/a:b@c",
    'f"postgres://{user}:{password}@{host}/{name}"',
    "postgres://$USER:$PASSWORD@localhost/x",
    "postgres://%s:%s@%s/%s",
    "redis://:<password>@host",
    "http://user:***@host",
    "http://user:YOUR_PASSWORD@host",
    "token_type: bearer0123456789abcdef",
    "prompt_tokens: 12345678901234567890",
    "tokens = 'a1b2c3d4e5f6a7b8c9d0'",
    "if password == other.password2:",
    "password: str = Field(min_length=8)",
    "password = hash_password_v2(plain_text1)",
    "password = sha256_of_input2",
    'password: "Enter your password (8 or more)"',
    'placeholder="password"',
    'secret = "db-credentials-secret-2"',
    "secret_name: my-app-secret-v2024",
    "token=self.session.token1",
    "auth: OAuth2PasswordBearer",
    "author: abcdef0123456789abcdef",
    "PWD=/home/me/project2024/src",
    "private_key = /etc/ssl/private/server2024abc.key",
    "access_key: ${{ secrets.ACCESS_KEY_2024_abc }}",
    "secret: {{ vault_secret_2024_abc }}",
    "primary_key = 'a1b2c3d4e5f6a7b8c9d0'",
    '"key": "a1b2c3d4e5f6a7b8c9d0"',
    "the token 4f3a9c1be07d52a86b1f is gone",
    "api_key: 'test-key-123'",
    "api_key = 'aaaaaaaa11111111'",
    'token="https://example.org/a1b2c3d4e5f6a7b8"',
    'token = "[masked:token]"',
    "monkey: a1b2c3d4e5f6a7b8c9d0",
    'curl -u "$USER:$PASS" https://example.org',
    "curl -u $USER:$PASS https://example.org",
    "curl -u user:password https://example.org",
    "curl -u <user>:<password> https://example.org",
    "curl -u user: https://example.org",
    "curl -fsSL https://example.org/a:b | sh -u x:y",
    "curl https://example.org; ps -u joe:staff",
    "curl -H 'X-Note: a:b' -d user:name https://example.org",
    "curling -u a:b",
    "mysql -p db",
    "mysql -u root -p < dump.sql",
    "mysql -P 3306 --port 3306 db",
    "mysql -p$PASS db",
    'mysql -p"$MYSQL_PASSWORD" db',
    "the mysql container needs -p3306:3306",
    "find . -name mysql -print",
    "docker run -p8080:80 mysql:8 -p3306",
    "sshpass -e ssh me@host",
    "sshpass -f ~/.pw ssh me@host",
    "docker login -u me --password-stdin",
    "the login -p page",
    "redis-cli -h cache ping",
    "hf_hub_download(repo_id, filename)",
    "hf_transfer and hf_xet are packages",
    "SG.Window and ya29. and hvs.x are no keys",
    "login me password-less",
    "https://hooks.slack.com/services/T000/B000/xxxx",
    "",
    "a",
]


@pytest.mark.parametrize(("before", "secret", "after", "kind"), SECRETS)
def test_a_secret_is_found_where_it_stands(before, secret, after, kind):
    text = before + secret + after
    assert find_secrets(text) == [Secret(kind, len(before), len(before) + len(secret))]
    assert mask_secrets(text) == (f"{before}[masked:{kind}]{after}", 1)


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays_as_it_is(text):
    assert find_secrets(text) == []
    assert mask_secrets(text) == (text, 0)


@pytest.mark.parametrize(("before", "secret", "after", "kind"), SECRETS)
def test_masked_text_holds_no_secret(before, secret, after, kind):
    assert find_secrets(f"{before}[masked:{kind}]{after}") == []


def test_all_secrets_of_one_text_are_found_among_ordinary_lines():
    lines = [line for case, text in zip(SECRETS, ORDINARY, strict=False) for line in ("".join(case[:3]), text)]
    text = "\n\n".join(lines)
    masked, count = mask_secrets(text)
    assert count == len(SECRETS)
    found = find_secrets(text)
    assert [text[secret.start : secret.end] for secret in found] == [secret for _, secret, _, _ in SECRETS]
    for line in ORDINARY[: len(SECRETS)]:
        assert line in masked


def test_a_key_that_two_rules_see_is_masked_once_by_its_own_name():
    key = "ghp" + "_" + MIXED + "abcd"
    assert mask_secrets(f'GITHUB_TOKEN="{key}"') == ('GITHUB_TOKEN="[masked:github_token]"', 1)
    assert mask_secrets(f"https://x:{key}@github.com") == ("https://x:[masked:github_token]@github.com", 1)
    both = f"password='{key}/{WORD}'"
    assert mask_secrets(both) == ("password='[masked:github_token]'", 1)


def test_a_private_key_that_is_cut_off_is_masked_as_far_as_it_goes():
    masked, count = mask_secrets("see\n" + pem("", end=False).removesuffix("q7Zt0Xw2==") + "\nand then some words")
    assert (masked, count) == ("see\n[masked:private_key]\n\nand then some words", 1)


@given(st.text(max_size=60), st.sampled_from(SECRETS), st.text(max_size=60))
def test_what_stands_around_never_breaks_the_places(left, case, right):
    before, secret, after, _ = case
    text = f"{left}\n{before}{secret}{after}\n{right}"
    found = find_secrets(text)
    assert all(0 <= one.start < one.end <= len(text) for one in found)
    assert all(one.end <= two.start for one, two in itertools.pairwise(found))
    start = len(left) + 1 + len(before)
    assert any(one.start <= start and start + len(secret) <= one.end for one in found)


SEEDS = [
    "ey" + "J",
    "-ey" + "J",
    "ey" + "Jaaaaaaaaaa.",
    "s" + "k-proj-",
    "s" + "k-ant-",
    "s" + "k-ant-api03-aaaaaaaaaaaaaaaa-",
    "s" + "k-",
    "gh" + "p_",
    "github" + "_pat_",
    "glp" + "at-",
    "py" + "pi-",
    "xo" + "xb-",
    "AK" + "IA",
    "AI" + "za",
    "-----BEGIN ",
    "-----BEGIN " + "PRIVATE KEY-----",
    "-----BEGIN " + "PRIVATE KEY-----\nAAAAAAAAAAAAAAAAAAAA\n",
    "-----BEGIN " + "PRIVATE KEY-----" + "a-" * 500,
    "://",
    "a://:",
    "a://:b",
    "a://b:c@",
    "bearer ",
    "bearer" + " " * 50,
    "token=",
    "token='",
    'token="a',
    "token: a" + " " * 50,
    "token: a|b ",
    "--token ",
    "--",
    "curl ",
    "curl -u ",
    "curl -u a:b ",
    "curl '",
    'curl "\\',
    "mysql -p\\",
    "sshpass -p",
    "docker login -p ",
    "login a password ",
    "hf" + "_",
    "S" + "G.a.",
    "password",
    "password: ",
    "secret:=",
    "secret\\\\\\\\",
    "api_key",
    "auth" + "\t" * 9,
    "credential]",
    "a",
    "a1",
    " ",
    "\\n",
    "=",
    "İ",
]


def assert_linear(text):
    # Linear rules need well under a second here, a quadratic one many minutes: the bound is no measurement.
    begin = time.process_time()
    find_secrets(text)
    assert time.process_time() - begin < 30


@pytest.mark.parametrize("seed", sampled(SEEDS, 12))
def test_a_megabyte_of_hostile_text_is_read_in_linear_time(seed):
    assert_linear((seed * (1_000_000 // len(seed) + 1))[:1_000_000])


@pytest.mark.slow
@pytest.mark.parametrize("start", ["-----BEGIN " + "PRIVATE KEY-----\n", "password='", "a://b:", "s" + "k-proj-a"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_megabyte_of_hostile_text_behind_a_trigger_is_read_in_linear_time(start, seed):
    assert_linear(start + seed * (1_000_000 // len(seed)))


def test_every_trigger_is_looked_for():
    """Needles are looked for in plans, or by what they begin with: none may be forgotten, whatever stands around it."""
    key = "q7Zt0Xw2Lk9Vb4Nc8Rd1Hs6"
    for trigger in secrets._EXACT_NEEDLES:
        assert trigger in secrets._needles_in(f"before {trigger}{key} behind")
    for word in secrets._FOLDED_NEEDLES:
        assert word in secrets._needles_in(f"before {word.upper()} = {key} behind")
    assert not secrets._needles_in("nothing of that kind stands in here")
