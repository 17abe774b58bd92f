from mvgpt.documents import split_documents

PROSE = "The otter swam on and on, and the river said nothing at all to her about it. " * 9


def book(*parts):
    return "\n".join(parts)


def test_tales_are_cut_at_their_titles():
    text = book("A BOOK OF OTTERS", "By Nobody", "THE FIRST OTTER", PROSE + "a", PROSE,
                "The Otter and the Moon", PROSE + "b", "[From the Danish.]", "THE END")  # fmt: skip
    assert split_documents(text) == [f"{PROSE}a\n{PROSE.strip()}", f"{PROSE}b"]


def test_chapters_with_a_number_and_a_title():
    text = book("CHAPTER I", "THE POND", PROSE + "a", "CHAPTER II", '"WHO IS IT?"', PROSE + "b",
                "Chapter 3. The Weir", PROSE + "c")  # fmt: skip
    assert [d[-1] for d in split_documents(text)] == ["a", "b", "c"]


def test_numbers_cut_a_novel():
    text = book("I", PROSE + "a", "II", PROSE + "b", "III", PROSE + "c")
    assert [d[-1] for d in split_documents(text)] == ["a", "b", "c"]


def test_numbers_do_not_cut_a_tale_into_its_parts():
    text = book("THE FROG", "I", PROSE + "a", "II", PROSE + "b",
                "THE HERON", PROSE + "c", "THE EEL", PROSE + "d", "THE NEWT", PROSE)  # fmt: skip
    assert len(split_documents(text)) == 4


def test_a_sign_and_a_song_stay_inside():
    text = book("THE FROG", PROSE, "On the door was written:", "NO FROGS", PROSE + "end")
    (document,) = split_documents(text)
    assert "NO FROGS" in document
    assert document.endswith("end")


def test_front_and_back_matter_is_left_out():
    text = book("TALES", "PREFACE", PROSE, "CONTENTS", "The Frog The Heron The Eel " * 40,
                "THE FROG", 4 * PROSE + "a", "THE HERON", PROSE + "b",
                "NOTES AND REFERENCES", PROSE)  # fmt: skip
    assert [d[-1] for d in split_documents(text)] == ["a", "b"]


def test_a_text_without_headings_is_one_document():
    text = book(PROSE + "a", PROSE + "b")
    assert split_documents(text) == [text]
    assert split_documents("Just one line.") == ["Just one line."]


def test_a_text_that_is_no_such_book_stays_whole():
    play = "\n".join(f"ACT {number}\nHello there." for number in range(99)) + "\nTHE FROG\n" + PROSE
    assert split_documents(play) == [play.strip()]


def test_the_corpus_is_cut_into_whole_tales(corpus):
    """Each of these two books was counted by hand."""
    for name, tales in (("2781-just-so-stories.txt", 12), ("23661-the-book-of-dragons.txt", 8)):
        assert len(split_documents((corpus / name).read_text(encoding="utf-8"))) == tales
