"""Shapes of published keys: prefix, alphabet, length, and the name that stands before the key.

Sources: the rules of gitleaks (config/gitleaks.toml, July 2026), the documentation of the services, and GitHub's list
of secret-scanning patterns; the expressions are our own. A row of ``SHAPES`` is a trigger, which every key of the
kind contains, and a pattern that is matched at the trigger (or up to ``back`` characters before it). A row of
``OWNERS`` is a name; a value assigned to it is a key if it has that alphabet and length.
"""

from __future__ import annotations

__all__ = ["OWNERS", "SHAPES", "Shape"]

from typing import Final

from periplus.base.named_tuple import NamedTuple


class Shape(NamedTuple):
    """``pattern`` is matched at the trigger; group 1, if any, is the secret. With ``back`` it is searched from that
    many characters before the trigger and must reach over it. ``is_wordy`` marks shapes that names in kebab case may
    have: xoxb-is-the-prefix.
    """

    kind: str
    pattern: str
    back: int = 0
    is_wordy: bool = False


# Not within a word; the n of a doubly escaped "\n" does not belong to the word behind it.
_EDGE: Final = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
_URL_SAFE_EDGE: Final = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))"
_END: Final = r"(?![A-Za-z0-9])"
_UUID: Final = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"

# Kind, then triggers with what follows each. A trigger has 3 to 16 characters.
_PREFIXED: Final = r"""
aws_key             AKIA [A-Z0-9]{16}$  ASIA [A-Z0-9]{16}$  ABIA [A-Z0-9]{16}$  ACCA [A-Z0-9]{16}$  ABSK [A-Za-z0-9+/]{100,}+={0,2}+
aws_key             bedrock-api-key- [A-Za-z0-9+/=]{20,}+  amzn.mws. [0-9a-f]{8}-[0-9a-f-]{27}$  amzn1.oa2-cs.v1. [0-9a-f]{64}$
github_token        ghp_ [A-Za-z0-9]{20,}+  gho_ [A-Za-z0-9]{20,}+  ghs_ [A-Za-z0-9]{20,}+  ghu_ [A-Za-z0-9]{20,}+  ghr_ [A-Za-z0-9]{20,}+
github_token        github_pat_ [A-Za-z0-9_]{22,}+
gitlab_token        glpat- [A-Za-z0-9_-]{20,}+(?>(?:\.[0-9a-z]{2}\.?[0-9a-z]{7})?)  glrt- [A-Za-z0-9_-]{20,}+(?>(?:\.[0-9a-z]{2}\.?[0-9a-z]{7})?)  gldt- [A-Za-z0-9_-]{20,}+
gitlab_token        glcbt- [A-Za-z0-9]{1,5}_[A-Za-z0-9_-]{20,}+  glffct- [A-Za-z0-9_-]{20,}+  glft- [A-Za-z0-9_-]{20,}+  glimt- [A-Za-z0-9_-]{20,}+
gitlab_token        glagent- [A-Za-z0-9_-]{40,}+  gloas- [A-Za-z0-9_-]{40,}+  glptt- [0-9a-f]{40}$  glsoat- [A-Za-z0-9_-]{20,}+  GR1348941 [A-Za-z0-9_-]{20,}+
gitlab_token        glwt- [A-Za-z0-9_-]{20,}+  glrtr- [A-Za-z0-9_-]{20,}+
anthropic_key       sk-ant- [A-Za-z0-9_-]{16,}+
openai_key          sk- (?:(?:proj|svcacct|admin|None|or-v1|lf)-[A-Za-z0-9_-]{16,}+|[A-Za-z0-9]{20,}+)
xai_key             xai- [A-Za-z0-9]{40,}+
perplexity_key      pplx- [A-Za-z0-9]{32,}+
replicate_token     r8_ [A-Za-z0-9]{32,}+
huggingface_token   hf_ [A-Za-z0-9]{30,}+  api_org_ [A-Za-z0-9]{30,}+
groq_key            gsk_ [A-Za-z0-9]{40,}+
model_key           nvapi- [A-Za-z0-9_-]{50,}+  tvly- (?:dev-|prod-)?[A-Za-z0-9]{24,}+  lsv2_pt_ [a-f0-9]{32}_[a-f0-9]{10}$  lsv2_sk_ [a-f0-9]{32}_[a-f0-9]{10}$
model_key           pcsk_ [A-Za-z0-9_]{50,}+  fw_ [A-Za-z0-9]{22,}+$  pylf_v1_ [a-z]{2}_[A-Za-z0-9]{30,}+  csk- [a-z0-9]{40,}+  fc- [0-9a-f]{32}$  jina_ [A-Za-z0-9]{50,}+
slack_token         xox [abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{8,}+  xapp- \d-[A-Z0-9]+-\d+-[A-Za-z0-9]{10,}+
stripe_key          sk_live_ [A-Za-z0-9]{10,}+  rk_live_ [A-Za-z0-9]{10,}+  sk_test_ [A-Za-z0-9]{10,}+  rk_test_ [A-Za-z0-9]{10,}+  sk_prod_ [A-Za-z0-9]{10,}+  rk_prod_ [A-Za-z0-9]{10,}+
stripe_key          whsec_ [A-Za-z0-9+/]{24,}+={0,2}+
square_token        sq0atp- [A-Za-z0-9_-]{22,}+  sq0csp- [A-Za-z0-9_-]{40,}+  EAAA [A-Za-z0-9_-]{55,60}$
facebook_token      EAAM [A-Za-z0-9]{100,}+  EAAC [A-Za-z0-9]{100,}+  EAAB [A-Za-z0-9]{100,}+  EAAG [A-Za-z0-9]{100,}+  EAAJ [A-Za-z0-9]{100,}+
npm_token           npm_ [A-Za-z0-9]{30,}+
pypi_token          pypi- [A-Za-z0-9_-]{32,}+
registry_token      rubygems_ [a-f0-9]{48}$  oy2 [a-z0-9]{43}$  cio [A-Za-z0-9]{32}$  CLOJARS_ [A-Za-z0-9]{60}$  dckr_oat_ [A-Za-z0-9_-]{20,}+  AKCp [A-Za-z0-9]{60,}+
registry_token      cmVmd [A-Za-z0-9]{59}$
docker_token        dckr_pat_ [A-Za-z0-9_-]{20,}+
shopify_token       shpat_ [a-fA-F0-9]{32}$  shpca_ [a-fA-F0-9]{32}$  shppa_ [a-fA-F0-9]{32}$  shpss_ [a-fA-F0-9]{32}$  shptka_ [a-fA-F0-9]{32}$
digitalocean_token  dop_v1_ [a-f0-9]{64}$  doo_v1_ [a-f0-9]{64}$  dor_v1_ [a-f0-9]{64}$
vault_token         hvs. [A-Za-z0-9_-]{24,}+  hvb. [A-Za-z0-9_-]{100,}+  hvr. [A-Za-z0-9_-]{90,}+
terraform_token     atlasv1. [A-Za-z0-9_=-]{60,70}
sendgrid_key        SG. [A-Za-z0-9_-]{16,}+\.[A-Za-z0-9_-]{16,}+
google_key          AIza [A-Za-z0-9_-]{32,}+
google_token        ya29. [A-Za-z0-9_-]{20,}+  GOCSPX- [A-Za-z0-9_-]{24,}+  1//0 [A-Za-z0-9_-]{40,}+
databricks_token    dapi [a-f0-9]{32}(?:-\d)?$  dose [a-f0-9]{32}(?:-\d)?$
grafana_token       glsa_ [A-Za-z0-9]{32}_[A-Fa-f0-9]{8}$  glc_ [A-Za-z0-9+/]{32,}+={0,3}+  eyJrIjoi [A-Za-z0-9]{50,}+={0,3}+
sentry_token        sntrys_ [A-Za-z0-9+/=_]{60,}+  sntryu_ [a-f0-9]{64}$  sntrya_ [a-f0-9]{64}$  sntryi_ [a-f0-9]{64}$
age_key             AGE-SECRET-KEY-1 [02-9AC-HJ-NP-Z]{58}$
onepassword_key     ops_eyJ [A-Za-z0-9+/]{200,}+={0,3}+  A3- [A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}$
adobe_secret        p8e- [A-Za-z0-9]{32}$
alibaba_key         LTAI [A-Za-z0-9]{16,24}$
airtable_token      pat [A-Za-z0-9]{14}\.[a-f0-9]{64}$
atlassian_token     ATATT3 [A-Za-z0-9_=-]{100,}+  ATBB [A-Za-z0-9]{24,}+  ATCTT3 [A-Za-z0-9_=-]{60,}+  ATSTT3 [A-Za-z0-9_=-]{60,}+
doppler_token       dp.pt. [A-Za-z0-9]{40,}+  dp.st. (?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,}+  dp.ct. [A-Za-z0-9]{40,}+  dp.sa. [A-Za-z0-9]{40,}+  dp.scim. [A-Za-z0-9]{40,}+
service_token       authress_ [A-Za-z0-9]{5,30}\.[A-Za-z0-9]{4,6}\.acc[_-][A-Za-z0-9-]{10,32}\.[A-Za-z0-9+/_=-]{30,120}  scauth_ [A-Za-z0-9]{5,30}\.[A-Za-z0-9]{4,6}\.acc[_-][A-Za-z0-9-]{10,32}\.[A-Za-z0-9+/_=-]{30,120}
service_token       ext_ [A-Za-z0-9]{5,30}\.[A-Za-z0-9]{4,6}\.acc[_-][A-Za-z0-9-]{10,32}\.[A-Za-z0-9+/_=-]{30,120}  sc_ [A-Za-z0-9]{5,30}\.[A-Za-z0-9]{4,6}\.acc[_-][A-Za-z0-9-]{10,32}\.[A-Za-z0-9+/_=-]{30,120}
service_token       4b1d [A-Za-z0-9]{38}$  v1.0- [a-f0-9]{24}-[a-f0-9]{146}$  dnkey- [A-Za-z0-9=_-]{26}-[A-Za-z0-9=_-]{52}
service_token       duffel_live_ [A-Za-z0-9_=-]{40,}+  duffel_test_ [A-Za-z0-9_=-]{40,}+  dt0c01. [A-Za-z0-9]{24}\.[A-Za-z0-9]{64}  dt0s01. [A-Za-z0-9]{24}\.[A-Za-z0-9]{64}
service_token       EZAK [A-Za-z0-9]{54}$  EZTK [A-Za-z0-9]{54}$  FLWSECK_TEST- [A-Za-h0-9]{12,32}(?:-X)?  FLWSECK- [A-Za-h0-9]{32}-X  FLWPUBK_TEST- [A-Za-h0-9]{32}-X
service_token       fo1_ [A-Za-z0-9_-]{43,}+  fm1a_ [A-Za-z0-9+/]{100,}+={0,3}+  fm1r_ [A-Za-z0-9+/]{100,}+={0,3}+  fm2_ [A-Za-z0-9+/]{100,}+={0,3}+
service_token       fio-u- [A-Za-z0-9_=-]{60,}+  pat. [A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}$  sat. [A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}$
service_token       HRKU-AA [A-Za-z0-9_-]{50,}+  ico- [A-Za-z0-9]{32}$  s-s4t2ud- [a-f0-9]{64}$  s-s4t2af- [a-f0-9]{64}$  lin_api_ [A-Za-z0-9]{32,}+  lin_oauth_ [A-Za-z0-9]{32,}+
service_token       ntn_ [0-9]{11}[A-Za-z0-9]{35}$  secret_ (?=[A-Za-z]{0,42}+[0-9])[A-Za-z0-9]{43}$  API- [A-Z0-9]{26}$  sha256~ [A-Za-z0-9_-]{43}$
service_token       pscale_tkn_ [A-Za-z0-9_=.-]{32,}+  pscale_oauth_ [A-Za-z0-9_=.-]{32,}+  pscale_pw_ [A-Za-z0-9_=.-]{32,}+  PMAK- [a-f0-9]{24}-[a-f0-9]{34}$
service_token       pnu_ [A-Za-z0-9]{36}$  pul- [a-f0-9]{40}$  rdme_ [a-z0-9]{70}$  tk-us- [A-Za-z0-9_-]{48}$  xkeysib- [a-f0-9]{64}-[A-Za-z0-9]{16}$
service_token       sm_aat_ [A-Za-z0-9]{16}$  sm_pat_ [A-Za-z0-9]{16}$  sm_sat_ [A-Za-z0-9]{16}$  shippo_live_ [a-fA-F0-9]{40}$  shippo_test_ [a-fA-F0-9]{40}$
service_token       sgp_ (?:(?:[a-fA-F0-9]{16}|local)_)?[a-fA-F0-9]{40}$  squ_ [a-z0-9]{40}$  sqp_ [a-z0-9]{40}$  sqa_ [a-z0-9]{40}$  tfp_ [A-Za-z0-9_.=-]{50,}+
service_token       NRAK- [A-Za-z0-9]{27}$  NRII- [A-Za-z0-9_-]{32}$  NRJS- [a-f0-9]{19}$  NRRA- [a-f0-9]{42}$  figd_ [A-Za-z0-9_-]{40,}+  nfp_ [A-Za-z0-9]{36,}+  CFPAT- [A-Za-z0-9_-]{43,}+
service_token       tskey- [a-z]{3,10}-[A-Za-z0-9]{10,24}-[A-Za-z0-9]{20,}+  sbp_ [a-f0-9]{40}$  sb_secret_ [A-Za-z0-9_-]{20,}+  phx_ [A-Za-z0-9]{40,}+  rnd_ [A-Za-z0-9]{28,}+
service_token       PRT- [A-Za-z0-9]{40,}+  key- [0-9a-f]{32}$  pubkey- [a-f0-9]{32}$  YCAJE [A-Za-z0-9_-]{20}$  AQVN [A-Za-z0-9_-]{35,38}$  t1.9eu [A-Za-z0-9_-]{5,}+={0,2}\.[A-Za-z0-9_-]{86}={0,2}
service_token       live_pub_ [a-f0-9]{31}$  test_pub_ [a-f0-9]{31}$  access-sandbox- U$  access-developme nt-U$  access-productio n-U$  bkua_ [a-f0-9]{40}$  ccipat_ [A-Za-z0-9_]{30,}+
service_token       mlsn. [a-f0-9]{64}$  re_ [A-Za-z0-9]{8}_[A-Za-z0-9]{20,24}$  sk.eyJ [A-Za-z0-9_-]{40,}+\.[A-Za-z0-9_-]{20,}+  cfut_ [A-Za-z0-9_-]{40,}+  hapikey= U$  ubp_ [A-Za-z0-9]{30,}+
twilio_key          SK0 [0-9a-fA-F]{31}$  SK1 [0-9a-fA-F]{31}$  SK2 [0-9a-fA-F]{31}$  SK3 [0-9a-fA-F]{31}$  SK4 [0-9a-fA-F]{31}$  SK5 [0-9a-fA-F]{31}$  SK6 [0-9a-fA-F]{31}$  SK7 [0-9a-fA-F]{31}$
twilio_key          SK8 [0-9a-fA-F]{31}$  SK9 [0-9a-fA-F]{31}$  SKa [0-9a-fA-F]{31}$  SKb [0-9a-fA-F]{31}$  SKc [0-9a-fA-F]{31}$  SKd [0-9a-fA-F]{31}$  SKe [0-9a-fA-F]{31}$  SKf [0-9a-fA-F]{31}$
"""

