"""Marks of origin: what the operator chose to lay into speech and its files, and what a recording shows."""

import os
import secrets
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import soxr

from firstword.app.audio.decode import decode_recording, read_tags
from firstword.app.audio.formats import SOURCE_TYPE, TAGGED_FORMATS, FileFormat, OutputFormat
from firstword.app.audio.watermark import DETECTOR_HZ, Watermark
from firstword.app.audio.watermark_detector import Detection, Detector
from firstword.app.content_credentials import (
    SIGNED_FORMATS,
    SelfMadeSigner,
    Signer,
    UnusableCredentials,
    read_manifest,
)
from firstword.app.options import InvalidOptions
from firstword.app.server_options import ProvenanceOptions

KEY_FILE: Final = "provenance.key"
CREDENTIALS_DIRECTORY: Final = "provenance"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a recording shows of its origin. watermark: None: there was no key to look with."""

    watermark: Detection | None
    source_type: bool
    tags: Mapping[str, str]
    manifest: Mapping[str, Any] | None  # of C2PA


@dataclass(frozen=True, slots=True)
class Provenance:
    """watermark: laid into all speech. detector: None where there is no key. signer: of whole files.

    tags_files: whether files say that they are synthetic.
    """

    watermark: Watermark | None = None
    detector: Detector | None = None
    signer: Signer | SelfMadeSigner | None = None
    names_source: bool = False
    tags_files: bool = True

    def marks_of(self, output: OutputFormat, is_whole: bool) -> tuple[str, ...]:
        """Return what an answer carries: of `watermark`, `metadata` and `c2pa`."""
        marks = {
            "watermark": self.watermark is not None,
            "metadata": self.names_source and output.format in TAGGED_FORMATS,
            "c2pa": self.signer is not None and is_whole and output.format in SIGNED_FORMATS,
        }
        return tuple(name for name, is_there in marks.items() if is_there)

    def signed(self, content: bytes, format: FileFormat) -> bytes:
        """Return a whole file with its manifest, where there is a signer and the format takes one."""
        if self.signer is None or format not in SIGNED_FORMATS:
            return content
        return self.signer.sign(content, format)

    def evidence(self, content: bytes, searches_speeds: bool, max_duration_s: float) -> Evidence:
        """Look for every mark in a recording; takes about 3 ms and 1 MB a second of it, and some seconds
        more to search speeds.

        Raises UndecodableAudio and RecordingTooLong.
        """
        tags, container = read_tags(content)
        found = None
        if self.detector is not None:
            samples, rate_hz = decode_recording(content, max_duration_s)
            if rate_hz != DETECTOR_HZ:
                samples = soxr.resample(samples, rate_hz, DETECTOR_HZ).astype(np.float32)
            found = self.detector.detect(samples, searches_speeds)
        media_types = [media_type for format, media_type in SIGNED_FORMATS.items() if format == container]
        manifest = read_manifest(content, media_types[0]) if media_types else None
        return Evidence(found, SOURCE_TYPE.encode() in content, tags, manifest)


NO_MARKS: Final = Provenance()


def open_provenance(options: ProvenanceOptions, data_dir: Path, tags_files: bool = True) -> Provenance:
    """Read or make the key and the certificate that the options ask for. Raises InvalidOptions."""
    level = options.provenance
    watermark = detector = None
    try:
        if level == "watermark" or options.provenance_key_file is not None:
            key = read_key(
                options.provenance_key_file or data_dir / KEY_FILE, options.provenance_key_file is None
            )
            detector = Detector(key, options.provenance_bits)
            if level == "watermark":
                payload, bits = options.provenance_payload, options.provenance_bits
                watermark = Watermark(key, payload, bits, options.provenance_strength)
    except ValueError as error:
        raise InvalidOptions(f"FIRSTWORD_PROVENANCE is {level}: {error}") from None
    signer = _open_signer(options, data_dir) if options.provenance_manifest and level != "off" else None
    names_source = level != "off"
    return Provenance(watermark, detector, signer, names_source, tags_files or names_source)


def read_key(path: Path, makes_it: bool = False) -> bytes:
    """Return a key of the watermark; makes_it: where there is none. Raises ValueError."""
    try:
        if makes_it and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=path.parent) as made:  # readable by its owner alone
                made.write(secrets.token_hex(32) + "\n")
                made.flush()
                with suppress(FileExistsError):  # another process was the first
                    os.link(made.name, path)
        return path.read_bytes().strip()
    except OSError as error:
        raise ValueError(f"the watermark's key cannot be read: {error}") from None


def _open_signer(options: ProvenanceOptions, data_dir: Path) -> Signer | SelfMadeSigner:
    certificate, key = options.provenance_certificate, options.provenance_certificate_key
    if (certificate is None) != (key is None):
        raise InvalidOptions(
            "FIRSTWORD_PROVENANCE_CERTIFICATE and FIRSTWORD_PROVENANCE_CERTIFICATE_KEY go together; set "
            "both, or neither for a self-made one"
        )
    try:
        if certificate is None or key is None:
            return SelfMadeSigner(data_dir / CREDENTIALS_DIRECTORY)
        return Signer(certificate.read_bytes(), key.read_bytes())
    except ImportError as error:
        raise InvalidOptions(
            f"FIRSTWORD_PROVENANCE_MANIFEST needs c2pa-python ({error}): pip install 'firstword[provenance]'"
        ) from None
    except (OSError, UnusableCredentials) as error:
        raise InvalidOptions(f"FIRSTWORD_PROVENANCE_MANIFEST: {error}") from None
