"""How kernels run: which engine, the decorators, machine code by Numba, and where it is kept."""
