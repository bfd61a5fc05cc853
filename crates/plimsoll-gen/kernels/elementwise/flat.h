// flat: every tensor is contiguous. A block processes a tile (tile.h). The blocks after the whole tiles process, element by element,
// the elements before the first aligned one and after the last whole tile. One kernel serves every n. LINEAR tensors are aligned from
// element `head` on.
//
// Words of the form: number of elements, number of whole tiles, head; with PREFETCH the number of blocks that may have to wait.
// If launches overlap, at most 8 instructions from the wait to the first load.
#include "tile.h"

extern "C" __global__ void LAUNCH_BOUNDS elementwise(const __grid_constant__ Parameters p) {
    const Scalars s = scalars(p.at + SCALARS_AT);
    const u64 n = p.at[FORM_AT], head = HAS_HEAD ? p.at[FORM_AT + 2] : 0;
    const u32 whole = u32(p.at[FORM_AT + 1]);
    if (blockIdx.x < whole) prefetch_tile(p, blockIdx.x * u64(TILE) + head);
#if STRIDE_GRID
    wait_for_previous();
    const Same same = same_for_all(p, 0);
    Place tile = blockIdx.x;
#pragma unroll 1
    for (; tile < whole; tile += gridDim.x) flat_tile<false>(p, s, same, 0, tile * Place(TILE) + Place(head), threadIdx.x);
    if (tile == whole) {
        const Share all = {threadIdx.x, THREADS};
        flat_rest(p, s, same, head, u64(whole) * TILE + head, n, all);
    }
#else
    const u32 thread = apart(threadIdx.x);
    Same same = Same();
    if constexpr (!overlaps()) {
        wait_for_previous();
        same = same_for_all(p, 0);
    }
    if (blockIdx.x < whole) flat_tile<overlaps()>(p, s, same, 0, blockIdx.x * Place(TILE) + Place(head), thread);
    if (blockIdx.x >= apart(whole)) {
        if constexpr (overlaps()) {
            wait_for_previous();
            same = same_for_all(p, 0);
        }
        flat_rest(p, s, same, head, u64(whole) * TILE + head, n, share_of_rest(whole));
    }
#endif
    let_next_begin(LATE);
}
