"""A peer of RPC with TLS by OpenSSL, on an order of peer_test.go: one JSON object on
standard input. The result is one JSON object on standard output.

As a client it asks for TLS, shakes hands, and makes a call of procedure 0. As a server it
answers the probe, shakes hands, and answers such calls until the client hangs up.
"""

import json
import socket
import ssl
import struct
import sys

CALL, REPLY = 0, 1
AUTH_NONE, AUTH_TLS = 0, 7
STARTTLS = b"STARTTLS"


def record(message):
    return struct.pack(">I", 0x80000000 | len(message)) + message


def receive(sock):
    def exactly(n):
        data = b""
        while len(data) < n:
            more = sock.recv(n - len(data))
            if not more:
                raise EOFError("the peer hung up")
            data += more
        return data

    (mark,) = struct.unpack(">I", exactly(4))
    return exactly(mark & 0x7FFFFFFF)


def call(xid, flavor):
    return struct.pack(">10I", xid, CALL, 2, 100003, 3, 0, flavor, 0, AUTH_NONE, 0)


def context(order, purpose):
    ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT if purpose == "client" else ssl.PROTOCOL_TLS_SERVER)
    ctx.load_verify_locations(order["ca"])
    if order.get("max") == "1.2":
        ctx.maximum_version = ssl.TLSVersion.TLSv1_2
    if order.get("cert"):
        ctx.load_cert_chain(order["cert"], order["key"])
    if order.get("alpn"):
        ctx.set_alpn_protocols(order["alpn"])
    if purpose == "server":
        ctx.verify_mode = ssl.CERT_REQUIRED if order.get("mutual") else ssl.CERT_NONE
    return ctx


def facts(tls):
    return {"version": tls.version(), "cipher": tls.cipher()[0], "alpn": tls.selected_alpn_protocol()}


def client(order):
    sock = socket.create_connection(order["address"], timeout=30)
    sock.sendall(record(call(1, AUTH_TLS)))
    answer = receive(sock)
    if answer != struct.pack(">5I", 1, REPLY, 0, AUTH_NONE, 8) + STARTTLS + struct.pack(">I", 0):
        raise ValueError("the answer to the probe is " + answer.hex())
    tls = context(order, "client").wrap_socket(sock, server_hostname=order["host"])
    result = facts(tls)
    tls.sendall(record(call(2, AUTH_NONE)))
    result["reply"] = receive(tls).hex()
    tls.sendall(record(call(3, AUTH_TLS)))
    result["second"] = receive(tls).hex()
    result["tickets"] = tls.session.has_ticket
    tls.unwrap()
    return result


def server(order):
    listener = socket.create_server(("127.0.0.1", 0))
    print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
    sock, _ = listener.accept()
    sock.settimeout(30)
    probe = receive(sock)
    if probe[4:] != call(0, AUTH_TLS)[4:]:
        raise ValueError("the probe is " + probe.hex())
    sock.sendall(record(probe[:4] + struct.pack(">4I", REPLY, 0, AUTH_NONE, 8) + STARTTLS + struct.pack(">I", 0)))
    tls = context(order, "server").wrap_socket(sock, server_side=True)
    result = facts(tls)
    result["calls"] = 0
    try:
        while True:
            message = receive(tls)
            tls.sendall(record(message[:4] + struct.pack(">5I", REPLY, 0, AUTH_NONE, 0, 0)))
            result["calls"] += 1
    except (EOFError, ssl.SSLZeroReturnError) as end:
        result["end"] = type(end).__name__
    return result


def main():
    order = json.load(sys.stdin)
    try:
        result = {"client": client, "server": server}[order["role"]](order)
    except (OSError, ValueError, EOFError) as failure:
        result = {"error": f"{type(failure).__name__}: {failure}"}
    print(json.dumps(result), flush=True)


main()
