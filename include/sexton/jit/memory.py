"""Raw memory access for compiled code: pointers, unaligned machine words, rows, hashes and comparison of spans.

Numba counts references to every array that a function touches, which costs more than the work on one record. So entry
functions take arrays and turn them into pointers (`pointer`, `rows`), and all other functions pass pointers: `t[i, j]`
and `data[i]` are single loads and stores. Nothing here checks bounds; callers do. Callers also keep the arrays alive: a
compiled function that creates an array must refer to the array after the last use of its pointer.

Machine words are only hashed and compared, never stored, so the byte order of the machine does not matter.
"""

# Compiled functions have sized integers where the annotations say int and bool; numba's decorators are untyped.
# mypy: disable-error-code="no-any-return, return-value, assignment, untyped-decorator"

import operator
from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.registry import cpu_target
from numba.extending import intrinsic, overload, register_model

from sexton.jit.compiled import compiled, inlined

_HIGH_BITS = 0x8080808080808080 - (1 << 64)


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


def _reads(stored: Any, result: Any, *, swap: bool) -> Any:
    """An intrinsic that loads the signed `stored` from byte `at` as `result`, its bytes swapped or not."""

    def typer(_typing: Any, data: Any, _at: Any) -> Any:
        def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            word = _load(builder, args[0], args[1], context.get_value_type(stored))
            word = builder.bswap(word) if swap else word
            return word if stored is result else builder.sext(word, context.get_value_type(result))

        return result(data, types.intp), codegen

    return typer


be16 = intrinsic(_reads(types.int16, types.int16, swap=True))
be32 = intrinsic(_reads(types.int32, types.int64, swap=True))
be64 = intrinsic(_reads(types.int64, types.int64, swap=True))
word64 = intrinsic(_reads(types.int64, types.int64, swap=False))


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
        word = _load(builder, args[1], args[2], word_type)  # not swapped: both kinds of processor are little-endian
        signature = cgutils.ir.FunctionType(state_type, [state_type, word_type])
        function = cgutils.get_or_insert_function(builder.module, signature, name)
        before = builder.zext(args[0], state_type) if state_bits == 64 else args[0]
        after = builder.call(function, [before, word])
        return builder.trunc(after, cgutils.ir.IntType(32)) if state_bits == 64 else after

    return types.uint32(types.uint32, data, types.intp), codegen


class Rows(types.Type):  # type: ignore[misc]  # numba is untyped
    """Pointer to rows of `width` int64 columns."""

    dtype = types.int64

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(name=f"Rows({width})")


@register_model(Rows)
class _RowsModel(models.PointerModel):  # type: ignore[misc]
    """A pointer in memory, like `types.CPointer`."""


