/* Loops over the bytes of trails (docs/formats/trail.md); part of _speed.c. The bytes are unchecked: no byte at or after the
 * given end is read, and for any irregularity the result is None, so that the loop in Python finds and names the error. */

enum { TEXT, TEXT_OBJECT, DIGEST, WITHHELD };
#define TEXT_BYTES_MAX 4096
#define LENGTH_MAX ((uint64_t)1 << 53)

static int
read_long_number(const uint8_t *data, size_t end, size_t *at, uint64_t *value)
{
    uint64_t number = 0;
    for (int shift = 0; shift < 70 && *at < end; shift += 7) {
        uint8_t byte = data[(*at)++];
        if (shift == 63 && byte > 1) {
            return 0;
        }
        number |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *value = number;
            return byte || !shift;
        }
    }
    return 0;
}

/* Read the number at *at and move *at behind it; 0 where it is cut off, over 64 bits or not in its shortest form. */
static inline int
read_number(const uint8_t *data, size_t end, size_t *at, uint64_t *value)
{
    if (*at < end && data[*at] < 128) { /* most have one byte */
        *value = data[(*at)++];
        return 1;
    }
    return read_long_number(data, end, at, value);
}

static int
is_utf8(const uint8_t *data, size_t size)
{
    size_t at = 0;
    while (at < size) {
        uint64_t word;
        if (size - at >= 8 && (memcpy(&word, data + at, 8), !(word & 0x8080808080808080u))) {
            at += 8;
            continue;
        }
        uint8_t first = data[at++];
        if (first < 0x80) {
            continue;
        }
        int more = first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
        if (first < 0xC2 || first > 0xF4 || size - at < (size_t)more) {
            return 0;
        }
        uint8_t least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
        uint8_t most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
        if (data[at] < least || data[at] > most) {
            return 0;
        }
        for (int i = 1; i < more; i++) {
            if ((data[at + (size_t)i] & 0xC0) != 0x80) {
                return 0;
            }
        }
        at += (size_t)more;
    }
    return 1;
}

typedef struct {
    uint8_t form;
    size_t content, text, end; /* text: start of a text, after its length */
    uint64_t length;           /* of a text object */
} Entry;

/* Read the entry at ``at``; 0 where there is none, or an irregular one. */
static int
read_entry(const uint8_t *data, size_t end, size_t at, int is_redacted, Entry *entry)
{
    if (at >= end) {
        return 0;
    }
    entry->form = data[at++];
    if (is_redacted && entry->form != WITHHELD) {
        if (end - at < 32) {
            return 0;
        }
        at += 32;
    }
    entry->content = at;
    uint64_t size = 32;
    switch (entry->form) {
    case TEXT:
        if (!read_number(data, end, &at, &size) || size > TEXT_BYTES_MAX) {
            return 0;
        }
        entry->text = at;
        break;
    case TEXT_OBJECT:
        if (end - at < 32) {
            return 0;
        }
        at += 32, size = 0;
        if (!read_number(data, end, &at, &entry->length) || entry->length <= TEXT_BYTES_MAX
            || entry->length >= LENGTH_MAX) {
            return 0;
        }
        break;
    case DIGEST:
        if (at >= end || data[at] < 1 || data[at] > 3) {
            return 0;
        }
        size = data[at++] == 2 ? 20 : 32;
        break;
    case WITHHELD:
        if (!is_redacted) {
            return 0;
        }
        break;
    default:
        return 0;
    }
    if (end - at < size) {
        return 0;
    }
    entry->end = at + (size_t)size;
    return 1;
}

#if PY_VERSION_HEX >= 0x030E0000
#define hash_of Py_HashBuffer
#else
#define hash_of _Py_HashBytes
#endif

typedef struct {
    uint32_t hash, number; /* number: of an entry, from 1; 0 where there is none */
} Place;

typedef struct {
    uint8_t *forms;
    uint64_t *contents, *ends;
    Place *places;
    size_t room, mask; /* capacity in entries; number of places (a power of two) less 1 */
} Table;

