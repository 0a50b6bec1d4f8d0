"""The targets, one for each kind of file from outside. Import them under the meter, or nothing is counted."""

from fuzz.target import Target
from fuzz.targets import archives, documents, formats, pages, pdfs, recipes, shards, suites, tokenizers

TARGETS: dict[str, Target] = {
    target.name: target
    for module in (archives, documents, formats, pdfs, pages, recipes, tokenizers, shards, suites)
    for target in module.TARGETS
}
