/* The functions of periplus.base.speed in C, built where the installation can: the same results as in Python. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#include "_sha256.h"

static PyObject *
end(Hash *hash)
{
    PyObject *digest = PyBytes_FromStringAndSize(NULL, 32);
    if (digest != NULL) {
        finish(hash, (uint8_t *)PyBytes_AS_STRING(digest));
    }
    return digest;
}

static int
feed_bytes(Hash *hash, PyObject *data)
{
    if (!PyBytes_Check(data)) {
        PyErr_Format(PyExc_TypeError, "bytes were expected, not %.100s", Py_TYPE(data)->tp_name);
        return -1;
    }
    feed(hash, (const uint8_t *)PyBytes_AS_STRING(data), (size_t)PyBytes_GET_SIZE(data));
    return 0;
}

static PyObject *
sha256(PyObject *Py_UNUSED(module), PyObject *data)
{
    Hash hash;
    begin(&hash);
    return feed_bytes(&hash, data) < 0 ? NULL : end(&hash);
}

static PyObject *
sha256_joined(PyObject *Py_UNUSED(module), PyObject *pieces)
{
    if (!PyList_Check(pieces)) {
        PyErr_Format(PyExc_TypeError, "a list was expected, not %.100s", Py_TYPE(pieces)->tp_name);
        return NULL;
    }
    Hash hash;
    begin(&hash);
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(pieces); at++) {
        if (feed_bytes(&hash, PyList_GET_ITEM(pieces, at)) < 0) {
            return NULL;
        }
    }
    return end(&hash);
}

/* Chain of hashes: each is the SHA-256 of the prefix, the hash before it and an item. Gives the last one. */
static PyObject *
sha256_chained(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 3 || !PyBytes_Check(arguments[0]) || !PyBytes_Check(arguments[1])
        || PyBytes_GET_SIZE(arguments[1]) != 32 || !PyList_Check(arguments[2])) {
        PyErr_SetString(PyExc_TypeError, "a prefix, 32 bytes and a list were expected");
        return NULL;
    }
    uint8_t last[32];
    memcpy(last, PyBytes_AS_STRING(arguments[1]), 32);
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(arguments[2]); at++) {
        Hash hash;
        begin(&hash);
        if (feed_bytes(&hash, arguments[0]) < 0) {
            return NULL;
        }
        feed(&hash, last, 32);
        if (feed_bytes(&hash, PyList_GET_ITEM(arguments[2], at)) < 0) {
            return NULL;
        }
        finish(&hash, last);
    }
    return PyBytes_FromStringAndSize((const char *)last, 32);
}

static void
put_u64(uint8_t out[8], uint64_t number)
{
    for (int i = 0; i < 8; i++) {
        out[i] = (uint8_t)(number >> (56 - 8 * i));
    }
}

/* The hash of each content after its salt, HMAC(key, its number); the key is given as the two blocks of RFC 2104. */
static PyObject *
sha256_salted(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 4 || !PyBytes_Check(arguments[0]) || PyBytes_GET_SIZE(arguments[0]) != BLOCK
        || !PyBytes_Check(arguments[1]) || PyBytes_GET_SIZE(arguments[1]) != BLOCK || !PyList_Check(arguments[3])) {
        PyErr_SetString(PyExc_TypeError, "two blocks of 64 bytes, a number and a list were expected");
        return NULL;
    }
    uint64_t number = PyLong_AsUnsignedLongLong(arguments[2]);
    if (number == (uint64_t)-1 && PyErr_Occurred()) {
        return NULL;
    }
    Hash inner, outer;
    begin(&inner);
    feed(&inner, (const uint8_t *)PyBytes_AS_STRING(arguments[0]), BLOCK);
    begin(&outer);
    feed(&outer, (const uint8_t *)PyBytes_AS_STRING(arguments[1]), BLOCK);
    Py_ssize_t size = PyList_GET_SIZE(arguments[3]);
    PyObject *joined = PyBytes_FromStringAndSize(NULL, 32 * size);
    if (joined == NULL) {
        return NULL;
    }
    for (Py_ssize_t at = 0; at < size; at++, number++) {
        uint8_t message[8], salt[32];
        put_u64(message, number);
        Hash hash = inner;
        feed(&hash, message, 8);
        finish(&hash, salt);
        hash = outer;
        feed(&hash, salt, 32);
        finish(&hash, salt);
        begin(&hash);
        feed(&hash, salt, 32);
        if (feed_bytes(&hash, PyList_GET_ITEM(arguments[3], at)) < 0) {
            Py_DECREF(joined);
            return NULL;
        }
        finish(&hash, (uint8_t *)PyBytes_AS_STRING(joined) + 32 * at);
    }
    return joined;
}

