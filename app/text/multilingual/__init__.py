"""German, Spanish, French, Italian, Russian, Japanese and Korean numbers, dates, times and money in words."""

from typing import Final

LANGUAGES: Final = ("de", "es", "fr", "it", "ja", "ko", "ru")
