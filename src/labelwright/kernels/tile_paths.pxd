from libc.stdint cimport int32_t, int64_t, uint8_t

cimport cython

cdef Py_ssize_t KEPT
cdef Py_ssize_t PAD

# -- what is read and written

cdef class FeaturesView:
    cdef const int64_t[:, ::1] ptr, dense
    cdef const int32_t[::1] feature, gram
    cdef const int32_t[:, ::1] weights_of
    cdef const float[::1] value
    cdef const uint8_t[::1] learns

cdef class TilesView:
    cdef Py_ssize_t order, plain_begin, repeat, n_labels, n_states, n_nodes, most
    cdef bint merged, by_matrix
    cdef const int64_t[::1] first, label_of, gram_begin, place, size, row_begin, width
    cdef const int64_t[::1] plain_cell, row_of_plain
    cdef const uint8_t[::1] featured
    cdef const float[::1] fence, start, end
    cdef const int64_t[:, ::1] steps
    cdef const int32_t[::1] state, before, middle

cdef class Transitions:
    cdef readonly float[::1] plain
    cdef readonly float[:, ::1] matrix

@cython.locals(transitions=Transitions)
cpdef Transitions transitions_of(TilesView tiles, const float[::1] weights)

cdef Py_ssize_t _padded(Py_ssize_t n) noexcept nogil

@cython.locals(source=Py_ssize_t, target=Py_ssize_t, at=Py_ssize_t, width=Py_ssize_t)
cdef void _fill_matrix(
    TilesView tiles, const float[::1] plain, float[:, ::1] matrix
) noexcept nogil

cdef class PathScratch:
    cdef float[:, ::1] rows
    cdef float[::1] row
    cdef int64_t[::1] rest
    cdef float[::1] first
    cdef float[::1] repeated
    cdef float[:, ::1] deltas
    cdef int32_t[:, ::1] back
    cdef Py_ssize_t cube
    cdef float[::1] gold_rows
    cdef float[:, ::1] gold_deltas
    cdef int32_t[:, ::1] gold_back
    cdef int64_t[:, ::1] gold_step
    cdef int64_t[::1] sizes

@cython.locals(scratch=PathScratch, width=Py_ssize_t, most=Py_ssize_t)
cdef PathScratch make_scratch(TilesView tiles, Py_ssize_t longest)

# -- the scores of tokens

@cython.locals(first=Py_ssize_t, width=Py_ssize_t, sparse=Py_ssize_t, place=Py_ssize_t)
cdef void _score(
    const float[::1] weights, FeaturesView features, TilesView tiles, Py_ssize_t n,
    Py_ssize_t begin, Py_ssize_t T, float[:, ::1] rows, int64_t[::1] rest,
) noexcept nogil

@cython.locals(
    a=Py_ssize_t, b=Py_ssize_t, c=Py_ssize_t, d=Py_ssize_t,
    e=Py_ssize_t, f=Py_ssize_t, g=Py_ssize_t, h=Py_ssize_t,
    i=Py_ssize_t, end=Py_ssize_t, low=float, high=float,
)
cdef void _add_dense(
    const float[::1] weights, const int64_t[:, ::1] ptr, const int32_t[::1] feature, Py_ssize_t n,
    Py_ssize_t begin, Py_ssize_t T, Py_ssize_t sparse, Py_ssize_t place, Py_ssize_t width,
    float[:, ::1] rows, Py_ssize_t first, int64_t[::1] rest,
) noexcept nogil

@cython.locals(
    t=Py_ssize_t, f=Py_ssize_t, e=Py_ssize_t, many=Py_ssize_t, a=Py_ssize_t, i=Py_ssize_t,
    j=Py_ssize_t,
)
cdef void _add_sparse(
    const float[::1] weights, FeaturesView features, Py_ssize_t n, Py_ssize_t begin, Py_ssize_t T,
    Py_ssize_t shift, float[:, ::1] rows, const int64_t[::1] rest,
) noexcept nogil

@cython.locals(
    v=float, e=Py_ssize_t, many=Py_ssize_t, b=Py_ssize_t, f=Py_ssize_t, gram=Py_ssize_t,
    p=Py_ssize_t, numbers=Py_ssize_t,
)
cdef void _add_any(
    const float[::1] weights, FeaturesView features, TilesView tiles, Py_ssize_t n,
    Py_ssize_t begin, Py_ssize_t T, float[:, ::1] rows,
) noexcept nogil

@cython.locals(begin=Py_ssize_t, n_grams=Py_ssize_t, at=Py_ssize_t, a=Py_ssize_t, cell=Py_ssize_t)
cdef Py_ssize_t find_cell(
    FeaturesView features, TilesView tiles, Py_ssize_t f, Py_ssize_t gram, Py_ssize_t column
) noexcept nogil

cdef bint right_label(
    const uint8_t[:, ::1] sets, Py_ssize_t y, Py_ssize_t label, Py_ssize_t n_labels
) noexcept nogil

@cython.locals(y=Py_ssize_t, no=float)
cdef void _limit(
    TilesView tiles, const int64_t[::1] gold, const uint8_t[:, ::1] sets, float margin,
    float[:, ::1] rows, Py_ssize_t n_rows, Py_ssize_t begin,
) noexcept nogil

# -- steps from token to token

