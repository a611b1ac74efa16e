"""Certificates for tests over TLS."""

import subprocess
from pathlib import Path
from typing import NamedTuple


class Certificate(NamedTuple):
    """A certificate and its key, as paths of files."""

    file: str
    key: str


def new_certificate(
    folder: Path, name: str = "certificate", *, names: str = "IP:127.0.0.1", issuer: Certificate | None = None
) -> Certificate:
    """A certificate for these names, signed by itself or by another one."""
    made = Certificate(str(folder / f"{name}.pem"), str(folder / f"{name}.key"))
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-days", "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName={names}"]
    if issuer is not None:
        command += ["-CA", issuer.file, "-CAkey", issuer.key, "-addext", "basicConstraints=CA:FALSE"]
    command += ["-out", made.file, "-keyout", made.key]
    subprocess.run(command, check=True, capture_output=True)
    return made
