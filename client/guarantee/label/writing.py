"""Writing a label: of a certificate that holds, and of nothing else."""

from pathlib import Path

from fedboard.client.guarantee.evidence import Evidence
from fedboard.client.guarantee.holding import require_holds
from fedboard.client.guarantee.label.content import Label, label_of
from fedboard.client.guarantee.label.page import label_page
from fedboard.client.guarantee.label.picture import label_picture
from fedboard.common.errors import InputError
from fedboard.common.files import write_atomically

FORMS = {".svg": label_picture, ".html": label_page}


def write_label(path: Path, evidence: Evidence) -> Label:
    """Verify, and write the label.

    Args:
        path: ends in .svg or .html; replaced where it is there.
        evidence: what is there of the run.

    Raises:
        FedboardError: it does not hold.
        InputError: another kind of file, or nothing was released yet.
    """
    form = FORMS.get(path.suffix.lower())
    if form is None:
        raise InputError(f"{path}: a label is written as .svg or .html, by the end of the file's name")
    require_holds(evidence, "no label is written")
    label = label_of(evidence.certificate)
    write_atomically(path, form(label).encode("utf-8"))
    return label
