"""An authority of a test, and certificates that it signed."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Authority:
    """A key and a certificate that signs others."""

    folder: Path

    @property
    def certificate(self) -> Path:
        """What clients verify servers with."""
        return self.folder / "ca.pem"

    def sign(self, name: str) -> dict[str, str]:
        """Options of a redis-server whose certificate is of this name."""
        key, request, signed = (self.folder / f"{name}.{end}" for end in ("key", "csr", "pem"))
        names = self.folder / f"{name}.ext"
        names.write_text(f"subjectAltName=DNS:{name}\n")
        _openssl("req", "-newkey", *_KIND, "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        signer = ("-CA", self.certificate, "-CAkey", self.folder / "ca.key", "-CAcreateserial")
        _openssl("x509", "-req", "-in", request, *signer, "-extfile", names, "-out", signed)
        return {
            "tls-cert-file": str(signed),
            "tls-key-file": str(key),
            "tls-ca-cert-file": str(self.certificate),
            "tls-auth-clients": "no",
        }


def make_authority(folder: Path) -> Authority:
    """An authority that nobody knows yet."""
    folder.mkdir()
    made = Authority(folder=folder)
    out = ("-keyout", folder / "ca.key", "-out", made.certificate)
    _openssl("req", "-x509", "-newkey", *_KIND, *out, "-subj", "/CN=authority of a test")
    return made


_KIND = ("ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def _openssl(*words: object) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)
