package main

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// TestLateTransport checks that a daemon whose port for TCP is in use serves RDMA, and TCP as soon
// as the port is free; that it ends while it waits; and that it does not start without any port.
func TestLateTransport(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer other.Close()
	at := other.Addr().String()
	dir := t.TempDir()
	file := writeExports(t, t.TempDir(), dir+" *(rw,insecure)\n")

	status, _, stderr := runCommand(t, "serve", "--state", t.TempDir(), "--listen", at, "--tcp", at, "--exports", file)
	assert.Equal(t, cli.ExitError, status)
	assert.Contains(t, stderr, "cannot listen on "+at+": the port is in use; choose another with --listen")
	status, _, _ = runCommand(t, "serve", "--state", t.TempDir(), "--listen", "127.0.0.1:0", "--tcp", at, dir)
	assert.Equal(t, cli.ExitError, status, "a user who names a directory corrects the port")

	t.Run("ends while it waits", func(t *testing.T) {
		s := startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", at, "--exports", file)
		assert.Contains(t, s.ready, "ready rdma=127.0.0.1:")
		assert.NotContains(t, s.ready, "tcp=")
	})
	t.Run("serves", func(t *testing.T) {
		control := filepath.Join(t.TempDir(), "control")
		startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", at, "--exports", file, "--control", control)
		_, text, _ := runCommand(t, "status", "--control", control)
		assert.Contains(t, text, at+" (not listening yet)")
		require.NoError(t, other.Close())
		var c net.Conn
		for end := time.Now().Add(30 * time.Second); c == nil; time.Sleep(10 * time.Millisecond) {
			require.True(t, time.Now().Before(end), "TCP is not served")
			c, _ = net.Dial("tcp", at)
		}
		defer c.Close()
		parseAccepted(t, tcpCall(t, c, encodeCall(1, 100003, 3, 0, nil)), 1, 0)
	})
}
