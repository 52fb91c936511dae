from libc.stdint cimport int32_t, int64_t

cimport cython
from cython cimport floating

from labelwright.kernels.graph cimport BlocksView

# -- exponentials

cdef Py_ssize_t PIECE

@cython.locals(bits=int32_t[::1], scale=float[::1], flat=float[::1], begin=Py_ssize_t, size=Py_ssize_t)
cpdef void exponentiate32(float[:, ::1] x, float[::1] top, Py_ssize_t width)

@cython.locals(s=Py_ssize_t, p=float, q=float, u=float, v=float)
cdef inline float _largest_of_row(const float[:, ::1] x, Py_ssize_t t, Py_ssize_t width) noexcept nogil

@cython.locals(v=float)
cdef inline void _subtract(float[:, ::1] x, Py_ssize_t t, float m) noexcept nogil

@cython.locals(
    log2_e=float, log_2_high=float, log_2_low=float, p0=float, p1=float, p2=float, p3=float, p4=float,
    p5=float, half=float, exponent=float, v=float, k=float, r=float, p=float,
)
cdef inline void _exponentials(
    float[::1] flat, Py_ssize_t begin, Py_ssize_t size, int32_t[::1] bits, float[::1] scale
) noexcept nogil

cpdef void exponentiate64(double[:, ::1] x, double[::1] top, Py_ssize_t width)

@cython.locals(m=double)
cdef void _exponentiate64(double[:, ::1] x, double[::1] top, Py_ssize_t width) noexcept nogil

@cython.locals(first=Py_ssize_t)
cdef void exponentiate_arcs(const double[:, ::1] arc, double[:, ::1] E, double[::1] top) noexcept nogil

# -- messages, sentence by sentence

@cython.locals(p=floating, q=floating, u=floating, v=floating, total=floating)
cdef inline void _onwards(
    const floating[:, ::1] x, Py_ssize_t i, const floating[:, ::1] E, Py_ssize_t e, BlocksView blocks,
    floating[:, ::1] out, Py_ssize_t j,
) noexcept nogil

@cython.locals(t=Py_ssize_t, four=bint, w=floating, x=floating, y=floating, z=floating)
cdef inline void _count_arcs(
    const floating[:, ::1] alpha, const floating[:, ::1] into, Py_ssize_t T, BlocksView blocks,
    floating[::1] arcs,
) noexcept nogil

@cython.locals(by_token=bint, i=Py_ssize_t, total=floating, one=floating)
cdef void sentence_messages(
    const floating[:, ::1] psi, floating[:, ::1] E, BlocksView blocks, const int64_t[::1] steps,
    Py_ssize_t n, Py_ssize_t T, floating[:, ::1] alpha, floating[:, ::1] beta,
    floating[:, ::1] into, floating[::1] scale, floating[::1] sums, bint count,
) noexcept nogil

@cython.locals(total=floating, v=floating, w=floating)
cdef inline void _step_back(
    floating[:, ::1] E, Py_ssize_t e, BlocksView blocks, const floating[:, ::1] alpha, Py_ssize_t j,
    const floating[:, ::1] into, Py_ssize_t i, floating[:, ::1] beta, bint count,
) noexcept nogil

@cython.locals(view=BlocksView)
cpdef void messages_by_sentence(
    const floating[:, ::1] psi, floating[:, ::1] E, blocks, const int64_t[::1] steps,
    const int64_t[::1] lengths, floating[:, ::1] alpha, floating[:, ::1] beta,
    floating[:, ::1] into, floating[::1] scale, floating[::1] sums, bint count,
)

@cython.locals(by_token=bint)
cdef double posteriors(
    double[:, ::1] psi, const double[::1] top, double[:, ::1] E, const double[::1] arc_top,
    BlocksView blocks, const int64_t[::1] steps, double[:, ::1] alpha, double[:, ::1] beta,
    double[:, ::1] into, double[::1] scale, double[::1] sums, double[::1] counts,
) noexcept nogil

# -- messages in time order

cpdef void scale_forward(
    floating[:, ::1] alpha, const floating[:, ::1] psi, Py_ssize_t a, Py_ssize_t b,
    floating[::1] scale, floating[::1] inverse,
)

@cython.locals(total=floating, one=floating)
cdef inline void _scale_forward(
    floating[:, ::1] alpha, const floating[:, ::1] psi, Py_ssize_t a, Py_ssize_t b,
    floating[::1] scale, floating[::1] inverse,
) noexcept nogil

cpdef void scale_backward(
    const floating[:, ::1] beta, const floating[:, ::1] psi, Py_ssize_t a, Py_ssize_t b,
    const floating[::1] inverse, floating[:, ::1] into, floating[::1] sums,
)

@cython.locals(total=floating, one=floating)
cdef inline void _scale_backward(
    const floating[:, ::1] beta, const floating[:, ::1] psi, Py_ssize_t a, Py_ssize_t b,
    const floating[::1] inverse, floating[:, ::1] into, floating[::1] sums,
) noexcept nogil

@cython.locals(
    k=Py_ssize_t, a=Py_ssize_t,
    a0=floating, a1=floating, a2=floating, a3=floating, b0=floating, b1=floating, b2=floating, b3=floating,
    c0=floating, c1=floating, c2=floating, c3=floating, d0=floating, d1=floating, d2=floating, d3=floating,
    p=floating, q=floating, u=floating, v=floating,
)
cdef inline void _products(
    const floating[:, ::1] x, Py_ssize_t i, const floating[:, ::1] E, floating[:, ::1] out,
    Py_ssize_t j, Py_ssize_t n,
) noexcept nogil

cpdef void messages_by_step(
    const floating[:, ::1] psi, const floating[:, ::1] onwards, const floating[:, ::1] backwards,
    const int64_t[::1] steps, floating[:, ::1] alpha, floating[:, ::1] beta,
    floating[:, ::1] into, floating[::1] scale, floating[::1] inverse, floating[::1] sums,
)

@cython.locals(view=BlocksView)
cpdef void onwards(const floating[:, ::1] x, const floating[:, ::1] E, blocks, floating[:, ::1] out)

@cython.locals(view=BlocksView, total=floating)
cpdef void backwards(const floating[:, ::1] x, const floating[:, ::1] E, blocks, floating[:, ::1] out)

@cython.locals(view=BlocksView, v=floating)
cpdef void multiply_outer(
    const floating[:, ::1] x, const floating[:, ::1] y, floating[:, ::1] E, blocks
)

# -- scores of nodes and arcs from those of features

cpdef void pair_nodes(
    const floating[:, ::1] state, const floating[:, ::1] edge, const int64_t[::1] used,
    const double[::1] plain, const int64_t[::1] node_state, floating[:, ::1] node,
)

cpdef void pair_counts(
    const floating[:, ::1] node, const int64_t[::1] used, const int64_t[::1] node_state,
    floating[:, ::1] state, floating[:, ::1] edge, double[::1] plain,
)

cpdef void spread_arcs(
    const floating[:, ::1] rows, const int64_t[::1] used, const floating[::1] base,
    floating[:, ::1] out,
)

@cython.locals(zero=floating)
cpdef void spread_exponentials(
    const floating[:, ::1] rows, const int64_t[::1] used, const floating[::1] base,
    floating[:, ::1] out,
)

cpdef void gather_arcs(
    const floating[:, ::1] arcs, const int64_t[::1] used, floating[:, ::1] rows
)
