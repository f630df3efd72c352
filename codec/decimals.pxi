# Decimals of up to 38 digits, by way of their text: no interface of C gives a Decimal's digits.


cdef extern from "digits.h":
    ctypedef long long whole
    ctypedef unsigned long long magnitude
    enum: MOST_DIGITS
    enum: MOST_TEXT
    magnitude power_of_ten(int exponent)
    bint whole_of_text(const char* text, size_t size, int precision, int scale, whole* number)
    const char* text_of_whole(whole number, int scale, char* text, size_t* size)
    bint whole_of_bytes(
        const unsigned char* data, size_t size, magnitude limit, whole* number
    )
    bint has_digits(whole number, magnitude limit)
    size_t bytes_of_whole(whole number)
    void put_whole(whole number, unsigned char* data, size_t size)


cdef inline int read_whole(
    Source* source, Py_ssize_t size, magnitude limit, whole* number
) except -1:
    """A number in ``size`` bytes, or behind a length where that is below zero."""
    if size > 0:
        require(source, size)
    else:
        read_size(source, &size)
        if size == 0:
            refuse()
    source.at += size
    if not whole_of_bytes(source.at - size, size, limit, number):
        refuse()
    return 0


cdef inline int write_whole(Sink* sink, Py_ssize_t size, whole number) except -1:
    """The other way round."""
    cdef size_t fewest = bytes_of_whole(number)
    if size < 0:
        put_number(sink, <int64_t>fewest)
        size = fewest
    elif fewest > <size_t>size:
        refuse()
    make_room(sink, size)
    put_whole(number, sink.data + sink.size, size)
    sink.size += size
    return 0


cdef class Decimals(Node):
    """Decimals in ``size`` bytes, or behind a length where that is below zero."""

    cdef int precision, scale
    cdef Py_ssize_t size
    cdef magnitude limit

    def __cinit__(self, int precision, int scale, Py_ssize_t size=-1):
        if not (0 < precision <= MOST_DIGITS and 0 <= scale <= precision) or size == 0:
            raise ValueError("a decimal of other digits or bytes than can be read")
        self.precision, self.scale, self.size = precision, scale, size
        self.limit = power_of_ten(precision)
        self.least = size if size > 0 else 1

    cdef object read(self, Source* source):
        cdef whole number = 0
        cdef char[MOST_TEXT] text
        cdef const char* first
        cdef size_t length = 0
        read_whole(source, self.size, self.limit, &number)
        first = text_of_whole(number, self.scale, text, &length)
        return DECIMAL_OF(PyUnicode_DecodeUTF8(<char*>first, <Py_ssize_t>length, NULL))

    cdef int write(self, object value, Sink* sink) except -1:
        cdef whole number = 0
        cdef Py_ssize_t length = 0
        cdef const char* first
        if type(value) is not DECIMAL:
            refuse()
        text = str(value)
        first = PyUnicode_AsUTF8AndSize(text, &length)
        if not whole_of_text(first, length, self.precision, self.scale, &number):
            refuse()
        return write_whole(sink, self.size, number)
