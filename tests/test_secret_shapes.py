"""Keys by their published shapes. None stands in this file: each is put together from its prefix, its alphabet and its length."""

from __future__ import annotations

import base64
import random
import string

import pytest

from periplus.base.text.secrets import find_secrets, mask_secrets

pytestmark = pytest.mark.quick

UUID = "8d3c0f1a-4b7e-49a2-9c65-" + "e10b72d9f384"
ALPHABETS = {
    "x": "0123456789abcdef", "X": "0123456789ABCDEF", "d": string.digits, "l": string.ascii_lowercase + string.digits,
    "u": string.ascii_uppercase + string.digits, "n": string.ascii_letters + string.digits, "w": string.ascii_letters + string.digits + "_-",
    "b": string.ascii_letters + string.digits + "+/", "a": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", "h": "0123456789abcdefgh",
}  # fmt: skip


def some(alphabet, length, seed):
    """Characters drawn at random, a digit and a letter among them, the last one no sign."""
    drawn = random.Random(f"{alphabet}{length}{seed}")
    letters = ALPHABETS[alphabet]
    plain = [one for one in letters if one.isalnum()]
    made = [drawn.choice(letters) for _ in range(length)]
    if length > 3:
        made[1], made[-1] = drawn.choice([one for one in plain if one.isdigit()]), drawn.choice(plain)
    return "".join(made)


