# Columns: the values of one type at one place of many records, in the buffers that Arrow has.

cdef enum:
    MOST_IN_A_COLUMN = 0x7fffffff  # Arrow's offsets have 31 bits.


cdef inline bint bit_of(const unsigned char* bits, Py_ssize_t place) noexcept:
    return bits[place >> 3] >> (place & 7) & 1


cdef inline int put_bit(Sink* bits, Py_ssize_t place, bint bit) except -1:
    """Append the bit of a ``place`` behind all others."""
    if place & 7 == 0:
        put_byte(bits, 0)
    bits.data[place >> 3] |= bit << (place & 7)
    return 0


cdef class Column:
    """Values of one type at one place of records, and which of them are null.

    A column is used once. Either it gathers what is read, and then gives it as Arrow's buffers; or
    `fill` gives it such buffers, and their values are written. Each value takes ``bits`` in the
    second buffer, which has ``more`` values than there are.
    """

    cdef Py_ssize_t count, nulls, first, bits, more
    cdef Sink marks, values
    cdef Py_buffer[3] given
    cdef bint[3] is_given

    def __cinit__(self):
        open_sink(&self.marks)
        open_sink(&self.values)

    def __dealloc__(self):
        cdef int place
        close_sink(&self.marks)
        close_sink(&self.values)
        for place in range(3):
            if self.is_given[place]:
                PyBuffer_Release(&self.given[place])

    def fill(self, Py_ssize_t count, Py_ssize_t first, *buffers):
        """Take ``count`` values of Arrow's buffers from the place ``first`` on.

        The first of them has a bit for each value that is not null, or is None.
        """
        cdef Py_ssize_t place
        if self.count or self.is_given[0] or self.is_given[1] or self.is_given[2]:
            raise ValueError("a column is used once")
        if not (0 <= count <= MOST_IN_A_COLUMN and 0 <= first <= MOST_IN_A_COLUMN):
            refuse()
        if len(buffers) > 3:
            raise ValueError("more buffers than a column has")
        for place in range(len(buffers)):
            if buffers[place] is not None:
                PyObject_GetBuffer(buffers[place], &self.given[place], PyBUF_SIMPLE)
                self.is_given[place] = True
        if self.is_given[0] and self.given[0].len < (first + count + 7) // 8:
            refuse()
        if count and self.given[1].len < (self.bits * (first + count + self.more) + 7) // 8:
            refuse()
        self.count, self.first = count, first

    def buffers(self):
        """How many values were read, how many are null, and Arrow's buffers of them."""
        return self.count, self.nulls, self.all_marks(), bytes_in(&self.values)

    cdef object all_marks(self):
        return bytes_in(&self.marks) if self.nulls else None

    cdef int read(self, Source* source) except -1:
        """Read a value and append it."""
        return refuse()

    cdef int skip(self) except -1:
        """Append a null."""
        return refuse()

    cdef int write(self, Py_ssize_t row, Sink* sink) except -1:
        """Write the value of a row, which must not be null."""
        return refuse()

    cdef inline int mark(self) except -1:
        """Count a value."""
        if self.nulls:
            put_bit(&self.marks, self.count, True)
        self.count += 1
        return 0

    cdef int mark_null(self) except -1:
        """Count a null. Those before the first one were none."""
        cdef Py_ssize_t place
        if self.count >= MOST_IN_A_COLUMN:
            refuse()
        if not self.nulls:
            for place in range(self.count):
                put_bit(&self.marks, place, True)
        put_bit(&self.marks, self.count, False)
        self.nulls += 1
        self.count += 1
        return 0

    cdef inline bint has(self, Py_ssize_t row) noexcept:
        """Whether the value of a row is not null."""
        return not self.is_given[0] or bit_of(
            <const unsigned char*>self.given[0].buf, self.first + row
        )

    cdef inline int require_row(self, Py_ssize_t row) except -1:
        """Refuse a row that there is not, or one that is null."""
        if not 0 <= row < self.count or not self.has(row):
            refuse()
        return 0

    cdef inline const unsigned char* at(self, Py_ssize_t row) noexcept:
        """The value of a row, of whole bytes."""
        return <const unsigned char*>self.given[1].buf + (self.first + row) * (self.bits >> 3)


