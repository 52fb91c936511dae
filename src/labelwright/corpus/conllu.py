"""CoNLL-U files: ten columns separated by tabs, comments, multiword ranges and empty nodes.

Comments, ranges (1-2) and empty nodes (8.1) are not tokens; they stay in the raw text and are written back.
"""

from collections.abc import Sequence
from itertools import pairwise

from labelwright.corpus.columns import FileLayout, Labels, check_line_ends, flat_columns, parse
from labelwright.corpus.compressed import Source, first_line_of, name_of, read_bytes, write_bytes
from labelwright.corpus.table import Corpus, check_label
from labelwright.corpus.writable import check_column, check_rows, place_of
from labelwright.errors import CorpusError

CONLLU_NAMES = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")


def read_conllu(path: Source, label: str = "upos") -> Corpus:
    """Read a CoNLL-U file with one of its ten columns as the label; `# newdoc` comments start documents.

    path : a path, plain or compressed, or a binary file object
    label : the column that is the label: upos, xpos, deprel, ...

    >>> import io
    >>> text = b"# newdoc\\n1-2\\tdel" + b"\\t_" * 8 + b"\\n1\\tde\\tde\\tADP" + b"\\t_" * 6 + b"\\n"
    >>> corpus = read_conllu(io.BytesIO(text))
    >>> corpus.column("form"), corpus.y, corpus.documents.tolist()
    ([['de']], [['ADP']], [0])
    """
    source = name_of(path)
    check_label(label, CONLLU_NAMES, source)
    layout = FileLayout(CONLLU_NAMES, label, tabs=True, conllu=True)
    text = read_bytes(path)
    first = text[: text.find(b"\n") + 1 or len(text)].removesuffix(b"\n").removesuffix(b"\r")
    check_line_ends(first, f"{source}:{first_line_of(path)}")
    corpus = parse(text, source, layout, first_line_of(path))
    if not len(corpus):
        raise CorpusError(f"{source}: no tokens, expected lines of ten columns separated by tabs")
    return corpus


def write_conllu(corpus: Corpus, target: Source, extra: Labels | Sequence[Labels] | None = None) -> None:
    """Write a corpus as CoNLL-U; `extra` replaces the label column.

    Without raw text, columns that the corpus lacks are `_` and tokens are numbered; `word` is written as form.

    corpus : the sentences
    target : a path, or a binary file object
    extra : labels for each sentence, or several such lists

    >>> import io
    >>> out = io.BytesIO()
    >>> write_conllu(Corpus.from_sequences([["Go"]], [["VERB"]], names=["form", "upos"]), out)
    >>> out.getvalue()
    b'1\\tGo\\t_\\tVERB\\t_\\t_\\t_\\t_\\t_\\t_\\n\\n'
    """
    columns = flat_columns(corpus, extra)
    if len(columns) > 1:
        raise CorpusError(f"extra: {len(columns)} columns, expected one, to replace {corpus.label}")
    if columns and corpus.label is None:
        raise CorpusError(f"{corpus.source}: has no label column that extra could replace; name it with label=")
    for column in columns:
        check_column(column, corpus.offsets, corpus.source, "\t")
    if corpus.raw is not None and tuple(corpus.names) == CONLLU_NAMES:
        write_bytes(target, corpus.raw.edited(columns, replacing=True) if columns else corpus.raw.text)
        return
    columns_by_name = {"form" if name == "word" else name: corpus.tokens(name) for name in corpus.names}
    unknown = [name for name in columns_by_name if name not in CONLLU_NAMES]
    if unknown:
        raise CorpusError(f"{corpus.source}: column {unknown[0]!r} is not one of CoNLL-U's: {', '.join(CONLLU_NAMES)}")
    for column in columns_by_name.values():
        check_column(column, corpus.offsets, corpus.source, "\t", is_label=False)
    if columns and corpus.label is not None:
        columns_by_name["form" if corpus.label == "word" else corpus.label] = columns[0]
    bounds = corpus.offsets.tolist()
    if "id" not in columns_by_name:
        columns_by_name["id"] = [str(k + 1) for a, b in pairwise(bounds) for k in range(b - a)]
    _check_ids(columns_by_name["id"], corpus)
    empty = ["_"] * corpus.n_tokens
    rows = [columns_by_name.get(name, empty) for name in CONLLU_NAMES]
    check_rows(rows, corpus.offsets, corpus.source)
    lines = ["\t".join(row) for row in zip(*rows, strict=True)]
    documents = set(corpus.documents.tolist())
    blocks = []
    for number in range(len(corpus)):
        blocks += ["# newdoc"] if number in documents else []
        blocks += [*lines[bounds[number] : bounds[number + 1]], ""]
    write_bytes(target, "".join(f"{line}\n" for line in blocks).encode())


def _check_ids(ids: Sequence[str], corpus: Corpus) -> None:
    """Refuse numbers of tokens that would be read as comments, ranges of words or empty nodes."""
    for token, value in enumerate(ids):
        if value.startswith("#") or "-" in value or "." in value:
            place = f"{corpus.source}: {place_of(token, corpus.offsets)}"
            raise CorpusError(f"{place}: cannot write the id {value!r:.40}: tokens have whole numbers")
