"""Templates: what kind of page a URL is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mannerly.model.url import canonical_key
from mannerly.policy.templates import MAX_TEMPLATE, template_of


@pytest.mark.parametrize(
    ("rest", "template"),
    [
        ("/", "/"),
        ("/about", "/{}"),
        ("/about/", "/about/"),
        ("/std/vec/struct.Vec.html", "/std/vec/{}.html"),
        ("/std/vec/index.HTML", "/std/vec/{}.html"),
        ("/cal/2024/07", "/cal/{n}/{n}"),
        ("/cal/2024/07/", "/cal/{n}/{n}/"),
        ("/log/2024-07-31/x", "/log/{date}/{}"),
        ("/log/2024-07-31.txt", "/log/{date}.txt"),
        ("/item/12345", "/item/{n}"),
        ("/item/-3", "/item/{n}"),
        ("/user-123/posts/", "/user-{n}/posts/"),
        ("/python3.11/library/os.html", "/python{n}.{n}/library/{}.html"),
        ("/c/3f2a9b4c11", "/c/{hex}"),
        ("/c/deadbeef/x", "/c/deadbeef/{}"),  # a word as well as a number: no digit, no hash
        ("/o/123E4567-e89b-12d3-a456-426614174000/", "/o/{uuid}/"),
        ("/o/dGhpcyBpcyBhIHRva2Vu1/", "/o/{t}/"),
        ("/a-title-that-is-much-too-long-for-a-directory/x", "/{t}/{}"),
        ("/x?page=7&q=red+shoes", "/{}?page={n}&q={v}"),
        ("/x?a&b=&c=1", "/{}?a&b=&c={n}"),
        ("/x?20240731", "/{}?{n}"),
        ("/x?d=2024-07-31&h=3f2a9b4c11", "/{}?d={date}&h={hex}"),
        ("/caf%C3%A9/%E6%97%A5.pdf", "/caf%C3%A9/{}.pdf"),
        ("/file.tar.gz", "/{}.gz"),
        ("/v1.2", "/{}"),
        ("/x//y", "/x//{}"),
    ],
)
def test_templates(rest: str, template: str) -> None:
    assert template_of(f"https://a.test{rest}") == template


def test_pages_of_a_large_manual_share_few_templates() -> None:
    names = [
        f"{kind}.{name}{n}.html"
        for kind in ("struct", "trait", "fn")
        for name in ("Vec", "Iter")
        for n in range(500)
    ]
    assert {template_of(f"https://doc.test/std/vec/{name}") for name in names} == {"/std/vec/{}.html"}
    assert {template_of(f"https://shop.test/p/{n}/{n * 7:x}ff00aa11/") for n in range(1000, 2000)} == {
        "/p/{n}/{hex}/"
    }
    assert {template_of(f"https://a.test/?year={n}") for n in range(-100, 3000)} == {"/?year={n}"}


WORDS = st.text(alphabet="abcXYZ019-_.%~", max_size=40)


@pytest.mark.slow
@given(
    st.lists(WORDS, max_size=30),
    st.lists(st.tuples(WORDS, WORDS), max_size=20),
    st.sampled_from(["a.test", "[::1]:8080", "b.test:81"]),
)
def test_a_template_is_short_and_knows_no_host(
    path: list[str], query: list[tuple[str, str]], host: str
) -> None:
    rest = "/".join(path) + "?" + "&".join(f"{name}={value}" for name, value in query)
    template = template_of(canonical_key(f"http://{host}/{rest}"))
    assert template.startswith("/")
    assert len(template) <= MAX_TEMPLATE
    assert template == template_of(canonical_key(f"https://other.test/{rest}"))


@given(st.text())
def test_template_of_never_raises(text: str) -> None:
    assert len(template_of(text)) <= MAX_TEMPLATE
    assert len(template_of(f"http://a.test/{text}")) <= MAX_TEMPLATE


@given(st.integers(0, 10**12), st.integers(0, 10**12))
def test_numbers_make_no_new_template(one: int, other: int) -> None:
    for form in ("/n/{}", "/n{}/x", "/n/{}/", "/x?n={}", "/x-{}.html", "/{}?{}"):
        assert template_of("http://a.test" + form.format(one, one)) == template_of(
            "http://a.test" + form.format(other, other)
        )
