/* Checks of a trail's steps, and their conversion to Python objects (docs/formats/trail.md, Steps); part of _speed.c. The
 * steps were checked before, but nothing here relies on that: each read is bounded, and an irregular or unknown step is left
 * to the loop in Python. */

#define FIELDS 11 /* of periplus.trail.model.Step, in their order */
enum { CODE, OPERANDS, OUTCOME, EXIT_CODE, ERROR_TEXT, RESULT, RESULT_SIZE, NOTE, DELTA, DURATION, SOURCE };
#define UNKNOWN_ROW 0xFF

typedef struct {
    const uint8_t *data, *forms, *most;
    const uint64_t *contents;
    uint64_t *keys; /* of the cached values: the number of the entry, and 1 */
    size_t end, entries, mask;
    PyTypeObject *kind;
    PyObject *outcomes, *values, *value_of;
    size_t at, clock, record;
    int has_sources;
    int64_t source;
} Reading;

static int64_t
unzigzag(uint64_t number)
{
    return (int64_t)(number >> 1) ^ -(int64_t)(number & 1);
}

/* The value of an entry as a new reference; NULL without an error where there is no such entry. */
static PyObject *
entry_value(Reading *in, uint64_t number)
{
    if (number >= in->entries) {
        return NULL;
    }
    size_t slot = (size_t)number & in->mask;
    if (in->keys[slot] == number + 1 && slot < (size_t)PyList_GET_SIZE(in->values)) {
        return Py_NewRef(PyList_GET_ITEM(in->values, slot));
    }
    PyObject *value;
    if (in->forms[number] == TEXT) {
        size_t at = (size_t)in->contents[number];
        uint64_t size;
        if (!read_number(in->data, in->end, &at, &size) || size > in->end - at) {
            return NULL;
        }
        value = PyUnicode_DecodeUTF8((const char *)in->data + at, (Py_ssize_t)size, NULL);
    } else {
        value = PyObject_CallFunction(in->value_of, "K", (unsigned long long)number);
    }
    if (value != NULL) {
        in->keys[slot] = 0;
        if (PyList_SetItem(in->values, (Py_ssize_t)slot, Py_NewRef(value)) < 0) {
            Py_DECREF(value);
            return NULL;
        }
        in->keys[slot] = number + 1;
    }
    return value;
}

/* One operand as a new reference; NULL without an error where it is cut off. */
static PyObject *
operand(Reading *in, size_t stop, size_t *at)
{
    uint64_t number;
    if (!read_number(in->data, stop, at, &number)) {
        return NULL;
    }
    switch (number & 3) {
    case 0:
        return Py_NewRef(Py_None);
    case 1:
        return entry_value(in, number >> 2);
    case 2:
        return PyLong_FromUnsignedLongLong(number >> 2);
    default:
        return PyLong_FromLongLong(unzigzag(number >> 2));
    }
}

/* Read the part after the operands; 0 for irregular data, or with an error. */
static int
read_tail(Reading *in, size_t stop, size_t *at, uint8_t meta, PyObject **fields)
{
    uint64_t number;
    if (meta & 0x08) {
        if (!read_number(in->data, stop, at, &number)
            || !(fields[EXIT_CODE] = PyLong_FromLongLong(unzigzag(number)))) {
            return 0;
        }
    }
    static const int PLACES[] = {ERROR_TEXT, RESULT, NOTE};
    for (int kind = 0; kind < 3; kind++) {
        if (!(meta & 0x10 << kind)) {
            continue;
        }
        if (!read_number(in->data, stop, at, &number) || !(fields[PLACES[kind]] = entry_value(in, number))) {
            return 0;
        }
        if (PLACES[kind] == RESULT
            && (!read_number(in->data, stop, at, &number)
                || !(fields[RESULT_SIZE] = PyLong_FromUnsignedLongLong(number)))) {
            return 0;
        }
    }
    return 1;
}

