"""The words that nearly every text of a language has, for Gopher's rule that two of them must occur.

As FineWeb2 chose its own (Penedo et al. 2025, arXiv 2506.20920), they are few and frequent: words of stopwords-iso
(github.com/stopwords-iso, MIT License, Copyright (c) 2016 Gene Diaz), nearly all of which make up 0.3% or more of the
words of a hundred sentences (of Chinese also in traditional characters). Languages of which stopwords-iso has no list,
or one without the commonest words, have frequent function words of our own choice; they are those in OWN. English has
Gopher's eight words, so that its verdicts are the published ones.

Each word is one token as `kernels/text/words.py` cuts text: in Chinese and Japanese one character. Thai, Lao, Khmer and
Burmese have no spaces and no rule that finds their words, so there it counts whether the word is anywhere in the text.
"""

GOPHER = ("the", "be", "to", "of", "and", "that", "have", "with")

ISO = {
    "af": "die van en in is nie het te wat om op hulle ek dit ons as dat met hy vir daar maar aan sal se was sy",
    "ar": "في من على أن و إلى التي مع بعد ما أو الى كل لا الذي هذه عن هذا كان بين",
    "bg": "на в за и е от се да с ще не са по че те си като това но след до при през той които",
    "bn": "ও করে এবং থেকে জন্য কোন করতে হবে না করার করা হয় কি এই তাদের এ বা সঙ্গে তা কিছু একটি",
    "ca": "de la i a el que en del els per les un amb una es és no dels al ha hi o ser",
    "cs": "a v na je se z ve do s pro k od i to by po při tak nebo si že jako",
    "da": "og i at er en de det med af på den til for har der som var et så om ikke vi man jeg men fra",
    "de": "der und die in den von das ein mit des auf für dem an auch zu aus eine zur als es oder bei wird ist sie im",
    "el": "και το να της του με για την από η που σε θα ο τα οι τους δεν στη στο τις τη των τον στην",
    "es": "de la en que y el los a un con del por se las no para es una su o lo al como",
    "et": "on ja ei kui siis see et aga oma nii ta",
    "eu": "eta da zen izan ere ziren ez dira zuen egin bat beste du bere edo",
    "fa": "در و به از این که است را با یک بود شده شد بر آن می او خود برای اما",
    "fi": "ja on ei ovat myös tai että oli sen sekä mutta joka se kun",
    "fr": "de la et des le les en à du pour est dans il par un une qui que sont au ce ou plus sur pas ne",
    "ga": "an na a is i agus é ar sa de ag go sé nó le ina ach mar den",
    "gl": "de a e o que do da en os no na un para unha as por con se dos é ao",
    "gu": "છે અને આ પણ હતી એક પર કે હતા માટે તેના તે કરી",
    "hi": "है के में की का से को पर और भी कर एक ने कि हो इस था तो ही हैं नहीं लिए जो यह",
    "hr": "i je u na za se od su koji te što će a ali ne da",
    "hu": "a az és is hogy nem egy mint meg csak volt még már ha",
    "hy": "է և որ են ու էր այս այդ մի իր հետ ի նա",
    "id": "yang dan dengan untuk itu dari di menjadi ini ia ke tidak dapat telah karena juga akan pada dalam",
    "it": "di il e la per con in un del che a della è i una le si al non ha da anche gli",
    "ja": "の し で て に と が は な を た れ も さ",
    "lt": "ir kad su o ne ar taip pat savo kai nuo",
    "lv": "un ir ka par arī ar ja kā uz no vai lai gan pēc bet",
    "mr": "आहे आणि व नाही आहेत काही या मी पण असे हे तरी तर होते",
    "ms": "yang dan di pada ini untuk oleh ada dengan dari adalah sebagai tidak akan itu dalam atau",
    "nl": "de van het in een en is op werd met zijn door voor hij dat te dit als ook uit er bij was aan die",
    "no": "og i er av det til for med som en at ikke på vil fra de har kan å om vi eller var et",
    "pl": "w i na się z to do nie że o jest za po a jak który od",
    "pt": "de a o e que da do em se no para com uma um os na dos mais é ou não as por ao como",
    "ro": "de a în este pentru si şi in la o care se cu pe din nu mai un sau prin ce",
    "ru": "и в не на за с к у или по что его то из это для так как о от",
    "sk": "a na sa je v aj s že si od pre po do z nie sú ako alebo to by ale",
    "sl": "in je v se na za z da pa so ki s tudi po ne med iz pri",
    "sv": "och i att en av med på till för är som det har från ett de om den inte var kan",
    "sw": "ya wa na kwa za katika la kuwa ni yake cha lakini kama kwenye",
    "tl": "ng sa ang na mga ay at isang siya ito ni may din hindi",
    "tr": "ve bir bu için ile veya çok her olan olarak da ne de gibi",
    "vi": "các có và của là cho với để được một những người không khi đó trong ở",
    "zh": "的 一 不 有 是 了 人 大 上 在 和 到 我 而 要 中 也 可 他 以 就 与 對 对 這 这 為 为 個 个 會 会",
}

