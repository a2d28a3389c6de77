"""Decides whether documents are searched for a message, and adds to a follow-up the words to which it refers."""

import re
from collections.abc import Sequence

from app.documents.search.terms import content_words
from app.values.text_normalisation import normalized

MAX_EARLIER = 3
"""Maximum number of earlier questions that are considered."""
MAX_WORDS = 8
"""Maximum number of words that are taken from the earlier question."""
FEW_WORDS = 1
"""A question with at most this many content words is always a follow-up."""
REFERRING_LIST = """
    it its they them their theirs he him his she her hers this that these those one ones there then same other
    another former latter such both either neither
    es sie er ihn ihm ihr ihre sein seine dies dieser diese dieses davon dazu dort
    il elle ils elles lui leur celui celle cela ello ella ellos ellas esto eso esta ese
"""
"""Words that refer back: English, German, French and Spanish."""
MAX_REFERRING_WORDS = 4
"""Maximum number of content words of a question that may refer to or continue the question before it."""
REFERRING = frozenset(REFERRING_LIST.split())
CONTINUING = re.compile(
    r"\s*(?:and|or|but|also|so|then|else|(?:what|how) about|what (?:if|else)|und|oder|aber|et|ou|mais|y|o|pero)"
    r"\b",
    re.IGNORECASE,
)
"""Beginnings of a question that continues the question before it."""

_PLEASANTRIES = re.compile(
    r"(?:(?:hello|hi|hey|greetings|good (?:morning|afternoon|evening|night|day)|welcome|bye|goodbye|good bye|"
    r"see you(?: later| soon)?|nice to meet you|thanks|thank you|thx|cheers(?: mate)?|ok|okay|great|perfect|cool|"
    r"nice|super|awesome|wonderful|got it|i see|you too|well done|good job|never ?mind|"
    r"how are you(?: doing)?|who are you|what are you|"
    r"what can you do|what s your name|what is your name|tell me a joke|"
    r"hallo|servus|moin|grüß gott|guten (?:morgen|tag|abend)|gute nacht|danke|vielen (?:lieben )?dank|"
    r"herzlichen dank|tschüss|tschüs|auf wiedersehen|bis (?:bald|später|dann)|alles klar|prima|toll|"
    r"klasse|verstanden|wie geht(?: es|s| s)?(?: dir| ihnen)?|"
    r"wer bist du|was bist du|was kannst du(?: alles)?|wie heißt du|"
    r"erzähle? (?:mir )?einen witz|"
    r"bonjour|bonsoir|salut|merci|au revoir|ça va|hola|buenos días|buenas (?:tardes|noches)|gracias|muchas gracias|"
    r"adiós)"
    r"(?: (?:there|everyone|very much|so much|a lot|again|today|for (?:that|your help|the help|the answer)|"
    r"then|and|you|dir|ihnen|sehr|schön|heute|und|beaucoup|bien|mucho))*(?: |$))+"
)
"""One or more greetings, thanks and the like, and nothing else."""
_SET_PHRASES = re.compile(
    r"(?:go on|continue|carry on|keep going|more please|are you sure(?: about (?:that|it|this))?|really|"
    r"weiter(?: bitte)?|mach(?:e)? (?:bitte )?weiter|fahr(?:e)? fort|bist du (?:dir )?sicher|wirklich|"
    r"continue s il te plaît|sigue)"
)
_LANGUAGES = """
    english german french spanish italian dutch portuguese polish russian ukrainian chinese japanese korean arabic
    turkish swedish danish norwegian finnish greek czech hungarian hindi latin
    deutsch deutsche englisch englische französisch französische spanisch spanische italienisch italienische
    niederländisch niederländische portugiesisch portugiesische polnisch polnische russisch russische ukrainisch
    ukrainische chinesisch chinesische japanisch japanische koreanisch arabisch arabische türkisch türkische
    schwedisch dänisch norwegisch latein
    anglais allemand français espagnol italien inglés alemán francés español italiano
"""
_SAID_IN = re.compile(
    rf"(?:how (?:do|would) (?:you|i) say|what is|what s|wie sagt man|wie heißt|was heißt) "
    rf"(?:it|that|this|das|dies|es) (?:in|auf) (?:{'|'.join(_LANGUAGES.split())})"
)
_WISHES = f"""
    translate rephrase reword rewrite paraphrase shorten simplify summarize summarise reformat reformulate condense
    elaborate expand repeat spell spellcheck short shorter longer simpler simply clearer briefer brief concise
    shortly detailed formal formally informal polite politely politer friendly friendlier casual again
    list lists bullet bullets table paragraph poem email mail e-mail summary sentence sentences words word terms
    grammar spelling tone five half tweet markdown json haiku
    übersetze übersetz übersetzen umformulieren formuliere formulier umschreiben kürze kürzen vereinfache
    zusammenfassen zusammen wiederhole wiederholen kürzer länger einfacher knapper ausführlicher genauer höflicher
    freundlicher förmlicher formeller nochmal nochmals einmal einfachen worten liste tabelle stichpunkte
    stichpunkten gedicht satz sätzen sätze absatz e-mail grammatik
    traduis traduire traduisez résume reformule court courte courts tradúcelo traduce resume corto corta
    {_LANGUAGES}
"""
"""Words that say how the answer should be changed."""
_OTHERS = """
    a an the it its that this these those them your you me my i im m like as in into to of for from with on at by
    and or but so now then please can could would will do make put say write give turn tell explain use using fix
    check correct change convert format sound let have be more less bit little much very too just only
    one two three four five ten few same other last previous above whole answer reply response message text again
    once    up down out points point form style way language version long child kid year old
    das dies dieses es sie ihn den die der dem ein eine einen einem einer dein deine deinen deiner deinem mir mich
    bitte kannst könntest du kann könntet sagen sag sage schreib schreibe schreiben mach mache machen gib geben
    erklär erkläre erklären fass fasse fassen um zu in ins im auf als aus daraus davon noch und oder nun jetzt dann
    nur etwas mehr weniger viel ganz zwei drei vier fünf antwort text nachricht letzte letzten für sprache
    ça cela en plus s il te plaît vous le la los lo al a más por favor
"""
"""Other words that occur in a wish that the answer be changed."""
_THE_FORM = re.compile(
    r"\b(?:the|these|those|die|der|den|diese|diesen|dieser) "
    r"(?:lists?|table|paragraph|poem|emails?|mail|sentences?|words?|terms|summary|text|message|"
    r"liste|tabelle|absatz|absätze|satz|sätze|worte|text|nachricht)\b"
)
"""Phrases such as "the table". Documents are searched for such a message, which may mean a table in them."""
_WORD = re.compile(r"\w+(?:-\w+)*")
_LETTERS = re.compile(r"\w+")
_WISH_WORDS = frozenset(_WISHES.split())
_KNOWN_WORDS = _WISH_WORDS | frozenset(_OTHERS.split())