/* Read start time, duration and source record of the step; 0 for irregular data, or with an error. */
static int
read_beside(Reading *in, size_t *clock, size_t *record, int64_t *source, PyObject **fields)
{
    uint64_t number;
    if (!read_number(in->data, in->end, clock, &number) || !(fields[DELTA] = PyLong_FromLongLong(unzigzag(number)))
        || !read_number(in->data, in->end, clock, &number)
        || (number && !(fields[DURATION] = PyLong_FromUnsignedLongLong(number - 1)))) {
        return 0;
    }
    if (in->has_sources) {
        if (!read_number(in->data, in->end, record, &number)) {
            return 0;
        }
        if (number) {
            *source = (int64_t)((uint64_t)*source + (uint64_t)unzigzag(number));
        }
        if (*source && !(fields[SOURCE] = PyLong_FromLongLong(*source))) {
            return 0;
        }
    }
    return 1;
}

static PyObject *
read_operands(Reading *in, size_t stop, size_t *at, uint8_t count, uint8_t most)
{
    PyObject *operands = PyTuple_New(most);
    for (uint8_t place = 0; operands != NULL && place < most; place++) {
        PyObject *value = place < count ? operand(in, stop, at) : Py_NewRef(Py_None);
        if (value == NULL) {
            Py_CLEAR(operands);
            break;
        }
        PyTuple_SET_ITEM(operands, place, value);
    }
    return operands;
}

/* Make a step of the fields. As with tuples in CPython, the garbage collector does not track a step whose values cannot be
 * part of a cycle. It is made untracked, which costs less than tracking and untracking. */
static PyObject *
made_of(Reading *in, PyObject **fields)
{
    PyTupleObject *made = PyObject_GC_NewVar(PyTupleObject, in->kind, FIELDS);
    if (made == NULL) {
        return NULL;
    }
    int all_plain = 1;
    for (int field = 0; field < FIELDS; field++) {
        PyObject *value = fields[field];
        if (value == NULL) {
            value = field == RESULT_SIZE ? PyLong_FromLong(0) : Py_NewRef(Py_None);
        } else if (!PyUnicode_CheckExact(value) && !PyLong_CheckExact(value)) {
            all_plain = is_plain(value) && all_plain;
        }
        made->ob_item[field] = value;
        fields[field] = NULL;
    }
    if (!all_plain) {
        PyObject_GC_Track((PyObject *)made);
    }
    return (PyObject *)made;
}

/* The next step as a new reference; the position is moved behind it. NULL without an error for a step that the loop in
 * Python must read. */
static PyObject *
next_step(Reading *in)
{
    size_t at = in->at, clock = in->clock, record = in->record;
    int64_t source = in->source;
    uint64_t length;
    if (at >= in->end) {
        return NULL;
    }
    uint8_t code = in->data[at++];
    if (!read_number(in->data, in->end, &at, &length) || length < 2 || length > in->end - at) {
        return NULL;
    }
    size_t stop = at + (size_t)length;
    uint8_t meta = in->data[at++], count = in->data[at++], most = in->most[code];
    if (most == UNKNOWN_ROW || count > most || meta & 0x80 || (meta & 7) >= PyTuple_GET_SIZE(in->outcomes)) {
        return NULL;
    }
    PyObject *fields[FIELDS] = {NULL}, *made = NULL;
    fields[OPERANDS] = read_operands(in, stop, &at, count, most);
    if (fields[OPERANDS] != NULL && read_tail(in, stop, &at, meta, fields) && at == stop
        && read_beside(in, &clock, &record, &source, fields) && (fields[CODE] = PyLong_FromLong(code))) {
        fields[OUTCOME] = Py_NewRef(PyTuple_GET_ITEM(in->outcomes, meta & 7));
        made = made_of(in, fields);
    }
    if (made == NULL) {
        for (int field = 0; field < FIELDS; field++) {
            Py_XDECREF(fields[field]);
        }
        return NULL;
    }
    in->at = stop, in->clock = clock, in->record = record, in->source = source;
    return made;
}

/* Up to ``steps`` steps in a list, fewer where the loop in Python must read the next one. */
static PyObject *
steps_of(Reading *in, size_t steps)
{
    PyObject *list = PyList_New(0);
    for (; list != NULL && steps; steps--) {
        PyObject *made = next_step(in);
        if (made == NULL) {
            if (PyErr_Occurred()) {
                Py_CLEAR(list);
            }
            break;
        }
        if (PyList_Append(list, made) < 0) {
            Py_CLEAR(list);
        }
        Py_DECREF(made);
    }
    return list;
}

