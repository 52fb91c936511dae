from libc.stdint cimport int32_t, int64_t, uint8_t

cimport cython

cdef enum:  # kinds of columns, as in memory.weights
    OVERLAP
    MVDM
    JEFFREY
    SHANNON
    NUMERIC

cdef double FARTHEST

cdef class DistancesView:
    cdef const int64_t[::1] kind, first, fixed, ptr, turned_ptr, pair_base
    cdef const int32_t[::1] classes, turned_code
    cdef const double[::1] weight, scaled, share, turned_share, number, width, pairs
    cdef const uint8_t[::1] rare

cdef class TablesView:
    cdef const int64_t[::1] number, base
    cdef int64_t[::1] best
    cdef double[::1] least, second
    cdef float[::1] table

@cython.locals(mean=double)
cdef double _common_share(Py_ssize_t kind, double p, double q) noexcept nogil

cdef double _half(Py_ssize_t kind, double p, double q) noexcept nogil

@cython.locals(apart=double)
cdef double value_distance(
    DistancesView d, Py_ssize_t i, Py_ssize_t code, double number, Py_ssize_t other
) noexcept nogil

@cython.locals(
    a=Py_ssize_t, b=Py_ssize_t, in_left=bint, in_right=bint, p=double, q=double, total=double, half=double,
)
cdef double _by_classes(
    DistancesView d, Py_ssize_t i, Py_ssize_t code, Py_ssize_t other
) noexcept nogil

cpdef void fill_pairs(DistancesView d, Py_ssize_t i, double[:, ::1] pairs)

cdef void fill(
    DistancesView d, Py_ssize_t i, Py_ssize_t code, double number, float[::1] table, Py_ssize_t base,
    double[::1] wide,
) noexcept nogil

@cython.locals(n_classes=Py_ssize_t)
cdef void _fill_by_classes(
    DistancesView d, Py_ssize_t i, Py_ssize_t code, double[::1] wide
) noexcept nogil

cdef void _subtract_shared(
    Py_ssize_t kind, double p, const int32_t[::1] codes, const double[::1] share, Py_ssize_t begin,
    Py_ssize_t end, double[::1] wide,
) noexcept nogil

@cython.locals(apart=double)
cdef void _weigh(
    const double[::1] wide, const uint8_t[::1] rare, Py_ssize_t first, double weight, Py_ssize_t n,
    float[::1] table, Py_ssize_t base,
) noexcept nogil

@cython.locals(best=Py_ssize_t, x=double, least=double, second=double)
cdef (Py_ssize_t, double, double) extremes(
    const float[::1] table, Py_ssize_t base, Py_ssize_t n
) noexcept nogil

@cython.locals(widest=Py_ssize_t, wide=double[::1])
cpdef void store_tables(
    DistancesView d, const int64_t[::1] columns, const int64_t[::1] codes, TablesView tables,
    Py_ssize_t begin, Py_ssize_t end,
)
