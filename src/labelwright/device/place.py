"""Where PyTorch computes: devices by name, what lies there, and work that is recorded once and
replayed.

PyTorch is imported here alone, and this only where a device was asked for."""

import importlib.util
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import OptionError
from labelwright.parallel import n_processes

torch: Any = importlib.import_module("torch") if importlib.util.find_spec("torch") else None
Array = NDArray[Any]
Tensor = Any  # torch.Tensor, or None where there is no PyTorch
Work = Callable[[], Any]
STREAMS = 3  # chains of work beside the first
# of the numbers of a shard; of a GPU's memory one part in
SHARD_BYTES = {"cpu": 1 << 28, "mps": 1 << 30}
PARTS = 8
ALIGNED = 256  # bytes


class Place:
    """A device: its tensors, and how it runs work."""

    def __init__(self, name: str):
        wrong = f"device={name!r}: PyTorch"
        if torch is None:
            raise OptionError(
                f"{wrong} is missing; pip install 'labelwright[gpu]', or use device='cpu'"
            )
        kind, _, number = name.partition(":")
        count = torch.cuda.device_count() if kind == "cuda" and torch.cuda.is_available() else 0
        if (kind == "cuda" and not count) or (
            kind == "mps" and not torch.backends.mps.is_available()
        ):
            raise OptionError(f"{wrong} finds no such device; use device='cpu'")
        if kind == "cuda" and int(number or 0) >= count:
            raise OptionError(
                f"{wrong} finds {count} of this kind, which are numbered from 0; use device='cuda'"
            )
        self.name, self.device = name, torch.device("cpu" if name == "torch" else name)
        # what long sums are added up in
        self.wide = torch.float32 if kind == "mps" else torch.float64
        self.records, self.shard_bytes = kind == "cuda", SHARD_BYTES.get(self.device.type, 0)
        if self.records:
            total = torch.cuda.get_device_properties(self.device).total_memory
            self.shard_bytes = self.shard_bytes or total // (PARTS * n_processes())
            with torch.cuda.device(self.device):
                self.pool = torch.cuda.graph_pool_handle()
                self.main, *self.streams = (torch.cuda.Stream() for _ in range(1 + STREAMS))

    def tensor(self, array: Array, dtype: Any = None) -> Tensor:
        """The numbers of an array on the device; float64 becomes the widest that it has."""
        made = torch.from_numpy(np.require(array, requirements=["C", "W"]))
        return made.to(self.device, dtype or (self.wide if made.dtype == torch.float64 else None))

    def zeros(self, *shape: int, dtype: Any) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device=self.device)

    def too_small(self, what: str, size: float) -> OptionError:
        """What to say where memory is short even for the smallest shard."""
        free, total = torch.cuda.mem_get_info(self.device)
        return OptionError(
            f"device={self.name!r}: out of memory: the {what} need {size / 1e9:.1f} GB, "
            f"{free / 1e9:.1f} of {total / 1e9:.1f} GB are free; end other programs on it, use a "
            "larger min_count, or device='cpu'"
        )

    def laid(self, records: list[Any]) -> list[tuple[Any, Work | None]]:
        """Records of arrays as records of tensors, and what must be done before each of them is
        used: nothing; or, where they take more than half of what is free, a copy to where they lie
        in turn."""
        sizes = list(map(_room, records))
        free = torch.cuda.mem_get_info(self.device)[0] / n_processes() if self.records else np.inf
        if 2 * sum(sizes) <= free:
            return [(mapped(record, self.tensor), None) for record in records]
        stage = self.zeros(max(sizes), dtype=torch.uint8)
        return [
            self._staged(record, size, stage) for record, size in zip(records, sizes, strict=True)
        ]

    def _staged(self, record: Any, size: int, stage: Tensor) -> tuple[Any, Work]:
        held, end = torch.zeros(size, dtype=torch.uint8, pin_memory=self.records), 0

        def put(array: Array) -> Tensor:
            nonlocal end
            begin, n, end = end, array.nbytes, end + _room(array)
            flat = torch.from_numpy(np.ascontiguousarray(array).reshape(-1))
            held[begin : begin + n].view(flat.dtype).copy_(flat)
            return stage[begin : begin + n].view(flat.dtype).view(array.shape)

        return mapped(record, put), lambda: stage[:size].copy_(held, non_blocking=True)

    def at_once(self, work: tuple[Work, ...]) -> None:
        """Run pieces of work that do not need each other; on a GPU side by side."""
        streams = self.streams[: len(work) - 1] if self.records else []
        for stream, each in zip(streams, work[1:], strict=False):
            stream.wait_stream(torch.cuda.current_stream(self.device))
            with torch.cuda.stream(stream):
                each()
        for each in work[:1] + work[1 + len(streams) :]:
            each()
        for stream in streams:
            torch.cuda.current_stream(self.device).wait_stream(stream)

    def recorded(self, stages: list[Work]) -> list[Work]:
        """Stages of work as functions that replay them; each is run once before it is recorded."""
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
        return partial(graph.replay)


def mapped(record: Any, function: Callable[[Array], Any]) -> Any:
    """A record with a function of each of its arrays, wherever they are."""
    if isinstance(record, np.ndarray):
        return function(record)
    if isinstance(record, dict):
        return {name: mapped(each, function) for name, each in record.items()}
    if isinstance(record, list | tuple):
        made = [mapped(each, function) for each in record]
        return type(record)(*made) if hasattr(record, "_fields") else type(record)(made)
    return record


def _room(record: Any) -> int:
    """The bytes that the arrays of a record take."""
    rooms: list[int] = []
    mapped(record, lambda array: rooms.append(-(-array.nbytes // ALIGNED) * ALIGNED))
    return sum(rooms)
