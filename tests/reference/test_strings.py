"""Strings that tokenizers are compared on: a fixed list of edges, then seeded random ones from every corner of Unicode.

Letters newer than Unicode 13 are left out, because library versions classify them differently.
"""

import random

# fmt: off
SPECIALS = [
    "<s>", "</s>", "<unk>", "<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|endoftext|>", "<|im_start|>",
    "<|im_end|>",
]
SPACES = [
    " ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\r", " \n", "\n ", "\t ", "\u00a0", "\u3000", "\u2003", "\u202f",
    "\u2028", "\u0085", "\u000b", "\f", "\u1680", "\u180e", "\u200b", "\ufeff",
]
CONTRACTIONS = [
    "'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'T", "'RE", "'Ve", "'M", "'lL", "'D", "\u2019s", "\u2019LL",
    "'\u017f", "\u02bcs", "'x", "''s", "'s'", "' s", "'re's", "`s", "'\u212a",
]
OTHER_NUMBERS = "²³¹⁰⁹₀₉½¼¾⅓⅛ⅧⅫↈ①⑳⒈㉑㊿〇〡一五٣٩۴७९๙༣᠙０９𝟘𝟗𐄇𐒠৴௱፩፲ꘑ"
EMOJI = [
    "😀", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇫🇷", "🇺", "❤️", "☎︎", "1️⃣", "#️⃣", "🧑🏿‍🚀", "👨🏻‍❤️‍💋‍👨🏼", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "🫠", "™",
    "©", "↔️", "⏩", "🈚", "\u200d", "\ufe0f", "🏿",
]
COMBINING = [
    "e\u0301", "\u0301", "a\u0308\u0304", "Z͑̓ͪ̂ͫ̽͏̴", "क्षि", "नमस्ते", "ที่นี่", "שָׁלוֹם", "مُحَمَّد", "각", "한",
    "ຜູ້", "தமிழ்", "བོད་", "ខ្មែរ", "a\u20dd", "q\u0307\u0323",
]
WORDS = {
    "latin": [
        "the", "And", "GOD", "said", "Über", "naïve", "œuvre", "straße", "İstanbul", "ıI", "ﬁne", "Ǆ", "ǅ", "ĳssel",
        "don", "we", "x",
    ],
    "greek": [
        "λόγος", "ΑΡΧΗ", "ᾧ", "ς",
    ],
    "cyrillic": [
        "Привет", "мир", "ЩИ", "ёж", "ѣ",
    ],
    "cjk": [
        "你好", "世界", "漢字", "日本語", "ひらがな", "カタカナ", "ﾊﾝｶｸ", "한국어", "々", "〆切", "𠮷野家",
        "㍿", "、", "。", "「引用」", "ー", "！",
    ],
    "other": [
        "العربية", "עברית", "ไทย", "हिन्दी", "ქართული", "Ꮳ", "አማርኛ", "𐍈𐌰", "𝒜𝓫𝔠", "ａｂｃ", "ªº", "ʰʷ", "ᵃ", "ℵ", "Å",
        "𞤀", "ᠮᠣᠩᠭᠣᠯ",
    ],
}
SYMBOLS = [
    *"!\"#$%&()*+,-./:;<=>?@[\\]^_`{|}~§¶•…–—“”‘\u2019«»€£¥¬±×÷√∞≠≤≥∑∏∂∫→⇒∀∃",
    "->", "::", "//", "/*", "*/", "==", "!=", "&&", "||", "...", "<<", ">>", "{}", "();", "#include", "\\n", "\u2581",
    "\u2581\u2581", "Ġ", "Ċ", "<0x41>", "<0x0A>", "<|", "|>", "</", "<",
]
# fmt: on
CODE = [
    "int main(int argc, char** argv) {\n    return argc > 1 ? 0 : -1;\n}\n",
    'def f(x: int) -> str:\n\tif x == 0x1F:\n\t\treturn f"{x:>08.3f}"\n',
    "for (auto& [key, value] : map) std::cout << key << '\\t' << value << \"\\n\";",
    "SELECT a.id, COUNT(*) FROM t AS a WHERE a.name LIKE '%x_%' GROUP BY 1;",
    '{"a": [1, 2.5e-10, null], "b": {"c": "\\u00e9"}}',
    "<div class=\"a-b_c\" id='x'>&nbsp;&amp;</div>",
    "#!/bin/sh\nset -eu; x=$(ls -l | awk '{print $5}'); echo \"${x:-none}\" >&2\r\n",
    "fn main() -> Result<(), Box<dyn Error>> { let v: Vec<_> = (0..10).collect(); Ok(()) }",
    "template <typename T, size_t N> constexpr auto kSize = sizeof(T[N]);  // 4 * N",
    "\\begin{align} \\alpha_{i+1} &= \\frac{1}{2}x^2 \\\\ \\end{align}",
    "x = [i**2 for i in range(100) if i % 3 == 0 and not (i & 1)]",
    "https://www.example.org:8080/a/b.c?d=e&f=%20g#h user.name+tag@mail.example.co.uk",
    "+49 (0)30 1234-5678, 12:34:56.789, 2026-11-21T10:22:00Z, $1,234,567.89, 3.14159265358979, 1e+100",
    "        deeply\n            indented\n\n\n        text   \n",
    "snake_case camelCase PascalCase SCREAMING_CASE kebab-case x1y2z3 v1.2.3-rc4 __init__ don't",
]


