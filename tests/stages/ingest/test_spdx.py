import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.stages.ingest import spdx


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("MIT", "MIT"),
        ("mit", "MIT"),
        ("Apache-2.0 OR MIT", "Apache-2.0 OR MIT"),
        ("apache-2.0 or mit", "Apache-2.0 OR MIT"),
        (
            "(GPL-2.0-only WITH Linux-syscall-note) OR BSD-3-Clause */",
            "(GPL-2.0-only WITH Linux-syscall-note) OR BSD-3-Clause",
        ),
        ("GPL-2.0+", "GPL-2.0+"),
        ("MIT -->", "MIT"),
        ("MIT. All rights reserved", "MIT"),
        ("LicenseRef-My-Own", "LicenseRef-My-Own"),
        ("DocumentRef-a:LicenseRef-b AND MIT", "DocumentRef-a:LicenseRef-b AND MIT"),
        ("MIT AND", "MIT"),
        ("(MIT", None),
        ("NOASSERTION", "NOASSERTION"),
        ("*/", None),
        ("OR MIT", None),
        ("", None),
    ],
)
def test_expression_is_read_in_spdx_spelling(source, expected):
    """Expressions are returned in SPDX's own spelling, without the end of the surrounding comment."""
    assert spdx.expression(source) == expected


names = st.sampled_from(["MIT", "Apache-2.0", "GPL-2.0-or-later", "LicenseRef-x", "BSD-3-Clause"])
expressions = st.recursive(
    names,
    lambda inner: st.tuples(inner, st.sampled_from([" AND ", " OR "]), inner).map("".join) | inner.map("({})".format),
    max_leaves=8,
)


@given(expressions)
def test_well_formed_expressions_are_unchanged(source):
    """What is already in SPDX's spelling is a fixed point, also in lower case, except for own names."""
    assert spdx.expression(source) == source
    assert spdx.expression(source.lower().replace("licenseref", "LicenseRef")) == source


@given(st.text(alphabet="()MIT andorwith+.-/*", max_size=80))
def test_any_string_is_an_expression_or_none(source):
    """No string makes the parser raise, and parsing its result changes nothing."""
    found = spdx.expression(source)
    assert found is None or spdx.expression(found) == found


def test_the_header_must_be_in_the_first_lines():
    """The tag counts at the top of a file, in any comment; a mention further down is not a license."""
    tag = "SPDX-License-Identifier: MIT"
    for comment in ("// {}", "# {}", "/* {} */", "<!-- {} -->", " * {}\r", "-- {}"):
        assert spdx.header(comment.format(tag) + "\ncode\n") == "MIT"
    assert spdx.header("line\n" * (spdx.HEADER_LINES - 1) + tag) == "MIT"
    assert spdx.header("line\n" * spdx.HEADER_LINES + tag) is None
    assert spdx.header("no license") is None


WRITTEN = {
    "MIT": "MIT License\n\nPermission is hereby granted, free of charge, to any person obtaining a copy\nof … "
    "The above copyright notice and this permission notice shall be included in all\ncopies … "
    'THE SOFTWARE IS PROVIDED "AS IS"',
    "Apache-2.0": "      Apache License\n   Version 2.0, January 2004\n http://www.apache.org/licenses/",
    "BSD-2-Clause": "Redistribution and use in source and binary forms, with or without\nmodification, are permitted … "
    "Redistributions in binary form must reproduce the above copyright notice, …",
    "BSD-3-Clause": "Redistribution and use in source and binary forms, with or without modification, are permitted … "
    "must not be used to endorse or promote products derived from\n * this software without …",
    "ISC": "Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is "
    "hereby granted, provided that the above copyright notice and this permission notice appear in all copies.",
    "0BSD": "Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is "
    "hereby granted.",
    "MPL-2.0": "Mozilla Public License Version 2.0\n====",
    "GPL-2.0": "  GNU GENERAL PUBLIC LICENSE\n   Version 2, June 1991\n",
    "GPL-3.0": "  GNU GENERAL PUBLIC LICENSE\n   Version 3, 29 June 2007\n … the GNU Affero General Public License",
    "LGPL-2.1": "  GNU LESSER GENERAL PUBLIC LICENSE\n   Version 2.1, February 1999",
    "LGPL-3.0": "  GNU LESSER GENERAL PUBLIC LICENSE\n   Version 3, 29 June 2007\n",
    "AGPL-3.0": "  GNU AFFERO GENERAL PUBLIC LICENSE\n   Version 3, 19 November 2007\n",
    "Unlicense": "This is free and unencumbered software released into the public domain.",
    "CC0-1.0": "Creative Commons Legal Code\n\nCC0 1.0 Universal\n",
    "CC-BY-4.0": "Attribution 4.0 International\n=====",
    "CC-BY-SA-4.0": "Attribution-ShareAlike 4.0 International",
    "Zlib": "This software is provided 'as-is', without any express or implied warranty. In no event will … "
    "Altered source versions must be plainly marked as such, …",
    "BSL-1.0": "Boost Software License - Version 1.0 - August 17th, 2003\n\nPermission is hereby granted, free of "
    "charge, to any person or organization obtaining a copy",
    "PSF-2.0": "PYTHON SOFTWARE FOUNDATION LICENSE VERSION 2\n----",
    "Artistic-2.0": "The Artistic License 2.0\n",
    "EPL-2.0": "Eclipse Public License - v 2.0\n",
    "WTFPL": "DO WHAT THE FUCK YOU WANT TO PUBLIC LICENSE\nVersion 2, December 2004",
}


