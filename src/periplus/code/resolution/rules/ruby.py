"""Names of Ruby resolved: constants by their qualified names, required files by the end of their paths.

A constant is looked up in the classes around, in what these inherit, then at the top; all files share one tree of constants, and a class
may be opened in many. A constant that no file defines is taken for a folder where Zeitwerk would (``Admin`` for ``app/models/admin``).
Sources: https://docs.ruby-lang.org/en/master/syntax/modules_and_classes_rdoc.html and https://github.com/fxn/zeitwerk#file-structure
"""

from __future__ import annotations

__all__ = ["RULES"]

import posixpath
import re
from typing import Final

from periplus.code.model import Definition, Import
from periplus.code.resolution.rules.table import EXTERNAL, UNKNOWN, Entity, Lookup, Outcome, Rules
from periplus.code.resolution.sources import KnownFile

_CONSTANTS: Final = frozenset({"class", "module", "constant"})
_PARTS_MAX: Final = 20
_NO_CODE: Final = frozenset({"views", "assets", "javascript"})
_LOAD_FOLDERS: Final = frozenset({"lib", "test", "spec", "ext"})
_WORD: Final = re.compile(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# Methods of the classes that Ruby itself has, and of those that most gems give to their objects.
_COMMON: Final = frozenset(
    "new initialize call to_s to_str to_a to_ary to_h to_hash to_i to_int to_f to_r to_c to_sym to_proc to_json to_yaml inspect hash eql? "
    "== === != =~ <=> < > <= >= + - * / % ** << >> [] []= ! & | ^ ~ +@ -@ each each_with_index each_with_object each_pair each_key "
    "each_value each_slice each_cons each_char each_line each_byte each_entry map map! flat_map collect collect! select select! filter "
    "filter! filter_map reject reject! find find_all find_index detect inject reduce sum min max min_by max_by minmax sort sort! sort_by "
    "sort_by! reverse reverse! reverse_each group_by partition chunk chunk_while slice slice! slice_when zip cycle tally uniq uniq! "
    "first last take take_while drop drop_while include? member? any? all? none? one? empty? count size length push pop shift unshift "
    "append prepend insert concat delete delete_at delete_if keep_if compact compact! flatten flatten! join pack sample shuffle rotate "
    "transpose product combination permutation values_at dig fetch store key key? keys has_key? value? values has_value? merge merge! "
    "update replace clear invert transform_values transform_keys transform_values! transform_keys! default default= index rindex fill "
    "assoc bsearch lazy entries dup clone freeze frozen? tap then yield_self itself instance_of? is_a? kind_of? nil? respond_to? "
    "respond_to_missing? method_missing send public_send method methods extend object_id instance_variable_get instance_variable_set "
    "class name superclass ancestors instance_methods instance_method method_defined? const_get const_set constants class_eval "
    "instance_eval module_eval define_method included extended inherited prepended upcase downcase capitalize swapcase upcase! downcase! "
    "strip lstrip rstrip strip! chomp chomp! chop chars bytes lines split sub sub! gsub gsub! tr tr_s squeeze scan match match? "
    "start_with? end_with? center ljust rjust format encode force_encoding encoding valid_encoding? unpack unpack1 ord chr succ next pred "
    "times upto downto step abs ceil floor round truncate zero? positive? negative? even? odd? divmod modulo between? clamp coerce read "
    "write puts print gets readline readlines open close closed? eof? rewind seek pos flush sync sync= path exist? file? directory? "
    "basename dirname extname expand_path message backtrace full_message cause exception raise set_backtrace exit status success? pid wait "
    "value alive? join kill wakeup synchronize lock unlock year month day hour minute min sec strftime iso8601 to_date to_time utc "
    "localtime bind unbind arity parameters curry source source_location captures named_captures pre_match post_match begin end add "
    "subset? superset? union intersection difference intersect? save save! create create! update! destroy destroy! where order limit "
    "offset pluck includes joins id ids exists? find_by find_by! valid? errors reload attributes persisted? new_record? present? blank? "
    "presence try perform render".split()
)


def _file_name(constant: str) -> str:
    """Return the name that Zeitwerk gives to the file or folder of ``constant``."""
    return _WORD.sub("_", constant).lower()


def _constant(lookup: Lookup, file: KnownFile, name: str) -> Outcome:
    """Return the definitions of the top constant ``name``: those of the file named after it, else all parts."""
    places: dict[str, list[Entity]] = {}
    kinds: set[str] = set()
    is_only = True
    for path, index in lookup.sources.defining(name):
        other = lookup.sources.file(path)
        if other is None or other.facts.language != "ruby" or other.definitions[index].kind not in _CONSTANTS:
            continue
        if other.definitions[index].qualified == name:
            places.setdefault(path, []).append(Entity(path, index))
            kinds.add(other.definitions[index].kind)
        else:
            is_only = False
    if not places:
        return UNKNOWN
    wanted = f"{_file_name(name)}.rb"
    named = [path for path in places if path == wanted or path.endswith(f"/{wanted}")]
    own = [file.path] if file.path in places else []
    found = tuple(one for path in named or own or places for one in places[path])[:_PARTS_MAX]
    # A class of that name elsewhere may be reached by an include; a module in a file of another name may be one of a gem, opened.
    return Outcome(
        found,
        is_proven=bool(named or own)
        or (is_only and kinds == {"class"})
        or (len(places) == 1 and kinds == {"constant"}),
    )


def _free(lookup: Lookup, file: KnownFile, name: str) -> Outcome:
    if name[:1].isupper():
        found = _constant(lookup, file, name)
        if found.found:
            return found
        folders = [folder for folder in lookup.sources.folders_named(_file_name(name)) if _is_loaded(folder)]
        if folders:
            return Outcome(tuple(Entity(folder, -2) for folder in folders[:_PARTS_MAX]), is_proven=False)
        return EXTERNAL
    return _function(lookup, name)


def _function(lookup: Lookup, name: str) -> Outcome:
    """Return the function that a call without receiver may reach outside of classes: one at the top, or of a module that is mixed in."""
    found = []
    for path, index in lookup.sources.defining(name):
        other = lookup.sources.file(path)
        if other is None or other.facts.language != "ruby":
            continue
        one = other.definitions[index]
        around = other.definitions[one.parent].kind if one.parent >= 0 else ""
        if (one.kind == "function" and around in ("", "test")) or (one.kind == "method" and around == "module"):
            found.append(Entity(path, index))
    if len({one.path for one in found}) == 1:
        return Outcome(tuple(found), is_proven=False)
    return UNKNOWN if found else EXTERNAL


def _is_loaded(folder: str) -> bool:
    """Return True for a folder directly below a root of Zeitwerk: ``lib``, or a folder of ``app``."""
    parts = folder.split("/")
    return (len(parts) > 1 and parts[-2] == "lib") or (
        len(parts) > 2 and parts[-3] == "app" and parts[-2] not in _NO_CODE
    )


def _submodule(lookup: Lookup, entity: Entity, name: str) -> Outcome:
    """Return the constant ``name`` in a folder that is a namespace."""
    if entity.symbol != -2 or not name[:1].isupper():
        return UNKNOWN
    path = f"{entity.path}/{_file_name(name)}.rb"
    file = lookup.sources.file(path)
    if file is not None:
        found = [
            Entity(path, at) for at, one in enumerate(file.definitions) if one.name == name and one.kind in _CONSTANTS
        ]
        if found:
            return Outcome(tuple(found[:1]))
    folder = f"{entity.path}/{_file_name(name)}"
    return Outcome((Entity(folder, -2),), is_proven=False) if lookup.sources.in_folder(folder) else UNKNOWN


def _imported(lookup: Lookup, file: KnownFile, one: Import) -> Outcome:
    folder = file.path.rpartition("/")[0]
    module = one.module if posixpath.splitext(one.module)[1] in (".rb", ".rake") else f"{one.module}.rb"
    if module.startswith("."):
        path = posixpath.normpath(posixpath.join(folder, module))
        return Outcome((Entity(path, -1),)) if not path.startswith("..") and lookup.sources.exists(path) else UNKNOWN
    roots = {
        path[: -len(module)].rstrip("/"): path
        for path in lookup.sources.with_name(module.rpartition("/")[2])
        if path == module or path.endswith(f"/{module}")
    }
    loaded = [root for root in roots if root.rpartition("/")[2] in _LOAD_FOLDERS]
    around = [
        root for root in loaded if file.path.startswith(f"{root}/") or file.path.startswith(root.rpartition("/")[0])
    ]
    if around:
        return Outcome((Entity(roots[max(around, key=len)], -1),), is_proven=len(around) == 1)
    if loaded:
        return Outcome((Entity(roots[min(loaded)], -1),), is_proven=len(loaded) == 1)
    if "/" in module and roots:
        return Outcome((Entity(roots[min(roots, key=lambda root: (root.count("/"), root))], -1),), is_proven=False)
    return EXTERNAL


def _is_of_class(one: Definition) -> bool:
    return one.kind in ("function", "class", "module", "constant")


RULES: Final = Rules(
    "ruby", _imported, _free, _submodule, has_open_types=True, common_members=_COMMON, constructor="initialize", instantiator="new",
    is_of_class=_is_of_class,
)  # fmt: skip
