// launch_scale: out = s * in over vectors of four floats, and the last n mod 4 elements by themselves; the grid covers n.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

PARAMETERS(u64 out_; u64 in_; float s; u64 n;)

void main() {
    if (BLOCK >= blocks) return;
    const u64 e = IN_GRID * 4;
    if (e + 4 <= n) {
        Float4(out_ + 4 * e).x = s * Float4(in_ + 4 * e).x;
    } else {
        for (u64 i = e; i < n; ++i) Float(out_ + 4 * i).x = s * Float(in_ + 4 * i).x;
    }
}
