# Types that have types inside.


@no_gc_clear
cdef class Nullable(Node):
    """None, or what ``other`` reads and writes; ``null`` is the index of None, 0 or 1."""

    cdef Node other
    cdef int null, some

    def __cinit__(self, Node other not None, int null):
        if null not in (0, 1):
            raise ValueError("an index that is neither 0 nor 1")
        self.other, self.null, self.some, self.least = other, null * 2, 2 - null * 2, 1

    cdef object read(self, Source* source):
        cdef int branch = read_byte(source)
        if branch == self.some:
            return self.other.read(source)
        if branch != self.null:
            refuse()
        return None

    cdef int write(self, object value, Sink* sink) except -1:
        if value is None:
            return put_byte(sink, self.null)
        put_byte(sink, self.some)
        return self.other.write(value, sink)


@no_gc_clear
cdef class Union(Node):
    """One of several types, each with its index. It only reads: Python chooses what is written."""

    cdef tuple branches

    def __cinit__(self, tuple branches not None):
        for branch in branches:
            if not isinstance(branch, Node):
                raise TypeError("a branch that is no node")
        self.branches, self.least = branches, 1

    cdef object read(self, Source* source):
        cdef int branch = read_byte(source)
        if branch > 127 or branch & 1 or branch >> 1 >= PyTuple_GET_SIZE(self.branches):
            refuse()
        return (<Node>PyTuple_GET_ITEM(self.branches, branch >> 1)).read(source)


@no_gc_clear
cdef class Record(Node):
    """A dictionary with exactly these names."""

    cdef tuple names, nodes
    cdef dict empty
    cdef Py_ssize_t count

    def __cinit__(self, tuple names not None, tuple nodes not None):
        check_fields(names, nodes)
        self.names, self.nodes, self.count = names, nodes, len(names)
        self.least = sum_of_least(nodes)
        # Copied, a large dictionary need not grow step by step.
        self.empty = dict.fromkeys(names) if self.count > 5 else None

    cdef object read(self, Source* source):
        cdef Py_ssize_t place
        value = {} if self.empty is None else PyDict_Copy(self.empty)
        for place in range(self.count):
            field = (<Node>PyTuple_GET_ITEM(self.nodes, place)).read(source)
            PyDict_SetItem(value, <object>PyTuple_GET_ITEM(self.names, place), field)
        return value

    cdef int write(self, object value, Sink* sink) except -1:
        cdef Py_ssize_t place
        if not PyDict_CheckExact(value) or PyDict_Size(value) != self.count:
            refuse()
        for place in range(self.count):
            field = item_of(value, <object>PyTuple_GET_ITEM(self.names, place))
            (<Node>PyTuple_GET_ITEM(self.nodes, place)).write(field, sink)
        return 0


cdef int check_fields(tuple names, tuple nodes) except -1:
    """Fields have different names, each an exact string, and a node for each."""
    for name in names:
        if not PyUnicode_CheckExact(name):
            raise TypeError("a name that is no string")
    for node in nodes:
        if not isinstance(node, Node):
            raise TypeError("a field that is no node")
    if len(names) != len(nodes) or len(set(names)) != len(names):
        raise ValueError("as many nodes as names, and each name once")
    return 0


cdef Py_ssize_t sum_of_least(tuple nodes) except -1:
    cdef Py_ssize_t least = 0
    for node in nodes:
        if (<Node>node).least > PY_SSIZE_T_MAX - least:
            raise ValueError("a record of more bytes than there are")
        least += (<Node>node).least
    return least


cdef inline object item_of(object values, object name):
    """The value of a name, with a reference of its own: what stands there may be replaced."""
    cdef PyObject* found = PyDict_GetItemWithError(values, name)
    if found == NULL:
        refuse()
    return <object>found


cdef inline int read_count(Source* source, Py_ssize_t least, Py_ssize_t* count) except -1:
    """The number of items in a block. As many bytes as they take at the least are left."""
    cdef uint64_t raw = 0
    read_raw(source, &raw)
    if raw & 1:
        refuse()
    raw >>= 1
    if raw and (least == 0 or raw > <uint64_t>(source.end - source.at) // <uint64_t>least):
        refuse()
    count[0] = <Py_ssize_t>raw
    return 0


@no_gc_clear
cdef class Array(Node):
    """A list of at most ``most`` items where it is written. Items of no bytes are not read."""

    cdef Node items
    cdef Py_ssize_t most

    def __cinit__(self, Node items not None, Py_ssize_t most):
        self.items, self.most, self.least = items, most, 1

    cdef object read(self, Source* source):
        cdef list found = []
        cdef Py_ssize_t count = 0
        read_count(source, self.items.least, &count)
        while count:
            for _ in range(count):
                found.append(self.items.read(source))
            read_count(source, self.items.least, &count)
        return found

    cdef int write(self, object value, Sink* sink) except -1:
        cdef Py_ssize_t count, place
        if not PyList_CheckExact(value):
            refuse()
        count = PyList_GET_SIZE(value)
        if count > self.most:
            refuse()
        if count:
            put_number(sink, count)
            for place in range(count):
                # What an item runs may have made the list shorter.
                if PyList_GET_SIZE(value) != count:
                    refuse()
                self.items.write((<list>value)[place], sink)
        return put_byte(sink, 0)


@no_gc_clear
cdef class Map(Node):
    """A dictionary. What ``keys`` reads is made a key by ``freeze``, unless that is None."""

    cdef Node keys, values
    cdef object freeze

    def __cinit__(self, Node keys not None, Node values not None, freeze):
        self.keys, self.values, self.freeze, self.least = keys, values, freeze, 1

    cdef object read(self, Source* source):
        cdef dict found = {}
        cdef Py_ssize_t count = 0, least = self.keys.least + self.values.least
        read_count(source, least, &count)
        while count:
            for _ in range(count):
                key = self.keys.read(source)
                if self.freeze is not None:
                    key = self.freeze(key)
                PyDict_SetItem(found, key, self.values.read(source))
            read_count(source, least, &count)
        return found

    cdef int write(self, object value, Sink* sink) except -1:
        cdef Py_ssize_t count, at = 0, done = 0
        cdef PyObject* key
        cdef PyObject* item
        if self.freeze is not None or not PyDict_CheckExact(value):
            refuse()
        count = PyDict_Size(value)
        if count:
            put_number(sink, count)
            while PyDict_Next(value, &at, &key, &item):
                found, each = <object>key, <object>item
                self.keys.write(found, sink)
                self.values.write(each, sink)
                done += 1
                # What an item runs may have changed the dictionary.
                if done > count or PyDict_Size(value) != count:
                    refuse()
            if done != count:
                refuse()
        return put_byte(sink, 0)
