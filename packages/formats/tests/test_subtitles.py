"""Subtitles: what is said, in paragraphs, without times; a reason for a file without captions."""

import pytest

from gristmill.stages.contract import Piece
from gristmill_formats import subtitles

SRT = (
    "1\r\n00:00:01,000 --> 00:00:02,500\r\n<i>The mill</i> stands\r\n\r\n"
    "2\r\n00:00:02,500 --> 00:00:04,000\r\n{\\an8}by the river.\r\n\r\n"
    "3\r\n00:01:00,000 --> 00:01:02,000\r\n300 &amp; more.\r\n"
)
VTT = (
    "WEBVTT\nLanguage: de\n\nNOTE not said\n\nSTYLE\n::cue { color: red }\n\nid-7\n"
    "00:01.000 --> 00:02.000 align:start\n"
    "<v.loud Miller>Turn <00:01.500><c>it</c>\n\n00:02.000 --> 00:03.000\nMiller: Turn it\non.\n"
)


def row(tmp_path, text, **config):
    (tmp_path / "a").write_bytes(text if isinstance(text, bytes) else text.encode())
    [found] = subtitles.read(Piece(str(tmp_path / "a"), "a.srt"), subtitles.Config(**config))
    return found


def test_subrip_is_what_is_said(tmp_path):
    """Numbers, times and styles go; a long pause begins a paragraph."""
    found = row(tmp_path, SRT)
    assert found.text == "The mill stands by the river.\n\n300 & more."
    assert (found.meta, found.content_type) == ('{"captions":3,"seconds":62}', "application/x-subrip")
    assert "\n" not in row(tmp_path, SRT, paragraph_pause_s=60).text


def test_webvtt_names_its_speakers_and_repeats_no_line(tmp_path):
    """Notes, styles and identifiers are not said."""
    found = row(tmp_path, VTT)
    assert (found.text, found.language_hint) == ("Miller: Turn it on.", "de")
    assert found.meta == '{"captions":2,"seconds":3,"repeated_lines":1}'


@pytest.mark.parametrize(
    ("caption", "text"),
    [
        ("- Is it old?\n<i>– It is,\nvery.</i>", "so\n- Is it old?\n– It is, very. Yes."),
        ("<v Anna>Old?</v> <v Miller>It is.", "so\nAnna: Old?\nMiller: It is. Yes."),
        ("- Is it old?\nIt is.", "so - Is it old? It is. Yes."),
    ],
)
def test_each_speaker_of_a_caption_begins_a_line(tmp_path, caption, text):
    said = ("so", caption, "Yes.")
    assert (
        row(tmp_path, "\n\n".join(f"00:0{n}.000 --> 00:0{n + 1}.000\n{one}" for n, one in enumerate(said))).text == text
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("so 2<3, and 5>1", "so 2<3, and 5>1"),
        ("{y:i}The\\Nmill\\hstands", "The mill stands"),
        ("<font size=8>a</font> <00:00:01.500><c.loud>b</c></>", "a b"),
        ("{more} or <", "{more} or <"),
    ],
)
def test_tags_go_and_signs_stay(tmp_path, line, said):
    """Also those that come from other formats of subtitles."""
    assert row(tmp_path, f"1\n00:00:01,000 --> 00:00:02,000\n{line}\n").text == said


def test_times_may_lack_zeros(tmp_path):
    """As meeting software writes them: 0:0:3.5 is three and a half seconds."""
    found = row(tmp_path, "WEBVTT\n\n0:0:0.0 --> 0:0:3.5\na\n\n0:0:7.0 --> 1:2:7.25\nb\n")
    assert (found.text, found.meta) == ("a\n\nb", '{"captions":2,"seconds":3727}')


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1\n2\n3\n", "not_subtitles"),
        ("WEBVTT\n\n00:01.000 --> 00:02.000\na/b.jpg#xywh=0,0,128,72\n", "empty_text"),
        ("00:00:01,000 --> 00:00:02,500\n\n", "empty_text"),
        (b"\0\1\2", "binary_file"),
    ],
)
def test_another_file_is_a_row_with_a_reason(tmp_path, text, reason):
    """The row has no text."""
    assert (row(tmp_path, text).drop, row(tmp_path, text).text) == (reason, None)


def test_numbers_of_captions_without_empty_lines_are_not_said(tmp_path):
    """A number right above times is that of the caption; other numbers are speech."""
    cues = [(1, "first"), (2, "5"), (3, "6\nlast")]
    lines = [f"{number}\n00:00:0{number},000 --> 00:00:0{number},500\n{said}\n" for number, said in cues]
    assert row(tmp_path, "".join(lines)).text == "first 5 6 last"
