from libc.stdint cimport int32_t, int64_t

cimport cython
from cython cimport floating

cdef Py_ssize_t BLOCK, RUN, AHEAD, TOKENS_AHEAD, LINE

cdef class CellsView:
    cdef const int64_t[::1] ptr
    cdef const int32_t[::1] cell, column

cdef class RowsView:
    cdef const int64_t[::1] ptr
    cdef const int32_t[::1] row

# -- sums of an owner

@cython.locals(i=Py_ssize_t, c=Py_ssize_t, f=Py_ssize_t, x=double)
cdef inline void _add_features(
    const floating[::1] weights, const int64_t[::1] cell_ptr, const int32_t[::1] cell_column,
    const int64_t[::1] ptr, const int32_t[::1] feature, const double[::1] value, Py_ssize_t k,
    double[:, ::1] rows, Py_ssize_t at,
) noexcept nogil

@cython.locals(i=Py_ssize_t, a=Py_ssize_t, b=Py_ssize_t)
cdef inline void _add_cells(
    const floating[::1] weights, CellsView cells, const floating[::1] value, Py_ssize_t k,
    floating[:, ::1] rows, Py_ssize_t at,
) noexcept nogil

@cython.locals(
    width=Py_ssize_t, i=Py_ssize_t, end=Py_ssize_t, s=Py_ssize_t, a=Py_ssize_t, b=Py_ssize_t,
    c=Py_ssize_t, d=Py_ssize_t, x=floating,
)
cdef inline void _add_rows(
    const floating[:, ::1] table, RowsView lists, const floating[::1] value, Py_ssize_t k,
    floating[:, ::1] rows, Py_ssize_t at,
) noexcept nogil

@cython.locals(
    width=Py_ssize_t, groups=Py_ssize_t, g=Py_ssize_t, s=Py_ssize_t, a=Py_ssize_t, b=Py_ssize_t,
    c=Py_ssize_t, d=Py_ssize_t,
)
cdef inline void _add_keys(
    const int32_t[:, ::1] keys, const floating[:, ::1] table, Py_ssize_t t, floating[:, ::1] rows,
    Py_ssize_t at,
) noexcept nogil

@cython.locals(s=Py_ssize_t)
cdef inline void _fetch_row(const floating[:, ::1] table, Py_ssize_t i) noexcept nogil

@cython.locals(g=Py_ssize_t)
cdef inline void _fetch_keys(
    const int32_t[:, ::1] keys, const floating[:, ::1] table, Py_ssize_t t
) noexcept nogil

@cython.locals(i=Py_ssize_t)
cdef inline void _fetch_cells(const floating[::1] weights, CellsView cells, Py_ssize_t k) noexcept nogil

# -- scores

@cython.locals(k=Py_ssize_t, s=Py_ssize_t)
cpdef void score_keys(
    const floating[::1] weights, const int64_t[::1] cell_ptr, const int32_t[::1] cell_column,
    const int64_t[::1] ptr, const int32_t[::1] feature, const double[::1] value,
    double[:, ::1] table, Py_ssize_t k0, Py_ssize_t k1,
)

@cython.locals(t=Py_ssize_t)
cpdef void score_tokens(
    const floating[::1] weights, const int64_t[::1] cell_ptr, const int32_t[::1] cell_column,
    const int32_t[:, ::1] keys, const double[:, ::1] table, const int64_t[::1] ptr,
    const int32_t[::1] feature, const double[::1] value, Py_ssize_t t0, Py_ssize_t t1,
    double[:, ::1] node,
)

@cython.locals(
    of_cells=CellsView, of_rows=RowsView, k=Py_ssize_t, s=Py_ssize_t
)
cpdef void score_key_rows(
    const floating[::1] weights, cells, const floating[::1] cell_value,
    const floating[:, ::1] dense, lists, const floating[::1] row_value,
    floating[:, ::1] table, Py_ssize_t k0, Py_ssize_t k1,
)

@cython.locals(
    of_cells=CellsView, of_rows=RowsView, t=Py_ssize_t, s=Py_ssize_t
)
cpdef void score_rows(
    const floating[::1] weights, const int32_t[:, ::1] keys, const floating[:, ::1] table, cells,
    const floating[::1] cell_value, const floating[:, ::1] dense, lists,
    const floating[::1] row_value, floating[:, ::1] rows,
)

@cython.locals(i=Py_ssize_t, s=Py_ssize_t, c=Py_ssize_t, f=Py_ssize_t)
cpdef void spread_cells(
    const floating[::1] weights, const int64_t[::1] cell_ptr, const int32_t[::1] cell_column,
    const int64_t[::1] feature, floating[:, ::1] rows, Py_ssize_t i0, Py_ssize_t i1,
)

# -- gradients

@cython.locals(i=Py_ssize_t, c=Py_ssize_t, f=Py_ssize_t)
cpdef void gather_cells(
    const floating[:, ::1] rows, const int64_t[::1] cell_ptr, const int32_t[::1] cell_column,
    const int64_t[::1] feature, floating[::1] gradient, Py_ssize_t i0, Py_ssize_t i1,
)

