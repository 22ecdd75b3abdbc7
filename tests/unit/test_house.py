"""The house rules: one meaning a name, files and folders that can be read, no section banners, no private citations."""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

HOUSE = Path(__file__).resolve().parents[2] / "src" / "pleroma"
MAX_LINES = 450
MAX_MODULES = 24

NAMED_AFTER_THEIR_SUBJECT = ("cli/commands", "service/http/resources", "service/http/models")
"""Folders whose files bear the name of what a command or a resource is about, whatever else has it."""

BLOCKING_TWINS = {"Client", "Publisher", "Subscription"}
"""`pleroma.client.blocking` has the asynchronous client's classes again, under the same names."""


@cache
def modules():
    """The parsed files of the house, by their path in it."""
    paths = sorted(HOUSE.rglob("*.py"))
    return {path.relative_to(HOUSE).as_posix(): ast.parse(path.read_text()) for path in paths}


def shared(names):
    """Of names with the place each is defined at, those that are defined twice."""
    places = defaultdict(list)
    for name, place in names:
        places[name].append(place)
    return {name: found for name, found in places.items() if len(found) > 1}


def classes():
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not (path == "client/blocking.py" and node.name in BLOCKING_TWINS):
                yield node.name, path


def constants():
    """Public constants of modules. Type variables are no constants."""
    for path, tree in modules().items():
        for node in tree.body:
            value = getattr(node, "value", None)
            if isinstance(value, ast.Call) and getattr(value.func, "id", None) in ("TypeVar", "ParamSpec"):
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for target in targets:
                for each in target.elts if isinstance(target, ast.Tuple) else [target]:
                    if isinstance(each, ast.Name) and each.id.isupper() and not each.id.startswith("_"):
                        yield each.id, path


def named_modules():
    for path in modules():
        folder, _, file = path.rpartition("/")
        if folder not in NAMED_AFTER_THEIR_SUBJECT and file not in ("__init__.py", "__main__.py"):
            yield file.removesuffix(".py"), path


def test_a_class_name_has_one_meaning():
    assert shared(classes()) == {}


def test_a_constant_has_one_meaning():
    assert shared(constants()) == {}


def test_a_module_name_has_one_meaning():
    assert shared(named_modules()) == {}


def test_a_file_is_short_enough_to_be_one_idea():
    lines = {path: len((HOUSE / path).read_text().splitlines()) for path in modules()}
    assert {path: count for path, count in lines.items() if count > MAX_LINES} == {}


def test_a_folder_has_few_enough_modules_to_be_one_room():
    folders = defaultdict(list)
    for path in modules():
        folder, _, file = path.rpartition("/")
        if file != "__init__.py":
            folders[folder].append(file)
    assert {folder: len(files) for folder, files in folders.items() if len(files) > MAX_MODULES} == {}


def test_a_file_has_no_section_banners():
    banner = re.compile(r"^\s*# --+ .* --+$", re.MULTILINE)
    assert [path for path in modules() if banner.search((HOUSE / path).read_text())] == []


def test_a_citation_names_the_publication():
    assert [path for path in modules() if "papers/00" in (HOUSE / path).read_text()] == []
