"""The only home of compiled code: loops over arrays, compiled when the package is built.

A kernel is a Python file, NAME.py, with its types beside it in NAME.pxd: Cython makes an
extension module of the two (hatch_build.py).  Where Cython is installed, the same file runs
uncompiled, slowly, for reading and debugging.

What Python calls is a *door*: it takes NumPy arrays of fixed types, makes views of them (and of
NamedTuples of arrays, as classes named ...View), allocates scratch, and releases the GIL.  Behind
the door nothing is allocated and nothing can fail.

A wheel for x86-64 holds every module twice: for all processors since 2009, and in the folder v3
for those with AVX2, which are preferred here.
"""

import os
import sys

from labelwright.kernels import processor

if processor.has_avx2():
    __path__.insert(0, os.path.join(__path__[0], "v3"))

if processor.is_checked():
    # In a build that checks bounds, an error inside a kernel must not pass unnoticed.

    def _abort(unraisable: "sys.UnraisableHookArgs") -> None:
        sys.__unraisablehook__(unraisable)
        os.abort()

    sys.unraisablehook = _abort
