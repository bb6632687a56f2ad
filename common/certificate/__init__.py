"""Certificates: what a board promises its users, with every number needed to recompute the promise."""

from fedboard.common.certificate.record import Certificate, certify
from fedboard.common.privacy.accounting.guarantee import Composition, CurvePoint, Finding, Guarantee

__all__ = ["Certificate", "Composition", "CurvePoint", "Finding", "Guarantee", "certify"]
