"""PHP."""

from __future__ import annotations

__all__ = ["PHP"]

import re
from typing import TYPE_CHECKING, Final

from periplus.code.languages.table import Access, Bind, Extraction, Language, Naming

if TYPE_CHECKING:
    import tree_sitter

# Constants and functions of the language's core, of its standard library and of what is always compiled in. Classes are not among them:
# their names are resolved by namespace.
_BUILTINS: Final = frozenset(
    "true false null TRUE FALSE NULL $_GET $_POST $_SERVER $_COOKIE $_FILES $_ENV $_REQUEST $_SESSION $GLOBALS $argc $argv "
    "$php_errormsg $http_response_header __LINE__ __FILE__ __DIR__ __FUNCTION__ __CLASS__ __TRAIT__ __METHOD__ __NAMESPACE__ PHP_EOL "
    "PHP_VERSION PHP_VERSION_ID PHP_MAJOR_VERSION PHP_MINOR_VERSION PHP_OS PHP_OS_FAMILY PHP_INT_MAX PHP_INT_MIN PHP_INT_SIZE "
    "PHP_FLOAT_EPSILON PHP_FLOAT_MAX PHP_BINARY PHP_SAPI PHP_MAXPATHLEN DIRECTORY_SEPARATOR PATH_SEPARATOR STDIN STDOUT STDERR E_ALL "
    "E_ERROR E_WARNING E_NOTICE E_STRICT E_DEPRECATED E_USER_ERROR E_USER_WARNING E_USER_NOTICE E_USER_DEPRECATED NAN INF M_PI LOCK_EX "
    "LOCK_SH LOCK_UN LOCK_NB SEEK_SET SEEK_CUR SEEK_END JSON_PRETTY_PRINT JSON_THROW_ON_ERROR JSON_UNESCAPED_SLASHES "
    "JSON_UNESCAPED_UNICODE JSON_ERROR_NONE ENT_QUOTES ENT_HTML5 COUNT_RECURSIVE SORT_NUMERIC SORT_STRING SORT_REGULAR SORT_FLAG_CASE "
    "ARRAY_FILTER_USE_KEY ARRAY_FILTER_USE_BOTH FILE_APPEND FILE_IGNORE_NEW_LINES FILE_SKIP_EMPTY_LINES PREG_SPLIT_NO_EMPTY "
    "PREG_SPLIT_DELIM_CAPTURE PREG_SET_ORDER PREG_PATTERN_ORDER PREG_OFFSET_CAPTURE STR_PAD_LEFT STR_PAD_RIGHT LC_ALL EXTR_SKIP "
    "abs acos array_change_key_case array_chunk array_column array_combine array_count_values array_diff array_diff_assoc array_diff_key "
    "array_diff_uassoc array_diff_ukey array_fill array_fill_keys array_filter array_find array_any array_all array_flip array_intersect "
    "array_intersect_assoc array_intersect_key array_intersect_ukey array_is_list array_key_exists array_key_first array_key_last "
    "array_keys array_map array_merge array_merge_recursive array_multisort array_pad array_pop array_product array_push array_rand "
    "array_reduce array_replace array_replace_recursive array_reverse array_search array_shift array_slice array_splice array_sum "
    "array_udiff array_uintersect array_unique array_unshift array_values array_walk array_walk_recursive arsort asort asin assert atan "
    "atan2 base64_decode base64_encode base_convert basename bin2hex bindec boolval call_user_func call_user_func_array ceil chdir "
    "checkdate chmod chop chown chr chunk_split class_exists class_implements class_parents class_uses clearstatcache closedir compact "
    "constant copy cos count crc32 ctype_alnum ctype_alpha ctype_digit ctype_lower ctype_punct ctype_space ctype_upper ctype_xdigit "
    "curl_close curl_error curl_errno curl_exec curl_getinfo curl_init curl_setopt curl_setopt_array curl_version current date "
    "date_create date_default_timezone_get date_default_timezone_set debug_backtrace debug_zval_refcount decbin dechex define defined "
    "deg2rad die dir dirname doubleval each empty end enum_exists error_get_last error_log error_reporting escapeshellarg escapeshellcmd "
    "eval exec exit exp explode extension_loaded extract fclose feof fflush fgetc fgetcsv fgets file file_exists file_get_contents "
    "file_put_contents fileatime filemtime fileperms filesize filetype filter_input filter_var floatval flock floor flush fmod fopen "
    "forward_static_call fprintf fputcsv fputs fread fscanf fseek fstat ftell ftruncate func_get_arg func_get_args func_num_args "
    "function_exists fwrite gc_collect_cycles get_called_class get_class get_class_methods get_class_vars get_debug_type "
    "get_declared_classes get_include_path get_object_vars get_parent_class get_resource_type getcwd getdate getenv gethostbyname "
    "gethostname getmypid getopt gettype glob gmdate gmmktime gzcompress gzdecode gzdeflate gzencode gzinflate gzopen gzuncompress hash "
    "hash_algos hash_equals hash_file hash_hmac header header_remove headers_sent hex2bin hexdec highlight_string hrtime "
    "html_entity_decode htmlentities htmlspecialchars htmlspecialchars_decode http_build_query http_response_code hypot iconv "
    "ignore_user_abort implode in_array inet_ntop inet_pton ini_get ini_set intdiv interface_exists intval ip2long is_a is_array is_bool "
    "is_callable is_countable is_dir is_double is_executable is_file is_finite is_float is_infinite is_int is_integer is_iterable "
    "is_link is_long is_nan is_null is_numeric is_object is_readable is_resource is_scalar is_string is_subclass_of is_writable "
    "is_writeable isset iterator_apply iterator_count iterator_to_array join json_decode json_encode json_last_error "
    "json_last_error_msg key key_exists krsort ksort lcfirst levenshtein link list localeconv localtime log log10 long2ip lstat ltrim "
    "mail max mb_check_encoding mb_convert_case mb_convert_encoding mb_detect_encoding mb_internal_encoding mb_str_split mb_strimwidth "
    "mb_stripos mb_strlen mb_strpos mb_strrpos mb_strstr mb_strtolower mb_strtoupper mb_strwidth mb_substr mb_substr_count md5 md5_file "
    "memory_get_peak_usage memory_get_usage method_exists microtime min mkdir mktime move_uploaded_file mt_rand mt_srand natcasesort "
    "natsort next nl2br number_format ob_clean ob_end_clean ob_end_flush ob_flush ob_get_clean ob_get_contents ob_get_level ob_start "
    "octdec opendir openssl_decrypt openssl_encrypt openssl_verify ord parse_ini_file parse_ini_string parse_str parse_url passthru "
    "password_hash password_verify pathinfo pclose php_sapi_name php_uname phpversion pi popen pos posix_getpid posix_getuid "
    "posix_isatty pow preg_grep preg_last_error preg_last_error_msg preg_match preg_match_all preg_quote preg_replace "
    "preg_replace_callback preg_replace_callback_array preg_split prev print print_r printf proc_close proc_get_status proc_open "
    "proc_terminate property_exists putenv quoted_printable_encode rad2deg rand random_bytes random_int range rawurldecode rawurlencode "
    "readdir readfile readline readlink realpath register_shutdown_function rename reset restore_error_handler "
    "restore_exception_handler rewind rmdir round rsort rtrim scandir serialize session_destroy session_id session_start "
    "set_error_handler set_exception_handler set_time_limit setcookie setlocale settype sha1 sha1_file shell_exec shuffle similar_text "
    "sin sizeof sleep sort soundex spl_autoload_register spl_autoload_unregister spl_object_hash spl_object_id sprintf sqrt srand sscanf "
    "stat str_contains str_ends_with str_getcsv str_ireplace str_pad str_repeat str_replace str_rot13 str_shuffle str_split "
    "str_starts_with str_word_count strcasecmp strchr strcmp strcoll strcspn stream_context_create stream_context_get_options "
    "stream_copy_to_stream stream_get_contents stream_get_meta_data stream_get_wrappers stream_isatty stream_select stream_set_blocking "
    "stream_set_timeout stream_socket_client strftime strip_tags stripcslashes stripos stripslashes stristr strlen strnatcasecmp "
    "strnatcmp strncasecmp strncmp strpbrk strpos strrchr strrev strripos strrpos strspn strstr strtok strtolower strtotime strtoupper "
    "strtr strval substr substr_compare substr_count substr_replace symlink sys_get_temp_dir system tan tempnam time timezone_open "
    "tmpfile touch trait_exists trigger_error trim uasort ucfirst ucwords uksort umask uniqid unlink unserialize unset urldecode "
    "urlencode usleep usort utf8_decode utf8_encode var_dump var_export version_compare vprintf vsprintf wordwrap".split()
)
_SIMPLE_TYPES: Final = frozenset(
    "array bool boolean callable false float int integer iterable mixed never null object resource scalar string true void double "
    "number numeric list".split()
)
_DOCUMENTED: Final = re.compile(r"@(return|var|param)\s+([\\\w|?&$]+)(?:[ \t]+(?:\.\.\.)?(\$\w+))?")
_TEST_CALLS: Final = frozenset({"it", "test", "describe", "todo"})
_TEST_MARK: Final = re.compile(r"#\[\\?(?:\w+\\)*Test\b|\*\s*@test\b")
_TEST_NAME: Final = re.compile(r"test(?![a-z])")
_PATH: Final = re.compile(
    r"""^\(?\s*(?:(?:__DIR__|dirname\(\s*__FILE__\s*\)|(?P<up>dirname\(\s*__DIR__\s*\)|dirname\(\s*dirname\(\s*__FILE__\s*\)\s*\)))"""
    r"""\s*\.\s*(?P<anchored>['"])(?P<below>/[^'"$\\]+)['"]|['"](?P<loose>[^'"$\\]+)['"])\s*\)?$"""
)