def fixed():
    """Edge cases: Latin-1, repeated spaces, numbers, contractions, special tokens inside a text, limits of UTF-8."""
    strings = ["", "a", "A", "Hello world", " Hello world", "Hello world ", "  Hello  world  "]
    strings += ["\n", "▁", "▁Hello", " ▁", "▁ "]
    strings += [chr(code) for code in range(256)]
    strings += [char * count for char in " \t\n" for count in (2, 3, 4, 5, 7, 8, 12, 16, 33, 64, 100)]
    strings += ["a" + " " * count + "b" for count in range(2, 10)] + ["a" + "\n" * count + "b" for count in range(1, 8)]
    strings += ["\r\n" * count for count in (1, 2, 3, 5)] + ["a\r\n\r\nb", "a \r\n b", "a\n \n\tb", "\r\r\n"]
    strings += ["x\n\n  y", "!\n\n", "a!\n\r\nb", " \n\n ", "\t\n\t\n"]
    strings += SPACES + ["a" + space + "b" for space in SPACES]
    strings += [space + space for space in SPACES] + [" " + space + "a" for space in SPACES]
    strings += CONTRACTIONS + ["we" + text for text in CONTRACTIONS] + ["I" + text + "ing" for text in CONTRACTIONS]
    strings += [("1234567890" * 4)[:length] for length in range(1, 41)]
    strings += ["a1", "1a", "12 345 6789", "1,234.5", "-1", "٣٤٥٦", "१२३४५", "x²+y³=z⁴", "10½", "½10", "ⅧⅨ1", "①②③④"]
    strings += ["H₂O", "0０𝟘", *OTHER_NUMBERS]
    strings += EMOJI + ["a" + emoji + " b" for emoji in EMOJI] + COMBINING + [" " + text for text in COMBINING]
    strings += SPECIALS + [f"a{special}b" for special in SPECIALS] + [f" {special} " for special in SPECIALS]
    strings += [f"{special}{special}\n{special} x" for special in SPECIALS]
    strings += ["<s >", "< s>", "<|im_start", "<s></s>", "<S>", "</s></s> a", "<s> <s>  <s>"]
    strings += ["<|im_start|>user\nHello<|im_end|>\n", "<|begin_of_text|>In the beginning<|end_of_text|>"]
    strings += ["[INST] hi [/INST] </s><s>"]
    # A code point for every byte that UTF-8 can contain, and the limits of its ranges.
    strings += list("\u07ff\u0800\u0fff\u1000\ud7ff\ue000\ufffd\ufffe\uffff\U00010000\U0001ffff\U0003ffff")
    strings += list("\U00040000\U0007ffff\U00080000\U000bffff\U000c0000\U000fffff\U00100000\U0010ffff")
    strings += [chr(code) for code in range(0x100, 0x800, 0x40)]
    strings += [chr(code) for code in range(0x800, 0x10000, 0x1000) if not 0xD800 <= code < 0xE000]
    words = [word for group in WORDS.values() for word in group]
    strings += CODE + words + [" " + word for word in words]
    strings += ["In the beginning God created the heaven and the earth.", "a" * 50, "ab" * 40, "the" * 20, "!" * 40]
    strings += ["-" * 80, "=" * 33, "haha" * 12, "é" * 20, "中" * 20, "😀" * 10]
    return strings


def piece(rng):
    """One random fragment."""
    kind = rng.randrange(14)
    if kind <= 2:
        return rng.choice(WORDS["latin"])
    if kind == 3:
        return rng.choice(WORDS[rng.choice(list(WORDS))])
    if kind == 4:
        return rng.choice(SPACES)
    if kind == 5:
        return " " * rng.randrange(1, 9)
    if kind == 6:
        return "".join(rng.choice("0123456789") for _ in range(rng.randrange(1, 12)))
    if kind == 7:
        return rng.choice(CONTRACTIONS)
    if kind == 8:
        return "".join(rng.choice(SYMBOLS) for _ in range(rng.randrange(1, 4)))
    if kind == 9:
        return rng.choice(EMOJI)
    if kind == 10:
        return rng.choice(COMBINING)
    if kind == 11:
        return "".join(rng.choice(OTHER_NUMBERS) for _ in range(rng.randrange(1, 4)))
    if kind == 12:
        return rng.choice(CODE)[rng.randrange(20) :][: rng.randrange(5, 40)]
    return rng.choice(SPECIALS) if rng.random() < 0.3 else chr(rng.randrange(0, 0x250))


def generate(count, seed, verses):
    """`count` different strings: the fixed ones, then random ones, some of them cut from verses."""
    rng = random.Random(seed)
    strings = list(dict.fromkeys(fixed()))
    seen = set(strings)
    while len(strings) < count:
        if rng.random() < 0.15:
            start = rng.randrange(len(verses) - 200)
            text = verses[start : start + rng.randrange(1, 160)]
        else:
            glue = rng.choice(["", "", " "])
            text = glue.join(piece(rng) for _ in range(rng.randrange(1, 9)))
        if text not in seen:
            seen.add(text)
            strings.append(text)
    return strings[:count]


def invalid_utf8(seed):
    """Byte strings that are not UTF-8: lone and truncated sequences, overlong forms, surrogates, random bytes."""
    rng = random.Random(seed)
    cases = [bytes([byte]) for byte in range(0x80, 0x100)]
    cases += [
        b"a\xff b",
        b"\xc3",
        b"\xe4\xbd",
        b"\xf0\x9f\x98",
        b"abc\xe4\xbd\n",
        b"\xc0\x80",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xf8\x88\x80\x80\x80",
        b"\xe4\xbda",
        b"\xff\xfe<s>\x80",
        bytes(range(256)),
    ]
    cases += [bytes(rng.randrange(256) for _ in range(rng.randrange(2, 24))) for _ in range(60)]
    return cases
