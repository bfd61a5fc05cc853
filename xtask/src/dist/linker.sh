#!/bin/sh
# The linker of `cargo xtask dist`: Zig's C compiler for an old glibc. The command sets ZIG and ZIG_TARGET.
# Instead of libgcc_s it links the unwinder that Zig has, statically. What only chooses another linker for gcc is left out.
set -eu
for argument; do
    shift
    case $argument in
        -lgcc_s) set -- "$@" -lunwind ;;
        -fuse-ld=* | -B*) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec "$ZIG" cc -target "$ZIG_TARGET" "$@"
