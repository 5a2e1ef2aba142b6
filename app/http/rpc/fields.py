"""Count the fields of a long message before it is parsed: each that is a message takes a hundred bytes."""

from typing import Any, Final

LARGE_MESSAGE_BYTES: Final = 256 * 1024  # a shorter one is parsed in some milliseconds whatever it has
MAX_FIELDS: Final = 4096  # of a long one, those of the messages within it counted


def has_too_many_fields(data: bytes, described: Any) -> bool:
    """described: the descriptor of the message. Bytes that are no message are left to the parser."""
    num_fields = 0
    open_parts = [(memoryview(data), described)]
    while open_parts:
        part, described = open_parts.pop()
        position = 0
        while position < len(part):
            num_fields += 1
            if num_fields > MAX_FIELDS:
                return True
            tag, position = _varint(part, position)
            match tag & 7:
                case 0:  # a number; then of 8 bytes, with a length, of 4 bytes
                    _, position = _varint(part, position)
                case 1:
                    position += 8
                case 2:
                    size, position = _varint(part, position)
                    field = described.fields_by_number.get(tag >> 3)
                    if field is not None and field.message_type is not None:
                        open_parts.append((part[position : position + size], field.message_type))
                    elif field is not None and field.cpp_type == field.CPPTYPE_INT64:
                        num_fields += size  # a shape, whose numbers may have a byte each
                    position += size
                case 3 | 4:  # a group's begin or end, whose fields stand between
                    pass
                case 5:
                    position += 4
                case _:  # the parser ends here; what it had opened before, it has parsed
                    break
    return num_fields > MAX_FIELDS


def _varint(part: memoryview, position: int) -> tuple[int, int]:
    """Return a number and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(part):
            break
        byte = part[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
    return value, position
