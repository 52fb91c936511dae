"""What a fuzzer does with an input of each kind: read it, write it, read it again, and compare.

A reader returns nothing where all is well; it raises LabelwrightError where it refuses the input,
AssertionError where something changed silently."""

import importlib.util
import io
import itertools
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from labelwright.corpus import (
    Corpus,
    read_brat,
    read_columns,
    read_conllu,
    read_doccano,
    read_jsonl,
    read_label_studio,
    read_parquet,
    stream_columns,
    write_columns,
    write_conllu,
)
from labelwright.corpus.file_formats import (
    FileOptions,
    OpenFile,
    pieces_of,
    plain_text,
    read_corpus,
)
from labelwright.corpus.tokenizer import Tokenizer, split_texts
from labelwright.errors import LabelwrightError, OptionError
from labelwright.features import builtin
from labelwright.features.attributes import DictFeatures, read_crfsuite
from labelwright.features.template import NUMBERS, apply, parse_template

CONLLU = b"# newdoc\n1-2\tdel\t_\t_\t_\t_\t_\t_\t_\t_\n" + b"".join(
    f"{k}\t{word}\t{word}\t{tag}\t_\t_\t{k - 1}\tdep\t_\t_\n".encode()
    for k, word, tag in ((1, "de", "ADP"), (2, "el", "DET"), (3, "mar", "NOUN"))
)


BETWEEN = b"\n=== annotations\n"  # a text of BRAT and its annotations


class Kind(NamedTuple):
    """A kind of input: samples to mutate, and what reads it."""

    samples: list[bytes]
    read: Callable[[Any], None]


def tokens_of(corpus: Corpus) -> list[Any]:
    """The sentences of a corpus with all columns."""
    rows = list(zip(*map(corpus.tokens, corpus.names), strict=True))
    bounds = corpus.offsets.tolist()
    return [rows[a:b] for a, b in itertools.pairwise(bounds)]


class SlowStream(io.BytesIO):
    """A stream that gives a few bytes at a time."""

    def read1(self, size: int | None = -1, /) -> bytes:
        return super().read(min(7, size or 7))


def read_as_columns(data: bytes) -> None:
    corpus = read_columns(io.BytesIO(data), label=False)
    plain = io.BytesIO()
    write_columns(corpus, plain)
    assert corpus.raw is not None
    assert plain.getvalue() == corpus.raw.text, "not written byte for byte"
    streamed = [
        tokens
        for piece in stream_columns(SlowStream(data), label=False)
        for tokens in tokens_of(piece)
    ]
    assert streamed == tokens_of(corpus), "a stream is read otherwise"
    _labels_come_back(corpus, write_columns, lambda out: read_columns(out, label=False))
    _comes_back(
        corpus, write_columns, lambda out: read_columns(out, names=corpus.names, label=False)
    )


def read_as_conllu(data: bytes) -> None:
    corpus = read_conllu(io.BytesIO(data))
    plain = io.BytesIO()
    write_conllu(corpus, plain)
    assert corpus.raw is not None
    assert plain.getvalue() == corpus.raw.text, "not written byte for byte"
    _comes_back(corpus, write_conllu, read_conllu)
    changed = io.BytesIO()
    labels = [["X" if k % 2 else "Y Z" for k in range(len(row))] for row in tokens_of(corpus)]
    write_conllu(corpus, changed, extra=labels)
    assert read_conllu(io.BytesIO(changed.getvalue())).y == labels, (
        "labels were read back otherwise"
    )


def _labels_come_back(corpus: Corpus, write: Any, read: Any) -> None:
    """New labels are written and read again, and so is all that was there before."""
    rows = tokens_of(corpus)
    labels = [["X" if k % 2 else "Y" for k in range(len(row))] for row in rows]
    out = io.BytesIO()
    write(corpus, out, extra=labels)
    try:
        again = tokens_of(read(io.BytesIO(out.getvalue())))
    except LabelwrightError as error:
        if "crfsuite" in str(error):  # two columns may look like its data
            return
        raise AssertionError(f"cannot read what was written: {error}") from None
    expected = [
        [(*row, label) for row, label in zip(*pair, strict=True)]
        for pair in zip(rows, labels, strict=True)
    ]
    assert again == expected, "labels were read back otherwise"


