// What checks count: result[0] the wrong elements, result[1] the first of them. Each thread adds what it found once, at its end: an array
// that is wrong in every element is no queue of as many atomics.
#extension GL_EXT_shader_atomic_int64 : require

u64 wrong_elements = 0;
u64 first_wrong = 0xfffffffffffffffful;

// Elements come in rising order.
void wrong(u64 i) {
    if (wrong_elements == 0) first_wrong = i;
    ++wrong_elements;
}

void tell_wrong(u64 result) {
    if (wrong_elements == 0) return;
    atomicAdd(Long(result).x, wrong_elements);
    atomicMin(Long(result + 8).x, first_wrong);
}
