//! The loops in assembly: eight accesses per iteration, four addresses at each of two bases that are four strides apart. Four
//! accumulators, as an exclusive or takes a cycle and three loads may start in one.

use std::arch::asm;
use std::arch::x86_64::{__m128i, _mm_cvtsi128_si64, _mm_set1_epi64x, _mm_unpackhi_epi64, _mm_xor_si128};

use super::AccessPattern;

/// One loop. Each line is one access to its address at either base (`\b`), with a separate accumulator: rax, rcx, rdx, r10, or
/// xmm0 to xmm3. All start with `value`; the loop returns the exclusive or of their final values (four equal values cancel
/// out).
macro_rules! strided {
    ($what:literal, $name:ident, $line0:literal, $line1:literal, $line2:literal, $line3:literal) => {
        #[doc = $what]
        ///
        /// # Safety
        /// The pattern has at least one iteration and one pass, and stays inside memory that is valid for the access and
        /// 16-byte aligned at its base.
        #[inline(never)]
        pub(super) unsafe fn $name(pattern: AccessPattern, value: u64) -> u64 {
            let (mut a, mut b, mut c, mut d) = (value, value, value, value);
            // SAFETY: SSE2 belongs to every x86-64 machine.
            let wide = unsafe { _mm_set1_epi64x(value as i64) };
            let (mut e, mut f, mut g, mut h) = (wide, wide, wide, wide);
            // SAFETY: the caller promises memory for iterations · 8 accesses, a stride apart, from the base on, and the loops
            // make no others; both counters are at least 1. All registers written are declared; no stack is used.
            unsafe {
                asm!(
                    "2:",
                    "mov rsi, {base}",
                    "mov {left}, {iterations}",
                    ".p2align 5",
                    "3:",
                    "lea rdi, [rsi + 4*r8]",
                    ".irp b,rsi,rdi",
                    $line0,
                    $line1,
                    $line2,
                    $line3,
                    ".endr",
                    "lea rsi, [rsi + 8*r8]",
                    "dec {left}",
                    "jnz 3b",
                    "dec {passes}",
                    "jnz 2b",
                    base = in(reg) pattern.base,
                    iterations = in(reg) pattern.iterations,
                    left = out(reg) _,
                    passes = inout(reg) pattern.passes => _,
                    in("r8") pattern.stride_bytes,
                    in("r9") 3 * pattern.stride_bytes,
                    out("rsi") _,
                    out("rdi") _,
                    inout("rax") a,
                    inout("rcx") b,
                    inout("rdx") c,
                    inout("r10") d,
                    inout("xmm0") e,
                    inout("xmm1") f,
                    inout("xmm2") g,
                    inout("xmm3") h,
                    options(nostack),
                );
            }
            a ^ b ^ c ^ d ^ folded([e, f, g, h])
        }
    };
}

/// The exclusive or of all halves.
fn folded(registers: [__m128i; 4]) -> u64 {
    let [a, b, c, d] = registers;
    // SAFETY: SSE2 belongs to every x86-64 machine.
    unsafe {
        let all = _mm_xor_si128(_mm_xor_si128(a, b), _mm_xor_si128(c, d));
        _mm_cvtsi128_si64(_mm_xor_si128(all, _mm_unpackhi_epi64(all, all))) as u64
    }
}

strided!(
    "Reads 4-byte elements, and returns their exclusive or.",
    read4,
    "xor eax, dword ptr [\\b]",
    "xor ecx, dword ptr [\\b + r8]",
    "xor edx, dword ptr [\\b + 2*r8]",
    "xor r10d, dword ptr [\\b + r9]"
);
strided!(
    "Reads 8-byte elements, and returns their exclusive or.",
    read8,
    "xor rax, qword ptr [\\b]",
    "xor rcx, qword ptr [\\b + r8]",
    "xor rdx, qword ptr [\\b + 2*r8]",
    "xor r10, qword ptr [\\b + r9]"
);
strided!(
    "Reads 16-byte elements, and returns their exclusive or.",
    read16,
    "pxor xmm0, xmmword ptr [\\b]",
    "pxor xmm1, xmmword ptr [\\b + r8]",
    "pxor xmm2, xmmword ptr [\\b + 2*r8]",
    "pxor xmm3, xmmword ptr [\\b + r9]"
);
strided!(
    "Loads 4-byte elements; the result is meaningless.",
    load4,
    "mov eax, dword ptr [\\b]",
    "mov ecx, dword ptr [\\b + r8]",
    "mov edx, dword ptr [\\b + 2*r8]",
    "mov r10d, dword ptr [\\b + r9]"
);
strided!(
    "Loads 8-byte elements; the result is meaningless.",
    load8,
    "mov rax, qword ptr [\\b]",
    "mov rcx, qword ptr [\\b + r8]",
    "mov rdx, qword ptr [\\b + 2*r8]",
    "mov r10, qword ptr [\\b + r9]"
);
strided!(
    "Loads 16-byte elements; the result is meaningless.",
    load16,
    "movdqa xmm0, xmmword ptr [\\b]",
    "movdqa xmm1, xmmword ptr [\\b + r8]",
    "movdqa xmm2, xmmword ptr [\\b + 2*r8]",
    "movdqa xmm3, xmmword ptr [\\b + r9]"
);
strided!(
    "Writes 4-byte elements.",
    write4,
    "mov dword ptr [\\b], eax",
    "mov dword ptr [\\b + r8], ecx",
    "mov dword ptr [\\b + 2*r8], edx",
    "mov dword ptr [\\b + r9], r10d"
);
strided!(
    "Writes 8-byte elements.",
    write8,
    "mov qword ptr [\\b], rax",
    "mov qword ptr [\\b + r8], rcx",
    "mov qword ptr [\\b + 2*r8], rdx",
    "mov qword ptr [\\b + r9], r10"
);
strided!(
    "Writes 16-byte elements.",
    write16,
    "movdqa xmmword ptr [\\b], xmm0",
    "movdqa xmmword ptr [\\b + r8], xmm1",
    "movdqa xmmword ptr [\\b + 2*r8], xmm2",
    "movdqa xmmword ptr [\\b + r9], xmm3"
);
