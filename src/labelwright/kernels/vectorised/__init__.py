"""NumPy forms of kernels, for machines without Numba and for small requests.  A function has the
name, the parameters and the results of a kernel of the same file, which says what it does."""
