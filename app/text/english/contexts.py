"""The words beside a number, a letter or an abbreviation that decide of what class it is."""

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Behind one of these, digits are read one by one.
CODES = _words(
    "code codes pin otp passcode password zip zipcode postcode extension ext account acct id ssn ein iban "
    "isbn card serial tracking text sms confirmation verification licence license passport routing badge "
    "agent imei sku upc cvv cvc"
)
FILED = re.compile(
    r"\b(?:(?i:docket|ref|reference|invoice|ticket|sku|po|upc|rma|id|ein)\b[.:]?|(?:Case|Claim|File)\b:?|(?:case|claim|file)(?::|\s+#)|(?i:order|booking)\s+#"
    r"|(?i:no)\.)\s*#?$",
    re.ASCII,
)
"""Before two numbers of a file. "In that case" and "please file" are followed by so many."""
LINKS = _words("not or to")  # between two codes
DIALED = _words("call calls called calling dial dials dialed dialing ring rang phone")
HELPLINES = _words("emergency helpline hotline")
EMERGENCY = _words("911 112 988 999 411 311 211 511 611 711 811 000 110 119 120 101 105 111 116")
ORDERS = _words("order ticket invoice case claim reference ref tracking confirmation booking # number no")
NAMED_BY_CODE = ORDERS - _words("# number no") | _words(
    "item part model serial account policy file flight catalog certificate document drawing job lot batch "
    "unit bill receipt contract license licence registration product passport patent po"
)
"""Before "No." and a code: "Part No. A-12"."""

# Behind one of these, a letter that touches a number is a letter.
LETTERED = _words(
    "apartment apt apt. room seat gate bus exhibit grade form row flat suite unit building page platform "
    "bay block level ward zone type class plan section track pier dock hall stand box lot car coach "
    "terminal table figure model size door stage tower cabin locker shelf aisle stall booth pod cell"
)
# Where a hundred is "one oh one": three or four digits in two parts.
NUMBERED = _words(
    "room rm suite ste flight route highway interstate hwy apartment apt bus train road rt rte channel"
)
IN_TWO_PARTS = _words("box flight rfc rtx gtx rx geforce radeon")
LAWS = _words("section sections form forms rule § §§")
COURSES = _words(
    "chem bio econ psych math calc calculus algebra physics chemistry biology economics psychology sociology "
    "philosophy history english spanish french german accounting statistics stats engineering cs"
)
AIRLINES = _words("UA AA DL BA LH AF KL EK QF SQ WN NK VS EY QR TK JL NH CX LX AZ FR EI AY")
FLOWN = _words(
    "departs departed departing arrives arrived arriving leaves leaving lands landed boards boarding "
    "flies takes is was has"
)
AIRCRAFT = _words("xbox boeing airbus concorde cessna embraer 737 747 porsche peugeot bmw volvo mercedes")
# Before one of these, K, M or B behind a number is a scale.
COUNTABLE = _words(
    "views view parameters params people downloads users followers subscribers likes copies units words "
    "tokens customers employees fans votes visitors copies sales shares records rows requests members "
    "players streams items miles dollars euros pounds years jobs homes deaths cases points steps books "
    "songs photos residents hits impressions clicks installs visits reviews plays times more less plus "
    "per a"
)
COUNTED = (COUNTABLE - _words("times more less plus per a")) | _words("of lines people students characters")
MEASURES = _words("hours minutes seconds miles meters kilometers feet pounds calories")
"""No year stands before one of these behind MEASURED_BEHIND."""
MEASURED_BEHIND = _words("from to by around after before and the fall")
AMOUNTS = MEASURES | _words("tons dollars euros points votes")
"""No year stands before one of these behind "of" and "between", or where something changes to so many."""
ABOUT = _words(
    "about over under nearly almost around roughly approximately some than to of with has have had"
)
JEWELRY = _words("gold white rose yellow ring necklace jewelry chain")  # of so many karats
MOVED = _words(
    "up down rose fell dropped grew gained lost climbed slid rises falls drops grows"
)  # before "↑3%"
RAN = _words("ran raced jogged walked")
RACES = _words("run race walk swim ride course dash row resolution video tv screen monitor")

