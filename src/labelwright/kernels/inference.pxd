from libc.stdint cimport int32_t, int64_t, uint8_t

cimport cython

from labelwright.kernels.graph cimport BlocksView

cdef double ORDINARY

cdef class LatticeScratch:
    cdef double[:, :, ::1] tables  # [4, T, Q]
    cdef double[:, ::1] tokens  # [4, T]
    cdef double[:, ::1] nodes  # [3, Q]
    cdef double[:, ::1] arcs  # [T or 1, A]
    cdef const int64_t[::1] steps  # [T]

# -- best paths

@cython.locals(view=BlocksView, delta=double[:, ::1], score=double)
cpdef double viterbi(
    const double[:, ::1] node, const double[:, ::1] arc, blocks, int32_t[::1] path
)

@cython.locals(
    view=BlocksView, delta=double[:, ::1], n=Py_ssize_t, a=Py_ssize_t, b=Py_ssize_t, longest=Py_ssize_t,
)
cpdef void best_paths(
    const double[:, ::1] node, const double[:, ::1] arc, blocks, const int64_t[::1] offsets,
    int32_t[::1] path, double[::1] scores,
)

@cython.locals(view=BlocksView)
cpdef void prefix_scores(
    const double[:, ::1] node, const double[:, ::1] arc, blocks, double[:, ::1] delta
)

@cython.locals(by_token=bint, at=Py_ssize_t, s=Py_ssize_t, t=Py_ssize_t, score=double)
cdef inline double _viterbi(
    const double[:, ::1] node, const double[:, ::1] arc, Py_ssize_t first, Py_ssize_t T,
    BlocksView blocks, double[:, ::1] delta, int32_t[::1] path,
) noexcept nogil

@cython.locals(
    block=Py_ssize_t, width=Py_ssize_t, a=Py_ssize_t, chosen=Py_ssize_t, k=Py_ssize_t, r=Py_ssize_t,
    best=double, v=double,
)
cdef inline Py_ssize_t _best_source(
    const double[:, ::1] delta, Py_ssize_t t, const double[:, ::1] arc, Py_ssize_t e,
    BlocksView blocks, Py_ssize_t s,
) noexcept nogil

@cython.locals(
    by_token=bint, s0=Py_ssize_t, width=Py_ssize_t, n=Py_ssize_t, k=Py_ssize_t, last=Py_ssize_t, e=Py_ssize_t,
    a=Py_ssize_t, b=Py_ssize_t, c=Py_ssize_t, d=Py_ssize_t, s=Py_ssize_t,
    p=double, q=double, u=double, v=double, x=double, y=double, z=double,
)
cdef inline void _prefix_scores(
    const double[:, ::1] node, const double[:, ::1] arc, Py_ssize_t first, Py_ssize_t T,
    BlocksView blocks, double[:, ::1] delta,
) noexcept nogil

@cython.locals(
    view=BlocksView, scratch=double[:, :, ::1], best=double[:, ::1], worst=double[:, ::1],
    other=double[:, ::1], last=Py_ssize_t, highest=double, lowest=double, aside=double, s=Py_ssize_t,
)
cpdef tuple margins(
    const double[:, ::1] node, const double[:, ::1] arc, blocks, const int32_t[::1] label_of_node,
    const int32_t[::1] gold,
)

@cython.locals(
    by_token=bint, r=Py_ssize_t, s0=Py_ssize_t, a=Py_ssize_t, s=Py_ssize_t, e=Py_ssize_t,
    now=Py_ssize_t, before=Py_ssize_t, v=double, x=double,
)
cdef inline Py_ssize_t _margins(
    const double[:, ::1] node, const double[:, ::1] arc, BlocksView blocks,
    const int32_t[::1] label_of_node, const int32_t[::1] gold, double[:, ::1] best,
    double[:, ::1] worst, double[:, ::1] other,
) noexcept nogil

# -- sums over all paths

@cython.locals(view=BlocksView, scratch=LatticeScratch, log_z=double)
cpdef double messages(
    const double[:, ::1] node, const double[:, ::1] arc, blocks, double[:, ::1] nodes,
    double[:, ::1] ahead,
)

@cython.locals(log_z=double)
cdef double _messages(
    const double[:, ::1] node, const double[:, ::1] arc, BlocksView blocks, double[:, ::1] nodes,
    double[:, ::1] ahead, LatticeScratch scratch,
) noexcept nogil

@cython.locals(total=double, one=double)
cdef inline void _multiply(
    const double[:, ::1] alpha, const double[:, ::1] beta, Py_ssize_t t, double[:, ::1] nodes
) noexcept nogil

