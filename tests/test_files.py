import pytest

from mvgpt.errors import InputError
from mvgpt.files import prepare_folder, read_json, replacing, write_json


def test_json_is_strict_and_whole(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"word": "ሰላም"})
    with pytest.raises(ValueError, match="JSON"):
        write_json(path, {"bad": float("nan")})
    assert read_json(path) == {"word": "ሰላም"}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def interrupt_half_way(path):
    with replacing(path) as (beside,):
        beside.write_text("half", encoding="utf-8")
        raise KeyboardInterrupt


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"old": 1})
    with pytest.raises(KeyboardInterrupt):
        interrupt_half_way(path)
    assert read_json(path) == {"old": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("content", [None, "", "[1]", "{", "\x00"])
def test_a_bad_json_is_named(tmp_path, content):
    path = tmp_path / "a.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match="a.json"):
        read_json(path)


def test_folders_are_created_or_named(tmp_path):
    prepare_folder(tmp_path / "new folder" / "é")
    assert not list((tmp_path / "new folder" / "é").iterdir())
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="cannot write to the folder"):
        prepare_folder(tmp_path / "file" / "folder")
