from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t

cimport cython

from labelwright.kernels.values cimport DistancesView, TablesView

cdef Py_ssize_t SIGNED, SOME
cdef double EPSILON

ctypedef fused code_type:
    uint16_t
    int32_t

cdef class PostingsView:
    cdef const int64_t[::1] ptr
    cdef const int32_t[::1] row
    cdef const uint16_t[:, ::1] narrow
    cdef const int32_t[:, ::1] wide
    cdef const uint32_t[::1] signature

cdef class TrieView:
    cdef const int32_t[:, ::1] columns
    cdef const int32_t[::1] begin, end, code, child

cdef class GroupsView:
    cdef const int64_t[::1] ptr
    cdef const int32_t[::1] classes
    cdef const double[::1] count, frequency

cdef class MemoryView:
    cdef TrieView trie
    cdef DistancesView distances
    cdef GroupsView groups
    cdef PostingsView postings

cdef class QueriesView:
    cdef const int32_t[:, ::1] codes
    cdef const double[:, ::1] numbers
    cdef Py_ssize_t k, before, most
    cdef double tiny
    cdef TablesView tables
    cdef const double[::1] known
    cdef const int64_t[::1] near_ptr
    cdef const int32_t[::1] near_rows
    cdef const double[::1] near_distance

cdef class VotingView:
    cdef Py_ssize_t scheme
    cdef double a, b

cdef class ScratchView:
    cdef Py_ssize_t tables_begin
    cdef int64_t[::1] base, best, order, stamp
    cdef double[::1] least, second, wide, near, cost, so_far, distance, exact, votes, count
    cdef int32_t[::1] node, level, row, voted, present, some
    cdef float[::1] sum

# -- postings

cdef bint _enter_distance(double[::1] near, Py_ssize_t k, double s, double width) noexcept nogil

@cython.locals(kept=Py_ssize_t)
cdef Py_ssize_t _squeeze(
    int32_t[::1] rows, double[::1] distance, Py_ssize_t n, double limit
) noexcept nogil

@cython.locals(at=Py_ssize_t, j=Py_ssize_t, rows=double, c=double)
cdef void _cheapest_first(
    const int64_t[::1] ptr, const int64_t[::1] first, const double[::1] weight, const int32_t[::1] query,
    int64_t[::1] order, double[::1] cost,
) noexcept nogil

@cython.locals(signature=uint32_t, byte=uint32_t)
cdef uint32_t _signature_of(const int32_t[::1] query) noexcept nogil

@cython.locals(n=Py_ssize_t, r=int32_t, apart=uint32_t, least=float, zero=float)
cdef Py_ssize_t _maybe_near(
    const int32_t[::1] rows, Py_ssize_t begin, Py_ssize_t end, const uint32_t[::1] signatures,
    uint32_t signature, float w0, float w1, float w2, float w3, float rest, float limit, int32_t[::1] some,
) noexcept nogil

@cython.locals(h=Py_ssize_t)
cdef bint _shares(
    const code_type[:, ::1] cell, Py_ssize_t r, const int32_t[::1] query, const int64_t[::1] order,
    Py_ssize_t n,
) noexcept nogil

cdef double _distance(
    const code_type[:, ::1] cell, Py_ssize_t r, const int32_t[::1] query, const double[::1] weight,
    const int64_t[::1] order, Py_ssize_t n, double so_far, double limit,
) noexcept nogil

@cython.locals(
    n=Py_ssize_t, r=Py_ssize_t, begin=Py_ssize_t, end=Py_ssize_t, stop=Py_ssize_t, slack=double,
    limit=double, passed=double, w0=float, w1=float, w2=float, w3=float, rest=float, s=double,
)
cdef (Py_ssize_t, bint) _search_postings(
    const code_type[:, ::1] cell, PostingsView postings, const int64_t[::1] first,
    const double[::1] weight, const int32_t[::1] query, Py_ssize_t k, double tiny, ScratchView scratch,
) noexcept nogil

# -- the trie

@cython.locals(code=Py_ssize_t, kept=Py_ssize_t)
cdef void _set_tables(
    DistancesView d, const int32_t[::1] query, const double[::1] numbers, TablesView tables,
    ScratchView scratch,
) noexcept nogil

cdef void _clear_tables(
    DistancesView d, const int32_t[::1] query, float[::1] table, Py_ssize_t begin
) noexcept nogil

cdef void _start(float[::1] sums, Py_ssize_t size, float so_far) noexcept nogil

@cython.locals(alive=int, s=float, zero=float)
cdef Py_ssize_t _add_unequal(
    const int32_t[:, ::1] columns, Py_ssize_t column, Py_ssize_t begin, Py_ssize_t size, int32_t equal,
    float weight, float most, float[::1] sums,
) noexcept nogil

@cython.locals(alive=int, s=float)
cdef Py_ssize_t _add_distances(
    const int32_t[:, ::1] columns, Py_ssize_t column, Py_ssize_t begin, Py_ssize_t size,
    const float[::1] table, Py_ssize_t base, float most, float[::1] sums,
) noexcept nogil

@cython.locals(alive=Py_ssize_t, most=double)
cdef (Py_ssize_t, Py_ssize_t) _leaf_sums(
    TrieView trie, DistancesView d, const float[::1] table, Py_ssize_t node, Py_ssize_t level,
    double so_far, double limit, ScratchView scratch,
) noexcept nogil

