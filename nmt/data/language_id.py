"""Language identification by frequent words, to detect swapped files.

A text is compared with the two languages that a configuration names. There is no answer for a short text, for one in a
third language, and for languages that are alike or unknown here.
"""

import re
from collections.abc import Iterable
from itertools import islice

from nmt.data.corpus import Pair

JUDGED_LINES, LONGEST_LINE = 500, 1000
"""Lines of a corpus that are judged, and characters of a line."""
LEAST_LETTERS = 150
"""Minimum of letters for an answer, about thirty words."""
SHARE = 0.1
"""Minimum share of the words of a text that must be frequent words of its language and not of the other one."""
TIMES_AS_MANY = 4
"""How many frequent words of its language there must be for one of the other language."""
WORD = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]|[^\W\d_]+")
"""Letters between other characters; in Thai, Chinese, Japanese and Korean each letter."""
FREQUENT_WORDS = {
    "ar": "في من على أن إلى التي عن مع هذا ما لا هذه كان الذي ذلك أو بعد كل بين و",
    "bg": "и на в да се за не от с са по като че това е си ще към след които",
    "ca": "de la el i que a en les els per un una del amb no és es al dels més",
    "cs": "a v se na je že o s z do i to jako za k ve pro by jsou který",
    "da": "og i at det er en til af på den for de ikke med et jeg har som der vi",
    "de": "der die das und in den von zu mit ist sich nicht ein eine auf für dem des im auch",
    "el": "και το να του η της με που την από για είναι ο οι στο τα δεν θα των σε",
    "en": "the of and to in is that a for it on with as are this be was not by have",
    "es": "de la que el en y los se del las por un para con no una su al es lo",
    "et": "ja on ei et see ta mis oli kui ka ma oma aga siis mida või kes nii seda meie",
    "fa": "و در به از که این را با است برای آن یک خود تا بر هم شده می او بود",
    "fi": "ja on ei se että oli hän mutta kun ovat myös tai kuin joka sen ole jos niin mitä voi",
    "fr": "de la le et les des en un du une que est pour qui dans a par sur pas au",
    "he": "של את על לא הוא זה עם היא כי אני גם או היה כל אם אבל מה יותר בין אל",
    "hi": "के में की है से को का और पर हैं ने कि एक यह भी नहीं तो हो इस था",
    "hu": "a az és hogy nem is egy ez meg volt de csak ha már mint van azt el vagy ki",
    "id": "yang dan di dengan untuk pada dari ini tidak dalam akan itu adalah ke oleh juga telah atau ada kami",
    "it": "di e che la il un a per in è una del con non si le della sono da i",
    "ja": "の は に を た が で て と し も な い る れ",
    "ko": "이 다 는 에 의 을 가 고 한 하 은 지 를 로 도 인 그",
    "lt": "ir kad į iš su tai yra bei buvo kaip ne o apie dėl už nuo bet jis taip prie",
    "lv": "un ir ka ar no par uz kas tas bet to kā ja vai pēc gan arī nav bija tikai",
    "nb": "og i det er en til av på for at som med ikke de den et jeg har om vi",
    "nl": "de het een van en in is dat op te zijn met voor niet die aan er om ook als",
    "no": "og i det er en til av på for at som med ikke de den et jeg har om vi",
    "pl": "w i na z się nie że to do jest o jak za od przez po są który oraz dla",
    "pt": "de a o que e do da em um para com não uma os no se na por mais as",
    "ro": "de și în a la cu pe nu că o din este care un mai să pentru o sunt au",
    "ru": "и в не на что я с он как это по но из у за от так о же для",
    "sk": "a v sa na je že o s z do to ako za k vo pre by sú ktorý nie",
    "sl": "in je v na se da za so ki pa z s ne bi kot tudi to po iz ni",
    "sv": "och i att det som en på är av för med till den har de inte om ett jag vi",
    "th": "า น ร อ ก เ ง ม ย ล ว",
    "tr": "ve bir bu da de için ile çok ne ama o gibi daha var en olarak olan kadar sonra mi",
    "uk": "і в не на що я з він як це та до за від у але або є по для",
    "vi": "của và là có không được cho trong một các người với đã này những để khi từ về ra",
    "zh": "的 是 不 了 在 有 我 他 这 個 个 們 们 来 上 为 和 地 到 说",
}
"""By ISO 639 code."""


def language_of(lines: Iterable[str], languages: tuple[str, str]) -> int | None:
    """Return which of two languages, 0 or 1, a text is written in; None if that cannot be known."""
    first, second = (set(WORD.findall(FREQUENT_WORDS.get(re.split("[-_]", name)[0].lower(), ""))) for name in languages)
    words = WORD.findall(" ".join(line[:LONGEST_LINE] for line in lines).lower())
    if not (first and second) or sum(map(len, words)) < LEAST_LETTERS:
        return None
    found = [sum(word in only for word in words) for only in (first - second, second - first)]
    side = int(found[1] > found[0])
    return side if found[side] >= max(SHARE * len(words), TIMES_AS_MANY * found[1 - side]) else None


def swapped_sides(pairs: Iterable[Pair], languages: tuple[str, str]) -> str:
    """Return a warning if a side of a corpus is in the language of the other, else nothing."""
    judged = list(islice(pairs, JUDGED_LINES))
    wrong = [
        f"the {name} looks like {languages[1 - side]} (data.{name}_language: {languages[side]})"
        for side, name in enumerate(("source", "target"))
        if language_of((pair[side] for pair in judged), languages) == 1 - side
    ]
    swapped = "source and target seem to be swapped: " if len(wrong) == 2 else ""
    return f"{swapped}{', '.join(wrong)}"
