# Bytes that are read, never behind their end, and bytes that are written, in a buffer that grows.


class Refused(Exception):
    """The bytes, or the value, are not regular: the codec in Python decides about them."""


cdef struct Source:
    const unsigned char* at
    const unsigned char* end


cdef int refuse() except -1:
    raise Refused


cdef inline int open_source(Source* source, object data) except -1:
    """Begin to read bytes; refuse what is none."""
    if not PyBytes_CheckExact(data):
        refuse()
    source.at = <const unsigned char*>PyBytes_AS_STRING(data)
    source.end = source.at + PyBytes_GET_SIZE(data)
    return 0


cdef inline int require(Source* source, uint64_t size) except -1:
    """Refuse where fewer bytes than that are left."""
    if <uint64_t>(source.end - source.at) < size:
        refuse()
    return 0


cdef inline int read_byte(Source* source) except -1:
    if source.at == source.end:
        refuse()
    cdef int byte = source.at[0]
    source.at += 1
    return byte


cdef int read_rest(Source* source, uint64_t first, uint64_t* number) except -1:
    """The rest of a number whose ``first`` byte says that there is more: ten bytes at the most."""
    cdef uint64_t found = first & 127
    cdef int shift = 7, byte
    while True:
        byte = read_byte(source)
        # The tenth byte has the last of 64 bits.
        if shift == 63 and byte > 1:
            refuse()
        found |= <uint64_t>(byte & 127) << shift
        if byte < 128:
            number[0] = found
            return 0
        shift += 7


cdef inline int read_raw(Source* source, uint64_t* number) except -1:
    """A number as it is written, still in zigzag."""
    cdef int byte = read_byte(source)
    if byte < 128:
        number[0] = byte
        return 0
    return read_rest(source, byte, number)


cdef inline int read_number(Source* source, int64_t* number) except -1:
    cdef uint64_t raw = 0
    read_raw(source, &raw)
    number[0] = <int64_t>((raw >> 1) ^ (0 - (raw & 1)))
    return 0


cdef inline int read_size(Source* source, Py_ssize_t* size) except -1:
    """A length. As many bytes are left."""
    cdef uint64_t raw = 0
    read_raw(source, &raw)
    if raw & 1:
        refuse()
    require(source, raw >> 1)
    size[0] = <Py_ssize_t>(raw >> 1)
    return 0


cdef enum:
    FIRST_ROOM = 1024


cdef struct Sink:
    unsigned char* data
    size_t size
    size_t room
    unsigned char[FIRST_ROOM] first


cdef inline void open_sink(Sink* sink) noexcept:
    sink.data = sink.first
    sink.size = 0
    sink.room = FIRST_ROOM


cdef inline void close_sink(Sink* sink) noexcept:
    if sink.data != sink.first:
        PyMem_Free(sink.data)


cdef inline object bytes_in(Sink* sink):
    return PyBytes_FromStringAndSize(<const char*>sink.data, <Py_ssize_t>sink.size)


cdef int grow(Sink* sink, size_t more) except -1:
    cdef size_t room = sink.room
    cdef unsigned char* data
    if more > <size_t>PY_SSIZE_T_MAX // 2 - sink.size:
        raise MemoryError
    while room - sink.size < more:
        room *= 2
    if sink.data == sink.first:
        data = <unsigned char*>PyMem_Malloc(room)
        if data == NULL:
            raise MemoryError
        memcpy(data, sink.first, sink.size)
    else:
        data = <unsigned char*>PyMem_Realloc(sink.data, room)
        if data == NULL:
            raise MemoryError
    sink.data = data
    sink.room = room
    return 0


cdef inline int make_room(Sink* sink, size_t more) except -1:
    if sink.room - sink.size < more:
        grow(sink, more)
    return 0


cdef inline int put_byte(Sink* sink, unsigned char byte) except -1:
    make_room(sink, 1)
    sink.data[sink.size] = byte
    sink.size += 1
    return 0


cdef inline int put_bytes(Sink* sink, const void* data, size_t size) except -1:
    make_room(sink, size)
    memcpy(sink.data + sink.size, data, size)
    sink.size += size
    return 0


cdef inline int put_number(Sink* sink, int64_t number) except -1:
    """A number: zigzag, seven bits a byte, the lowest first."""
    cdef uint64_t raw = (<uint64_t>number << 1) ^ (0 - (<uint64_t>number >> 63))
    make_room(sink, 10)
    while raw > 127:
        sink.data[sink.size] = <unsigned char>(raw & 127 | 128)
        sink.size += 1
        raw >>= 7
    sink.data[sink.size] = <unsigned char>raw
    sink.size += 1
    return 0
