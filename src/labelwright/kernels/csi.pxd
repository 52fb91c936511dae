from libc.stdint cimport int32_t, int64_t, uint8_t

cimport cython

cdef double TIE

cdef class ProposalsView:
    cdef const int32_t[:, ::1] grams, domains
    cdef const double[:, :, ::1] weights
    cdef const int32_t[::1] sizes
    cdef const int64_t[::1] offsets

cdef class AllowedView:
    cdef const uint8_t[::1] start, end
    cdef const uint8_t[:, ::1] arc

@cython.locals(i=Py_ssize_t, h=Py_ssize_t, last=Py_ssize_t, p=Py_ssize_t, total=double)
cdef double _gain(
    const int32_t[:, ::1] grams, const double[:, :, ::1] weights, Py_ssize_t a, Py_ssize_t b, Py_ssize_t t,
    const int32_t[::1] window,
) noexcept nogil

@cython.locals(m=Py_ssize_t, product=int64_t)
cdef void _lay_out(
    const int32_t[::1] sizes, Py_ssize_t a, Py_ssize_t b, Py_ssize_t m, int64_t[::1] first,
    int64_t[::1] keep,
) noexcept nogil

@cython.locals(last=Py_ssize_t)
cdef void _read_state(
    const int32_t[:, ::1] domains, const int32_t[::1] sizes, Py_ssize_t a, Py_ssize_t t, Py_ssize_t s,
    int32_t[::1] window,
) noexcept nogil

@cython.locals(follows=bint, last=Py_ssize_t, label=Py_ssize_t)
cdef bint _may(
    AllowedView allowed, Py_ssize_t a, Py_ssize_t b, Py_ssize_t t, const int32_t[::1] window
) noexcept nogil

@cython.locals(t=Py_ssize_t, s=Py_ssize_t, c=Py_ssize_t, top=double, after=double, score=double)
cdef void _values(
    ProposalsView proposals, AllowedView allowed, Py_ssize_t a, Py_ssize_t b, int32_t[::1] window,
    const int64_t[::1] first, const int64_t[::1] keep, double[::1] value,
) noexcept nogil

@cython.locals(
    t=Py_ssize_t, s=Py_ssize_t, c=Py_ssize_t, chosen=Py_ssize_t, best=double, enough=double, done=double,
    top=double, gained=double, gain=double, after=double,
)
cdef double _trace(
    ProposalsView proposals, AllowedView allowed, Py_ssize_t a, Py_ssize_t b, int32_t[::1] window,
    const int64_t[::1] first, const int64_t[::1] keep, const double[::1] value, int32_t[::1] labels,
) noexcept nogil

@cython.locals(
    view=ProposalsView, rules=AllowedView, m=Py_ssize_t, longest=Py_ssize_t, window=int32_t[::1],
    first=int64_t[::1], keep=int64_t[::1],
)
cpdef void best_labellings(
    proposals, Py_ssize_t begin, Py_ssize_t stop, allowed, double[::1] value, int32_t[::1] labels,
    double[::1] scores,
)