/* The hashes of the nodes of a Merkle tree (RFC 9162) over their children's hashes, two by two. */
static PyObject *
sha256_nodes(PyObject *Py_UNUSED(module), PyObject *children)
{
    if (!PyBytes_Check(children) || PyBytes_GET_SIZE(children) % 64) {
        PyErr_SetString(PyExc_TypeError, "bytes of whole pairs of hashes were expected");
        return NULL;
    }
    PyObject *nodes = PyBytes_FromStringAndSize(NULL, PyBytes_GET_SIZE(children) / 2);
    if (nodes == NULL) {
        return NULL;
    }
    const uint8_t prefix = 1;
    const uint8_t *in = (const uint8_t *)PyBytes_AS_STRING(children);
    uint8_t *out = (uint8_t *)PyBytes_AS_STRING(nodes);
    for (Py_ssize_t left = PyBytes_GET_SIZE(children); left; left -= 64, in += 64, out += 32) {
        Hash hash;
        begin(&hash);
        feed(&hash, &prefix, 1);
        feed(&hash, in, 64);
        finish(&hash, out);
    }
    return nodes;
}

/* Test that the text has the hexadecimal digits of the first bytes of the hash. */
static int
are_digits_of(const uint8_t *hash, const char *digits, Py_ssize_t count)
{
    for (Py_ssize_t at = 0; at < count; at++) {
        if (digits[at] != "0123456789abcdef"[hash[at / 2] >> (at % 2 ? 0 : 4) & 15]) {
            return 0;
        }
    }
    return 1;
}

#define SUM_DIGITS 16

/* The leaf hashes (RFC 9162) of sealed lines, up to the first other line. A sealed line: text, before, digits of its leaf
 * hash, after. */
static PyObject *
sealed_leaves(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 3 || !PyList_Check(arguments[0]) || !PyBytes_Check(arguments[1]) || !PyBytes_Check(arguments[2])) {
        PyErr_SetString(PyExc_TypeError, "a list of lines and what stands before and behind a sum were expected");
        return NULL;
    }
    PyObject *lines = arguments[0];
    const char *before = PyBytes_AS_STRING(arguments[1]), *after = PyBytes_AS_STRING(arguments[2]);
    const Py_ssize_t before_size = PyBytes_GET_SIZE(arguments[1]), after_size = PyBytes_GET_SIZE(arguments[2]);
    if (before_size > BLOCK || after_size > BLOCK) {
        PyErr_SetString(PyExc_ValueError, "more than 64 bytes before or behind a sum");
        return NULL;
    }
    PyObject *leaves = PyList_New(0);
    if (leaves == NULL) {
        return NULL;
    }
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(lines); at++) {
        PyObject *line = PyList_GET_ITEM(lines, at);
        if (!PyBytes_Check(line)) {
            PyErr_Format(PyExc_TypeError, "bytes were expected, not %.100s", Py_TYPE(line)->tp_name);
            Py_DECREF(leaves);
            return NULL;
        }
        const char *text = PyBytes_AS_STRING(line);
        const Py_ssize_t size = PyBytes_GET_SIZE(line) - before_size - SUM_DIGITS - after_size;
        if (size < 0 || memcmp(text + size, before, (size_t)before_size)
            || memcmp(text + size + before_size + SUM_DIGITS, after, (size_t)after_size)) {
            break;
        }
        const uint8_t prefix = 0;
        uint8_t hashed[32];
        Hash hash;
        begin(&hash);
        feed(&hash, &prefix, 1);
        feed(&hash, (const uint8_t *)text, (size_t)size);
        finish(&hash, hashed);
        if (!are_digits_of(hashed, text + size + before_size, SUM_DIGITS)) {
            break;
        }
        PyObject *leaf = PyBytes_FromStringAndSize((const char *)hashed, 32);
        if (leaf == NULL || PyList_Append(leaves, leaf) < 0) {
            Py_XDECREF(leaf);
            Py_DECREF(leaves);
            return NULL;
        }
        Py_DECREF(leaf);
    }
    return leaves;
}

