"""Names that no speaker may have."""

BAD_NAMES = [
    "",
    ".",
    "..",
    "../etc/passwd",
    "a/b",
    "a\\b",
    "a.b",
    "a b",
    " a",
    "a\n",
    "a\0",
    "%2e%2e",
    "ä",
    "１",  # noqa: RUF001  a digit, but not of ours
    "\ud800",
    "a" * 65,
    "a" * 1_000_000,
]