# Behind one of these, or before one of WEATHERED, C and F behind a number are degrees.
TEMPERED = _words(
    "oven bake baked baking preheat preheated heat heated roast roasted cook cooked cooking temp temps "
    "temperature temperatures high highs low lows feels fever forecast weather currently outside boil boils "
    "freeze freezes melts thermostat reaching today tonight tomorrow"
)
WEATHERED = _words("outside outdoors today tonight tomorrow")
# m is minutes beside one of these, and with hours or seconds in the same phrase.
WAITED = _words(
    "wait waited waiting in for every within after another last past next about took takes "
    "prep cook bake simmer boil marinate soak knead"
)
EXERCISED = _words("rest hold plank run ran walk jog sprint stir steep cook each")
"""Beside one of these "60s" is so many seconds."""
REPEATED = _words("heat squats push-ups pushups sit-ups situps pull-ups lunges crunches burpees planks jacks")
"""Behind one of these "60s" is so many seconds."""
KEPT = _words("closed open every")  # of hours: behind one of these "Sun" is a day
ON_DAY = _words(
    "on by until till from this next last departs departing leaves leaving starts starting begins"
)
"""Behind one of these "Sat" and "Sun" are days where a number follows."""
SUNNY = _words("from on")  # before the star, or what is named for it
AGO = _words("ago later left remaining earlier")
SIZES = _words("tall high wide long deep thick x by")
RECORD = _words("record records season overall")
"""Before one of these "11-3" is so many games won and so many lost."""
PLAYED = _words("are is were was went stand stands sit sits now started finished")
PLAYED_SINCE = _words("this on overall since through at in against under")
"""Between these "11-3" is so many games won and so many lost."""
SIZED = _words(
    "ladder ladders ceiling ceilings pole poles wall walls fence boat board boards sheet sheets rope cord "
    "cable trailer truck beam section sections pipe pipes rug rugs tent tents "
    "banner banners panel panels plywood tarp mat shed"
)
"""Before one of these "10'" is of so many feet."""
ORBITALS = _words(
    "orbital orbitals transition transitions excitation electron electrons state states subshell"
)
"""Before one of these "2p-3p" are of an atom, rather than times."""
SEVERAL_BEHIND = _words(
    "the these those all both his her their my our your got get gets rated rates rolled roll rolls drew "
    "draw aged ages see saw score scores scored give gives gave given mostly only odd even hit hits hitting"
)
"""Behind one of these "3s and 4s" are threes and fours, rather than seconds."""
SEVERAL_OF = re.compile(
    r"\b(?:(?:pairs?|sets?|hands?|trio|full house) of|count(?:s|ed|ing)? (?:up |down )?(?:by|in)"
    r"|lin(?:e|ed|ing) up in|grouped in|(?:reviews|ratings|grades) (?:are|were))\s*$",
    re.IGNORECASE,
)
"""Before "5s" that are fives, or a list of them."""
PASSED = _words("left more faster slower longer shorter between delay later earlier apart ago")
"""Behind "2s or 3s" of so many seconds."""
OF_DECADE = _words(
    "sitcom sitcoms show shows song songs hit hits music rock pop disco movie movies film films band bands "
    "style fashion theme party kid kids car cars classic classics icon throwback sound sounds vibe look "
    "house mix playlist playlists rap folk jazz punk funk soul metal country soundtrack tune tunes album "
    "hip-hop computer computers console game games toy toys "
    "arcade cartoon cartoons dance dress costume outfit hair hairstyle decade nostalgia aesthetic decor"
)
"""Before one of these "a 70s" is of those years."""
MADE = _words("make record create add upload need do shoot")
MADE_OF_SECONDS = _words("show sound film")
"""Behind "make a 60s" of so many seconds."""
TIMED = _words("timeout timer interval delay pause break countdown")
# Behind "IU", the unit of a dose.
DOSED = _words(
    "of per insulin heparin vitamin vitamins d3 retinol cholecalciferol erythropoietin epoetin interferon "
    "penicillin oxytocin hcg fsh daily weekly once twice every each a"
)
MEASURED = _words("high long wide deep tall thick race dash sprint hurdles away below above from of")
DURATIONS = _words(
    "took takes take lasted lasts last lasting for in time times duration runtime of elapsed is was "
    "within length"
)
HOURS = _words("hours hrs")
CHANGED = _words(
    "increase increased increases increasing rise rose risen grow grew grown reduce reduced reduces cut cuts "
    "fall fell fallen drop dropped decrease decreased extend extended exceed exceeded exceeds shortened "
    "lengthened up down off overrun missed shorter longer limited capped trained"
)
"""Behind one of these so many hours follow, rather than a time of day."""
UNTIL_HOURS = re.compile(r"\b(?:(?i:from) [0-2]|0)\d{3} (?:hours|hrs\.?)(?: to| and| -)$")
HOURS_OF = re.compile(r" (?:hours|hrs\.?)(?: (?:to|and|-) [0-2]\d{3} (?:hours|hrs\.?))? of\b")
HOURS_JOINED = re.compile(r"(?<!\S)[0-2]\d{3} (?:hours|hrs)(?: to| and)?$")

