from libc.stdint cimport int32_t, int64_t, uint8_t

cimport cython

cdef enum:  # bytes
    NEWLINE = 10
    RETURN = 13
    TAB = 9
    SPACE = 32
    HASH = 35
    MINUS = 45
    DOT = 46

cdef enum:  # corpus.scanner: the fields of a row of `entries`
    START = 0
    SIZE = 1
    COLUMN = 2
    CODE = 3
    KEY = 4

cdef const char* DOCSTART
cdef const char* NEWDOC

cdef inline Py_ssize_t _line_end(const uint8_t[::1] text, Py_ssize_t k) noexcept nogil

@cython.locals(end=Py_ssize_t)
cdef inline Py_ssize_t _trimmed(const uint8_t[::1] text, Py_ssize_t a, Py_ssize_t b) noexcept nogil

cdef inline bint _blank_at(const uint8_t[::1] text, Py_ssize_t a) noexcept nogil

@cython.locals(k=Py_ssize_t, size=Py_ssize_t)
cdef inline bint _begins(
    const uint8_t[::1] text, Py_ssize_t a, Py_ssize_t b, const char* prefix
) noexcept nogil

@cython.locals(s=Py_ssize_t, e=Py_ssize_t, p=Py_ssize_t, k=Py_ssize_t, mask=Py_ssize_t)
cdef inline Py_ssize_t _slot_of(
    const uint8_t[::1] text, Py_ssize_t f, Py_ssize_t g, Py_ssize_t column, int64_t key,
    const int64_t[::1] slots, const int64_t[:, ::1] entries,
) noexcept nogil

@cython.locals(e=Py_ssize_t, s=Py_ssize_t, mask=Py_ssize_t)
cpdef void refill(int64_t[::1] slots, const int64_t[:, ::1] entries, Py_ssize_t n)

cpdef bint scan_lines(
    const uint8_t[::1] text, bint tabs, bint conllu, Py_ssize_t edited, int32_t[:, ::1] codes,
    int64_t[::1] starts, int64_t[::1] ends, int64_t[::1] offsets, int64_t[::1] marks,
    int64_t[::1] documents, int64_t[::1] slots, int64_t[:, ::1] entries, int64_t[::1] distinct,
    int64_t[::1] state,
)

@cython.locals(
    a=Py_ssize_t, t=Py_ssize_t, n=Py_ssize_t, m=Py_ssize_t, d=Py_ssize_t, v=Py_ssize_t,
    fail=Py_ssize_t, got=Py_ssize_t, base=int64_t, n_columns=Py_ssize_t, newline=Py_ssize_t,
    b=Py_ssize_t, k=Py_ssize_t, f=Py_ssize_t, column=Py_ssize_t, s=Py_ssize_t, key=int64_t,
    token=bint,
)
cdef void _scan_lines(
    const uint8_t[::1] text, bint tabs, bint conllu, Py_ssize_t edited, int32_t[:, ::1] codes,
    int64_t[::1] starts, int64_t[::1] ends, int64_t[::1] offsets, int64_t[::1] marks,
    int64_t[::1] documents, int64_t[::1] slots, int64_t[:, ::1] entries, int64_t[::1] distinct,
    int64_t[::1] state,
) noexcept nogil