def _class_name(said: str) -> str:
    """Return the only class among the types that a doc comment says, empty where there is none."""
    for part in said.lstrip("?").split("|"):
        bare = part.strip("?")
        if bare and bare.lower() not in _SIMPLE_TYPES and re.fullmatch(r"\\?[A-Za-z_][\w\\]*", bare):
            return bare
    return ""


def _documented_type(kind: str, doc: str) -> str:
    wanted = "return" if kind in ("function", "method") else "var"
    for tag, said, _ in _DOCUMENTED.findall(doc):
        if tag == wanted:
            return _class_name(said)
    return ""


def _program(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Note the namespace of the file. One with several has the package ``*``: its names are in no namespace that others could name."""
    children = node.named_children
    found = {
        extraction.text(name)
        for child in children
        if child.type == "namespace_definition" and (name := child.child_by_field_name("name")) is not None
    }
    if found:
        extraction.add_package(found.pop() if len(found) == 1 else "*")
    extraction.visit(*children)


def _use(extraction: Extraction, node: tree_sitter.Node) -> None:
    r"""``use A\B as C``, ``use function A\b``, ``use A\{B, const C}``: the kind stands before the module."""
    group = node.child_by_field_name("body")
    outer = node.child_by_field_name("type")
    prefix = ""
    clauses = node.named_children
    if group is not None:
        prefix = next((extraction.text(child) for child in clauses if child.type == "namespace_name"), "") + "\\"
        clauses = group.named_children
    for clause in clauses:
        if clause.type != "namespace_use_clause":
            continue
        name = next((one for one in clause.named_children if one.type in ("name", "qualified_name")), None)
        if name is None:
            continue
        kind = clause.child_by_field_name("type") or outer
        alias = clause.child_by_field_name("alias")
        module, _, last = (prefix + extraction.text(name)).lstrip("\\").rpartition("\\")
        said = f"{extraction.text(kind).lower()} {module}" if kind is not None else module
        extraction.add_import(name, said, last, extraction.text(alias) if alias is not None else last)


def _include(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Note the file of ``require __DIR__ . '/x.php'`` as ``./x.php``, that of ``require 'x.php'`` as it is written."""
    inner = next(iter(node.named_children), None)
    if inner is None:
        return
    match = _PATH.match(extraction.text(inner))
    if match is None:
        extraction.visit(inner)
    elif match["loose"]:
        extraction.add_import(inner, match["loose"])
    else:
        extraction.add_import(inner, (".." if match["up"] else ".") + match["below"])


def _function_call(extraction: Extraction, node: tree_sitter.Node) -> None:
    function = node.child_by_field_name("function")
    if (
        function is not None
        and function.end_byte - function.start_byte <= 7
        and extraction.text(function) in ("define", "\\define")
    ):
        arguments = node.child_by_field_name("arguments")
        string = _string(arguments)
        if string is not None:
            extraction.define(node, string, "constant")
    extraction.refer(node)


def _constant(extraction: Extraction, node: tree_sitter.Node) -> None:
    """``A::class`` is the name of ``A``; anything else is a member of it."""
    children = node.named_children
    if len(children) == 2 and extraction.text(children[1]) == "class":
        extraction.visit(children[0])
    else:
        extraction.refer(node)


def _string(arguments: tree_sitter.Node | None) -> tree_sitter.Node | None:
    """Return the text of the first argument where it is a plain string."""
    first = arguments.named_child(0) if arguments is not None else None
    string = first.named_child(0) if first is not None else None
    if string is None or string.type not in ("string", "encapsed_string") or string.named_child_count != 1:
        return None
    return string.named_child(0)


def _closure(extraction: Extraction, node: tree_sitter.Node) -> None:
    """``it('does', function () {…})`` of Pest is a test, any other closure a scope."""
    argument = node.parent
    arguments = argument.parent if argument is not None and argument.type == "argument" else None
    call = arguments.parent if arguments is not None else None
    function = call.child_by_field_name("function") if call is not None else None
    body = node.child_by_field_name("body")
    if call is not None and function is not None and body is not None and extraction.text(function) in _TEST_CALLS:
        name = _string(arguments)
        if name is not None:
            extraction.define(call, name, "test", body=body)
            extraction.visit(node.child_by_field_name("parameters"))
            return
    extraction.open(node)


def _anonymous_class(extraction: Extraction, node: tree_sitter.Node) -> None:
    body = node.child_by_field_name("body")
    extraction.define(node, node, "class", text="class@anonymous", body=body)
    extraction.visit(*(child for child in node.named_children if body is None or child.id != body.id))


def _class_body(extraction: Extraction, node: tree_sitter.Node) -> None:
    extraction.bind_instance("self", is_class=True)
    extraction.bind_instance("static", is_class=True)
    extraction.visit(*node.named_children)


def _bases(extraction: Extraction, node: tree_sitter.Node) -> None:
    """``extends``, ``implements`` and ``use`` of traits."""
    for child in node.named_children:
        if child.type == "use_list":
            extraction.visit(child)
        elif child.type != "comment":
            extraction.extend(child)


def _parameters(extraction: Extraction, node: tree_sitter.Node) -> None:
    if extraction.is_method:
        extraction.bind_instance("self", is_class=True)
        extraction.bind_instance("static", is_class=True)
    documented: dict[str, str] | None = None
    for child in node.named_children:
        name = child.child_by_field_name("name")
        if name is None:
            extraction.visit(child)
            continue
        said = extraction.text(name)
        type_ = child.child_by_field_name("type")
        if type_ is None and documented is None:
            documented = {
                one: _class_name(text) for tag, text, one in _DOCUMENTED.findall(extraction.doc) if tag == "param"
            }
        extraction.bind(
            said, None, None if child.type == "variadic_parameter" else type_ or (documented or {}).get(said) or None
        )
        if child.type == "property_promotion_parameter" and (bare := name.named_child(0)) is not None:
            extraction.define(child, bare, "property", type_=type_, is_member=True)
        extraction.visit(child.child_by_field_name("attributes"), type_, child.child_by_field_name("default_value"))


def _properties(extraction: Extraction, node: tree_sitter.Node) -> None:
    type_ = node.child_by_field_name("type")
    for child in node.named_children:
        if child.type != "property_element":
            extraction.visit(child)
            continue
        name, value = child.child_by_field_name("name"), child.child_by_field_name("default_value")
        bare = name.named_child(0) if name is not None else None
        if bare is not None:
            extraction.define(child, bare, "property", whole=node, type_=type_, value=value)
        extraction.visit(value)


def _globals(extraction: Extraction, node: tree_sitter.Node) -> None:
    """``global $x``: the function does not bind ``$x``."""
    for child in node.named_children:
        extraction.unbind(extraction.text(child))
        extraction.visit(child)


def _is_exported(extraction: Extraction, node: tree_sitter.Node, _name: str) -> bool:
    at: tree_sitter.Node | None = node.parent if node.type in ("property_element", "const_element") else node
    for child in at.named_children[:4] if at is not None else ():
        if child.type == "visibility_modifier":
            return extraction.text(child) == "public"
    return True


def _is_test(name: str, kind: str, decorations: str) -> bool:
    if kind == "method":
        return _TEST_NAME.match(name) is not None or _TEST_MARK.search(decorations) is not None
    return kind == "test" or (kind == "class" and name.endswith("Test"))


_TARGETS: Final = frozenset(
    {"member_access_expression", "nullsafe_member_access_expression", "scoped_property_access_expression", "subscript_expression",
     "list_literal", "array_creation_expression", "dynamic_variable_name", "parenthesized_expression", "function_call_expression",
     "member_call_expression", "scoped_call_expression", "encapsed_string"}
)  # fmt: skip
_ASSIGNMENT: Final = Naming("value", ("left",), is_outer=True, not_names=_TARGETS, value="right")
_FUNCTION: Final = Naming("function", type="return_type")
_MEMBER: Final = Access("object", "name")
_MEMBER_CALL: Final = Access("object", "name", "()")
PHP: Final = Language(
    "php", (".php", ".phtml", ".php5", ".php7", ".php8", ".phpt"), "tree_sitter_php", "language_php",
    {
        "function_definition": _FUNCTION,
        "method_declaration": Naming("method", type="return_type"),
        "class_declaration": Naming("class", is_class=True),
        "interface_declaration": Naming("interface", is_class=True),
        "trait_declaration": Naming("trait", is_class=True),
        "enum_declaration": Naming("enum", is_class=True),
        "enum_case": Naming("constant"),
        "const_element": Naming("constant", ("0",)),
        "assignment_expression": _ASSIGNMENT,
        "reference_assignment_expression": _ASSIGNMENT,
    },
    functions=frozenset({"function_definition", "method_declaration", "anonymous_function", "arrow_function", "property_hook"}),
    wrappers=frozenset({"expression_statement", "const_declaration"}),
    names=frozenset({"name", "qualified_name", "relative_name", "relative_scope", "variable_name"}),
    binds={
        "augmented_assignment_expression": (Bind("left"),),
        "foreach_statement": (Bind(1),),
        "catch_clause": (Bind("name", type="type"),),
        "static_variable_declaration": (Bind("name", "value"),),
    },
    accesses={
        "member_access_expression": _MEMBER,
        "nullsafe_member_access_expression": _MEMBER,
        "member_call_expression": _MEMBER_CALL,
        "nullsafe_member_call_expression": _MEMBER_CALL,
        "scoped_call_expression": Access("scope", "name", "()"),
        "scoped_property_access_expression": Access("scope", "name", sigil="$"),
        "class_constant_access_expression": Access(0, 1),
        "function_call_expression": Access("function", step="()"),
        "object_creation_expression": Access(0, step="()"),
        "subscript_expression": Access(0, step="[]"),
    },
    transparent={"parenthesized_expression": 0, "clone_expression": 0},
    enters={"argument": (-1,), "use_as_clause": (0,)},
    skips=frozenset({"goto_statement", "named_label_statement", "dynamic_variable_name", "declare_statement", "text"}),
    literals=frozenset(
        {"string", "encapsed_string", "heredoc", "nowdoc", "integer", "float", "boolean", "array_creation_expression"}
    ),
    nulls=frozenset({"null"}),
    selves=frozenset({"$this"}),
    supers=frozenset({"parent"}),
    type_wrappers={
        "named_type": 0, "optional_type": 0, "union_type": 0, "intersection_type": 0, "disjunctive_normal_form_type": 0, "type_list": 0,
    },
    builtins=_BUILTINS | frozenset("\\" + name for name in _BUILTINS if name[0] not in "$_"),
    sigil="$",
    hides_globals=True,
    special={
        "program": _program,
        "namespace_use_declaration": _use,
        "include_expression": _include,
        "include_once_expression": _include,
        "require_expression": _include,
        "require_once_expression": _include,
        "function_call_expression": _function_call,
        "class_constant_access_expression": _constant,
        "anonymous_function": _closure,
        "arrow_function": _closure,
        "anonymous_class": _anonymous_class,
        "declaration_list": _class_body,
        "enum_declaration_list": _class_body,
        "base_clause": _bases,
        "class_interface_clause": _bases,
        "use_declaration": _bases,
        "formal_parameters": _parameters,
        "property_declaration": _properties,
        "global_declaration": _globals,
        "namespace_definition": lambda extraction, node: extraction.visit(node.child_by_field_name("body")),
    },
    is_exported=_is_exported,
    is_test=_is_test,
    documented_type=_documented_type,
    interpreters=("php",),
)  # fmt: skip
