"""The parts of pages that are made of the product's own tables are as the tables are now."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def _pages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pages", ROOT / ".ci" / "pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGES = _pages()


@pytest.mark.parametrize(("name", "mark"), PAGES.PARTS)
def test_a_page_is_as_its_table(name: str, mark: str) -> None:
    assert (ROOT / name).read_text() == PAGES.renewed(name, mark), "make pages writes it anew"
