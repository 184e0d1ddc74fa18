"""All that exists for the paper alone: studies, printed values, records, verdicts, report, theory."""