cdef double _all_columns(
    const int32_t[:, ::1] columns, Py_ssize_t r, const float[::1] table, const int64_t[::1] base,
    const double[::1] least, Py_ssize_t level, double s, double limit,
) noexcept nogil

@cython.locals(s=double)
cdef Py_ssize_t _push_children(
    const int32_t[::1] codes, Py_ssize_t first, Py_ssize_t last, const float[::1] table, Py_ssize_t base,
    double so_far, double most, int32_t[::1] nodes, double[::1] so_fars, Py_ssize_t top,
) noexcept nogil

@cython.locals(
    n=Py_ssize_t, full=Py_ssize_t, top=Py_ssize_t, bottom=Py_ssize_t, node=Py_ssize_t, level=Py_ssize_t,
    alive=Py_ssize_t, first=Py_ssize_t, last=Py_ssize_t, begin=Py_ssize_t, slack=double, limit=double,
    so_far=double, s=double,
)
cdef Py_ssize_t _search(
    TrieView trie, DistancesView d, const float[::1] table, Py_ssize_t k, double tiny, ScratchView scratch
) noexcept nogil

@cython.locals(at=Py_ssize_t, best=Py_ssize_t, last=Py_ssize_t, this=int32_t, distance=double)
cdef void _nearest_last(
    int32_t[::1] node, double[::1] so_far, Py_ssize_t bottom, Py_ssize_t top
) noexcept nogil

# -- distances and votes

@cython.locals(total=double, code=int32_t, at=Py_ssize_t)
cdef void _measure(
    DistancesView d, TrieView trie, const int32_t[::1] query, const double[::1] numbers, int64_t number,
    Py_ssize_t n, ScratchView scratch,
) noexcept nogil

@cython.locals(gap=Py_ssize_t, at=Py_ssize_t, r=int32_t, d=double)
cdef void _sort(int32_t[::1] row, double[::1] distance, Py_ssize_t n) noexcept nogil

@cython.locals(groups=Py_ssize_t, j=Py_ssize_t, begin=double)
cdef (Py_ssize_t, Py_ssize_t, double) _count(
    const double[::1] distance, Py_ssize_t n, Py_ssize_t k
) noexcept nogil

@cython.locals(lost=double)
cdef double _vote_at(double here, double nearest, double farthest, VotingView voting) noexcept nogil

@cython.locals(j=Py_ssize_t, last=Py_ssize_t, n_present=Py_ssize_t, c=Py_ssize_t, vote=double, gain=double)
cdef Py_ssize_t _vote(
    GroupsView groups, ScratchView scratch, Py_ssize_t n, double farthest, VotingView voting,
    Py_ssize_t n_votes,
) noexcept nogil

@cython.locals(c=Py_ssize_t)
cdef Py_ssize_t _count_classes(
    GroupsView groups, Py_ssize_t r, double sign, ScratchView scratch, Py_ssize_t n_present
) noexcept nogil

cdef Py_ssize_t _add(
    Py_ssize_t c, double count, ScratchView scratch, Py_ssize_t n_present
) noexcept nogil

@cython.locals(best=Py_ssize_t, ties=Py_ssize_t, c=Py_ssize_t, most=double)
cdef (Py_ssize_t, Py_ssize_t) _winner(
    GroupsView groups, ScratchView scratch, Py_ssize_t n_votes
) noexcept nogil

@cython.locals(n=Py_ssize_t, others=bint)
cdef (Py_ssize_t, Py_ssize_t, double) _look(
    MemoryView memory, QueriesView asked, Py_ssize_t q, const int32_t[::1] query,
    const double[::1] numbers, Py_ssize_t k, ScratchView scratch,
) noexcept nogil

@cython.locals(
    at=Py_ssize_t, done=Py_ssize_t, n=Py_ssize_t
)
cpdef Py_ssize_t nearest(
    MemoryView memory, QueriesView asked, Py_ssize_t begin, Py_ssize_t end, ScratchView scratch,
    int64_t[::1] ptr, int32_t[::1] rows, double[::1] distance,
)

@cython.locals(
    at=Py_ssize_t, done=Py_ssize_t, n=Py_ssize_t,
    n_votes=Py_ssize_t, searched=bint, view=VotingView,
)
cpdef Py_ssize_t classify(
    MemoryView memory, QueriesView asked, voting, Py_ssize_t begin, Py_ssize_t end, ScratchView scratch,
    int32_t[::1] predicted, double[::1] distance, int64_t[::1] ptr, int32_t[::1] classes, double[::1] votes,
)

@cython.locals(winner=Py_ssize_t, again=Py_ssize_t)
cdef (Py_ssize_t, Py_ssize_t) _elect(
    MemoryView memory, QueriesView asked, VotingView voting, Py_ssize_t q, const int32_t[::1] query,
    const double[::1] numbers, ScratchView scratch, Py_ssize_t n_votes, double[::1] distance,
) noexcept nogil

cdef void _clear_votes(ScratchView scratch, Py_ssize_t n_votes) noexcept nogil

# -- IGTree

@cython.locals(node=Py_ssize_t, level=Py_ssize_t, down=Py_ssize_t)
cpdef void descend(
    const int32_t[::1] code, const int32_t[::1] child, const int32_t[:, ::1] queries,
    int32_t[::1] reached, int64_t[::1] levels,
)