/* Double the capacity, from 64 on: memory follows the data read, not the announced size. */
static int
grow(Table *table)
{
    size_t room = table->room ? 2 * table->room : 64, mask = 2 * room - 1;
    uint8_t *forms = PyMem_Realloc(table->forms, room);
    table->forms = forms ? forms : table->forms;
    uint64_t *contents = PyMem_Realloc(table->contents, room * sizeof *contents);
    table->contents = contents ? contents : table->contents;
    uint64_t *ends = PyMem_Realloc(table->ends, room * sizeof *ends);
    table->ends = ends ? ends : table->ends;
    Place *places = PyMem_Calloc(mask + 1, sizeof *places);
    if (!forms || !contents || !ends || !places) {
        PyMem_Free(places);
        PyErr_NoMemory();
        return 0;
    }
    for (size_t old = 0; table->places && old <= table->mask; old++) {
        if (table->places[old].number) {
            size_t at = table->places[old].hash & mask;
            while (places[at].number) {
                at = (at + 1) & mask;
            }
            places[at] = table->places[old];
        }
    }
    PyMem_Free(table->places);
    table->places = places, table->room = room, table->mask = mask;
    return 1;
}

/* Add the entry to the table as its last; 0 where an equal one exists. */
static int
put(Table *table, const uint8_t *data, const Entry *entry, size_t number)
{
    size_t size = entry->end - entry->content;
    uint32_t hash = (uint32_t)hash_of(data + entry->content, (Py_ssize_t)size);
    size_t at = hash & table->mask;
    for (; table->places[at].number; at = (at + 1) & table->mask) {
        size_t other = table->places[at].number - 1;
        if (table->places[at].hash == hash && table->forms[other] == entry->form
            && table->ends[other] - table->contents[other] == size
            && !memcmp(data + table->contents[other], data + entry->content, size)) {
            return 0;
        }
    }
    table->places[at] = (Place){hash, (uint32_t)number + 1};
    table->forms[number] = entry->form;
    table->contents[number] = entry->content;
    table->ends[number] = entry->end;
    return 1;
}

/* The first arguments of each of these functions: bytes, and the start and end of the part to read. */
static int
read_span(PyObject *const *arguments, size_t *start, size_t *end)
{
    if (!PyBytes_Check(arguments[0])) {
        PyErr_SetString(PyExc_TypeError, "bytes were expected");
        return 0;
    }
    *start = PyLong_AsSize_t(arguments[1]);
    *end = PyErr_Occurred() ? 0 : PyLong_AsSize_t(arguments[2]);
    if (PyErr_Occurred()) {
        return 0;
    }
    if (*start > *end || *end > (size_t)PyBytes_GET_SIZE(arguments[0])) {
        PyErr_SetString(PyExc_ValueError, "a span within the bytes was expected");
        return 0;
    }
    return 1;
}

static PyObject *
check_entries(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    size_t at, end;
    if (count != 5) {
        PyErr_SetString(PyExc_TypeError, "five arguments were expected");
        return NULL;
    }
    if (!read_span(arguments, &at, &end)) {
        return NULL;
    }
    size_t entries = PyLong_AsSize_t(arguments[3]);
    int is_redacted = PyErr_Occurred() ? -1 : PyObject_IsTrue(arguments[4]);
    if (is_redacted < 0) {
        return NULL;
    }
    const uint8_t *data = (const uint8_t *)PyBytes_AS_STRING(arguments[0]);
    Table table = {NULL, NULL, NULL, NULL, 0, 0};
    int is_sound = entries <= UINT32_MAX - 1;
    for (size_t number = 0; is_sound && number < entries; number++) {
        Entry entry;
        is_sound = read_entry(data, end, at, is_redacted, &entry)
                   && (entry.form != TEXT || is_utf8(data + entry.text, entry.end - entry.text))
                   && (number < table.room || grow(&table)) && put(&table, data, &entry, number);
        at = entry.end;
    }
    PyObject *found = NULL;
    if (is_sound) {
        found = Py_BuildValue("ny#y#", (Py_ssize_t)at, table.forms ? (const char *)table.forms : "", (Py_ssize_t)entries,
                              table.contents ? (const char *)table.contents : "",
                              (Py_ssize_t)(entries * sizeof *table.contents));
    } else if (!PyErr_Occurred()) {
        found = Py_NewRef(Py_None);
    }
    PyMem_Free(table.forms), PyMem_Free(table.contents), PyMem_Free(table.ends), PyMem_Free(table.places);
    return found;
}