ELEMENTS = _words(
    "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr "
    "Y Zr Mo Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce W Pt Au Hg Tl Pb Bi U"
)
SCORED = _words("score scored scores rated rating graded hp mp health mana stamina")
GIVEN = _words("give gives gave got rate rates")  # a score, with "it" or "a" between: "gave it 8/10"
PRAISED = _words("would recommend recommended highly best perfect amazing excellent")
"""Behind "10/10" at the start of a text, which else may be a day."""
BATTED = _words("posted scored made reached declared chased chasing total")
"""Behind one of these "287/6" are the runs and wickets of cricket."""
PARTED = _words("cup cups teaspoon teaspoons tablespoon tablespoons inch inches mile miles")
"""Before one of these stands a fraction, rather than a score."""
PAGED = _words("page pages step part slide episode question task lap round week chapter lesson level")
"""Behind one of these "3/10" is so many of so many."""
WEIGHED = _words("lost lose loses losing gained gain weigh weighs weighed")
"""Behind one of these "1 st" is a stone."""
SPENT = _words(
    "cost costs costing save saves saved lose loses lost pay pays paid spend spends spent worth earn earns "
    "earned owe owes owed charge charges charged"
)
"""Behind one of these "$100s" are dollars, rather than bills."""
AGED = _words("and but or who with at in is was now today")
"""Before one of these an age is said of somebody, rather than of the noun ahead."""
VERSIONS = _words("version python release ubuntu node chapter section v")
RAISED = _words("hike hikes cut cuts rise rises move increase rate")  # behind "25bp", of basis points
LINES = _words("modem modems link line connection bitrate serial baud")
CHANCES = _words("chance chances probability inch inches mile miles second seconds share")
TYPEFACES = _words("font fonts type text typeface arial helvetica times courier calibri bold serif size sans")
DISPLAYS = _words(
    "tv tvs hdtv lcd led oled qled monitor display screen television 4k uhd fhd qhd class laptop tablet"
)
"""Before one of these an inch is of a screen: "a 40 in. TV"."""
INGREDIENTS = _words(
    "sugar flour milk water butter cream oil broth stock rice oats cheese chopped diced sliced "
    "shredded grated "
    "brown white heavy warm cold hot boiling all-purpose powdered confectioners packed sifted "
    "cooked buttermilk "
    "honey syrup molasses cocoa nuts walnuts pecans almonds raisins chocolate yogurt mayonnaise shortening "
    "margarine vinegar wine juice lemon orange tomato onion onions celery carrots mushrooms beans peas corn "
    "spinach fresh frozen dried melted unsalted granulated vegetable olive chicken beef bread breadcrumbs of"
)
"""Behind "1 c.", so many cups."""
RATED = _words(
    "km cm mm mi ft kg mg mcg µg μg ug ng lb lbs mL ml kL mmol nmol mol kWh MWh kW MW kJ MJ kcal MB "
    "GB KB kB TB "
    "Mb Gb Kb Mbit Gbit bits"
)
"""Units whose rates are also named without a number."""
ALWAYS_BEHIND = _words(
    "open available work works working running staffed operating operates call is are on run"
)
ALWAYS_AHEAD = _words(
    "support service access coverage help care monitoring emergency assistance operation hotline"
)
"""Beside one of these "24-7" is always, rather than a score."""
CITIES = _words("nyc la sf brooklyn manhattan queens bronx")
RATINGS = _words("score rating grade mark")
SCORES = RATINGS | _words("star stars points review imo imho tbh")
PRESSURE = _words("pressure bp hypertension hypertensive systolic")
OF = _words("of")
COMPARED_BEHIND = _words("is are was were be been to of at by from if when than with")
"""Behind one of these "<" is no verb."""
TYPED = _words("type typing typed enter command commands cd")
ROOTS = _words("tmp home etc usr var opt dev root bin")  # of a file system
MENUS = re.compile(
    r"(?:\b(?i:go to|open|click|tap|select|navigate to|choose)\b[^.!?:;,>]{0,24}"
    r"|\b(?:Settings|Menu|File|Edit|View|Tools)\s?(?=>|$))(?:>[^.!?:;,>]{0,24})*$"
)
"""Before a path through menus, whose parts ">" joins."""
SCREENS = _words(
    "pixel pixels px resolution resolutions screen screens display monitor image video wallpaper"
)
WIDTHS = _words("320 640 720 800 854 960 1024 1080 1280 1366 1440 1600 1920 2048 2560 3440 3840 4096 7680")
HEIGHTS = _words(
    "200 240 480 540 576 600 640 720 768 800 900 960 1024 1080 1200 1280 1440 1600 1920 2160 4320"
)
NO_FRACTIONS = frozenset({(24, 7), (16, 9), (18, 8), (9, 11)})
CLOCK = _words("at by from until till before after since around to and")

