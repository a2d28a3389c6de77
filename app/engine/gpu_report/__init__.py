"""What a CUDA card does: `bench --gpu-report`. Importing this brings torch."""

from app.engine.gpu_report.plan import Plan, ReplySet
from app.engine.gpu_report.report import check_device, read_goals, write_report

__all__ = ["Plan", "ReplySet", "check_device", "read_goals", "write_report"]