def is_conversational(message: str, has_answer: bool) -> bool:
    """Returns whether a message asks nothing of the documents. If there is an answer, the message may be about it.

    hello                       never leads to a search
    Translate that to French    leads to a search only if there is no answer yet
    Translate the lease         always leads to a search, because "lease" is not a known word about an answer

    A message about the answer has only known words, and at least one of them is a wish. A question that begins with
    a question word leads to a search, except for a few set phrases."""
    words = _WORD.findall(normalized("NFC", message).lower())
    line = " ".join(words)
    if _PLEASANTRIES.fullmatch(line):
        return True
    if not has_answer:
        return False
    if _SET_PHRASES.fullmatch(line) or _SAID_IN.fullmatch(line):
        return True
    if _THE_FORM.search(line):
        return False
    return _KNOWN_WORDS.issuperset(words) and not _WISH_WORDS.isdisjoint(words)


def self_contained(question: str, earlier: Sequence[str]) -> str:
    """Adds to a follow-up question the words to which it refers. Returns other questions unchanged.

    What is the Caucus-race of the Dodo?
    Who won it?                             ->  Who won it? (Caucus-race Dodo)

    `earlier` has the questions before this question, oldest first. The last of them is first made self-contained in
    the same way."""
    before = list(earlier)[-MAX_EARLIER:]
    if not before or not is_follow_up(question):
        return question
    context = self_contained(before[-1], before[:-1])
    own = set(map(str.lower, content_words(question)))
    words = [word for word in content_words(context) if word.lower() not in own]
    return f"{question} ({' '.join(words[:MAX_WORDS])})" if words else question


def is_follow_up(question: str) -> bool:
    """Returns whether a question has too few words to be searched by itself.

    Such a question has at most FEW_WORDS content words, or has at most MAX_REFERRING_WORDS and refers back (it,
    that one) or continues (And …, What about …)."""
    count = len(content_words(question))
    refers_back = not REFERRING.isdisjoint(map(str.lower, _LETTERS.findall(question)))
    continues = CONTINUING.match(question) is not None
    return count <= FEW_WORDS or (count <= MAX_REFERRING_WORDS and (refers_back or continues))