# Behind "min." and "max." these are limited.
LIMITED = _words("wage wages order age deposit payment height speed capacity temp. temperature load weight")

ASKED = re.compile(
    r"\b(?:what(?: is|['\u2019]s)|how much is|calculate|compute|evaluate|simplify|solve|subtract)[\s:*(]*$",
    re.IGNORECASE,
)
"""Behind it numbers are reckoned with."""

ESTIMATED = _words("delivery arrival time cost total value date shipping price budget completion departure")
"""Before one of these "est." is estimated."""

SINGULAR_BEHIND = _words("a an A An each one One another Another")
DECADE_BEHIND = _words("the my his her their our early mid late upper lower low lows high highs and to in 's")
CENTURY_BEFORE = _words("century centuries olympiad legion")
YEAR_BEHIND = _words(
    "in since by until till of from before after during around circa c. ca. year years early late mid and "
    "summer winter spring autumn fall christmas easter january february march april may june july august "
    "september october november december the q1 q2 q3 q4 est. established born copyright between to al"
)
DATE_BEHIND = _words(
    "on by until till since before after from due dated date dates you day meeting deadline through thru "
    "starting ends ending begins of is was for the born"
)
DAY_AHEAD = re.compile(r"\s?at (?:\d{1,2}(?::\d\d|\s?[ap]\.?m)|noon\b|midnight\b)", re.IGNORECASE)
"""Behind a month and day: "12/25 at 4pm"."""
PARTS_AHEAD = _words("of off price priced cup day pound share full")
"""Behind one of these there is no day of a month: "Friday 1/2 off"."""
HALVED = PARTS_AHEAD | _words(
    "lb lbs pounds oz ounce ounces gallon gallons gal bag bags hour hours hr hrs dozen doz pint pints pt "
    "page pages cups liter liters litre litres quart quarts qt ton tons mile miles yard yards inch inches "
    "ft foot kg g kilo acre acres barrel bottle carafe pitcher rack chicken duck sandwich sub pizza salad "
    "order sq portion portions size sheet tray case minute min"
)
"""Before one of these "$2 1/2" is a price and half of something, rather than so many dollars."""
CLOSED = _words("close closes closed open opens sale valid week weekend trip vacation holiday event sprint")
"""Behind one of these "7/3-7/5" are days."""
MONTH_BEHIND = _words(
    "on in of since until till by from last next this early late mid before after during every"
)
MONTH_OF_YEAR_BEHIND = (MONTH_BEHIND | DATE_BEHIND | _words("exp expires expiry expiring between")) - {
    "of",
    "is",
    "by",
}
"""Behind one of these "9/2024" is a month."""
PARTS = _words("of s sec secs second seconds")  # behind "1/2000", a fraction
FILES = _words("no nos case resolution decree regulation directive file order act law bill decision")

