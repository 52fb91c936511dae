from libc.stdint cimport int32_t, int64_t, uint8_t

cimport cython

from labelwright.kernels.clamped cimport ClampedScratch
from labelwright.kernels.graph cimport BlocksView, ContextsView
from labelwright.kernels.incidence cimport IncidenceView
from labelwright.kernels.inference cimport LatticeScratch

ctypedef const int32_t constant_int32

cdef class SaidView:
    cdef Py_ssize_t n_labels
    cdef const uint8_t[:, ::1] right
    cdef const double[::1] of_sentences, cost

cdef class SharingView:
    cdef const int64_t[::1] group
    cdef const double[::1] deviation
    cdef double[::1] total

cdef class TopologyView:
    cdef BlocksView blocks
    cdef ContextsView contexts
    cdef const int64_t[::1] state
    cdef const double[:, ::1] fence
    cdef const double[::1] node, arc, has_node, has_arc
    cdef SharingView states_share, nodes_share, arcs_share

cdef class FeaturePartView:
    cdef double[::1] weights
    cdef IncidenceView incidence
    cdef const int64_t[::1] cell_ptr
    cdef const int32_t[::1] cell_column

cdef class SentenceScratch:
    cdef double[:, ::1] states, nodes, arcs
    cdef double[:, ::1] node, d_node, own_node, own_d_node, ahead
    cdef double[:, ::1] arc, d_arc, own_arc, own_d_arc
    cdef double[::1] top, scale, sums, arc_top, counts
    cdef double[:, ::1] alpha, beta, into, held
    cdef double[:, :, ::1] held_pairs
    cdef int64_t[::1] row
    cdef ClampedScratch clamped
    cdef LatticeScratch lattice

@cython.locals(v=double)
cdef inline void _score(
    FeaturePartView part, Py_ssize_t t, double[:, ::1] rows, Py_ssize_t at
) noexcept nogil

@cython.locals(v=double)
cdef inline void _update(
    FeaturePartView part, Py_ssize_t t, const double[:, ::1] rows, Py_ssize_t at, double step
) noexcept nogil

@cython.locals(top=double[::1], row=int64_t[::1], held=double[:, ::1], pairs=double[:, :, ::1], log_y=double, log_z=double)
cdef inline double _difference(
    const double[:, ::1] node, const double[:, ::1] arc, TopologyView topology,
    const int32_t[::1] label, double[:, ::1] nodes, double[:, ::1] arcs, SentenceScratch scratch,
) noexcept nogil

cdef inline void _exponentiate(
    const double[:, ::1] node, const double[:, ::1] arc, double[:, ::1] nodes,
    double[:, ::1] arcs, SentenceScratch scratch,
) noexcept nogil

@cython.locals(log_z=double, ahead=double[:, ::1])
cdef inline double _expected(
    const double[:, ::1] node, const double[:, ::1] arc, BlocksView blocks,
    double[:, ::1] nodes, double[:, ::1] arcs, SentenceScratch scratch,
) noexcept nogil

@cython.locals(
    own=double[:, ::1], own_nodes=double[:, ::1], own_arcs=double[:, ::1], log_y=double, log_z=double
)
cdef inline double _difference_of_sets(
    const double[:, ::1] node, const double[:, ::1] arc, TopologyView topology,
    const int32_t[::1] label, const uint8_t[:, ::1] right, double[:, ::1] nodes,
    double[:, ::1] arcs, SentenceScratch scratch,
) noexcept nogil

cdef inline void _add_costs(
    double[:, ::1] node, const int32_t[::1] label, const uint8_t[:, ::1] right,
    const double[::1] cost,
) noexcept nogil

cdef inline void _add_features(
    FeaturePartView states, FeaturePartView nodes, FeaturePartView arcs, Py_ssize_t begin,
    Py_ssize_t T, SentenceScratch scratch,
) noexcept nogil

@cython.locals(v=double)
cdef inline void _fill_lattice(
    TopologyView topology, const double[::1] plain_node, const double[::1] plain_arc,
    SentenceScratch scratch, double shrink, double[:, ::1] node, double[:, ::1] arc,
) noexcept nogil

cdef inline void _share(double[:, ::1] rows, SharingView sharing) noexcept nogil

@cython.locals(on_nodes=bint, on_arcs=bint, rows=double[:, ::1])
cdef inline void _descend(
    TopologyView topology, FeaturePartView states, FeaturePartView nodes, FeaturePartView arcs,
    double[::1] plain_node, double[::1] plain_arc, Py_ssize_t begin, SentenceScratch scratch,
    double[:, ::1] d_node, double[:, ::1] d_arc, double step,
) noexcept nogil

cdef inline void _copy_row(const double[:, ::1] counts, Py_ssize_t t, double[:, ::1] rows) noexcept nogil

@cython.locals(
    eta=double, decay=double, taken=Py_ssize_t, what=SaidView, plain_node=double[::1],
    plain_arc=double[::1], view=TopologyView, state_part=FeaturePartView,
    node_part=FeaturePartView, arc_part=FeaturePartView, on_nodes=bint, on_arcs=bint,
    longest=Py_ssize_t, scratch=SentenceScratch, loss=double, rate=double, often=double,
    more=double, node=double[:, ::1], arc=double[:, ::1], d_node=double[:, ::1],
    d_arc=double[:, ::1], label=constant_int32[::1], n=Py_ssize_t, begin=Py_ssize_t, T=Py_ssize_t,
    n_rows=Py_ssize_t,
)
cpdef (double, double) sgd_pass(
    const int64_t[::1] order, const int64_t[::1] offsets, const int32_t[::1] gold, said, topology,
    states, nodes, arcs, plain, schedule, double shrink,
)

cdef inline bint _has_set(const int32_t[::1] label, Py_ssize_t n_labels) noexcept nogil
