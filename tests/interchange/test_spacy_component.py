"""The component for spaCy's pipelines, with the real spaCy; and DocBin files."""

import io
import zlib

import pytest

import labelwright
from labelwright.corpus import max_input
from labelwright.errors import CorpusError, OptionError

spacy = pytest.importorskip("spacy")

import srsly  # noqa: E402
from spacy.tokens import DocBin, Span  # noqa: E402

from labelwright.interchange import spacy_component  # noqa: E402, F401  (registers the factory)

TEXTS = [
    "Ada Lovelace saw Paris.",
    "They left  London.\n",
    "",
    "Alan met Ada Lovelace. They left Paris.",
]
X = [
    ["Ada", "Lovelace", "saw", "Paris", "."],
    ["They", "left", "London", "."],
    ["Alan", "met", "Ada", "Lovelace", "."],
]
Y = [
    ["B-PER", "I-PER", "O", "B-LOC", "O"],
    ["O", "O", "B-LOC", "O"],
    ["B-PER", "O", "B-PER", "I-PER", "O"],
]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("spacy") / "names.crf"
    labelwright.CRF(max_iter=30, n_jobs=1).fit(X, Y).save(path)
    return path


@pytest.fixture
def nlp(model):
    nlp = spacy.blank("en")
    nlp.add_pipe("labelwright", config={"model": str(model)})
    return nlp


def entities(doc):
    return [(ent.text, ent.label_) for ent in doc.ents]


def test_entities_have_types_and_probabilities(nlp, model):
    doc = nlp(TEXTS[0])
    assert entities(doc) == [("Ada Lovelace", "PER"), ("Paris", "LOC")]
    (expected,) = labelwright.load(model).predict_spans([[token.text for token in doc]])
    assert [ent._.probability for ent in doc.ents] == pytest.approx(
        [span.probability for span in expected]
    )
    assert [span._.probability for span in doc.spans["labelwright"]] == [
        ent._.probability for ent in doc.ents
    ]
    assert nlp.get_pipe("labelwright").labels == ("LOC", "PER")


def test_a_stream_is_answered_like_single_texts(nlp):
    alone = [entities(nlp(text)) for text in TEXTS]
    for size in (1, 3, 100):
        assert [entities(doc) for doc in nlp.pipe(TEXTS, batch_size=size)] == alone
    assert alone[1:] == [
        [("London", "LOC")],
        [],
        [("Alan", "PER"), ("Ada Lovelace", "PER"), ("Paris", "LOC")],
    ]


def test_sentences_of_the_pipeline_are_used(nlp):
    nlp.add_pipe("sentencizer", first=True)
    assert entities(nlp(TEXTS[3]))[-1] == ("Paris", "LOC")


def test_a_pipeline_can_be_saved_and_loaded_without_the_model_file(nlp, model, tmp_path):
    nlp.to_disk(tmp_path / "pipeline")
    before, data = [entities(nlp(text)) for text in TEXTS], nlp.to_bytes()
    moved = model.rename(model.with_suffix(".moved"))
    try:
        again = spacy.load(tmp_path / "pipeline")
        assert [entities(doc) for doc in again.pipe(TEXTS)] == before
        fresh = spacy.blank("en")
        fresh.add_pipe("labelwright")
        assert entities(fresh.from_bytes(data)(TEXTS[0])) == before[0]
    finally:
        moved.rename(model)


@pytest.mark.parametrize("overwrite", [False, True])
def test_entities_that_are_there_already(model, overwrite):
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "NAME", "pattern": "Lovelace"}])
    nlp.add_pipe("labelwright", config={"model": str(model), "overwrite": overwrite})
    names = [("Ada Lovelace", "PER")] if overwrite else [("Lovelace", "NAME")]
    assert entities(nlp(TEXTS[0])) == [*names, ("Paris", "LOC")]


def test_mistakes(model, tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("labelwright")
    with pytest.raises(OptionError, match=r"^labelwright: no model; name one"):
        nlp("Ada")
    nlp = spacy.blank("en")
    nlp.add_pipe("labelwright", config={"model": str(tmp_path / "gone")})
    with pytest.raises(OptionError, match="gone: no such file"):
        nlp("Ada")
    labelwright.CRF(max_iter=1, n_jobs=1).fit(
        [[("Ada", "N"), ("ran", "V")]], [["B-PER", "O"]]
    ).save(tmp_path / "two")
    with pytest.raises(OptionError, match=r"text: the model reads 2 columns \(word,pos\)"):
        spacy.blank("en").add_pipe("labelwright", config={"model": str(tmp_path / "two")})


def test_docbin(nlp, tmp_path):
    docs = [nlp.make_doc("Ada Lovelace  saw Paris."), nlp.make_doc("He left.")]
    docs[0].ents = [Span(docs[0], 0, 2, label="PER"), Span(docs[0], 4, 5, label="LOC")]
    DocBin(docs=docs).to_disk(tmp_path / "train.spacy")
    corpus = labelwright.read_docbin(tmp_path / "train.spacy")
    assert corpus.X == [["Ada", "Lovelace", "saw", "Paris", "."], ["He", "left", "."]]
    assert corpus.y == [Y[0], ["O", "O", "O"]]
    (tmp_path / "bad.spacy").write_bytes(b"no")
    with pytest.raises(labelwright.LabelwrightError, match=r"bad.spacy: not a DocBin of spaCy"):
        labelwright.read_docbin(tmp_path / "bad.spacy")


def test_docbins_have_a_limit(nlp):
    data = DocBin(docs=[nlp.make_doc("dog " * 20_000)]).to_bytes()
    assert len(data) < 10_000
    with (
        max_input("100K"),
        pytest.raises(CorpusError, match="<stream>: decompressed, more than 100K"),
    ):
        labelwright.read_docbin(io.BytesIO(data))
    with max_input("10M"):
        assert labelwright.read_docbin(io.BytesIO(data)).n_tokens == 20_000


def test_damage_inside_a_docbin_is_one_line(nlp):
    parts = srsly.msgpack_loads(zlib.decompress(DocBin(docs=[nlp.make_doc("Ada ran")]).to_bytes()))
    for damaged in (
        {**parts, "strings": []},
        {**parts, "tokens": b"odd"},
        {**parts, "spaces": b""},
        {},
        [],
    ):
        data = zlib.compress(srsly.msgpack_dumps(damaged))
        with pytest.raises(
            CorpusError, match="<stream>: not a DocBin of spaCy, or a damaged one: "
        ) as refused:
            labelwright.read_docbin(io.BytesIO(data))
        assert "\n" not in str(refused.value)
