"""Harmonic Vocos: the vocoder that makes spectra of whole frames from mel, F0 and harmonic pulses."""
