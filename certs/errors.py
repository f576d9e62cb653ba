"""
Errors of certificates.

    VkubeletError
    └── CertificateError     a key, certificate or their files can't be used; says which and why
        └── NotIssuedError   a signing request was denied, failed, or not answered in time
"""

from vkubelet.errors import VkubeletError


class CertificateError(VkubeletError):
    """A key, a certificate or their files can't be used."""


class NotIssuedError(CertificateError):
    """A signing request came to nothing; another one may succeed."""
