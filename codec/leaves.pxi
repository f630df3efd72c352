# Single values: each has the exact type, and no other value of Python is taken for it.


cdef class Node:
    """Reads and writes the values of one type."""

    cdef Py_ssize_t least
    """The fewest bytes that a value takes."""

    cdef object read(self, Source* source):
        refuse()

    cdef int write(self, object value, Sink* sink) except -1:
        return refuse()


cdef class Null(Node):
    cdef object read(self, Source* source):
        return None

    cdef int write(self, object value, Sink* sink) except -1:
        if value is not None:
            refuse()
        return 0


cdef class Boolean(Node):
    def __cinit__(self):
        self.least = 1

    cdef object read(self, Source* source):
        cdef int byte = read_byte(source)
        if byte > 1:
            refuse()
        return byte == 1

    cdef int write(self, object value, Sink* sink) except -1:
        if value is True:
            return put_byte(sink, 1)
        if value is False:
            return put_byte(sink, 0)
        return refuse()


cdef class Integer(Node):
    """Numbers within a range are written; any number of 64 bits is read."""

    cdef int64_t low, high

    def __cinit__(self, low, high):
        self.low, self.high, self.least = low, high, 1

    cdef object read(self, Source* source):
        cdef int64_t number = 0
        read_number(source, &number)
        return PyLong_FromLongLong(number)

    cdef int write(self, object value, Sink* sink) except -1:
        cdef int overflow = 0
        cdef int64_t number
        if not PyLong_CheckExact(value):
            refuse()
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow or number < self.low or number > self.high:
            refuse()
        return put_number(sink, number)


cdef class Float(Node):
    """A float of 32 bits."""

    def __cinit__(self):
        self.least = 4

    cdef object read(self, Source* source):
        require(source, 4)
        source.at += 4
        return PyFloat_Unpack4(<const char*>source.at - 4, 1)

    cdef int write(self, object value, Sink* sink) except -1:
        cdef double number
        if not PyFloat_CheckExact(value):
            refuse()
        number = PyFloat_AS_DOUBLE(value)
        # A number that is none differs from itself; infinities less themselves are none.
        if not -FLT_MAX <= number <= FLT_MAX and number - number == 0:
            refuse()
        make_room(sink, 4)
        PyFloat_Pack4(number, <char*>sink.data + sink.size, 1)
        sink.size += 4
        return 0


cdef class Double(Node):
    def __cinit__(self):
        self.least = 8

    cdef object read(self, Source* source):
        require(source, 8)
        source.at += 8
        return PyFloat_Unpack8(<const char*>source.at - 8, 1)

    cdef int write(self, object value, Sink* sink) except -1:
        if not PyFloat_CheckExact(value):
            refuse()
        make_room(sink, 8)
        PyFloat_Pack8(PyFloat_AS_DOUBLE(value), <char*>sink.data + sink.size, 1)
        sink.size += 8
        return 0


cdef class Text(Node):
    """A string of at most ``longest`` characters where it is written; of any number if below 0."""

    cdef Py_ssize_t longest

    def __cinit__(self, Py_ssize_t longest=-1):
        self.longest, self.least = longest, 1

    cdef object read(self, Source* source):
        cdef Py_ssize_t size = 0
        read_size(source, &size)
        source.at += size
        return PyUnicode_DecodeUTF8(<char*>source.at - size, size, NULL)

    cdef int write(self, object value, Sink* sink) except -1:
        cdef Py_ssize_t size = 0
        cdef const char* data
        if not PyUnicode_CheckExact(value):
            refuse()
        if 0 <= self.longest < PyUnicode_GET_LENGTH(value):
            refuse()
        if PyUnicode_IS_ASCII(value):
            data = PyUnicode_AsUTF8AndSize(value, &size)
            put_number(sink, size)
            return put_bytes(sink, data, size)
        # Not by the function above: the string would keep these bytes as long as it lives.
        encoded = PyUnicode_AsUTF8String(value)
        size = PyBytes_GET_SIZE(encoded)
        put_number(sink, size)
        return put_bytes(sink, PyBytes_AS_STRING(encoded), size)


cdef class Bytes(Node):
    def __cinit__(self):
        self.least = 1

    cdef object read(self, Source* source):
        cdef Py_ssize_t size = 0
        read_size(source, &size)
        source.at += size
        return PyBytes_FromStringAndSize(<char*>source.at - size, size)

    cdef int write(self, object value, Sink* sink) except -1:
        if not PyBytes_CheckExact(value):
            refuse()
        put_number(sink, PyBytes_GET_SIZE(value))
        return put_bytes(sink, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))


cdef class Fixed(Node):
    """Bytes of one size."""

    def __cinit__(self, Py_ssize_t size):
        if size < 0:
            raise ValueError("a size below zero")
        self.least = size

    cdef object read(self, Source* source):
        require(source, self.least)
        source.at += self.least
        return PyBytes_FromStringAndSize(<char*>source.at - self.least, self.least)

    cdef int write(self, object value, Sink* sink) except -1:
        if not PyBytes_CheckExact(value) or PyBytes_GET_SIZE(value) != self.least:
            refuse()
        return put_bytes(sink, PyBytes_AS_STRING(value), self.least)


cdef class Enum(Node):
    """One of some strings, by its index."""

    cdef tuple symbols
    cdef dict places

    def __cinit__(self, tuple symbols not None):
        self.symbols = symbols
        self.places = {symbol: place for place, symbol in enumerate(symbols)}
        self.least = 1

    cdef object read(self, Source* source):
        cdef uint64_t raw = 0
        read_raw(source, &raw)
        if raw & 1 or raw >> 1 >= <uint64_t>PyTuple_GET_SIZE(self.symbols):
            refuse()
        return self.symbols[<Py_ssize_t>(raw >> 1)]

    cdef int write(self, object value, Sink* sink) except -1:
        cdef PyObject* place
        if not PyUnicode_CheckExact(value):
            refuse()
        place = PyDict_GetItemWithError(self.places, value)
        if place == NULL:
            refuse()
        return put_number(sink, <object>place)


@no_gc_clear
cdef class Converted(Node):
    """What ``node`` reads, and ``convert`` makes a value of; ``written`` makes the bytes of one.

    Either function may be None: then the node does all of it.
    """

    cdef Node node
    cdef object convert, written

    def __cinit__(self, Node node not None, convert, written):
        self.node, self.convert, self.written = node, convert, written
        self.least = node.least

    cdef object read(self, Source* source):
        value = self.node.read(source)
        return value if self.convert is None else self.convert(value)

    cdef int write(self, object value, Sink* sink) except -1:
        if self.written is None:
            return self.node.write(value, sink)
        data = self.written(value)
        if not PyBytes_CheckExact(data):
            refuse()
        return put_bytes(sink, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
