"""Takes files of the repository that pages link to into the site, each on a page of its own."""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import dirname, normpath, relpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

TOP = Path(__file__).parents[2]
# A link out of docs/, as it works where the repository is browsed.
LINK = re.compile(r"(?<=\]\()((?:\.\./)+[\w./-]+\w)(?=[)#])")
LANGUAGES = {".py": "python", ".avsc": "json"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file of the repository that a page links to."""
    linked = {
        _in_repository(page.src_uri, link)
        for page in files.documentation_pages()
        for link in LINK.findall(page.content_string)
    }
    for path in sorted(linked - {None}):
        files.append(File.generated(config, _page(path), content=_shown(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Let links out of docs/ lead to the pages of those files."""

    def inside(link: re.Match[str]) -> str:
        path = _in_repository(page.file.src_uri, link[1])
        return link[1] if path is None else relpath(_page(path), dirname(page.file.src_uri) or ".")

    return LINK.sub(inside, markdown)


def _in_repository(page: str, link: str) -> str | None:
    path = normpath(f"docs/{dirname(page)}/{link}")
    is_source = not path.startswith(("docs/", "../")) and (TOP / path).is_file()
    return path if is_source else None


def _page(path: str) -> str:
    return f"source/{path.removesuffix('.md')}.md"


def _shown(path: str) -> str:
    text = (TOP / path).read_text(encoding="utf-8")
    language = LANGUAGES.get(Path(path).suffix, "text")
    # The longest fence that a file here may have itself is three.
    return (
        f"---\ntitle: {Path(path).name}\nsearch:\n  exclude: true\n---\n"
        f"# {path}\n\n`````{language}\n{text}\n`````\n"
    )
