package main

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/tls"
	"fmt"
	"net"
)

// Roles for TLS without RPC.
const (
	tlsServerRole = "tlsserver"
	tlsClientRole = "tlsclient"
	gcmRole       = "gcm"
)

// runTLSServer sends a file from its mapping through crypto/tls, without RPC, 1 MiB
// at a time. Its arguments are the file, and the directory with the certificate.
func runTLSServer(args []string) error {
	cfg, err := plainTLSConfig(args[1])
	if err != nil {
		return err
	}
	l, err := listenReno()
	if err != nil {
		return err
	}
	file, err := mapFile(args[0])
	if err != nil {
		return err
	}
	fmt.Printf("ready tls=%s\n", l.Addr())
	return serveEach(l, func(c net.Conn) { sendRepeatedly(tls.Server(c, cfg), file) })
}

// sendRepeatedly sends a file's blocks in a loop, until an error.
func sendRepeatedly(c net.Conn, file []byte) {
	for n := 0; ; n = (n + blockSize) % len(file) {
		if _, err := c.Write(file[n:][:blockSize]); err != nil {
			return
		}
	}
}

// runTLSClient reads the stream from a runTLSServer process. Its arguments are the
// server's address, the directory with the certificate, and the time.
func runTLSClient(args []string) error {
	cfg, err := plainTLSConfig(args[1])
	if err != nil {
		return err
	}
	c, err := dialReno(args[0])
	if err != nil {
		return err
	}
	defer c.Close()
	return readStream(tls.Client(c, cfg), args[2])
}

// tlsRecordSize is a full TLS record's size in bytes.
const tlsRecordSize = 16 << 10

// runGCM seals and opens blocks as TLS records with AES-128-GCM, like a
// connection's two ends. Its arguments are an unused one, and the time.
func runGCM(args []string) error {
	b, err := aes.NewCipher(make([]byte, 16))
	if err != nil {
		return err
	}
	a, err := cipher.NewGCM(b)
	if err != nil {
		return err
	}
	text := make([]byte, pipelineDepth*blockSize)
	sealed := make([]byte, 0, tlsRecordSize+a.Overhead())
	nonce, header := make([]byte, a.NonceSize()), make([]byte, 5)
	k, err := startClock(args[1])
	if err != nil {
		return err
	}
	for at := 0; ; at = (at + blockSize) % len(text) {
		for n := 0; n < blockSize; n += tlsRecordSize {
			part := text[at+n:][:tlsRecordSize]
			sealed = a.Seal(sealed[:0], nonce, part, header)
			if _, err := a.Open(part[:0], nonce, sealed, header); err != nil {
				return err
			}
		}
		if !k.recordOp(blockSize) {
			return k.printResult()
		}
	}
}
