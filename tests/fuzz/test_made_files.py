"""Made model files: whatever a file with a right checksum holds, loading and asking it works or is
one clear error.

`python -m tests.fuzz.made_files --cases N --seed S` makes as many as one likes; with
`make boundscheck` every index in the kernels is checked."""

import json
from pathlib import Path

import numpy as np
import pytest
import zoo

import labelwright
from labelwright import modelfile
from labelwright.errors import ModelFileError
from labelwright.taggers.estimator import untrained

from . import file_changes, headers, made_files

OLD = Path(__file__).parent.parent / "data" / "v0.1.0"
CASES, GROUPS = 100, 2  # of each group of kinds
FITTED = {"sentences": 1, "tokens": 1, "iterations": 1, "loss": 1.0}
MEMORISED = {"sentences": 1, "tokens": 1, "seconds": 1.0, "labelwright": "0.1.0"}
COLD = FITTED | {
    "calibration": {"temperature": 0, "sentences": 1, "log_likelihood_per_token": -1.0}
}


@pytest.mark.slow
@pytest.mark.parametrize("group", range(GROUPS))
def test_made_files_work_or_are_refused_in_one_line(group):
    names = made_files.NAMES[group::GROUPS]
    outcomes = list(made_files.outcomes(names, range(1000, 1000 + CASES)))
    assert len(outcomes) == CASES
    assert [case for case in outcomes if case[2] not in made_files.FINE] == []
    assert {outcome for _, _, outcome in outcomes} >= {"works", "refused"}


@pytest.mark.slow
def test_headers_with_another_value_work_or_are_refused_in_one_line(monkeypatch):
    monkeypatch.setenv("LABELWRIGHT_DEBUG", "1")
    outcomes = list(
        headers.outcomes(["crf", "latent-perceptron", "cascade", "memory"], range(0, 10**6, 127))
    )
    assert len(outcomes) > 100
    assert [case for case in outcomes if case[2] not in made_files.FINE] == []
    assert {outcome for _, _, outcome in outcomes} >= {"works", "refused"}


def test_numbers_are_read_only_from_columns_that_are_there(tmp_path):
    tensors, header = modelfile.read(zoo.content("crf-numeric"))
    header["features"]["columns"] = ["word"]
    modelfile.write(tmp_path / "made", tensors, header)
    with pytest.raises(
        ModelFileError, match="header: features: template: reads column 1, but the model has 1"
    ):
        labelwright.load(tmp_path / "made")


def test_a_made_file_has_a_right_checksum_and_depends_on_its_case_alone():
    valid = (OLD / "crf.model").read_bytes()
    assert file_changes.written(*file_changes.opened(valid)) is not None
    for case in range(20):
        made = made_files.made_file(case, "crf", valid)
        assert made == made_files.made_file(case, "crf", valid) != valid
        modelfile.read(made)


def test_every_kind_of_tagger_that_files_can_hold_is_made():
    kinds = {type(made()).__name__ for made, *_ in zoo.MODELS.values()}
    stored = {home.partition(":")[2] for home in labelwright.taggers.registry.homes().values()} - {
        "NgramTagger"
    }
    assert stored <= kinds


def _set(place, value):
    def change(array):
        array = array.copy()
        array.reshape(-1)[place] = value
        return array

    return change


def _raised(ptr):
    """The first weight belongs to the first feature."""
    ptr = ptr.copy()
    ptr[1:] = np.maximum(ptr[1:], 1)
    return ptr


