from libc.stdint cimport int32_t, int64_t

cimport cython
from cython cimport floating

ctypedef fused index:
    int32_t
    int64_t

cpdef double smallest_scale(Py_ssize_t itemsize) noexcept nogil

cpdef double largest_message(Py_ssize_t itemsize) noexcept nogil

@cython.locals(i=Py_ssize_t, m=double)
cdef double largest(const double[::1] x, Py_ssize_t first, Py_ssize_t last) noexcept nogil

@cython.locals(i=Py_ssize_t, best=Py_ssize_t)
cdef Py_ssize_t first_largest(const floating[::1] x, Py_ssize_t n) noexcept nogil

@cython.locals(i=Py_ssize_t)
cdef double log_sum(const double[::1] x, Py_ssize_t n) noexcept nogil

@cython.locals(i=Py_ssize_t)
cdef double softmax(double[::1] x, Py_ssize_t n) noexcept nogil

@cython.locals(i=Py_ssize_t)
cdef double subtract_largest(double[::1] x, Py_ssize_t first, Py_ssize_t last) noexcept nogil

@cython.locals(low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t)
cdef Py_ssize_t find(
    const index[::1] numbers, Py_ssize_t first, Py_ssize_t last, int64_t wanted
) noexcept nogil

@cython.locals(longest=Py_ssize_t)
cdef Py_ssize_t longest_of(const int64_t[::1] order, const int64_t[::1] offsets) noexcept nogil

@cython.locals(at=Py_ssize_t, up=Py_ssize_t, j=Py_ssize_t)
cdef void push(
    const double[::1] priority, const int32_t[::1] tie, int32_t[::1] heap, Py_ssize_t size, Py_ssize_t i
) noexcept nogil

@cython.locals(at=Py_ssize_t, down=Py_ssize_t, first=Py_ssize_t, i=Py_ssize_t, j=Py_ssize_t, k=Py_ssize_t)
cdef Py_ssize_t pop(
    const double[::1] priority, const int32_t[::1] tie, int32_t[::1] heap, Py_ssize_t size
) noexcept nogil
