"""The tagger of the worked examples of CONTRIBUTING.md."""

from contributing import sources

(source,) = sources("src/labelwright/taggers/most_frequent").values()
exec(compile(source, "CONTRIBUTING.md", "exec"))