@cython.locals(
    by_token=bint, t=Py_ssize_t, psi=double[:, ::1], alpha=double[:, ::1], beta=double[:, ::1],
    into=double[:, ::1], E=double[:, ::1], top=double[::1], scale=double[::1], sums=double[::1],
    arc_top=double[::1],
)
cdef inline double _scaled_messages(
    const double[:, ::1] node, const double[:, ::1] arc, BlocksView blocks, double[:, ::1] nodes,
    double[:, ::1] ahead, LatticeScratch scratch,
) noexcept nogil

@cython.locals(top=double, i=Py_ssize_t)
cdef inline (double, double) _onward(
    const double[:, ::1] arc, Py_ssize_t e, Py_ssize_t a, const double[:, ::1] ahead, Py_ssize_t t,
    Py_ssize_t first, Py_ssize_t n, double[::1] p,
) noexcept nogil

@cython.locals(
    by_token=bint, t=Py_ssize_t, e=Py_ssize_t, r=Py_ssize_t, p=double[::1], log_beta=double[::1],
    tops=double[::1], row=double[::1],
)
cdef inline double _log_messages(
    const double[:, ::1] node, const double[:, ::1] arc, BlocksView blocks, double[:, ::1] ahead,
    LatticeScratch scratch,
) noexcept nogil

@cython.locals(by_token=bint, e=Py_ssize_t, s0=Py_ssize_t, n=Py_ssize_t, p=double[::1], w=double)
cdef inline double _forward(
    const double[:, ::1] arc, BlocksView blocks, double[:, ::1] nodes, const double[:, ::1] ahead,
    LatticeScratch scratch,
) noexcept nogil

@cython.locals(view=BlocksView, scratch=LatticeScratch)
cpdef void posterior_arcs(
    const double[:, ::1] arc, blocks, const double[:, ::1] nodes, const double[:, ::1] ahead,
    double[:, ::1] arcs,
)

@cython.locals(
    by_token=bint, e=Py_ssize_t, into=Py_ssize_t, s0=Py_ssize_t, n=Py_ssize_t, a=Py_ssize_t,
    j=Py_ssize_t, k=Py_ssize_t, w=double, w0=double, w1=double, w2=double, w3=double, total=double,
    p=double[::1], psi=double[::1], E=double[::1],
)
cdef void _posterior_arcs(
    const double[:, ::1] arc, BlocksView blocks, const double[:, ::1] nodes,
    const double[:, ::1] ahead, double[:, ::1] arcs, LatticeScratch scratch,
) noexcept nogil

@cython.locals(top=double)
cdef inline void _exponentials(
    const double[:, ::1] x, Py_ssize_t t, Py_ssize_t n, double[::1] out
) noexcept nogil

# -- sums through spans

@cython.locals(
    view=BlocksView, scratch=double[:, ::1], v=double[::1], w=double[::1], p=double[::1],
    c=Py_ssize_t, begin=Py_ssize_t, end=Py_ssize_t, one=double,
)
cpdef void span_probabilities(
    const double[:, ::1] node, const double[:, ::1] arc, blocks, const int64_t[::1] state,
    const double[:, ::1] nodes, const double[:, ::1] ahead, const int64_t[:, ::1] spans,
    const uint8_t[:, :, ::1] opening, const uint8_t[:, :, ::1] inside,
    const uint8_t[:, :, ::1] closing, double[::1] probability,
)

@cython.locals(best=Py_ssize_t, i=Py_ssize_t, r=Py_ssize_t, s0=Py_ssize_t, top=double, log_total=double)
cdef inline double _log_ratio(
    const double[:, ::1] arc, Py_ssize_t e, BlocksView blocks, const double[:, ::1] ahead,
    Py_ssize_t t, const double[:, ::1] node, const double[:, ::1] nodes, double[::1] p,
) noexcept nogil

@cython.locals(by_token=bint, t=Py_ssize_t, e=Py_ssize_t, s=Py_ssize_t, ratio=double, total=double)
cdef inline double _span_probability(
    const double[:, ::1] node, const double[:, ::1] arc, BlocksView blocks,
    const int64_t[::1] state, const double[:, ::1] nodes, const double[:, ::1] ahead,
    Py_ssize_t begin, Py_ssize_t end, const uint8_t[:, ::1] opening, const uint8_t[:, ::1] inside,
    const uint8_t[:, ::1] closing, double[::1] v, double[::1] w, double[::1] p,
) noexcept nogil

@cython.locals(r=Py_ssize_t, s0=Py_ssize_t, n=Py_ssize_t, a=Py_ssize_t, weight=double, log_beta=double)
cdef inline void _spread(
    const double[:, ::1] node, const double[:, ::1] arc, Py_ssize_t e, BlocksView blocks,
    const int64_t[::1] state, const double[:, ::1] ahead, Py_ssize_t t, double ratio,
    const uint8_t[:, ::1] allowed, const double[::1] v, double[::1] w, double[::1] p,
) noexcept nogil
