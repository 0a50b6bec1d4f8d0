"""Phrases that tell license texts apart, in lower case with everything but letters and digits as single spaces.

Each row: the SPDX name, phrases that must all be there (the first one places the license in the file), and phrases that
make it another license. Of two that begin at the same word the upper row counts.
"""

_MIT = "permission is hereby granted free of charge to any person obtaining a copy"
_BSD = "redistribution and use in source and binary forms with or without modification are permitted"
_BSD_NAME = "endorse or promote products derived from this software"
_BSD_ADVERTISING = "all advertising materials mentioning features or use of this software"
_FREELY = "distribute this software for any purpose with or without fee is hereby granted"
_ISC_ONE = f"permission to use copy modify and or {_FREELY}"
_ISC_TWO = f"permission to use copy modify and {_FREELY}"
_ISC_NOTICE = "provided that the above copyright notice and this permission notice appear in all copies"
_KEEP_NOTICE = "this permission notice shall be included in all"
_X11_NAME = "except as contained in this notice the name"
_IN_BINARY = "redistributions in binary form must reproduce the above copyright notice"
_POSTGRES = "permission to use copy modify and distribute this software and its documentation for any purpose"
_ZLIB = "this software is provided as is without any express or implied warranty in no event"
_NO_WARRANTY = "the software is provided as is"

PHRASES: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("X11", (_MIT, _X11_NAME), ()),
    ("MIT", (_MIT, _KEEP_NOTICE, _NO_WARRANTY), (_X11_NAME,)),
    ("MIT", (_MIT, "this permission notice including the next paragraph shall be included in all"), ()),
    ("MIT-0", (_MIT, _NO_WARRANTY), (_KEEP_NOTICE,)),
    ("BSL-1.0", ("boost software license version 1 0",), ()),
    ("Apache-2.0", ("apache license version 2 0 january 2004",), ()),
    ("Apache-2.0", ("licensed under the apache license version 2 0",), ()),
    ("Apache-1.1", ("the apache software license version 1 1",), ()),
    ("BSD-4-Clause", (_BSD, _BSD_ADVERTISING), ()),
    ("BSD-3-Clause-Clear", (_BSD, "no express or implied licenses to any party s patent rights"), ()),
    ("BSD-3-Clause", (_BSD, _BSD_NAME), (_BSD_ADVERTISING,)),
    ("BSD-2-Clause", (_BSD, _IN_BINARY), (_BSD_NAME, _BSD_ADVERTISING)),
    ("BSD-1-Clause", (_BSD, "redistributions of source code must retain the above copyright notice"), (_IN_BINARY,)),
    ("ISC", (_ISC_ONE, _ISC_NOTICE), ()),
    ("ISC", (_ISC_TWO, _ISC_NOTICE), ()),
    ("0BSD", (_ISC_ONE,), (_ISC_NOTICE,)),
    ("MPL-2.0", ("mozilla public license version 2 0",), ()),
    ("MPL-2.0", ("mozilla public license v 2 0",), ()),
    ("MPL-1.1", ("mozilla public license version 1 1",), ()),
    ("AGPL-3.0", ("gnu affero general public license version 3 19 november 2007",), ()),
    ("LGPL-3.0", ("gnu lesser general public license version 3 29 june 2007",), ()),
    ("LGPL-2.1", ("gnu lesser general public license version 2 1 february 1999",), ()),
    ("LGPL-2.0", ("gnu library general public license version 2 june 1991",), ()),
    ("GPL-3.0", ("gnu general public license version 3 29 june 2007",), ()),
    ("GPL-2.0", ("gnu general public license version 2 june 1991",), ()),
    ("GPL-1.0", ("gnu general public license version 1 february 1989",), ()),
    ("GFDL-1.3", ("gnu free documentation license version 1 3",), ()),
    ("GFDL-1.2", ("gnu free documentation license version 1 2",), ()),
    ("Unlicense", ("this is free and unencumbered software released into the public domain",), ()),
    ("CC0-1.0", ("cc0 1 0 universal",), ()),
    ("CC-BY-NC-SA-4.0", ("attribution noncommercial sharealike 4 0 international",), ()),
    ("CC-BY-NC-ND-4.0", ("attribution noncommercial noderivatives 4 0 international",), ()),
    ("CC-BY-NC-4.0", ("attribution noncommercial 4 0 international",), ()),
    ("CC-BY-ND-4.0", ("attribution noderivatives 4 0 international",), ()),
    ("CC-BY-SA-4.0", ("attribution sharealike 4 0 international",), ()),
    ("CC-BY-4.0", ("attribution 4 0 international",), ()),
    ("CC-BY-SA-3.0", ("attribution sharealike 3 0 unported",), ()),
    ("CC-BY-3.0", ("attribution 3 0 unported",), ()),
    ("Zlib", (_ZLIB, "altered source versions must be plainly marked as such"), ()),
    ("PSF-2.0", ("python software foundation license version 2",), ()),
    ("Artistic-2.0", ("the artistic license 2 0",), ()),
    ("Artistic-1.0-Perl", ("the artistic license preamble",), ()),
    ("EPL-2.0", ("eclipse public license v 2 0",), ()),
    ("EPL-1.0", ("eclipse public license v 1 0",), ()),
    ("CDDL-1.0", ("common development and distribution license cddl version 1 0",), ()),
    ("EUPL-1.2", ("european union public licence v 1 2",), ()),
    ("WTFPL", ("do what the fuck you want to public license",), ()),
    ("OFL-1.1", ("sil open font license version 1 1",), ()),
    ("MS-PL", ("microsoft public license ms pl",), ()),
    ("UPL-1.0", ("the universal permissive license upl version 1 0",), ()),
    ("NCSA", ("university of illinois ncsa open source license",), ()),
    ("PostgreSQL", (_POSTGRES, "without fee and without a written agreement is hereby granted"), ()),
    ("BUSL-1.1", ("business source license 1 1",), ()),
    ("SSPL-1.0", ("server side public license version 1",), ()),
    ("Elastic-2.0", ("elastic license 2 0",), ()),
)  # fmt: skip

