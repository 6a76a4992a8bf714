"""One word per thing: a class, or the name of a type, means the same wherever gossip uses it."""

import ast
from collections import defaultdict
from pathlib import Path

import gossip

SHARED = {
    "Command": "the options of a command, for each of them",
    "State": "what `init` begins and the next call is given, of an algorithm and of a damper",
}
"""Names that several modules may define, and the one thing that they are in all of them."""


def test_no_two_types_of_gossip_share_a_name():
    folder = Path(gossip.__file__).parent
    homes = defaultdict(list)
    for file in sorted(folder.rglob("*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            for name in types(node):
                homes[name].append(file.relative_to(folder).as_posix())
    several = {name: files for name, files in homes.items() if len(files) > 1}
    assert {name: files for name, files in several.items() if name not in SHARED} == {}
    assert several.keys() == SHARED.keys(), "a name that one module alone defines is not shared"


def types(node: ast.stmt) -> list[str]:
    """The types that a statement of a module defines: a class, or NewName = Callable[...]."""
    match node:
        case ast.ClassDef(name=name):
            return [] if name.startswith("_") else [name]
        case ast.Assign(targets=[ast.Name(id=name)]):
            # A constant is written in capitals, as is a type variable of one letter.
            return [name] if name[0].isupper() and not name.isupper() else []
    return []