static int
is_reading(PyObject *const *arguments, Py_ssize_t count)
{
    return count == 14 && PyBytes_Check(arguments[0]) && PyType_Check(arguments[1])
           && PyType_IsSubtype((PyTypeObject *)arguments[1], &PyTuple_Type)
           && ((PyTypeObject *)arguments[1])->tp_basicsize == PyTuple_Type.tp_basicsize && PyBytes_Check(arguments[2])
           && PyTuple_CheckExact(arguments[4]) && PyBytes_Check(arguments[5]) && PyBytes_GET_SIZE(arguments[5]) == 256
           && PyList_CheckExact(arguments[7]);
}

/* take_steps(data, kind, forms, contents, outcomes, most, keys, values, value_of, at, clock, record, source, count) */
static PyObject *
take_steps(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    if (!is_reading(arguments, count)) {
        PyErr_SetString(PyExc_TypeError, "what the decoder of steps has was expected");
        return NULL;
    }
    size_t at = PyLong_AsSize_t(arguments[9]);
    size_t clock = PyErr_Occurred() ? 0 : PyLong_AsSize_t(arguments[10]);
    Py_ssize_t record = PyErr_Occurred() ? 0 : PyLong_AsSsize_t(arguments[11]);
    int64_t source = PyErr_Occurred() ? 0 : PyLong_AsLongLong(arguments[12]);
    size_t steps = PyErr_Occurred() ? 0 : PyLong_AsSize_t(arguments[13]);
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_buffer contents, keys;
    if (PyObject_GetBuffer(arguments[3], &contents, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    if (PyObject_GetBuffer(arguments[6], &keys, PyBUF_WRITABLE) < 0) {
        PyBuffer_Release(&contents);
        return NULL;
    }
    size_t entries = (size_t)PyBytes_GET_SIZE(arguments[2]), slots = (size_t)keys.len / 8;
    PyObject *found = NULL;
    if ((size_t)contents.len / 8 < entries || !slots || slots & (slots - 1)
        || (size_t)PyList_GET_SIZE(arguments[7]) != slots || (uintptr_t)contents.buf % 8 || (uintptr_t)keys.buf % 8) {
        PyErr_SetString(PyExc_ValueError, "a place for each entry, and as many keys as values, a power of two, were expected");
    } else {
        Reading in = {
            .data = (const uint8_t *)PyBytes_AS_STRING(arguments[0]), .end = (size_t)PyBytes_GET_SIZE(arguments[0]),
            .kind = (PyTypeObject *)arguments[1], .forms = (const uint8_t *)PyBytes_AS_STRING(arguments[2]),
            .entries = entries, .contents = contents.buf, .outcomes = arguments[4],
            .most = (const uint8_t *)PyBytes_AS_STRING(arguments[5]), .keys = keys.buf, .mask = slots - 1,
            .values = arguments[7], .value_of = arguments[8], .at = at, .clock = clock,
            .record = record < 0 ? 0 : (size_t)record, .has_sources = record >= 0, .source = source,
        };
        PyObject *list = steps_of(&in, steps);
        if (list != NULL) {
            found = Py_BuildValue("NnnnL", list, (Py_ssize_t)in.at, (Py_ssize_t)in.clock,
                                  in.has_sources ? (Py_ssize_t)in.record : -1, (long long)in.source);
        }
    }
    PyBuffer_Release(&keys);
    PyBuffer_Release(&contents);
    return found;
}

/* The table of opcodes, and the entries. */
typedef struct {
    const uint8_t *data, *forms, *masks, *least, *most;
    size_t entries, used;
} Judging;
enum { ABSENT_BIT = 1, UNSIGNED_BIT = 32, SIGNED_BIT = 64, TEXT_BITS = 2 << TEXT | 2 << TEXT_OBJECT | 2 << WITHHELD,
       DIGEST_BITS = 2 << DIGEST | 2 << WITHHELD, OPERANDS_MAX = 32, STEP_BYTES_MAX = 512 };

/* The bit of an entry that is the next new one or was used before; 0 for any other. */
static int
bit_of_entry(Judging *in, uint64_t number)
{
    if (number > in->used || number >= in->entries || in->forms[number] > WITHHELD) {
        return 0;
    }
    in->used += number == in->used;
    return 2 << in->forms[number];
}

static int
is_sound_tail(Judging *in, size_t stop, size_t *at, uint8_t meta)
{
    static const int BITS[] = {TEXT_BITS, DIGEST_BITS, TEXT_BITS};
    uint64_t number;
    if (meta & 0x08 && (!read_number(in->data, stop, at, &number) || number > 2 * (LENGTH_MAX - 1))) {
        return 0;
    }
    for (int kind = 0; kind < 3; kind++) {
        if (meta & 0x10 << kind
            && (!read_number(in->data, stop, at, &number) || !(bit_of_entry(in, number) & BITS[kind])
                || (kind == 1 && (!read_number(in->data, stop, at, &number) || number >= LENGTH_MAX)))) {
            return 0;
        }
    }
    return 1;
}

/* The end of the step at ``at``; 0 for an irregular step. */
static size_t
end_of_sound_step(Judging *in, size_t end, size_t at)
{
    uint64_t length, number;
    if (at >= end) {
        return 0;
    }
    uint8_t code = in->data[at++];
    if (!read_number(in->data, end, &at, &length) || length < 2 || length > STEP_BYTES_MAX || length > end - at) {
        return 0;
    }
    size_t stop = at + (size_t)length;
    uint8_t meta = in->data[at++], count = in->data[at++];
    if (in->most[code] == UNKNOWN_ROW || count > in->most[code] || count < in->least[code] || meta & 0x80
        || (meta & 7) > 4) {
        return 0;
    }
    int bit = UNSIGNED_BIT;
    for (uint8_t place = 0; place < count; place++) {
        if (!read_number(in->data, stop, &at, &number)) {
            return 0;
        }
        switch (number & 3) {
        case 0:
            bit = number ? 0 : ABSENT_BIT;
            break;
        case 1:
            bit = bit_of_entry(in, number >> 2);
            break;
        case 2:
            bit = UNSIGNED_BIT;
            break;
        default:
            bit = SIGNED_BIT;
        }
        if (!(bit & in->masks[code * OPERANDS_MAX + place])) {
            return 0;
        }
    }
    return bit != ABSENT_BIT && is_sound_tail(in, stop, &at, meta) && at == stop ? stop : 0;
}

/* The number of entries that the steps use, if all steps are valid and of known opcodes; else None. */
static PyObject *
sound_steps(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    size_t at, end;
    if (count != 8 || !PyBytes_Check(arguments[4]) || !PyBytes_Check(arguments[5])
        || PyBytes_GET_SIZE(arguments[5]) != 256 * OPERANDS_MAX || !PyBytes_Check(arguments[6])
        || PyBytes_GET_SIZE(arguments[6]) != 256 || !PyBytes_Check(arguments[7])
        || PyBytes_GET_SIZE(arguments[7]) != 256) {
        PyErr_SetString(PyExc_TypeError, "bytes, three numbers, forms and the table of opcodes were expected");
        return NULL;
    }
    if (!read_span(arguments, &at, &end)) {
        return NULL;
    }
    size_t steps = PyLong_AsSize_t(arguments[3]);
    if (PyErr_Occurred()) {
        return NULL;
    }
    Judging in = {(const uint8_t *)PyBytes_AS_STRING(arguments[0]), (const uint8_t *)PyBytes_AS_STRING(arguments[4]),
                  (const uint8_t *)PyBytes_AS_STRING(arguments[5]), (const uint8_t *)PyBytes_AS_STRING(arguments[6]),
                  (const uint8_t *)PyBytes_AS_STRING(arguments[7]), (size_t)PyBytes_GET_SIZE(arguments[4]), 0};
    for (; steps; steps--) {
        at = end_of_sound_step(&in, end, at);
        if (!at) {
            Py_RETURN_NONE;
        }
    }
    if (at != end) {
        Py_RETURN_NONE;
    }
    return PyLong_FromSize_t(in.used);
}
