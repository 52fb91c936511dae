from libc.stdint cimport int32_t, int64_t

cimport cython

from labelwright.kernels.graph cimport ContextsView

cdef enum:  # how a search call ends, as in decode.paths
    DONE = 0
    LIMIT = 1
    FULL = 2

cdef enum:  # places in the counters
    MADE = 0
    SIZE = 1
    TAKEN = 2
    LABELLINGS = 3

cdef class RankedView:
    cdef const double[:, ::1] node, arc, delta
    cdef const int64_t[::1] source_ptr, source, origin, base

cdef class SuffixPoolView:
    cdef double[::1] priority, value, last
    cdef int32_t[::1] state, parent, depth, heap
    cdef int64_t[::1] counts

@cython.locals(best=double, v=double, chosen=Py_ssize_t, r=Py_ssize_t)
cdef (double, Py_ssize_t) _last_node(RankedView lattice, double worse, Py_ssize_t after) noexcept nogil

@cython.locals(e=Py_ssize_t, best=double, v=double, chosen=Py_ssize_t, r=Py_ssize_t)
cdef (double, Py_ssize_t) _next_before(
    RankedView lattice, Py_ssize_t t, Py_ssize_t s, double worse, Py_ssize_t after
) noexcept nogil

@cython.locals(new=Py_ssize_t)
cdef inline void _put(
    SuffixPoolView pool, Py_ssize_t t, Py_ssize_t parent, double value, Py_ssize_t node,
    double priority,
) noexcept nogil

@cython.locals(
    counts=int64_t[::1], i=Py_ssize_t, t=Py_ssize_t, parent=Py_ssize_t, chosen=Py_ssize_t, best=double,
    priority=double, at=Py_ssize_t,
)
cdef int _next_path(RankedView lattice, SuffixPoolView pool, int32_t[::1] path) noexcept nogil

@cython.locals(ranked=RankedView, view=SuffixPoolView, n=Py_ssize_t, status=int)
cpdef int best_paths(lattice, pool, int32_t[:, ::1] paths, double[::1] scores)

@cython.locals(
    ranked=RankedView, view=SuffixPoolView, followed=ContextsView, path=int32_t[::1],
    at=int64_t[::1], sums=double[:, ::1], status=int,
)
cpdef int latent_dynamic_inference(
    lattice, contexts, pool, const int32_t[::1] label_of, double log_z, int64_t n, double alpha,
    int32_t[:, ::1] labels, double[::1] log_p, int32_t[::1] slots, int64_t base,
)

@cython.locals(
    counts=int64_t[::1], last=double[::1], i=Py_ssize_t, slot=Py_ssize_t, new=Py_ssize_t, status=int,
    weight=double, p=double,
)
cdef int _infer(
    RankedView lattice, ContextsView contexts, SuffixPoolView pool, const int32_t[::1] label_of,
    double log_z, int64_t n, double alpha, int32_t[:, ::1] labels, double[::1] log_p,
    int32_t[::1] slots, int64_t base, int32_t[::1] path, int64_t[::1] at, double[:, ::1] sums,
) noexcept nogil
