"""Judges of speech that have never heard the voice: two recognisers, DNSMOS, an encoder of speakers."""
