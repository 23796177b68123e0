"""Keys and paths: one to one, and always inside."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from motet.errors import BadInput
from motet.ids import ObjectKey
from motet.real.objects import folder_of_prefix, key_of, path_of

texts = st.text(
    st.sampled_from("aA./+%~-_ü\0\n 2e") | st.characters(codec="utf-8"), min_size=1, max_size=20
)


@given(texts)
def test_a_path_leads_back_to_its_key(key: str) -> None:
    path = path_of(ObjectKey(key))
    assert key_of(path) == key


@given(texts)
def test_a_path_stays_inside_and_is_plain(key: str) -> None:
    path = path_of(ObjectKey(key))
    assert not path.is_absolute()
    for part in path.parts:
        assert not part.startswith(".")
        assert part.isascii()
        assert part == part.lower(), "told apart on every file system"
        assert part.isprintable()


@given(texts, texts)
def test_no_object_is_in_the_way_of_another(one: str, other: str) -> None:
    assume(one != other)
    assert path_of(ObjectKey(one)) != path_of(ObjectKey(other))
    assert path_of(ObjectKey(one)) not in path_of(ObjectKey(other)).parents


@given(texts, st.integers(0, 20))
def test_a_prefix_s_folder_is_above_all_its_objects(key: str, length: int) -> None:
    folder = folder_of_prefix(key[:length])
    assert folder in path_of(ObjectKey(key)).parents


@given(st.text(min_size=1))
def test_any_text_is_a_key_or_refused(key: str) -> None:
    try:
        path = path_of(ObjectKey(key))
    except BadInput:
        return
    assert key_of(path) == key
