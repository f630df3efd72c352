# Records as tuples of their fields, as processors give and get them.


cdef extern from *:
    """
    /* A tuple whose items are those that iterating over it gives. */
    static int is_plain_tuple(PyObject *value)
    {
        PyTypeObject *type = Py_TYPE(value);
        if (type == &PyTuple_Type)
            return 1;
        return PyTuple_Check(value) && type->tp_iter == PyTuple_Type.tp_iter
            && type->tp_as_sequence->sq_length == PyTuple_Type.tp_as_sequence->sq_length;
    }
    /* A row of NULLs. */
    static PyObject *new_row(PyObject *type, Py_ssize_t count)
    {
        return ((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, count);
    }
    """
    bint is_plain_tuple(object value)
    object new_row(object type, Py_ssize_t count)
    void PyObject_GC_UnTrack(PyObject* found)
    void PyObject_GC_Track(PyObject* found)


@no_gc_clear
cdef class Columns(Node):
    """A record as a tuple of columns: ``names`` in their order, each with its node and converters.

    ``places`` has for each of the record's fields the place of its column, and ``nodes`` the
    field's node. ``converters`` has for each field what converts its value, or None; None is never
    converted. With ``row`` and ``fields`` what is read is of that subclass of tuple, and has
    ``fields`` as its attribute `__fields__`. With ``by_name`` a dictionary is written too.
    """

    cdef tuple names, nodes, converters
    cdef Py_ssize_t* places
    cdef object row, fields
    cdef bint by_name
    cdef Py_ssize_t count

    def __cinit__(
        self,
        tuple names not None,
        tuple nodes not None,
        tuple converters not None,
        list places not None,
        row=None,
        fields=None,
        bint by_name=False,
    ):
        cdef Py_ssize_t number
        check_fields(names, nodes)
        self.count = len(names)
        if self.count == 0 or sorted(places) != list(range(self.count)):
            raise ValueError("at least one field, and a place for each")
        if len(converters) != self.count:
            raise ValueError("a converter for each field")
        if row is not None and not (isinstance(row, type) and issubclass(row, tuple)):
            raise TypeError("a row that is no tuple")
        self.names, self.nodes, self.converters = names, nodes, converters
        self.places = <Py_ssize_t*>PyMem_Malloc((self.count + 1) * sizeof(Py_ssize_t))
        if self.places == NULL:
            raise MemoryError
        for number in range(self.count):
            self.places[number] = places[number]
        self.row, self.fields, self.by_name = row, fields, by_name
        self.least = sum_of_least(nodes)

    def __dealloc__(self):
        PyMem_Free(self.places)

    cdef object read(self, Source* source):
        cdef Py_ssize_t number, place
        found = PyTuple_New(self.count) if self.row is None else new_row(self.row, self.count)
        # A converter must not come upon it by way of the garbage collector.
        PyObject_GC_UnTrack(<PyObject*>found)
        for number in range(self.count):
            value = (<Node>PyTuple_GET_ITEM(self.nodes, number)).read(source)
            if value is not None:
                convert = <object>PyTuple_GET_ITEM(self.converters, number)
                if convert is not None:
                    value = convert(value)
            place = self.places[number]
            Py_INCREF(value)
            PyTuple_SET_ITEM(found, place, value)
        PyObject_GC_Track(<PyObject*>found)
        if self.row is not None:
            # Past the row's own `__setattr__`, which allows this name too.
            PyObject_GenericSetAttr(found, "__fields__", self.fields)
        return found

    cdef int write(self, object value, Sink* sink) except -1:
        cdef Py_ssize_t number, place
        cdef bint named = False
        if is_plain_tuple(value):
            if PyTuple_GET_SIZE(value) != self.count:
                refuse()
        elif self.by_name and PyDict_CheckExact(value) and PyDict_Size(value) == self.count:
            named = True
        else:
            refuse()
        for number in range(self.count):
            place = self.places[number]
            if named:
                each = item_of(value, <object>PyTuple_GET_ITEM(self.names, place))
            else:
                each = <object>PyTuple_GET_ITEM(value, place)
            if each is not None:
                convert = <object>PyTuple_GET_ITEM(self.converters, number)
                if convert is not None:
                    each = convert(each)
            (<Node>PyTuple_GET_ITEM(self.nodes, number)).write(each, sink)
        return 0
