"""The package, and what an app finds in modules."""
from __future__ import annotations

import ast
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import pgqrs

CLIENT = pathlib.Path(__file__).parent.parent
TREE = CLIENT.parent.parent


def test_the_versions_of_client_package_and_extension_are_the_same():
    project = re.search(r'^version = "(.*)"', (CLIENT / 'pyproject.toml').read_text(), re.M)[1]
    extension = re.search(r"^default_version = '(.*)'", (TREE / 'pgqrs.control').read_text(), re.M)[1]
    assert pgqrs.__version__ == project == extension


def test_it_installs_without_a_network(tmp_path):
    shutil.copytree(CLIENT, tmp_path / 'python', ignore=shutil.ignore_patterns('__pycache__', 'build', '*.egg-info'))
    subprocess.run([sys.executable, '-m', 'pip', 'install', '--no-index', '--no-build-isolation', '--no-deps', '--no-compile', '-q',
                    '--disable-pip-version-check', '--root-user-action=ignore', '--target', tmp_path / 'to', tmp_path / 'python'],
                   check=True, env={'PATH': '/usr/bin:/bin', 'HOME': str(tmp_path)})
    there = {path.name for path in (tmp_path / 'to' / 'pgqrs').iterdir()}
    assert there == {path.name for path in (CLIENT / 'pgqrs').iterdir() if path.name != '__pycache__'}
    assert 'py.typed' in there


def test_it_stays_small():
    count = 0
    for path in (CLIENT / 'pgqrs').glob('*.py'):
        text = path.read_text()
        texts = {line for node in ast.walk(ast.parse(text))
                 if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
                 for line in range(node.lineno, node.end_lineno + 1)}
        count += sum(1 for n, line in enumerate(text.splitlines(), 1)
                     if line.strip() and not line.lstrip().startswith('#') and n not in texts)
    assert count <= 1500


def test_each_public_name_has_a_docstring():
    for item in (getattr(pgqrs, name) for name in pgqrs.__all__):
        assert isinstance(item, str) or item.__doc__ or issubclass(item, pgqrs.PgqrsError), item


def test_discover_finds_what_is_defined_in_the_scope_and_nothing_else(app, tmp_path, monkeypatch):
    package = tmp_path / 'store'
    (package / 'sub').mkdir(parents=True)
    (package / '__init__.py').write_text('')
    (package / 'orders.py').write_text('import pgqrs\n@pgqrs.workflow(name="store.order")\ndef order(ctx): return 1\n')
    (package / 'sub' / '__init__.py').write_text('from ..orders import order\nimport pgqrs\n@pgqrs.workflow\ndef mail(ctx): return 2\n')
    (tmp_path / 'other.py').write_text('import pgqrs\nfrom store.orders import order\n@pgqrs.workflow\ndef own(ctx): return 3\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    assert [w.name for w in app.discover('other')] == ['own']
    assert sorted(w.name for w in app.discover('store')) == ['mail', 'store.order']
    assert sorted(app.workflows) == ['mail', 'own', 'store.order']
    assert app.workflows['mail'](None) == 2
    with pytest.raises(pgqrs.PgqrsError, match="'own' has a handler already"):
        app.workflow(lambda ctx: 1, name='own')
