"""Cut a book into its tales or chapters, by the look of its lines: a paragraph is one line."""

import re

SHORTEST = 600  # characters; a shorter section is a verse, a sign or a title page
LONGEST_FRONT = 10_000  # a longer one that looks like a preface is a tale under its dedication
NUMBER = re.compile(r"(?:[IVXLC]+|\d+)[.:]?$")
NUMBERED = re.compile(
    r"(?i:chapter|part|book|story)\s+(?i:[\divxlc]+|[a-z-]+)\b"  # CHAPTER IV, Part One
    r"|(?i:the [a-z-]+ chapter)"  # THE TENTH CHAPTER
    r"|[IVXLC]+[.:] [A-Z]|\d+[.:]? [A-Z][^.!?]*$"  # IV. Sweet Porridge, 3 The Hawk
)
NOTE = re.compile(
    r"[\[(][^\])]*[\])]\.?$|[\[(]\d+[\])]|\[?(?i:footnote|illustration)|\*|\W+$|(?:[A-Z]\. ?)+$"
    r"|(?i:the end|end of .*)\W*$|(?i:from)(?: (?:[A-Z'\"]\S*|de|par|von|l'\S+))+$"
)
FRONT = re.compile(r"(?i:preface|introduction|contents|dedicat|to\b|.*\bnote$|.*\breaders?$)")
BYLINE = re.compile(r"(?i:.*\bby\b)")
BACK = re.compile(r"(?i:notes and references|transcriber'?s'? notes?)\W*$")
SMALL = set("a an and as at by did for from goeth in into its of on or out that the to who".split())


def split_documents(text: str) -> list[str]:
    """The tales or chapters of a book, their paragraphs joined by newlines.

    Headings and notes in brackets are left out, as are the short sections before the first tale
    (title page, contents) and the notes behind the last. A text without headings is one document,
    and so is one of which less than half would be left.
    """
    sections = [(heads, body) for heads, body in read_sections(text) if body]
    long = [heads for heads, body in sections if size(body) >= SHORTEST]
    parts = sum(is_part(heads) for heads in long)
    parts_cut = parts > len(long) - parts  # else they are the parts of a tale
    documents = []
    for heads, body in sections:
        cuts = size(body) >= SHORTEST and (parts_cut or not is_part(heads))
        front = is_front(heads) and size(body) < LONGEST_FRONT
        if documents and not cuts:
            documents[-1] += body
        elif cuts and (documents or not (front or is_list(body))):
            documents.append(body)
    found = ["\n".join(body) for body in documents]
    return found if size(found) > len(text) / 2 else [text.strip()]  # else it is no such book


def read_sections(text: str) -> list[tuple[list[str], list[str]]]:
    """The headings and, below each run of them, the paragraphs; a text may begin without one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    backs = [i for i, line in enumerate(lines) if i > len(lines) // 2 and BACK.match(line)]
    sections, previous = [([], [])], "."
    for line in lines[: min(backs, default=None)]:
        if is_heading(line, previous):
            if sections[-1][1]:
                sections.append(([], []))
            sections[-1][0].append(line)
        elif not NOTE.match(line):
            sections[-1][1].append(line)
        previous = line
    return sections


def is_heading(line: str, previous: str) -> bool:
    """Whether a line is a number or a title; a song or a sign comes after a comma or a colon."""
    if len(line) > 90 or previous[-1] in ",;:-":
        return False
    if NUMBER.match(line) or NUMBERED.match(line):
        return True
    words = re.findall(r"[^\W\d_][\w'-]*", line)
    titled = words and all(word[0].isupper() or word in SMALL for word in words)
    closed = line[-1] in ",;:-" or line[-1] in ".!?'\"" and not line.isupper()
    return bool(titled) and not closed and line[0] not in "\"'[("


def is_part(heads: list[str]) -> bool:
    """Whether a section is headed by nothing but a number."""
    return bool(heads) and all(map(NUMBER.match, heads))


def is_front(heads: list[str]) -> bool:
    """Whether a section is a preface or the like; under a mere byline too, if no title follows."""
    return any(map(FRONT.match, heads)) or any(map(BYLINE.match, heads[-1:]))


def is_list(body: list[str]) -> bool:
    """Whether it is contents rather than prose: hardly a sentence ends."""
    return len(re.findall(r"[a-z][.!?]", "".join(body))) < size(body) / 400


def size(body: list[str]) -> int:
    return sum(map(len, body))