@pytest.mark.parametrize(
    ("name", "tensor", "change", "message"),
    [
        (
            "crf",
            "state.column",
            _set(0, 10**6),
            "tensor state.column: expected indices from 0 to below",
        ),
        ("crf", "state.ptr", _set(3, 2**62), "tensor state.ptr: expected pointers"),
        (
            "crf",
            "labels.first",
            _set(-1, 2**31 - 1),
            "tensor space.start: expected bool [2147483647]",
        ),
        ("crf", "transitions", _set(0, np.nan), "tensor transitions: expected finite numbers"),
        ("crf", "features.table0", _set(0, -1), "tensor features.table0: expected indices"),
        ("crf", "space.arc", lambda a: a[:-1], "tensor space.arc: expected bool"),
        ("crf", "space.start", lambda a: a & False, "expected states that may begin"),
        (
            "crf-order2",
            "space.arc",
            lambda a: a & False,
            "expected states that may begin, follow and end",
        ),
        ("crf", "labels.text", _set(0, 9), "holds a tab, so no file can hold it"),
        ("memory", "labels.text", _set(0, 10), "holds a newline, so no file can hold it"),
        (
            "crf-dicts",
            "features.names.offsets",
            _set(1, 10**6),
            "tensor features.names.offsets: expected pointers",
        ),
        (
            "semi-crf",
            "features.phrases.parent",
            _set(0, 5),
            "tensor features.phrases.parent: expected indices",
        ),
        ("semi-crf", "features.phrases.feature", _set(0, 3), "each text of a segment once"),
        (
            "semi-crf",
            "segment.ptr",
            _raised,
            "tensor segment.ptr: expected weights of segments at none of",
        ),
        (
            "semi-crf",
            "features.phrases.word",
            _set(2, 0),
            "tensor features.phrases.word: expected a tree",
        ),
        (
            "cascade",
            "layer1.features.base.table0",
            _set(0, 10**9),
            "tensor layer1.features.base.table0: expected",
        ),
        ("cascade", "lexicon.had.offsets", lambda a: a[:-1], "tensor lexicon.had"),
        ("memory-based", "trie.child", _set(0, 0), "tensor trie.child: expected a tree"),
        (
            "memory-based",
            "trie.end",
            _set(0, 3),
            "tensor trie.begin: expected children that share out",
        ),
        (
            "memory-based",
            "groups.count",
            _set(0, 0.0),
            "tensor groups.count: expected finite numbers from 1",
        ),
        (
            "memory-based",
            "groups.frequency",
            _set(0, 0.0),
            "tensor groups.frequency: expected the sums",
        ),
        (
            "memory-based",
            "column0.code_of",
            _set(0, 10**6),
            "tensor column0.code_of: expected indices",
        ),
        (
            "memory-based",
            "distances.turned_code",
            _set(0, 10**6),
            "tensor distances.turned_code: expected indices",
        ),
        (
            "memory-based",
            "distances.share",
            _set(0, 5e-324),
            "distances.share: expected finite numbers from 1e-300",
        ),
        (
            "memory-based",
            "distances.pair_base",
            _set(0, 7),
            "tensor distances.pair_base: expected the columns",
        ),
        (
            "memory-based",
            "grouped.members",
            _set(0, 1),
            "tensor grouped.members: expected a permutation",
        ),
        ("memory", "grams", _set(1, -1), "tensor grams: expected indices from 0"),
        (
            "memory",
            "grams",
            lambda a: a[[0, *range(len(a) - 1)]],
            "tensor grams: expected distinct values",
        ),
        (
            "memory",
            "values0.text",
            _set(0, 0),
            "tensor values0: expected strings and numbers in JSON, got '\\x00",
        ),
        ("memory-igtree", "tree.child", _set(2, 0), "tensor tree.child: expected a tree"),
    ],
)
def test_what_kernels_rely_on_is_checked(name, tensor, change, message, tmp_path):
    tensors, header = modelfile.read(OLD / f"{name}.model")
    tensors[tensor] = change(tensors[tensor])
    modelfile.write(tmp_path / "made", tensors, header)
    with pytest.raises(ModelFileError) as caught:
        labelwright.load(tmp_path / "made")
    text = str(caught.value)
    assert message in text
    assert text.startswith(f"{tmp_path / 'made'}: ")
    assert text.endswith("; copy or train it again")


