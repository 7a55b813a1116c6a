"""Synonyms in software, so that a memory is found by a question in other words. Pure.

People ask for "credentials" where a decision says "password", and for "out of memory" where a trap says "OOM". Each
line below is a sense: words that stand for each other often enough. The index has the senses of a memory's words in a
field of their own, which weighs less than the words themselves; a question brings the senses of its words. Sessions
and commits have none: they are long, and say a thing in many words already. A word may have several senses; a word
with too many meanings ("run", "set", "get") has none.
"""

from __future__ import annotations

__all__ = ["SENSE_MARK", "synonym_groups"]

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from periplus.base.text.search_terms import word_root

SENSE_MARK: Final = "\ue001"
_SENSES: Final = """
delete remove erase drop purge deletion removal discard prune wipe trash bin
create add make insert new generate
change modify edit update alter mutate modification amend adjust
rename move relocate
replace swap substitute exchange
store save persist keep write stored retain kept record
retention retain keep kept days expire expiry lifetime ttl age
read load fetch get retrieve pull download
send push publish emit transmit upload post
copy duplicate clone replicate twice double again repeat repeated
lost lose loss missing gone disappear vanish
find search lookup query locate seek
sort order ordering sequence rank
count number amount quantity many
limit cap maximum max most bound quota ceiling budget
minimum least lowest min oldest
slow slowness latency lag sluggish performance delay speed fast quick quicker faster throughput profile benchmark
memory ram heap oom footprint
disk storage volume space
cpu processor cores
crash panic abort die fail failure segfault broken break breaks exception
error failure fault exception problem issue bug defect
retry again repeat attempt backoff resend retries replay rerun
timeout wait deadline hang stuck block expire seconds
hang stuck deadlock freeze frozen
lock mutex semaphore latch exclusive advisory
race concurrent concurrency parallel simultaneous simultaneously thread
thread worker process job executor
job task background queue worker cron schedule scheduled
queue broker topic stream kafka rabbitmq celery redis
schedule scheduler cron orchestrate orchestration orchestrator workflow dagster airflow nightly
event message notification signal
notification notify alert push alarm page reminder
alert alarm page pager oncall call wake incident
webhook callback hook
idempotent idempotency duplicate twice retry again repeat same
transaction commit atomic rollback
rollback revert undo restore back
backup snapshot restore dump
cache cached memo stale
stale outdated old obsolete invalid
migrate migration schema ddl alter evolve upgrade
schema table column ddl structure
table relation dataset
column field attribute property key
row record tuple entry line
null none nil empty blank missing
index indexes lookup btree
database db sql postgres postgresql sqlite mysql store
query sql select statement
orm sqlalchemy hibernate mapper session
pool pooler pgbouncer connection
connection socket websocket session link network
network wifi mobile offline internet connectivity unreliable
offline disconnected network local
sync synchronise synchronize replicate synchronisation merge
conflict collide clash diverge concurrent
merge combine reconcile join upsert union
upsert merge insert
partition shard split bucket segment
batch bulk chunk group
stream streaming realtime live
late delayed arrive after overdue
server backend service host
backend server api
frontend ui client browser web screen
client consumer caller user customer
api endpoint interface rest http public
endpoint route path url
url link address uri
request call http
response answer reply result body
json payload body document
header metadata
version release tag build
release ship publish deploy rollout distribute cut
deploy deployment rollout release apply install
rollout deploy update canary gradual
canary gradual healthy rollout
hotfix urgent emergency patch fix production
production prod live
staging test preproduction environment
environment env config variable
config configuration setting option preference settings
feature flag switch toggle functionality
flag switch toggle option
branch fork head
commit revision change changeset
test tests suite check spec verify
flaky unstable intermittent unreliable random
golden snapshot fixture expected
fixture sample data
mock fake stub
emulator simulator device virtual
device phone handset hardware machine tablet sensor unit iphone
ios apple iphone
android google samsung pixel
firmware update flash image embedded
hardware device machine board
power electricity battery outage
boot start startup launch cold
start launch begin startup boot open
stop end terminate kill shutdown halt suspend
kill terminate stop abort
idle unused inactive
install setup deploy add
dependency library package module crate third-party
library package dependency crate framework
plugin extension addon extend
license licence copyleft gpl legal
legal law regulation compliance gdpr commercial
compiler toolchain build rustc
build compile bundle make compiler
bundle bundler webpack metro pack
docker container image
kubernetes cluster k8s pod node
pod replica instance container
replica instance copy server
secret credential credentials password key token vault
password credential login passphrase
token key secret credential access
login signin authenticate authentication auth
auth authentication authorization login permission
permission permissions allowed allow may role access right privilege authorised grant
access permission reach role
role permission group
encrypt encryption cipher decrypt tls plain plaintext
hash digest argon2 argon2id bcrypt checksum
certificate tls ssl x509 handshake credential
tls ssl handshake https certificate
attack exploit injection vulnerability malicious
injection formula escape sanitise
personal pii identify privacy gdpr name email person private
privacy private personal consent tracking gdpr
consent permission agree opt
analytics telemetry tracking metrics usage track
telemetry metrics tracing analytics observability
log logs logging print output
debug debugging diagnose diagnostic troubleshoot investigate
trace stack stacktrace symbol symbolicated backtrace crash
metric measure figure statistic number kpi
dashboard report chart graph
report export document
export download extract dump takeout
import ingest intake load
ingest raw source unprocessed
raw original unprocessed source bronze
clean cleaned staging normalise
format layout encoding form
encode encoding serialise serialize
parse parser decode deserialise read
yaml manifest config
template chart helm render
money amount price cost currency payment cents prices
currency exchange euro dollar rate fx convert
convert conversion transform cast translate
invoice bill billing receipt charge
bill invoice charge billing
charge bill debit pay payment
payment pay card charge processor gateway provider stripe
provider gateway vendor processor supplier stripe
vendor supplier third party provider source
card credit pan payment
refund return reversal money back credit
credit refund goodwill
discount coupon voucher promotion
tax vat sales
subscription plan recurring renewal membership
renew renewal recurring rotate extend
rotate renew renewal rotation
trial free evaluation
decline declined fail dunning reject
ledger booking entry accounting journal
account user profile customer
customer client user buyer people person subscriber
user customer person people account
support help helpdesk
finance accounting money
cost spend expense price budget pay attributed
decimal fraction float floating
float fraction decimal rounding precision double
rounding precision arithmetic float
integer int number whole
precision accuracy nanosecond rounding
time clock timestamp date hour datetime
date day time calendar
timezone zone utc local offset
dst daylight saving summer clock autumn
hour hourly time
day daily date
month monthly period
old outdated previous legacy earlier
legacy old deprecated
history historical past versions valid_from log
deprecate remove break compatibility
compatibility compatible backward breaking break
breaking incompatible compatibility remove
gap hole holes skip missing
consecutive sequence number gapless
identifier id number key numbered
unique uniqueness distinct
text string label wording words
string text label
character characters letter grapheme length
emoji smiley smileys character
translate translation i18n locale language localisation
language locale translation chinese japanese
font typeface
colour color contrast theme
accessibility contrast legible legibility readable
image picture photo images bitmap
picture photo image attachment
attachment file upload picture
file document blob
folder directory path
path location file folder
size length big large small huge
large big huge heavy
small tiny little
list collection array rows flatlist
scroll scrolling list
component widget view element
screen page view
page screen note document
keyboard input typing
type typing input write
editor typing text writing
undo revert ctrl-z
note memo page
share sharing link public
notebook ipynb jupyter
model schema entity
neural network deep learning ml model
anomaly outlier detection
calibration correction drift
skew skewed imbalance uneven longer
join merge combine
driver master coordinator
collect gather pull
filter where predicate
predicate filter condition scan
scan read full
duplicate double copy twice
firewall nat proxy
proxy toxiproxy gateway
laptop computer machine workstation
desktop computer
command cli subcommand terminal
cli command terminal shell
stdout output print pipe
output stdout print result
unsafe raw pointer ffi
async asynchronous await tokio concurrent
sync synchronous blocking block
allocator malloc memory
static musl binary
binary executable program
program tool binary executable
approve approval review accept
review approve approval check
plan design proposal
apply execute execution run
accident accidental accidentally mistake silently wrong
safe safety danger dangerous
health healthy status alive
owner responsible belongs
forbid forbidden never must disallow prohibit
require required need must requirement requirements rule
choose chosen decision picked selected
warehouse lake lakehouse
website site web
tool utility program
aggregate aggregation rollup summarise summary
detail detailed raw granular
meter metering usage consumption
usage consumption metering
backfill recompute reprocess rerun history
recompute backfill recalculate
reuse recycle
serial identifier number
logical virtual
ask question request
confirm verify check
verify check validate validation confirm
validate validation verify check
expose reveal leak disclose
leak reveal expose
hide hidden cover masked
mask masked hide redact pseudonymise
redact mask remove hide
erase erasure forget delete gdpr
load stress pressure
stress load
upgrade update version migrate
downgrade older rollback
mismatch differ different disagree inconsistent
differ different difference mismatch agree
agree same consistent
consistent consistency agree same
"""
_KEPT_MAX: Final = 65_536  # words of code are without number


def synonym_groups(words: Iterable[str]) -> list[str]:
    """Return the senses of ``words`` (terms in lower case), each as a term that no text has, in the order of the
    words.
    """
    found: dict[str, None] = {}
    for word in words:
        for sense in _senses_of_word(word):
            found[sense] = None
    return list(found)


@lru_cache(_KEPT_MAX)
def _senses_of_word(word: str) -> tuple[str, ...]:
    return _senses_of_root(word_root(word))


@lru_cache(_KEPT_MAX)
def _senses_of_root(root: str) -> tuple[str, ...]:
    """Return the senses of the words with this root; every word begins with its root. The table is searched as text:
    parsing it would take longer than all lookups of a command.
    """
    lines: dict[int, None] = {}
    at = _SENSES.find(root) if root else -1
    while at >= 0:
        end = at + len(root)
        if _SENSES[at - 1] in " \n":
            while _SENSES[end] not in " \n":
                end += 1
            if word_root(_SENSES[at:end]) == root:
                lines[_SENSES.count("\n", 1, at)] = None  # the text begins with the end of a line
        at = _SENSES.find(root, end)
    return tuple(f"{SENSE_MARK}{number}" for number in lines)
