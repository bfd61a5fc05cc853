// check_map: is out[i] what an operation makes of the inputs, bit for bit? Built for f32, for f32 on devices that have f64 (EXACT), with
// DOUBLE for f64, and with WORDS for copies of words and for marks, which are each word's own place.
//
// An operation that is rounded once may be computed by a device in two steps: Vulkan lets fma(a, b, c) be a * b + c. Either result is
// right.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "wrong.glsl"

// As `plimsoll_gen::kernel::stream::Op::ALL` numbers them; 100 is a mark.
layout(constant_id = 1) const u32 OP = 0;

#if defined(WORDS)
#define T u32
#define Element Word
#define SIZE 4
#elif defined(DOUBLE)
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Double { double x; };
#define T double
#define Element Double
#define SIZE 8
#else
#define T float
#define Element Float
#define SIZE 4
#endif

PARAMETERS(u64 out_; u64 a; u64 b; u64 c; T s; u64 n; u64 result;)

T element(u64 array, u64 i) { return Element(array + SIZE * i).x; }

#if defined(WORDS)
void main() {
    if (BLOCK >= blocks) return;
    EACH(i, n) {
        const u32 right = OP == 100 ? u32(i) : element(a, i);
        if (element(out_, i) != right) wrong(i);
    }
    tell_wrong(result);
}
#else
#ifdef DOUBLE
bool same(T x, T y) { return doubleBitsToUint64(x) == doubleBitsToUint64(y); }
#else
bool same(T x, T y) { return floatBitsToUint(x) == floatBitsToUint(y); }
#endif

// The element `d` places from i, or the nearest that there is.
T around(u64 i, int d) {
    const int64_t place = int64_t(i) + d;
    return element(a, place < 0 ? 0ul : u64(place) < n ? u64(place) : n - 1);
}

// p * q + r, rounded once.
#ifdef EXACT
// In double precision the product is exact; the sum is rounded to odd, so that rounding it to single precision is right (Boldo and
// Melquiond, Emulation of a FMA and Correctly Rounded Sums, 2008).
float fused(float p, float q, float r) {
    precise double product = double(p) * double(q);
    precise double sum = product + double(r);
    precise double part = sum - product;
    precise double rest = (product - (sum - part)) + (double(r) - part);
    u64 bits = doubleBitsToUint64(sum);
    if (rest != 0.0lf && (bits & 1) == 0) bits = (rest > 0.0lf) == (sum > 0.0lf) ? bits + 1 : bits - 1;
    return float(uint64BitsToDouble(bits));
}
#else
T fused(T p, T q, T r) {
    precise T once = fma(p, q, r);
    return once;
}
#endif

// Whether x is p * q + r, rounded once or twice.
bool is_fused(T x, T p, T q, T r) {
    precise T product = p * q;
    precise T twice = product + r;
    return same(x, fused(p, q, r)) || same(x, twice);
}

bool is_right(T x, u64 i) {
    precise T right;
    switch (OP) {
    case 0: right = s; break;
    case 2: right = element(a, i); break;
    case 3: right = s * element(a, i); break;
    case 4: right = element(a, i) + element(b, i); break;
    case 5: return is_fused(x, s, element(b, i), element(a, i));
    case 6: return is_fused(x, element(b, i), element(c, i), element(a, i));
    case 8: right = s * ((around(i, -1) + around(i, 0)) + around(i, 1)); break;
    case 9: right = s * ((((around(i, -2) + around(i, -1)) + around(i, 0)) + around(i, 1)) + around(i, 2)); break;
    default: return false;
    }
    return same(x, right);
}

void main() {
    if (BLOCK >= blocks) return;
    EACH(i, n) if (!is_right(element(out_, i), i)) wrong(i);
    tell_wrong(result);
}
#endif
