// dispatch_marked: every block stores its number, to show that all ran.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

PARAMETERS(u64 out_;)

void main() {
    if (BLOCK >= blocks) return;
    if (THREAD == THREADS - 1) Word(out_ + 4 * u64(BLOCK)).x = BLOCK;
}
