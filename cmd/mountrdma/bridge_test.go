package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcbind"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// bridgeReady matches the ready line, which scripts depend on.
var bridgeReady = regexp.MustCompile(`^ready tcp=(\S+) portmap=(\S+) server=(\S+)\n$`)

// startBridge runs a bridge until stop, which returns its standard
// error.
func startBridge(t *testing.T, args ...string) (ready string, stop func() (stderr string)) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	out, stdout := io.Pipe()
	var stderr bytes.Buffer
	status := make(chan int, 1)
	go func() {
		defer stdout.Close()
		status <- run(ctx, append([]string{"bridge"}, args...), stdout, &stderr)
	}()
	ready, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("status %d, %s", <-status, &stderr)
	}
	return ready, func() string {
		end()
		assert.Equal(t, cli.ExitOK, <-status)
		return stderr.String()
	}
}

// TestBridge checks that a client can find the bridge by its portmapper, and
// read a file.
func TestBridge(t *testing.T) {
	r := newTestServer(t)
	data := randomBytes(300000, 1)
	writeFile(t, data, r.dir, "file")
	line, stop := startBridge(t, "--listen", "127.0.0.1:0", "--portmap", "127.0.0.1:0", "--insecure", r.addr)
	at := bridgeReady.FindStringSubmatch(line)
	require.NotNil(t, at, line)
	assert.Equal(t, r.addr, at[3])

	portmap, err := oncrpc.DialTCP(t.Context(), at[2], oncrpc.ClientConfig{})
	require.NoError(t, err)
	for _, p := range [][2]uint32{{nfs3.Program, nfs3.Version}, {mount3.Program, mount3.Version}} {
		port, err := rpcbind.GetPort(t.Context(), portmap, p[0], p[1], rpcbind.TCP)
		require.NoError(t, err)
		assert.Equal(t, at[1], (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(port)}).String())
	}
	require.NoError(t, portmap.Close())

	c, err := oncrpc.DialTCP(t.Context(), at[1], oncrpc.ClientConfig{})
	require.NoError(t, err)
	root, err := nfsclient.NewMount(c, nil).Mnt(t.Context(), "/x")
	require.NoError(t, err)
	fs, err := nfsclient.New(c, nfsclient.Config{}).FS(t.Context(), root, "")
	require.NoError(t, err)
	f, err := fs.Open(t.Context(), "file")
	require.NoError(t, err)
	got := make([]byte, len(data))
	_, err = f.ReadAt(t.Context(), got, 0)
	require.NoError(t, err)
	assert.Equal(t, data, got)
	require.NoError(t, c.Close())

	stderr := stop()
	assert.Contains(t, stderr, "MOUNT found")
	assert.NotContains(t, stderr, "WARN")
}

// TestBridgePorts checks that calls from unprivileged ports, which any user of
// this host may open, are denied without --insecure.
func TestBridgePorts(t *testing.T) {
	r := newTestServer(t)
	line, stop := startBridge(t, "--listen", "127.0.0.1:0", r.addr)
	addr, _, _ := strings.Cut(strings.TrimPrefix(line, "ready tcp="), " ")
	c, err := oncrpc.DialTCP(t.Context(), addr, oncrpc.ClientConfig{})
	require.NoError(t, err)
	assert.NoError(t, nfsclient.New(c, nfsclient.Config{}).Null(t.Context()))
	_, err = nfsclient.NewMount(c, nil).Mnt(t.Context(), "/x")
	assert.ErrorIs(t, err, rpcmsg.AuthTooWeak)
	require.NoError(t, c.Close())
	if isRoot() {
		c := oncrpc.NewTCPClient(dialReserved(t, addr), oncrpc.ClientConfig{})
		_, err = nfsclient.NewMount(c, nil).Mnt(t.Context(), "/x")
		assert.NoError(t, err)
		require.NoError(t, c.Close())
	}
	assert.Contains(t, stop(), "--insecure")
}

// dialReserved connects from a port that only root may open.
func dialReserved(t *testing.T, addr string) net.Conn {
	t.Helper()
	for port := 1023; port > 0; port-- {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}}
		c, err := d.DialContext(t.Context(), "tcp", addr)
		if errors.Is(err, unix.EADDRINUSE) {
			continue
		}
		require.NoError(t, err)
		return c
	}
	require.Fail(t, "all reserved ports are in use")
	return nil
}

func TestBridgeErrors(t *testing.T) {
	r := newTestServer(t)
	taken := listenTCP(t, func(net.Conn) {})
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--listen", taken, r.addr}, "cannot listen on " + taken + ": the port is in use; choose another with --listen"},
		{
			[]string{"--listen", "127.0.0.1:0", "--portmap", taken, r.addr},
			"cannot listen on " + taken + `: the port is in use; choose another with --portmap, or omit it and give clients the port, as in mount -o port=\d+,mountport=\d+`,
		},
		{[]string{"--listen", "127.0.0.1:0", taken}, taken + ": MPA start-up: the peer closed the connection .*"},
		{[]string{"--listen", "127.0.0.1:0", r.addr + "?mountport=1"}, `.*: MOUNT: .*\(TCP 127.0.0.1:1: .*connection refused\): .*correct mountport and mounthost`},
	} {
		assert.Regexp(t, "^mountrdma: "+tt.want+"\n$", mustFail(t, append([]string{"bridge"}, tt.args...)...))
	}
}

// TestBridgeEndsWithoutServer checks that a bridge does not wait at its end for
// an unreachable server.
func TestBridgeEndsWithoutServer(t *testing.T) {
	r := newTestServer(t)
	line, stop := startBridge(t, "--listen", "127.0.0.1:0", r.addr)
	addr, _, _ := strings.Cut(strings.TrimPrefix(line, "ready tcp="), " ")
	r.stop()
	c, err := oncrpc.DialTCP(t.Context(), addr, oncrpc.ClientConfig{})
	require.NoError(t, err)
	defer c.Close()
	failed := make(chan error, 1)
	go func() { failed <- nfsclient.New(c, nfsclient.Config{}).Null(t.Context()) }()
	for !strings.Contains(goroutineStacks(), "oncrpc.(*Line).await") {
		runtime.Gosched()
	}
	assert.NotContains(t, stop(), "pending calls were aborted")
	assert.ErrorIs(t, <-failed, oncrpc.ErrClosed)
}

// goroutineStacks returns the stacks of all goroutines.
func goroutineStacks() string {
	b := make([]byte, 1<<20)
	return string(b[:runtime.Stack(b, true)])
}

// TestBridgeBeyondLoopback checks the warning of a bridge that is reachable from other
// hosts.
func TestBridgeBeyondLoopback(t *testing.T) {
	r := newTestServer(t)
	_, stop := startBridge(t, "--listen", ":0", r.addr)
	assert.Contains(t, stop(), "every host that can connect to these addresses has this host's access to the server, as any user")
}
