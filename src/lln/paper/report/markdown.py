"""The report as Markdown, figures linked from the folder beside it."""

from __future__ import annotations

from lln.paper.report.document import Document


def to_markdown(document: Document) -> str:
    """The whole report as one Markdown text."""
    lines = [f"# {document.title}", ""]
    for section in document.sections:
        lines += [f"## {section.title}", ""]
        for paragraph in section.text:
            lines += [paragraph, ""]
        lines += [*(f"- {point}" for point in section.points), *([""] if section.points else [])]
        for part in section.tables:
            lines += [part.table.to_markdown(), ""]
            for note in part.notes:
                lines += [note, ""]
        for picture in section.pictures:
            lines += [f"![{picture.caption}](figures/{picture.name}.svg)", "", f"*{picture.caption}*", ""]
    return "\n".join(lines)