# Chapter and verse behind one of these.
SCRIPTURE = _words(
    "ps gen rom cor chron matt rev isa heb eph deut lev prov jer exod thess ezek "
    "genesis exodus leviticus deuteronomy joshua judges ruth samuel kings chronicles ezra nehemiah esther "
    "job psalm psalms proverbs ecclesiastes isaiah jeremiah ezekiel daniel hosea joel amos jonah micah "
    "malachi matthew mark luke john acts romans corinthians galatians ephesians philippians colossians titus "
    "timothy thessalonians "
    "hebrews james peter jude revelation surah quran"
)
# Roman numerals are numbers behind one of these, ordinals behind a given name.
ROMAN_BEHIND = _words(
    "War WW Chapter Part Act Scene Volume Vol. Section Book Phase Type Level Article Bowl Figure Title "
    "Appendix Class Stage Grade Episode Season Round Unit Table Annex Schedule Verse Canto Step Division "
    "Group Rocky Rambo Fantasy GTA Mark Saturn Apollo Henry V Hamlet Vatican Olympiad Quest Mk Tier "
    "Lesson Module Category Factor Schedule "
    "Sc. sc. Ch. Fig. Sec. Art. Pt. Superbowl WrestleMania Mania Godfather "
    "Year Paragraph Clause Exhibit Item Point Rule Sonata Symphony Sonnet Psalm Amendment Region "
    "District Zone "
    "Sector Line Model Series Form Attachment Note Problem Question Exercise Theorem Lemma Case "
    "Study Experiment "
    "Method Sample Cycle Legion Olympics Games Panel Plate Map Chart Test Block Tome Verse Stanza "
    "Parts Chapters "
    "Opus Wing Room Fighter Formula Div. Mk. Wars "
    "Gold Silver Bronze Platinum Diamond Generation Gen Corps Titan Halo Diablo Civilization Warcraft "
    "Starcraft Doom Plan"
) - {"Henry", "V", "Plan", "Hamlet"}
SMALL_ROMANS = _words("ii iii iv vi vii viii ix xi xii xiii xiv xv xvi xvii xviii xix xx xxi xxii xxiii")
NAMES_BEFORE_ROMAN = re.compile(r"[A-Z][a-z]{2,}")
NO_NAMES = _words(
    "The This That And But For Not With From Its Their Our Your Are Was Were Has Had Have Will Can May "
    "Did Does An Vitamin Plan Option Hepatitis Malcolm Team Vitamins Generation Xbox"
)
STAGED = _words("stage type phase class grade level group tier part section")
OF_TRIALS = _words("Phase Type Stage Tier Category")
"""Behind one of these in small letters "I and II" are numbers."""
CROWNED = _words(
    "James Charles Elizabeth Francis Frederick Philip Napoleon Peter Nicholas Alexander Leopold George "
    "William Henry Edward Richard Otto Ferdinand Ivan Catherine Mary Wilhelm Pedro Ramses Constantine "
    "Justinian Franz"
)
"""Behind one of these V is the fifth where one of REIGNED follows, and I the first; also at an end."""
CROWNED_SMALL = CROWNED | _words(
    "Louis John Paul Benedict Pius Gregory Clement Innocent Leo Urban Haakon Gustav"
)
"""Numerals in small letters are read behind these alone."""
REIGNED = _words(
    "of ruled reigned invaded conquered abdicated succeeded became died married signed founded inherited"
)
REIGNED_ALONE = REIGNED - _words("became died married signed founded")
"""What is said of a king; the others also of oneself, behind a name: "after talking to Mary I signed"."""
REIGNING = _words("King Queen Pope Emperor Empress Tsar Kaiser Prince Sultan Shah")
INFUSED = _words("drip drips fluid fluids bag bags infusion infusions antibiotics")
"""Before one of these "IV" is no number."""
SPEAKS = _words(
    "am was have had think like will would can could did do don't read saw love want need know wrote i'm "
    "played liked loved gave made mean"
)

# A word in capitals that is also a small word: by letters, unless its neighbors are in capitals too.
LETTERS = _words("US IT WHO AD BC EST PST ETA CET PT ET AM PM OR IV ID")
ALWAYS_LETTERS = _words("US ETA EST PST")
LETTERS_BEHIND = _words("the The an a our your their my in an from of an")

