from libc.stdint cimport int32_t, int64_t, uint8_t

cimport cython

cdef double LARGEST_SUM, TINY

cdef Py_ssize_t MADE, SIZE, TAKEN, USED

cdef class ArcPoolView:
    cdef double[::1] priority
    cdef int32_t[::1] arc, parent, heap
    cdef int64_t[::1] counts

cpdef void best_scores(
    const int32_t[::1] source, const int32_t[::1] target, const double[::1] score,
    const int32_t[::1] sources, double[::1] phi,
)

cdef inline void _best_scores(
    const int32_t[::1] source, const int32_t[::1] target, const double[::1] score,
    const int32_t[::1] sources, double[::1] phi,
) noexcept nogil

@cython.locals(at=Py_ssize_t, arc=Py_ssize_t, n=Py_ssize_t)
cpdef (long, double) viterbi(
    const int32_t[::1] source, const int32_t[::1] target, const double[::1] score,
    const int32_t[::1] sources, const int32_t[::1] sinks, double[::1] phi, int32_t[::1] back,
    int32_t[::1] path,
)

cpdef double posteriors(
    const int32_t[::1] source, const int32_t[::1] target, const double[::1] score,
    const int32_t[::1] sources, const int32_t[::1] sinks, double[::1] phi, double[::1] alpha,
    double[::1] beta, double[::1] arcs,
)

cdef double sum_paths(
    const int32_t[::1] source, const int32_t[::1] target, const double[::1] score,
    const int32_t[::1] sources, const int32_t[::1] sinks, double[::1] phi, double[::1] alpha,
    double[::1] beta, double[::1] arcs,
) noexcept nogil

@cython.locals(best=double)
cdef inline double _best_of(const double[::1] phi, const int32_t[::1] sinks) noexcept nogil

cdef inline double _log_add(double x, double y) noexcept nogil

cpdef double posteriors_in_log_space(
    const int32_t[::1] source, const int32_t[::1] target, const double[::1] score,
    const int32_t[::1] sources, const int32_t[::1] sinks, double[::1] phi, double[::1] alpha,
    double[::1] beta, double[::1] arcs,
)

cdef inline double _sum_in_log_space(
    const int32_t[::1] source, const int32_t[::1] target, const double[::1] score,
    const int32_t[::1] sources, const int32_t[::1] sinks, double[::1] phi, double[::1] alpha,
    double[::1] beta, double[::1] arcs,
) noexcept nogil

cpdef double covariances(
    const int32_t[::1] source, const int32_t[::1] target, const int32_t[::1] sinks,
    const double[::1] arcs, const double[::1] gain, double[::1] into, double[::1] out,
    double[::1] before, double[::1] after, double[::1] cov,
)

@cython.locals(mean=double)
cdef double fill_covariances(
    const int32_t[::1] source, const int32_t[::1] target, const int32_t[::1] sinks,
    const double[::1] arcs, const double[::1] gain, double[::1] into, double[::1] out,
    double[::1] before, double[::1] after, double[::1] cov,
) noexcept nogil

@cython.locals(arc=Py_ssize_t, group=Py_ssize_t, n=Py_ssize_t)
cpdef void draw(
    const int32_t[::1] target, const uint8_t[::1] is_sink, const double[::1] arcs,
    const int64_t[::1] ptr, const int32_t[::1] leaving, const double[:, ::1] uniform,
    int32_t[:, ::1] paths, int64_t[::1] lengths,
)

@cython.locals(chosen=Py_ssize_t)
cdef inline Py_ssize_t _draw_arc(
    const double[::1] arcs, const int32_t[::1] leaving, Py_ssize_t first, Py_ssize_t last,
    double uniform,
) noexcept nogil

@cython.locals(view=ArcPoolView)
cpdef bint best_paths(
    const int32_t[::1] source, const double[::1] score, const uint8_t[::1] is_source,
    const double[::1] phi, const int64_t[::1] ptr, const int32_t[::1] entering, pool,
    int32_t[::1] paths, double[::1] scores, int64_t[::1] bounds,
)

@cython.locals(begin=bint, i=Py_ssize_t, at=Py_ssize_t)
cdef inline bint _best_paths(
    const int32_t[::1] source, const double[::1] score, const uint8_t[::1] is_source,
    const double[::1] phi, const int64_t[::1] ptr, const int32_t[::1] entering, ArcPoolView pool,
    int32_t[::1] paths, double[::1] scores, int64_t[::1] bounds,
) noexcept nogil

@cython.locals(group=Py_ssize_t, best=double, chosen=Py_ssize_t, new=Py_ssize_t)
cdef inline void _put_best(
    const int32_t[::1] source, const double[::1] score, const double[::1] phi,
    const int64_t[::1] ptr, const int32_t[::1] entering, ArcPoolView pool, Py_ssize_t parent,
    double worse, Py_ssize_t after, double priority,
) noexcept nogil
