"""labelwright convert: between file formats, label schemes, and models of other programs."""

from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from labelwright.cli.files import (
    check_target,
    file_options,
    is_conllu,
    is_model,
    read_noting,
    split_names,
)
from labelwright.cli.options import LABELLED, MAX_INPUT, SCHEME_NAMES, argument, command, option
from labelwright.cli.show import say, warn
from labelwright.errors import CorpusError, OptionError
from labelwright.wording import counted

if TYPE_CHECKING:
    from labelwright.corpus.file_formats import OpenFile
    from labelwright.corpus.table import Corpus

SAID_OF_TEXTS = ("format", "skip_bad_spans", "max_input", "quiet")
NOT_WRITTEN = (".jsonl", ".ndjson", ".parquet")  # formats that are only read


@command(
    argument(
        "source", "IN", "A file with sentences, in any format that train reads, -, or a model."
    ),
    argument(
        "target",
        "OUT",
        "Column file (.gz .bz2 .xz too), .conllu, .json (Label Studio), -, or a model, by suffix.",
    ),
    *LABELLED,
    MAX_INPUT,
    option("--keep NAMES", "Write only these columns, in this order."),
    option("--from-scheme NAME", "The scheme of the labels.", shown="as they look"),
    option("--to-scheme NAME", f"Rewrite the labels as {SCHEME_NAMES}."),
    option(
        "--repair",
        "Correct labels that break their scheme, keeping the chunks that conlleval reads.",
    ),
    option("-q --quiet", "No summary."),
)
def convert_command(o: Any) -> None:
    """Convert files with sentences to plain or compressed column files, CoNLL-U, and other label
    schemes; or models to and from those of other programs.

    \b
      labelwright convert train.iob1.txt train.bioes.txt.gz --to-scheme bioes
      labelwright convert tagged.txt clean.txt --repair
      labelwright convert en.conllu words.txt --keep form,xpos,upos
      labelwright convert words.txt en.conllu --columns form,upos
      labelwright convert ner.jsonl ner.txt
      labelwright convert annotated.jsonl label_studio.json
      labelwright convert ner.crfsuite ner.safetensors
      labelwright convert ner.crf ner.crfsuite
    """
    from labelwright.corpus import write_columns, write_conllu
    from labelwright.corpus.compressed import CODECS
    from labelwright.corpus.file_formats import opened
    from labelwright.interchange.formats import format_of

    if is_model(o.source) or format_of(o.target):
        for name, flag in convert_command.flags.items():
            if name in o.given and name not in ("quiet", "max_input"):
                raise OptionError(f"{flag}: is for files with sentences, but {o.source} is a model")
        _convert_model(o.source, o.target, o.quiet)
        return
    check_target(o.target)
    suffixes = [suffix for suffix in PurePath(o.target.lower()).suffixes if suffix not in CODECS]
    if suffixes and suffixes[-1] in NOT_WRITTEN:
        told = (
            f"{suffixes[-1]} files are read, not written; name an OUT with columns, or a .conllu "
            "file"
        )
        raise OptionError(f"{o.target}: {told}")
    file = opened(o.source, o.format, named=o.columns is not None or o.label is not None)
    if suffixes[-1:] == [".json"]:
        _convert_texts(o, file)
        return
    if file.format == "crfsuite":
        raise CorpusError(
            f"{file.name}: holds attributes (CRFsuite's data), which cannot be written as columns"
        )
    if file.format == "conllu" and o.columns is not None:
        raise OptionError("--columns: CoNLL-U names its columns itself; choose some with --keep")
    corpus, changed = read_noting(file, o.columns, o.label, file_options(o)), 0
    if o.from_scheme or o.to_scheme or o.repair:
        if corpus.label is None:
            raise CorpusError(f"{corpus.source}: has no label column; name it with --label")
        before = corpus.tokens(corpus.label)
        corpus = _relabelled(corpus, o.from_scheme, o.to_scheme, o.repair)
        changed = sum(a != b for a, b in zip(before, corpus.tokens(str(corpus.label)), strict=True))
    if o.keep is not None:
        corpus = corpus.select(split_names(o.keep))
    elif file.format == "conllu" and not is_conllu(o.target):
        corpus = replace(corpus, raw=None)  # without comments, ranges and empty nodes
    write = write_conllu if is_conllu(o.target) else write_columns
    write(corpus, o.target)
    if not o.quiet and o.target != "-":
        size = f"{counted(len(corpus), 'sentence')}, {counted(corpus.n_tokens, 'token')}"
        say(f"{o.target}: {size}, {counted(changed, 'label')} changed")


