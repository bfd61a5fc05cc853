// empty: nothing. What a launch and its blocks cost by themselves: `plimsoll_empty`, `launch_empty`, `dispatch_empty_*`.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

void main() {}
