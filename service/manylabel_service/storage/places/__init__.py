"""Places of archives: immutable objects in a directory, or in a bucket."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from manylabel_service.storage.address import check_archive
from manylabel_service.storage.places.files import FilePlace
from manylabel_service.storage.places.place import Place


def open_place(address: str) -> Place:
    """Return the place at an address.

    Raises
    ------
    ValueError
        The address is invalid. The message does not repeat it.
    """
    check_archive(address)
    if address.startswith("s3://"):
        try:  # the module needs an extra, and the fork server must not import it
            from manylabel_service.storage.places.objects import ObjectPlace
        except ModuleNotFoundError as error:
            raise ValueError(f"an archive at s3:// needs pip install 'manylabel[archive]' ({error})") from None

        return ObjectPlace(address)
    return FilePlace(Path(unquote(urlsplit(address).path)))
