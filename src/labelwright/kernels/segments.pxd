from libc.stdint cimport int32_t, int64_t

cimport cython
from cython cimport floating

cpdef Py_ssize_t before_transitions(
    Py_ssize_t n_types, Py_ssize_t n_long, Py_ssize_t longest, Py_ssize_t p
) noexcept nogil

cpdef Py_ssize_t n_rows(Py_ssize_t longest, Py_ssize_t T) noexcept nogil

cpdef Py_ssize_t arc_scores(
    const floating[:, ::1] state, Py_ssize_t t0, const floating[:, ::1] segment, Py_ssize_t r0,
    const double[:, ::1] transition, Py_ssize_t n_types, Py_ssize_t n_long, Py_ssize_t longest,
    Py_ssize_t T, double[:, ::1] inner, double[::1] score,
)

@cython.locals(e=Py_ssize_t, row=Py_ssize_t)
cdef inline Py_ssize_t _arc_scores(
    const floating[:, ::1] state, Py_ssize_t t0, const floating[:, ::1] segment, Py_ssize_t r0,
    const double[:, ::1] transition, Py_ssize_t n_types, Py_ssize_t n_long, Py_ssize_t longest,
    Py_ssize_t T, double[:, ::1] inner, double[::1] score,
) noexcept nogil

cpdef void arc_counts(
    const double[::1] arcs, Py_ssize_t n_types, Py_ssize_t n_long, Py_ssize_t longest,
    Py_ssize_t T, double[:, ::1] inner, floating[:, ::1] state, Py_ssize_t t0,
    floating[:, ::1] segment, Py_ssize_t r0, double[:, ::1] transitions,
)

@cython.locals(e=Py_ssize_t, row=Py_ssize_t, total=double)
cdef inline void _arc_counts(
    const double[::1] arcs, Py_ssize_t n_types, Py_ssize_t n_long, Py_ssize_t longest,
    Py_ssize_t T, double[:, ::1] inner, floating[:, ::1] state, Py_ssize_t t0,
    floating[:, ::1] segment, Py_ssize_t r0, double[:, ::1] transitions,
) noexcept nogil

@cython.locals(e=Py_ssize_t, row=Py_ssize_t, before=Py_ssize_t, into=Py_ssize_t, begin=Py_ssize_t, at=Py_ssize_t)
cdef inline double _subtract_gold(
    const int32_t[::1] gold, Py_ssize_t r0, Py_ssize_t n_types, Py_ssize_t n_long,
    Py_ssize_t longest, Py_ssize_t T, const double[::1] score, double[::1] arcs,
) noexcept nogil

@cython.locals(
    most_tokens=Py_ssize_t, has_gains=bint, row=Py_ssize_t, A=Py_ssize_t, Q=Py_ssize_t,
    phi=double[::1], alpha=double[::1], beta=double[::1], after=double[::1],
    score=double[::1], arcs=double[::1], gain=double[::1], cov=double[::1],
    nothing=double[:, ::1], no_transition=double[:, ::1], inner=double[:, ::1],
    sources=int32_t[::1], sinks=int32_t[::1],
)
cpdef double expectations(
    floating[:, ::1] state, floating[:, ::1] segment, const double[:, ::1] transition,
    Py_ssize_t n_long, Py_ssize_t longest, const int64_t[::1] offsets, const int32_t[::1] gold,
    const int32_t[::1] source, const int32_t[::1] target, double share,
    const double[:, ::1] gains, double[:, ::1] transitions,
)