cdef class NumberColumn(Column):
    """Whole numbers of ``width`` bytes from ``low`` to ``high``, which are stored as zigzag.

    They are ``factor`` times what is stored, and ``unit`` divides those that are written.
    """

    cdef int64_t low, high, least, most, factor, unit

    def __cinit__(self, int width, low, high, int64_t factor=1, int64_t unit=1):
        if width not in (1, 2, 4, 8) or factor < 1 or unit < 1:
            raise ValueError("numbers of other bytes or units than there are")
        self.bits, self.low, self.high, self.factor, self.unit = 8 * width, low, high, factor, unit
        # What is stored has these limits, so that the product has room.
        self.least, self.most = -(-low // factor), high // factor

    cdef int read(self, Source* source) except -1:
        cdef int64_t number = 0
        read_number(source, &number)
        if not self.least <= number <= self.most:
            refuse()
        self.append(number * self.factor)
        return self.mark()

    cdef int skip(self) except -1:
        self.append(0)
        return self.mark_null()

    cdef inline int append(self, int64_t number) except -1:
        cdef int32_t four = <int32_t>number
        cdef int16_t two = <int16_t>number
        cdef int8_t one = <int8_t>number
        if self.bits == 64:
            return put_bytes(&self.values, &number, 8)
        if self.bits == 32:
            return put_bytes(&self.values, &four, 4)
        if self.bits == 16:
            return put_bytes(&self.values, &two, 2)
        return put_bytes(&self.values, &one, 1)

    cdef int write(self, Py_ssize_t row, Sink* sink) except -1:
        cdef int64_t number = 0
        cdef int32_t four = 0
        cdef int16_t two = 0
        self.require_row(row)
        if self.bits == 64:
            memcpy(&number, self.at(row), 8)
        elif self.bits == 32:
            memcpy(&four, self.at(row), 4)
            number = four
        elif self.bits == 16:
            memcpy(&two, self.at(row), 2)
            number = two
        else:
            number = (<const int8_t*>self.at(row))[0]
        if not self.low <= number <= self.high:
            refuse()
        if self.unit != 1 and number % self.unit:
            refuse()
        if self.factor != 1:
            if number % self.factor:
                refuse()
            number //= self.factor
        return put_number(sink, number)


cdef class BooleanColumn(Column):
    def __cinit__(self):
        self.bits = 1

    cdef int read(self, Source* source) except -1:
        cdef int byte = read_byte(source)
        if byte > 1:
            refuse()
        put_bit(&self.values, self.count, byte)
        return self.mark()

    cdef int skip(self) except -1:
        put_bit(&self.values, self.count, False)
        return self.mark_null()

    cdef int write(self, Py_ssize_t row, Sink* sink) except -1:
        self.require_row(row)
        return put_byte(sink, bit_of(<const unsigned char*>self.given[1].buf, self.first + row))


cdef class FloatColumn(Column):
    """Floats of four bytes or eight, as they are in memory."""

    def __cinit__(self, int width):
        if width not in (4, 8):
            raise ValueError("floats of four bytes or eight")
        self.bits = 8 * width

    cdef int read(self, Source* source) except -1:
        cdef uint32_t four = 0
        cdef size_t width = self.bits >> 3
        require(source, width)
        if width == 4:
            # Python makes a double of it and back, and a NaN need not stay the same one.
            memcpy(&four, source.at, 4)
            four &= 0x7fffffff
            if four > 0x7f800000 and four != 0x7fc00000:
                refuse()
        put_bytes(&self.values, source.at, width)
        source.at += width
        return self.mark()

    cdef int skip(self) except -1:
        cdef uint64_t nothing = 0
        put_bytes(&self.values, &nothing, self.bits >> 3)
        return self.mark_null()

    cdef int write(self, Py_ssize_t row, Sink* sink) except -1:
        self.require_row(row)
        return put_bytes(sink, self.at(row), self.bits >> 3)


cdef class TextColumn(Column):
    """Texts, or bytes, behind their length. Whether what is read is UTF-8 is not looked at.

    At most ``longest`` characters are written, any number if that is below 0. With a ``size`` each
    value is of so many bytes, without a length.
    """

    cdef Py_ssize_t longest, size
    cdef Sink content

    def __cinit__(self, Py_ssize_t longest=-1, Py_ssize_t size=-1):
        open_sink(&self.content)
        self.longest, self.size, self.bits, self.more = longest, size, 32, 1
        self.end()

    def __dealloc__(self):
        close_sink(&self.content)

    def buffers(self):
        return (*Column.buffers(self), bytes_in(&self.content))

    cdef int end(self) except -1:
        """Append where a value ends."""
        cdef int32_t size = <int32_t>self.content.size
        return put_bytes(&self.values, &size, 4)

    cdef int read(self, Source* source) except -1:
        cdef Py_ssize_t size = self.size
        if size < 0:
            read_size(source, &size)
        else:
            require(source, size)
        if size > MOST_IN_A_COLUMN - <Py_ssize_t>self.content.size:
            refuse()
        put_bytes(&self.content, source.at, size)
        source.at += size
        self.end()
        return self.mark()

    cdef int skip(self) except -1:
        self.end()
        return self.mark_null()

    cdef int write(self, Py_ssize_t row, Sink* sink) except -1:
        cdef const unsigned char* data = <const unsigned char*>self.given[2].buf
        cdef int32_t[2] ends
        cdef Py_ssize_t place, size, characters = 0
        self.require_row(row)
        memcpy(ends, self.at(row), 8)
        if not 0 <= ends[0] <= ends[1] <= self.given[2].len:
            refuse()
        size = ends[1] - ends[0]
        if 0 <= self.longest < size:
            for place in range(ends[0], ends[1]):
                characters += data[place] & 0xc0 != 0x80
            if characters > self.longest:
                refuse()
        if self.size < 0:
            put_number(sink, size)
        elif size != self.size:
            refuse()
        return put_bytes(sink, data + ends[0], size) if size else 0


cdef class DecimalColumn(Column):
    """Decimals of up to 38 digits in ``size`` bytes, or behind a length where that is below 0."""

    cdef magnitude limit
    cdef Py_ssize_t size

    def __cinit__(self, int precision, Py_ssize_t size=-1):
        if not 0 < precision <= MOST_DIGITS or size == 0:
            raise ValueError("a decimal of other digits or bytes than can be read")
        self.limit, self.size, self.bits = power_of_ten(precision), size, 128

    cdef int read(self, Source* source) except -1:
        cdef whole number = 0
        read_whole(source, self.size, self.limit, &number)
        put_bytes(&self.values, &number, 16)
        return self.mark()

    cdef int skip(self) except -1:
        cdef whole nothing = 0
        put_bytes(&self.values, &nothing, 16)
        return self.mark_null()

    cdef int write(self, Py_ssize_t row, Sink* sink) except -1:
        cdef whole number = 0
        self.require_row(row)
        memcpy(&number, self.at(row), 16)
        if not has_digits(number, self.limit):
            refuse()
        return write_whole(sink, self.size, number)


@no_gc_clear
cdef class NullableColumn(Column):
    """The values of another column, or null; ``null`` is the index of null, 0 or 1."""

    cdef Column other
    cdef int null, some

    def __cinit__(self, Column other not None, int null):
        if null not in (0, 1):
            raise ValueError("an index that is neither 0 nor 1")
        self.other, self.null, self.some = other, null * 2, 2 - null * 2

    cdef int read(self, Source* source) except -1:
        cdef int branch = read_byte(source)
        if branch == self.some:
            return self.other.read(source)
        if branch != self.null:
            refuse()
        return self.other.skip()

    cdef int skip(self) except -1:
        return self.other.skip()

    cdef int write(self, Py_ssize_t row, Sink* sink) except -1:
        if not 0 <= row < self.other.count:
            refuse()
        if not self.other.has(row):
            return put_byte(sink, self.null)
        put_byte(sink, self.some)
        return self.other.write(row, sink)


@no_gc_clear
cdef class RecordColumn(Column):
    """Records, by a column for each field."""

    cdef tuple columns

    def __cinit__(self, tuple columns not None):
        for column in columns:
            if not isinstance(column, Column):
                raise TypeError("a field that is no column")
        self.columns = columns

    def buffers(self):
        return self.count, self.nulls, self.all_marks()

    cdef int read(self, Source* source) except -1:
        cdef Py_ssize_t place
        for place in range(PyTuple_GET_SIZE(self.columns)):
            (<Column>PyTuple_GET_ITEM(self.columns, place)).read(source)
        return self.mark()

    cdef int skip(self) except -1:
        cdef Py_ssize_t place
        for place in range(PyTuple_GET_SIZE(self.columns)):
            (<Column>PyTuple_GET_ITEM(self.columns, place)).skip()
        return self.mark_null()

    cdef int write(self, Py_ssize_t row, Sink* sink) except -1:
        cdef Py_ssize_t place
        self.require_row(row)
        for place in range(PyTuple_GET_SIZE(self.columns)):
            (<Column>PyTuple_GET_ITEM(self.columns, place)).write(row, sink)
        return 0


@no_gc_clear
cdef class ListColumn(Column):
    """Lists, by a column of all items. They are in one block, as they are written."""

    cdef Column items
    cdef Py_ssize_t number

    def __cinit__(self, Column items not None):
        self.items, self.bits, self.more = items, 32, 1
        self.end()

    cdef int end(self) except -1:
        cdef int32_t number = <int32_t>self.number
        return put_bytes(&self.values, &number, 4)

    cdef int read(self, Source* source) except -1:
        cdef Py_ssize_t count = 0
        # An item takes a byte at the least.
        read_count(source, 1, &count)
        if count > MOST_IN_A_COLUMN - self.number:
            refuse()
        for _ in range(count):
            self.items.read(source)
        if count and read_byte(source):
            refuse()
        self.number += count
        self.end()
        return self.mark()

    cdef int skip(self) except -1:
        self.end()
        return self.mark_null()

    cdef int write(self, Py_ssize_t row, Sink* sink) except -1:
        cdef int32_t[2] ends
        cdef Py_ssize_t place
        self.require_row(row)
        memcpy(ends, self.at(row), 8)
        if not 0 <= ends[0] <= ends[1]:
            refuse()
        if ends[1] > ends[0]:
            put_number(sink, ends[1] - ends[0])
            for place in range(ends[0], ends[1]):
                self.items.write(place, sink)
        return put_byte(sink, 0)


def read_columns(Column column not None, list values not None):
    """Read the bytes of each record into a column."""
    cdef Source source
    if len(values) > MOST_IN_A_COLUMN:
        refuse()
    for data in values:
        open_source(&source, data)
        column.read(&source)
        if source.at != source.end:
            refuse()


def write_columns(Column column not None, Py_ssize_t count):
    """The bytes of each of the first ``count`` records of a column."""
    cdef Sink sink
    cdef Py_ssize_t row
    cdef list found = []
    open_sink(&sink)
    try:
        for row in range(count):
            sink.size = 0
            column.write(row, &sink)
            found.append(bytes_in(&sink))
    finally:
        close_sink(&sink)
    return found