def _comes_back(corpus: Corpus, write: Any, read: Any) -> None:
    """Written without the text it was read from, a corpus is the same, or writing is refused."""
    out = io.BytesIO()
    try:
        write(replace(corpus, raw=None), out)
    except LabelwrightError:
        return
    again = read(io.BytesIO(out.getvalue()))
    assert tokens_of(again) == tokens_of(corpus), "tokens were read back otherwise"
    assert again.documents.tolist() == corpus.documents.tolist(), (
        "documents were read back otherwise"
    )


VALUES = ["", "dog", "McNeil-27", "\u00e9t\u00e9", "1998", "a" * 300, "\ud800", "A.B.C", "x|y"]


def read_as_template(data: bytes) -> None:
    with _file(data, ".tpl") as path:
        template = builtin.template(Path(path), 2)
    again = parse_template(template.text, template.name)
    assert again.patterns == template.patterns, "a template was read otherwise"
    for pattern in template.patterns:
        for cell in pattern.cells:
            if cell.reader.function not in (*NUMBERS, "dictionary", "clusters"):
                assert len(apply(cell.reader, VALUES)) == len(VALUES)


def read_as_recipe(data: bytes) -> None:
    from labelwright.cli.recipe import RUN, read_recipe, request, tagger
    from labelwright.taggers import registry

    with _file(data, ".toml") as path:
        name = read_recipe(path).get("model", "crf")
        if name not in registry.command_line_names():
            raise OptionError("model: unknown")
        asked = request(name, RUN, {"recipe": path})
        tagger(asked, {})
        asked.files()


def read_as_attributes(data: bytes) -> None:
    X, y = read_crfsuite(io.BytesIO(data))
    assert len(X) == len(y)


def read_as_jsonl(data: bytes) -> None:
    corpus = read_jsonl(io.BytesIO(data))
    _comes_back(
        corpus,
        write_columns,
        lambda out: read_columns(out, names=corpus.names, label=corpus.label or False),
    )


def read_as_parquet(data: bytes) -> None:
    corpus = read_parquet(io.BytesIO(data))
    _comes_back(
        corpus,
        write_columns,
        lambda out: read_columns(out, names=corpus.names, label=corpus.label or False),
    )


def _parquet_samples() -> list[bytes]:
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table({"tokens": [["a", "b"], ["\u00e9"]], "tags": [["X", "Y"], ["Z"]]})
    samples = []
    for options in ({}, {"compression": "none", "use_dictionary": False}, {"row_group_size": 1}):
        out = io.BytesIO()
        parquet.write_table(table, out, **options)
        samples.append(out.getvalue())
    return samples


def read_as_doccano(data: bytes) -> None:
    _read_annotated(lambda skip: read_doccano(io.BytesIO(data), skip))


def read_as_label_studio(data: bytes) -> None:
    _read_annotated(lambda skip: read_label_studio(io.BytesIO(data), skip))


def read_as_brat(data: bytes) -> None:
    """A text and its annotations, which stand in one sample."""
    text, _, lines = data.partition(BETWEEN)
    with _file(text, ".txt") as path, _file(lines, ".ann"):
        _read_annotated(lambda skip: read_brat(path, skip))


def _read_annotated(read: Callable[[bool], Corpus]) -> None:
    """Annotations that do not fit are left out, or refused; all that can be written is read
    again."""
    lenient = read(True)
    names, label = lenient.names, lenient.label or False
    _comes_back(lenient, write_columns, lambda out: read_columns(out, names=names, label=label))
    strict = read(False)
    assert list(strict.tokens("word")) == list(lenient.tokens("word")), (
        "tokens depend on annotations"
    )


