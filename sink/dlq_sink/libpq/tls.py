"""Whether a server must speak TLS, and the TLS context for it. Connects to nothing."""

from __future__ import annotations

import os
import ssl
import stat
from collections.abc import Mapping
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Any

from dlq_sink.error import BadTarget

_VERSIONS = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}


def is_loopback(address: str) -> bool:
    """Of an IP address, never of a name: what a name means is up to whoever answers for it."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return (mapped or found).is_loopback


def mode_for(said: str | None, address: str) -> str:
    """The sslmode in force for a TCP address: what was said, else TLS is a must everywhere but on this machine."""
    return said or ("prefer" if is_loopback(address) else "require")


class NamedContext(ssl.SSLContext):
    """Verifies the server by the name that was asked for, whatever address it was found at."""

    server_name: str | None = None

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        return super().wrap_bio(*args, **{**options, "server_hostname": self.server_name})


def context_for(mode: str, name: str, values: Mapping[str, str], home: Path | None = None) -> NamedContext:
    """Raises BadTarget for a file that cannot be used; `name` is the host as it was asked for."""
    folder = (home or Path.home()) / ".postgresql"
    context = NamedContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        if mode in ("require", "verify-ca", "verify-full"):
            _verify(context, mode, values, folder)
        if values.get("sslcertmode") != "disable":
            _show_certificate(context, values, folder)
    except (OSError, ValueError):  # ssl.SSLError is an OSError
        raise BadTarget("a file of sslrootcert, sslcrl, sslcert or sslkey cannot be read or used") from None
    context.check_hostname = mode == "verify-full"
    context.minimum_version = _VERSIONS[values.get("ssl_min_protocol_version") or "TLSv1.2"]
    if newest := values.get("ssl_max_protocol_version"):
        context.maximum_version = _VERSIONS[newest]
    context.set_alpn_protocols(["postgresql"])
    if values.get("sslsni") == "0" and mode == "verify-full":
        raise BadTarget("sslsni=0 is not supported together with sslmode=verify-full")
    # An address is no name to ask for, but it can be what a certificate is made out to.
    context.server_name = name if values.get("sslsni") != "0" and (context.check_hostname or _is_name(name)) else None
    return context


def _is_name(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return bool(text)
    return False


def _verify(context: ssl.SSLContext, mode: str, values: Mapping[str, str], folder: Path) -> None:
    root = values.get("sslrootcert") or str(folder / "root.crt")
    if root == "system":
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_default_certs()
    elif "sslrootcert" in values or os.path.exists(root):  # noqa: PTH110 - a str, as the ssl module takes it
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cafile=root)
    elif mode != "require":
        raise BadTarget(f"sslmode={mode} needs the authority's certificate: sslrootcert=FILE or sslrootcert=system")
    crl, directory = values.get("sslcrl") or str(folder / "root.crl"), values.get("sslcrldir")
    if context.verify_mode is ssl.CERT_REQUIRED and ("sslcrl" in values or directory or os.path.exists(crl)):  # noqa: PTH110
        if not directory or "sslcrl" in values:
            context.load_verify_locations(cafile=crl)
        if directory:
            context.load_verify_locations(capath=directory)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN


def _show_certificate(context: ssl.SSLContext, values: Mapping[str, str], folder: Path) -> None:
    certificate = values.get("sslcert") or str(folder / "postgresql.crt")
    key = values.get("sslkey") or str(folder / "postgresql.key")
    if "sslcert" not in values and not os.path.exists(certificate):  # noqa: PTH110
        return
    found = Path(key).stat()
    others = stat.S_IRWXO | stat.S_IRWXG if found.st_uid != 0 else stat.S_IRWXO | stat.S_IWGRP | stat.S_IXGRP
    if found.st_mode & others:
        raise BadTarget("the file of sslkey may be read by others: chmod 0600 it")
    context.load_cert_chain(certificate, keyfile=key, password=lambda: values.get("sslpassword", ""))
