"""labelwright dictionary: the phrases that the labels of a file mark."""

from collections import Counter
from typing import Annotated

from labelwright.cli.common import (
    Columns,
    Format,
    Json,
    Label,
    LabelNames,
    SkipBadSpans,
    check_target,
    counted,
    read_labelled,
    say,
    show_json,
)
from labelwright.cli.options import OUTPUT, argument, option
from labelwright.errors import CorpusError, OptionError


def command(
    source: Annotated[str, argument("A labelled file, in any format that train reads, or -.", "FILE")],
    type: Annotated[str | None, option("Only phrases of this type, as in PER. [default: all]", "NAME")] = None,
    min_count: Annotated[int, option("Leave out phrases that occur less often.", "N")] = 1,
    columns: Columns = None,
    label: Label = None,
    format: Format = None,
    label_names: LabelNames = None,
    skip_bad_spans: SkipBadSpans = False,
    output: Annotated[str, option("Write to a file.", "FILE", OUTPUT, "--output", "-o")] = "-",
    as_json: Json = False,
) -> None:
    """List the phrases that labels mark, one on each line, most frequent first.

    \b
      labelwright dictionary train.txt --type LOC -o places.txt
      labelwright train train.txt -o model.crf --dictionary places=places.txt
    """
    check_target(output, [source])
    if min_count < 1:
        raise OptionError(f"min_count: expected a whole number of 1 or more, got {min_count}")
    from labelwright.corpus.compressed import write_bytes
    from labelwright.corpus.file_formats import FileOptions
    from labelwright.corpus.partial_labels import check_known
    from labelwright.corpus.tokenizer import labelled_phrases

    corpus = read_labelled(source, columns, label, None, FileOptions(format, label_names, skip_bad_spans))
    check_known(corpus.y, corpus.source)
    phrases = labelled_phrases(corpus)
    if type is not None and type not in phrases:
        known = f"; known: {', '.join(phrases)}" if phrases else ""
        raise CorpusError(f"{corpus.source}: no phrase of type {type!r}{known}")
    chosen = phrases if type is None else {type: phrases[type]}
    kept = {name: {p: n for p, n in counts.most_common() if n >= min_count} for name, counts in chosen.items()}
    if as_json:
        show_json({"types": {name: {" ".join(p): n for p, n in counts.items()} for name, counts in kept.items()}})
        return
    total: Counter[tuple[str, ...]] = Counter()
    for counts in kept.values():
        total.update(counts)
    lines = [line for phrase, _ in total.most_common() for line in [" ".join(phrase)] if tuple(line.split()) == phrase]
    write_bytes(output, "".join(f"{line}\n" for line in lines).encode())
    left_out = len(total) - len(lines)
    if left_out:
        say(f"{corpus.source}: {counted(left_out, 'phrase')} left out: a word of theirs contains whitespace")
    if output != "-":
        say(f"{output}: {counted(len(lines), 'phrase')}")
