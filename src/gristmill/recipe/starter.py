"""The recipe that `gristmill init` writes: one source that works, and the others a comment away."""

NAME = "recipe.yaml"
"""What the file is called, where nobody says otherwise."""
STARTER = """\
# A recipe says what the corpus is. The same recipe over the same files gives the same bytes, every time.
#
#   gristmill plan recipe.yaml      shows what would run, and why
#   gristmill run recipe.yaml       runs it; what is done already is not done again
#   gristmill run recipe.yaml --sample 1%      tries it on one record of a hundred
#
# Relative paths start at the folder of this file. ${NAME} is an environment variable, ${NAME:-default} has a default.

recipe: my-corpus        # the name of the corpus
seed: 1234567            # all randomness comes from it
store: ./store           # where results are kept: a folder, or a URI such as s3://bucket/prefix
strict: false            # true: what a run would only warn of is an error

# What is read. Each source has a name and a kind; sources of one kind take the same steps.
sources:
  crawl:
    kind: web
    read:
      format: warc                             # warc, wet, jsonl, json, csv, parquet, text, html or code
      paths: ["data/crawl/**/*.warc.gz"]       # files, folders with all below them, and globs
      # exclude: ["data/crawl/broken/"]        # what of them is left out
      # snapshot: "crawl/([^/]+)/"             # a name, or a regular expression whose group finds it in the path
      # part_bytes: 64MiB                      # input that becomes one part, the unit of work
      # limit: 1000                            # to try the recipe: no more records than that
    domain: web                                # what the mix counts it as
    tier: B                                    # how good it is, for the mix
    # license: CC-BY-4.0                       # of every document that does not say its own

  # notes:
  #   kind: text
  #   read: {format: jsonl, paths: ["data/notes/*.jsonl.zst"]}
  #   license: CC-BY-SA-4.0
  #   domain: reference
  #   tier: A

  # projects:
  #   kind: code
  #   read: {format: code, paths: ["data/projects/"]}
  #   domain: code
  #   tier: A

# What is done with the documents: the list of the source's kind (or of its own name), then the list under all.
# No step deletes a document: it gives a verdict, and the corpus is what survives every verdict.
# A stage of your own is a step too: write its import path, such as my_package.my_stage.
# Every step and every setting: gristmill steps, gristmill steps near_dedup.
steps:
  web:
    - extract                                  # the main text of a page, from its markup
    # What FineWeb does behind it, in its order: take the # off. docs/rules.md explains every rule.
    # - language
    # - keep_language: {keep: {en: 0.65}}      # languages that stay, each with its least probability
    # - signals
    # - heuristics: {rules: [gopher_repetition, gopher_quality]}
    # - lines: {terminal_punctuation: false}   # C4's rules for lines change the text, so it is measured again
    # - signals
    # - heuristics: {c4: {terminal_punctuation: false}, fineweb: {}}
    # - url_dedup
    # - exact_dedup
    # - near_dedup                             # within each snapshot; {scope: global} compares all
    # - scrub                                  # personal data and secrets become placeholders (docs/scrub.md)
  all: []                                      # steps that every source takes

# The tokenizer: trained on a sample of the corpus by domain, or one that exists (file: tokenizer.json).
# tokenizer: {train: {vocab: 64000, sample_bytes: {web: 1GB}}}

# What a trainer reads: samples of so many tokens, and how often each domain and tier is drawn.
# shards: {seq_len_tokens: 8192}
# mix:
#   tokens: 10B                                # of the whole training; default: as many as there are
#   domains: {web: 1}
#   tiers: {B: 1}
#   phases: [{name: main, share: 0.9}, {name: cooldown, share: 0.1, learning_rate: {shape: linear}}]
"""


def starter(name: str) -> str:
    """The text for a file of that name, whose commands can be taken from it as they stand."""
    return STARTER.replace(f" {NAME} ", f" {name} ")
