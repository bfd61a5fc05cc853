// What all kernels for Vulkan share. Arrays are addresses (64 bits) in the push constants, which hold the parameters of the
// kernel's description in order, each at a multiple of its size, and after them `blocks`: how many blocks the launch has.
// A grid of more blocks than the device allows in x goes on in y; what is too many ends at once.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_explicit_arithmetic_types_float64 : enable
#extension GL_EXT_control_flow_attributes : require

#define u32 uint
#define u64 uint64_t

// Threads per block.
layout(local_size_x_id = 0) in;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Word { u32 x; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Word2 { uvec2 x; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Word4 { uvec4 x; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Float { float x; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Float2 { vec2 x; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Float4 { vec4 x; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Long { u64 x; };

// The parameters: PARAMETERS(u64 out_; u64 n;).
#define PARAMETERS(list) layout(push_constant, std430) uniform Parameters { list u32 blocks; };

// The block's number, and the thread's in the whole grid.
#define BLOCK (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x)
#define THREAD (gl_LocalInvocationID.x)
#define THREADS (gl_WorkGroupSize.x)
#define IN_GRID (u64(BLOCK) * THREADS + THREAD)

// Every i < n in turn, whatever the grid.
#define EACH(i, n) for (u64 i = IN_GRID; i < (n); i += u64(blocks) * THREADS)
