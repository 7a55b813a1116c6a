/* Checks of every written value, for periplus.base.encoding.canonical and periplus.base.ids. */
#include "_canonical.h"

#define PREFIX_MAX 32
#define TAIL 16

static PyObject *
canonical(PyObject *Py_UNUSED(module), PyObject *value)
{
    PyObject *text = canonical_of(value);
    return text != NULL ? text : Py_NewRef(Py_None);
}

static int
is_letter(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z');
}

static PyObject *
is_id(PyObject *Py_UNUSED(module), PyObject *text)
{
    if (!PyUnicode_Check(text)) {
        PyErr_Format(PyExc_TypeError, "a text was expected, not %.100s", Py_TYPE(text)->tp_name);
        return NULL;
    }
    Py_ssize_t size;
    const char *data = PyUnicode_AsUTF8AndSize(text, &size); /* an id has only ASCII bytes */
    if (data == NULL || size <= TAIL + 1 || size > PREFIX_MAX + 1 + TAIL || data[size - TAIL - 1] != '_') {
        PyErr_Clear();
        Py_RETURN_FALSE;
    }
    for (Py_ssize_t at = 0; at < size - TAIL - 1; at++) {
        if (!is_letter(data[at]) && data[at] != '_') {
            Py_RETURN_FALSE;
        }
    }
    for (Py_ssize_t at = size - TAIL; at < size; at++) {
        char c = data[at];
        if (!is_letter(c) || c == 'i' || c == 'l' || c == 'o' || c == 'u') {
            Py_RETURN_FALSE;
        }
    }
    Py_RETURN_TRUE;
}

static PyMethodDef METHODS[] = {
    {"canonical", canonical, METH_O, "canonical(value) -> bytes | None: of a plain container; None where it takes a closer look."},
    {"is_id", is_id, METH_O, "is_id(text: str) -> bool: whether text has the shape of an id."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, .m_name = "periplus.base._values", .m_size = -1, .m_methods = METHODS,
};

PyMODINIT_FUNC
PyInit__values(void)
{
    return PyModule_Create(&MODULE);
}