_NO_NAMES: Final = frozenset(
    {"vault_token", "google_key", "google_token", "docker_token", "sendgrid_key", "terraform_token"}
)


def _prefixed() -> dict[str, Shape]:
    from re import escape

    found: dict[str, Shape] = {}
    for line in _PREFIXED.strip().splitlines():
        kind, *words = line.split()
        for trigger, body in zip(words[::2], words[1::2], strict=True):
            body = body.replace("U$", _UUID + "$")  # noqa: PLW2901 - spelled out
            pattern = body.removesuffix("$") + (_END if body.endswith("$") else "")
            found[trigger] = Shape(
                kind, _EDGE + escape(trigger) + pattern, is_wordy="-]" in body and kind not in _NO_NAMES
            )
    return found


SHAPES: Final[dict[str, Shape]] = {
    **_prefixed(),
    "atlasv1.": Shape("terraform_token", _EDGE + r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70}", 15),
    "_mmk": Shape("service_token", _EDGE + r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk" + _END, 37),
    "-us": Shape("service_token", _EDGE + r"[0-9a-f]{32}-us\d{1,2}" + _END, 33),
    ":AA": Shape("telegram_token", _EDGE + r"\d{8,16}:AA[A-Za-z0-9_-]{32,33}(?![A-Za-z0-9_-])", 17),
    **{
        f"{digit}Q~": Shape("azure_secret", rf"(?:(?<![A-Za-z0-9_~.-])|(?<=\\[nrt]))[A-Za-z0-9_~.]{{3}}{digit}Q~[A-Za-z0-9_~.-]{{31,34}}(?![A-Za-z0-9_~-])", 4)
        for digit in range(10)
    },
    "AZDO": Shape("azure_secret", _EDGE + r"[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}" + _END, 77),
    "sig=": Shape("azure_signature", r"""(?<=[?&;"'])sig=([A-Za-z0-9+/%_-]{40,}+={0,2}+)"""),
    "slack.com/ser": Shape("slack_webhook", r"slack\.com/services/(T[A-Z0-9]{6,}+/B[A-Z0-9]{6,}+/[A-Za-z0-9]{16,}+)"),
    "slack.com/workfl": Shape("slack_webhook", r"slack\.com/workflows/([A-Za-z0-9+/]{40,}+)"),
    "slack.com/trigge": Shape("slack_webhook", r"slack\.com/triggers/([A-Za-z0-9+/]{40,}+)"),
    "/api/webhooks/": Shape("discord_webhook", r"(?<=\.com)/api/webhooks/\d{15,21}/([A-Za-z0-9_-]{50,}+)"),
    ".webhook.office.": Shape("teams_webhook", rf"\.webhook\.office\.com/webhookb2/({_UUID}@{_UUID}/IncomingWebhook/[A-Za-z0-9]{{32}}/{_UUID}(?:/[A-Za-z0-9_-]{{1,60}}+)?)"),
    "_gitlab_session=": Shape("cookie", r"_gitlab_session=([0-9a-z]{32})" + _END),
    "bot/token/": Shape("service_token", r"bot/token/([A-Za-z0-9_-]{30,}+)"),
    "eyJ": Shape("jwt", _URL_SAFE_EDGE + r"eyJ[A-Za-z0-9_-]{8,}+\.eyJ[A-Za-z0-9_-]{4,}+\.[A-Za-z0-9_-]{10,}+"),
    "://": Shape("url_password", r"""(?<=[A-Za-z0-9])://[^\s:/@"'`<>\\?#]{0,128}+:([^\s/"'`<>\\?#]{1,256})@(?=[\w\[{$])"""),
}  # fmt: skip

_OWNED: Final = rf"""
adafruit [A-Za-z0-9_-]{{32}}
adobe [a-f0-9]{{32}}
airtable [A-Za-z0-9]{{17}}
algolia [A-Za-z0-9]{{32}}
alibaba [A-Za-z0-9]{{30}}
asana (?:[A-Za-z0-9]{{32}}|[12]/\d{{10,20}}(?:/\d+)?:[a-f0-9]{{32}})
atlassian [A-Za-z0-9]{{20}}[a-f0-9]{{4}}
confluence [A-Za-z0-9]{{20}}[a-f0-9]{{4}}
jira [A-Za-z0-9]{{20}}[a-f0-9]{{4}}
beamer b_[A-Za-z0-9=_-]{{44}}
bitbucket (?:[A-Za-z0-9=_-]{{64}}|[A-Za-z0-9]{{32}})
bittrex [A-Za-z0-9]{{32}}
meraki [0-9a-f]{{40}}
cloudflare (?:[A-Za-z0-9_-]{{40}}|[a-f0-9]{{37}})
codecov (?:[A-Za-z0-9]{{32}}|{_UUID})
cohere [A-Za-z0-9]{{40}}
coinbase [A-Za-z0-9_-]{{64}}
confluent [A-Za-z0-9+/]{{64}}
contentful [A-Za-z0-9=_-]{{43}}
datadog [a-z0-9]{{32,40}}
discord (?:[a-f0-9]{{64}}|[A-Za-z0-9=_-]{{32}}|[A-Za-z0-9_-]{{23,28}}\.[A-Za-z0-9_-]{{6,7}}\.[A-Za-z0-9_-]{{27,38}})
drone [A-Za-z0-9]{{32}}
dropbox (?:[A-Za-z0-9]{{15}}|[A-Za-z0-9]{{11}}AAAAAAAAAA[A-Za-z0-9_=-]{{43}}|sl\.[A-Za-z0-9_=-]{{130,}})
etsy [A-Za-z0-9]{{24}}
facebook (?:[a-f0-9]{{32}}|\d{{15,16}}[|%][A-Za-z0-9_-]{{27,40}})
fastly [A-Za-z0-9=_-]{{32}}
finicity (?:[a-f0-9]{{32}}|[A-Za-z0-9]{{20}})
finnhub [A-Za-z0-9]{{20,40}}
flickr [A-Za-z0-9]{{32}}
freshbooks [A-Za-z0-9]{{64}}
gitter [A-Za-z0-9_-]{{40}}
gocardless live_[A-Za-z0-9_=-]{{40}}
heroku {_UUID}
hubspot {_UUID}
intercom [A-Za-z0-9=_-]{{60}}
artifactory [A-Za-z0-9]{{64,73}}
jfrog [A-Za-z0-9]{{64,73}}
bintray [A-Za-z0-9]{{64,73}}
kraken [A-Za-z0-9/=_+-]{{80,90}}
lob (?:live|test)_[a-f0-9]{{35}}
kucoin (?:[a-f0-9]{{24}}|{_UUID})
launchdarkly [A-Za-z0-9=_-]{{40}}
linear [a-f0-9]{{32}}
linkedin [A-Za-z0-9]{{16}}
looker [A-Za-z0-9]{{24}}
mailchimp [a-f0-9]{{32}}-us\d\d
mailgun [a-h0-9]{{32}}-[a-h0-9]{{8}}-[a-h0-9]{{8}}
mapbox pk\.[A-Za-z0-9]{{60}}\.[A-Za-z0-9]{{22}}
mattermost [a-z0-9]{{26}}
messagebird (?:[A-Za-z0-9]{{25}}|{_UUID})
netlify [A-Za-z0-9=_-]{{40,46}}
newrelic [A-Za-z0-9]{{64}}
new-relic [A-Za-z0-9]{{64}}
new_relic [A-Za-z0-9]{{64}}
nytimes [A-Za-z0-9=_-]{{32}}
okta 00[A-Za-z0-9_=-]{{40}}
plaid [A-Za-z0-9]{{30}}
privateai [a-z0-9]{{32}}
rapidapi [A-Za-z0-9_-]{{50}}
sendbird (?:[a-f0-9]{{40}}|{_UUID})
sentry [a-f0-9]{{64}}
snyk {_UUID}
sonar [A-Za-z0-9=_-]{{40}}
squarespace {_UUID}
sumo [A-Za-z0-9]{{64}}
telegr \d{{5,16}}:A[A-Za-z0-9_-]{{34}}
travis [A-Za-z0-9]{{22}}
twilio [0-9a-fA-F]{{32}}
twitch [A-Za-z0-9]{{30}}
twitter (?:\d{{15,25}}-[A-Za-z0-9]{{20,45}}|[A-Za-z0-9]{{45}}|[A-Za-z0-9]{{25}}|[A-Za-z0-9]{{50}}|A{{22}}[A-Za-z0-9%]{{80,100}})
vault s\.[A-Za-z0-9]{{24}}
yandex (?:t1\.[A-Za-z0-9_-]+={{0,2}}\.[A-Za-z0-9_-]{{86}}={{0,2}}|YC[A-Za-z0-9_-]{{38}})
zendesk [A-Za-z0-9]{{40}}
contribsys [a-f0-9]{{8}}:[a-f0-9]{{8}}
"""
# Service name in lower case, and the pattern of its keys.
OWNERS: Final[dict[str, str]] = dict(line.split(" ", 1) for line in _OWNED.strip().splitlines())
