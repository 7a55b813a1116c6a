/* What periplus.base.speed has in Python, in C for the native build: the same functions, the same results.
 *
 * SHA-256 (FIPS 180-4) is that of short byte strings, without the cost of making a hash object for each. On x86
 * processors that have them the SHA instructions are used, elsewhere plain C; tests compare both with hashlib.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define BLOCK 64

static const uint32_t K[64] __attribute__((aligned(16))) = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};
static const uint32_t INITIAL[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

typedef void (*blocks_function)(uint32_t state[8], const uint8_t *data, size_t count);

static inline uint32_t
turned(uint32_t word, int by)
{
    return word >> by | word << (32 - by);
}

static void
blocks_plain(uint32_t state[8], const uint8_t *data, size_t count)
{
    uint32_t w[64];
    for (; count; count--, data += BLOCK) {
        for (int i = 0; i < 16; i++) {
            w[i] = (uint32_t)data[4 * i] << 24 | (uint32_t)data[4 * i + 1] << 16 | (uint32_t)data[4 * i + 2] << 8
                   | data[4 * i + 3];
        }
        for (int i = 16; i < 64; i++) {
            uint32_t s0 = turned(w[i - 15], 7) ^ turned(w[i - 15], 18) ^ w[i - 15] >> 3;
            uint32_t s1 = turned(w[i - 2], 17) ^ turned(w[i - 2], 19) ^ w[i - 2] >> 10;
            w[i] = w[i - 16] + s0 + w[i - 7] + s1;
        }
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
        uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
        for (int i = 0; i < 64; i++) {
            uint32_t t1 = h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + K[i] + w[i];
            uint32_t t2 = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
            h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
        }
        state[0] += a, state[1] += b, state[2] += c, state[3] += d;
        state[4] += e, state[5] += f, state[6] += g, state[7] += h;
    }
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>

/* The instructions keep the state as ABEF and CDGH and do two rounds each; the message words go round in four registers. */
__attribute__((target("sha,sse4.1,ssse3"))) static void
blocks_instructions(uint32_t state[8], const uint8_t *data, size_t count)
{
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
    __m128i badc = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xB1);
    __m128i hgfe = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1B);
    __m128i abef = _mm_alignr_epi8(badc, hgfe, 8);
    __m128i cdgh = _mm_blend_epi16(hgfe, badc, 0xF0);
    for (; count; count--, data += BLOCK) {
        __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i m[4];
        for (int i = 0; i < 4; i++) {
            m[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(data + 16 * i)), big_endian);
        }
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            __m128i words = _mm_add_epi32(m[i & 3], _mm_load_si128((const __m128i *)(K + 4 * i)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, words);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(words, 0x0E));
            if (i < 12) {
                __m128i seventh = _mm_alignr_epi8(m[(i + 3) & 3], m[(i + 2) & 3], 4);
                __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(m[i & 3], m[(i + 1) & 3]), seventh);
                m[i & 3] = _mm_sha256msg2_epu32(sum, m[(i + 3) & 3]);
            }
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    __m128i feba = _mm_shuffle_epi32(abef, 0x1B);
    __m128i dchg = _mm_shuffle_epi32(cdgh, 0xB1);
    _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(feba, dchg, 0xF0));
    _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

static int
has_instructions(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSE4_1) || !(c & bit_SSSE3)) {
        return 0;
    }
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA);
}
#else
#define blocks_instructions blocks_plain
static int
has_instructions(void)
{
    return 0;
}
#endif

static blocks_function blocks = blocks_plain;

typedef struct {
    uint32_t state[8];
    uint64_t length;
    uint8_t rest[BLOCK];
} Hash;

static void
begin(Hash *hash)
{
    memcpy(hash->state, INITIAL, sizeof INITIAL);
    hash->length = 0;
}

static void
feed(Hash *hash, const uint8_t *data, size_t size)
{
    size_t held = hash->length % BLOCK;
    hash->length += size;
    if (held) {
        size_t more = BLOCK - held < size ? BLOCK - held : size;
        memcpy(hash->rest + held, data, more);
        data += more, size -= more;
        if (held + more < BLOCK) {
            return;
        }
        blocks(hash->state, hash->rest, 1);
    }
    blocks(hash->state, data, size / BLOCK);
    memcpy(hash->rest, data + size / BLOCK * BLOCK, size % BLOCK);
}

static void
finish(Hash *hash, uint8_t out[32])
{
    size_t held = hash->length % BLOCK;
    size_t size = held < BLOCK - 8 ? BLOCK : 2 * BLOCK;
    uint8_t tail[2 * BLOCK];
    memcpy(tail, hash->rest, held);
    memset(tail + held, 0, size - held);
    tail[held] = 0x80;
    for (int i = 0; i < 8; i++) {
        tail[size - 1 - i] = (uint8_t)(hash->length * 8 >> 8 * i);
    }
    blocks(hash->state, tail, size / BLOCK);
    for (int i = 0; i < 32; i++) {
        out[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
    }
}

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

/* As sha256_joined of first, then each of the items after the hash before it. */
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

/* The hash of each of the contents behind its salt, HMAC(key, its number); of the key, the two blocks of RFC 2104. */
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
        for (int i = 0; i < 8; i++) {
            message[i] = (uint8_t)(number >> (56 - 8 * i));
        }
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

/* Whether the value can be left out of what the collector looks at: CPython's own rule for tuples. */
static int
is_plain(PyObject *value)
{
    if (PyTuple_CheckExact(value)) {
        for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(value); at++) {
            PyObject *item = PyTuple_GET_ITEM(value, at);
            if (PyObject_IS_GC(item) && PyObject_GC_IsTracked(item)) {
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

/* An instance of a subclass of tuple that adds no fields of its own, which is what a NamedTuple is. One whose values
 * cannot be part of a cycle is no more work for the collector: a decoded trail has millions of them. */
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

/* Which of up to 64 needles stand in a text, in one pass over it: the first three characters of each are in three tables
 * of bits, a bit a needle, and only where all three agree the rest is compared. The plan of a search is the struct. */
#define NEEDLES_MAX 64
#define NEEDLE_CHARS_MAX 16

typedef struct {
    uint64_t starts[3][256];
    uint64_t folded; /* needles that stand in any case; only ASCII letters have one */
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
#define NARROW_AT(at) (text[at] < 256 ? (uint8_t)text[at] : 0xFF) /* which is in no needle */
LOOK(Py_UCS1, BYTE_AT)
LOOK(Py_UCS2, NARROW_AT)
LOOK(Py_UCS4, NARROW_AT)

/* A bit for each needle of the plan that stands in the text. */
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

static PyMethodDef METHODS[] = {
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
