"""Philox4x32-10 and its distributions in numpy: the numbers that kernels have to make, bit for bit.

Uniform numbers have 24 bits. Normal ones come two at a time by Box and Muller from a radius and an
angle, whose functions are polynomials and Newton's steps here: float32 sums and products alone,
which every device and numpy round alike. Those of f64 are numpy's, and devices' own in last places.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]
Floats = NDArray[np.float32]

STATE = 6  # words: a key of two, a counter of four, the lowest first

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)

# polynomials, the highest power first
_SURPRISE = (
    *(-0.488438726, 0.751308978, -0.818190276, 0.995871722),
    *(-1.332641124, 2.00005602, -4.00000334),
)
_SINE = (0.0779550299, -0.645801842, 1.57079411)
_COSINE = (-0.020426251, 0.253606349, -1.23369801, 1.0)
_NEWTON = (1.50088, 1.5000006)  # 3/2, centred among the guesses
_4_LN_2 = np.float32(4 * np.log(2))


def advance_counter(state: Words, steps: int) -> Words:
    """A state whose counter is `steps` further on."""
    counter = sum(int(word) << (32 * place) for place, word in enumerate(state[2:]))
    words = [(counter + steps >> (32 * place)) & 0xFFFFFFFF for place in range(4)]
    return np.array([*state[:2], *words], np.uint32)


def blocks(state: Words, count: int) -> Words:
    """Four random words from each of the next `count` counters."""
    low = int(state[2]) + np.arange(count, dtype=np.uint64)
    key = [int(word) for word in state[:2]]
    after = advance_counter(state, 1 << 32)  # the upper words behind the low word's end
    x = [low & _LOW]
    for place in (3, 4, 5):
        carried = np.where(low > _LOW, after[place], state[place])
        x.append(carried.astype(np.uint64))
    for turn in range(10):
        x = _mix_words(
            x, [(word + turn * step) & 0xFFFFFFFF for word, step in zip(key, _WEYL, strict=True)]
        )
    return np.stack(x, axis=1).astype(np.uint32)


def _mix_words(x: Sequence[NDArray[np.uint64]], key: Sequence[int]) -> list[NDArray[np.uint64]]:
    first, second = x[0] * _MULTIPLIERS[0], x[2] * _MULTIPLIERS[1]
    return [
        (second >> _32) ^ x[1] ^ np.uint64(key[0]),
        second & _LOW,
        (first >> _32) ^ x[3] ^ np.uint64(key[1]),
        first & _LOW,
    ]


def uniform(bits: Words) -> Floats:
    """0 to 1, 1 left out."""
    return (bits >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)


def uniform_f64(bits: Words) -> NDArray[np.float64]:
    """The same with 53 bits, two numbers from four words."""
    first, second = (bits[:, place::2].astype(np.uint64) for place in (0, 1))
    whole = ((first >> np.uint64(5)) << np.uint64(26)) + (second >> np.uint64(6))
    return whole.astype(np.float64) * 2.0**-53


def normal_f64(bits: Words) -> NDArray[np.float64]:
    """Mean 0 and deviation 1, two from four words, within a few units of the last place."""
    radius, turn = uniform_f64(bits).T
    length = np.sqrt(-2 * np.log(1 - radius))
    quarter = np.rint(4 * turn)
    angle = (4 * turn - quarter) * (np.pi / 2)
    cosine, sine = np.cos(angle), np.sin(angle)
    which = quarter.astype(np.int64) % 4
    across = np.choose(which, [cosine, -sine, -cosine, sine])
    up = np.choose(which, [sine, cosine, -sine, -cosine])
    return np.stack([length * across, length * up], axis=1)


def normal(bits: Words) -> Floats:
    """Mean 0 and deviation 1, from words in fours."""
    radius = _radius(bits[:, ::2])
    cosine, sine = _direction(bits[:, 1::2])
    return np.stack([radius * cosine, radius * sine], axis=2).reshape(bits.shape)


def _radius(bits: Words) -> Floats:
    """(-2 ln u)^1/2 with u from 2^-33 to 1."""
    high, low = (
        (bits >> np.uint32(8)).astype(np.float32),
        (bits & np.uint32(255)).astype(np.float32),
    )
    value = _surprise(high * np.float32(256) + (low + np.float32(0.5)))
    guess = (np.uint32(0x5EF76400) - (value.view(np.uint32) >> np.uint32(1))).view(np.float32)
    for three_halves in _NEWTON:  # towards (2 value)^-1/2
        guess = guess * (np.float32(three_halves) - value * guess * guess)
    return value * guess


def _surprise(value: Floats) -> Floats:
    """-4 ln (value / 2^32)."""
    bits = value.view(np.uint32)
    exponent = (bits - np.uint32(0x3F3504F3)).view(np.int32) >> 23
    x = (bits - (exponent << 23).view(np.uint32)).view(np.float32) - np.float32(1)
    whole = (32 - exponent).astype(np.float32) * _4_LN_2
    return whole + _polynomial(_SURPRISE, x) * x


def _direction(bits: Words) -> tuple[Floats, Floats]:
    """Cosine and sine: a quarter of a turn by the first two bits, an eighth by the others."""
    signed = (bits << np.uint32(2)).view(np.int32) >> 8
    x = signed.astype(np.float32) * np.float32(2.0**-24)
    cosine, sine = _polynomial(_COSINE, x * x), _polynomial(_SINE, x * x) * x
    quarter = bits >> np.uint32(30)
    return (
        np.choose(quarter, [cosine, -sine, -cosine, sine]),
        np.choose(quarter, [sine, cosine, -sine, -cosine]),
    )


def _polynomial(coefficients: Sequence[float], x: Floats) -> Floats:
    total = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + np.float32(coefficient)
    return total
