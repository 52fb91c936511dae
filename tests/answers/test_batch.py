"""A batch of scored sentences, asked directly."""

import pytest

from labelwright.errors import OptionError
from taggers import NEW, SENTENCES, Case

DECODERS = {
    "crf": "viterbi, marginal, ldi, exact, mbr",
    "perceptron": "viterbi",
    "semi-crf": "viterbi, exact",
    "memory": "none, vote, csi",
}


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_that_there_is_not_is_refused(name):
    batch = Case(name).trained.scored(NEW)
    with pytest.raises(
        OptionError, match=f"^decoder: expected one of {DECODERS[name]}, got 'beam'$"
    ):
        batch.decode("beam")
    for decoder in DECODERS[name].split(", "):
        assert len(batch.decode(decoder)) == len(NEW)


def test_a_perceptron_has_no_decoder_by_probabilities():
    """Its record would claim a proof."""
    with pytest.raises(OptionError, match=r"^decoder: expected one of viterbi, got 'marginal'$"):
        Case("perceptron").trained.scored(SENTENCES[:1]).decode("marginal")
