"""Reports: one run as a self-contained page, many runs as a privacy-utility frontier."""

from fedboard.simulations.reports.page import simulation_sections, write_report

__all__ = ["simulation_sections", "write_report"]