def read_as_text(data: bytes) -> None:
    """Plain text: its pieces have the tokens of the whole."""
    with _file(data, ".txt") as path:
        pieces = [plain_text(piece) for piece in pieces_of(path, "text", size=64)]
    for tokenizer in (Tokenizer(), Tokenizer(name="ptb")):
        corpus, _ = read_corpus(
            OpenFile(data, "<stream>", "text"), options=FileOptions(tokenizer=tokenizer)
        )
        words = [word for sentence in split_texts(pieces, tokenizer).words for word in sentence]
        assert words == list(corpus.tokens("word")), "pieces are split otherwise"


def read_as_dicts(made: Any) -> None:
    """Feature dicts and labels: features that are learnt are found again."""
    from labelwright.taggers.arguments import labelled

    X, y = made
    labelled(X, y)
    if not isinstance(X, list) or not any(
        isinstance(token, dict) for sentence in X for token in sentence
    ):
        return
    features, incidences, offsets = DictFeatures.learn(X, None, 1, may_be_empty=True)
    again, same = features.encode(X)
    assert offsets.tolist() == same.tolist()
    assert _by_token(incidences["state"], features) == _by_token(again["state"], features), (
        "features read otherwise"
    )


def _by_token(incidence: Any, features: DictFeatures) -> list[list[tuple[str, float]]]:
    """The names and values of the features of each token, without those of value 0, which add
    nothing."""
    bounds, value = incidence.token_ptr.tolist(), incidence.token_value
    pairs = [
        (features.names[f], float(value[i]) if len(value) else 1.0)
        for i, f in enumerate(incidence.token_feature)
    ]
    return [sorted(pair for pair in pairs[a:b] if pair[1]) for a, b in itertools.pairwise(bounds)]


class _file:  # noqa: N801
    """A temporary file with this content."""

    def __init__(self, data: bytes, suffix: str):
        folder = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self.path = (
            Path(tempfile.gettempdir() if folder is None else folder)
            / f"fuzz-{os.getpid()}{suffix}"
        )
        self.path.write_bytes(data)

    def __enter__(self) -> str:
        return str(self.path)

    def __exit__(self, *_: object) -> None:
        self.path.unlink(missing_ok=True)


