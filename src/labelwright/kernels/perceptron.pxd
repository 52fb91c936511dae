from libc.stdint cimport int32_t, int64_t, uint8_t

cimport cython

from labelwright.kernels.tile_paths cimport FeaturesView, PathScratch, TilesView, Transitions

ctypedef fused weight:
    float
    double
    int32_t
    uint8_t

cdef double NEARLY
cdef int64_t SPREAD

# -- what is read and written

cdef class DataView:
    cdef const int64_t[::1] offsets, gold
    cdef const uint8_t[:, ::1] sets
    cdef const double[::1] of_sentences, of_tokens
    cdef FeaturesView features
    cdef Py_ssize_t most_cells

cdef class RuleView:
    cdef double margin, limit, damping, power, share
    cdef float on_top
    cdef bint passive, shared

cdef class StateView:
    cdef float[::1] weights, variances
    cdef double[::1] sums

cdef class Difference:
    cdef int64_t[::1] cell, used, size
    cdef float[::1] value
    cdef Py_ssize_t n

cdef class Tally:
    cdef Py_ssize_t mistakes
    cdef double loss, errors

# -- the difference of two paths

@cython.locals(difference=Difference, size=Py_ssize_t)
cdef Difference _empty_difference(Py_ssize_t most_cells, bint shared)

@cython.locals(slot=Py_ssize_t, n=Py_ssize_t)
cdef void _count(
    Difference difference, Py_ssize_t mask, Py_ssize_t cell, float v, Py_ssize_t size
) noexcept nogil

@cython.locals(most=Py_ssize_t, size=Py_ssize_t)
cdef Py_ssize_t _slots(
    Difference difference, FeaturesView features, Py_ssize_t begin, const int64_t[::1] path,
    const int64_t[::1] other, bint shared,
) noexcept nogil

@cython.locals(
    same=bint, k=Py_ssize_t, place=Py_ssize_t, labels=Py_ssize_t, width=Py_ssize_t, s=Py_ssize_t,
    y=Py_ssize_t, gram=Py_ssize_t, at=Py_ssize_t, v=float, cell=Py_ssize_t, column=Py_ssize_t,
)
cdef void _count_path(
    Difference difference, Py_ssize_t mask, TilesView tiles, FeaturesView features,
    Py_ssize_t begin, const int64_t[::1] path, const int64_t[::1] other, float sign, bint shared,
) noexcept nogil

# -- the update

@cython.locals(
    short=double, norm=double, required=double, x=double, slot=Py_ssize_t, cell=Py_ssize_t,
    adaptive=bint, rate=double,
)
cdef (double, double) _rate(
    Difference difference, StateView state, RuleView rule, Py_ssize_t wrong
) noexcept nogil

@cython.locals(weight=double, total=double, begin=Py_ssize_t, wrong=Py_ssize_t)
cdef double _counts(
    DataView data, TilesView tiles, Py_ssize_t n, const int64_t[::1] best
) noexcept nogil

@cython.locals(step=float, at=Py_ssize_t)
cdef void _move(
    StateView state, Transitions transitions, TilesView tiles, Py_ssize_t taken, Py_ssize_t cell,
    double change,
) noexcept nogil

@cython.locals(
    slot=Py_ssize_t, size=Py_ssize_t, cell=Py_ssize_t, first=Py_ssize_t, change=double, step=float,
    x=double, v=double,
)
cdef void _apply(
    Difference difference, double rate, RuleView rule, Py_ssize_t taken, StateView state,
    Transitions transitions, TilesView tiles,
) noexcept nogil

@cython.locals(wrong=Py_ssize_t, partial=bint)
cdef Py_ssize_t _paths(
    const float[::1] weights, Transitions transitions, TilesView tiles, DataView data,
    Py_ssize_t begin, const int64_t[::1] labels, float margin, PathScratch scratch,
    int64_t[::1] best, int64_t[::1] target,
) noexcept nogil

@cython.locals(rate=double, short=double)
cdef void _update(
    Difference difference, DataView data, TilesView tiles, RuleView rule, StateView state,
    Transitions transitions, Py_ssize_t taken, Py_ssize_t n, const int64_t[::1] best,
    const int64_t[::1] target, Py_ssize_t wrong, Tally tally,
) noexcept nogil

# -- passes

@cython.locals(
    how=RuleView, view=StateView, tally=Tally, scratch=PathScratch, transitions=Transitions,
    difference=Difference, longest=Py_ssize_t,
    found=int64_t[::1], sought=int64_t[::1], best=int64_t[::1], target=int64_t[::1],
    begin=Py_ssize_t, T=Py_ssize_t, n=Py_ssize_t, wrong=Py_ssize_t,
)
cpdef tuple perceptron_pass(
    const int64_t[::1] order, DataView data, TilesView tiles, rule, state, Py_ssize_t taken,
)

@cython.locals(
    how=RuleView, scratch=PathScratch, a=Py_ssize_t, b=Py_ssize_t,
)
cpdef void find_paths(
    const int64_t[::1] order, DataView data, TilesView tiles, rule,
    const float[::1] weights, Transitions transitions, int64_t[::1] best,
    int64_t[::1] target, int64_t[::1] wrong,
)

@cython.locals(
    how=RuleView, view=StateView, tally=Tally, difference=Difference, a=Py_ssize_t, b=Py_ssize_t,
)
cpdef tuple apply_paths(
    const int64_t[::1] order, DataView data, TilesView tiles, rule, state,
    Transitions transitions, Py_ssize_t taken, const int64_t[::1] best,
    const int64_t[::1] target, const int64_t[::1] wrong,
)

# -- features in tiles

@cython.locals(
    view=FeaturesView, count=double[::1], total=double, largest=double, f=Py_ssize_t,
    t=Py_ssize_t, length=double,
)
cpdef double largest_norm(features, const int64_t[::1] offsets, Py_ssize_t order)

@cython.locals(k=Py_ssize_t, n=Py_ssize_t)
cpdef Py_ssize_t flatten(
    const int32_t[:, ::1] keys, const int64_t[::1] key_ptr, const int32_t[::1] key_feature,
    const int64_t[::1] token_ptr, const int32_t[::1] token_feature, const float[::1] token_value,
    Py_ssize_t first, int64_t[::1] ptr, int32_t[::1] feature, float[::1] value,
)

@cython.locals(sparse=Py_ssize_t, full=Py_ssize_t, f=Py_ssize_t)
cpdef void renumber(
    int32_t[::1] feature, int32_t[::1] number, const uint8_t[::1] dense, Py_ssize_t first
)

@cython.locals(f=int32_t, j=Py_ssize_t, v=float)
cpdef void sort_by_size(
    const int64_t[::1] ptr, int32_t[::1] feature, float[::1] value, const int32_t[:, ::1] weights_of
)

cdef Py_ssize_t _place(
    const int64_t[::1] ptr, const int32_t[::1] item, Py_ssize_t begin, const int64_t[::1] place,
    Py_ssize_t f, Py_ssize_t c,
) noexcept nogil

cpdef void lay_out(
    const int64_t[::1] ptr, const int32_t[::1] item, const int64_t[::1] begin,
    const int64_t[::1] place, const weight[::1] packed, weight[::1] laid,
)

cpdef void take_back(
    const int64_t[::1] ptr, const int32_t[::1] item, const int64_t[::1] begin,
    const int64_t[::1] place, weight[::1] packed, const weight[::1] laid,
)
