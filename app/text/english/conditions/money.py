"""Where a sign and digits are money."""

import re

from firstword.app.text.english import contexts, units
from firstword.app.text.english.conditions.condition import Match, counts
from firstword.app.text.english.context import Context


def is_money(found: Match, context: Context) -> bool:
    sign, per = found["sign"], found["per"]
    return (sign in units.MONEY or sign in units.CODES or sign in units.PREFIXED) and (
        not per or per in units.PERIODS or per in units.UNITS or len(per) > 2
    )


def is_money_with_code(found: Match, context: Context) -> bool:
    """ "$50 CAD": whose dollars these are."""
    return found["code"] in units.CODES and context.ahead(found.end())[:1] != "("


def is_named_twice(found: Match, context: Context) -> bool:
    """ "$5 dollars"."""
    return found["currency"] in units.MONEY[found["sign"]][:2]


_FUEL = re.compile(r"\d\.\d\d9")


def is_grouped(found: Match, context: Context) -> bool:
    """ "€20.000" is so many thousands, "€1.849" what a liter costs."""
    return _FUEL.fullmatch(found["whole"]) is None


_PRICE = re.compile(rf"[{units.SIGNS}]\s?[\d.,]+$")


def is_priced(found: Match, context: Context) -> bool:
    """ "$2.50/1M tokens": so much for so many."""
    if _PRICE.search(found.string[: found.start()]) is None:
        return False
    return bool(found["scale"]) or counts(context.ahead(found.end("several")))


_PAID = frozenset(["pay", "paid", "pays", "cost", "costs", "only", "just", "for", "save"])
_PRICED = frozenset(["each", "coin", "coins", "off", "stamp", "stamps", "store", "apiece"])


def is_in_cents(found: Match, context: Context) -> bool:
    """ "costs 50c", not "1c sugar" or "wash at 30c"."""
    if context.is_ahead(found.end(), contexts.INGREDIENTS - contexts.OF):
        return False
    return context.is_behind(found.start(), _PAID) or context.is_ahead(found.end(), _PRICED)


def is_spent(found: Match, context: Context) -> bool:
    """ "saved $100s", not "a roll of $100s"."""
    return context.is_behind(found.start(), contexts.SPENT) and not context.is_ahead(found.end(), contexts.OF)


def is_money_with_part(found: Match, context: Context) -> bool:
    """ "$2 1/2 million" and "$2 1/2 for it", not "$10 1/2 off" or "$9 1/2 lb"."""
    is_whole = found["scale"] or found["per"] or not context.ahead(found.end())
    is_priced = is_whole or not context.is_ahead(found.end(), contexts.HALVED)
    return bool(is_priced) and int(found["above"]) < int(found["below"]) and is_money(found, context)
