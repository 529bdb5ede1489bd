"""Functions of text."""

from typing import Final

from sqlglot import exp

from rewrite.dialect import builders as b
from rewrite.dialect import oids, sizes
from rewrite.dialect.calls import Call, Handler, known_integer, known_text, spark_function
from rewrite.dialect.letter_case import is_ascii, lowered, uppered
from rewrite.dialect.text_output import output_text
from rewrite.errors import UnsupportedError
from rewrite.values import Value

_INT_MAX: Final = b.bigint(2**31 - 1)
_BLANK: Final = b.string(" ")
_EMPTY: Final = b.string("")


def _int(value: b.Tree) -> b.Tree:
    return b.cast(b.call("least", value, _INT_MAX), "INT")


def _substring(call: Call) -> Value:
    """Map ``substring``: positions before the first character count, not from the end."""
    start = known_integer(call.args[1])
    if len(call.args) == 2:
        first = (
            b.integer(max(start, 1))
            if start is not None
            else b.call("greatest", call.trees[1], b.integer(1))
        )
        if start is None:
            first = b.case((b.is_not_null(call.trees[1]), first))
        return call.result(b.call("substring", call.trees[0], first))
    length = known_integer(call.args[2])
    if start is not None and length is not None:
        if length < 0:
            return call.result(b.raise_error("22011", "negative substring length not allowed"))
        end = max(start + length, 1)
        first_position = max(start, 1)
        count = min(end - first_position, 2**31 - 1)
        return call.result(
            b.call("substring", call.trees[0], b.integer(first_position), b.integer(max(count, 0)))
        )

    def body(text: b.Tree, begin: b.Tree, count: b.Tree) -> b.Tree:
        wide = b.cast(begin, "BIGINT")
        end = b.infix(exp.Add, wide, count)
        first = b.call("greatest", wide, b.bigint(1))
        characters = b.call("greatest", b.infix(exp.Sub, end, first), b.bigint(0))
        result = b.call("substring", text, b.cast(first, "INT"), _int(characters))
        return b.case(
            (b.either(b.is_null(text), b.is_null(begin), b.is_null(count)), b.null_of("STRING")),
            (
                b.infix(exp.LT, count, b.integer(0)),
                b.raise_error("22011", "negative substring length not allowed"),
            ),
            otherwise=result,
        )

    return call.result(b.let(call.trees, body))


def _left(call: Call) -> Value:
    def body(text: b.Tree, count: b.Tree) -> b.Tree:
        kept = b.call(
            "greatest",
            b.infix(exp.Add, b.cast(b.call("length", text), "BIGINT"), count),
            b.bigint(0),
        )
        return b.case(
            (b.infix(exp.GTE, count, b.integer(0)), b.call("left", text, count)),
            otherwise=b.case((b.is_not_null(count), b.call("left", text, b.cast(kept, "INT")))),
        )

    return call.result(b.let(call.trees, body))


def _right(call: Call) -> Value:
    def body(text: b.Tree, count: b.Tree) -> b.Tree:
        start = _int(b.infix(exp.Sub, b.bigint(1), count))
        return b.case(
            (b.infix(exp.GTE, count, b.integer(0)), b.call("right", text, count)),
            # -(-2**31) overflows in C, and nothing is cut off.
            (b.infix(exp.EQ, count, b.integer(-(2**31))), text),
            (b.is_not_null(count), b.call("substring", text, start)),
        )

    return call.result(b.let(call.trees, body))


