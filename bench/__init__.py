"""Benchmarks that compare Gristmill with a named peer or an oracle in the same run.

The benches of a package are in its own folder `bench`, and are modules of `bench` as those of the core are.
"""

from pathlib import Path

__path__ += sorted(map(str, Path(__file__).parents[1].glob("packages/*/bench")))
