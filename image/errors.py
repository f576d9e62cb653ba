"""
Errors of building the image.

    ImageError    what keeps the image from being built, in one sentence
"""


class ImageError(Exception):
    """The image can't be built; the text says why."""
