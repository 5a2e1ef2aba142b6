"""Telephone numbers, codes and what would be taken for them; the first that fits, in this order, is taken."""

from typing import Final

from firstword.app.text.chinese import contexts
from firstword.app.text.chinese.conditions import amounts, codes, condition, dates, ranges
from firstword.app.text.chinese.conditions.condition import Condition
from firstword.app.text.chinese.rules.patterns import DIALED, EMERGENCY, LISTED

# ruff: noqa: RUF001  Chinese punctuation and signs are meant

CODES: Final[tuple[tuple[str, str, Condition | None], ...]] = (
    (
        "telephone.number",
        r"(?<![\w.])(?:(?:\+|00)[0-9]{1,3}[ -]?|\((?:\+[0-9]{1,3}|86)\)[ -]?|86[ -])?"
        r"(?:1[0-9]{2}[ -][0-9]{4}[ -][0-9]{4}|1[3-9][0-9]{9}|1[3-9][0-9][xX]{4}[0-9]{4}"
        r"|0[0-9]{1,3}[ –—-](?:[0-9]{7,8}|[0-9]{3,4}[ -][0-9]{4})(?:-[0-9]{1,5})?"
        r"|[48]00[ -][0-9]{3,4}[ -]?[0-9]{3,4}|[48]00[0-9]{7}"
        r"|[(（]0[0-9]{2,3}[)）][ -]?(?:[0-9]{7,8}|[0-9]{3,4}[ -][0-9]{4})"
        r"|\+[0-9]{1,3}[ -]?\([0-9]{1,4}\)[ -]?[0-9]{2,4}(?:[ -][0-9]{2,4}){1,3}"
        r"|\+[0-9]{1,3}(?:[ -][0-9]{2,8}){2,4}|00[1-9][0-9]{1,2}(?:[ -][0-9]{2,4}){3}"
        r"|\(\+?86\)[ -]?[1-9][0-9]{1,2}[ -][0-9]{3,4}[ -]?[0-9]{4}"
        r"|\+[0-9]{1,3}[ -][0-9](?:[ -][0-9]{4}){2}"
        r"|\+(?:85[23]|65)[ -][0-9]{8}|\+(?:852[2-9]|853[268]|65[3689])[0-9]{7})"
        r"(?![0-9%]|[kcm]?[mgWL](?![A-Za-z])|\s?(?:[元米吨台户亩票字倍万亿]|[美欧日港]元|公里|公斤|人民币|人次))",
        None,
    ),
    ("telephone.number", r"\+(?:85[23]|65)[0-9]{8}(?![0-9.%])", condition.is_whole),
    ("telephone.number", r"\+[1-9][0-9]{8,14}(?![0-9.%])", condition.behind(contexts.SUBSCRIBED)),
    ("telephone.number", r"(?:0[0-9]{2,3}|\+(?:86|85[23]|886))$", codes.is_area),
    ("telephone.number", r"(?:[0-9]{3,4}[ -][0-9]{4}|[0-9]{7,8})(?![0-9])", codes.is_behind_area),
    ("telephone.number", r"(?<![\d.])1[3-9]\d{5}(?![\d.])", codes.is_masked),
    ("telephone.number", r"[2-9]\d{3}-\d{4}", codes.is_local_telephone),
    ("cardinal.number", r"11[0-9]|12[0-2]|12345|100[01]0", condition.is_whole),
    ("telephone.extension", r"\d{2,6}(?!\d|[人名个])", condition.behind(contexts.EXTENSIONS)),
    ("telephone.extension", r"\d{1,5}(?!\d)", codes.is_extension),
    ("serial.room", r"(?<![\d.,])\d{3,4}(?=室|号房|房(?![屋价子东客间]))", None),
    (
        "serial.room",
        rf"(?<![\d.,])(?!\d+00(?!\d))\d{{3,4}}(?![\d.,:%/~～–—-]|\s?[{contexts.COUNTING}间平多余张套至到]|\s?[A-Za-z])",
        codes.is_behind_room,
    ),
    ("serial.code", r"(?<![\d.,])(?:19|20)\d\d(?=第)", condition.behind("字")),
    (
        "serial.code",
        rf"(?<![\d.,])\d{{3,}}(?![\d.,:%/-]|\s?[{contexts.COUNTING}间多余份套单张])",
        codes.is_next_code,
    ),
    ("serial.room", r"(?<![\d.,])\d{3}(?!\d)", codes.is_gate),
    ("serial.room", r"(?<![\d.,])\d{3}(?=区)", condition.behind("看台|内场|体育场|体育馆|场馆")),
    ("serial.code", r"(?<![\d.,])0\d\d(?=号)", None),
    ("serial.hex", r"(?<![\w:])[\dA-Fa-f]{2}(?::[\dA-Fa-f]{2}){5}(?![\w:])", None),
    ("serial.room", rf"(?<![\d.,])\d{{3,4}}(?={contexts.ROOMS})", codes.is_room),
    ("serial.room", r"(?<![\d.,])\d{3,4}(?![\d.户人家个平米㎡多余元万])", codes.is_behind_house),
    ("serial.room", r"(?<![\d.,])\d{3}(?=路(?![人口])|[国省县]道)", None),
    ("serial.code", r"\d+(?:-\d+)+|\d{8,}", condition.behind("ISBN|ISSN|书号")),
    ("serial.code", r"\d{4,8}(?=[)）])", condition.is_in_brackets),
    ("serial.code", r"2[3-9](?:0[1-9]|1[0-2])(?!\d|\s?[手元])", condition.behind("合约")),
    ("serial.code", r"\d{3,}(?![\d.,])", codes.is_code_of_length),
    (
        "serial.range",
        r"(?<!\d)(?P<low>\d{3,})\s?[-–—~～至到]\s?(?P<high>\d{3,})(?![\d.%-])",
        codes.is_range_of_codes,
    ),
    (
        "serial.range",
        r"(?<![\d.])(?P<low>\d{3,4})\s?[-–—~～至到]\s?(?P<high>\d{3,4})(?=室|号房|房间|包[厢间])"
        r"|(?<!\d)[5-9]0[-–—~～至到](?:[6-9]0|00)(?=后(?!面))",
        None,
    ),
    ("serial.hyphen", r"\d{5,}(?:-\d{2,})+(?![\d.%])", condition.behind(contexts.CODES)),
    ("serial.hyphen", r"(?<=A)3\d0-[1-9]00|(?<=B)7\d7-\d{1,3}|(?<=ISO )8859-\d{1,2}", None),
    ("cardinal.number", r"(?<![\d.])\d{1,3}(?=[A-Z]{1,2}(?![A-Za-z\d]))", amounts.is_of_model),
    ("measure.amount", r"(?<=\b[AD]C)(?P<number>\d+(?:\.\d+)?)(?P<unit>V)(?![A-Za-z\d])", None),
    (
        "decimal.scientific",
        r"(?<![\w.])(?P<number>\d+(?:\.\d+)?)(?:e|E(?=[-+−]))(?P<power>[-+−]?\d{1,3})(?![\w.])",
        None,
    ),
    ("serial.beside", r"(?<=V)\s?[~～]\s?(?=\d{2}(?:/\d\d)?\s?Hz)", None),
    ("serial.code", r"\d{2,}(?!\d)", codes.is_quoted_reply),
    ("serial.code", r"\d{2,6}(?=[到至]\s?\d{5})", condition.behind("发送")),
    ("cardinal.number", r"(?<=车)[1-9]\d?(?=[A-F](?![A-Za-z]))|(?<=[A-Z] )\d{1,3}(?=A(?![A-Za-z]))", None),
    ("serial.beside", r"(?<=\d)-(?=0\d\d(?!\d))", None),
    ("cardinal.hundreds", r"(?<![\d.,])10{2,4}(?![\d.,])", amounts.is_about_hundreds),
    ("serial.room", r"(?<![\d.,])(?:480|720|1080|1440|2160)(?=[PpIi](?![A-Za-z]))", None),
    ("range.figure", r"(?P<low>\d{1,2})-(?P<high>\d{1,2})(?![\d.-])", ranges.is_figure),
    (
        "range.verse",
        r"(?<![\d.])(?P<chapter>\d{1,3})[:：](?P<verse>\d{1,3})(?:\s?[-–—~～]\s?(?P<last>\d{1,3}))?(?![\d:])",
        ranges.is_verse,
    ),
    ("serial.code", r"(?<![\d.])(?:19|20)\d\d(?=[)）,，;；])", codes.is_cited_year),
    (
        "range.score",
        r"(?<![\d.:A-Za-z-])(?P<low>\d{1,3})\s?[-–:]\s?(?P<high>\d{1,3})(?![\d.%:/-])",
        ranges.is_score,
    ),
    (
        "range.versus",
        r"(?<![\w.])(?P<low>\d{1,2})(?:[vV]|\s?[vV][sS]\.?\s?)(?P<high>\d{1,2})(?![A-Za-z\d.])",
        None,
    ),
    (
        "measure.pressure",
        r"(?<!\d)(?P<above>\d{2,3})/(?P<below>\d{2,3})(?P<unit>\s?(?:mmHg|毫米汞柱))?(?![\d/])",
        amounts.is_pressure,
    ),
    (
        "fraction.plain",
        rf"(?<![\w.,/])(?P<above>[1-9])/(?P<below>[2-9])(?!(?:{LISTED})(?![A-Za-z]))(?=[a-zA-Z]{{1,3}}[²³^)]|[a-z]{{2}}(?![A-Za-z]))",
        condition.has_equals,
    ),
    ("fraction.division", r"(?P<above>\d+)/(?P<below>\d+)(?=\s?=)", amounts.is_division),
    (
        "range.degrees",
        r"(?<![\w./])(?P<low>[-−]?\d{1,2})/(?P<high>[-−]?\d{1,2})\s?(?:℃|°C)",
        ranges.is_forecast,
    ),
    (
        "serial.slashes",
        r"(?<![\d.,/])\d{1,2}/\d{1,2}(?![\d/.%日号]|上市|发[布售]|[首开预]售)",
        codes.is_of_series,
    ),
    ("serial.slashes", r"(?<![\d.,/])\d{1,6}/\d{1,6}(?![\d/.%日号的])", codes.is_of_gauge),
    (
        "serial.slashes",
        r"(?<![\w.,/])\d{1,3}/(?P<all>\d{1,3})(?=[)）]|$)",
        codes.is_done,
    ),
    (
        "serial.code",
        rf"(?<![\w.,])(?:4[0-3]\d|50[0-4])(?![\d.,:%/-]|\s?[{contexts.COUNTING}多余到至])",
        condition.behind("返回|报错|抛出|状态"),
    ),
    ("serial.slashes", r"(?<![\w.,/])0/[1-9]\d*(?![\d/.%A-Za-z℃°])", None),
    ("serial.slashes", r"(?<![\d.,/])\d{2,5}(?:/\d{2,5})+(?=[元块])", None),
    ("time.always", r"(?<![\d.,/])24/7(?:/365)?(?![\d/])", None),
    (
        "fraction.mixed",
        r"(?<![\d.,/])(?P<whole>\d{1,3})(?:  ?|又)(?P<above>\d{1,3})/(?P<below>\d{1,3})(?![\d/])",
        None,
    ),
    (
        "fraction.plain",
        r"(?<![\w.,/])(?P<above>\d{1,3})/(?P<below>[2-9]|1\d{1,4})(?=小时|分|秒|天|的?概率|的?机会)",
        amounts.is_no_ordinal,
    ),
    (
        "date.holidays",
        r"(?<![\d.])(?P<month>\d{1,2})\.(?P<day>\d{1,2})[-–—~～至到](?P<last_month>\d{1,2})\.(?P<last_day>\d{1,2})(?![\d.%]|\s?(?:小时|分钟|秒|天|个|倍|米|[a-zA-Z]))",
        dates.is_holidays,
    ),
    (
        "date.holidays",
        r"(?<![\d./])(?P<month>\d{1,2})/(?P<day>\d{1,2})\s?[-–—~～至到]\s?(?P<last_month>\d{1,2})/(?P<last_day>\d{1,2})(?![\d./%])",
        dates.is_days,
    ),
    ("formula.less", r"(?<=\d)[-–](?=\d+(?![\d.]|岁))", amounts.is_reduced),
    (
        "time.range",
        r"(?<![\d.])(?P<hour>\d{1,2})\.(?P<minutes>[0-5]\d)[-–—~～至到](?P<last_hour>\d{1,2})\.(?P<last_minutes>[0-5]\d)"
        r"(?![\d.%]|\s?(?:小时|分钟))",
        condition.behind("时间"),
    ),
    (
        "measure.degrees",
        r"(?<![\d.])(?P<degrees>\d{1,3}(?:\.\d+)?)°(?:(?P<minutes>\d{1,2})[′'](?:(?P<seconds>\d{1,2}(?:\.\d+)?)[″\"])?)?"
        r"\s?(?P<way>[NSEW])(?![A-Za-z])",
        amounts.is_unplaced,
    ),
    ("measure.feet", r"(?<![\d.°])(?P<feet>[3-8])'(?P<inches>1[01]|[0-9])\"", None),
    (
        "measure.feet",
        r"(?<![\d.°])(?P<feet>[3-8])['′](?P<inches>1[01]|0?[0-9])(?![\d'\"″”′])",
        amounts.is_size,
    ),
    ("measure.feet", r"(?<![\w.])(?P<feet>\d{1,2})\s?ft\s?(?P<inches>\d{1,2})\s?in(?![A-Za-z])", None),
    ("measure.feet", r"(?<![\d.°])(?P<feet>\d{1,2})′(?P<inches>\d{1,2}(?:\.\d+)?)″", amounts.is_size),
    ("time.minute", r"(?<![\d.°])(?P<number>\d{1,3})['′](?![\d\"″])", dates.is_of_match),
    (
        "duration.primes",
        r"(?<![\d.°])(?P<minutes>\d{1,2})(?:′(?P<seconds>\d{1,2}(?:\.\d+)?)″"
        r"|['’](?P<seconds_typed>[0-5]\d(?:\.\d+)?)(?:[\"”]|['’]{2}))",
        None,
    ),
    (
        "duration.primes",
        r"(?<![\w.°'’])(?P<minutes>\d{1,2})['’′](?P<seconds>[0-5]\d)(?![\w'’\"″”′.])",
        dates.is_of_minutes,
    ),
    ("measure.minutes", r"(?<=°)(?P<minutes>\d{1,2})[′'](?:(?P<seconds>\d{1,2})[″\"])?", None),
    (
        "date.event",
        r"(?<!\d)(?P<month>\d{1,2})·(?P<day>\d{1,2})(?!\d)",
        lambda found, phrase: dates.is_date(found, phrase) and condition.is_no_formula(found, phrase),
    ),
    (
        "date.event",
        rf"(?<![\d.])(?P<month>[1-9])[./](?P<day>\d{{1,2}})(?={contexts.EVENTS})",
        dates.is_date,
    ),
    ("serial.code", r"(?:0\d\d|20[0-4]\d\d{3})(?=期)", condition.is_ordinal),
    ("serial.page", r"(?P<page>\d+)/(?P<pages>\d+)(?=(?P<kind>[页天章集课关]))", condition.is_ordinal),
    (
        "serial.page",
        r"(?<![\d./])(?P<page>\d{1,2})/(?P<pages>\d{1,2})(?=(?P<kind>层)(?!高))",
        codes.is_floor,
    ),
    ("ordinal.number", r"(?:\d{1,3}(?:,\d{3})+|\d+)(?![\d.])", condition.is_ordinal),
    ("ordinal.latin", r"(?<![\w.])(?P<number>\d+)(?:st|nd|rd|th)(?![A-Za-z])", None),
    ("cardinal.number", rf"(?<![\d.])[3-9]\d00(?=年)|(?<![\d.])[1-9]0(?={contexts.AFTER_TOMORROW})", None),
    ("cardinal.number", rf"(?<![\d.])\d{{2}}(?=年(?:{contexts.YEARS_COUNTED}))", None),
    ("cardinal.number", r"(?<![\d.])\d{2}(?=年(?![代级]))", condition.behind(contexts.REIGNS)),
    ("cardinal.number", r"(?<![\d.])(?!19|20(?!00))\d{4}(?=年)", condition.behind(contexts.YEARS_LASTING)),
    (
        "telephone.known",
        r"(?<![\w.,])(?:110|119|120|122|114|112|123\d\d|10086|10010|10000"
        r"|9[56]\d{3})(?![\d.%:/,])",
        condition.behind(contexts.DIALED),
    ),
    (
        "telephone.known",
        rf"(?<![\w.,])\d{{3,6}}(?![\d.%:/,-]|\s?[{contexts.COUNTING}多余通遍回下])",
        condition.behind("拨打|拨|撥打|撥|致电|呼叫"),
    ),
    (
        "telephone.known",
        rf"(?<![\w.,])123\d\d(?![\d.%:/,-]|\s?[{contexts.COUNTING}多余起例宗])",
        condition.behind("咨询|投诉|举报|援助|维权|监督|求助"),
    ),
    (
        "telephone.known",
        rf"(?<![\w.,])(?:911|99[59])(?![\d.%:/,-]|\s?[{contexts.COUNTING}多余])",
        condition.behind("电话|报警|急救|求助"),
    ),
    (
        "telephone.known",
        r"(?<![\w.,])(?:10086|10010|10000|9[56]\d{3}|12\d{3}(?=热线|客服))(?=客服(?!人员)|热线|专线|反诈|(?<!0)[\u4e00-\u9fff]{2}银行)",
        None,
    ),
    (
        "telephone.known",
        r"(?<![\w.,])(?:[1-9]\d{6,7}|[2-9]\d{3}[ -]\d{4})(?![\d.%:/,元次个台部])",
        condition.behind(contexts.SUBSCRIBED),
    ),
    ("serial.code", rf"(?<![\w.,])88(?=[，,！!~～]\s?(?:{contexts.FAREWELLS}))", None),
    ("serial.code", r"(?<![\w,])(?<!\d\.)88(?![\d.,])", codes.is_farewell),
    ("date.after", r"(?<!\d)(?:19\d[1-9]|19[1-9]0|20[0-4][1-9]|20[1-4]0)(?=年(?:前后|[后前来间]))", None),
    ("serial.code", r"36[05](?!\d)", condition.behind("Xbox|XBOX|XBox|Office|Microsoft")),
    ("serial.code", r"(?<=\b[iR][3579] )\d{4,5}(?![\d.])", None),
    ("serial.dotted", r"\d{4}\.\d{4,5}(?!\d)", condition.behind("arXiv")),
    ("serial.mask", r"(?<=\d)/(?=\d{1,2}(?!\d))", codes.is_mask),
    ("serial.mask", r"(?<=号)-(?=\d)", codes.is_registered),
    ("serial.code", r"(?<=[A-Z]\d-)\d{6,}(?!\d)", None),
    ("serial.size", r"(?<=[A-Z]\d)-(?=\d{6})", None),
    (
        "serial.hyphen",
        r"(?<![\w.:/-])(?:[1-9]|[1-3]\d)-(?:[1-9]|[1-3]\d)0[1-9](?![\d.%:/℃°′″-])",
        codes.is_house_and_room,
    ),
    ("cardinal.number", r"\d{1,2}(?=[sS](?![A-Za-z\d]))", condition.behind(contexts.PHONES)),
    ("serial.hyphen", r"\d{4}-\d{4,7}(?!\d)", condition.behind("CVE|CNVD|CNNVD")),
    ("serial.dotted", r"(?<=ZL)\d{12}(?:\.\d)?(?!\d)", None),
    ("serial.code", r"(?<=\d:)\d{2,5}(?!\d)", codes.is_port),
    ("serial.code", rf"(?<![\d.,])(?:{contexts.KNOWN})|(?<=[Hh]\.)26[45]", None),
    ("serial.code", r"(?<![\w.,])(?:6{3,}|23{3,}|520|886|1314|996|955)(?![\d.,])", codes.is_exclaimed),
    (
        "serial.code",
        r"(?<![\d.,])(?:0\d|1[5-9]|2\d)(?=级(?:新生|学(?:生(?!票)|[弟妹长姐])|毕业|本科|硕士|博士|研究生))",
        codes.is_year_of_entry,
    ),
    ("serial.code", r"(?<![\w.,])(?:23{3,}|6{3,})(?![\d.,])", codes.is_laughed),
    ("serial.code", r"(?<![\d.,])[6-9]\d(?=版$)", codes.is_before_title),
    ("serial.dotted", r"(?<![\w.])802\.(?:1\d?|3)(?!\d|\s?元)", None),
    (
        "serial.code",
        r"(?:(?<![\w.,])|(?<=[A-Za-z]{3}))(?:19[89]\d|20(?!00)\d\d)(?![\d.,%:/-])",
        condition.is_edition,
    ),
    ("serial.code", r"(?<![\d.,])\d(?![\d.,%:/-])", codes.is_key),
    (
        "duration.lap",
        r"(?<![\d.:])(?P<minutes>\d{1,2}):(?P<seconds>[0-5]\d)\.(?P<parts>\d{1,3})(?![\d:.])",
        None,
    ),
    (
        "duration.clock",
        r"(?<![\d.:])(?:(?P<hours>\d{1,2}):)?(?P<minutes>\d{1,2}):(?P<seconds>[0-5]\d)(?![\d:])",
        dates.is_duration,
    ),
    ("serial.code", r"\d{3,4}(?![\d.]|\s?元)", condition.behind("RFC|RTX|GTX|RX|锐龙|骁龙|天玑|酷睿")),
    ("serial.plate", r"(?<=i[3579])-(?P<digits>\d{4,5})(?=(?:[A-Z]{0,2}|G\d)(?![A-Za-z\d]))", None),
    ("serial.code", r"(?<=[A-Za-z])\d{6,}(?![\d.])", None),
    (
        "serial.code",
        r"(?:(?<=[a-z])\d{3,}|\d{6,})(?![\d.]|[多余人个位粉用次])",
        condition.behind("微信|抖音|群"),
    ),
    (
        "serial.code",
        rf"\d{{5,}}(?![\d.]|\s?[{contexts.COUNTING}多余份套吨步字笔单款张辆户股平公])",
        condition.behind("码|号|ICP备|ICP证|公安备"),
    ),
    (
        "serial.code",
        rf"(?:(?<=[a-z]{{2}})(?<![Tt]op)|(?<=SHA))(?!\d00)\d{{3}}(?![\d.,%:]|[{contexts.COUNTING}]|[KMGT]B?(?![A-Za-z]))",
        None,
    ),
    ("cardinal.number", r"[1-9]\d?(?=[A-F](?![A-Za-z\d]))", condition.behind(contexts.SEATS)),
    ("cardinal.number", rf"(?<![\w.,]){EMERGENCY}(?![\d.%:/,]|\s?[A-Za-z])", amounts.is_behind_latin),
    ("cardinal.number", r"(?<=[A-Z])(?<![0-9][A-Z])[1-9]\d?(?=[A-Za-z](?![A-Za-z\d])|[a-z]{2})", None),
    ("serial.plate", r"(?:(?<=[A-Z]{2}\d)-(?=\d{4})|(?<=[A-Z]\d)-(?=\d{3}))(?P<digits>\d{3,4})(?!\d)", None),
    ("serial.code", r"7\d7(?:-\d{1,3})?(?![\d.])", condition.behind("波音|Boeing")),
    (
        "cardinal.number",
        rf"(?<![\w.,])(?:{EMERGENCY}(?={contexts.COUNTED}|/\d*\s?[A-Za-z]|/[人位晚天节件份斤小]|\s?[-–—~～至到]\s?\d+(?:\.\d+)?(?![\d.%]))|{DIALED}(?={contexts.MEASURED}))",
        None,
    ),
    (
        "cardinal.number",
        rf"(?<![\w.,]){DIALED}(?![\d.%:/,]|\s?[急救报A-Za-z])",
        condition.behind(contexts.AMOUNTS),
    ),
    ("serial.code", r"(?:(?<=[A-Z])\d{4,6}|(?<=[A-Z]{3})\d{3}|(?<=\.)\d{5})(?![\d.])", codes.is_plate),
    ("serial.plate", r"(?P<digits>\d[A-Z0-9]{4,5})(?![A-Za-z\d.])", codes.is_plate),
    (
        "serial.plate",
        r"·(?P<digits>[A-Z0-9]{4}(?=[港澳学警挂])|[A-Z0-9]{5,6})(?![A-Za-z\d.])",
        codes.is_plate,
    ),
    ("serial.dotted", r"\d{1,5}(?:\.\d{1,2})?-(?:19|20)\d\d(?!\d)", codes.is_standard),
    (
        "serial.code",
        rf"(?!(?:{contexts.FILM_SPEEDS})(?!\d))\d{{4,5}}(?:-(?:19|20)\d\d)?(?![\d.])",
        codes.is_standard,
    ),
    (
        "date.written",
        r"(?<![\w.,-])(?P<year>1[3-9]|2\d|9\d|0\d(?=-\d\d-\d\d))-(?P<month>\d{1,2})-(?P<day>\d{1,2})(?![\w-])",
        dates.is_written_day,
    ),
    (
        "date.either_way",
        r"(?<![\w.,-])(?P<first>\d{1,2})-(?P<second>\d{1,2})-(?P<year>(?:19|20)\d\d)(?![\w-])",
        dates.is_date_either_way,
    ),
    (
        "serial.groups",
        r"(?<![\w.-])(?!\d{4}-\d{1,2}-\d{1,2}(?!\d))\d+(?:-\d+){2,}(?![\d.-]|\s?(?:分钟|小时|天|年|元|人))",
        condition.is_no_formula,
    ),
    ("serial.flight", r"(?<=[A-Z])(?P<digits>\d{2,5})(?![\d.])", condition.behind(contexts.FLIGHTS)),
    ("serial.hyphen", r"(?<=[A-Za-z] )\d{3,}(?:-\d{2,})+(?![\w.])", condition.behind("号|码")),
    (
        "serial.code",
        r"(?:(?<=[A-Za-z])|(?<=[A-Za-z]-))\d+(?:-\d+)*(?!\.?\d)|\d+(?:-\d+)*(?=-?[A-Za-z])",
        condition.is_code,
    ),
    ("serial.code", r"(?<=No\.)\d{5,}(?![\d.])", None),
    (
        "serial.code",
        r"(?<![\d.,])(?:\d{4}(?=(?:XT|X|X3D|HX|HS|Ti)(?![A-Za-z\d]))|\d{3}(?=L?i(?![A-Za-z\d])))",
        None,
    ),
    ("serial.flight", r"(?:(?<=\b9C)|(?<=\b3U))(?P<digits>\d{4})(?!\d)", None),
    ("serial.flight", r"(?<=[A-Z])(?P<digits>\d{2,5})(?=次(?!/)|航班)", None),
    ("serial.code", rf"(?<=[A-Z])(?<![A-Z]{{2}})\d{{4}}(?!\d|(?<=00)|[{contexts.COUNTING}]|\.\d)", None),
    ("serial.code", rf"(?<=\b[A-Z]{{2}})\d{{4}}(?![\d.,%:]|\s?[{contexts.COUNTING}])", None),
    (
        "serial.code",
        r"(?<![\d.,])(?:\d{2,}(?:[ -]\d{2,})*|\d-\d{3,})"
        r"(?![\d.%:,年月日人个名口元万亿条件份笔单多余]|\s[个件份笔单条])",
        condition.behind(contexts.CODES),
    ),
    (
        "cardinal.number",
        rf"(?<![\w.,]){EMERGENCY}(?![\d.%:°℃℉‰′″]|[,/]\d|\s?[A-Za-z]|\s?[-–—~～至到]\s?[\d.]+%)",
        amounts.is_no_emergency,
    ),
    ("cardinal.number", r"(?<![\w.,])111(?![\d.%:/,]|\s?[A-Za-z])", None),
    ("serial.code", r"(?<![\d.,-])\d{4}(?: \d{4}){2,}(?: \d{1,4})?(?![\d.])", None),
    ("serial.code", r"(?<![\d.,:])0\d+(?![\d.%:,年月日号/-])", None),
    ("serial.code", r"(?<=[A-Z])(?<![A-Z]{3})\d{3}(?![\d.])", None),
    ("serial.long", r"\d{16,}|20[0-4]\d(?:0[1-9]|1[0-2])\d{8,}", None),
    (
        "serial.hyphen",
        r"(?<![\w.-])0\d-\d{2,3}(?![\w.-])",
        condition.behind(contexts.ROOMS_NAMED),
    ),
    (
        "range.numbers",
        r"(?<![A-Za-z\d.-])(?P<low>0\d)-(?P<high>\d\d)(?![A-Za-z\d.:/%-])",
        ranges.is_range_of_numbers,
    ),
)
