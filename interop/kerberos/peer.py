"""A peer that makes and takes tokens by MIT's library, on orders of peer.go.

An order is a letter, the length of its argument in four bytes, and the argument.
The answer is "+" and a result, or "-" and the words of an error, in the same form.
"""

import json
import struct
import sys

import gssapi
from gssapi import raw
from gssapi.raw import IOV, IOVBufferType

KERBEROS = gssapi.OID.from_int_seq("1.2.840.113554.1.2.2")
FLAGS = {
    "mutual": gssapi.RequirementFlag.mutual_authentication,
    "delegate": gssapi.RequirementFlag.delegate_to_peer,
    "replay": gssapi.RequirementFlag.replay_detection,
    "sequence": gssapi.RequirementFlag.out_of_sequence_detection,
    "integrity": gssapi.RequirementFlag.integrity,
    "confidentiality": gssapi.RequirementFlag.confidentiality,
}

context = None


def initiate(arg):
    """A new initiator: its first token."""
    global context
    order = json.loads(arg)
    name = gssapi.Name(order["service"], gssapi.NameType.hostbased_service)
    bindings = None
    if "bindings" in order:
        bindings = raw.ChannelBindings(application_data=bytes.fromhex(order["bindings"]))
    context = gssapi.SecurityContext(
        name=name, mech=KERBEROS, usage="initiate", channel_bindings=bindings,
        flags=[FLAGS[f] for f in order["flags"]],
    )
    return context.step()


def complete(arg):
    """The acceptor's answer completes the initiator."""
    if context.step(arg) is not None or not context.complete:
        raise ValueError("the context is not complete")
    return b""


def pair(arg):
    """Both ends here: this peer stays the acceptor, and the initiator's keys go out."""
    global context
    first = initiate(arg)
    initiator, context = context, gssapi.SecurityContext(usage="accept")
    answer = context.step(first)
    if answer is not None:
        initiator.step(answer)
    lucid = raw.krb5_export_lucid_sec_context(initiator, 1)
    keys = lucid.cfx_kd
    subkey = keys.acceptor_subkey is not None
    kind, key = keys[2:] if subkey else keys[:2]
    return json.dumps({
        "subkey": subkey, "enctype": kind, "key": key.hex(), "sequence": lucid.send_seq, "end": lucid.endtime,
    }).encode()


def wrap(arg):
    return context.wrap(arg, True).message


def wrap_rotated(arg):
    """A token whose trailer is in front of the message: it has a rotation."""
    iov = IOV((IOVBufferType.header, True), (IOVBufferType.data, False, arg), std_layout=False)
    raw.wrap_iov(context, iov, confidential=True)
    return b"".join(b.value for b in iov)


def wrap_clear(arg):
    return context.wrap(arg, False).message


def unwrap(arg):
    result = context.unwrap(arg)
    if not result.encrypted:
        raise ValueError("the token is not encrypted")
    return result.message


def sign(arg):
    return context.get_signature(arg)


def verify(arg):
    (size,) = struct.unpack(">I", arg[:4])
    context.verify_signature(arg[4 + size:], arg[4:4 + size])
    return b""


ORDERS = {
    b"i": initiate, b"c": complete, b"p": pair, b"w": wrap, b"r": wrap_rotated, b"o": wrap_clear,
    b"u": unwrap, b"s": sign, b"v": verify,
}


def main():
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    while head := stdin.read(5):
        arg = stdin.read(struct.unpack(">I", head[1:])[0])
        try:
            sign_, answer = b"+", ORDERS[head[:1]](arg)
        except Exception as e:  # the words are what the test wants
            sign_, answer = b"-", f"{type(e).__name__}: {e}".encode()
        stdout.write(sign_ + struct.pack(">I", len(answer)) + answer)
        stdout.flush()


main()