def _pad(name: str) -> Handler:
    def handle(call: Call) -> Value:
        text, length = call.trees[:2]
        fill = call.trees[2] if len(call.args) == 3 else _BLANK

        known = known_integer(call.args[1])

        def body(value: b.Tree, width: b.Tree, padding: b.Tree) -> b.Tree:
            positive = b.case((b.is_not_null(width), b.call("greatest", width, b.integer(0))))
            # Without anything to fill with, the text is only cut.
            cut = (b.infix(exp.EQ, padding, _EMPTY), b.call("left", value, positive))
            if known is not None and known <= sizes.MAX_CHARACTERS:
                return b.case(cut, otherwise=b.call(name, value, positive, padding))
            strict = b.both(b.is_not_null(value), b.is_not_null(padding))
            # PostgreSQL reckons with four bytes for each character.
            too_large = b.infix(exp.GT, width, b.integer(sizes.LARGEST // 4))
            large = b.infix(exp.GT, width, b.integer(sizes.MAX_CHARACTERS))
            bounded = sizes.at_most(positive, b.integer(sizes.MAX_CHARACTERS))
            return b.case(
                cut,
                (b.both(strict, too_large), sizes.TOO_LARGE),
                (b.both(strict, large), sizes.unsupported(name)),
                otherwise=b.call(name, value, bounded, padding),
            )

        return call.result(b.let([text, length, fill], body))

    return handle


def _repeat(call: Call) -> Value:
    def body(text: b.Tree, count: b.Tree) -> b.Tree:
        bytes_ = b.call("octet_length", text)
        length = b.infix(exp.Mul, b.cast(count, "BIGINT"), bytes_)
        fitting = b.infix(
            exp.IntDiv, b.integer(sizes.MAX_BYTES), b.call("greatest", bytes_, b.integer(1))
        )
        bounded = sizes.at_most(count, b.cast(fitting, "INT"))
        return b.checked(
            b.call("repeat", text, bounded),
            (b.infix(exp.GT, length, b.bigint(sizes.LARGEST)), sizes.TOO_LARGE),
            (b.infix(exp.GT, length, b.bigint(sizes.MAX_BYTES)), sizes.unsupported("repeat")),
        )

    return call.result(b.let(call.trees, body))


def _replace(call: Call) -> Value:
    """Map ``replace``; what is looked for is only counted where the result could be large."""
    search, new = (known_text(value) for value in call.args[1:])
    if new is not None and search and len(new.encode()) <= len(search.encode()):
        return call.result(b.call("replace", *call.trees))

    def body(text: b.Tree, old: b.Tree, new: b.Tree) -> b.Tree:
        size, width = b.call("octet_length", text), b.call("octet_length", old)
        added = b.cast(b.call("octet_length", new), "BIGINT")
        most = b.infix(exp.Mul, size, added)
        removed = b.infix(
            exp.Sub, size, b.call("octet_length", b.call("replace", text, old, _EMPTY))
        )
        exact = b.infix(
            exp.Mul, b.infix(exp.IntDiv, removed, b.call("greatest", width, b.integer(1))), added
        )
        limit = b.bigint(sizes.MAX_BYTES)
        large = b.both(b.infix(exp.GT, most, limit), b.infix(exp.GT, exact, limit))
        return b.checked(b.call("replace", text, old, new), (large, sizes.unsupported("replace")))

    return call.result(b.let(call.trees, body))


def _trim(position: str) -> Handler:
    def handle(call: Call) -> Value:
        if len(call.args) == 1:
            name = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}[position]
            return call.result(b.call(name, call.trees[0]))
        text, characters = call.trees
        return call.result(
            exp.Paren(this=exp.Trim(this=text, position=position, expression=characters))
        )

    return handle


def _concat(call: Call) -> Value:
    if call.variadic:
        raise call.refuse("with VARIADIC")
    texts = [output_text(value, call.constants) for value in call.args]
    return call.result(b.call("concat_ws", _EMPTY, *texts))


def _concat_ws(call: Call) -> Value:
    if call.variadic:
        raise call.refuse("with VARIADIC")
    texts = [output_text(value, call.constants) for value in call.args[1:]]
    return call.result(b.call("concat_ws", call.trees[0], *texts))


def _any_concatenation(call: Call) -> Value:
    """Map ``text || anything`` and ``anything || text``, which PostgreSQL casts to text."""
    return call.result(b.call("concat", *(_cast_text(value, call) for value in call.args)))


def _cast_text(value: Value, call: Call) -> b.Tree:
    if value.type_oid == oids.BOOL:
        return b.cast(value.sql, "STRING")
    if value.type_oid == oids.BPCHAR:
        return b.call("rtrim", value.sql)
    return output_text(value, call.constants)


def _split_part(call: Call) -> Value:
    def body(text: b.Tree, delimiter: b.Tree, position: b.Tree) -> b.Tree:
        strict = b.either(b.is_null(text), b.is_null(delimiter))
        zero = b.both(b.infix(exp.EQ, position, b.integer(0)), b.negation(strict))
        return b.checked(
            b.call("split_part", text, delimiter, position),
            (strict, b.null_of("STRING")),
            (zero, b.raise_error("22023", "field position must not be zero")),
        )

    return call.result(b.let(call.trees, body))


def _chr(call: Call) -> Value:
    def body(code: b.Tree) -> b.Tree:
        units = b.call("unhex", b.call("lpad", b.call("hex", code), b.integer(8), b.string("0")))
        limit = "54000"
        surrogate = exp.Between(this=code, low=b.integer(0xD800), high=b.integer(0xDFFF))
        # Decoding swallows a byte order mark.
        mark = b.cast(b.call("unhex", b.string("EFBBBF")), "STRING")
        return b.checked(
            b.call("decode", units, b.string("UTF-32")),
            (b.infix(exp.EQ, code, b.integer(0xFEFF)), mark),
            (
                b.infix(exp.LT, code, b.integer(0)),
                b.raise_error("22023", "character number must be positive"),
            ),
            (
                b.infix(exp.EQ, code, b.integer(0)),
                b.raise_error(limit, "null character not permitted"),
            ),
            (
                b.infix(exp.GT, code, b.integer(0x10FFFF)),
                _character(limit, "requested character too large for encoding: ", code),
            ),
            (surrogate, _character(limit, "requested character not valid for encoding: ", code)),
        )

    return call.result(b.let(call.trees, body))


def _character(sqlstate: str, message: str, code: b.Tree) -> b.Tree:
    return b.raise_error(sqlstate, b.call("concat", b.string(message), b.cast(code, "STRING")))


def _initcap(call: Call) -> Value:
    """Map ``initcap`` for ASCII text; what else is a letter is not the same to both."""
    unfit = b.raise_error("0A000", "initcap() of text beyond ASCII is not supported")

    def capitalised(name: str) -> b.Tree:
        word = b.variable(name)
        rest = b.call("lower", b.call("substring", word, b.integer(2)))
        body = b.call("concat", b.call("upper", b.call("left", word, b.integer(1))), rest)
        return b.lambda_function(body, name)

    def body(text: b.Tree) -> b.Tree:
        words = b.call(
            "regexp_extract_all", text, b.string(r"(?s)([A-Za-z0-9]+|[^A-Za-z0-9]+)"), b.integer(1)
        )
        mapped = b.fresh_variable(lambda name: b.call("transform", words, capitalised(name)))
        return b.checked(b.call("array_join", mapped, _EMPTY), (b.negation(is_ascii(text)), unfit))

    if call.collation not in (oids.DEFAULT_COLLATION, oids.PG_C_UTF8, 950, 951):
        raise UnsupportedError("initcap() with this collation is not supported")
    return call.result(b.let(call.trees, body))


def _to_hex32(call: Call) -> Value:
    mask = b.bigint(0xFFFFFFFF)
    bits = b.infix(exp.BitwiseAnd, b.cast(call.trees[0], "BIGINT"), mask)
    return call.result(b.call("lower", b.call("hex", bits)))


def _overlay(call: Call) -> Value:
    text, replacement, start = call.trees[:3]
    length = call.trees[3] if len(call.args) == 4 else b.call("length", replacement)

    def body(value: b.Tree, new: b.Tree, begin: b.Tree, count: b.Tree) -> b.Tree:
        tail = b.cast(b.infix(exp.Add, b.cast(begin, "BIGINT"), count), "INT")
        start_of_tail = b.call("greatest", tail, b.integer(1))
        joined = b.call(
            "concat",
            b.call("left", value, b.infix(exp.Sub, begin, b.integer(1))),
            new,
            b.case((b.is_not_null(tail), b.call("substring", value, start_of_tail))),
        )
        known = b.both(*(b.is_not_null(part) for part in (value, new, count)))
        return b.checked(
            joined,
            (
                b.both(known, b.infix(exp.LTE, begin, b.integer(0))),
                b.raise_error("22011", "negative substring length not allowed"),
            ),
        )

    return call.result(b.let([text, replacement, start, length], body))


def _encode(call: Call) -> Value:
    if call.text_constant(1).lower() != "hex":
        raise call.refuse("to other than hex")
    return call.result(b.call("lower", b.call("hex", call.trees[0])))


FUNCTIONS: Final[dict[str, Handler]] = {
    "textcat": spark_function("concat"),
    "byteacat": spark_function("concat"),
    "textanycat(text,anynonarray)": _any_concatenation,
    "anytextcat(anynonarray,text)": _any_concatenation,
    "textlen": spark_function("length"),
    "bpcharlen": lambda call: call.result(b.call("length", b.call("rtrim", call.trees[0]))),
    "textoctetlen": spark_function("octet_length"),
    "bpcharoctetlen": spark_function("octet_length"),
    "byteaoctetlen": spark_function("octet_length"),
    "bit_length(text)": lambda call: call.result(_bits(call.trees[0])),
    "bit_length(bytea)": lambda call: call.result(_bits(call.trees[0])),
    "lower": lambda call: call.result(lowered(call.trees[0], call.collation)),
    "upper": lambda call: call.result(uppered(call.trees[0], call.collation)),
    "initcap": _initcap,
    "text_substr": _substring,
    "text_substr_no_len": _substring,
    "textpos": spark_function("instr"),
    "text_left": _left,
    "text_right": _right,
    "lpad": _pad("lpad"),
    "rpad": _pad("rpad"),
    "lpad(text,int4)": _pad("lpad"),
    "rpad(text,int4)": _pad("rpad"),
    "btrim": _trim("BOTH"),
    "btrim1": _trim("BOTH"),
    "ltrim": _trim("LEADING"),
    "ltrim1": _trim("LEADING"),
    "rtrim": _trim("TRAILING"),
    "rtrim1": _trim("TRAILING"),
    "replace_text": _replace,
    "translate": spark_function("translate"),
    "repeat": _repeat,
    "text_reverse": spark_function("reverse"),
    "text_concat": _concat,
    "text_concat_ws": _concat_ws,
    "split_part": _split_part,
    "text_starts_with": spark_function("startswith"),
    "textoverlay": _overlay,
    "textoverlay_no_len": _overlay,
    "md5_text": spark_function("md5"),
    "md5_bytea": spark_function("md5"),
    "binary_encode": _encode,
    "ascii": spark_function("ascii"),
    "chr": _chr,
    "to_hex32": _to_hex32,
    "to_hex64": lambda call: call.result(b.call("lower", b.call("hex", call.trees[0]))),
}


def _bits(text: b.Tree) -> b.Tree:
    return b.infix(exp.Mul, b.call("octet_length", text), b.integer(8))
