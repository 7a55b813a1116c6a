"""Vocabulary of programming: the words that code has for the words that people ask with. Pure.

People ask how to remove the last character of a string; the code says ``strip``, ``chr`` and ``str``. Each line of the
table is a word of questions followed by words of code for it. The table is read in this direction only: a name with
``str`` is found by "string", and a question for ``string`` does not become one for all that strings are used for.
"""

from __future__ import annotations

__all__ = ["WEAK_ROOTS", "code_words"]

from functools import cache
from typing import Final

from periplus.base.text.search_terms import word_root

# Names of languages, and words that say no more than that code is asked for: nearly all questions have some.
_WEAK: Final = (
    "bash code cpp csharp example function golang java javascript js kotlin php program py python python2 python3 ruby rust "
    "script swift ts typescript use using way"
)
_WORDS: Final = """
string str text unicode
text string str
character char letter
integer int
float double decimal
number num numeric
boolean bool
list array sequence seq vector lst
array arr list ndarray vector slice
vector vec array
dictionary dict map mapping hash hashmap
map mapping dictionary dict
hashmap map dict hash
tuple pair
pair tuple
set unique
object obj instance
instance obj object
function func fn callable callback
method function func
callback handler hook listener
handler callback listener
class type cls
type dtype datatype kind
struct record class
interface protocol trait abstract
trait interface
enum choice
variable var
constant const
parameter param argument arg
argument arg parameter option
attribute attr property prop field
property prop attribute
field column attribute
element elem item el
item elem element
column col field attribute
row record line
table frame
matrix mat
dataframe df frame
frame dataframe
image img picture
picture image img
message msg
directory dir folder path
folder dir directory
filename file path basename
file filename path
path filepath directory
extension ext suffix
temporary temp tmp
position pos index offset
offset pos position
index idx position
length len size count
size length count width height
count number num total length
maximum max largest biggest highest greatest
minimum min smallest lowest least
average mean avg
mean average avg
largest max biggest
biggest max largest
highest max
smallest min
lowest min smallest
previous prev last
current curr now
next following
last end final tail
first start head begin
configuration config settings conf
config settings conf
settings config options
database db
query sql select
connection conn connect
request req
response resp reply
result output
input stdin prompt
output print write stdout
error exception err
exception error raise throw
raise throw exception
throw raise exception
catch except handle
warning warn
address addr
host hostname domain
command cmd
environment env
process proc
execute exec run call
run execute call start launch
call invoke
invoke call
calculate compute calc
compute calculate
remove delete drop strip del erase discard
delete remove del erase drop clear
erase remove delete clear
strip trim remove clean
trim strip truncate
truncate trim cut shorten
clear reset empty flush purge
reset clear
empty blank clear null
create make build new generate construct
make create build generate
build create construct
generate create random
add append insert push
append add extend
insert add
push append add
join concatenate merge combine concat
concatenate join concat combine
merge join combine
combine merge join
split chunk partition separate divide tokenize
divide split
get fetch retrieve return read obtain
fetch get retrieve download
retrieve get fetch
return get
find search lookup locate detect
search find query match
lookup find get
check test validate verify is ensure determine
test check assert
validate check verify valid
verify check validate
determine check get
detect find check
ensure check
change modify update convert set replace
modify change update edit
update modify change refresh
edit modify update
convert transform cast to parse into
cast convert
transform convert
parse read decode
read load open parse
load read import open
open load read
save write store dump persist
write save dump print
store save
print show display output write
show display print
display print show render
draw plot render
plot draw graph chart
graph plot chart
copy clone duplicate
clone copy
duplicate repeat copy unique dedupe
unique distinct dedupe duplicate
distinct unique
compare equal diff same
equal same compare
same equal
difference diff delta
sort order sorted
order sort
reverse invert backward
replace substitute sub
swap exchange
iterate loop iter each
loop iterate
iterator iter generator
iterable iter
multiply mult product
product multiply dot
sum add total
total sum
subtract minus
random rand shuffle
select choose filter
choose select
filter select
limit max min bound clip
extract get parse
format formatted pretty
pretty format indent
json dict
timestamp time epoch
date datetime day
datetime date timestamp
seconds time sec
milliseconds ms
wait sleep delay
sleep wait
stop end kill terminate close shutdown
kill terminate stop
close quit stop
exit quit
begin start
start begin launch
exists exist
missing absent
encode encoding
decode encoding unicode
serialize dump encode marshal
deserialize load decode unmarshal
encrypt cipher
hash digest checksum
whitespace space blank
space whitespace
lowercase lower
uppercase upper
upper uppercase capital
lower lowercase
regex regexp re pattern
pattern regex
none null
null none nil nan
nil null none
nested recursive
recursive recursively walk
traverse walk visit iterate
flatten flat
round rounded
distance dist
standard std
deviation std
coordinate coord
point coord
window win
terminal console tty
console terminal stdout
log logger logging
logger log logging
user username
username user login
password passwd
authenticate auth login
authorization auth
login auth
document doc
documentation doc help
information info
initialize init
initialise init
source src
destination dest dst
receive recv
send post
upload put send
download fetch get
thread worker
lock mutex
async asynchronous await
promise future
timeout deadline
package module
module package
import load require
dependency requirement
repository repo
permission chmod mode
memory mem
statistics stats
"""


@cache
def _table() -> dict[str, tuple[str, ...]]:
    """Return the roots of words of code by the root of a word of questions."""
    table: dict[str, dict[str, None]] = {}
    for line in _WORDS.strip().splitlines():
        asked, *said = map(word_root, line.split())
        table.setdefault(asked, {}).update(dict.fromkeys(root for root in said if root != asked))
    return {asked: tuple(said) for asked, said in table.items()}


WEAK_ROOTS: Final = frozenset(map(word_root, _WEAK.split()))


def code_words(root: str) -> tuple[str, ...]:
    """Return the roots of the words that code has for the word with this root, itself not included."""
    return _table().get(root, ())