BEFORE_HOURS = _words(
    "at by from until till to is around before after since opens closes starts begins ends departs leaves"
)
"""Behind one of these "9 a.m." describes no name that follows."""
BEHIND_HOURS = _words(
    "Eastern Pacific Central Mountain Atlantic Standard Daylight Local Greenwich Zulu London Paris Berlin "
    "Tokyo Beijing Moscow New Mass Daily Weekdays Weekends Christmas Thanksgiving Easter Noon Midnight "
    "Hawaii Hawaiian Alaska Arizona Chicago Denver Boston Dallas Houston Seattle Los San Las Miami Toronto "
    "Vancouver Mexico Brazil Brasilia India Indian China Hong Singapore Japan Korea Seoul Manila Bangkok "
    "Jakarta Dubai Gulf Israel Jerusalem Cairo Nairobi Lagos Johannesburg South Sydney Melbourne Brisbane "
    "Perth Auckland Australian Australia UK British Irish Dublin Madrid Rome Amsterdam Stockholm Oslo "
    "Helsinki Athens Istanbul Delhi Mumbai European Europe Universal Memorial Labor Independence Veterans "
    "Presidents Columbus Halloween Black Cyber Boxing Mother's Father's "
    "Valentine's Weeknights Weekday Weekend Nightly Tonight"
)
"""Words in capitals that begin no sentence behind "9 a.m."."""
ZONES = (
    "EST|EDT|CST|CDT|MST|MDT|PST|PDT|AKST|HST|GMT|UTC|BST|CET|CEST|EET|EEST|MSK|IST|JST|KST|AEST|AEDT"
    "|AWST|NZST"
    "|ET|CT|MT|PT"
)
SMALL_ZONES = "est|edt|cst|cdt|mst|mdt|pst|pdt|gmt|utc|cest|cet|bst|ist|jst|aest"
ERAS = r"BCE?|B\.C\.E?\.?|AD|A\.D\.|CE|C\.E\."

STREET_NAMES = _words(
    "Main Wall High Market Church State Oak Elm Broad Bourbon Baker Downing Fleet Pine Maple Cedar Walnut "
    "Water Front Spring Center Union Regent Oxford Bond Chestnut Spruce Birch Ash Canal Pearl Grove Mill "
    "Bridge School River Court"
)
"""Behind one of these "St." is a street though a capital follows."""
BEFORE_SAINT = _words(
    "Mount Port Lake Fort Sault Visit From In At Near The Of To And For Old East West North South"
)
"""Behind one of these in capitals "St" without a stop is a saint."""
OWN = _words("your my his her our their an new updated current driver's what's whats any no")
MOUNTAINS = {"Mt": "Mount", "Ft": "Fort"}
STREETS = {
    **{"St": "Street", "Str": "Street", "Ave": "Avenue", "Av": "Avenue", "Blvd": "Boulevard", "Rd": "Road"},
    **{"Dr": "Drive", "Ln": "Lane", "Ct": "Court", "Pl": "Place", "Sq": "Square", "Ter": "Terrace"},
    **{"Pkwy": "Parkway", "Hwy": "Highway", "Expy": "Expressway", "Fwy": "Freeway", "Cir": "Circle"},
    **{
        "Trl": "Trail",
        "Aly": "Alley",
        "Plz": "Plaza",
        "Xing": "Crossing",
        "Cres": "Crescent",
        "Tpke": "Turnpike",
    },
    **{"Cv": "Cove", "Pt": "Point", "Mnr": "Manor", "Hts": "Heights", "Gdns": "Gardens", "Brg": "Bridge"},
    **{"Ally": "Alley", "Byp": "Bypass", "Cswy": "Causeway", "Jct": "Junction", "Pky": "Parkway"},
}
ALONG = _words("on onto at along off near down up toward towards past via")
"""Behind one of these and a name "Dr" is a drive, before a name too where one of PLACED stands before."""
PLACED = _words("live lives lived living turn turns turned located house home stay drive parked")
STOPS = _words("Exit Stop Walk")
"""Behind "the" and a street one of these is named for it: "the Fulton St. Exit"."""
STREET_WORDS = _words(
    "Street Avenue Boulevard Road Drive Lane Court Place Square Terrace Parkway Highway Expressway "
    "Freeway Circle Way Loop Trail Alley Plaza Row Crescent Broadway Path Pike Close Walk Gardens Mews "
    "Crossing Run"
)
COMPASS = {
    **{"N": "North", "S": "South", "E": "East", "W": "West", "NE": "Northeast", "NW": "Northwest"},
    **{"SE": "Southeast", "SW": "Southwest"},
    **{"N.": "North", "S.": "South", "E.": "East", "W.": "West", "N.E.": "Northeast", "N.W.": "Northwest"},
    **{"S.E.": "Southeast", "S.W.": "Southwest"},
}
STATES = {
    **{
        "AL": "Alabama",
        "AK": "Alaska",
        "AZ": "Arizona",
        "AR": "Arkansas",
        "CA": "California",
        "CO": "Colorado",
    },
    **{
        "CT": "Connecticut",
        "DE": "Delaware",
        "FL": "Florida",
        "GA": "Georgia",
        "HI": "Hawaii",
        "ID": "Idaho",
    },
    **{"IL": "Illinois", "IN": "Indiana", "IA": "Iowa", "KS": "Kansas", "KY": "Kentucky", "LA": "Louisiana"},
    **{"ME": "Maine", "MD": "Maryland", "MA": "Massachusetts", "MI": "Michigan", "MN": "Minnesota"},
    **{"MS": "Mississippi", "MO": "Missouri", "MT": "Montana", "NE": "Nebraska", "NV": "Nevada"},
    **{
        "NH": "New Hampshire",
        "NJ": "New Jersey",
        "NM": "New Mexico",
        "NY": "New York",
        "NC": "North Carolina",
    },
    **{"ND": "North Dakota", "OH": "Ohio", "OK": "Oklahoma", "OR": "Oregon", "PA": "Pennsylvania"},
    **{"RI": "Rhode Island", "SC": "South Carolina", "SD": "South Dakota", "TN": "Tennessee", "TX": "Texas"},
    **{"UT": "Utah", "VT": "Vermont", "VA": "Virginia", "WA": "Washington", "WV": "West Virginia"},
    **{"WI": "Wisconsin", "WY": "Wyoming", "DC": "D C"},
}

