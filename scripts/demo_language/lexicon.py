"""The words: nouns, adjectives, verbs, names, places. One table each, then the functions that read them.

Kinds of noun, one letter each: P person, A animal, F food, B reading matter, T other thing, L place.
"""

import re

from demo_language.morphology import (
    Adjective,
    EnglishVerb,
    FrenchVerb,
    Noun,
    Verb,
    english_past,
    english_plural,
    english_third,
    french_feminine,
    french_plural,
    regular_participle,
    regular_present,
)

KINDS = "PAFBTL"


def _words(text: str) -> list[str]:
    return text.split()


# english[/plural] = french[/plural] gender
_NOUNS = {
    "P": """
        man/men = homme m; woman/women = femme f; child/children = enfant m; boy = garçon m; girl = fille f;
        king = roi m; queen = reine f; doctor = médecin m; nurse = infirmière f; teacher = professeur m;
        baker = boulanger m; farmer = fermier m; soldier = soldat m; sailor = marin m; painter = peintre m;
        writer = écrivain m; singer = chanteuse f; dancer = danseuse f; neighbour = voisin m; friend = ami m;
        brother = frère m; sister = sœur f; uncle = oncle m; aunt = tante f; grandfather = grand-père/grands-pères m;
        grandmother = grand-mère/grands-mères f; cousin = cousin m; lawyer = avocate f; judge = juge m;
        engineer = ingénieur m; gardener = jardinier m; hunter = chasseur m; thief/thieves = voleur m;
        student = étudiante f; pupil = élève m; tourist = touriste m; driver = conductrice f; waiter = serveur m;
        hero/heroes = *héros m; mayor = maire m; princess = princesse f; knight = chevalier m; witch = sorcière f;
        mother = mère f; father = père m; son = fils m; guest = invitée f; prisoner = prisonnier m""",
    "A": """
        cat = chat m; dog = chien m; horse = cheval m; cow = vache f; bird = oiseau m; shark = requin m;
        mouse/mice = souris f; wolf/wolves = loup m; fox = renard m; bear = ours m; lion = lion m; rabbit = lapin m;
        hen = poule f; duck = canard m; goose/geese = oie f; goat = chèvre f; pig = cochon m; donkey = âne m;
        owl = *hibou/*hiboux m; hedgehog = *hérisson m; spider = araignée f; bee = abeille f; snake = serpent m;
        monkey = singe m; elephant = éléphant m; turtle = tortue f; frog = grenouille f; swallow = hirondelle f;
        squirrel = écureuil m; camel = chameau m; tiger = tigre m; butterfly = papillon m; eagle = aigle m""",
    "F": """
        apple = pomme f; pear = poire f; orange = orange f; cake = gâteau m; egg = œuf m; cheese = fromage m;
        onion = oignon m; carrot = carotte f; tomato/tomatoes = tomate f; soup = soupe f; salad = salade f;
        sandwich = sandwich/sandwichs m; pancake = crêpe f; strawberry = fraise f; cherry = cerise f; plum = prune f;
        lemon = citron m; melon = melon m; sausage = saucisse f; ham = jambon m; bean = *haricot m; leek = poireau m""",
    "B": """
        letter = lettre f; book = livre m; newspaper = journal m; poem = poème m; novel = roman m; story = histoire f;
        map = carte f; message = message m; article = article m; note = note f; report = rapport m; tale = conte m""",
    "T": """
        table = table f; chair = chaise f; bed = lit m; door = porte f; window = fenêtre f; key = clé f; lamp = lampe f;
        mirror = miroir m; clock = horloge f; knife/knives = couteau m; spoon = cuillère f; fork = fourchette f;
        glass = verre m; bottle = bouteille f; bag = sac m; box = boîte f; hat = chapeau m; coat = manteau m;
        shirt = chemise f; dress = robe f; shoe = chaussure f; ring = bague f; watch = montre f; umbrella = parapluie m;
        car = voiture f; bicycle = vélo m; boat = bateau m; train = train m; plane = avion m; wheel = roue f;
        tree = arbre m; flower = fleur f; leaf/leaves = feuille f; stone = pierre f; basket = panier m; rope = corde f;
        ladder = échelle f; axe = *hache f; hammer = marteau m; needle = aiguille f; jewel = bijou/bijoux m;
        picture = tableau m; photo = photo f; piano = piano m; violin = violon m; guitar = guitare f; drum = tambour m;
        toy = jouet m; doll = poupée f; ball = balle f; candle = bougie f; blanket = couverture f; carpet = tapis m;
        computer = ordinateur m; statue = statue f; flag = drapeau m; sword = épée f; bell = cloche f""",
    "L": """
        house = maison f; garden = jardin m; street = rue f; town = ville f; village = village m; castle = château m;
        church = église f; school = école f; hospital = hôpital m; museum = musée m; station = gare f; bridge = pont m;
        river = rivière f; lake = lac m; forest = forêt f; mountain = montagne f; island = île f; market = marché m;
        library = bibliothèque f; restaurant = restaurant m; theatre = théâtre m; hotel = hôtel m; kitchen = cuisine f;
        office = bureau m; factory = usine f; farm = ferme f; field = champ m; harbour = port m; tower = tour f;
        shop = magasin m; beach = plage f; park = parc m; square = place f; cathedral = cathédrale f; stable = écurie f
    """,
}