def test_phrases_of_a_small_file_are_not_spelt_out_in_gigabytes(tmp_path):
    tensors, header = modelfile.read(OLD / "semi-crf.model")
    n = 20_000  # a chain of words, and each beginning of it is a phrase: 200 million words
    header["features"]["segments"] |= {"n_texts": 0, "dictionaries": ["all"]}
    tensors |= {
        "features.phrases.parent": np.arange(n, dtype=np.int32),
        "features.phrases.word": np.zeros(n, np.int32),
        "features.phrases.ptr": np.maximum(np.arange(-1, n + 1), 0),
        "features.phrases.feature": np.zeros(n, np.int32),
    }
    modelfile.write(tmp_path / "made", tensors, header)
    with pytest.raises(
        ModelFileError, match=r"phrases\.parent: the phrases have 200,010,000 words"
    ):
        labelwright.load(tmp_path / "made")


@pytest.mark.parametrize("depth", [900, 100_000])
def test_headers_that_are_nested_deep_are_refused(depth):
    arrays, fields = file_changes.opened((OLD / "crf.model").read_bytes())
    made = file_changes.written(arrays, fields | {"training": file_changes.Nest(depth)})
    with pytest.raises(ModelFileError, match=r"the header is (damaged|nested too deep)|checksum"):
        labelwright.load(made)


def test_what_no_check_has_foreseen_is_one_line(monkeypatch):
    def fail(*_):
        raise KeyError("two\nlines")

    for name, target in (
        ("crf", "labelwright.taggers.chain_structure:read_trained"),
        ("crfpp", "labelwright.interchange.crfpp:_sizes"),
    ):
        module, _, function = target.partition(":")
        monkeypatch.setattr(f"{module}.{function}", fail)
        content = zoo.content(name) if name == "crfpp" else (OLD / "crf.model").read_bytes()
        with pytest.raises(
            ModelFileError,
            match=r"^<bytes>: the file does not fit together \(KeyError: [^\n]*\); copy",
        ):
            labelwright.load(content)


def test_booleans_are_zeros_and_ones(tmp_path):
    tensors, header = modelfile.read(OLD / "crf.model")
    tensors["space.start"].view(np.uint8)[0] = 2  # NumPy would count it twice
    modelfile.write(tmp_path / "made", tensors, header)
    with pytest.raises(ModelFileError, match=r"tensor space\.start: expected booleans"):
        labelwright.load(tmp_path / "made")


@pytest.mark.parametrize(
    ("name", "field", "value", "message"),
    [
        ("crf", "kind", "Estimator", "expected a model, got a 'Estimator'"),
        ("crf", "kind", "NgramTagger", "a NgramTagger cannot be stored in a model file"),
        ("crf", "kind", ["CRF"], "expected a model, got a"),
        ("crf", "order", 2, "tensor triples: missing"),
        ("crf", "scheme", "nonsense", "header: scheme: expected one of"),
        ("crf", "layers", ["state"], "header: layers: expected state, edge"),
        ("crf", "parameters", {"l2": -1}, "l2: expected a number of 0 or more"),
        (
            "crf",
            "parameters",
            {"warm_start": float("inf")},
            "warm_start: expected true or false, got inf",
        ),
        (
            "crf",
            "parameters",
            {"verbose": 0.5},
            "verbose: expected true, false or a whole number, got 0.5",
        ),
        (
            "crf-arrays",
            "features",
            {"n_columns": 10**9},
            "tensor state.ptr: expected int64 [1000000001]",
        ),
        ("perceptron", "training", COLD, "temperature: expected a number above 0"),
        ("perceptron", "history", [{"loss": 3.0}], "header: history[0]: 'mistakes' is missing"),
        ("crf", "training", {"sentences": 3}, "header: training: 'tokens' is missing"),
        ("memory-based", "training", {"sentences": 3}, "header: training: 'tokens' is missing"),
        ("cascade", "layers", [], "layers: expected one layer or more"),
        (
            "cascade",
            "inputs",
            [],
            "header: inputs: expected 1 columns, as the lowest layer reads them",
        ),
        ("cascade", "training", {}, "header: training: 'seconds' is missing"),
        ("memory", "windows", {"kind": "layered"}, "header: windows"),
        ("memory", "columns", 10**9, "expected int32 [any, 1000000000]"),
        ("memory", "training", MEMORISED | {"dev": {}}, "header: training: dev: expected a number"),
        (
            "cascade",
            "training",
            {"seconds": 1.0, "labelwright": "1", "dev": 0.5},
            "header: training: dev: expected",
        ),
        (
            "crf",
            "parameters",
            {"forbidden_transitions": [[[], "O"]]},
            "forbidden_transitions: expected pairs",
        ),
        (
            "latent-perceptron",
            "parameters",
            {"n_latent": {}},
            "n_latent: expected a whole number or a table of one",
        ),
        (
            "latent-perceptron",
            "parameters",
            {"n_latent": 2**31},
            "n_latent: expected at most 1,000,000 states",
        ),
    ],
)
def test_headers_are_checked(name, field, value, message, tmp_path):
    tensors, header = modelfile.read(OLD / f"{name}.model")
    modelfile.write(tmp_path / "made", tensors, header | {field: value})
    with pytest.raises(ModelFileError) as caught:
        labelwright.load(tmp_path / "made")
    assert message in str(caught.value)


