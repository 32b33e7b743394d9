"""Certificates of the tests' own making, by the openssl program."""
import subprocess

EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc")


def openssl(*args):
    subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True, timeout=20)


class Authority:
    """A certificate authority in a folder; `ca` is its certificate."""

    def __init__(self, folder, name="ca"):
        self.folder, self.name = folder, name
        self.ca, self._key = folder / f"{name}.pem", folder / f"{name}.key"
        openssl("req", "-x509", *EC, "-days", "2", "-subj", f"/CN=tests {name}", "-keyout", self._key, "-out", self.ca,
                "-addext", "keyUsage=critical,keyCertSign")

    def sign(self, name, alternative="DNS:localhost,IP:127.0.0.1"):
        """(certificate, key) files of a new certificate."""
        key, asked, signed, extra = (self.folder / f"{name}.{end}" for end in ("key", "csr", "pem", "ext"))
        extra.write_text(f"subjectAltName={alternative}\nbasicConstraints=CA:FALSE\n")
        openssl("req", *EC, "-subj", f"/CN={name}", "-keyout", key, "-out", asked)
        openssl("x509", "-req", "-in", asked, "-CA", self.ca, "-CAkey", self._key, "-CAcreateserial", "-days", "1", "-extfile", extra, "-out", signed)
        return signed, key