# kinds of noun: english = masculine[/feminine[/masculine plural]]
_ADJECTIVES_BEFORE = {
    "PAFBTL": """
        small = petit; big = grand; beautiful = beau|bel/belle/beaux; new = nouveau|nouvel/nouvelle/nouveaux;
        old = vieux|vieil/vieille/vieux; good = bon/bonne; pretty = joli""",
    "PA": "young = jeune; fat = gros/grosse",
    "BTL": "long = long/longue",
    "TL": "tall = *haut/*haute/*hauts; vast = vaste",
    "FBT": "bad = mauvais; enormous = énorme",
}
_ADJECTIVES_AFTER = {
    "AFTL": """
        red = rouge; green = vert; blue = bleu/bleue/bleus; white = blanc/blanche; black = noir; yellow = jaune;
        grey = gris; brown = brun; pink = rose; purple = violet/violette; strange = étrange; dirty = sale;
        clean = propre; round = rond""",
    "P": """
        polite = poli; shy = timide; rich = riche; poor = pauvre; proud = fier/fière; jealous = jaloux/jalouse;
        blond = blond; famous = célèbre; loyal = loyal; talkative = bavard; generous = généreux/généreuse;
        French = français; Italian = italien/italienne; Spanish = espagnol; German = allemand; Greek = grec/grecque;
        Turkish = turc/turque""",
    "PA": """
        hungry = affamé; brave = courageux/courageuse; tired = fatigué; happy = heureux/heureuse; sad = triste;
        angry = furieux/furieuse; lazy = paresseux/paresseuse; clever = intelligent; sick = malade; blind = aveugle;
        wounded = blessé; careful = prudent; curious = curieux/curieuse; patient = patient; calm = calme;
        cruel = cruel/cruelle; strong = fort; weak = faible; quiet = silencieux/silencieuse; thin = mince;
        quick = rapide""",
    "FBTL": "expensive = cher/chère; *useful = utile; ordinary = banal/banale/banals; modern = moderne; "
    "forgotten = oublié",
    "BTL": "secret = secret/secrète; medieval = médiéval; royal = royal; *unique = unique; ancient = ancien/ancienne; "
    "empty = vide; magnificent = magnifique; precious = précieux/précieuse; mysterious = mystérieux/mystérieuse",
    "TF": "hot = chaud; cold = froid; dry = sec/sèche; fresh = frais/fraîche; soft = mou/molle; heavy = lourd; "
    "light = léger/légère; broken = cassé; tender = tendre",
}

