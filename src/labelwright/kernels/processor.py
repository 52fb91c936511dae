"""Which processor this is, and how the kernels were built."""

import cython

if not cython.compiled:
    HAS_AVX2 = IS_CHECKED = False


def has_avx2():
    """Whether modules for x86-64-v3 run here: with AVX2, fused multiplication and bit shifts."""
    return bool(HAS_AVX2)


def is_checked():
    """Whether kernels check bounds (make boundscheck)."""
    return bool(IS_CHECKED)
