"""Bytes behind a bare pointer, for compiled code: whole words from any byte, and the processor's CRC-32C over one.

Numba counts references to every array that a function touches and looks for negative indices, which costs more than
the header of a batch. So entry functions take an array, keep it alive and pass its pointer on. Nothing here checks
bounds: whoever calls has made sure of them.
"""

# The signatures of intrinsics are numba's, which mypy cannot see.
# mypy: disable-error-code="untyped-decorator"

from typing import Any

from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic


@intrinsic
def pointer(_typing: Any, array: Any) -> Any:
    """Pointer to the elements of a contiguous array of one dimension."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, args[0]).data

    return types.CPointer(array.dtype)(array), codegen


def _load(builder: Any, data: Any, at: Any, word_type: Any) -> Any:
    word = builder.load(builder.bitcast(builder.gep(data, [at]), word_type.as_pointer()))
    word.align = 1
    return word


def _big_endian(stored: Any) -> Any:
    """An intrinsic that reads the signed big-endian integer `stored` at byte `at`, as int64."""

    def typer(_typing: Any, data: Any, _at: Any) -> Any:
        def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            word = builder.bswap(_load(builder, args[0], args[1], context.get_value_type(stored)))
            return word if stored is types.int64 else builder.sext(word, cgutils.ir.IntType(64))

        return types.int64(data, types.intp), codegen

    return typer


be32 = intrinsic(_big_endian(types.int32))
be64 = intrinsic(_big_endian(types.int64))


def _crc32c_instruction() -> tuple[str, int] | None:
    """LLVM's name of the processor's CRC-32C over 8 bytes and the bits of its state, None when it has none."""
    triple, _, features = cpu_target.target_context.codegen().magic_tuple()
    if triple.startswith("x86_64") and "+sse4.2" in features:
        return "llvm.x86.sse42.crc32.64.64", 64
    if triple.startswith(("aarch64", "arm64")) and "+crc" in features:
        return "llvm.aarch64.crc32cx", 32
    return None


CRC32C_INSTRUCTION = _crc32c_instruction()


@intrinsic
def crc32c_of_8(_typing: Any, _state: Any, data: Any, _at: Any) -> Any:
    """The uint32 state of a CRC-32C, advanced over 8 bytes; only where CRC32C_INSTRUCTION is not None."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        name, state_bits = CRC32C_INSTRUCTION or ("", 0)
        word_type, state_type = cgutils.ir.IntType(64), cgutils.ir.IntType(state_bits)
        word = _load(builder, args[1], args[2], word_type)  # as it lies: both kinds of processor are little-endian
        signature = cgutils.ir.FunctionType(state_type, [state_type, word_type])
        function = cgutils.get_or_insert_function(builder.module, signature, name)
        before = builder.zext(args[0], state_type) if state_bits == 64 else args[0]
        after = builder.call(function, [before, word])
        return builder.trunc(after, cgutils.ir.IntType(32)) if state_bits == 64 else after

    return types.uint32(types.uint32, data, types.intp), codegen