# english base[, past, participle][ + particle] = infinitive [(forms)] [kinds of object]
# French forms: one is the stressed stem of a verb in -er; seven are present (je il nous vous ils), future, participle.
_VERBS = """
    see, saw, seen = voir (vois voit voyons voyez voient verr vu) PAFBTL
    look + for = chercher PAFBTL
    find, found, found = trouver PAFBTL
    watch = regarder PAL
    love = aimer PAFBTL
    hate = détester PAFBTL
    buy, bought, bought = acheter (achèt) AFBTL
    sell, sold, sold = vendre AFBTL
    draw, drew, drawn = dessiner PAFTL
    forget, forgot, forgotten = oublier PBTL
    photograph = photographier PAL
    describe = décrire (décris décrit décrivons décrivez décrivent décrir décrit) PAFBTL
    paint = peindre (peins peint peignons peignez peignent peindr peint) PAFTL
    lose, lost, lost = perdre ABT
    steal, stole, stolen = voler AFBT
    hide, hid, hidden = cacher PAFBT
    carry = porter PAFBT
    take, took, taken = prendre (prends prend prenons prenez prennent prendr pris) FBT
    bring, brought, brought = apporter FBT
    choose, chose, chosen = choisir PAFBTL
    wash = laver PAFT
    touch = toucher PAFBT
    break, broke, broken = casser T
    repair = réparer T
    open = ouvrir (ouvre ouvre ouvrons ouvrez ouvrent ouvrir ouvert) B
    close = fermer B
    clean = nettoyer (nettoi) TL
    eat, ate, eaten = manger F
    cook = cuire (cuis cuit cuisons cuisez cuisent cuir cuit) F
    taste = goûter F
    slice = trancher F
    prepare = préparer F
    study = étudier B
    write, wrote, written = écrire (écris écrit écrivons écrivez écrivent écrir écrit) B
    translate = traduire (traduis traduit traduisons traduisez traduisent traduir traduit) B
    burn = brûler BT
    visit = visiter L
    cross = traverser L
    leave, left, left = quitter PL
    build, built, built = construire (construis construit construisons construisez construisent construir construit) TL
    admire = admirer PAFBTL
    help = aider PA
    follow = suivre (suis suit suivons suivez suivent suivr suivi) PA
    wait + for = attendre PA
    hear, heard, heard = entendre PA
    meet, met, met = rencontrer PA
    save = sauver PA
    feed, fed, fed = nourrir PA
    listen + to = écouter P
    invite = inviter P
    thank = remercier P
    kiss = embrasser P
    know, knew, known = connaître (connais connaît connaissons connaissez connaissent connaîtr connu) PL
    protect = défendre PAL
    call = appeler (appell) PA
    greet = saluer P
    frighten = effrayer (effrai) PA
"""
_VERBS_WITH_A = """
    obey = obéir P
    answer = répondre (réponds répond répondons répondez répondent répondr répondu) P
    phone = téléphoner P
    smile + at = sourire (souris sourit sourions souriez sourient sourir souri) P
    speak, spoke, spoken + to = parler PA
"""
_VERBS_WITHOUT_OBJECT = """
    sleep, slept, slept = dormir (dors dort dormons dormez dorment dormir dormi)
    laugh = rire (ris rit rions riez rient rir ri)
    sing, sang, sung = chanter
    dance = danser
    work = travailler
    play = jouer
    swim, swam, swum = nager
    run, ran, run = courir (cours court courons courez courent courr couru)
    cry = pleurer
    dream = rêver
    walk = marcher
    shout = crier
    disappear = disparaître (disparais disparaît disparaissons disparaissez disparaissent disparaîtr disparu)
"""
_VERBS_WITH_ETRE = """
    arrive = arriver
    leave, left, left = partir (pars part partons partez partent partir parti)
    come, came, come = venir (viens vient venons venez viennent viendr venu)
    come, came, come + back = revenir (reviens revient revenons revenez reviennent reviendr revenu)
    fall, fell, fallen = tomber
    stay = rester
    go, went, gone + out = sortir (sors sort sortons sortez sortent sortir sorti)
    die = mourir (meurs meurt mourons mourez meurent mourr mort)
"""
_VERBS_REFLEXIVE = """
    wake, woke, woken + up = réveiller
    rest = reposer
    stop, stopped, stopped = arrêter
    fall, fell, fallen + asleep = endormir (endors endort endormons endormez endorment endormir endormi)
    get, got, got + up = lever (lèv)
    hurry = dépêcher
    bathe = baigner
"""
_VERBS_OF_SAYING = """
    say, said, said = dire (dis dit disons dites disent dir dit)
    think, thought, thought = penser
    believe = croire (crois croit croyons croyez croient croir cru)
    know, knew, known = savoir (sais sait savons savez savent saur su)
    explain = expliquer
    hope = espérer (espère espère espérons espérez espèrent espérer espéré)
"""
_MODALS = """
    want, wanted, wanted = vouloir (veux veut voulons voulez veulent voudr voulu)
    have, had, had = devoir (dois doit devons devez doivent devr dû)
    prefer, preferred, preferred = préférer (préfère préfère préférons préférez préfèrent préférer préféré)
"""

