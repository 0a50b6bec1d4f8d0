"""Pages in scripts without spaces between words: words are counted, menus are removed and sentences kept."""

import unicodedata

import pytest
from tests.stages.extract.test_extract import one

from gristmill.kernels.html.block_text import END
from gristmill.kernels.html.layout import B_ENDS, B_LAST, B_WORDS
from gristmill.stages.extract.main_text import Extractor, default_model

PAGES = {
    "Thai": (
        "โรงสีข้าวริมแม่น้ำ",
        "หน้าแรก|ข่าวประชาสัมพันธ์|เกี่ยวกับเรา|บริการของเรา|ติดต่อสอบถาม|แผนผังเว็บไซต์",
        "บทความยอดนิยม|ข่าวล่าสุดประจำวัน|ดาวน์โหลดเอกสาร|คำถามที่พบบ่อย",
        "โรงสีข้าวเก่าแก่แห่งนี้ตั้งอยู่ริมแม่น้ำเจ้าพระยามานานกว่าหนึ่งร้อยปี ชาวบ้านในละแวกใกล้เค"
        "ียงนำข้าวเปลือกมาสีที่นี่ทุกฤดูเก็บเกี่ยว และยังคงเป็นศูนย์กลางของชุมชนจนถึงปัจจุบัน",
    ),
    "Lao": (
        "ໂຮງສີເຂົ້າແຄມແມ່ນ້ຳຂອງ",
        "ໜ້າຫຼັກ|ຂ່າວສານ|ກ່ຽວກັບພວກເຮົາ|ການບໍລິການ|ຕິດຕໍ່ພວກເຮົາ|ແຜນຜັງເວັບໄຊ",
        "ບົດຄວາມຍອດນິຍົມ|ຂ່າວຫຼ້າສຸດ|ດາວໂຫຼດເອກະສານ|ຄຳຖາມທີ່ພົບເລື້ອຍ",
        "ໂຮງສີເຂົ້າເກົ່າແກ່ແຫ່ງນີ້ຕັ້ງຢູ່ແຄມແມ່ນ້ຳຂອງມາເປັນເວລາຫຼາຍກວ່າໜຶ່ງຮ້ອຍປີ ຊາວບ້ານໃນເຂດໃກ້ຄຽ"
        "ງນຳເອົາເຂົ້າເປືອກມາສີຢູ່ທີ່ນີ້ທຸກລະດູເກັບກ່ຽວ ແລະ ຍັງເປັນສູນກາງຂອງຊຸມຊົນຈົນເຖິງປັດຈຸບັນ",
    ),
    "Khmer": (
        "រោងម៉ាស៊ីនកិនស្រូវនៅមាត់ទន្លេ",
        "ទំព័រដើម|ព័ត៌មាន|អំពីយើង|សេវាកម្ម|ទាក់ទងយើង|ផែនទីគេហទំព័រ",
        "អត្ថបទពេញនិយម|ព័ត៌មានថ្មីៗ|ទាញយកឯកសារ|សំណួរញឹកញាប់",
        "រោងម៉ាស៊ីនកិនស្រូវចាស់នេះស្ថិតនៅតាមមាត់ទន្លេមេគង្គអស់រយៈពេលជាងមួយរយឆ្នាំមកហើយ។ អ្នកភូមិនៅក"
        "្បែរនោះយកស្រូវមកកិននៅទីនេះរៀងរាល់រដូវច្រូតកាត់ ហើយវានៅតែជាមជ្ឈមណ្ឌលរបស់សហគមន៍រហូតមកដល់សព្វ"
        "ថ្ងៃ។",
    ),
    "Burmese": (
        "မြစ်ကမ်းဘေးရှိဆန်စက်",
        "ပင်မစာမျက်နှာ|သတင်းများ|ကျွန်ုပ်တို့အကြောင်း|ဝန်ဆောင်မှုများ|ဆက်သွယ်ရန်|ဆိုက်မြေပုံ",
        "လူကြိုက်များသောဆောင်းပါးများ|နောက်ဆုံးရသတင်း|စာရွက်စာတမ်းများ|မေးလေ့ရှိသောမေးခွန်းများ",
        "ဤရှေးဟောင်းဆန်စက်သည် ဧရာဝတီမြစ်ကမ်းဘေးတွင် နှစ်ပေါင်းတစ်ရာကျော် တည်ရှိခဲ့သည်။ အနီးအနားရှိရ"
        "ွာသားများသည် ရိတ်သိမ်းချိန်တိုင်း စပါးများကို ဤနေရာသို့ ယူဆောင်လာပြီး ကြိတ်ခွဲကြသည်။ ယနေ့အ"
        "ထိ ရပ်ရွာ၏ဗဟိုချက်ဖြစ်နေဆဲဖြစ်သည်။",
    ),
    "Tibetan": (
        "གཙང་པོའི་འགྲམ་གྱི་རང་འཐག",
        "གཙོ་ངོས།|གསར་འགྱུར།|ང་ཚོའི་སྐོར།|ཞབས་ཞུ།|འབྲེལ་གཏུག|དྲ་ངོས་ས་ཁྲ།",
        "རྩོམ་ཡིག་གྲགས་ཅན།|གསར་འགྱུར་གསར་ཤོས།|ཡིག་ཆ་ཕབ་ལེན།|དྲི་བ་ཡང་ཡང་།",
        "རང་འཐག་རྙིང་པ་འདི་ནི་ཡར་ཀླུངས་གཙང་པོའི་འགྲམ་དུ་ལོ་བརྒྱ་ལྷག་གི་རིང་གནས་ཡོད། ཉེ་འཁོར་གྱི་གྲོ"
        "ང་མི་རྣམས་ཀྱིས་སྟོན་ཁ་རེ་རེར་ནས་དང་གྲོ་འདིར་ཁྱེར་ཡོང་ནས་འཐག་གི་ཡོད། དེང་སང་ཡང་གྲོང་ཚོའི་ལྟ"
        "ེ་བ་ཞིག་ཡིན།",
    ),
}
"""Title, items of a menu, items of a list beside the text, and a paragraph of it."""


