"""What a run left behind: its record, by the digest of its specification. No torch here."""

from lln.core.canonical import canonical, digest, number, numbers
from lln.paper.records.schema import DONE, FAILED, Record, Timing
from lln.paper.records.store import Entry, RecordStore, read_blocks, read_records, read_times, replace_file

__all__ = [
    "DONE",
    "FAILED",
    "Entry",
    "Record",
    "RecordStore",
    "Timing",
    "canonical",
    "digest",
    "number",
    "numbers",
    "read_blocks",
    "read_records",
    "read_times",
    "replace_file",
]
