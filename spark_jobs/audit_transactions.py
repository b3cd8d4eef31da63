"""audit_transactions: find out whether the transactions that hold offsets will end, and list all transactional ids.

The job only reads from the cluster. It archives what is new in __transaction_state.
"""

from sexton.as_text import now_ms
from sexton.audits import audit_transactions
from sexton.job_params import TransactionRequest
from sexton.lake.catalog import open_lake
from sexton.pipeline import job
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder


def run(asked: TransactionRequest, folder: RunFolder) -> audit_transactions.TransactionAudit:
    with Engine(iceberg=True) as engine:
        return audit_transactions.run(engine, folder, open_lake(), asked, as_of_ms=asked.now, now_ms=now_ms)


if __name__ == "__main__":
    job.program("audit_transactions", __doc__, run)
