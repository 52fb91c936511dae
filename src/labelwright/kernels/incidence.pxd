from libc.stdint cimport int32_t, int64_t

cdef class IncidenceView:
    cdef const int32_t[:, ::1] keys
    cdef const int64_t[::1] key_ptr, token_ptr
    cdef const int32_t[::1] key_feature, token_feature
    cdef const float[::1] token_value
