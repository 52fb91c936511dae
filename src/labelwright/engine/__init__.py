"""How kernels run: which engine, machine code by Numba, and where it is kept."""
