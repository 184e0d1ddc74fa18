"""Studies: the paper's settings and printed numbers as data, and what is computed beside them."""

from lln.records.printed import all_depths, deployments, depth40, ratio_rows
from lln.study.audit import Ratio, audit_ratios

__all__ = ["Ratio", "all_depths", "audit_ratios", "deployments", "depth40", "ratio_rows"]
