"""Formulas of LaTeX, as language models write them, in the signs that the readers know."""

import re

# ruff: noqa: RUF001  signs are meant

_SIGNS = {
    **{"times": "×", "cdot": "×", "div": "÷", "pm": "±", "leq": "≤", "le": "≤", "geq": "≥", "ge": "≥"},
    **{"neq": "≠", "ne": "≠", "approx": "≈", "infty": "∞", "pi": "π", "sum": "∑", "int": "∫", "to": "→"},
    **{"alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "theta": "θ", "lambda": "λ"},
    **{"mu": "μ", "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ", "omega": "ω", "Delta": "Δ", "Omega": "Ω"},
    **{"degree": "°", "circ": "°", "left": "", "right": "", "quad": " ", "displaystyle": "", "partial": "∂"},
}
OPERATORS = frozenset(
    f"\\{name}" for name in ("times", "cdot", "div", "pm", "leq", "le", "geq", "ge", "neq", "ne")
)
_SIGN = re.compile(rf"\\({'|'.join(_SIGNS)})(?![A-Za-z])")
_NUMERIC_FRACTION = re.compile(r"\\[dt]?frac\{(\d+)\}\{(\d+)\}")
_FRACTION = re.compile(r"\\[dt]?frac\{([^{}]*)\}\{([^{}]*)\}")
_SIMPLE_ROOT = re.compile(r"\\sqrt\{(\w+)\}")
_ROOT = re.compile(r"\\sqrt\{([^{}]*)\}")
_TEXT_COMMAND = r"\\(?:text|mathrm|mathbf|mathit|boxed|operatorname)\{"
_TEXT = re.compile(rf"{_TEXT_COMMAND}([^{{}}]*)\}}")
TEXT_OPENING = re.compile(rf"{_TEXT_COMMAND}[^{{}}]*$")
"""A command whose text goes on in the next word: "\\text{ km}"."""
_DELIMITER = re.compile(r"\\[()\[\],;! ]")
_ESCAPED = re.compile(r"\\([%$&#_{}])")
_RAISED = re.compile(r"\^\{([^{}]*)\}")
_LOWERED = re.compile(r"_\{([^{}]*)\}|(?<=[A-Za-z])_(?=\w$|\w\W)")
_DISPLAY = re.compile(r"\${2,}")
_IN_DISPLAY = re.compile(r"\$\$$|\$\$[A-Za-z]|.*(?:[\\^_]|\$\$.*\$\$)")
_DOLLARS = re.compile(
    r"(?<!\w)\$([A-Za-z\\][^$]*|(?!\d[^$^\\]*[a-z]{3})[^$]*[=^\\][^$]*|[^\s$]+)\$(?!\w)|(?<!\w)\$(?=[A-Za-z\\])"
)
_CLOSING = re.compile(r"(?:(?<=[A-Za-z}])(?<!\bUS)(?<!\b[ACS])(?<!\b(?:HK|NZ|AU|CA))|(?<=[_^]\d))\$(?!\w)")
_IN_FORMULA = re.compile(r"(?<![\w$])\$(?!\$)|[\\^_]")
_PATH = re.compile(r"[A-Za-z]:\\")


def plain_formula(phrase: str) -> str:
    """Return a phrase with its commands of LaTeX as signs; a word that has none, and a path, as it is."""
    if "\\" not in phrase and "^{" not in phrase and "$" not in phrase:
        return phrase
    if "$" in phrase:
        phrase = _DISPLAY.sub("" if _IN_DISPLAY.match(phrase) else "$", phrase)
        is_formula = _IN_FORMULA.search(phrase) is not None
        phrase = _DOLLARS.sub(lambda found: found[1] or "", phrase)
        phrase = _CLOSING.sub("", phrase) if is_formula else phrase
    if ("\\" not in phrase and "^{" not in phrase) or _PATH.search(phrase):
        return phrase
    phrase = _TEXT.sub(r" \1", _NUMERIC_FRACTION.sub(r"\1/\2", phrase))
    phrase = _ROOT.sub(r"√(\1)", _SIMPLE_ROOT.sub(r"√\1", _FRACTION.sub(r"\1 ÷ \2", phrase)))
    phrase = _RAISED.sub(r"^(\1)", _LOWERED.sub(r"\1", phrase))
    phrase = _SIGN.sub(lambda found: f" {_SIGNS[found[1]]} ", phrase)
    return _ESCAPED.sub(r"\1", _DELIMITER.sub(" ", phrase)).strip()