@cython.locals(run=floating[::1], single=bint, i=Py_ssize_t, k=Py_ssize_t, a=Py_ssize_t, s=Py_ssize_t, stop=Py_ssize_t)
cpdef void pool_rows(
    const int32_t[::1] item, const int64_t[::1] ptr, const int32_t[::1] owner,
    const floating[::1] value, const floating[:, ::1] rows, floating[:, ::1] table, Py_ssize_t i0,
    Py_ssize_t i1,
)

@cython.locals(
    width=Py_ssize_t, i=Py_ssize_t, j=Py_ssize_t, s=Py_ssize_t, a=Py_ssize_t, b=Py_ssize_t,
    c=Py_ssize_t, d=Py_ssize_t, n=Py_ssize_t, x=floating,
)
cdef inline void _sum_rows(
    const int32_t[::1] owner, const floating[::1] value, const floating[:, ::1] rows,
    Py_ssize_t begin, Py_ssize_t stop, floating[::1] run,
) noexcept nogil

@cython.locals(
    weighted=bint, i=Py_ssize_t, j=Py_ssize_t, a=Py_ssize_t, b=Py_ssize_t, f=Py_ssize_t,
    c=Py_ssize_t, s=Py_ssize_t, g=double,
)
cpdef void collect(
    const int32_t[::1] feature, const int64_t[::1] ptr, const int32_t[::1] owner,
    const floating[::1] value, const floating[:, ::1] rows, const int64_t[::1] cell_ptr,
    const int32_t[::1] cell_column, floating[::1] gradient, Py_ssize_t i0, Py_ssize_t i1,
)

@cython.locals(
    of_cells=CellsView, of_rows=RowsView, t=Py_ssize_t, at=Py_ssize_t, i=Py_ssize_t, s=Py_ssize_t,
    p=Py_ssize_t, slot=Py_ssize_t, total=floating,
)
cpdef void value_gradient(
    const floating[::1] weights, cells, const int64_t[::1] slot_of_cell,
    const floating[:, ::1] dense, lists, const int64_t[::1] slot_of_row, Py_ssize_t t0,
    Py_ssize_t t1, const floating[:, ::1] rows, double[::1] gradient,
)

# -- passes over long vectors

@cython.locals(
    a=Py_ssize_t, b=Py_ssize_t, i=Py_ssize_t, j=Py_ssize_t, three=bint
)
cpdef void dots(
    const floating[:, ::1] basis, const int64_t[::1] rows, Py_ssize_t begin, Py_ssize_t end,
    double[:, ::1] out,
)

@cython.locals(c=Py_ssize_t, total=floating)
cdef inline double _dot(
    const floating[:, ::1] basis, Py_ssize_t i, Py_ssize_t j, Py_ssize_t a, Py_ssize_t b
) noexcept nogil

@cython.locals(
    c=Py_ssize_t, p=Py_ssize_t, q=Py_ssize_t, r=Py_ssize_t, v=floating, x=floating, y=floating,
    z=floating,
)
cdef inline void _add_three_dots(
    const floating[:, ::1] basis, const int64_t[::1] rows, Py_ssize_t j, Py_ssize_t a,
    Py_ssize_t b, double[:, ::1] out,
) noexcept nogil

@cython.locals(used="const int64_t[::1]", a=Py_ssize_t, b=Py_ssize_t, c=Py_ssize_t)
cpdef void combine(
    const floating[:, ::1] basis, const double[::1] coefficients, Py_ssize_t begin, Py_ssize_t end,
    floating[::1] out,
)

@cython.locals(
    c=Py_ssize_t, i=Py_ssize_t, p=Py_ssize_t, q=Py_ssize_t, r=Py_ssize_t, s=Py_ssize_t, w=floating,
    x=floating, y=floating, z=floating,
)
cdef inline void _add_multiples(
    const floating[:, ::1] basis, const double[::1] coefficients, const int64_t[::1] used,
    Py_ssize_t a, Py_ssize_t b, floating[::1] out,
) noexcept nogil

@cython.locals(c=Py_ssize_t, s=floating)
cpdef void advance(
    const floating[::1] x, const floating[::1] direction, double step, Py_ssize_t begin,
    Py_ssize_t end, floating[::1] out,
)

@cython.locals(
    a=Py_ssize_t, b=Py_ssize_t, c=Py_ssize_t, squares=floating, gd=floating, ridge=floating,
    g=floating,
)
cpdef void add_ridge(
    const floating[::1] x, const floating[::1] l2, floating[::1] gradient,
    const floating[::1] direction, Py_ssize_t begin, Py_ssize_t end, double[::1] out,
)

@cython.locals(c=Py_ssize_t)
cpdef void differences(
    const floating[::1] x, const floating[::1] old_x, const floating[::1] g,
    const floating[::1] old_g, Py_ssize_t begin, Py_ssize_t end, floating[::1] s, floating[::1] y,
)
