from libc.stdint cimport int32_t, int64_t, uint8_t

cimport cython

cdef Py_ssize_t SHORT

cdef class IndexView:
    cdef const int32_t[::1] cells
    cdef const int64_t[::1] cell_ptr, width, first, slot_ptr
    cdef int32_t[::1] slots
    cdef int64_t base

cdef class LinesView:
    cdef const int64_t[::1] table, ptr, alone, row, column, place
    cdef const int32_t[:, ::1] outside
    cdef const uint8_t[::1] absolute, marked

@cython.locals(mask=int64_t, h=int64_t, at=Py_ssize_t, f=Py_ssize_t, i=Py_ssize_t, same=bint)
cdef Py_ssize_t row_slot(
    const int32_t[::1] slots, const int32_t[:, ::1] table, const int32_t[::1] row, int64_t base
) noexcept nogil

@cython.locals(
    h=int64_t, base=int64_t, mask=int64_t, begin=Py_ssize_t, first=Py_ssize_t, at=Py_ssize_t,
    f=Py_ssize_t, i=Py_ssize_t, cell=Py_ssize_t,
)
cdef inline Py_ssize_t _slot_of(
    IndexView index, Py_ssize_t j, const int32_t[::1] numbers, Py_ssize_t a, Py_ssize_t b
) noexcept nogil

cdef inline Py_ssize_t _row_number(
    IndexView index, Py_ssize_t j, const int32_t[::1] numbers, Py_ssize_t a, Py_ssize_t b
) noexcept nogil

cdef inline Py_ssize_t _feature_alone(
    IndexView index, Py_ssize_t j, const int32_t[::1] numbers, Py_ssize_t i
) noexcept nogil

@cython.locals(j=Py_ssize_t, f=Py_ssize_t, n=Py_ssize_t, width=Py_ssize_t, cell=Py_ssize_t)
cpdef void index_tables(IndexView index)

@cython.locals(numbers="const int32_t[::1]", k=Py_ssize_t, width=Py_ssize_t)
cpdef void find_rows(IndexView index, Py_ssize_t table, const int32_t[:, ::1] rows, int32_t[::1] ids)

@cython.locals(read=int32_t[::1], n=Py_ssize_t, k=Py_ssize_t, t=Py_ssize_t)
cpdef Py_ssize_t find_features(
    const int32_t[:, ::1] entry, const int32_t[::1] remembered, const int64_t[::1] offsets,
    Py_ssize_t reach, LinesView lines, IndexView index, int64_t[::1] ptr, int32_t[::1] feature,
)

@cython.locals(
    c=Py_ssize_t, i=Py_ssize_t, n=Py_ssize_t, j=Py_ssize_t, f=Py_ssize_t, one=Py_ssize_t
)
cdef inline Py_ssize_t _add_features(
    const int32_t[::1] read, LinesView lines, IndexView index, int32_t[::1] feature, Py_ssize_t begin
) noexcept nogil

@cython.locals(c=Py_ssize_t, at=Py_ssize_t, mark=Py_ssize_t, one=Py_ssize_t)
cdef inline void _read_cells(
    const int32_t[:, ::1] entry, const int32_t[::1] remembered, Py_ssize_t a, Py_ssize_t b,
    Py_ssize_t t, Py_ssize_t reach, LinesView lines, IndexView index, int32_t[::1] read,
) noexcept nogil

@cython.locals(read=int32_t[::1], e=Py_ssize_t, i=Py_ssize_t, behind=Py_ssize_t)
cpdef void remember_features(
    IndexView index, const int64_t[::1] table, const int64_t[::1] place, int32_t[:, ::1] remembered
)

@cython.locals(i=Py_ssize_t, k=Py_ssize_t, at=Py_ssize_t, item=Py_ssize_t)
cpdef void invert(
    const int64_t[::1] ptr, const int32_t[::1] items, int64_t[::1] starts, int32_t[::1] owners,
    int32_t[::1] places,
)

@cython.locals(stamp=int32_t[::1], n=Py_ssize_t, k=Py_ssize_t)
cpdef Py_ssize_t distinct_items(
    const int64_t[::1] ptr, const int32_t[::1] owners, const int64_t[::1] item_ptr,
    const int32_t[::1] items, Py_ssize_t n_codes, int64_t[::1] out_ptr, int32_t[::1] out,
)

@cython.locals(
    n=Py_ssize_t, i=Py_ssize_t, j=Py_ssize_t, at=Py_ssize_t, owner=Py_ssize_t, c=int32_t, mark=int32_t
)
cdef inline Py_ssize_t _distinct_of(
    const int64_t[::1] ptr, const int32_t[::1] owners, const int64_t[::1] item_ptr,
    const int32_t[::1] items, Py_ssize_t k, int32_t[::1] stamp, int32_t[::1] out, Py_ssize_t begin,
) noexcept nogil
