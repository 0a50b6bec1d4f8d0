"""Maps the labels of language classifiers to languages, and lists what our rules need to know about a language."""

from collections.abc import Collection
from difflib import get_close_matches

import numpy as np
import numpy.typing as npt
import pyarrow as pa

LABEL = "language.label"
"""The column with the language of a document, on routes with the step `language`."""

ENGLISH = "en"

WITHOUT_SPACES = frozenset({"zh", "yue", "wuu", "ja", "th", "lo", "km", "my", "bo", "dz"})
"""Languages written without spaces between words: a run without white space is a sentence or more."""

FOUND_ANYWHERE = frozenset({"th", "lo", "km", "my"})
"""Languages among those whose words our scan cannot find: a word counts wherever its letters are in the text."""

_PAIRS = """
afr_latn af, arb_arab ar, ara_arab ar, azj_latn az, bel_cyrl be, bul_cyrl bg, ben_beng bn, bos_latn bs,
cat_latn ca, ces_latn cs, dan_latn da, deu_latn de, ell_grek el, eng_latn en, spa_latn es, ekk_latn et,
est_latn et, eus_latn eu, fas_arab fa, pes_arab fa, fin_latn fi, fra_latn fr, gle_latn ga, glg_latn gl,
guj_gujr gu, heb_hebr he, hin_deva hi, hrv_latn hr, hun_latn hu, hye_armn hy, ind_latn id, isl_latn is,
ita_latn it, jpn_jpan ja, kat_geor ka, kaz_cyrl kk, khm_khmr km, kan_knda kn, kor_hang ko, lao_laoo lo,
lit_latn lt, lvs_latn lv, lav_latn lv, mkd_cyrl mk, mal_mlym ml, khk_cyrl mn, mar_deva mr, zsm_latn ms,
msa_latn ms, mya_mymr my, npi_deva ne, nep_deva ne, nld_latn nl, nob_latn no, nor_latn no, nno_latn nn,
pan_guru pa, pol_latn pl, por_latn pt, ron_latn ro, rus_cyrl ru, sin_sinh si, slk_latn sk, slv_latn sl,
als_latn sq, sqi_latn sq, srp_cyrl sr, srp_latn sr, swe_latn sv, swh_latn sw, swa_latn sw, tam_taml ta,
tel_telu te, tha_thai th, tgl_latn tl, fil_latn tl, tur_latn tr, ukr_cyrl uk, urd_arab ur, uzn_latn uz,
uzn_cyrl uz, vie_latn vi, cmn_hani zh, zho_hani zh, zho_hans zh, zho_hant zh, yue_hani yue, wuu_hani wuu,
bod_tibt bo, dzo_tibt dz
"""
_SCRIPTED = dict(pair.split() for pair in _PAIRS.split(","))
"""Labels of GlotLID and of NLLB's classifier in lower case: ISO 639-3 and a script."""


_LABELS = """
af als am an ar arz as ast av az azb ba bar bcl be bg bh bn bo bpy br bs bxr ca cbk ce ceb ckb co cs cv cy da de
diq dsb dty dv el eml en eo es et eu fa fi fr frr fy ga gd gl gn gom gu gv he hi hif hr hsb ht hu hy ia id ie
ilo io is it ja jbo jv ka kk km kn ko krc ku kv kw ky la lb lez li lmo lo lrc lt lv mai mg mhr min mk ml mn mr
mrj ms mt mwl my myv mzn nah nap nds ne new nl nn no oc or os pa pam pfl pl pms pnb ps pt qu rm ro ru rue sa sah
sc scn sco sd sh si sk sl so sq sr su sv sw ta te tg th tk tl tr tt tyv ug uk ur uz vec vep vi vls vo wa war wuu
xal xmf yi yo yue zh
"""
LID_176 = frozenset(_LABELS.split())
"""The labels of lid.176.ftz, which the step `language` uses unless another model is given."""

_NAMES = (
    "afrikaans af, albanian sq, amharic am, arabic ar, armenian hy, assamese as, azerbaijani az, bangla bn, "
    "basque eu, belarusian be, bengali bn, bosnian bs, bulgarian bg, burmese my, cantonese yue, catalan ca, "
    "chinese zh, croatian hr, czech cs, danish da, deutsch de, dutch nl, english en, esperanto eo, estonian et, "
    "farsi fa, filipino tl, finnish fi, french fr, galician gl, georgian ka, german de, greek el, gujarati gu, "
    "hebrew he, hindi hi, hungarian hu, icelandic is, indonesian id, irish ga, italian it, japanese ja, "
    "kannada kn, kazakh kk, khmer km, korean ko, kurdish ku, lao lo, latin la, latvian lv, lithuanian lt, "
    "macedonian mk, malay ms, malayalam ml, maltese mt, mandarin zh, marathi mr, mongolian mn, nepali ne, "
    "norwegian no, pashto ps, persian fa, polish pl, portuguese pt, punjabi pa, romanian ro, russian ru, "
    "serbian sr, sinhala si, slovak sk, slovenian sl, somali so, spanish es, swahili sw, swedish sv, tagalog tl, "
    "tamil ta, telugu te, thai th, tibetan bo, turkish tr, ukrainian uk, urdu ur, uzbek uz, vietnamese vi, "
    "welsh cy, yiddish yi, yoruba yo, "
)
_OTHER_CODES = (
    "alb sq, arm hy, baq eu, bur my, chi zh, cze cs, dut nl, fre fr, geo ka, ger de, gre el, ice is, mac mk, may ms, "
    "per fa, rum ro, slo sk, tib bo, wel cy, cn zh, cz cs, dk da, gr el, in id, iw he, jp ja, kr ko, ua uk, vn vi"
)
CODES = dict(pair.split() for pair in f"{_NAMES}{_OTHER_CODES}".split(", "))
"""What people write instead of `de`: English names and other codes (the bibliographic ones of ISO 639-2, old ones of
ISO 639-1, country codes)."""


def language_of(label: str | None) -> str | None:
    """The language of a label: a code as in lid.176 (de), or one with a script (deu_Latn)."""
    if label is None:
        return None
    folded = label.lower()
    return _SCRIPTED.get(folded, folded)


def rows_by_label(labels: pa.Array) -> tuple[list[str], npt.NDArray[np.int64]]:
    """The distinct labels of a column and, for each row, the index of its label; for a null, the next index."""
    encoded = labels if pa.types.is_dictionary(labels.type) else labels.dictionary_encode()
    names: list[str] = encoded.dictionary.cast(pa.string()).to_pylist()
    places = encoded.indices.fill_null(len(names)).to_numpy(zero_copy_only=False).astype(np.int64)
    return names, places


def intended_label(name: str, labels: Collection[str]) -> str | None:
    """The label that the user means who writes the name of a language or another classifier's code."""
    known = {language_of(label): label for label in labels}
    folded = name.lower().replace("-", "_")
    by_three = {scripted[:3]: code for scripted, code in _SCRIPTED.items()}
    for code in (language_of(folded), folded.split("_")[0], CODES.get(folded), by_three.get(folded)):
        if code in known:
            return known[code]
    near = get_close_matches(folded, [name for name in CODES if len(name) > 3], n=1, cutoff=0.75)
    return known.get(CODES[near[0]]) if near else None