/* sha256_salted over the entries of a whole trail. */
static PyObject *
commit_whole(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    size_t at, end;
    if (count != 6 || !PyBytes_Check(arguments[4]) || PyBytes_GET_SIZE(arguments[4]) != BLOCK
        || !PyBytes_Check(arguments[5]) || PyBytes_GET_SIZE(arguments[5]) != BLOCK) {
        PyErr_SetString(PyExc_TypeError, "bytes, three numbers and two blocks of 64 bytes were expected");
        return NULL;
    }
    if (!read_span(arguments, &at, &end)) {
        return NULL;
    }
    size_t entries = PyLong_AsSize_t(arguments[3]);
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (entries > (end - at) / 2) {
        Py_RETURN_NONE;
    }
    const uint8_t *data = (const uint8_t *)PyBytes_AS_STRING(arguments[0]);
    Hash inner, outer, hash;
    begin(&inner);
    feed(&inner, (const uint8_t *)PyBytes_AS_STRING(arguments[4]), BLOCK);
    begin(&outer);
    feed(&outer, (const uint8_t *)PyBytes_AS_STRING(arguments[5]), BLOCK);
    PyObject *joined = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(32 * entries));
    if (joined == NULL) {
        return NULL;
    }
    for (size_t number = 0; number < entries; number++) {
        Entry entry;
        if (!read_entry(data, end, at, 0, &entry)) {
            Py_DECREF(joined);
            Py_RETURN_NONE;
        }
        uint8_t message[8], salt[33];
        put_u64(message, number);
        hash = inner;
        feed(&hash, message, 8);
        finish(&hash, salt);
        hash = outer;
        feed(&hash, salt, 32);
        finish(&hash, salt);
        salt[32] = entry.form;
        begin(&hash);
        feed(&hash, salt, 33);
        if (entry.form == TEXT) {
            feed(&hash, data + entry.text, entry.end - entry.text);
        } else if (entry.form == TEXT_OBJECT) {
            feed(&hash, data + entry.content, 32);
            put_u64(message, entry.length);
            feed(&hash, message, 8);
        } else {
            feed(&hash, data + entry.content, entry.end - entry.content);
        }
        finish(&hash, (uint8_t *)PyBytes_AS_STRING(joined) + 32 * number);
        at = entry.end;
    }
    return joined;
}

/* The text whose length is at an offset. */
static PyObject *
text_at(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 2 || !PyBytes_Check(arguments[0])) {
        PyErr_SetString(PyExc_TypeError, "bytes and an offset were expected");
        return NULL;
    }
    size_t at = PyLong_AsSize_t(arguments[1]), end = (size_t)PyBytes_GET_SIZE(arguments[0]);
    uint64_t size;
    if (PyErr_Occurred()) {
        return NULL;
    }
    const uint8_t *data = (const uint8_t *)PyBytes_AS_STRING(arguments[0]);
    if (!read_number(data, end, &at, &size) || size > end - at) {
        PyErr_SetString(PyExc_ValueError, "no text there");
        return NULL;
    }
    return PyUnicode_DecodeUTF8((const char *)data + at, (Py_ssize_t)size, NULL);
}

typedef struct {
    const uint8_t *data, *commitments;
    size_t end, committed; /* committed: number of commitments */
} Body;

static int
feed_ref(Hash *hash, const Body *in, uint64_t number)
{
    if (number >= in->committed) {
        return 0;
    }
    feed(hash, in->commitments + 32 * number, 32);
    return 1;
}