@pytest.mark.parametrize("name", WRITTEN)
def test_license_text_is_recognised_by_its_phrases(name):
    """Each license is distinguished from all others, with any line breaks, quotes and comment marks."""
    text = "Copyright (c) 2013 Somebody\n\n" + WRITTEN[name]
    assert spdx.recognise(text) == name
    assert spdx.recognise(text.replace(" ", "\n * ").upper()) == name


def test_license_that_comes_first_counts():
    """If a file appends the licenses of borrowed code, its own is at the top."""
    for first in WRITTEN:
        second = "Unlicense" if first != "Unlicense" else "WTFPL"
        assert spdx.recognise(WRITTEN[first] + "\n\n" + WRITTEN[second]) == first


def test_unknown_text_is_no_license():
    """Text without the phrases of a license has no license."""
    assert spdx.recognise("All rights reserved.") is None
    assert spdx.recognise("") is None


def test_phrases_are_written_as_texts_are_reduced():
    """A phrase with a capital, a comma or two spaces would never match."""
    for _, phrases, without in spdx.PHRASES:
        assert phrases
        for phrase in (*phrases, *without):
            assert phrase == " ".join("".join(c if c.isalnum() else " " for c in phrase.lower()).split())


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({}, None),
        ({"LICENSE": "MIT"}, "MIT"),
        ({"COPYING": "GPL-3.0", "COPYING.LESSER": "LGPL-3.0"}, "LGPL-3.0"),
        ({"x/LICENSE-MIT": "MIT", "x/LICENSE-APACHE": "Apache-2.0"}, "Apache-2.0 OR MIT"),
        ({"LICENSE": "MIT", "COPYING": "GPL-2.0"}, "GPL-2.0 AND MIT"),
        ({"LICENSE": "MIT", "LICENSE.md": "Apache-2.0 OR ISC"}, "(Apache-2.0 OR ISC) AND MIT"),
        ({"a/LICENSE": "MIT", "a/COPYING": "MIT"}, "MIT"),
    ],
)
def test_license_files_of_one_folder_are_one_expression(found, expected):
    """Files named after their license offer a choice, others all apply, and the lesser GPL includes both its texts."""
    assert spdx.combined(found) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("LICENSE", True),
        ("a/b/licence.md", True),
        ("COPYING.LESSER", True),
        ("COPYING3", True),
        ("LICENSE-MIT.txt", True),
        ("MIT-LICENSE", True),
        ("UNLICENSE", True),
        ("LICENSE_LGPL_2.1.txt", True),
        ("license.py", False),
        ("license-header.txt", False),
        ("licensed.txt", False),
        ("LICENSE-mitigation", False),
        ("LICENSE/readme.txt", False),
    ],
)
def test_license_files_are_recognised_by_name(name, expected):
    """Names of license files, and names that only look like them."""
    assert spdx.is_license_file(name) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see https://creativecommons.org/licenses/by-nc/4.0/", "CC-BY-NC-4.0"),
        ("2010-2021, Ubuntu Developers, Creative Commons Attribution-ShareAlike 3.0", "CC-BY-SA-3.0"),
        ("the Attribution-ShareAlike 3.0 Unported (CC BY-SA 3.0) license.", "CC-BY-SA-3.0"),
        ("Creative Commons Attribution-NonCommercial-NoDerivatives License, version 4.0", "CC-BY-NC-ND-4.0"),
        ("Creative Commons Attribution (CC BY) license 4.0", "CC-BY-4.0"),
        ("the terms of the Creative Commons Attribution License", None),
        ("All rights reserved. 4.0", None),
    ],
)
def test_a_creative_commons_license_is_known_by_its_address_or_its_name(text, expected):
    """A name without a version is no license of SPDX."""
    assert spdx.creative_commons(text) == expected
