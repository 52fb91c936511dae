"""The tagger of the worked examples of CONTRIBUTING.md."""

import contributing

exec(compile(contributing.sources()["src/labelwright/taggers/most_frequent.py"], "CONTRIBUTING.md", "exec"))