def _convert_texts(o: Any, file: "OpenFile") -> None:
    """Write annotated texts as tasks of Label Studio."""
    from labelwright.corpus.annotations import label_studio_file, notes_on, sound
    from labelwright.corpus.compressed import write_bytes
    from labelwright.corpus.file_formats import TEXTS, texts_of

    others = [
        flag
        for name, flag in convert_command.flags.items()
        if name in o.given and name not in SAID_OF_TEXTS
    ]
    if file.format not in TEXTS or others:
        wrong = others[0] if others else f"{file.name}: holds {file.format}"
        raise OptionError(
            f"{wrong}: tasks of Label Studio (.json) are made of annotated texts as they are"
        )
    texts, skipped = [], list[str]()
    for item in texts_of(file):
        kept, left_out = sound(item, o.skip_bad_spans)
        texts.append(kept)
        skipped += left_out
    for note in notes_on(skipped):
        warn(note)
    write_bytes(o.target, label_studio_file(texts))
    if not o.quiet:
        say(f"{o.target}: {counted(len(texts), 'task')}")


def _convert_model(source: str, target: str, quiet: bool) -> None:
    """Write a model for another program, or that of another program for labelwright."""
    from labelwright.interchange import formats
    from labelwright.interchange.chains import not_carried
    from labelwright.taggers.registry import FOREIGN, load

    check_target(target, [source], for_model=True)
    if is_model(target):
        raise OptionError(
            f"{target}: is a model, which this command would replace; name another file to write"
        )
    model, form, lost = load(source), formats.format_of(target), list[str]()
    with open(source, "rb") as file:
        is_foreign = file.read(9).startswith(tuple(FOREIGN))
    if form is not None:
        n_features, lost = len(formats.save(model, target, form).attributes), not_carried(model)
    elif is_foreign:
        n_features = model.save(target)._extractor.n_features
    else:
        suffixes = ", ".join(formats.FORMATS.values())
        raise OptionError(
            f"{source}: is a model of labelwright already; name an OUT that ends with {suffixes}"
        )
    if not quiet:
        say(f"{target}: {counted(len(model.classes_), 'label')}, {counted(n_features, 'feature')}")
    if lost and not quiet:
        say(f"not carried over: {', '.join(lost)}")


def _relabelled(corpus: "Corpus", source: str | None, target: str | None, repair: bool) -> "Corpus":
    """Labels in another scheme; labels that break their own are an error unless they are to be
    repaired."""
    from labelwright.corpus import detect_scheme, validate
    from labelwright.corpus.partial_labels import check_known
    from labelwright.corpus.schemes import check_scheme

    check_known(corpus.y, corpus.source)
    values = corpus.values(str(corpus.label))
    scheme = check_scheme(source) if source else detect_scheme(values, corpus.y)
    if scheme is None:
        raise CorpusError(
            f"{corpus.source}: column {corpus.label} has no chunk labels (B-X, I-X, O, ...), but "
            f"such as {values[0]!r}; name the right column with --label"
        )
    try:
        problems = [] if repair else validate(corpus.y, scheme)
    except OptionError as error:
        raise CorpusError(f"{corpus.source}: column {corpus.label}: {error}") from None
    if problems:
        first = problems[0]
        raise CorpusError(
            f"{corpus.source}: sentence {first.sentence}, token {first.token}: {first.message} "
            f"({counted(len(problems), 'such place')}); correct them with --repair, or name the "
            "scheme with --from-scheme"
        )
    return corpus.with_scheme(target or scheme, None if repair else scheme)