static PyObject *
use_instructions(PyObject *Py_UNUSED(module), PyObject *wanted)
{
    int is_wanted = PyObject_IsTrue(wanted);
    if (is_wanted < 0) {
        return NULL;
    }
    blocks = is_wanted && has_instructions() ? blocks_instructions : blocks_plain;
    return PyBool_FromLong(blocks != blocks_plain);
}

/* Test that the garbage collector need not track the value: CPython's own rule for tuples. */
static int
is_plain(PyObject *value)
{
    if (PyTuple_CheckExact(value)) {
        for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(value); at++) {
            PyObject *item = PyTuple_GET_ITEM(value, at);
            if (!PyUnicode_CheckExact(item) && !PyLong_CheckExact(item) && PyObject_IS_GC(item) && PyObject_GC_IsTracked(item)) {
                return 0;
            }
        }
        if (PyTuple_GET_SIZE(value)) {
            PyObject_GC_UnTrack(value);
        }
        return 1;
    }
    return !(PyObject_IS_GC(value) && PyObject_GC_IsTracked(value));
}

/* An instance of a NamedTuple, a subclass of tuple without fields of its own. The garbage collector does not track one
 * whose values cannot be part of a cycle: a decoded trail has millions of them. */
static PyObject *
record(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 2 || !PyType_Check(arguments[0]) || !PyTuple_CheckExact(arguments[1])
        || !PyType_IsSubtype((PyTypeObject *)arguments[0], &PyTuple_Type)
        || ((PyTypeObject *)arguments[0])->tp_basicsize != PyTuple_Type.tp_basicsize) {
        PyErr_SetString(PyExc_TypeError, "a subclass of tuple without fields of its own, and a tuple, were expected");
        return NULL;
    }
    PyTypeObject *kind = (PyTypeObject *)arguments[0];
    PyObject *values = arguments[1];
    PyObject *made = kind->tp_alloc(kind, PyTuple_GET_SIZE(values));
    if (made == NULL) {
        return NULL;
    }
    int all_plain = 1;
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(values); at++) {
        PyObject *value = PyTuple_GET_ITEM(values, at);
        all_plain = all_plain && is_plain(value);
        PyTuple_SET_ITEM(made, at, Py_NewRef(value));
    }
    if (all_plain) {
        PyObject_GC_UnTrack(made);
    }
    return made;
}

/* Search for up to 64 needles in one pass over a text: three tables hold a bit per needle for its first three characters,
 * and the rest is compared only where all three match. The struct is the plan of a search. */
#define NEEDLES_MAX 64
#define NEEDLE_CHARS_MAX 16

typedef struct {
    uint64_t starts[3][256];
    uint64_t folded; /* needles in either case of ASCII letters */
    uint8_t lengths[NEEDLES_MAX];
    char needles[NEEDLES_MAX][NEEDLE_CHARS_MAX];
} Plan;

