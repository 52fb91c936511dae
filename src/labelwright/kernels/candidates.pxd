from libc.stdint cimport int32_t, int64_t, uint8_t

cimport cython
from cython cimport floating

from labelwright.kernels.incidence cimport IncidenceView

cdef double NEGLIGIBLE, NONE, SMALL, LARGE
cdef double FAR

cdef class TransitionsView:
    cdef const int64_t[::1] ptr
    cdef const int32_t[::1] label
    cdef const double[::1] score

# -- cells of slots

@cython.locals(view=IncidenceView, x=double)
cpdef void slot_cells(
    features, const int64_t[::1] cell_ptr, const int32_t[::1] cell_column,
    const int64_t[::1] slot_ptr, const int32_t[::1] slot_label, Py_ssize_t t0, Py_ssize_t t1,
    bint count, int64_t[::1] hit_ptr, int32_t[::1] hit_cell, float[::1] hit_value,
)

cdef inline void _add_hits(
    const int64_t[::1] cell_ptr, const int32_t[::1] cell_column, Py_ssize_t f, double x,
    const int32_t[::1] slot_label, Py_ssize_t a, Py_ssize_t b, bint count, int64_t[::1] hit_ptr,
    int32_t[::1] hit_cell, float[::1] hit_value,
) noexcept nogil

@cython.locals(x=double, total=double)
cpdef void slot_scores(
    const int64_t[::1] hit_ptr, const int32_t[::1] hit_cell, const float[::1] hit_value,
    const floating[::1] weights, Py_ssize_t a, Py_ssize_t b, double[::1] score,
)

@cython.locals(x=double, total=double)
cpdef void collect(
    const int64_t[::1] ptr, const int32_t[::1] owner, const float[::1] value,
    const double[::1] count, Py_ssize_t c0, Py_ssize_t c1, floating[::1] gradient,
)

# -- sums for training

@cython.locals(longest=Py_ssize_t, scale=double[::1])
cpdef void posteriors(
    const int64_t[::1] slot_ptr, const int64_t[::1] pair_ptr, const double[::1] node,
    const int32_t[::1] place, const double[::1] E, const int64_t[::1] offsets, Py_ssize_t n0,
    Py_ssize_t n1, double[::1] alpha, double[::1] beta, double[::1] message,
    double[::1] log_z, double[::1] counts,
)

@cython.locals(top=double)
cdef inline double _forward(
    const int64_t[::1] slot_ptr, const int64_t[::1] pair_ptr, const double[::1] node,
    const int32_t[::1] place, const double[::1] E, Py_ssize_t a, Py_ssize_t b, double[::1] alpha,
    double[::1] beta, double[::1] scale,
) noexcept nogil

@cython.locals(too_large=bint, x=double)
cdef inline bint _backward(
    const int64_t[::1] slot_ptr, const int64_t[::1] pair_ptr, const int32_t[::1] place,
    const double[::1] E, Py_ssize_t a, Py_ssize_t b, double[::1] beta, double[::1] message,
    const double[::1] scale,
) noexcept nogil

cdef inline void _count_pairs(
    const int64_t[::1] slot_ptr, const int64_t[::1] pair_ptr, const int32_t[::1] place,
    const double[::1] E, Py_ssize_t a, Py_ssize_t b, double[::1] alpha, const double[::1] beta,
    const double[::1] message, double[::1] counts,
) noexcept nogil

# -- scores of labels

@cython.locals(x=double)
cdef inline void _score_labels(
    IncidenceView features, const int64_t[::1] cell_ptr, const int32_t[::1] cell_column,
    const floating[::1] weights, const floating[::1] bias, Py_ssize_t t, floating[:, ::1] rows,
    Py_ssize_t at,
) noexcept nogil

@cython.locals(view=IncidenceView)
cpdef void label_rows(
    features, const int64_t[::1] cell_ptr, const int32_t[::1] cell_column,
    const double[::1] weights, const double[::1] bias, Py_ssize_t t0, Py_ssize_t t1,
    double[:, ::1] rows,
)

