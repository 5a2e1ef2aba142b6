"""The patterns that several rules of Chinese are made of."""

from firstword.app.text.chinese import contexts
from firstword.app.text.rules import alternatives

# ruff: noqa: RUF001  Chinese punctuation and signs are meant

DASHES = "-–—~～至到"
AMOUNT = r"(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)"
SCALE = rf"(?P<scale>{contexts.SCALES})?"
SIGN = f"(?P<sign>{alternatives(contexts.CURRENCIES)})"
CODE = f"(?P<code>{alternatives(contexts.CODES_OF_MONEY)})"
NO_AMPERES = "[广景公司栋区口出大游门班款型类轮]"  # "3A大作", "4A广告"
UNIT = (
    rf"(?P<unit>{alternatives(contexts.UNITS)})"
    rf"(?![A-Za-z0-9²³级座股]|/(?![\u3400-\u9fff])|(?<=A){NO_AMPERES}|(?<=N)[+-]\d|(?<=g)(?:网络|手机|信号|基站|套餐|时代|技术))"
)
LISTED = alternatives(contexts.UNITS.keys() - set("AKN"))
LATER = r"(?=[0-9]|(?:次日|翌日|[早晚]上?|[上下]午|凌晨|中午)\d)"  # what a range goes to
EMERGENCY = "(?:11[0249]|12[02])"
DIALED = rf"(?:{EMERGENCY}|12306|123[14]5|10010|10086|95\d{{3}})"
MONTH_AND_DAY = r"(?<![\d.])1[0-2]\.\d{1,2}(?![\d.]|\s?[%‰日号])"
TEMPERATURE = "(?:℃|°|度|摄氏)"
TILL_ERA = r"\s?[-–—~～至到]\s?(?:公元)?前?\d{1,4}年"
OF_MONEY = "元|块钱?|美[元金]|欧元|英镑|日元|韩元|港[元币]|人民币"
HALF = r"(?:\s?(?P<half>[AaPp])\.?[Mm]\b\.?)"
