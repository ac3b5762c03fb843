package main

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// TestForeignPeers checks that the log names what connects to the wrong port, and that a peer which
// sends nothing is not worth a line.
func TestForeignPeers(t *testing.T) {
	s := startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "mem:=/x")
	send := func(transport, text string) {
		nc, err := net.Dial("tcp", s.transportAddr(t, transport))
		require.NoError(t, err)
		defer nc.Close()
		_, err = nc.Write([]byte(text))
		require.NoError(t, err)
		_ = nc.(*net.TCPConn).CloseWrite() // the daemon may have closed the connection
		_, _ = io.Copy(io.Discard, nc)     // until the daemon closes the connection
	}
	call := encodeCall(1, nfs3.Program, nfs3.Version, 0, nil)
	for _, text := range []string{
		"", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "SSH-2.0-x\r\n", "\x16\x03\x01\x00\xa5\x01\x00\x00", "garbage\n",
		string(append([]byte{0x80, 0, 0, byte(len(call))}, call...)),
	} {
		send("rdma", text)
	}
	send("tcp", "SSH-2.0-x\r\n")
	send("tcp", "MPA ID Req Frame")
	s.stop()
	status := <-s.status
	s.status <- status // for the cleanup
	require.Equal(t, cli.ExitOK, status)
	const start = `level=WARN msg="a peer does not speak RDMA on the port for RDMA" peer=127.0.0.1:\d+ err="iwarp: .*not an MPA key`
	for _, want := range []string{": the peer speaks HTTP", ": the peer speaks SSH", ": the peer speaks TLS", ": the peer speaks RPC over TCP", ""} {
		assert.Regexp(t, "(?m)"+start+want+`"$`, s.stderr.String())
	}
	assert.Regexp(t, "the peer speaks SSH on a port for RPC over TCP", s.stderr.String())
	assert.Regexp(t, `the peer speaks RDMA \(MPA\) on a port for RPC over TCP`, s.stderr.String())
	assert.Equal(t, 5, strings.Count(s.stderr.String(), "does not speak RDMA"))
}
