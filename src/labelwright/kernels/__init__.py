"""The only home of compiled code: arrays in, arrays out, no Python objects, the GIL released.

A kernel is a loop over arrays.  Numba (the extra `fast`) makes machine code of it.  Without Numba, and for the first
small requests, kernels run as NumPy: `vectorised/NAME.py` has a function of the same name and signature for each kernel
of `NAME.py` that labelling needs often; the others run as the plain Python they are written in, or, for training, not
at all (`engine.choice.require_compiled`).  Functions without a decorator are NumPy alone, which is as fast for them.
"""

from labelwright.engine.choice import compiled as compiled
from labelwright.engine.kernel import inlined_kernel as inlined_kernel
from labelwright.engine.kernel import kernel as kernel
from labelwright.engine.kernel import literal_kernel as literal_kernel
from labelwright.engine.kernel import max_kernel as max_kernel
from labelwright.engine.kernel import prefetch as prefetch
from labelwright.engine.kernel import unsigned as unsigned
