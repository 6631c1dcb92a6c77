"""Files of a report: their marks, and how they are written."""

import os

MARK = "<!-- written by trireme report -->"  # the first bytes of .md, .html and .svg files
SOFTWARE = "trireme report"  # the name in the metadata of .png files


class NotOurs(Exception):
    """A file of this name exists, and no report has written it."""


def is_ours(path):
    """Whether an earlier report wrote the file."""
    with open(path, "rb") as file:
        begin = file.read(4096)
    if path.endswith(".png"):
        return begin.startswith(b"\x89PNG") and b"Software\0" + SOFTWARE.encode() in begin
    return begin.startswith(MARK.encode())


def write(folder, files):
    """Writes all of the files, each atomically; writes none if a file of one of these names is not a report's."""
    os.makedirs(folder, exist_ok=True)
    for name in files:
        path = os.path.join(folder, name)
        if os.path.lexists(path) and (os.path.islink(path) or not os.path.isfile(path) or not is_ours(path)):
            raise NotOurs(path)
    for name, content in files.items():
        part = os.path.join(folder, f".{name}.trireme-part")
        with open(part, "wb") as file:
            file.write(content)
        os.replace(part, os.path.join(folder, name))
