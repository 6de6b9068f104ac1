"""The page of the client: its Python is one program, and does what the page says."""
from __future__ import annotations

import ast
import asyncio
import importlib
import pathlib
import re

from pgqrs import testing

PAGE = pathlib.Path(__file__).parent.parent.parent.parent / 'docs' / 'clients' / 'python.md'


def test_the_program_of_the_page_does_what_it_says(db, capsys, monkeypatch, tmp_path):
    db.execute('CREATE TABLE stock (item text, n int)')
    page = PAGE.read_text()
    program = '\n'.join(re.findall(r'^```python\n(.*?)^```$', page, re.M | re.S))
    (tmp_path / 'shop.py').write_text(program)
    monkeypatch.syspath_prepend(str(tmp_path))
    names = vars(importlib.import_module('shop'))
    names['test_ship']()
    asyncio.run(names['restock']())
    testing.drain(names['app'])
    said = re.search(r'`handle.result\(timeout=60\)` is `(.*)`', page)[1]
    assert names['handle'].result(0) == ast.literal_eval(said)
    assert names['secret'].codec.decode(names['secret'].codec.encode('abc')) == 'abc'
    assert capsys.readouterr().out == 'mail to ada\nmail to bob\n'