@intrinsic(prefer_literal=True)
def rows(_typing: Any, array: Any, width: Any) -> Any:
    """Pointer to a contiguous int64 array with rows of `width` columns; `width` must be a constant."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, args[0]).data

    return Rows(width.literal_value)(array, width), codegen


def _cell(builder: Any, width: int, table: Any, row: Any, column: Any) -> Any:
    return builder.gep(table, [builder.add(builder.mul(row, row.type(width)), column)])


@intrinsic
def _get_cell(_typing: Any, table: Any, _row: Any, _column: Any) -> Any:
    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.load(_cell(builder, table.width, *args))

    return types.int64(table, types.intp, types.intp), codegen


@intrinsic
def _set_cell(_typing: Any, table: Any, _row: Any, _column: Any, _value: Any) -> Any:
    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        builder.store(args[3], _cell(builder, table.width, *args[:3]))
        return context.get_dummy_value()

    return types.void(table, types.intp, types.intp, types.int64), codegen


# Numba compares an overload's parameters, annotations included, with those of the lambda: so no annotations here.
@overload(operator.getitem)
def _getitem(table, at):  # type: ignore[no-untyped-def]  # noqa: ARG001
    if isinstance(table, Rows):
        return lambda table, at: _get_cell(table, at[0], at[1])
    return None


@overload(operator.setitem)
def _setitem(table, at, value):  # type: ignore[no-untyped-def]  # noqa: ARG001
    if isinstance(table, Rows):
        return lambda table, at, value: _set_cell(table, at[0], at[1], value)
    return None


@intrinsic
def prefetch(_typing: Any, data: Any, _pos: Any) -> Any:
    """Prefetch the cache line of an element (for `Rows`, the first two lines of a row), without waiting."""

    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        word = context.get_value_type(types.int32)
        width = data.width if isinstance(data, Rows) else 1
        start = builder.mul(args[1], args[1].type(width))
        for line in (0, 8) if isinstance(data, Rows) else (0,):
            place = builder.gep(args[0], [builder.add(start, args[1].type(line))])
            kind = cgutils.ir.FunctionType(cgutils.ir.VoidType(), [place.type, word, word, word])
            ask = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
            builder.call(ask, [place, word(0), word(3), word(1)])  # to read, to keep, data
        return context.get_dummy_value()

    return types.void(data, types.intp), codegen


@intrinsic
def copy_bytes(_typing: Any, target: Any, _to: Any, source: Any, _at: Any, _size: Any) -> Any:
    """Copy `size` bytes from `source` at `at` to `target` at `to`; the two spans must not overlap."""

    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        cgutils.raw_memcpy(
            builder, builder.gep(args[0], [args[1]]), builder.gep(args[2], [args[3]]), args[4], itemsize=1
        )
        return context.get_dummy_value()

    return types.void(target, types.intp, source, types.intp, types.intp), codegen


@intrinsic
def folded(_typing: Any, _left: Any, _right: Any) -> Any:
    """The upper half of the product of two words, XORed with the lower half."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        word, double = cgutils.ir.IntType(64), cgutils.ir.IntType(128)
        product = builder.mul(builder.zext(args[0], double), builder.zext(args[1], double))
        upper = builder.trunc(builder.lshr(product, double(64)), word)
        return builder.xor(upper, builder.trunc(product, word))

    return types.int64(types.int64, types.int64), codegen


@inlined
def hash_bytes(first_key: int, second_key: int, data: Any, start: int, size: int) -> int:
    """Hash `size` bytes, two 8-byte words at a time; the last two words may overlap earlier ones.

    With secret keys nobody can choose bytes that collide: a difference is multiplied by an unknown number.
    """
    state = first_key ^ np.int64(size)
    if size >= 16:
        pos = start
        last = start + size - 16
        while pos < last:
            state = folded(state ^ word64(data, pos), second_key ^ word64(data, pos + 8))
            pos += 16
        left, right = word64(data, last), word64(data, last + 8)
    elif size >= 8:
        left, right = word64(data, start), word64(data, start + size - 8)
    else:
        left, right = np.int64(0), np.int64(0)
        for i in range(start, start + size):
            left = (left << 8) | np.int64(data[i])
    return folded(folded(state ^ left, second_key ^ right), second_key)


@inlined
def hash_pair(first_key: int, second_key: int, left: int, right: int) -> int:
    """Hash two integers."""
    return folded(folded(first_key ^ np.int64(left), second_key ^ np.int64(right)), second_key)


@inlined
def same_bytes(a: Any, a_start: int, b: Any, b_start: int, size: int) -> bool:
    """Whether two spans of `size` bytes are equal."""
    if size < 8:
        differing = 0
        for i in range(size):
            differing += a[a_start + i] != b[b_start + i]
        return differing == 0
    at = 0
    while at < size - 8:
        if word64(a, a_start + at) != word64(b, b_start + at):
            return False
        at += 8
    return word64(a, a_start + size - 8) == word64(b, b_start + size - 8)


@compiled
def is_ascii(data: Any, start: int, size: int) -> bool:
    """Whether no byte of the span has its high bit set."""
    seen = np.int64(0)
    pos = start
    end = start + size
    while pos + 8 <= end:
        seen |= word64(data, pos)
        pos += 8
    while pos < end:
        if data[pos] >= 0x80:
            return False
        pos += 1
    return (seen & np.int64(_HIGH_BITS)) == 0


@compiled
def little(data: Any, pos: int, size: int) -> int:
    """The little-endian unsigned number in `size` bytes from `pos`."""
    value = np.int64(0)
    for i in range(size):
        value |= np.int64(data[pos + i]) << (8 * i)
    return value
