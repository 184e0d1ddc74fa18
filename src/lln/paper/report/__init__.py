"""The paper's tables and figures from records, beside the printed numbers. Reads records; runs nothing."""

from lln.paper.report.build import build_document, write_report
from lln.paper.report.compare import RULE, Verdict

__all__ = ["RULE", "Verdict", "build_document", "write_report"]