static int
plan_group(Plan *plan, PyObject *needles, int is_folded, int *count)
{
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(needles); at++, ++*count) {
        PyObject *needle = PyTuple_GET_ITEM(needles, at);
        Py_ssize_t length = PyUnicode_Check(needle) ? PyUnicode_GET_LENGTH(needle) : 0;
        if (length < 3 || length > NEEDLE_CHARS_MAX || !PyUnicode_IS_ASCII(needle) || *count == NEEDLES_MAX) {
            PyErr_SetString(PyExc_TypeError, "up to 64 needles of 3 to 16 ASCII characters were expected");
            return -1;
        }
        const char *text = (const char *)PyUnicode_1BYTE_DATA(needle);
        uint64_t bit = (uint64_t)1 << *count;
        plan->lengths[*count] = (uint8_t)length;
        plan->folded |= is_folded ? bit : 0;
        for (Py_ssize_t i = 0; i < length; i++) {
            char c = is_folded ? Py_TOLOWER(text[i]) : text[i];
            plan->needles[*count][i] = c;
            if (i < 3) {
                plan->starts[i][(uint8_t)c] |= bit;
                plan->starts[i][is_folded ? Py_TOUPPER(c) : (uint8_t)c] |= bit;
            }
        }
    }
    return 0;
}

static PyObject *
needle_plan(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 2 || !PyTuple_Check(arguments[0]) || !PyTuple_Check(arguments[1])) {
        PyErr_SetString(PyExc_TypeError, "two tuples of needles were expected");
        return NULL;
    }
    Plan plan;
    int needles = 0;
    memset(&plan, 0, sizeof plan);
    if (plan_group(&plan, arguments[0], 0, &needles) < 0 || plan_group(&plan, arguments[1], 1, &needles) < 0) {
        return NULL;
    }
    return PyBytes_FromStringAndSize((const char *)&plan, sizeof plan);
}

#define LOOK(TYPE, AT)                                                                                                  \
    static uint64_t look_##TYPE(const Plan *plan, const TYPE *text, Py_ssize_t length)                                  \
    {                                                                                                                   \
        uint64_t found = 0;                                                                                             \
        for (Py_ssize_t at = 0; at + 3 <= length; at++) {                                                               \
            uint64_t here = plan->starts[0][AT(at)] & plan->starts[1][AT(at + 1)] & plan->starts[2][AT(at + 2)];        \
            for (here &= ~found; here; here &= here - 1) {                                                              \
                int number = __builtin_ctzll(here);                                                                     \
                Py_ssize_t size = plan->lengths[number], i = 3;                                                         \
                if (at + size > length) {                                                                               \
                    continue;                                                                                           \
                }                                                                                                       \
                for (; i < size; i++) {                                                                                 \
                    uint8_t c = AT(at + i);                                                                             \
                    c = plan->folded >> number & 1 ? Py_TOLOWER(c) : c;                                                 \
                    if (c != (uint8_t)plan->needles[number][i]) {                                                       \
                        break;                                                                                          \
                    }                                                                                                   \
                }                                                                                                       \
                found |= (uint64_t)(i == size) << number;                                                               \
            }                                                                                                           \
        }                                                                                                               \
        return found;                                                                                                   \
    }
#define BYTE_AT(at) (text[at])
#define NARROW_AT(at) (text[at] < 256 ? (uint8_t)text[at] : 0xFF) /* 0xFF is in no needle */
LOOK(Py_UCS1, BYTE_AT)
LOOK(Py_UCS2, NARROW_AT)
LOOK(Py_UCS4, NARROW_AT)

/* A bit for each needle of the plan, set where it occurs in the text. */
static PyObject *
needles_in(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 2 || !PyBytes_Check(arguments[0]) || PyBytes_GET_SIZE(arguments[0]) != sizeof(Plan)
        || !PyUnicode_Check(arguments[1])) {
        PyErr_SetString(PyExc_TypeError, "a plan and a text were expected");
        return NULL;
    }
    const Plan *plan = (const Plan *)(const void *)PyBytes_AS_STRING(arguments[0]);
    if ((uintptr_t)plan % _Alignof(Plan)) {
        PyErr_SetString(PyExc_SystemError, "bytes begin at no multiple of eight");
        return NULL;
    }
    Py_ssize_t length = PyUnicode_GET_LENGTH(arguments[1]);
    const void *text = PyUnicode_DATA(arguments[1]);
    uint64_t found = 0;
    switch (PyUnicode_KIND(arguments[1])) {
    case PyUnicode_1BYTE_KIND:
        found = look_Py_UCS1(plan, text, length);
        break;
    case PyUnicode_2BYTE_KIND:
        found = look_Py_UCS2(plan, text, length);
        break;
    default:
        found = look_Py_UCS4(plan, text, length);
    }
    return PyLong_FromUnsignedLongLong(found);
}