KINDS = {
    "columns": Kind(
        [
            b"He PRP B-NP\nran VBD B-VP\n\nShe PRP B-NP\n\n",
            b"-DOCSTART- O\n\na b\nc d\n\n-DOCSTART- O\n\ne f\n",
            b"New York\tNNP\tB-LOC\nran\tVBD\tO\n\n\n \nx\ty\tz",
            b"\xef\xbb\xbfa\r\nb\r\n\r\nc\r\n",
        ],
        read_as_columns,
    ),
    "conllu": Kind(
        [CONLLU, CONLLU + b"\n" + CONLLU + b"8.1\te\t_\t_\t_\t_\t_\t_\t_\t_\n\n"], read_as_conllu
    ),
    "template": Kind(
        [
            b'B\nU01:%x[0,0]/%suffix[-1,0,3]  # ending\n*02:%shape[0,0]\nU03:%m[0,0,"^.?.?"]\n',
            (
                b'U:%t[0,0,"^\\u\\l*$"]\nT:%x[@1,0]\nU:%byte_match[0,1,".*\\d\\p"]\n'
                b'U:%M[0,0,"a*b?c"]/%X[1,1]\n'
            ),
            (
                b"U:%y[-1]\nU:%y[0,pos]\nU:%d[0,cities]\nU:%c[0,brown,4]\nU:%each[0,1]\nU:%n[0,1]\n"
                b"U:%v[0]\n"
            ),
        ],
        read_as_template,
    ),
    "recipe": Kind(
        [
            b'model = "crf"\nl2 = 0.5\nmax_iter = 20\ntemplate = "U:%x[0,0]\\nB"\n',
            (
                b'model = "latent-crf"\nlatent_states = 2\nrandom_state = 1\n[search]\n'
                b"l2 = [0.1, 1.0]\n"
            ),
            (
                b'model = "cascade"\n[[layers]]\nname = "a"\nmodel = "crf"\n[[layers]]\n'
                b'name = "b"\n'
                b'model = "perceptron"\n'
            ),
        ],
        read_as_recipe,
    ),
    "crfsuite": Kind(
        [b"B-NP\tw[0]=He\tlength:2\nB-VP\tw=ran\\:x\tl:1e3\n\nO\ta\n"], read_as_attributes
    ),
    "jsonl": Kind(
        [
            (
                b'{"tokens": ["He", "ran"], "tags": ["PRP", "VBD"]}\n'
                b'{"tokens": ["x"], "tags": ["O"]}\n'
            ),
            b'{"words": [], "id": 1}\n',
            b"".join(b'{"tokens": ["a"], "key%d": [%d]}\n' % (n, n) for n in range(200)),
        ],
        read_as_jsonl,
    ),
    "doccano": Kind(
        [
            (
                b'{"text": "Ada ran. Bo Li, too.", "label": [[0, 3, "PER"], [9, 14, "PER"]]}\n'
                b'{"text": "x", "label": []}\n'
            ),
            (
                b'{"text": "He saw Oh! Calcutta!", "entities": [{"start_offset": 7, "end_offset": '
                b'20, "label": "WORK"}]}\n'
            ),
            (
                '{"text": "\U0001f600 \u00e9t \u5317\u4eac.", "spans": [{"start": 2, "end": 4, '
                '"type": "T"}]}\n'
            ).encode(),
            b'{"text": "'
            + b"A dog ran. " * 20
            + b'", "label": [[0, 200, "X"], [3, 20, "Y"], [199, 201, "Z"]]}\n',
        ],
        read_as_doccano,
    ),
    "label-studio": Kind(
        [
            b'[{"id": 7, "data": {"text": "Ada ran."}, "annotations": [{"result": [{"value": '
            b'{"start": 0, "end": 3, "text": "Ada", "labels": ["PER"]}}]}]}]',
            (
                '[{"text": "\U0001f600 Ada", "label": [{"start": 3, "end": 6, "text": "Ada", '
                '"labels": ["P"]}]}]'
            ).encode(),
            b'[{"data": {"body": "Go. On."}, "annotations": [{"was_cancelled": true}, {"result": '
            b'[{"value": {"start": 0, "end": 7, "labels": ["X"]}}]}]}, {"text": "x"}]',
        ],
        read_as_label_studio,
    ),
    "brat": Kind(
        [
            b"Ada Lovelace ran.\nBo, too."
            + BETWEEN
            + b"T1\tPER 0 12\tAda Lovelace\nR1\tx\nT2\tPER 18 20\tBo\n",
            b"A dog\r\nran. It slept."
            + BETWEEN
            + b"T1\tX 0 5;7 10\tA dog ran\nT2\tY 12 20\n#1\tAnnotatorNotes T1\tx\n",
        ],
        read_as_brat,
    ),
    "text": Kind(
        [
            b"Ada's 1,5 m. She left.\n\nMr. O'Hara (www.x.org, a@b.de) said: \"U.S. ...\"\n",
            (
                "\ufeffL'\u00e9t\u00e9.\r\n\r\n\u5317\u4eac\u5927\u3002 \u0915\u0940 \U0001f600!? "
                "e\u0301x\n"
            ).encode(),
        ],
        read_as_text,
    ),
    "dicts": Kind([], read_as_dicts),
}
if importlib.util.find_spec("pyarrow") is not None:
    KINDS["parquet"] = Kind(_parquet_samples(), read_as_parquet)
