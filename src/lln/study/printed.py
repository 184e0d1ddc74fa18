"""The paper's own numbers; they are read by `lln.records.printed`."""

from lln.records.printed import RatioRow as RatioRow
from lln.records.printed import all_depths as all_depths
from lln.records.printed import deployments as deployments
from lln.records.printed import depth40 as depth40
from lln.records.printed import ratio_rows as ratio_rows