# A prefix (its middle marked, so that it is none here), then pieces: a number of characters of an alphabet, or text.
PREFIXED = """
AK·IA u16 | AS·IA u16 | AB·IA u16 | AC·CA u16 | AB·SK b112 | gh·p_ n36 | gh·o_ n36 | gh·s_ n36 | gh·u_ n36 | gh·r_ n36 | github·_pat_ n82
gl·pat- w20 | gl·rt- w20 | gl·rt-t1_ w27 .01.0 l7 | gl·dt- w20 | gl·cbt- d2 _ w20 | gl·ffct- w20 | gl·ft- w20 | gl·imt- w25 | gl·agent- w50 | gl·oas- w64
gl·ptt- x40 | gl·soat- w20 | GR·1348941 w20 | s·k-ant-api03- w95 | s·k-ant-admin01- w95 | s·k- n48 | s·k-proj- w74 | s·k-svcacct- w74 | s·k-admin- w74
s·k-or-v1- x64 | s·k-lf- U | xa·i- n80 | pp·lx- n48 | r8·_ n37 | h·f_ n34 | api·_org_ n34 | gs·k_ n52 | nv·api- w64 | tv·ly- n32 | tv·ly-dev- n32 | ls·v2_pt_ x32 _ x10
pc·sk_ n70 | py·lf_v1_ us_ n43 | ji·na_ n58 | xo·xb- d12 - d12 - n24 | xo·xp- d12 - d12 - d12 - x32 | xo·xa- n24 | xo·xr- n24 | xo·xe- d1 - u146 | xo·xe.xoxp- d1 - u163
xa·pp- d1 -A0 u9 - d12 - x64 | sk·_live_ n24 | rk·_live_ n24 | sk·_test_ n24 | rk·_test_ n24 | sk·_prod_ n24 | wh·sec_ n32 | sq·0atp- w22 | sq·0csp- w43 | EA·AA w56
EA·AC n120 | EA·AM n120 | np·m_ n36 | py·pi-AgEIcHlwaS5vcmc w70 | ruby·gems_ x48 | oy·2 l43 | CLO·JARS_ l60 | dc·kr_oat_ w27 | dc·kr_pat_ w27 | AK·Cp n69 | cm·Vmd n59
sh·pat_ x32 | sh·pca_ x32 | sh·ppa_ x32 | sh·pss_ x32 | do·p_v1_ x64 | do·o_v1_ x64 | do·r_v1_ x64 | hv·s. w95 | hv·b. w140 | n14 .atlas·v1. w65 | S·G. n22 . n43
AI·za w35 | ya·29. w60 | GOC·SPX- w28 | 1/·/0 w60 | da·pi x32 | da·pi x32 -2 | gl·sa_ n32 _ x8 | gl·c_ b60 | ey·JrIjoi n90 | snt·rys_ n80 _ n43 | snt·ryu_ x64
AGE-·SECRET-KEY-1 a58 | op·s_eyJ b260 | A3·- u6 - u11 - u5 - u5 - u5 | p8·e- l32 | LT·AI l20 | pa·t n14 . x64 | ATA·TT3 w180 | AT·BB n32 | dp·.pt. n43 | dp·.st. prd. n43
scau·th_ l12 . l5 .acc_ l20 . w60 | 4b·1d n38 | v1·.0- x24 - x146 | dnk·ey- w26 - w52 | duff·el_live_ w43 | duff·el_test_ w43 | dt0·c01. u24 . u64 | EZ·AK n54 | EZ·TK n54
FLW·SECK_TEST- h32 -X | FLW·PUBK_TEST- h32 -X | fo·1_ w43 | fm·2_ b120 | fm·1r_ b120 | fi·o-u- w64 | pa·t. w22 . n24 . n20 | HRK·U-AA w58 | ic·o- n32 | s-s·4t2ud- x64
li·n_api_ n40 | li·n_oauth_ n40 | nt·n_ d11 n35 | sec·ret_ n43 | AP·I- u26 | sha·256~ w43 | psc·ale_tkn_ w43 | psc·ale_oauth_ w43 | psc·ale_pw_ w43 | PM·AK- x24 - x34
pn·u_ n36 | pu·l- x40 | rd·me_ l70 | tk·-us- w48 | xke·ysib- x64 - l16 | sm·_aat_ n16 | sm·_pat_ n16 | sm·_sat_ n16 | shi·ppo_live_ x40 | shi·ppo_test_ x40 | sg·p_ x40
sg·p_ x16 _ x40 | sq·u_ x40 | sq·p_ x40 | sq·a_ x40 | tf·p_ w59 | NR·AK- u27 | NR·II- w32 | NR·JS- x19 | fi·gd_ w43 | nf·p_ n40 | CF·PAT- w43 | ts·key- auth- n17 - n32
sb·p_ x40 | ph·x_ n43 | rn·d_ n32 | ke·y- x32 | pub·key- x32 | AQ·VN w38 | live·_pub_ x31 | ml·sn. x64 | r·e_ n8 _ n24 | n6 _ n29 _m·mk | x32 -u·s21 | d10 :A·A w33
n3 8·Q~ w34 | n76 AZ·DO n4 | S·K0 x31 | S·Ka x31 | ac·cess-sandbox- U | amz·n.mws. U
"""  # fmt: skip
OWNED = """
adafruit_io w32 | ADOBE_ID x32 | airtable l17 | ALGOLIA_ADMIN l32 | alibaba_sk l30 | asana l32 | jira l20 x4 | CONFLUENCE n20 x4 | beamer b_ w44 | bitbucket w64 | bittrex l32 | meraki x40
cloudflare_global x37 | CLOUDFLARE w40 | codecov l32 | cohere n40 | coinbase w64 | confluent l64 | contentful w43 | datadog_app l40 | DISCORD_CLIENT w32 | discord x64 | dropbox l15
etsy l24 | facebook x32 | fastly w32 | finicity x32 | finnhub l20 | flickr l32 | freshbooks l64 | gitter w40 | heroku U | hubspot U | intercom w60 | artifactory l73 | jfrog l64
kraken b86 | kucoin x24 | launchdarkly w40 | linear x32 | linkedin l16 | lob live_ x35 | looker l24 | mattermost l26 | messagebird l25 | netlify w43 | new_relic l64 | nytimes w32 | okta 00 w40
plaid l30 | rapidapi w50 | sendbird x40 | sentry x64 | snyk U | sonar_login x40 | squarespace U | sumo l64 | travis l22 | twilio x32 | twitch l30 | twitter_secret l45 | vault s. n24 | zendesk l40
"""


def made(text, seed):
    """A key of a description."""
    found = ""
    for piece in text.split():
        whole = piece.replace("·", "")
        is_drawn = whole[0] in ALPHABETS and whole[1:].isdigit() and "·" not in piece
        found += UUID if whole == "U" else some(whole[0], int(whole[1:]), seed) if is_drawn else whole
    return found


def described(table):
    return [one.strip() for line in table.strip().splitlines() for one in line.split("|")]


def test_there_are_as_many_shapes_as_were_promised():
    assert len(described(PREFIXED)) >= 150
    assert len(described(OWNED)) >= 60


@pytest.mark.parametrize("shape", described(PREFIXED))
@pytest.mark.parametrize(
    ("before", "after"), [("", ""), ("use ", " for it"), ('{"k": "', '"}'), ("X=", "\n"), ("a\\n", "\\n"), ("(", ").")]
)
def test_a_key_of_a_published_shape_is_masked_wherever_it_stands(shape, before, after):
    key = made(shape, before)
    masked, count = mask_secrets(before + key + after)
    assert count == 1
    assert key[-12:] not in masked
    assert masked.startswith(before)
    assert masked.endswith(after)


