# Days, times of day, timestamps and intervals.


cdef enum:
    EPOCH_DAY = 719163  # 1970-01-01, counted from 0001-01-01, which is 1
    LAST_DAY = 3652059  # 9999-12-31

cdef extern from *:
    """
    #define SECOND 1000000LL
    #define DAY (86400 * SECOND)
    """
    const int64_t SECOND  # in microseconds
    const int64_t DAY


cdef inline int64_t ordinal(int year, int month, int day) noexcept:
    """The day's number, counted from 0001-01-01, which is 1."""
    # Years begin in March here, so that a leap day is the last one.
    cdef int64_t y = year - (month <= 2)
    cdef int64_t days = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return 365 * y + y // 4 - y // 100 + y // 400 + days - 305


cdef inline void date_of(int64_t day, int* year, int* month, int* day_of_month) noexcept:
    """The other way round, for the days from 1 to `LAST_DAY`."""
    cdef int64_t days = day + 305
    cdef int64_t era = days // 146097
    cdef int64_t of_era = days - era * 146097
    cdef int64_t y = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    cdef int64_t of_year = of_era - (365 * y + y // 4 - y // 100)
    cdef int64_t m = (5 * of_year + 2) // 153
    day_of_month[0] = <int>(of_year - (153 * m + 2) // 5 + 1)
    month[0] = <int>(m + 3 if m < 10 else m - 9)
    year[0] = <int>(y + era * 400 + (month[0] <= 2))


cdef inline int64_t below(int64_t number, int64_t unit) noexcept:
    """The quotient, rounded down."""
    cdef int64_t quotient = number // unit
    return quotient - 1 if number % unit < 0 else quotient


cdef class Day(Node):
    def __cinit__(self):
        self.least = 1

    cdef object read(self, Source* source):
        cdef int64_t number = 0
        cdef int year = 0, month = 0, day = 0
        read_number(source, &number)
        if not 1 - EPOCH_DAY <= number <= LAST_DAY - EPOCH_DAY:
            refuse()
        date_of(number + EPOCH_DAY, &year, &month, &day)
        return date_new(year, month, day)

    cdef int write(self, object value, Sink* sink) except -1:
        if not PyDate_CheckExact(value):
            refuse()
        return put_number(
            sink, ordinal(date_year(value), date_month(value), date_day(value)) - EPOCH_DAY
        )


cdef class Time(Node):
    """A time of day without a zone. What is written is whole in ``unit`` microseconds."""

    cdef int unit

    def __cinit__(self, int unit):
        if unit < 1:
            raise ValueError("a unit below one microsecond")
        self.unit, self.least = unit, 1

    cdef object read(self, Source* source):
        cdef int64_t number = 0
        cdef int second
        read_number(source, &number)
        if not 0 <= number < DAY:
            refuse()
        second = <int>(number // SECOND)
        return time_new(
            second // 3600, second // 60 % 60, second % 60, <int>(number % SECOND), None
        )

    cdef int write(self, object value, Sink* sink) except -1:
        cdef int64_t second
        if not PyTime_CheckExact(value) or time_tzinfo(value) is not None or time_fold(value):
            refuse()
        if time_microsecond(value) % self.unit:
            refuse()
        second = (time_hour(value) * 60 + time_minute(value)) * 60 + time_second(value)
        return put_number(sink, second * SECOND + time_microsecond(value))


cdef class Moment(Node):
    """A timestamp in units of ``unit`` microseconds, in UTC or without a zone."""

    cdef int unit
    cdef object zone

    def __cinit__(self, int unit, bint in_utc):
        if unit < 1:
            raise ValueError("a unit below one microsecond")
        self.unit, self.zone, self.least = unit, UTC if in_utc else None, 1

    cdef object read(self, Source* source):
        cdef int64_t number = 0, day, rest
        cdef int year = 0, month = 0, day_of_month = 0, second
        read_number(source, &number)
        day = below(number, DAY // self.unit)
        if not 1 - EPOCH_DAY <= day <= LAST_DAY - EPOCH_DAY:
            refuse()
        rest = number * self.unit - day * DAY
        date_of(day + EPOCH_DAY, &year, &month, &day_of_month)
        second = <int>(rest // SECOND)
        return datetime_new(
            year, month, day_of_month, second // 3600, second // 60 % 60, second % 60,
            <int>(rest % SECOND), self.zone,
        )

    cdef int write(self, object value, Sink* sink) except -1:
        cdef int64_t day, second
        if not PyDateTime_CheckExact(value) or datetime_tzinfo(value) is not self.zone:
            refuse()
        if datetime_microsecond(value) % self.unit:
            refuse()
        day = ordinal(datetime_year(value), datetime_month(value), datetime_day(value))
        second = datetime_hour(value) * 3600 + datetime_minute(value) * 60 + datetime_second(value)
        second += (day - EPOCH_DAY) * 86400
        return put_number(
            sink, (second * SECOND + datetime_microsecond(value)) // self.unit
        )


cdef class Interval(Node):
    """Days, seconds and microseconds, as microseconds of 64 bits."""

    def __cinit__(self):
        self.least = 1

    cdef object read(self, Source* source):
        cdef int64_t number = 0, day, rest
        read_number(source, &number)
        day = below(number, DAY)
        # The product may be below the least number of 64 bits; the difference is right all the same.
        rest = <int64_t>(<uint64_t>number - <uint64_t>day * <uint64_t>DAY)
        return timedelta_new(<int>day, <int>(rest // SECOND), <int>(rest % SECOND))

    cdef int write(self, object value, Sink* sink) except -1:
        cdef int64_t day, rest
        if not PyDelta_CheckExact(value):
            refuse()
        day = timedelta_days(value)
        rest = timedelta_seconds(value) * SECOND + timedelta_microseconds(value)
        # One day less on either side is never too far; the last one goes by Python.
        if not -106751991 <= day < 106751991:
            refuse()
        return put_number(sink, day * DAY + rest)