/* Hash the committed body of the step with its body at ``at`` (docs/formats/trail.md, Identity). */
static int
feed_body(Hash *hash, const Body *in, size_t at)
{
    if (at > in->end || in->end - at < 2) {
        return 0;
    }
    uint8_t meta = in->data[at], operands = in->data[at + 1];
    feed(hash, in->data + at, 2);
    at += 2;
    uint64_t number;
    for (; operands; operands--) {
        if (!read_number(in->data, in->end, &at, &number)) {
            return 0;
        }
        uint8_t wire[11] = {(uint8_t)(number & 3)};
        size_t size = 1;
        number >>= 2;
        if (wire[0] > 1) {
            for (; number > 127; number >>= 7) {
                wire[size++] = (uint8_t)(number | 128);
            }
            wire[size++] = (uint8_t)number;
        }
        feed(hash, wire, size);
        if (wire[0] == 1 && !feed_ref(hash, in, number)) {
            return 0;
        }
    }
    for (int flag = 0x08; flag <= 0x40; flag <<= 1) {
        if (!(meta & flag)) {
            continue;
        }
        size_t begun = at;
        if (!read_number(in->data, in->end, &at, &number)) {
            return 0;
        }
        if (flag == 0x08) {
            feed(hash, in->data + begun, at - begun);
        } else if (!feed_ref(hash, in, number)) {
            return 0;
        }
        if (flag == 0x20) {
            begun = at;
            if (!read_number(in->data, in->end, &at, &number)) {
                return 0;
            }
            feed(hash, in->data + begun, at - begun);
        }
    }
    return 1;
}

/* Hash the steps from ``at`` on into ``leaves`` and ``receipt``; return their end, 0 for an irregular step. */
static size_t
hash_each(const Body *in, size_t at, size_t steps, uint8_t *leaves, uint8_t receipt[32])
{
    for (; steps; steps--, leaves += 32) {
        uint8_t head[6] = {0, 'P', 'P', 'L', 'T', 0};
        uint64_t length;
        Hash hash;
        if (at >= in->end) {
            return 0;
        }
        head[5] = in->data[at++];
        if (!read_number(in->data, in->end, &at, &length) || length < 2 || length > in->end - at) {
            return 0;
        }
        begin(&hash);
        feed(&hash, head, 6);
        if (!feed_body(&hash, in, at)) {
            return 0;
        }
        finish(&hash, leaves);
        uint8_t link[69] = {'P', 'P', 'L', 'R'};
        memcpy(link + 4, receipt, 32);
        memcpy(link + 36, leaves, 32);
        link[68] = in->data[at] & 7;
        begin(&hash);
        feed(&hash, link, 69);
        finish(&hash, receipt);
        at += (size_t)length;
    }
    return at;
}

/* Hash steps to the root over their leaves and to the last receipt; return both and the end of the steps. */
static PyObject *
hash_steps(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    size_t at, end;
    if (count != 6 || !PyBytes_Check(arguments[4]) || !PyBytes_Check(arguments[5])
        || PyBytes_GET_SIZE(arguments[5]) != 32) {
        PyErr_SetString(PyExc_TypeError, "bytes, three numbers, commitments and a receipt were expected");
        return NULL;
    }
    if (!read_span(arguments, &at, &end)) {
        return NULL;
    }
    size_t steps = PyLong_AsSize_t(arguments[3]);
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (!steps || steps > (end - at) / 4) {
        Py_RETURN_NONE;
    }
    uint8_t *nodes = PyMem_Malloc(32 * steps), receipt[32];
    if (nodes == NULL) {
        return PyErr_NoMemory();
    }
    memcpy(receipt, PyBytes_AS_STRING(arguments[5]), 32);
    Body in = {(const uint8_t *)PyBytes_AS_STRING(arguments[0]), (const uint8_t *)PyBytes_AS_STRING(arguments[4]), end,
               (size_t)PyBytes_GET_SIZE(arguments[4]) / 32};
    at = hash_each(&in, at, steps, nodes, receipt);
    for (; at && steps > 1; steps = (steps + 1) / 2) {
        for (size_t pair = 0; pair < steps / 2; pair++) {
            const uint8_t prefix = 1;
            Hash hash;
            begin(&hash);
            feed(&hash, &prefix, 1);
            feed(&hash, nodes + 64 * pair, 64);
            finish(&hash, nodes + 32 * pair);
        }
        if (steps % 2) { /* a last node without a neighbour goes up unchanged */
            memmove(nodes + 32 * (steps / 2), nodes + 32 * (steps - 1), 32);
        }
    }
    PyObject *found = at ? Py_BuildValue("ny#y#", (Py_ssize_t)at, nodes, (Py_ssize_t)32, receipt, (Py_ssize_t)32)
                         : Py_NewRef(Py_None);
    PyMem_Free(nodes);
    return found;
}
