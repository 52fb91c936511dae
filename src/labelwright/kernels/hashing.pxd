"""The hash that tables and the byte scanner share, as part of each loop that computes one.

A hash is a polynomial in a random base, modulo a prime: whoever writes a file does not know which of
its values collide.
"""

from libc.stdint cimport int64_t

cdef inline int64_t hash_with(int64_t h, int64_t number, int64_t base) noexcept nogil:
    """The hash of what h is the hash of, followed by a number from 0 to below 2^31; no product
    leaves 63 bits."""
    cdef int64_t p = (h + number) * base
    return (p & 0x7FFFFFFF) + (p >> 31)

cdef inline int64_t first_slot(int64_t h, int64_t mask) noexcept nogil:
    """Where the search for what has this hash begins; high bits count, too, since the low ones of
    sums are regular."""
    return (h ^ (h >> 15)) & mask
