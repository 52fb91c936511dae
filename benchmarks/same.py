"""Do two checkouts of labelwright learn and answer the same?  For every tagger: predictions, weights, probabilities.

    python benchmarks/same.py ../other-checkout --corpora CORPORA [--sentences 1000] [--iterations 20]

Each checkout runs in a process of its own on the same sentences of CoNLL-2000; the answers are compared here.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np


def answers(corpora: str, sentences: int, iterations: int, out: str) -> None:
    """Train every tagger with the labelwright that is on the path, and write what it answers."""
    from labelwright import CRF, Cascade, LatentCRF, LatentPerceptron, MemoryTagger, Perceptron, SemiCRF, read_columns

    train = read_columns(Path(corpora, "conll2000", "train.txt"), names="word,pos,chunk").take(slice(0, sentences))
    test = read_columns(Path(corpora, "conll2000", "test.txt"), names="word,pos,chunk").take(slice(0, 300))
    run: dict[str, Any] = {"max_iter": iterations, "random_state": 0}
    layers = [("pos", CRF(max_iter=iterations)), ("chunk", CRF(max_iter=iterations))]
    taggers = {
        "crf": CRF(template="chunking", **run),
        "crf, arcs": CRF(template="words-arcs", **run),
        "crf, l1": CRF(template="chunking", l1=0.5, **run),
        "crf, sgd": CRF(template="chunking", optimizer="sgd", max_iter=3, random_state=0),
        "crf, order 2": CRF(template="words", order=2, **run),
        "latent-crf": LatentCRF(n_latent=2, template="words", **run),
        "perceptron": Perceptron(template="chunking", max_iter=5, random_state=0),
        "latent-perceptron": LatentPerceptron(n_latent=2, template="words", max_iter=5, random_state=0),
        "semi-crf": SemiCRF(template="words", **run),
        "memory": MemoryTagger(k=3, metric="mvdm", votes="inverse-distance"),
        "cascade": Cascade(layers, passing="joint", max_iter=iterations),
    }
    found = {}
    for name, tagger in taggers.items():
        if name == "cascade":
            X = train.column("word")
            tagger.fit(X, {"pos": train.column("pos"), "chunk": train.y})
            labels = tagger.predict(test.column("word"))["chunk"]
            weights = np.concatenate([layer.weights_ for layer in tagger.layers_.values()])
            values = [d.log_probability for d in tagger.decode(test.column("word"))["chunk"]]
        else:
            tagger.fit(train)
            labels, weights = tagger.predict(test), getattr(tagger, "weights_", np.zeros(1))
            values = [d.score if d.log_probability is None else d.log_probability for d in tagger.decode(test)]
        found[name] = {"labels": labels, "weights": weights.tolist(), "values": values}
        sys.stderr.write(f"  {name}\n")
    Path(out).write_text(json.dumps(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", help="the other checkout")
    parser.add_argument("--corpora", default=os.environ.get("LABELWRIGHT_CORPORA"), help="folder with conll2000/")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--answers", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.corpora:
        parser.error("name the folder of corpora with --corpora")
    if options.answers:
        answers(options.corpora, options.sentences, options.iterations, options.answers)
        return
    here, results = Path(__file__).resolve().parent.parent, []
    with tempfile.TemporaryDirectory() as folder:
        for checkout in (Path(options.other).resolve(), here):
            out = Path(folder, f"{len(results)}.json")
            sys.stderr.write(f"{checkout.name}\n")
            command = [sys.executable, __file__, options.other, "--answers", str(out), "--corpora", options.corpora]
            command += ["--sentences", str(options.sentences), "--iterations", str(options.iterations)]
            subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": str(checkout / "src")})
            results.append(json.loads(out.read_text()))
    print(f"{'tagger':<18} {'labels equal':>13} {'weights differ by':>18} {'scores differ by':>17}")
    for name, before in results[0].items():
        after = results[1][name]
        pairs = [
            (a, b) for x, y in zip(before["labels"], after["labels"], strict=True) for a, b in zip(x, y, strict=True)
        ]
        equal = sum(a == b for a, b in pairs) / len(pairs)
        old, new = np.array(before["weights"]), np.array(after["weights"])
        weights = np.abs(old - new).max() / max(1e-12, np.abs(old).max())
        values = np.abs(np.array(before["values"]) - np.array(after["values"])).max()
        print(f"{name:<18} {100 * equal:12.3f}% {weights:18.1e} {values:17.1e}")


if __name__ == "__main__":
    main()