@cython.locals(
    source=Py_ssize_t, target=Py_ssize_t, a=Py_ssize_t, b=Py_ssize_t, width=Py_ssize_t,
    d=float, v=float,
)
cdef void _step(
    float[:, ::1] deltas, Py_ssize_t t, const float[::1] row, const int64_t[:, ::1] steps
) noexcept nogil

@cython.locals(
    source=Py_ssize_t, target=Py_ssize_t, a=Py_ssize_t, b=Py_ssize_t, width=Py_ssize_t,
    d=float, v=float, best=float, node=int32_t,
)
cdef void _step_and_back(
    float[:, ::1] deltas, Py_ssize_t t, const float[::1] row, const int64_t[:, ::1] steps,
    int32_t[:, ::1] back,
) noexcept nogil

@cython.locals(
    a=Py_ssize_t, e=Py_ssize_t, b=Py_ssize_t, width=Py_ssize_t, v=float, best=float, node=int32_t,
)
cdef void _wide_step_and_back(
    const float[::1] repeated, float[:, ::1] deltas, Py_ssize_t t, const float[::1] row,
    const int64_t[:, ::1] steps, int32_t[:, ::1] back,
) noexcept nogil

@cython.locals(
    best=float, v=float, node=Py_ssize_t, place=Py_ssize_t, source=Py_ssize_t, at=Py_ssize_t,
    R=Py_ssize_t, M=Py_ssize_t, U=Py_ssize_t, r=Py_ssize_t,
)
cdef Py_ssize_t _came_from(
    const float[:, ::1] deltas, Py_ssize_t t, const float[::1] row, const int64_t[:, ::1] steps,
    Py_ssize_t q,
) noexcept nogil

cdef Py_ssize_t _first_largest(const float[:, ::1] x, Py_ssize_t t, Py_ssize_t n) noexcept nogil

@cython.locals(top=float)
cdef void _lower(float[:, ::1] deltas, Py_ssize_t t, Py_ssize_t n) noexcept nogil

cdef float _larger(float x, float y) noexcept nogil

@cython.locals(
    i=Py_ssize_t, a=float, b=float, c=float, d=float, e=float, f=float, g=float, h=float,
    low=float, high=float,
)
cdef void _matrix_steps(
    float[:, ::1] deltas, const float[:, ::1] matrix, const float[:, ::1] rows, Py_ssize_t T
) noexcept nogil

@cython.locals(s=Py_ssize_t, state=Py_ssize_t, best=float, v=float)
cdef void _trace_matrix(
    const float[:, ::1] deltas, const float[:, ::1] matrix, int64_t[::1] path
) noexcept nogil

@cython.locals(q=Py_ssize_t)
cdef void _trace(
    const float[:, ::1] deltas, const float[::1] arcs, const int32_t[:, ::1] back, TilesView tiles,
    bint by_token, int64_t[::1] path,
) noexcept nogil

# -- best paths

cdef void best_path(
    const float[::1] weights, Transitions transitions, TilesView tiles, FeaturesView features,
    Py_ssize_t begin, const int64_t[::1] gold, const uint8_t[:, ::1] sets, float margin,
    PathScratch scratch, int64_t[::1] path,
) noexcept nogil

@cython.locals(rows=float[:, ::1], deltas=float[:, ::1])
cdef void _matrix_path(
    const float[::1] weights, const float[:, ::1] matrix, TilesView tiles, FeaturesView features,
    Py_ssize_t begin, const int64_t[::1] gold, const uint8_t[:, ::1] sets, float margin,
    PathScratch scratch, int64_t[::1] path,
) noexcept nogil

@cython.locals(
    rows=float[:, ::1], row=float[::1], pairs=float[::1], arcs=float[::1], first=float[::1],
    deltas=float[:, ::1], back=int32_t[:, ::1], repeated=float[::1], by_token=bint,
    repeat=Py_ssize_t,
)
cdef void _tile_path(
    const float[::1] weights, float[::1] plain, TilesView tiles, FeaturesView features,
    Py_ssize_t begin, const int64_t[::1] gold, const uint8_t[:, ::1] sets, float margin,
    PathScratch scratch, int64_t[::1] path,
) noexcept nogil

@cython.locals(
    rows=float[::1], sizes=int64_t[::1], gram=Py_ssize_t, k=Py_ssize_t, power=Py_ssize_t,
    y=Py_ssize_t, size=Py_ssize_t, column=Py_ssize_t, at=Py_ssize_t, cell=Py_ssize_t, v=float,
)
cdef void _score_gold(
    const float[::1] weights, const float[::1] plain, TilesView tiles, FeaturesView features,
    Py_ssize_t begin, Py_ssize_t t, const int64_t[::1] gold, PathScratch scratch,
) noexcept nogil

@cython.locals(
    rows=float[::1], deltas=float[:, ::1], back=int32_t[:, ::1], sizes=int64_t[::1],
    H=Py_ssize_t, before=Py_ssize_t, shared=Py_ssize_t, n_nodes=Py_ssize_t, q=Py_ssize_t,
    top=float, no=float,
)
cdef void gold_path(
    const float[::1] weights, const float[::1] plain, TilesView tiles, FeaturesView features,
    Py_ssize_t begin, const int64_t[::1] gold, PathScratch scratch, int64_t[::1] path,
) noexcept nogil