@pytest.fixture(scope="module")
def extractor():
    return Extractor(default_model())


def listed(items):
    return "".join(f"<li><a href=/x>{item}</a></li>" for item in items.split("|"))


@pytest.mark.parametrize("script", PAGES)
def test_menus_go_and_sentences_stay(script):
    """In lists, and in the cells of a table; no class name helps."""
    title, menu, side, text = PAGES[script]
    lists = f"<ul>{listed(menu)}</ul><div><h1>{title}</h1><p>{text}</p></div><ul>{listed(side)}</ul>"
    cells = "".join(f"<td><a href=/x>{item}</a></td>" for item in menu.split("|"))
    table = f"<table><tr>{cells}</table><table><tr><td><ul>{listed(side)}</ul><td><b>{title}</b><br>{text}</table>"
    for body in (lists, table):
        found = one(html=f"<html><head><title>{title}</title></head><body>{body}</body></html>")["text"]
        assert text in found
        assert [item for item in f"{menu}|{side}".split("|") if item in found] == []


@pytest.mark.parametrize("script", PAGES)
def test_words_are_counted_without_spaces(script, extractor):
    """Four letters are a word, in Tibetan two syllables; marks above and below letters and zero-width spaces do not
    count. The paragraph has ends of sentences, even where only a space or the end of the block marks one."""
    text = PAGES[script][3]
    if script == "Tibetan":
        wanted = (sum(map(text.count, "་།")) + 1) // 2
    else:
        wanted = (sum(unicodedata.category(letter)[0] == "L" for letter in text) + 3) // 4
    for written in (text, text.replace("ា", "ា\u200b").replace("ာ", "ာ\u200b")):
        (row,) = extractor.blocks(f"<p>{written}</p>".encode()).table
        assert row[B_WORDS] == wanted
        assert 2 <= row[B_ENDS] <= 1 + text.count(" ")


def test_a_few_words_of_thai_are_no_sentence(extractor):
    """A space or the end of a block ends a sentence after eight or more words, but not after a few, as in a menu."""
    _, menu, _, text = PAGES["Thai"]
    items, prose = extractor.blocks(f"<p>{menu.replace('|', ' ')}</p><p>{text}</p>".encode()).table
    assert (items[B_ENDS], items[B_LAST]) == (0, 0)
    assert (prose[B_ENDS] > 1, prose[B_LAST]) == (True, END)
