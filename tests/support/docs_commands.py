"""The `pleroma` commands that the docs have in blocks of shell: what follows `pleroma`, up to a pipe or a comment."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "deploy").rglob("*.md"))]
SHELL_BLOCK = re.compile(r"^```(?:sh|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PLEROMA = re.compile(r"(?:^|[|&;]\s*|\bsudo\s+(?:-\S+\s+)*|\$\s|\$\()(?:scripts/)?pleroma\s(?P<rest>[^|&;]*)")


def arguments_in(line: str) -> Iterator[str]:
    """The arguments of every `pleroma` in a line of shell, as they are written."""
    quoted = re.sub(r"'[^']*'|\"[^\"]*\"", lambda found: re.sub(r"[|&;#]", "\0", found.group()), line)
    bare = re.sub(r"(^|\s)#.*", "", quoted)
    for found in PLEROMA.finditer(bare):
        begin, end = found.span("rest")
        yield line[begin:end].strip().removesuffix(")")


def commands_in(page: Path) -> Iterator[str]:
    for block in SHELL_BLOCK.findall(page.read_text(encoding="utf-8")):
        for line in block.replace("\\\n", " ").splitlines():
            yield from arguments_in(line)


LISTED = sorted({command for page in PAGES for command in commands_in(page)})
