from libc.stdint cimport int32_t, int64_t

cimport cython
from cython cimport floating

from labelwright.kernels.graph cimport ContextsView

ctypedef fused summed:  # sums over many tokens may be in float64 where all else is in float32
    float
    double

cdef class ClampedScratch:
    cdef double[:, ::1] messages  # [T, C]
    cdef double[::1] scale  # [T]
    cdef double[:, ::1] nodes  # [3, C]
    cdef int64_t[::1] at, size  # [T]
    cdef int64_t[:, ::1] slot, targets, arc  # [T, C]

@cython.locals(c=Py_ssize_t)
cdef inline bint _follow(
    const int32_t[::1] label, Py_ssize_t first, Py_ssize_t T, ContextsView contexts,
    int64_t[::1] at,
) noexcept nogil

@cython.locals(
    at=int64_t[::1], size=int64_t[::1], slot=int64_t[:, ::1], targets=int64_t[:, ::1],
    arc=int64_t[:, ::1], y=Py_ssize_t, q=Py_ssize_t, b=Py_ssize_t, k=Py_ssize_t,
)
cdef inline void _places(
    const int32_t[::1] label, Py_ssize_t first, Py_ssize_t T, ContextsView contexts,
    ClampedScratch scratch,
) noexcept nogil

@cython.locals(
    by_token=bint, itemsize=Py_ssize_t, here=Py_ssize_t, e=Py_ssize_t, i0=Py_ssize_t, first=Py_ssize_t,
    arc=Py_ssize_t, t=Py_ssize_t, r=Py_ssize_t, s=Py_ssize_t, k=Py_ssize_t, total=double, one=double, v=double, before=double, log_z=double,
    alpha=double[:, ::1], scale=double[::1], beta=double[::1], into=double[::1],
    at=int64_t[::1], size=int64_t[::1], slot=int64_t[:, ::1], targets=int64_t[:, ::1],
    first_arc=int64_t[:, ::1],
)
cdef inline double _clamp(
    const floating[:, ::1] psi, const floating[:, ::1] E, const int64_t[::1] row, Py_ssize_t a,
    Py_ssize_t T, ContextsView contexts, ClampedScratch scratch, floating[:, ::1] states,
    floating[:, :, ::1] pairs,
) noexcept nogil

@cython.locals(view=ContextsView, scratch=ClampedScratch, log_z=double)
cpdef double clamped_in_log_space(
    const double[:, ::1] node, const double[:, ::1] arc, contexts, const int32_t[::1] label,
    double[:, ::1] states, double[:, :, ::1] pairs,
)

@cython.locals(
    by_token=bint, e=Py_ssize_t, q=Py_ssize_t, t=Py_ssize_t, r=Py_ssize_t, k=Py_ssize_t, s=Py_ssize_t, log_z=double,
    beta=double[:, ::1], p=double[::1], at=int64_t[::1], size=int64_t[::1], slot=int64_t[:, ::1],
    targets=int64_t[:, ::1],
)
cdef double _clamped_in_log_space(
    const double[:, ::1] node, const double[:, ::1] arc, ContextsView contexts,
    const int32_t[::1] label, Py_ssize_t first, Py_ssize_t T, double[:, ::1] states,
    double[:, :, ::1] pairs, ClampedScratch scratch,
) noexcept nogil

@cython.locals(b=Py_ssize_t, k0=Py_ssize_t, first=Py_ssize_t, k=Py_ssize_t)
cdef inline void _weigh(
    const double[:, ::1] node, const double[:, ::1] arc, Py_ssize_t e, ContextsView contexts,
    Py_ssize_t t, Py_ssize_t q, Py_ssize_t y, Py_ssize_t slot, const double[:, ::1] beta,
    double[::1] p,
) noexcept nogil

@cython.locals(view=ContextsView, at=int64_t[::1], sums=double[:, ::1], weight=double)
cpdef double labelling_weight(
    const double[:, ::1] node, const double[:, ::1] arc, contexts, const int32_t[::1] label
)

@cython.locals(
    by_token=bint, e=Py_ssize_t, y=Py_ssize_t, i=Py_ssize_t, i0=Py_ssize_t, i1=Py_ssize_t, size=Py_ssize_t,
    q=Py_ssize_t, b=Py_ssize_t, a=Py_ssize_t, k=Py_ssize_t, s=Py_ssize_t, t=Py_ssize_t, v=double,
    alpha=double[::1], new=double[::1], top=double[::1],
)
cdef double _labelling_weight(
    const double[:, ::1] node, const double[:, ::1] arc, ContextsView contexts,
    const int32_t[::1] label, int64_t[::1] at, double[:, ::1] sums,
) noexcept nogil

@cython.locals(
    view=ContextsView, scratch=ClampedScratch, longest=Py_ssize_t, n=Py_ssize_t, a=Py_ssize_t, T=Py_ssize_t
)
cpdef void clamped_posteriors(
    const floating[:, ::1] psi, const floating[::1] top, const floating[:, ::1] E,
    const double[::1] arc_top, const int64_t[::1] row, contexts, const int32_t[::1] label,
    const int64_t[::1] offsets, double[::1] log_z, floating[:, ::1] states,
    floating[:, :, ::1] pairs,
)

@cython.locals(by_token=bint, t=Py_ssize_t, log_z=double)
cdef double _clamped_posteriors(
    const floating[:, ::1] psi, const floating[::1] top, const floating[:, ::1] E,
    const double[::1] arc_top, const int64_t[::1] row, ContextsView contexts,
    const int32_t[::1] label, Py_ssize_t a, Py_ssize_t T, floating[:, ::1] states,
    floating[:, :, ::1] pairs, ClampedScratch scratch,
) noexcept nogil

@cython.locals(view=ContextsView, n=Py_ssize_t, a=Py_ssize_t, b=Py_ssize_t)
cpdef void subtract_clamped(
    floating[:, ::1] node, summed[:, ::1] arcs, contexts, const int32_t[::1] label,
    const int64_t[::1] offsets, const floating[:, ::1] states, const floating[:, :, ::1] pairs,
    const int64_t[::1] row,
)

@cython.locals(
    by_token=bint, c=Py_ssize_t, t=Py_ssize_t, y=Py_ssize_t, e=Py_ssize_t, i0=Py_ssize_t, q=Py_ssize_t, r=Py_ssize_t,
    block=Py_ssize_t, k0=Py_ssize_t, arc=Py_ssize_t, k=Py_ssize_t,
)
cdef void _subtract_clamped(
    floating[:, ::1] node, summed[:, ::1] arcs, ContextsView contexts, const int32_t[::1] label,
    Py_ssize_t a, Py_ssize_t b, const floating[:, ::1] states, const floating[:, :, ::1] pairs,
    const int64_t[::1] row,
) noexcept nogil

@cython.locals(view=ContextsView, c=Py_ssize_t, n=Py_ssize_t, t=Py_ssize_t)
cpdef void paths_of(
    const int32_t[::1] label, contexts, const int64_t[::1] offsets, int32_t[::1] path
)
