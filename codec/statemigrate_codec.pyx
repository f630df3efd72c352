# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, binding=False, auto_pickle=False
"""Values of state read from Avro binary and written as it, by a tree of nodes for each format.

statemigrate makes the tree: each node reads and writes one type. `reader` and `writer` make a
function of it. The function raises, `Refused` or another exception, for whatever is not regular,
and the codec in Python decides then. What it takes, it reads and writes as that codec does.

The bytes come from anywhere. Each read asks first how many bytes are left. A length, or a number of
items, for which too few are left is refused before anything is made. Types within types end where
the tree does.
"""

from cython cimport no_gc_clear
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.datetime cimport (
    PyDate_CheckExact, PyDateTime_CheckExact, PyDelta_CheckExact, PyTime_CheckExact, date_new,
    datetime_day, datetime_hour, datetime_microsecond, datetime_minute, datetime_month,
    datetime_new, datetime_second, datetime_tzinfo, datetime_year, import_datetime, time_hour,
    time_fold, time_microsecond, time_minute, time_new, time_second, time_tzinfo, timedelta_days,
    timedelta_microseconds, timedelta_new, timedelta_seconds, date_day, date_month, date_year,
)
from cpython.dict cimport PyDict_CheckExact, PyDict_Copy, PyDict_Next, PyDict_SetItem, PyDict_Size
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.list cimport PyList_CheckExact, PyList_GET_SIZE
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact, PyLong_FromLongLong
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE, PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_AsUTF8String, PyUnicode_CheckExact, PyUnicode_DecodeUTF8, PyUnicode_GET_LENGTH
from libc.float cimport FLT_MAX
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

import datetime
from decimal import ROUND_HALF_EVEN, Context, Decimal


cdef extern from *:
    Py_ssize_t PY_SSIZE_T_MAX
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL
    bint PyUnicode_IS_ASCII(object text)
    PyObject* PyDict_GetItemWithError(object values, object key) except? NULL
    # As the module `struct` does it, in every release.
    double PyFloat_Unpack4(const char* data, int little) except? -1.0
    double PyFloat_Unpack8(const char* data, int little) except? -1.0
    int PyFloat_Pack4(double value, char* data, int little) except -1
    int PyFloat_Pack8(double value, char* data, int little) except -1
    int PyObject_GenericSetAttr(object target, object name, object value) except -1


INTERFACE = 2
"""The number of the interface that statemigrate makes its trees and columns by."""

import_datetime()
cdef object UTC = datetime.timezone.utc
cdef object DECIMAL = Decimal
# Room for all digits that are read, so that none is ever rounded. It takes less than `Decimal`.
cdef object DECIMAL_OF = Context(
    prec=50, rounding=ROUND_HALF_EVEN, Emin=-999999, Emax=999999, capitals=1, clamp=0, flags=[],
    traps=[],
).create_decimal


# What holds nodes is never cleared by the garbage collector, which would leave None in their place.

include "bytes.pxi"
include "leaves.pxi"
include "moments.pxi"
include "decimals.pxi"
include "containers.pxi"
include "tuples.pxi"
include "columns.pxi"


@no_gc_clear
cdef class _Codec:
    """The functions of a tree."""

    cdef Node node

    def __cinit__(self, Node node not None):
        self.node = node

    def read(self, data):
        cdef Source source
        open_source(&source, data)
        value = self.node.read(&source)
        if source.at != source.end:
            refuse()
        return value

    def write(self, value):
        cdef Sink sink
        open_sink(&sink)
        try:
            self.node.write(value, &sink)
            return bytes_in(&sink)
        finally:
            close_sink(&sink)


def reader(Node node not None):
    """What reads all of some bytes as one value of a node."""
    return _Codec(node).read


def writer(Node node not None):
    """What writes a value of a node as bytes."""
    return _Codec(node).write
