"""README and docs/ as pages: every link and anchor leads somewhere, and no page loads anything."""

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import browser
from beside import module_at
from common.errors import UserError
from common.yamlfiles import read_yaml


@pytest.fixture(scope="module")
def build(repository) -> ModuleType:
    return module_at(repository / "docs/build.py")


@pytest.fixture(scope="module")
def pages(repository, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("docs") / "pages"
    done = subprocess.run(
        [sys.executable, "docs/build.py", "--out", str(out)], cwd=repository, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"Open: {out}/index.html\n"
    return out


def test_every_page_is_built_and_can_be_reached_from_the_first(build, repository, pages):
    names = {page.name for page in pages.iterdir()}
    assert len(names) == len(list((repository / "docs").glob("*.md"))) + 1 + len(build.LAST)
    html = (pages / "index.html").read_text(encoding="utf-8")
    assert names <= set(build.Links(html).links)
    assert '<a href="real.html"><code>docs/real.md</code></a>' in html, "a page that is named is not linked"
    assert "<table>" in html and '<h2 id="start">' in html
    assert "<sup>a</sup>" in html, "the letters of notes in a table of results"
    for page in pages.iterdir():
        text = page.read_text(encoding="utf-8")
        assert build.Links(text).loads == [] and "&lt;sup" not in text


def test_links_of_the_sources_lead_somewhere_on_github_too(repository):
    for path in [repository / "README.md", *(repository / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#\s]+)", path.read_text(encoding="utf-8")):
            assert re.match(r"https?:", target) or (path.parent / target).exists(), f"{path.name}: {target}"


def test_readme_and_its_drawing_count_claims_and_tasks_as_they_are(repository):
    claims = len(read_yaml(repository / "config/claims.yaml", "claims")["claims"])
    tasks = [read_yaml(path, path.name) for path in sorted((repository / "config/tasks").glob("*.yaml"))]
    drawing = (repository / "docs/stages.svg").read_text(encoding="utf-8")
    readme = (repository / "README.md").read_text(encoding="utf-8")
    assert f">{claims} claims,<" in drawing and f"**Claims**: {claims} things" in readme
    others = {task["task"] for task in tasks if task["kind"] == "translation"} | {"flores"}  # named beside the eleven
    assert len(tasks) - len(others) == 11 and ">11 tasks and<" in drawing and "Eleven tasks" in readme


@pytest.mark.parametrize(
    ("html", "says"),
    [
        ('<a href="b.html">b</a>', "the link to b.html leads nowhere"),
        ('<a href="#there">there</a>', "the link to #there leads nowhere"),
        ('<a href="a.html#there">there</a>', "the link to a.html#there leads nowhere"),
        ('<img src="https://example.org/a.png">', "loads https://example.org/a.png"),
        ('<script src="a.js"></script>', "loads a.js"),
        ('<link rel="stylesheet" href="https://example.org/a.css">', "loads https://example.org/a.css"),
    ],
)
def test_a_link_to_nowhere_and_what_loads_are_refused(build, html, says):
    build.check({"a.html": '<h1 id="here">a</h1><a href="#here">here</a><a href="https://example.org">away</a>'})
    with pytest.raises(UserError, match=re.escape(says)):
        build.check({"a.html": html})


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("see `docs/b.md`", '<a href="b.html"><code>docs/b.md</code></a>'),
        ("see [b](b.md#part)", '<a href="b.html#part">b</a>'),
        ("see [`docs/b.md`](b.md)", '<a href="b.html"><code>docs/b.md</code></a>'),
        ("## Part\n\n## Part", '<h2 id="part">Part</h2>\n<h2 id="part-1">'),
        ("see `docs/c.md`", "names `docs/c.md`, which is not there"),
        ("see [c](c.md)", "the link to c.md leads to no page"),
        ("![d](d.svg)", '<p><svg class="d"><title>d</title></svg></p>'),
        ("![what it shows](e.svg)", '<p><svg class="e" role="img" aria-label="what it shows"><g/></svg></p>'),
        ("![e](https://example.org/e.svg)", "the picture https://example.org/e.svg is no SVG file of this repository"),
    ],
)
def test_names_and_links_of_pages_are_links(build, monkeypatch, tmp_path, text, made):
    monkeypatch.setattr(build, "REPOSITORY", tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text(f"# A\n\n{text}\n", encoding="utf-8")
    (tmp_path / "docs/d.svg").write_text("<svg><title>d</title></svg>", encoding="utf-8")
    (tmp_path / "docs/e.svg").write_text("<?xml?>\n<svg><g/></svg>", encoding="utf-8")
    names = {"docs/a.md": "a.html", "docs/b.md": "b.html"}
    if made.startswith("<"):
        title, html = build.rendered("docs/a.md", names)
        assert title == "A" and made in html
    else:
        with pytest.raises(UserError, match=re.escape(made)):
            build.rendered("docs/a.md", names)


@pytest.mark.skipif(browser.executable() is None, reason="no Chromium: apt-get install chromium")
def test_pages_open_from_disk_and_ask_for_nothing(pages, tmp_path):
    with browser.chromium(tmp_path / "profile") as chromium:
        for page in sorted(pages.iterdir()):
            for scheme in ("light", "dark"):
                chromium.media("screen", scheme)
                chromium.open(page, width=360, height=700)
                assert chromium.complaints == [] and chromium.requests == [page.resolve().as_uri()]
                assert chromium.evaluate("document.documentElement.scrollWidth") <= 360, page.name


@pytest.mark.skipif(browser.executable() is None, reason="no Chromium: apt-get install chromium")
def test_a_drawing_takes_no_style_of_another(pages, tmp_path):
    """The letters of the figure are paths, which the drawing above it has without a filling."""
    fill = "getComputedStyle(document.querySelector('svg.{} path')).fill"
    letter = "getComputedStyle(document.querySelector('svg.real [id^=text_] use, svg.real [id^=text_] path')).fill"
    with browser.chromium(tmp_path / "profile") as chromium:
        chromium.open(pages / "index.html", width=1000, height=700)
        assert chromium.evaluate(fill.format("stages")) == "none"
        assert chromium.evaluate(letter) == "rgb(0, 0, 0)"


def test_versions_are_those_of_the_tests(repository):
    ours = [line for line in (repository / "docs/requirements.txt").read_text().splitlines() if line[0] != "#"]
    assert ours and set(ours) <= set((repository / "tests/requirements.txt").read_text().splitlines())