@pytest.mark.parametrize("shape", described(OWNED))
@pytest.mark.parametrize(
    "form", ["{} = '{}'", '{}: "{}"', "{}={}", '"{}": "{}",', "export {}={}\n", "{} => '{}'", "--{}={}"]
)
def test_a_value_beside_the_name_of_a_service_is_masked(shape, form):
    name, *pieces = shape.split()
    key = made(" ".join(pieces), form)
    masked, count = mask_secrets(form.format(name, key))
    assert count == 1
    assert key not in masked


PEM = "\n".join(
    [
        "-----BEGIN RSA PRIVATE" + " KEY-----",
        *[some("b", 64, at) for at in range(4)],
        "-----END RSA PRIVATE" + " KEY-----",
        "",
    ]
)
CERTIFICATE = "\n".join(
    ["-----BEGIN CERTIFICATE-----", *[some("b", 64, at) for at in range(4)], "-----END CERTIFICATE-----", ""]
)
PUTTY = "\n".join([
    "PuTTY-User-Key-File-3: ssh-ed25519", "Encryption: none", "Comment: me", "Public-Lines: 2", some("b", 64, 1), some("b", 20, 2),
    "Private-Lines: 1", some("b", 48, 3), "Private-MAC: " + some("x", 64, 4),
])  # fmt: skip
WHOLE = [
    ("client-key-data: ", base64.b64encode(PEM.encode()).decode(), "\n"),
    ("https://x.blob.core.windows.net/c/b?sv=2024-11-04&ss=b&sig=", some("b", 43, 1) + "%3D", "&se=2026-01-01"),
    ("https://discord.com/api/webhooks/" + some("d", 18, 2) + "/", some("w", 68, 3), " ok"),
    ("https://hooks.slack.com/workflows/", some("b", 44, 4), ""),
    ("https://hooks.slack.com/triggers/", some("n", 44, 5), ""),
    ("https://acme.webhook.office.com/webhookb2/", f"{UUID}@{UUID}/IncomingWebhook/{some('l', 32, 6)}/{UUID}", ""),
    ("Cookie: theme=dark; sessionid=", some("l", 32, 7), "; lang=de"),
    ("Cookie: _gitlab_session=", some("l", 32, 8), ""),
    ("cookie: connect.sid=", "s%3A" + some("n", 32, 9) + "." + some("n", 43, 10), "\r\nAccept: */*"),
    ("Set-Cookie: PHPSESSID=", some("l", 26, 11), "; path=/"),
    ("curl --cookie 'token=", some("n", 40, 12), "' https://x.example"),
    ('<add key="ClearTextPassword" value="', "Tr0ub" + "4dor&3", '" />'),
    ("DISCORD_BOT: ", some("n", 24, 13) + "." + some("n", 6, 14) + "." + some("n", 38, 15), ""),
    (
        "twice: ",
        base64.b64encode(("ey" + "JhbGciOiJIUzI1NiJ9.ey" + "JzdWIiOiIxIn0." + some("n", 43, 16)).encode()).decode(),
        "",
    ),
]


@pytest.mark.parametrize(("before", "secret", "after"), WHOLE)
def test_what_is_a_secret_by_where_it_stands(before, secret, after):
    masked, count = mask_secrets(before + secret + after)
    assert count == 1
    assert secret[:24] not in masked
    assert masked.startswith(before)


def test_of_a_key_of_putty_the_private_lines_go():
    masked, count = mask_secrets(PUTTY)
    assert count == 1
    assert some("b", 48, 3) not in masked
    assert some("b", 64, 1) in masked


