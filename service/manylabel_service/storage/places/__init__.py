"""Places of archives and blobs: immutable objects in a directory, or in a bucket."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from manylabel_service.storage.address import check_place
from manylabel_service.storage.places.files import FilePlace
from manylabel_service.storage.places.place import ARCHIVE, Place


def open_place(address: str, title: str = ARCHIVE) -> Place:
    """Return the place at an address; `title` precedes the address in the messages of errors.

    Raises
    ------
    ValueError
        The address is invalid. The message does not repeat it.
    """
    check_place(address, title)
    if address.startswith("s3://"):
        try:  # imported here, because it needs an extra, and the fork server must not import it
            from manylabel_service.storage.places.objects import ObjectPlace
        except ModuleNotFoundError as error:
            raise ValueError(f"{title} at s3:// needs pip install 'manylabel[archive]' ({error})") from None

        return ObjectPlace(address, title)
    return FilePlace(Path(unquote(urlsplit(address).path)), title)