_OTHER_IDS = """
AFL-3.0 AGPL-3.0-only AGPL-3.0-or-later Apache-1.0 APSL-2.0 Artistic-1.0 BlueOak-1.0.0 BSD-3-Clause-LBNL
CC-BY-2.0 CC-BY-2.5 CC-BY-SA-2.0 CC-BY-SA-2.5 CC-BY-NC-3.0 CC-BY-NC-SA-3.0 CC-PDDC CDDL-1.1 CECILL-2.1 CECILL-B
CECILL-C CPL-1.0 ECL-2.0 EFL-2.0 EUPL-1.1 FSFAP FTL GFDL-1.1 GFDL-1.2-only GFDL-1.2-or-later GFDL-1.3-only
GFDL-1.3-or-later GPL-1.0-only GPL-1.0-or-later GPL-2.0-only GPL-2.0-or-later GPL-3.0-only GPL-3.0-or-later HPND ICU
IJG IPL-1.0 LGPL-2.0-only LGPL-2.0-or-later LGPL-2.1-only LGPL-2.1-or-later LGPL-3.0-only LGPL-3.0-or-later Libpng
LPPL-1.3c MIT-CMU MirOS MPL-1.0 MS-RL MulanPSL-2.0 NPL-1.1 OpenSSL OSL-3.0 PDDL-1.0 PHP-3.01 Python-2.0 QPL-1.0
Ruby SISSL Sleepycat TCL Unicode-DFS-2016 Unicode-3.0 Vim W3C ZPL-2.1
"""

SPDX_IDS = frozenset(_OTHER_IDS.split()).union(name for name, _, _ in PHRASES)
"""Names whose spelling we know; others are taken as they are written."""
