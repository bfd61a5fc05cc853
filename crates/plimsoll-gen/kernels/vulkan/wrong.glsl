// What checks count: result[0] the wrong elements, result[1] the first of them.
#extension GL_EXT_shader_atomic_int64 : require

void wrong(u64 result, u64 i) {
    atomicAdd(Long(result).x, 1ul);
    atomicMin(Long(result + 8).x, i);
}
