"""What programs built on CRFsuite answer, as JSON: run by compat.py with and without labelwright in
its place.

python benchmarks/compat_programs.py usaddress --sources DIR
python -m labelwright.compat benchmarks/compat_programs.py usaddress --sources DIR
"""

import argparse
import json
import random
import sys
import time
import types
from pathlib import Path
from typing import Any

AMOUNTS = ["1", "2", "3 1/2", "250", "1/2", "about 2", "4-5", "1 (15 oz)"]
UNITS = ["cups", "g", "tbsp", "large", "cloves", "cans", "ml", "pinch of", ""]
FOODS = [
    "onions",
    "plain flour",
    "garlic",
    "chopped tomatoes",
    "olive oil",
    "sea salt",
    "whole milk",
    "spring onion",
]
NOTES = [
    "",
    ", finely chopped",
    ", plus extra to serve",
    " (optional)",
    ", at room temperature",
    " or to taste",
]
VIETNAMESE = [
    "Hà_Nội",
    "hôm_nay",
    "trời",
    "đẹp",
    "tôi",
    "đi",
    "học",
    "Việt_Nam",
    "là",
    "nước",
    "của",
    "chúng_tôi",
]
VIETNAMESE += ["ông", "Nam", "bà", "Lan", "công_ty", "mới", "ở", "thành_phố", "lớn"]


def timed(work: Any) -> tuple[Any, float]:
    begun = time.perf_counter()
    return work(), time.perf_counter() - begun


def addresses(files: list[Path]) -> list[list[tuple[str, str]]]:
    """The labelled addresses of usaddress's own training data."""
    from parserator.training import readTrainingData

    return [
        list(components)
        for _, components in readTrainingData([str(file) for file in files], "AddressCollection")
    ]


def usaddress(sources: Path) -> dict[str, Any]:
    """Parse the addresses of its training data with the shipped model; train from scratch with its
    own code."""
    import usaddress
    from parserator.training import readTrainingData, trainModel

    held_out = addresses([sources / "training" / "us50_messiest_manual_label.xml"])
    files = [sources / "training" / name for name in ("labeled.xml", "us50_train_tagged.xml")]
    texts = [" ".join(token for token, _ in address) for address in held_out + addresses(files)]
    usaddress.parse(texts[0])
    parsed, seconds = timed(lambda: [usaddress.parse(text) for text in texts])
    tagger = usaddress.TAGGER
    marginals = []
    for text in texts[:50]:
        tokens = usaddress.tokenize(text)
        labels = tagger.tag(usaddress.tokens2features(tokens))
        marginals.append(tagger.probability(labels))
    training = list(readTrainingData([str(file) for file in files], "AddressCollection"))
    model = sources / "retrained.crfsuite"
    _, training_seconds = timed(lambda: trainModel(training, usaddress, str(model)))
    import pycrfsuite

    again = pycrfsuite.Tagger()
    again.open(str(model))
    right = total = 0
    for address in held_out:
        labels = again.tag(usaddress.tokens2features([token for token, _ in address]))
        right += sum(a == b for a, (_, b) in zip(labels, address))  # noqa: B905
        total += len(address)
    model.unlink()
    return {
        "answers": parsed,
        "numbers": marginals,
        "seconds": seconds,
        "training": {
            "addresses": len(training),
            "seconds": training_seconds,
            "accuracy": right / total,
        },
    }


def ingredients(sources: Path) -> dict[str, Any]:
    """Parse 400 sentences made of amounts, units, foods and notes."""
    from ingredient_parser import parse_ingredient

    rng = random.Random(0)
    texts = [
        " ".join(
            (
                f"{rng.choice(AMOUNTS)} {rng.choice(UNITS)} {rng.choice(FOODS)}{rng.choice(NOTES)}"
            ).split()
        )
        for _ in range(400)
    ]
    parse_ingredient(texts[0])
    parsed, seconds = timed(lambda: [parse_ingredient(text) for text in texts])
    numbers = [part.confidence for each in parsed for name in (each.name or []) for part in [name]]
    return {"answers": [str(each) for each in parsed], "numbers": numbers, "seconds": seconds}


def vietnamese(sources: Path) -> dict[str, Any]:
    """POS tags, chunks and entities of 300 word sequences by the models that underthesea ships."""
    # compiled; not used here
    sys.modules.setdefault("underthesea_core", types.SimpleNamespace(CRFFeaturizer=None))
    from underthesea.pipeline.chunking.model_crf import CRFChunkingPredictor
    from underthesea.pipeline.ner.model_crf import CRFNERPredictor
    from underthesea.pipeline.pos_tag.model_crf import CRFPOSTagPredictor

    rng = random.Random(0)
    sentences = [[rng.choice(VIETNAMESE) for _ in range(rng.randint(3, 15))] for _ in range(300)]
    predictors = [
        made.Instance() for made in (CRFPOSTagPredictor, CRFChunkingPredictor, CRFNERPredictor)
    ]

    def work() -> list[Any]:
        answers = sentences
        for predictor in predictors:
            answers = [predictor.predict(sentence) for sentence in answers]
        return answers

    answers, seconds = timed(work)
    return {"answers": answers, "numbers": [], "seconds": seconds}


PROGRAMS = {"usaddress": usaddress, "ingredient-parser-nlp": ingredients, "underthesea": vietnamese}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("--sources", type=Path, default=Path())
    options = parser.parse_args()
    json.dump(PROGRAMS[options.program](options.sources), sys.stdout)
