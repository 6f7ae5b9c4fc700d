"""Main text, charset guesses, directives, digests: properties beyond the conformance rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mannerly.extract.charset import decode
from mannerly.extract.digest import body_digest, fingerprint, text_digest
from mannerly.extract.directives import directives
from mannerly.extract.document import Document
from mannerly.extract.encodings import LABELS, decode_as
from mannerly.extract.text import MAX_WEIGHED, cut_text, main_text
from mannerly.policy.dedup import NEAR_BITS, distance, near

PROSE = "The quick brown fox jumps over the lazy dog and runs on through the wood. "


def test_blocks_and_cells_are_apart_and_words_are_whole() -> None:
    markup = "H<sub>2</sub>O<br>wet<div>a</div><div>b</div><table><tr><td>c1<td>c2</table><ul><li>x<li> y \n z</ul>"
    assert main_text(Document(markup))[0].split("\n") == ["H2O", "wet", "a", "b", "c1", "c2", "x", "y z"]


def test_navigation_and_scripts_are_no_text() -> None:
    markup = "<nav>menu</nav><script>code()</script><form>search</form><p>said</p><footer>legal</footer>"
    assert main_text(Document(markup)) == ("said", False)


def test_the_densest_block_is_taken_where_there_is_prose() -> None:
    teasers = "".join(f"<div><p>{PROSE[:40]}</p></div>" for _ in range(4))
    markup = (
        f"<div id=page><div class=story><h1>News</h1>{f'<p>{PROSE}</p>' * 12}</div><div>{teasers}</div></div>"
    )
    text, _ = main_text(Document(markup))
    assert text.startswith("News")
    assert text.count("\n") == 12


def test_a_page_of_little_prose_is_kept_whole() -> None:
    assert main_text(Document("<div><p>" + PROSE + "</p></div><ul><li>item</ul>"))[0].endswith("item")


@pytest.mark.slow
def test_a_page_of_too_many_paragraphs_is_kept_whole_unweighed() -> None:
    prose = "<p>This is a paragraph of a text, and it is as long as such paragraphs are."
    page = f"<div>beside</div><article>{prose * (MAX_WEIGHED + 1)}</article>"
    text, cut = main_text(Document(page))
    assert text.startswith("beside\n")
    assert text.count("\n") == MAX_WEIGHED + 1
    assert not cut


def test_a_wide_table_costs_no_more_than_it_holds() -> None:
    markup = "<table><tr><td>" + "x" * 50_000 + "<td>b</tr>" + "<tr><td>a<td>b</tr>" * 300 + "</table>"
    assert len(main_text(Document(markup))[0]) < len(markup)


@given(st.text(), st.integers(0, 50))
def test_cut_text_keeps_whole_characters(text: str, limit: int) -> None:
    kept, cut = cut_text(text, limit)
    assert text.startswith(kept)
    assert len(kept.encode()) <= limit
    assert cut == (kept != text)


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("windows-1251", "Привет, мир! Это обычный русский текст, который должен быть определен правильно."),
        ("shift_jis", "これは日本語の文章です。文字コードを判定してください。"),
        ("euc-kr", "이것은 한국어 문장입니다. 문자 코드를 판정해 주세요."),
        ("windows-1252", "Les élèves français étaient déjà à l’école"),
    ],
)
def test_undeclared_legacy_text_is_guessed(encoding: str, text: str) -> None:
    assert decode(b"<p>" + text.encode(encoding), "text/html") == ("<p>" + text, encoding)


def test_a_character_cut_at_the_end_is_no_objection_to_utf_8() -> None:
    assert decode("<p>käse kä".encode()[:-1], "text/html") == ("<p>käse k\ufffd", "utf-8")


def test_a_late_meta_inside_a_script_does_not_count() -> None:
    late = b"<p>" + b"x" * 2_000
    assert decode(late + b"<script>'<meta charset=koi8-r>'</script>", "")[1] == "windows-1252"
    assert decode(late + b"<script>''</script><meta charset=koi8-r>", "")[1] == "koi8-r"


def test_bytes_that_windows_1252_leaves_open_are_c1_controls() -> None:
    assert decode_as(b"\x81\x8d\x8f\x90\x9d", "windows-1252") == "\x81\x8d\x8f\x90\x9d"


@given(st.binary(), st.sampled_from(sorted(LABELS)))
def test_no_bytes_make_decoding_raise(body: bytes, label: str) -> None:
    text, name = decode(body, f"text/html; charset={label}")
    assert name in LABELS.values()
    text.encode("utf-8")  # no lone surrogates


@given(st.text(), st.text())
def test_no_rules_make_directives_raise(content: str, header: str) -> None:
    directives([("robots", content)], [("x-robots-tag", header)], "mannerly")


def test_a_rule_for_our_token_counts_in_any_case() -> None:
    rules = directives(
        [("Mannerly", "NOARCHIVE"), ("other", "none")], [("x-robots-tag", "mannerly: nosnippet")], "mannerly"
    )
    assert (rules.index, rules.follow, rules.archive, rules.snippet) == (True, True, False, False)
    assert rules.raw == ("noarchive", "nosnippet")


@pytest.mark.parametrize("text", ["one", "two words", PROSE, PROSE * 100])
def test_equal_texts_have_equal_fingerprints_whatever_their_case_and_blanks(text: str) -> None:
    first = fingerprint(text)
    assert first is not None
    assert 0 <= first < 1 << 64
    assert first == fingerprint(text.upper().replace(" ", " \n"))


def test_no_text_has_no_fingerprint_and_no_digest() -> None:
    assert fingerprint(" \n") is None
    assert text_digest("") == ""
    assert body_digest(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_near_is_within_three_bits() -> None:
    assert near(0b111, 0)
    assert not near(0b1111, 0)
    assert near(0b1111, 0, bits=4)


def test_one_word_of_many_changed_stays_near_and_other_texts_do_not() -> None:
    words = [f"word{n * 7919 % 1009}" for n in range(900)]
    one, other = fingerprint(" ".join(words)), fingerprint(" ".join(["changed", *words[1:]]))
    far = fingerprint(" ".join(f"term{n}" for n in range(900)))
    assert one is not None
    assert other is not None
    assert far is not None
    assert near(one, other)
    assert not near(one, far)


def test_text_without_blanks_is_told_apart_by_its_characters() -> None:
    one, other = ("".join(chr(0x4E00 + (n * step) % 3000) for n in range(600)) for step in (7, 11))
    same, changed, far = fingerprint(one), fingerprint("変" + one[1:]), fingerprint(other)
    assert same is not None
    assert changed is not None
    assert far is not None
    assert near(same, changed)
    assert not near(same, far)


@given(st.text())
def test_every_text_has_a_fingerprint_or_no_words(text: str) -> None:
    value = fingerprint(text)
    assert value is None or 0 <= value < 1 << 64


def test_distinct_texts_of_the_shared_pairs_are_never_near(shared: Path) -> None:
    path = shared / "conformance/neardup/pairs.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
    distances: dict[str, list[int]] = {"duplicate": [], "between": [], "distinct": []}
    for row in rows:
        one, other = fingerprint(row["a"]), fingerprint(row["b"])
        assert one is not None
        assert other is not None
        distances[row["label"]].append(distance(one, other))
    assert min(distances["distinct"]) > NEAR_BITS
    middle = {label: sorted(values)[len(values) // 2] for label, values in distances.items()}
    assert middle["duplicate"] < middle["between"] <= middle["distinct"]
