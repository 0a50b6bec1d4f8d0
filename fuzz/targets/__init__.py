"""The targets, one for each kind of file from outside. Import them under the meter, or nothing is counted."""

from fuzz.target import Target
from fuzz.targets import archives, documents, pages, pdfs, recipes, shards, suites, tokenizers

TARGETS: dict[str, Target] = {
    target.name: target
    for module in (archives, documents, pdfs, pages, recipes, tokenizers, shards, suites)
    for target in module.TARGETS
}