OWN = {
    "az": "və bu də bir ki olan o onun ilə isə üçün kimi ən da",
    "be": "і на ў у з што да не як па але за а ён гэта",
    "bs": "je i se u da od su na za iz kao koji sa što ili koje po",
    "he": "את של על עם הוא כי היא או בין לא זה גם כל אשר",
    "is": "að í og er sem á um það við ekki en með til af frá var fyrir",
    "ka": "და რომ იყო არის ეს ამ მისი კი უფრო შემდეგ როგორც მიერ რომელიც ასევე არ",
    "kk": "мен және бұл үшін оның бар де осы ал болып сол деп бір",
    "km": "និង នៅ ជា បាន ដែល ក្នុង មាន នេះ ការ ពី",
    "kn": "ಮತ್ತು ಈ ಒಂದು ಎಂದು ಇದು ಅಥವಾ ಆದರೆ ಮೇಲೆ ಅವರ ಹಾಗೂ ಇದೆ ಎಂಬ ಆ",
    "ko": "이 그 수 및 등 있는 있다 있습니다 합니다 대한 위해 것이 또는 한 더 할 이를 위한 것은 하는 다른 통해",
    "lo": "ແລະ ທີ່ ຂອງ ໃນ ເປັນ ມີ ການ ໄດ້ ວ່າ ນີ້",
    "mk": "на и во се за од со е да како тоа ги што ја не го или",
    "ml": "ഒരു ഈ എന്ന ഇത് ആണ് നിന്ന് എന്നാൽ അല്ലെങ്കിൽ കൂടി മുതൽ ആയിരുന്നു എന്നീ എന്ന് പറഞ്ഞു അവർ",
    "mn": "нь энэ ч байна юм гэж байсан бол нэг ба болон бөгөөд",
    "my": "သည် ကို နှင့် မှာ တွင် များ ၏ ရှိ မှ တစ်",
    "ne": "र छ मा को को लागि यो पनि एक हो गर्ने भने थियो छन् गरेको",
    "nn": "i og er til av som ein på den har det med dei frå at eit var for ikkje å",
    "pa": "ਦੇ ਦੀ ਹੈ ਅਤੇ ਨੂੰ ਦਾ ਨੇ ਤੇ ਲਈ ਇਸ ਤੋਂ ਨਾਲ ਨਹੀਂ ਵੀ ਕਿ ਇਹ ਵਿੱਚ ਵਿਚ ਹਨ",
    "si": "සහ මේ ඒ එක ඇති විසින් හා බව සඳහා ද වන ලද කර",
    "sq": "të e në dhe një me i nga që për është më se u si janë nuk ka",
    "sr": "је и у се на да су од а за са као до што из или није али које је i u se na da su od za kao što ili",
    "ta": "ஒரு பல மற்றும் இது என்று மேலும் என்பது அல்லது மூலம் சில இருந்து இந்த என அந்த",
    "te": "మరియు ఈ ఒక ఉన్న నుండి తన ఇది కూడా నుంచి యొక్క ఉంది లేదా అని ఆ",
    "th": "ใน ที่ และ ของ เป็น มี การ ได้ ให้ ว่า จะ",
    "uk": "що та з до від він чи були й її для це про і в на у не як за",
    "ur": "کی کے ہے اور کہ پر ایک یہ ہیں ہو ہی تو میں سے کا کو نے",
    "uz": "va bu bilan uchun bir ham edi deb o esa yoki ва бу билан учун бир ҳам",
}


def _words(listed: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(listed.split()))


STOP_WORDS: dict[str, tuple[str, ...]] = {
    "en": GOPHER,
    **{language: _words(listed) for language, listed in (ISO | OWN).items()},
}
"""By the code of the language, as `natural_languages.language_of` gives it."""
