"""Hints of known mistakes in a student's copy, each readable only for the answers of a program that makes the mistake.

A hint is stored under a hash of the mistake's fingerprint, and is XORed with bytes that follow from the fingerprint.
This is a cover, not encryption: a student who writes the wrong program on purpose can read its hint.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping


def covered(check: str, known: Mapping[str, str]) -> dict[str, str]:
    """Return the hints of a check, {fingerprint: hint}, as the student's copy stores them.

    >>> hints = covered("max.second", {"4f1d": "MAX stores one number."})
    >>> hint("max.second", hints, "4f1d"), hint("max.second", hints, "another")
    ('MAX stores one number.', '')
    """
    return {_name(check, mark): _xor(check, mark, says.encode()).hex() for mark, says in sorted(known.items())}


def hint(check: str, hints: Mapping[str, str], fingerprint: str) -> str:
    """Return the hint for a program whose answers have this fingerprint; "" if there is none."""
    stored = hints.get(_name(check, fingerprint), "")
    return _xor(check, fingerprint, bytes.fromhex(stored)).decode()


def _name(check: str, mark: str) -> str:
    return hashlib.sha256(f"{check} {mark}".encode()).hexdigest()[:16]


def _xor(check: str, mark: str, data: bytes) -> bytes:
    stream = hashlib.shake_256(f"{check} {mark}".encode()).digest(len(data))
    return bytes(one ^ other for one, other in zip(data, stream, strict=True))