STARTERS = _words(
    "A An And As At But By For From He Her Here His How However I If In Is It Its Let Many Most My No Not "
    "Now Of On Once One Or Our Please She Since So Some Such That The Their Then There These They This "
    "Those Though Thus To Today Tomorrow Until Was We Were What When Where Which While Who Why Will With "
    "Without Would Yes Yesterday Yet You Your All Both Each Every Everyone Everything Nobody None Nothing "
    "After Also Although Although Because Before Did Do Does Even Can Could Just Maybe Perhaps Later Next "
    "Finally Only During Did Has Have Had Are Another Any Go Come See Call Can't Won't Thanks Thank Take "
    "Turn Keep Stay Stop Continue Make Merge Exit Drive Bring Meet Good Great Destination Remember Remind "
    "Walk Follow Arrive Send Set Sorry Okay"
)
"""Words in capitals that begin sentences rather than names."""

NO_STARTERS = {
    "U.S.": _words("Good Great Exit Drive"),
    **dict.fromkeys(
        ("Dr.", "dr.", "Prof.", "prof."),
        _words("A An But Can Case Do Go Good Her In Many Most No Now On See So To Who Will"),
    ),
    "Jr.": _words("Drive Walk Great Good"),
}
"""Behind one of these its words are of a name."""
SISTERS = _words(
    "Mary Maria Marie Teresa Theresa Therese Catherine Katherine Anne Anna Ann Margaret Elizabeth Joan Helen "
    "Agnes Bernadette Clare Clara Lucy Lucia Cecilia Monica Rose Josephine Jean Patricia Barbara Judith "
    "Kathleen Carol Simone Norma Faustina Benedicta Angela Christine Susan Martha Miriam Dorothy Ruth Rita "
    "Veronica Magdalene Gertrude Ursula Grace Joanna Julia Louise Frances Francesca Immaculata"
)
"""Before one of these "Sr." is a sister, rather than senior."""
GREETINGS = _words("Dear Hi Hello Hey Thanks Thank Bye Goodbye Welcome Congratulations Sorry Ask Tell Meet")
"""Words in capitals before a title and a name."""

ARTICLES = _words("a an the")
LEADING_WORDS = ARTICLES | _words(
    "my your his her its our their of to in on at for from with by into about as than and or but that this "
    "these those is are was were be very so too not no some any every each"
)
"""The next word belongs to one of these: an utterance does not end behind it while more may come."""

# Before "by 3/2", of which a fraction is said.
SCALED = re.compile(
    r"\b(?:multipl|divid|scal|increas|decreas|reduc|grow|grew|rais|rise|rose|won|win|los[et]|ratio|factor|times)\w*"
    r"\b(?: \S+){0,3} by\s*$",
    re.IGNORECASE,
)
