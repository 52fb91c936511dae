"""NumPy forms of kernels, for machines without Numba and for small requests: same names, parameters and results."""