@pytest.mark.parametrize("record", [{}, {"imported_from": "another program"}], ids=str)
def test_layers_of_a_cascade_were_trained(record, tmp_path):
    tensors, header = modelfile.read(OLD / "cascade.model")
    header["layers"][1]["model"]["training"] = record
    modelfile.write(tmp_path / "made", tensors, header)
    with pytest.raises(
        ModelFileError, match=r"layers\[1\]: model: training: expected the record of a layer"
    ):
        labelwright.load(tmp_path / "made")


@pytest.mark.parametrize("name", ["semi-crf", "lattice-crf"])
def test_taggers_without_an_order_2_refuse_files_that_claim_it(name, tmp_path):
    tensors, header = modelfile.read(
        OLD / f"{name}.model" if name == "semi-crf" else zoo.content(name)
    )
    tensors["triples"] = np.zeros(len(tensors["space.start"]) ** 3, np.float32)
    modelfile.write(tmp_path / "made", tensors, header | {"order": 2})
    with pytest.raises(ModelFileError, match="header: order: expected 1, got 2"):
        labelwright.load(tmp_path / "made")


@pytest.mark.parametrize("name", ["crf", "cascade", "memory"])
def test_the_number_of_threads_is_not_for_the_file_to_say(name, tmp_path):
    tensors, header = modelfile.read(OLD / f"{name}.model")
    header["parameters"]["n_jobs"] = 4096
    modelfile.write(tmp_path / "made", tensors, header)
    model = labelwright.load(tmp_path / "made")
    assert {
        key: value for key, value in model.get_params().items() if key.endswith("n_jobs") and value
    } == {}


@pytest.mark.parametrize(
    "name", ["crf", "crf-dicts", "perceptron", "latent-perceptron", "semi-crf", "cascade", "memory"]
)
def test_no_setting_of_a_file_names_another_file(name, tmp_path):
    """`fit` of a model that was loaded reads what its settings name."""
    tensors, header = modelfile.read(OLD / f"{name}.model")
    secret = str(tmp_path / "secret.txt")
    named = {
        "vectors": secret,
        "template": secret,
        "dictionaries": {"a": secret},
        "clusters": {"a": secret},
    }
    for part in (
        header,
        *(layer["model"] for layer in header.get("layers", ()) if isinstance(layer, dict)),
    ):
        part["parameters"] |= named
    modelfile.write(tmp_path / "made", tensors, header)
    assert secret not in repr(untrained(labelwright.load(tmp_path / "made")).get_params())


@pytest.mark.parametrize(
    ("setting", "X"),
    [("vectors", [["a", "b"]]), ("template", [[{"w": "a"}, {"w": "b"}]])],
    ids=["vectors", "template"],
)
def test_files_do_not_tell_where_the_trainer_keeps_things(setting, X, tmp_path):
    (tmp_path / "given.txt").write_text("a 1 2\nb 2 1\n")
    given = {setting: str(tmp_path / "given.txt")}
    labelwright.CRF(n_jobs=1, max_iter=2, **given).fit(X, [["A", "B"]]).save(tmp_path / "m")
    assert str(tmp_path) not in json.dumps(modelfile.read(tmp_path / "m")[1])
