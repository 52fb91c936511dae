"""Where PyTorch computes: devices by name, work that is recorded once and replayed, and several chains of work at once.

PyTorch is imported here alone, and this only where a device was asked for."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import OptionError

torch: Any
try:
    import torch
except ImportError:
    torch = None

Array = NDArray[Any]
Tensor = Any  # torch.Tensor, or None where there is no PyTorch
Work = Callable[[], None]
STREAMS = 4  # chains of work at once
SHARD_BYTES = {"cpu": 1 << 28, "mps": 1 << 30, "cuda": 1 << 32}  # of the numbers that are on the device together


class Place:
    """A device: its tensors, and how it runs work."""

    def __init__(self, name: str):
        if torch is None:
            raise OptionError(
                f"device={name!r}: PyTorch is missing; pip install 'labelwright[gpu]', or use device='cpu'"
            )
        kind, _, number = name.partition(":")
        count = torch.cuda.device_count() if kind == "cuda" and torch.cuda.is_available() else 0
        if kind == "cuda" and not count:
            raise OptionError(f"device={name!r}: PyTorch finds no CUDA device; use device='cpu'")
        if kind == "cuda" and int(number or 0) >= count:
            raise OptionError(f"device={name!r}: PyTorch finds {count} CUDA device(s), from cuda:0; name one of them")
        if kind == "mps" and not torch.backends.mps.is_available():
            raise OptionError(f"device={name!r}: PyTorch finds no Apple GPU; use device='cpu'")
        self.name = name
        self.device = torch.device("cpu" if name == "torch" else name)
        self.records = kind == "cuda"
        self.wide = torch.float32 if kind == "mps" else torch.float64  # what long sums are added up in
        self.shard_bytes = SHARD_BYTES[self.device.type]
        if self.records:
            with torch.cuda.device(self.device):
                self.pool = torch.cuda.graph_pool_handle()
                self.main, *self.streams = (torch.cuda.Stream() for _ in range(1 + STREAMS))

    def tensor(self, array: Array, dtype: Any = None) -> Tensor:
        """The numbers of an array on the device; float64 becomes the widest that it has."""
        array = np.ascontiguousarray(array)
        if array.dtype == np.float64:
            array = array.astype(np.float32) if self.wide == torch.float32 else array
        made = torch.from_numpy(array if array.flags.writeable else array.copy())
        return made.to(self.device, dtype)

    def zeros(self, *shape: int, dtype: Any) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device=self.device)

    def at_once(self, work: Sequence[Work]) -> None:
        """Run pieces of work that do not need each other; on a GPU side by side."""
        if not self.records:
            for each in work:
                each()
            return
        here = torch.cuda.current_stream(self.device)
        used = [here, *self.streams[: len(work) - 1]]
        for stream, each in zip(used[1:], work[1:], strict=True):
            stream.wait_stream(here)
            with torch.cuda.stream(stream):
                each()
        work[0]()
        for stream in used[1:]:
            here.wait_stream(stream)

    def recorded(self, stages: Sequence[Work]) -> Sequence[Work]:
        """Stages of work as functions that replay them, in any order; each is run once before it is recorded."""
        if not self.records:
            return stages
        with torch.cuda.device(self.device):
            self.main.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.main):
                for stage in stages:
                    stage()
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            return [self._record(stage) for stage in stages]

    def _record(self, stage: Work) -> Work:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, stream=self.main):
            stage()
        replay: Work = graph.replay
        return replay
