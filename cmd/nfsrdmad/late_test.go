package main

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma"
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

// TestTransportErrors checks that a daemon with an exports file does not start if no port serves NFS, or
// after an error that only another configuration remedies.
func TestTransportErrors(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0") // its number is free for UDP
	require.NoError(t, err)
	defer tcp.Close()
	at := tcp.Addr().String()
	file := writeExports(t, t.TempDir(), t.TempDir()+" *(rw,insecure)\n")
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"only UDP": {[]string{"--listen", at, "--tcp", at, "--portmap", "127.0.0.1:0"}, "the port is in use; choose another with --listen"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			var stderr strings.Builder
			status := run(ctx, append([]string{"serve", "--state", t.TempDir(), "--control", "", "--exports", file}, tt.args...), io.Discard, &stderr)
			assert.Equal(t, cli.ExitError, status)
			assert.Contains(t, stderr.String(), tt.want)
		})
	}
}

// TestLateUDP checks that UDP listens later on TCP's port, which a socket unit chose, and that the
// service manager is told then.
func TestLateUDP(t *testing.T) {
	tcp, at := newListenerFile(t)
	other, err := net.ListenPacket("udp", at)
	require.NoError(t, err)
	defer other.Close()
	m := newFakeManager(t, filepath.Join(t.TempDir(), "notify"))
	file := writeExports(t, t.TempDir(), t.TempDir()+" *(rw,insecure)\n")
	p := startAsService(t, m.sock.LocalAddr().String(), []string{"tcp"}, []*os.File{tcp}, "--portmap", "127.0.0.1:0", "--exports", file)
	status := "STATUS=Serving 1 exports on rdma " + p.transportAddr(t, "rdma") + ", tcp " + at + ", udp "
	assert.Equal(t, "READY=1\n"+status+"127.0.0.1:0 (not listening yet)", m.nextNotification())
	require.NoError(t, other.Close())
	assert.Equal(t, status+at, m.nextNotification())
	require.NoError(t, p.cmd.Process.Signal(unix.SIGTERM))
	assert.Equal(t, cli.ExitOK, p.waitExit().ExitStatus())
}

// TestLateDiscovery checks that discovery describes a transport from when it listens.
func TestLateDiscovery(t *testing.T) {
	server, err := nfsrdma.NewServer(nfsrdma.ServerConfig{})
	require.NoError(t, err)
	defer server.Close()
	late := &lateTransport{transportOpener: transportOpener{name: "rdma", addr: ":20049"}}
	p := &runningDaemon{server: server, late: []*lateTransport{late}}
	assert.False(t, p.describeServer().RDMA.IsValid())
	at := netip.MustParseAddrPort("192.0.2.1:20049")
	require.True(t, late.setOpened(&cli.Endpoint{Name: "rdma", Addr: net.TCPAddrFromAddrPort(at)}))
	assert.Equal(t, at, p.describeServer().RDMA)
}