HARMLESS = [
    f'"integrity": "sha512-{some("b", 86, 1)}=="', f"integrity sha512-{some('b', 86, 2)}==", f'integrity = "sha384-{some("b", 64, 3)}"',
    f"github.com/getsentry/sentry-go v0.12.0 h1:{some('b', 43, 4)}=", f"github.com/hashicorp/vault/api v1.9.0/go.mod h1:{some('b', 43, 5)}=",
    f'checksum = "{some("x", 64, 6)}"', f"--hash=sha256:{some('x', 64, 7)}", f'{{url = "https://x.example/a.whl", hash = "sha256:{some("x", 64, 8)}"}}',
    f'resolved "https://registry.example/algoliasearch-4.1.0.tgz#{some("x", 40, 9)}"', f"commit {some('x', 40, 10)}", f"{some('x', 40, 11)} refs/heads/main",
    f"index {some('x', 7, 12)}..{some('x', 7, 13)} 100644", f"Merge: {some('x', 7, 14)} {some('x', 7, 15)}", f"sha: {some('x', 40, 16)}", f"tree {some('x', 64, 17)}",
    UUID, f"id: {UUID}", f"request {UUID} done", f'"uuid": "{UUID}"', f"X-Request-Id: {UUID}",
    f"data:image/png;base64,iVBORw0KGgo{some('b', 200, 18)}", f"data:font/woff2;base64,{some('b', 300, 19)}", f"src='data:image/gif;base64,R0lGOD{some('b', 90, 20)}'",
    f"ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ{some('b', 300, 21)} me@host", f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{some('b', 43, 22)} me@host",
    f"ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTY{some('b', 100, 23)}", f"SHA256:{some('b', 43, 24)} me@host (ED25519)", f"certificate-authority-data: {base64.b64encode(CERTIFICATE.encode()).decode()}",
    CERTIFICATE, "postgres://user:password@localhost/db", "postgres://user:${PASSWORD}@localhost", "mysql://root:<password>@127.0.0.1/x", "redis://:your-password@host",
    "GITLAB_TOKEN=<your token>", "whsec_...", "xai-your-api-key-here", "pplx-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "glrt-is-the-prefix-of-runner-tokens-here", "dapi-and-dose-are-prefixes",
    "r8_replace_this_with_your_token_of_replicate", "the twitter account has 280 characters", "sentry: true", 'sentry: "7.114.0"', '"discord.js": "^14.15.3"', '"@netlify/functions": "2.8.2"',
    "linear: cubic-bezier(0.4, 0, 0.2, 1)", "global: the-whole-of-the-application-state", "blob: https://x.example/1", "vault: /etc/vault.d/config.hcl", "heroku: heroku-24-build", "travis: .travis.yml",
    "twitch = connect_to_twitch_stream(channel)", "okta: OktaAuthProviderConfiguration", "cookie: sameSite=lax; secure", "Set-Cookie: theme=dark; Path=/; HttpOnly", "cookies = {'a': 1}", "Cookie: lang=de-DE; tz=Europe/Berlin",
    "sig=verify(message)", "?sig=0&x=1", "PATH-us1 and eu-us21", "pat.compile(r'^a$')", "key-value store with key-0 and key-1", "re_compile_all_the_patterns_of_this_table", "sc_next.step.accept", "sha256~1 is no digest",
    "SK0 to SK9 are the names of the keys", "LTAI is a prefix", "API-FIRST-DESIGN-IS-GOOD", "secret_manager_secret_version_access_now", "A3-paper and A4-paper", "rnd_seed_for_the_tests_of_today_1", "pul-sating light", "ico-ns.svg",
    "AGE-SECRET-KEY-1...", "-----BEGIN PUBLIC KEY-----\n" + some("b", 64, 25) + "\n-----END PUBLIC KEY-----", "PuTTY-User-Key-File-3: is how such a file begins", "1//0 is no number", "AIza-name", "EAAA EAAB EAAC",
    f"go: downloading github.com/snyk/cli v1.0.0-{some('d', 14, 26)}-{some('x', 12, 27)}", f"nonce-{some('b', 16, 28)}", f"etag: W/\"{some('x', 32, 29)}\"", f"cloudflare-ray: {some('x', 16, 30)}-FRA", "contentful: https://cdn.contentful.com/spaces/x",
    "4b1d is hexadecimal", "duffel_live_ is what begins one", "ntn_is_the_prefix_of_notion_tokens_since_2024_and_no_more", "hvs. and hvb. are prefixes of Vault", "telegram bot 123456789:AAHello", "x:AA y", "0Q~ is none",
]  # fmt: skip


def test_there_are_as_many_harmless_texts_as_were_promised():
    assert len(set(HARMLESS)) >= 60


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_like_one_stays(text):
    assert mask_secrets(text) == (text, 0)


def test_all_keys_of_one_text_are_found():
    keys = [made(shape, at) for at, shape in enumerate(described(PREFIXED))]
    text = "\n".join(f"line {at}: {key} {HARMLESS[at % 28]}" for at, key in enumerate(keys))
    masked, _ = mask_secrets(text)
    assert [key for key in keys if key in masked] == []
    assert len(find_secrets(text)) >= len(keys)