MALE_NAMES = _words("""
    Paul Pierre Louis Antoine Marc David Victor Robert Simon Thomas Arthur Oscar Julien Martin Nicolas Gabriel Lucas
    Étienne Olivier Vincent Bruno Daniel Samuel Édouard""")
FEMALE_NAMES = _words("""
    Marie Anne Claire Sophie Julie Alice Emma Lucie Sarah Camille Isabelle Nadia Laura Manon Inès Jeanne Élise Rose
    Charlotte Amélie Zoé Clara Eva Margot""")
SURNAMES = _words("""
    Dupont Moreau Bernard Petitjean Fournier Mercier Lambert Garnier Roussel Chevalier Gauthier Perrin Morin Dumas
    Fontaine Leclerc Barbier Renard Colin Arnaud Vidal Caron Meunier Marchand Baron Masson Lemoine Rivière Brunet
    Giraud Benoît Olivier Aubert Imbert Evrard""")
ENGLISH_UNITS = _words("""
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen""")
ENGLISH_TENS = _words("_ _ twenty thirty forty fifty sixty seventy eighty ninety")
FRENCH_UNITS = _words("""
    zéro un deux trois quatre cinq six sept *huit neuf dix *onze douze treize quatorze quinze seize dix-sept dix-huit
    dix-neuf""")
FRENCH_TENS = _words("_ _ vingt trente quarante cinquante soixante soixante quatre-vingt quatre-vingt")

# english = preposition and name
_PLACES = """
    in Paris = à Paris; in London = à Londres; in Brussels = à Bruxelles; in Geneva = à Genève; in Lyon = à Lyon;
    in Rome = à Rome; in Vienna = à Vienne; in Lisbon = à Lisbonne; in Warsaw = à Varsovie; in Athens = à Athènes;
    in France = en France; in Italy = en Italie; in Spain = en Espagne; in Germany = en Allemagne; in Greece = en Grèce;
    in Portugal = à le Portugal; in Japan = à le Japon; in Canada = à le Canada; in Brazil = à le Brésil;
    in Mexico = à le Mexique; in Denmark = à le Danemark; in India = en Inde; in China = en Chine; in Egypt = en Égypte
"""
MONTHS = [
    ("January", "janvier"), ("February", "février"), ("March", "mars"), ("April", "avril"), ("May", "mai"),
    ("June", "juin"), ("July", "juillet"), ("August", "août"), ("September", "septembre"), ("October", "octobre"),
    ("November", "novembre"), ("December", "décembre"),
]  # fmt: skip
WEEKDAYS = [
    ("Monday", "lundi"), ("Tuesday", "mardi"), ("Wednesday", "mercredi"), ("Thursday", "jeudi"), ("Friday", "vendredi"),
    ("Saturday", "samedi"), ("Sunday", "dimanche"),
]  # fmt: skip


