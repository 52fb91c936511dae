"""Exported taggers beside the original: labels, speed and size, on CoNLL-2000 and CoNLL-2003.

    python benchmarks/exported.py CORPORA [SENTENCES]

CORPORA is a folder with conll2000/train.txt and test.txt, and conll2003.  Models are trained on the
first SENTENCES (2,000) of the training data, and label the first 2,000 of the test data.
Differences are counted in sentences: from the original, and from its copy with as many bits.  Times
are CPU time; loading is not in them.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from labelwright import CRF, LatentCRF, Perceptron
from labelwright.corpus import read_columns
from labelwright.interchange.exporting import save_program

PYTHON = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
from tagger import Tagger
begun = time.process_time()
tagger = Tagger()
loaded = time.process_time()
sentences = json.load(open(sys.argv[1] + "/words.json"))
labels = [tagger.tag(sentence) for sentence in sentences]
print(json.dumps([loaded - begun, time.process_time() - loaded, labels]))
"""
NODE = """
const begun = process.cpuUsage();
const seconds = (since) => {
  const used = process.cpuUsage(since);
  return (used.user + used.system) / 1e6;
};
const { Tagger } = require(process.argv[1] + "/tagger.js");
const tagger = new Tagger(), load = seconds(begun), loaded = process.cpuUsage();
const sentences = JSON.parse(require("fs").readFileSync(process.argv[1] + "/words.json"));
const labels = sentences.map((sentence) => tagger.tag(sentence));
console.log(JSON.stringify([load, seconds(loaded), labels]));
"""
COMMANDS = {"py": ["python3", "-I", "-c", PYTHON], "js": ["node", "-e", NODE]}


def main(corpora: str, n: int = 2000) -> None:
    print(
        "corpus     model       program bits  size KB  load s  tokens/s  differ from original, "
        "from its copy"
    )
    for corpus, template in (("conll2003", "ner"), ("conll2000", "chunking")):
        train, test = (read_columns(f"{corpora}/{corpus}/{part}.txt") for part in ("train", "test"))
        X, y, asked = train.X[:n], train.y[:n], test.X[:2000]
        n_tokens = sum(map(len, asked))
        for kind in (CRF, Perceptron, LatentCRF):
            model = kind(template=template, n_jobs=1).fit(X, y)
            begun = time.process_time()
            original = model.predict(asked)
            speed = n_tokens / (time.process_time() - begun)
            print(
                f"{corpus:10} {kind.__name__:11} itself    32 {'':8} {'':7} {speed:9,.0f}",
                flush=True,
            )
            for bits in (16, 8):
                copy = model.compressed(bits=bits)
                expected = copy.predict(asked)
                for suffix, command in COMMANDS.items():
                    with tempfile.TemporaryDirectory() as folder:
                        path = Path(folder, f"tagger.{suffix}")
                        save_program(copy, path)
                        Path(folder, "words.json").write_text(json.dumps(asked), encoding="utf-8")
                        output = subprocess.run(
                            [*command, folder], check=True, capture_output=True, text=True
                        ).stdout
                        load, seconds, labels = json.loads(output)
                        size = path.stat().st_size / 1000
                    differ = [
                        sum(a != b for a, b in zip(labels, each, strict=True))
                        for each in (original, expected)
                    ]
                    print(
                        f"{corpus:10} {kind.__name__:11} {suffix:8} {bits:3} {size:8,.0f} "
                        f"{load:7.2f} {n_tokens / seconds:9,.0f}  {differ[0]:5} {differ[1]:5}",
                        flush=True,
                    )


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
