from libc.stdint cimport int64_t

cimport cython

cdef class BlocksView:
    cdef const int64_t[::1] source_ptr, source, target, arc_ptr
    cdef const int64_t[:, ::1] rows

cdef class ContextsView:
    cdef const int64_t[::1] opening, label, ptr, node, slot, block, base
    cdef const int64_t[:, ::1] following, cut

cdef dict LAST

@cython.locals(last=tuple, view=BlocksView)
cdef BlocksView blocks_view(object blocks)

@cython.locals(last=tuple, view=ContextsView)
cdef ContextsView contexts_view(object contexts)
