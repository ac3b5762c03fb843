package main

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/tls"
	"fmt"
	"net"
)

// Roles of TLS without RPC.
const (
	tlsServerRole = "tlsserver"
	tlsClientRole = "tlsclient"
	gcmRole       = "gcm"
)

// tlsServer is crypto/tls alone: it sends a file from its mapping, 1 MiB at a time. Its
// arguments are the file, and the directory of the certificate.
func tlsServer(args []string) error {
	cfg, err := bareTLS(args[1])
	if err != nil {
		return err
	}
	l, err := listen()
	if err != nil {
		return err
	}
	file, err := mapped(args[0])
	if err != nil {
		return err
	}
	fmt.Printf("ready tls=%s\n", l.Addr())
	return each(l, func(c net.Conn) { send(tls.Server(c, cfg), file) })
}

// send sends a file's blocks over and over.
func send(c net.Conn, file []byte) {
	for n := 0; ; n = (n + block) % len(file) {
		if _, err := c.Write(file[n:][:block]); err != nil {
			return
		}
	}
}

// tlsClient reads the stream of a tlsServer. Its arguments are the server's address, the
// directory of the certificate, and the time.
func tlsClient(args []string) error {
	cfg, err := bareTLS(args[1])
	if err != nil {
		return err
	}
	c, err := dial(args[0])
	if err != nil {
		return err
	}
	defer c.Close()
	return stream(tls.Client(c, cfg), args[2])
}

// record is the number of bytes of a full record of TLS.
const record = 16 << 10

// gcm seals and opens the records of blocks with AES-128-GCM, as the two ends of a
// connection do. Its arguments are unused, and the time.
func gcm(args []string) error {
	b, err := aes.NewCipher(make([]byte, 16))
	if err != nil {
		return err
	}
	a, err := cipher.NewGCM(b)
	if err != nil {
		return err
	}
	text := make([]byte, depth*block)
	sealed := make([]byte, 0, record+a.Overhead())
	nonce, header := make([]byte, a.NonceSize()), make([]byte, 5)
	k, err := startClock(args[1])
	if err != nil {
		return err
	}
	for at := 0; ; at = (at + block) % len(text) {
		for n := 0; n < block; n += record {
			part := text[at+n:][:record]
			sealed = a.Seal(sealed[:0], nonce, part, header)
			if _, err := a.Open(part[:0], nonce, sealed, header); err != nil {
				return err
			}
		}
		if !k.tick(block) {
			return k.print()
		}
	}
}
