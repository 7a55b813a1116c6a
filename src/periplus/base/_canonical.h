/* The canonical JSON of periplus.base.canonical, for common values: containers of exact types, keys
 * in ASCII, integers within ±(2^53 - 1), at most DEPTH_MAX levels. The output equals that of the Python form, which handles
 * all other values.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 64
#define INTEGER_MAX ((1LL << 53) - 1)
#define SORTED_MAX 64

typedef struct {
    char *data;
    size_t size, room;
} Buffer;

static int
make_room(Buffer *out, size_t more)
{
    if (out->room - out->size >= more) {
        return 1;
    }
    size_t room = out->room * 2 > out->size + more ? out->room * 2 : out->size + more;
    char *data = PyMem_Realloc(out->data, room);
    if (data == NULL) {
        return 0;
    }
    out->data = data, out->room = room;
    return 1;
}

static int
is_ascii_text(PyObject *value)
{
    if (!PyUnicode_CheckExact(value)) {
        return 0;
    }
#if PY_VERSION_HEX < 0x030C0000
    if (PyUnicode_READY(value) < 0) {
        PyErr_Clear();
        return 0;
    }
#endif
    return PyUnicode_IS_ASCII(value);
}

/* Escape what JSON requires, in at most six times the size, like msgspec and orjson. */
static char *
put_escaped(char *out, const char *text, Py_ssize_t size)
{
    static const char digits[] = "0123456789abcdef";
    for (Py_ssize_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x20 && c != '"' && c != '\\') {
            *out++ = (char)c;
            continue;
        }
        *out++ = '\\';
        switch (c) {
        case '"': *out++ = '"'; break;
        case '\\': *out++ = '\\'; break;
        case '\b': *out++ = 'b'; break;
        case '\t': *out++ = 't'; break;
        case '\n': *out++ = 'n'; break;
        case '\f': *out++ = 'f'; break;
        case '\r': *out++ = 'r'; break;
        default:
            memcpy(out, "u00", 3);
            out[3] = digits[c >> 4], out[4] = digits[c & 15];
            out += 5;
        }
    }
    return out;
}

static int put_container(Buffer *out, PyObject *value, int depth);

static int
put_text(Buffer *out, PyObject *text)
{
    Py_ssize_t size;
    const char *data = PyUnicode_AsUTF8AndSize(text, &size);
    if (data == NULL || !make_room(out, (size_t)size * 6 + 3)) {
        PyErr_Clear();
        return 0;
    }
    char *at = out->data + out->size;
    *at++ = '"';
    at = put_escaped(at, data, size);
    *at++ = '"';
    out->size = (size_t)(at - out->data);
    return 1;
}

static int
put_literal(Buffer *out, const char *text, size_t size)
{
    if (!make_room(out, size)) {
        return 0;
    }
    memcpy(out->data + out->size, text, size);
    out->size += size;
    return 1;
}

static int
put_item(Buffer *out, PyObject *item, int depth)
{
    if (PyUnicode_CheckExact(item)) {
        return put_text(out, item);
    }
    if (item == Py_None) {
        return put_literal(out, "null", 4);
    }
    if (PyBool_Check(item)) {
        return item == Py_True ? put_literal(out, "true", 4) : put_literal(out, "false", 5);
    }
    if (PyLong_CheckExact(item)) {
        char text[32];
        int overflow;
        long long number = PyLong_AsLongLongAndOverflow(item, &overflow);
        if (overflow || number < -INTEGER_MAX || number > INTEGER_MAX) {
            return 0;
        }
        return put_literal(out, text, (size_t)snprintf(text, sizeof text, "%lld", number));
    }
    return put_container(out, item, depth + 1);
}

typedef struct {
    const char *data;
    Py_ssize_t size;
    PyObject *key, *value;
} Member;

static int
in_order(const void *one, const void *other)
{
    const Member *a = one, *b = other;
    int found = memcmp(a->data, b->data, (size_t)(a->size < b->size ? a->size : b->size));
    return found ? found : (a->size > b->size) - (a->size < b->size);
}

static int
put_members(Buffer *out, PyObject *value, int depth)
{
    Member members[SORTED_MAX];
    Py_ssize_t at = 0, count = PyDict_GET_SIZE(value), found = 0;
    PyObject *key, *item;
    if (count > SORTED_MAX) {
        return 0;
    }
    while (found < count && PyDict_Next(value, &at, &key, &item)) {
        if (!is_ascii_text(key)) {
            return 0;
        }
        Member *member = members + found++;
        member->data = PyUnicode_AsUTF8AndSize(key, &member->size);
        member->key = key, member->value = item;
    }
    qsort(members, (size_t)found, sizeof *members, in_order);
    for (Py_ssize_t i = 0; i < found; i++) {
        if (!put_literal(out, i ? "," : "{", 1) || !put_text(out, members[i].key) || !put_literal(out, ":", 1)
            || !put_item(out, members[i].value, depth)) {
            return 0;
        }
    }
    return put_literal(out, found ? "}" : "{}", found ? 1 : 2);
}

static int
put_container(Buffer *out, PyObject *value, int depth)
{
    if (depth >= DEPTH_MAX) {
        return 0;
    }
    if (PyDict_CheckExact(value)) {
        return put_members(out, value, depth);
    }
    int is_list = PyList_CheckExact(value);
    if (!is_list && !PyTuple_CheckExact(value)) {
        return 0;
    }
    Py_ssize_t count = is_list ? PyList_GET_SIZE(value) : PyTuple_GET_SIZE(value);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = is_list ? PyList_GET_ITEM(value, i) : PyTuple_GET_ITEM(value, i);
        if (!put_literal(out, i ? "," : "[", 1) || !put_item(out, item, depth)) {
            return 0;
        }
    }
    return put_literal(out, count ? "]" : "[]", count ? 1 : 2);
}

/* The canonical text of a common container; NULL, without an exception, for other values. */
static PyObject *
canonical_of(PyObject *value)
{
    Buffer out = {PyMem_Malloc(2048), 0, 2048};
    PyObject *text = NULL;
    if (out.data != NULL && put_container(&out, value, 0)) {
        text = PyBytes_FromStringAndSize(out.data, (Py_ssize_t)out.size);
    }
    PyErr_Clear();
    PyMem_Free(out.data);
    return text;
}
