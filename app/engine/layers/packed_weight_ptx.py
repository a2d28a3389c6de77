"""Instructions (PTX) that convert a packed weight's numbers to half precision, four at a time.

Triton would convert each number by itself, with more than twice as many instructions."""

import struct
from functools import cache

import torch


@cache
def conversions(bits: int, zero: int, table: tuple[int, ...], dtype: torch.dtype) -> dict[str, str]:
    """Return PTX by name: LOW converts the numbers of a group's first half (with 4 bits, the low nibbles), and HIGH
    those of the second half. Four bytes become four numbers, in two registers. ONE yields 1.0 four times."""
    halves = ("", " shr.u32 x, x, 4;") if bits == 4 else ("", "")
    if table:
        convert = _look_up(table, dtype)
    elif dtype == torch.float16:
        convert = _to_float16(bits, zero)
    else:
        convert = _nibbles_to_bfloat16(zero) if bits == 4 else _bytes_to_bfloat16(zero)
    head = "{ .reg .b32 x, a, b, c, l, h; .reg .f32 f0, f1, f2, f3; mov.b32 x, $2;"
    low, high = (f"{head}{shift} {convert} }}" for shift in halves)
    one = _pair(1.0, dtype)
    return {"LOW": low, "HIGH": high, "ONE": f"mov.b32 $0, {one}; mov.b32 $1, {one};"}


def _pair(value: float, dtype: torch.dtype) -> str:
    """Return a hexadecimal literal of 32 bits that contains the value twice in half precision."""
    bits = int(torch.tensor(value, dtype=dtype).view(torch.int16)) & 0xFFFF
    return f"{bits * 0x10001:#010x}"


def _to_float16(bits: int, zero: int) -> str:
    """Return PTX that writes each number into the low mantissa bits of 1024.0, and subtracts 1024 + zero."""
    mask = 0x000F000F if bits == 4 else 0x00FF00FF
    return " ".join(
        f"prmt.b32 a, x, 0, {pair}; lop3.b32 a, a, {mask:#x}, 0x64006400, 0xEA; mov.b32 b, "
        f"{_pair(1024.0 + zero, torch.float16)}; sub.rn.f16x2 ${to}, a, b;"
        for to, pair in enumerate(("0x4140", "0x4342"))
    )


def _nibbles_to_bfloat16(zero: int) -> str:
    """Return PTX that writes each number into the low mantissa bits of 128.0, and subtracts 128 + zero."""
    one, less = _pair(1.0, torch.bfloat16), _pair(-128.0 - zero, torch.bfloat16)
    return f"mov.b32 b, {one}; mov.b32 c, {less};" + " ".join(
        f"prmt.b32 a, x, 0, {pair}; lop3.b32 a, a, 0x000f000f, 0x43004300, 0xEA; "
        f"fma.rn.bf16x2 ${to}, a, b, c;"
        for to, pair in enumerate(("0x4140", "0x4342"))
    )


def _bytes_to_bfloat16(zero: int) -> str:
    """Return PTX that writes each byte into the low mantissa bits of 2**23 in float32, subtracts 2**23 and the zero
    point, and rounds."""
    more = struct.pack(">f", 8388608.0 + zero).hex().upper()
    widened = " ".join(
        f"prmt.b32 a, x, 0x4B000000, 0x744{byte}; mov.b32 f{byte}, a; sub.rn.f32 f{byte}, f{byte}, 0f{more};"
        for byte in range(4)
    )
    return f"{widened} cvt.rn.bf16x2.f32 $0, f1, f0; cvt.rn.bf16x2.f32 $1, f3, f2;"


def _look_up(table: tuple[int, ...], dtype: torch.dtype) -> str:
    """Return PTX that looks up, in a table of 16 values, the low bytes and then the high bytes of four values."""
    values = torch.tensor(table, dtype=dtype).view(torch.uint8).view(16, 2).t().contiguous().view(torch.int32)

    def found(target: str, words: list[int]) -> str:
        low, middle, high, highest = (f"{word & 0xFFFFFFFF:#x}" for word in words)
        return (
            f"mov.b32 {target}, {low}; prmt.b32 b, {target}, {middle}, a; mov.b32 {target}, {high}; "
            f"prmt.b32 {target}, {target}, {highest}, a; prmt.b32 {target}, b, {target}, c;"
        )

    lower, higher = (found(name, words) for name, words in zip("lh", values.view(2, 4).tolist(), strict=True))
    # x holds four numbers, first one in each byte, then one in each nibble. a and c are prmt selectors, with a
    # nibble for each number: a has the number's lower three bits, and c selects a half of the table by the number's
    # highest bit.
    return (
        "and.b32 x, x, 0x0f0f0f0f; shr.u32 a, x, 4; or.b32 x, x, a; prmt.b32 x, x, 0, 0x4420; "
        "and.b32 a, x, 0x7777; and.b32 c, x, 0x8888; shr.u32 c, c, 1; or.b32 c, c, 0x3210; "
        f"{lower} {higher} prmt.b32 $0, l, h, 0x5140; prmt.b32 $1, l, h, 0x7362;"
    )
