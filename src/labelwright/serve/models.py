"""Models by name: each is loaded once, and again in the background when its file has changed."""

import logging
import os
import time
from collections.abc import Iterable
from pathlib import Path
from threading import Event
from typing import Any

from labelwright.errors import LabelwrightError, ModelFileError, OptionError, reason_of
from labelwright.serve.bodies import RequestError
from labelwright.serve.replies import ORACLE, Facts, state_names
from labelwright.taggers.packing import with_text_labels
from labelwright.taggers.registry import load

LOG = logging.getLogger("labelwright.serve")
Stamp = tuple[int, int, int]  # of a file: when it was written, its size, its number


class Served:
    """A model with a name; `tagger` is replaced as a whole, so whoever took it before goes on with
    it."""

    def __init__(self, name: str, path: str, threads: int):
        self.name, self.path, self.threads = name, path, threads
        self.stamp = self._stamp()
        self.tagger = self._load()
        self.loaded = time.time()
        self.problem: str | None = None  # why the newest file is not served

    def _stamp(self) -> Stamp | None:
        try:
            state = os.stat(self.path)
        except OSError:
            return None
        return state.st_mtime_ns, state.st_size, state.st_ino

    def _load(self) -> Any:
        model = load(self.path)
        kind = model.reads().kind
        if kind != "columns":
            raise ModelFileError(
                f"{self.path}: reads {kind}; a service needs a model that reads words or columns"
            )
        model = with_text_labels(model)
        for part in {id(part): part for part in (model, *model._outputs.values())}.values():
            part.set_params(n_jobs=self.threads)
        return model

    def refresh(self) -> None:
        """Load the model again if its file has changed; one that cannot be loaded leaves the old
        model in its place."""
        stamp = self._stamp()
        if stamp == self.stamp:
            return
        # before the file is read: what is written meanwhile is read at the next turn
        self.stamp = stamp
        try:
            self.tagger, self.loaded = self._load(), time.time()
            self.problem = None
            LOG.info("%s: the file has changed; the new model is served", self.name)
        except Exception as error:
            line = (
                str(error)
                if isinstance(error, LabelwrightError)
                else f"{type(error).__name__}: {error}"
            )
            self.problem = line.replace(self.path, "the new file")
            LOG.warning("%s: %s; the model before it is still served", self.name, line)

    @property
    def version(self) -> str:
        return f"{self.name} {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(self.loaded))}"

    def facts(self) -> Facts:
        """What a client must know before it asks."""
        model = self.tagger
        outputs = list(model._outputs.values())
        top = outputs[-1]
        decoders = [
            d for d in top.decoders if d != ORACLE and all(d in each.decoders for each in outputs)
        ]
        return {
            "name": self.name,
            "kind": type(model).__name__,
            "labels": list(map(str, top.classes_)),
            "decoders": decoders,
            "decoder": top._checked_decoder(None),
            "probabilities": bool(top._is_sure),
            "latent": bool(state_names(top)),
            "columns": list(model.reads().columns) or ["word"],
            "description": ", ".join(model._summary().sizes),
        }

    def health(self) -> Facts:
        return {"name": self.name, "version": self.version, "problem": self.problem}


class Models:
    """All models of a service; the first is the default."""

    def __init__(self, given: Iterable[str], threads: int = 1):
        self.by_name: dict[str, Served] = {}
        for text in given:
            name, path = named(text)
            if name in self.by_name:
                raise OptionError(
                    f"{path}: another model is called {name!r}; give it a name, as in NAME={path}"
                )
            try:
                self.by_name[name] = Served(name, path, threads)
            except OSError as error:
                raise ModelFileError(f"{path}: {reason_of(error)}") from None
        if not self.by_name:
            raise OptionError("expected a model file at least")
        self.default = next(iter(self.by_name))

    def get(self, name: str | None) -> Served:
        served = self.by_name.get(self.default if name is None else name)
        if served is None:
            raise RequestError(
                404, f"model: no model {name!r:.40}, expected one of {', '.join(self.by_name)}"
            )
        return served

    def watch(self, stopped: Event, seconds: float) -> None:
        """Look for changed files every so many seconds until the service stops."""
        while not stopped.wait(seconds):
            for served in self.by_name.values():
                served.refresh()


def named(text: str) -> tuple[str, str]:
    """The name and the path of a model: NAME=FILE, or a file whose name without its ending is that
    of the model.

    >>> named("models/names.crf"), named("people=models/names.crf")
    (('names', 'models/names.crf'), ('people', 'models/names.crf'))
    """
    name, equals, path = text.partition("=")
    if not equals or "/" in name or os.path.exists(text):
        name, path = Path(text).stem, text
    if not name or not path:
        raise OptionError(f"{text}: expected a model file, or NAME=FILE")
    return name, path
