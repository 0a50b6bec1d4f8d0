from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.stages.extract.published import published


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2012-03-04", "2012-03-04"),
        (" 2012/3/4 ", "2012-03-04"),
        ("20120304", "2012-03-04"),
        ("20120304T102030Z", "2012-03-04T10:20:30+00:00"),
        ("2012-03-04T10:20", "2012-03-04T10:20:00"),
        ("2012-03-04T6:20Z", "2012-03-04T06:20:00+00:00"),
        ("2012-03-04 10:20:30.123456 +0200", "2012-03-04T10:20:30+02:00"),
        ("2012-03-04T10:20:30-05:00", "2012-03-04T10:20:30-05:00"),
        ("2012-03-04T10:20:30+01", "2012-03-04T10:20:30+01:00"),
        ("2012-03-04 08:42:40 EST", "2012-03-04T08:42:40-05:00"),
        ("2012-03-04 08:42:40 CET", "2012-03-04T08:42:40"),
        ("Sun, 04 Mar 2012 09:20:05 PDT", "2012-03-04T09:20:05-07:00"),
        ("Sun, Mar 04 2012 16:57:37 +0000", "2012-03-04T16:57:37+00:00"),
        ("Sun Mar 4 14:44:22 PDT 2012", "2012-03-04T14:44:22-07:00"),
        ("Sunday, March 4th, 2012,  3:52 PM", "2012-03-04T15:52:00"),
        ("Sept. 4, 2012 at 12:05 a.m.", "2012-09-04T00:05:00"),
        ("4 March 2012", "2012-03-04"),
        ("04-MAR-2012", "2012-03-04"),
        ("04.03.2012 10:20", "2012-03-04T10:20:00"),
        ("13/04/2012", "2012-04-13"),
        ("04/13/2012", "2012-04-13"),
        ("4/4/2012", "2012-04-04"),
        ("2012-03-04T25:00:00", "2012-03-04"),
        ("2012-03-04T10:20:30+99:00", "2012-03-04T10:20:30"),
        ("2012-03-04 and later", "2012-03-04"),
    ],
)
def test_dates_are_parsed(written: str, read: str) -> None:
    """Numbers with the year first, names of months, days before or after them; a time if it can be parsed."""
    assert published(written) == read


@pytest.mark.parametrize(
    "written",
    [
        *(
            "",
            "today",
            "2012",
            "2012-03",
            "0000-00-00",
            "0000-00-00T00:00:00Z",
            "-0001-11-30",
            "2012-02-30",
            "2012-13-01",
        ),
        *("1989-12-31", "2101-01-01", "1970-01-01T00:00:00Z", "03/04/2012", "3-4-2012", "14-12-28", "1331000000"),
        *("20121340", "Foo 4, 2012", "32 March 2012", "P2D", "10:20", "٢٠١٢-٠٣-٠٤", "2012-03-041", "1331000000123"),
    ],
)
def test_invalid_and_ambiguous_dates_are_none(written: str) -> None:
    """Nonsense, parts of a date, days before the web and ambiguous days."""
    assert published(written) is None


@given(st.datetimes(datetime(1990, 1, 1), datetime(2100, 12, 31), timezones=st.timezones() | st.none()))
def test_what_python_writes_is_read(made: datetime) -> None:
    """To the second, with its offset."""
    made = made.replace(microsecond=0)
    offset = made.utcoffset()
    if offset is None or not offset.total_seconds() % 60:
        assert published(made.isoformat()) == made.isoformat()
    assert published(made.date().isoformat()) == made.date().isoformat()
    assert published(made.strftime("%d %B %Y")) == made.date().isoformat()


@given(st.text("0123456789-/.:T Zmarchapt+,", max_size=30))
def test_what_is_read_is_read_the_same_again(written: str) -> None:
    """Nothing is raised, and the result is a date."""
    read = published(written)
    if read is not None:
        assert published(read) == read
        assert 1990 <= datetime.fromisoformat(read).year <= 2100