#include "_trails.h"
#include "_steps.h"

static PyMethodDef METHODS[] = {
    {"check_entries", (PyCFunction)(void (*)(void))check_entries, METH_FASTCALL,
     "check_entries(data, start, end, count, is_redacted): end, forms and offsets of sound entries, or None."},
    {"commit_whole", (PyCFunction)(void (*)(void))commit_whole, METH_FASTCALL,
     "commit_whole(data, start, end, count, inner, outer): the commitments of the entries of a whole trail, or None."},
    {"hash_steps", (PyCFunction)(void (*)(void))hash_steps, METH_FASTCALL,
     "hash_steps(data, start, end, count, commitments, receipt): end, root and receipt of steps, or None."},
    {"sound_steps", (PyCFunction)(void (*)(void))sound_steps, METH_FASTCALL,
     "sound_steps(data, start, end, count, forms, masks, least, most): how many entries sound steps use, or None."},
    {"take_steps", (PyCFunction)(void (*)(void))take_steps, METH_FASTCALL,
     "take_steps(data, kind, forms, contents, outcomes, most, keys, values, value_of, at, clock, record, source, count)."},
    {"text_at", (PyCFunction)(void (*)(void))text_at, METH_FASTCALL, "text_at(data, at) -> str: the text whose length stands there."},
    {"sha256", sha256, METH_O, "sha256(data: bytes) -> bytes: the SHA-256 of data."},
    {"sha256_joined", sha256_joined, METH_O, "sha256_joined(pieces: list[bytes]) -> bytes: the SHA-256 of all pieces."},
    {"record", (PyCFunction)(void (*)(void))record, METH_FASTCALL,
     "record(kind, values: tuple): an instance of the NamedTuple kind with these values, all of them in their order."},
    {"sha256_chained", (PyCFunction)(void (*)(void))sha256_chained, METH_FASTCALL,
     "sha256_chained(prefix: bytes, first: bytes, items: list[bytes]) -> bytes: last of the hashes of prefix, hash, item."},
    {"sha256_nodes", sha256_nodes, METH_O,
     "sha256_nodes(children: bytes) -> bytes: the hashes of the tree nodes over the children, two by two."},
    {"sha256_salted", (PyCFunction)(void (*)(void))sha256_salted, METH_FASTCALL,
     "sha256_salted(inner: bytes, outer: bytes, first: int, contents: list[bytes]) -> bytes: hashes of salted contents."},
    {"sealed_leaves", (PyCFunction)(void (*)(void))sealed_leaves, METH_FASTCALL,
     "sealed_leaves(lines: list[bytes], before: bytes, after: bytes) -> list[bytes]: leaf hashes of lines that are sealed."},
    {"needle_plan", (PyCFunction)(void (*)(void))needle_plan, METH_FASTCALL,
     "needle_plan(exact: tuple[str, ...], folded: tuple[str, ...]) -> bytes: what needles_in takes to look for these."},
    {"needles_in", (PyCFunction)(void (*)(void))needles_in, METH_FASTCALL,
     "needles_in(plan: bytes, text: str) -> int: bit n for the needle n of the plan, the exact ones first, in the text."},
    {"use_instructions", use_instructions, METH_O,
     "use_instructions(wanted: bool) -> bool: use the processor's SHA instructions where it has them; whether it does."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, .m_name = "_speed", .m_doc = "What periplus.base.speed has in Python, in C.", .m_size = -1,
    .m_methods = METHODS,
};

PyMODINIT_FUNC
PyInit__speed(void)
{
    blocks = has_instructions() ? blocks_instructions : blocks_plain;
    return PyModule_Create(&MODULE);
}
