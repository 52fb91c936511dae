"""Numbers beside the tokens of a file: --arrays FILE has a row for each token, in the order of the file."""

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

from labelwright.cli.common import counted
from labelwright.cli.options import DATA, option
from labelwright.corpus.limits import DECOMPRESSED, check_size
from labelwright.errors import CorpusError, OptionError, unreadable

if TYPE_CHECKING:
    from labelwright.cli.reading import ToTag
    from labelwright.corpus.table import Corpus

HELP = "Numbers beside the tokens: a .npy or .npz file with a row for each token, in order; templates read %a[row]."
Arrays = Annotated[str | None, option(HELP, "FILE", DATA)]


class TokenRows:
    """The rows of a file, which are given to sentences one after the other."""

    def __init__(self, path: str, place: str = "--arrays"):
        self.path, self._place = path, place
        self._rows, self._begin = _read(path, place), 0

    def whole(self, corpus: "Corpus") -> "Corpus":
        """A corpus with all rows beside its tokens."""
        corpus = self.beside(corpus)
        self.end(corpus.source)
        return corpus

    def beside(self, corpus: "Corpus") -> "Corpus":
        """A corpus, or the next piece of one, with its rows beside its tokens."""
        begin, self._begin = self._begin, self._begin + corpus.n_tokens
        if self._begin > len(self._rows):
            self._refuse(f"{corpus.source} has {self._begin:,} tokens or more")
        rows = self._rows[begin : self._begin]
        return corpus.with_arrays([rows[a:b] for a, b in pairwise(corpus.offsets.tolist())])

    def end(self, source: str) -> None:
        """Refuse rows that are left over."""
        if self._begin < len(self._rows):
            self._refuse(f"{source} has {counted(self._begin, 'token')}")

    def pieces(self, pieces: "Iterator[ToTag]", source: str) -> "Iterator[ToTag]":
        """The pieces of a file with their rows."""
        for piece in pieces:
            if piece.corpus is None:
                raise OptionError(f"{self._place}: CRFsuite's data have numbers of their own; leave it out")
            piece = piece._replace(data=self.beside(piece.corpus))
            if not piece.more:
                self.end(source)
            yield piece

    def _refuse(self, what: str) -> None:
        rows = counted(len(self._rows), "row")
        raise OptionError(f"{self._place}: {self.path} has {rows}, but {what}; give a row for each token, in order")


def _read(path: str, place: str) -> Any:
    """The array of a file [T, D]."""
    import numpy as np

    try:
        content = np.load(path, mmap_mode="r", allow_pickle=False)
        if isinstance(content, np.lib.npyio.NpzFile):
            with content as archive:
                content = _only_member(archive, path, place)
    except (CorpusError, OptionError):
        raise
    except OSError as error:
        raise unreadable(OptionError, f"{place}: {path}", error) from None
    except Exception:  # NumPy, zipfile and zlib have many for damaged files
        content = None
    if not isinstance(content, np.ndarray):
        raise OptionError(f"{place}: {path} is no .npy or .npz file of numbers, as np.save writes them")
    if content.ndim != 2 or content.dtype.kind not in "fiub":
        raise OptionError(
            f"{place}: {path} has {content.dtype} of shape {content.shape}, expected numbers [tokens, D], a row for "
            "each token"
        )
    return content


def _only_member(archive: Any, path: str, place: str) -> Any:
    """The one array of a .npz file, which is read within the limit of decompressed data."""
    names = archive.files
    if len(names) != 1:
        raise OptionError(f"{place}: {path} has {len(names)} arrays ({', '.join(names):.80}), expected one")
    check_size(archive.zip.infolist()[0].file_size, path, True, DECOMPRESSED)
    return archive[names[0]]


def rows_for(model: Any, path: str | None) -> TokenRows | None:
    """The rows that a trained model reads beside the tokens; refused where it reads none, or where they are missing."""
    reads = any(_reads_arrays(part) for part in model._outputs.values())
    if reads and path is None:
        raise OptionError("--arrays: the model reads a row of numbers for each token; add --arrays FILE.npy")
    if path is not None and not reads:
        raise OptionError("--arrays: the model was trained without arrays, and reads none; leave it out")
    return None if path is None else TokenRows(path)


def _reads_arrays(tagger: Any) -> bool:
    template = tagger._features_read()[1] if hasattr(tagger, "_features_read") else None
    return template is not None and "%a[" in template["text"]
