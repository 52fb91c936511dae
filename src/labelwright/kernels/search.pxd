from libc.stdint cimport int32_t, int64_t

cimport cython

from labelwright.kernels.graph cimport BlocksView, ContextsView

cdef double SMALL, LEAST, SAFE_RANGE, TIE, DIGITS, NEAR

cdef enum:  # how a search call ends, as in decode.exact
    DONE = 0
    LIMIT = 1
    FULL = 2
    LOST = 3

cdef enum:  # places in the counters
    MADE = 0
    SIZE = 1
    EXPANDED = 2
    LABELLINGS = 3
    WHOLE = 4

cdef class ArcsView:
    cdef double[:, ::1] E, ET, least, most
    cdef double[::1] top

cdef class WeightsView:
    cdef const double[:, ::1] psi, E, beta
    cdef const double[::1] top, arc_top, log_beta
    cdef bint logs

cdef class PrefixPoolView:
    cdef double[::1] priority, key, scale
    cdef double[:, ::1] vector
    cdef int32_t[::1] parent, depth, context, heap
    cdef int64_t[::1] counts

cdef class SearchScratch:
    cdef double[:, ::1] nodes  # [5, Q]
    cdef double[::1] labels  # [L]

# -- the bound

@cython.locals(view=BlocksView, into=ArcsView, widest=double)
cpdef double prepare_arcs(const double[:, ::1] scores, blocks, arcs)

@cython.locals(
    widest=double, high=double, low=double, v=double, used=bint, t=Py_ssize_t, b=Py_ssize_t, r=Py_ssize_t,
    n_sources=Py_ssize_t, s0=Py_ssize_t, n_targets=Py_ssize_t, a=Py_ssize_t, s=Py_ssize_t,
    E=double[:, ::1], ET=double[:, ::1], least=double[:, ::1], most=double[:, ::1],
)
cdef inline double _prepare_arcs(
    const double[:, ::1] scores, Py_ssize_t first, Py_ssize_t n, BlocksView blocks, ArcsView arcs
) noexcept nogil

@cython.locals(view=BlocksView, prepared=ArcsView, scratch=SearchScratch, safe=bint)
cpdef bint prepare(
    const double[:, ::1] node, arcs, double widest, blocks, const int64_t[:, ::1] cut,
    double[:, ::1] psi, double[::1] top, double[:, ::1] beta, double[::1] log_beta,
)

@cython.locals(high=double, low=double, v=double, t=Py_ssize_t, s=Py_ssize_t)
cdef inline bint _prepare(
    const double[:, ::1] node, Py_ssize_t first, Py_ssize_t T, ArcsView arcs, double widest,
    BlocksView blocks, const int64_t[:, ::1] cut, double[:, ::1] psi, double[::1] top,
    double[:, ::1] beta, double[::1] log_beta, SearchScratch scratch,
) noexcept nogil

@cython.locals(
    width=Py_ssize_t, n_labels=Py_ssize_t, by_token=bint, ET=double[:, ::1], least=double[:, ::1],
    most=double[:, ::1], best=double[::1], label_sum=double[::1], into=double[::1],
    low=double[::1], high=double[::1], high_of=double[::1], e=Py_ssize_t, i0=Py_ssize_t,
    n=Py_ssize_t, a=Py_ssize_t, h=Py_ssize_t, k=Py_ssize_t, y=Py_ssize_t, b=Py_ssize_t, t=Py_ssize_t,
    first=Py_ssize_t, last=Py_ssize_t, x=double, v=double, top_beta=double, floor=double, lows=double, highs=double, one=double, small=bint,
)
cdef inline bint _bounds(
    const double[:, ::1] psi, Py_ssize_t T, const double[::1] top, ArcsView arcs,
    BlocksView blocks, const int64_t[:, ::1] cut, double[:, ::1] beta, double[::1] log_beta,
    SearchScratch scratch,
) noexcept nogil

@cython.locals(view=BlocksView, terms=double[::1])
cpdef void log_bounds(
    const double[:, ::1] node, const double[:, ::1] arc, blocks, const int64_t[:, ::1] cut,
    double[:, ::1] beta,
)

@cython.locals(
    by_token=bint, e=Py_ssize_t, s0=Py_ssize_t, a=Py_ssize_t, n=Py_ssize_t, k=Py_ssize_t, best=double,
    v=double,
)
cdef inline void _log_bounds(
    const double[:, ::1] node, const double[:, ::1] arc, BlocksView blocks,
    const int64_t[:, ::1] cut, double[:, ::1] beta, double[::1] terms,
) noexcept nogil

# -- the search

@cython.locals(
    n_labels=Py_ssize_t, e=Py_ssize_t, i0=Py_ssize_t,
    n=Py_ssize_t, b=Py_ssize_t, q=Py_ssize_t, first=Py_ssize_t, a=Py_ssize_t, c=Py_ssize_t, k=Py_ssize_t,
    j=Py_ssize_t, y=Py_ssize_t, v=double, most=double, least=double, total=double,
)
cdef inline bint _extend(
    WeightsView lattice, ContextsView contexts, Py_ssize_t before, const double[:, ::1] vector,
    Py_ssize_t i, Py_ssize_t t, double[::1] into, double[::1] bound,
) noexcept nogil

