"""Standard normal draws in float32, sixteen at a time, where they are used: for noise that is no guarantee.

xoshiro128++ in sixteen lanes and the Box-Muller transform with polynomials for logarithm, sine and cosine
(S. L. Moshier, Cephes; relative error about 1e-7). |draw| reaches 6.6. Sixteen lanes on every processor, so the
draws are those of the seed alone. Private releases draw from ``fedboard.common.privacy.releases.noise`` instead.

Reference: D. Blackman, S. Vigna (2021), Scrambled linear pseudorandom number generators, ACM TOMS 47.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

from llvmlite import ir

from fedboard.common.kernels.compiled.vectors import Emitter, Registers, Value, call, counting, emitted, int64

LANES: Final = 16
STATE_WORDS: Final = 4
DRAWS_AT_ONCE: Final = 2 * LANES

_FLOATS: Final = ir.VectorType(ir.FloatType(), LANES)
_WORDS: Final = ir.VectorType(ir.IntType(32), LANES)
# From the highest power down.
_LOGARITHM: Final = (
    *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
    *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
)
_SINE: Final = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COSINE: Final = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)


@emitted()
def fill_normal(builder: Any, out: Emitter, count: Value, state: Emitter) -> None:
    """Fill the first ``count`` float32 of ``out``, a multiple of 32; moves the state, 4 words of 16 lanes, on."""
    places = [_vector_at(builder, state.base, int64(word * LANES), _WORDS) for word in range(STATE_WORDS)]
    held = Registers(builder, [builder.load(place, align=4) for place in places])
    with counting(builder, builder.udiv(count, int64(DRAWS_AT_ONCE))) as loop:
        first, second = _Draws(builder).pair(_next_word(builder, held), _next_word(builder, held))
        place = builder.mul(loop.index, int64(DRAWS_AT_ONCE))
        builder.store(first, _vector_at(builder, out.base, place, _FLOATS), align=4)
        beyond = builder.add(place, int64(LANES))
        builder.store(second, _vector_at(builder, out.base, beyond, _FLOATS), align=4)
    for value, place in zip(held.values(), places, strict=True):
        builder.store(value, place, align=4)


class _Draws:
    """Emits the Box-Muller transform."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def pair(self, radius_bits: Value, angle_bits: Value) -> tuple[Value, Value]:
        """Two vectors of independent draws from two of random words."""
        radius = self._radius(radius_bits)
        first, second = self._direction(angle_bits)
        return self.builder.fmul(radius, first), self.builder.fmul(radius, second)

    def _radius(self, bits: Value) -> Value:
        """sqrt(-2 log u), u uniform in (0, 1]."""
        builder = self.builder
        high = builder.sitofp(builder.lshr(bits, _word(1)), _FLOATS)
        uniform = self._fma(high, _number(2.0**-31), _number(2.0**-32))
        squared = builder.fmul(self._logarithm(uniform), _number(-2.0))
        positive = builder.select(builder.fcmp_ordered(">", squared, _number(0.0)), squared, _number(0.0))
        return call(builder, "llvm.sqrt.v16f32", ir.FunctionType(_FLOATS, [_FLOATS]), [positive])

    def _logarithm(self, value: Value) -> Value:
        builder = self.builder
        bits = builder.bitcast(value, _WORDS)
        exponent = builder.sitofp(builder.sub(builder.lshr(bits, _word(23)), _word(126)), _FLOATS)
        fraction = builder.or_(builder.and_(bits, _word(0x007FFFFF)), _word(0x3F000000))
        half = builder.bitcast(fraction, _FLOATS)  # in [1/2, 1)
        is_small = builder.fcmp_ordered("<", half, _number(math.sqrt(0.5)))
        low = builder.select(is_small, _number(1.0), _number(0.0))
        exponent = builder.fsub(exponent, low)
        x = builder.fsub(self._fma(low, half, half), _number(1.0))
        square = builder.fmul(x, x)
        cubic = builder.fmul(builder.fmul(self._polynomial(x, _LOGARITHM), x), square)
        mantissa = self._fma(square, _number(-0.5), x)
        return builder.fadd(self._fma(exponent, _number(math.log(2.0)), cubic), mantissa)

    def _direction(self, bits: Value) -> tuple[Value, Value]:
        """Cosine and sine of a uniform angle: an eighth turn either side of an axis, the axis by two bits."""
        builder = self.builder
        low = builder.sitofp(builder.and_(bits, _word(0x3FFFFFFF)), _FLOATS)
        turn = self._fma(low, _number(2.0**-30), _number(-0.5))
        x = builder.fmul(turn, _number(math.pi / 2))
        square = builder.fmul(x, x)
        odd = builder.fmul(builder.fmul(self._polynomial(square, _SINE), square), x)
        sine = builder.fadd(odd, x)
        even = builder.fmul(builder.fmul(self._polynomial(square, _COSINE), square), square)
        cosine = builder.fadd(even, self._fma(square, _number(-0.5), _number(1.0)))
        flipped = builder.icmp_unsigned("!=", builder.and_(bits, _word(1 << 30)), _word(0))
        first = builder.select(flipped, sine, cosine)
        second = builder.select(flipped, cosine, sine)
        sign = builder.and_(bits, _word(1 << 31))
        return self._negated(first, sign), self._negated(second, sign)

    def _negated(self, value: Value, sign: Value) -> Value:
        return self.builder.bitcast(self.builder.xor(self.builder.bitcast(value, _WORDS), sign), _FLOATS)

    def _polynomial(self, x: Value, coefficients: Sequence[float]) -> Value:
        value = _number(coefficients[0])
        for coefficient in coefficients[1:]:
            value = self._fma(value, x, _number(coefficient))
        return value

    def _fma(self, left: Value, right: Value, addend: Value) -> Value:
        kind = ir.FunctionType(_FLOATS, [_FLOATS] * 3)
        return call(self.builder, "llvm.fma.v16f32", kind, [left, right, addend])


def _next_word(builder: Any, held: Registers) -> Value:
    """One step of xoshiro128++ in every lane."""
    a, b, c, d = held.values()
    drawn = builder.add(_rotated(builder, builder.add(a, d), 7), a)
    shifted = builder.shl(b, _word(9))
    c, d = builder.xor(c, a), builder.xor(d, b)
    b, a = builder.xor(b, c), builder.xor(a, d)
    c, d = builder.xor(c, shifted), _rotated(builder, d, 11)
    for place, value in enumerate((a, b, c, d)):
        held[place] = value
    return drawn


def _rotated(builder: Any, words: Value, bits: int) -> Value:
    return builder.or_(builder.shl(words, _word(bits)), builder.lshr(words, _word(32 - bits)))


def _vector_at(builder: Any, base: Value, place: Value, kind: Any) -> Value:
    return builder.bitcast(builder.gep(base, [place]), kind.as_pointer())


def _word(value: int) -> Value:
    return ir.Constant(_WORDS, [value] * LANES)


def _number(value: float) -> Value:
    return ir.Constant(_FLOATS, [value] * LANES)
