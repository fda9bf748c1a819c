"""Which number Spark groups a bin by, so that bins lie evenly on any number of partitions.

Spark puts a group on partition ``hash(number) mod partitions``, where the hash of a whole
number of 32 bits (Murmur3 with the seed 42) can be turned round: each hash is that of
exactly one number. So bin n is given the number whose hash is n, and lies on partition n
modulo the partitions, now and after every rescaling. With fewer bins than
partitions the others have nothing to do.

Source: A. Appleby's MurmurHash3 (public domain), x86 32-bit variant.
"""

from __future__ import annotations

_BITS = (1 << 32) - 1
_FIRST, _SECOND, _STEP, _THIRD, _FOURTH = 0xCC9E2D51, 0x1B873593, 0xE6546B64, 0x85EBCA6B, 0xC2B2AE35
_SEED, _SIZE = 42, 4


def labels(bins: int) -> list[int]:
    """For each bin the number that Spark's hash takes to the bin's own; as 32-bit integers with a sign."""
    return [_signed(_unhashed(n)) for n in range(bins)]


def partition(label: int, partitions: int) -> int:
    """The partition that Spark puts a group on which has the number ``label``."""
    return _signed(_hashed(label & _BITS)) % partitions


def _hashed(word: int) -> int:
    word = _turned(word * _FIRST & _BITS, 15) * _SECOND & _BITS
    word = _turned(_SEED ^ word, 13) * 5 + _STEP & _BITS
    word ^= _SIZE
    word = (word ^ word >> 16) * _THIRD & _BITS
    word = (word ^ word >> 13) * _FOURTH & _BITS
    return word ^ word >> 16


def _unhashed(word: int) -> int:
    """The steps of :func:`_hashed` undone, last first: odd factors have inverses modulo 2**32."""
    word ^= word >> 16
    word = word * pow(_FOURTH, -1, 1 << 32) & _BITS
    word ^= word >> 13 ^ word >> 26
    word = word * pow(_THIRD, -1, 1 << 32) & _BITS
    word ^= word >> 16
    word ^= _SIZE
    word = (word - _STEP) * pow(5, -1, 1 << 32) & _BITS
    word = _SEED ^ _turned(word, 32 - 13)
    word = _turned(word * pow(_SECOND, -1, 1 << 32) & _BITS, 32 - 15)
    return word * pow(_FIRST, -1, 1 << 32) & _BITS


def _turned(word: int, by: int) -> int:
    return (word << by | word >> (32 - by)) & _BITS


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word
