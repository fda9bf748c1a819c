"""Grouping keys that spread bins evenly over any number of partitions.

Spark puts the group with an integer key on partition ``hash(key) mod partitions``. The hash of a 32-bit integer
(Murmur3 with seed 42) is invertible, so bin n gets the key whose hash is n. Bin n is then on partition n mod
partitions, even after a rescaling changes the number of partitions. Only two places know these keys: the query groups
messages by them (`.operator.run_stages`), and the state reader takes their hashes (`.reader`).

>>> from sharedstate_lite.spark.rounds.keys import grouping_keys
>>> grouping_keys(3)
[-1693959553, -1910889132, -1382833682]

Source: A. Appleby's MurmurHash3 (public domain), x86 32-bit variant.
"""

from __future__ import annotations

_BITS = (1 << 32) - 1
_FIRST, _SECOND, _STEP, _THIRD, _FOURTH = 0xCC9E2D51, 0x1B873593, 0xE6546B64, 0x85EBCA6B, 0xC2B2AE35
_SEED, _SIZE = 42, 4


def grouping_keys(bins: int) -> list[int]:
    """Return the grouping key of each bin from 0 to ``bins`` - 1. A key is a signed 32-bit integer."""
    return [_signed(_unhash(n)) for n in range(bins)]


def _unhash(word: int) -> int:
    """Reverse the steps of Murmur3. This is possible because odd factors have inverses modulo 2**32."""
    word ^= word >> 16
    word = word * pow(_FOURTH, -1, 1 << 32) & _BITS
    word ^= word >> 13 ^ word >> 26
    word = word * pow(_THIRD, -1, 1 << 32) & _BITS
    word ^= word >> 16
    word ^= _SIZE
    word = (word - _STEP) * pow(5, -1, 1 << 32) & _BITS
    word = _SEED ^ _rotate(word, 32 - 13)
    word = _rotate(word * pow(_SECOND, -1, 1 << 32) & _BITS, 32 - 15)
    return word * pow(_FIRST, -1, 1 << 32) & _BITS


def _rotate(word: int, by: int) -> int:
    return (word << by | word >> (32 - by)) & _BITS


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word
