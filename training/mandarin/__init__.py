"""The voice's second language: Mandarin in speech tokens of its own, behind those of English."""