@cython.locals(
    e=Py_ssize_t, c=Py_ssize_t, k=Py_ssize_t, j=Py_ssize_t, m=Py_ssize_t, n=Py_ssize_t, q=Py_ssize_t,
    b=Py_ssize_t, y=Py_ssize_t, v=double,
)
cdef inline void _extend_logs(
    WeightsView lattice, ContextsView contexts, Py_ssize_t before, const double[:, ::1] vector,
    Py_ssize_t i, Py_ssize_t t, double[::1] into, double[::1] bound, double[::1] terms,
) noexcept nogil

@cython.locals(
    counts=int64_t[::1], t=Py_ssize_t, before=Py_ssize_t, scale=double, w=double, new=Py_ssize_t,
    c=Py_ssize_t, first=Py_ssize_t, size=Py_ssize_t, s=Py_ssize_t, y=Py_ssize_t, most=double, v=double,
    digits=double,
)
cdef inline bint _consider(
    WeightsView lattice, Py_ssize_t T, ContextsView contexts, PrefixPoolView pool,
    Py_ssize_t parent, Py_ssize_t n, double[::1] bar, double[::1] into, double[::1] bound,
    double[::1] terms,
) noexcept nogil

cdef inline double _scale_of(WeightsView lattice, Py_ssize_t t) noexcept nogil

@cython.locals(i=Py_ssize_t)
cdef inline void _raise(double[::1] bar, Py_ssize_t n, double w) noexcept nogil

@cython.locals(
    weights=WeightsView, view=PrefixPoolView, followed=ContextsView, scratch=SearchScratch, status=int
)
cpdef int search(
    lattice, contexts, pool, int64_t[::1] places, int64_t n, int64_t budget, bint greedy,
    double[::1] bar,
)

@cython.locals(
    n_labels=Py_ssize_t, counts=int64_t[::1], into=double[::1], terms=double[::1], bound=double[::1],
    i=Py_ssize_t,
)
cdef int _search(
    WeightsView lattice, Py_ssize_t T, ContextsView contexts, PrefixPoolView pool,
    Py_ssize_t most, int64_t[::1] places, int64_t n, int64_t budget, bint greedy,
    double[::1] bar, SearchScratch scratch,
) noexcept nogil

@cython.locals(view=PrefixPoolView)
cpdef void trace(pool, contexts, Py_ssize_t place, int32_t[::1] labels)

@cython.locals(at=Py_ssize_t, t=Py_ssize_t)
cdef inline void _trace(
    PrefixPoolView pool, ContextsView contexts, Py_ssize_t place, int32_t[::1] labels,
    Py_ssize_t first, Py_ssize_t T,
) noexcept nogil

# -- the common case

@cython.locals(
    into=double[::1], bound=double[::1], before=Py_ssize_t, scale=double, aside=double, weight=double,
    best=Py_ssize_t, second=double, v=double, i0=Py_ssize_t, n=Py_ssize_t, most=double, one=double,
    t=Py_ssize_t, y=Py_ssize_t, j=Py_ssize_t,
)
cdef inline (double, double) _descend(
    WeightsView lattice, ContextsView contexts, double[:, ::1] vector, int32_t[::1] labels,
    Py_ssize_t first, Py_ssize_t T, SearchScratch scratch,
) noexcept nogil

@cython.locals(counts=int64_t[::1], weight=double, aside=double, most=Py_ssize_t, status=int)
cdef inline void _solve_one(
    WeightsView lattice, Py_ssize_t T, ContextsView contexts, PrefixPoolView pool,
    int64_t[::1] places, double[::1] bar, int32_t[::1] labels, Py_ssize_t first,
    SearchScratch scratch, double[:, ::1] out, Py_ssize_t n,
) noexcept nogil

@cython.locals(longest=Py_ssize_t, n=Py_ssize_t)
cdef inline Py_ssize_t _longest(const int64_t[::1] offsets) noexcept nogil

@cython.locals(width=Py_ssize_t, c=Py_ssize_t, size=Py_ssize_t)
cdef PrefixPoolView _empty_pool(Py_ssize_t T, ContextsView contexts)

@cython.locals(
    view=BlocksView, followed=ContextsView, prepared=ArcsView, lattice=WeightsView,
    scratch=SearchScratch, pool=PrefixPoolView, places=int64_t[::1], bar=double[::1], T=Py_ssize_t,
    tables=double[:, :, ::1], tokens=double[:, ::1], psi=double[:, ::1], beta=double[:, ::1],
    top=double[::1], log_beta=double[::1],
    a=Py_ssize_t, n=Py_ssize_t,
)
cpdef void solve(
    const double[:, ::1] node, arcs, double widest, blocks, contexts, const int64_t[::1] offsets,
    int32_t[::1] labels, double[:, ::1] out,
)

@cython.locals(
    view=BlocksView, followed=ContextsView, prepared=ArcsView, lattice=WeightsView,
    scratch=SearchScratch, pool=PrefixPoolView, places=int64_t[::1], bar=double[::1], T=Py_ssize_t,
    tables=double[:, :, ::1], tokens=double[:, ::1], psi=double[:, ::1], beta=double[:, ::1],
    top=double[::1], log_beta=double[::1],
    a=Py_ssize_t, n=Py_ssize_t, widest=double,
)
cpdef void solve_by_token(
    const double[:, ::1] node, const double[:, ::1] arc, blocks, contexts,
    const int64_t[::1] offsets, int32_t[::1] labels, double[:, ::1] out,
)
