"""A trainer that prints one line for each iteration."""

from typing import Any

from labelwright.compat.pycrfsuite import Trainer


class LinePerIterationTrainer(Trainer):
    """Prints one line for each iteration, and at the end a table of the labels of the holdout data."""

    def on_iteration(self, log: str, info: dict[str, Any]) -> None:
        parts = [f"Iter {info['num']:<3}", f"time={info['time']:<5.2f}", f"loss={info['loss']:<8.2f}"]
        if "active_features" in info:
            parts.append(f"active={info['active_features']:<5}")
        if "avg_precision" in info:
            parts += [f"precision={info['avg_precision']:.3f}", f"recall={info['avg_recall']:.3f}"]
            parts += [f"F1={info['avg_f1']:.3f}"]
            parts += [f"Acc(item/seq)={info['item_accuracy_float']:.3f} {info['instance_accuracy_float']:.3f}"]
        if "feature_norm" in info:
            parts.append(f"feature_norm={info['feature_norm']:<8.2f}")
        print("  ".join(parts).strip())

    def on_optimization_end(self, log: str) -> None:
        last = self.logparser.last_iteration if self.logparser else None
        if last and last.get("scores"):
            width = max(5, *map(len, last["scores"]))
            heading = f"{'Label':<{width}}  Precision    Recall        F1    Support"
            print("=" * len(heading), heading, sep="\n")
            for label, score in sorted(last["scores"].items()):
                shares = "  ".join(f"{x or 0:8.3f}" for x in (score.precision, score.recall, score.f1))
                print(f"{label:<{width}}   {shares}  {score.ref:>9}")
            print("-" * len(heading))
        super().on_optimization_end(log)