@cython.locals(top=float)
cdef inline float _largest(const float[:, ::1] rows) noexcept nogil

# -- the zero-order model

@cython.locals(view=IncidenceView, loss=double, top=float, own=float, x=double)
cpdef double zero_order_pass(
    features, const int64_t[::1] cell_ptr, const int32_t[::1] cell_column,
    const int32_t[::1] gold, const int64_t[::1] tokens, double rate, double least,
    double smallest, float[::1] weights, float[::1] squares, float[::1] bias,
    float[::1] bias_squares, float[:, ::1] row,
)

@cython.locals(total=double)
cdef inline double _exponentiate(float[:, ::1] row, float top) noexcept nogil

cdef inline void _make_gradient(
    float[:, ::1] row, double total, double smallest, Py_ssize_t gold
) noexcept nogil

cdef inline void _step_bias(
    const float[:, ::1] row, float[::1] bias, float[::1] squares, double rate
) noexcept nogil

@cython.locals(g=double)
cdef inline void _step(
    float[::1] weights, float[::1] squares, const int64_t[::1] cell_ptr,
    const int32_t[::1] cell_column, Py_ssize_t f, double x, const float[:, ::1] gradient,
    double rate,
) noexcept nogil

@cython.locals(view=IncidenceView, top=float, own=float, above=Py_ssize_t, bin=double)
cpdef void gold_distances(
    features, const int64_t[::1] cell_ptr, const int32_t[::1] cell_column,
    const float[::1] weights, const float[::1] bias, const int32_t[::1] gold,
    const int64_t[::1] tokens, float[:, ::1] row, double[::1] distance, int64_t[::1] rank,
    double width, int64_t[::1] counts,
)

@cython.locals(view=IncidenceView)
cpdef void pick_labels(
    features, const int64_t[::1] cell_ptr, const int32_t[::1] cell_column,
    const float[::1] weights, const float[::1] bias, const int64_t[::1] tokens,
    const uint8_t[:, ::1] permitted, double cutoff, Py_ssize_t most, float[:, ::1] row,
    int64_t[::1] sizes, int32_t[:, ::1] labels, float[:, ::1] scores,
)

@cython.locals(least=double, n=Py_ssize_t, at=Py_ssize_t, y=Py_ssize_t)
cdef inline Py_ssize_t _pick_nearest(
    const float[:, ::1] row, double cutoff, Py_ssize_t most, int32_t[:, ::1] labels, Py_ssize_t i
) noexcept nogil

# -- bounds

cdef inline void _spread(
    double x, Py_ssize_t r, double largest, double best, TransitionsView table, double[::1] bound
) noexcept nogil

@cython.locals(
    transitions=TransitionsView, candidate=uint8_t[::1], came=double[::1], more=double[::1],
    missed=double, missed_raw=double, best=double, x=double, pair=Py_ssize_t,
)
cpdef void add_bounds(
    const double[:, ::1] rows, const int64_t[::1] slot_ptr, const int32_t[::1] slot_label,
    const double[::1] value, const int32_t[::1] arc_place, const int64_t[::1] pair_ptr, table,
    const double[:, ::1] reach, const double[::1] known, bint forward, double[:, ::1] bound,
)

cdef inline double _larger(double x, double y) noexcept nogil

@cython.locals(
    widest=Py_ssize_t, old=double[::1], new=double[::1], came=double[::1], top=double, other=double,
    log_z=double, c=double, ahead=double,
)
cpdef double mass_bound(
    const double[:, ::1] rows, const int64_t[::1] slot_ptr, const int32_t[::1] slot_label,
    const double[::1] pairs, const int32_t[::1] place, const int64_t[::1] pair_ptr,
    const int64_t[::1] all_ptr, const int32_t[::1] all_label, const double[::1] reach,
)

cdef inline void _add_mass(
    const double[::1] old, const int32_t[::1] slot_label, Py_ssize_t before, Py_ssize_t a,
    const double[::1] pairs, const int64_t[::1] all_ptr, const int32_t[::1] all_label,
    const double[::1] reach, double[::1] came,
) noexcept nogil