def _entries(table: str, separator: str = ";") -> list[tuple[str, str]]:
    """The (English, French) halves of a table's entries."""
    lines = (line.strip() for line in table.split(separator))
    return [(left.strip(), right.strip()) for left, _, right in (line.partition("=") for line in lines if line)]


def _noun(english: str, french: str, kind: str) -> Noun:
    one, _, many = english.partition("/")
    spelling, _, gender = french.rpartition(" ")
    un, _, des = spelling.partition("/")
    return Noun((one, many or english_plural(one)), (un, des or french_plural(un)), gender == "f", kind)


def _adjective(english: str, french: str, before: bool, kinds: str) -> Adjective:
    masculine, feminine, plural, *_ = (*french.split("/"), "", "")
    feminine = feminine or french_feminine(masculine)
    forms = (masculine, feminine, plural or french_plural(masculine), french_plural(feminine))
    return Adjective(english, forms, before, kinds)


def _verb(english: str, french: str, *, preposition: str = "", etre: bool = False, reflexive: bool = False) -> Verb:
    forms, _, particle = (part.strip() for part in english.partition("+"))
    base, past, participle, *_ = (*(form.strip() for form in forms.split(",")), "", "")
    past = past or english_past(base)
    match = re.fullmatch(r"(\w+)(?: \((.*)\))?(?: ([A-Z]+))?", french)
    if match is None:
        raise ValueError(f"lexicon: cannot read the verb {french!r}")
    infinitive, forms, objects = (group or "" for group in match.groups())
    return Verb(
        EnglishVerb(base, english_third(base), past, participle or past, particle),
        _french_verb(infinitive, forms.split(), preposition, etre or reflexive, reflexive),
        objects,
    )


def _french_verb(infinitive: str, forms: list[str], preposition: str, etre: bool, reflexive: bool) -> FrenchVerb:
    if len(forms) == 7:
        je, il, nous, vous, ils, future, participle = forms
        return FrenchVerb(infinitive, (je, il, nous, vous, ils), future, participle, etre, reflexive, preposition)
    strong = forms[0] if forms else infinitive[:-2]
    present, participle = regular_present(infinitive, strong), regular_participle(infinitive)
    future = strong + "er" if forms else infinitive.removesuffix("e")
    return FrenchVerb(infinitive, present, future, participle, etre, reflexive, preposition)


NOUNS = [_noun(left, right, kind) for kind, table in _NOUNS.items() for left, right in _entries(table)]
ADJECTIVES = [
    _adjective(left, right, before, kinds)
    for before, tables in ((True, _ADJECTIVES_BEFORE), (False, _ADJECTIVES_AFTER))
    for kinds, table in tables.items()
    for left, right in _entries(table)
]
TRANSITIVE = [_verb(left, right) for left, right in _entries(_VERBS, "\n")]
WITH_A = [_verb(left, right, preposition="à") for left, right in _entries(_VERBS_WITH_A, "\n")]
INTRANSITIVE = [
    *(_verb(left, right) for left, right in _entries(_VERBS_WITHOUT_OBJECT, "\n")),
    *(_verb(left, right, etre=True) for left, right in _entries(_VERBS_WITH_ETRE, "\n")),
    *(_verb(left, right, reflexive=True) for left, right in _entries(_VERBS_REFLEXIVE, "\n")),
]
SAYING = [_verb(left, right) for left, right in _entries(_VERBS_OF_SAYING, "\n")]
MODALS = [_verb(left, right) for left, right in _entries(_MODALS, "\n")]
PLACES = _entries(_PLACES)
