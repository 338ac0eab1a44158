"""Logs of real requests, read strictly: CSV, JSON lines, JSON and Parquet, in known forms or by column."""

from fairq.workload.readers.forms import FORMS, Columns, Form
from fairq.workload.readers.read import Account, Log, read_log

__all__ = ["FORMS", "Account", "Columns", "Form", "Log", "read_log"]
