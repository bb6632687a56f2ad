"""Which item of a catalogue a rating is about: by id, or by the title that was typed before there was a board."""

from collections.abc import Iterable

from fedboard.client.recommending.catalogue_search import ItemIndex
from fedboard.common.board import Catalogue


def placed_items(items: Iterable[str], catalogue: Catalogue) -> dict[str, int]:
    """Item as the store names it -> its number in the catalogue; what is on no item is left out.

    An id goes before a title that reads the same. A title that several items share is on none of them. Where two
    entries of the store name one item, the id counts, or else the first in the order of the store.

    Args:
        items: as the store has them. Private.
        catalogue: of the board. Public.
    """
    own = list(items)
    numbers = {item_id: number for number, item_id in enumerate(catalogue.item_ids)}
    found = {item: numbers[item] for item in own if item in numbers}
    others = [item for item in own if item not in numbers]
    if others and catalogue.titles is not None:
        index, taken = ItemIndex(catalogue), set(found.values())
        for item in others:
            number = index.titled(item)
            if number is not None and number not in taken:
                found[item] = number
                taken.add(number)
    return found
