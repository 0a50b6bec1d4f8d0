"""Derived sources: their documents are made from those of other sources, the parents, by a step on the parents' routes.

An installed package adds a key that a source has instead of `read`, such as `generate` (docs/plugins.md, the group
`gristmill.sources`). Its entry point names the module of a map step that declares `children`, the module of a reader.
The fields of the key are those of the step's config, and `parents`. The step runs on the routes of the parents, under
the name of the key; the reader reads its layers as files. Its config has one field, `source`.

Columns of the reader have a meaning if they have one of the names below.
"""

PARENT = "parent"
"""The id of the document that another one was made from. Every such reader has it. A takedown of the parent removes its
children, and lineage leads from one to the other."""
BIRTH = (PARENT, "prompt", "model", "sample")
"""Columns that look-ups, SQL and exports have by their plain names."""
PARENT_TEXT = "parent_text"
"""What the document was made from. A child that resembles a text to remove goes even if its own words do not."""
FACTS = ("model", "revision", "prompts", "samples")
"""Fields of the step's config that cards and disclosures name; of a list, its length."""

UNSENT = "takedown_unsent.request"
"""For a step that sends documents to servers outside: the takedown request that names the document, or null. Nothing
may be sent about a document that has one."""
TAKEN_DOWN = "taken_down"
"""The drop reason of a child that was not made, since nothing may be sent about its parent. `detail` has the request.
"""
