package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// A fakeManager is the service manager's end of sd_notify(3).
type fakeManager struct {
	t    *testing.T
	sock *net.UnixConn
}

func newFakeManager(t *testing.T, name string) *fakeManager {
	t.Helper()
	sock, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { sock.Close() })
	return &fakeManager{t, sock}
}

// nextNotification returns the next notification that is not the watchdog's.
func (m *fakeManager) nextNotification() string {
	m.t.Helper()
	b := make([]byte, 4096)
	require.NoError(m.t, m.sock.SetReadDeadline(time.Now().Add(time.Minute)))
	for {
		n, err := m.sock.Read(b)
		require.NoError(m.t, err)
		if said := string(b[:n]); said != "WATCHDOG=1" && !strings.HasPrefix(said, "FDSTORE=1\n") {
			return said
		}
	}
}

// waitWatchdog waits for the next notification of the watchdog.
func (m *fakeManager) waitWatchdog() {
	m.t.Helper()
	b := make([]byte, 4096)
	require.NoError(m.t, m.sock.SetReadDeadline(time.Now().Add(time.Minute)))
	for {
		n, err := m.sock.Read(b)
		require.NoError(m.t, err)
		if string(b[:n]) == "WATCHDOG=1" {
			return
		}
	}
}

// startAsService starts the daemon as a service manager does. The sockets are named in
// the order of names.
func startAsService(t *testing.T, notify string, names []string, sockets []*os.File, args ...string) *daemonProc {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	args = append([]string{
		"-c", `LISTEN_PID=$$ exec "$0" "$@"`, self, "serve", "--state", t.TempDir(), "--control", "", "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0",
	}, args...)
	p := &daemonProc{t: t, cmd: exec.CommandContext(t.Context(), "sh", args...)}
	p.cmd.Env = append(os.Environ(), mainEnv+"=1", "GORACE=atexit_sleep_ms=0", "NOTIFY_SOCKET="+notify, "WATCHDOG_USEC=20000",
		fmt.Sprintf("LISTEN_FDS=%d", len(sockets)), "LISTEN_FDNAMES="+strings.Join(names, ":"))
	p.cmd.ExtraFiles = sockets
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	errs, err := p.cmd.StderrPipe()
	require.NoError(t, err)
	p.log = bufio.NewReader(errs)
	require.NoError(t, p.cmd.Start())
	p.ready, _ = bufio.NewReader(out).ReadString('\n')
	return p
}

// newListenerFile returns a listener as a file, and its address.
func newListenerFile(t *testing.T) (*os.File, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	f, err := l.(*net.TCPListener).File()
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f, l.Addr().String()
}

// TestServiceManager checks the sequence of notifications at a socket of the
// file system and at an abstract socket.
func TestServiceManager(t *testing.T) {
	file := filepath.Join(t.TempDir(), "exports")
	require.NoError(t, os.WriteFile(file, []byte(t.TempDir()+" *(ro)\n"), 0o600))
	for name, notify := range map[string]string{
		"file": filepath.Join(t.TempDir(), "notify"), "abstract": fmt.Sprintf("@nfsrdmad-test-%d", os.Getpid()),
	} {
		t.Run(name, func(t *testing.T) {
			m := newFakeManager(t, notify)
			p := startAsService(t, notify, nil, nil, "--exports", file)
			status := regexp.QuoteMeta("STATUS=Serving 1 exports on rdma " + p.transportAddr(t, "rdma") + ", tcp " + p.transportAddr(t, "tcp"))
			assert.Regexp(t, "^READY=1\n"+status+"$", m.nextNotification())
			m.waitWatchdog()
			require.NoError(t, p.cmd.Process.Signal(unix.SIGHUP))
			assert.Regexp(t, `^RELOADING=1\nMONOTONIC_USEC=[1-9]\d*$`, m.nextNotification())
			assert.Regexp(t, "^READY=1\n"+status+"$", m.nextNotification())
			m.waitWatchdog()
			require.NoError(t, p.cmd.Process.Signal(unix.SIGTERM))
			assert.Equal(t, "STOPPING=1\nSTATUS=Completing the calls in flight", m.nextNotification())
			assert.Equal(t, cli.ExitOK, p.waitExit().ExitStatus())
		})
	}
}

// receiveSockets returns the next n sockets that the daemon puts into the store, and their
// names.
func (m *fakeManager) receiveSockets(n int) (names []string, sockets []*os.File) {
	m.t.Helper()
	b, control := make([]byte, 4096), make([]byte, 64)
	require.NoError(m.t, m.sock.SetReadDeadline(time.Now().Add(time.Minute)))
	for len(sockets) < n {
		n, c, _, _, err := m.sock.ReadMsgUnix(b, control)
		require.NoError(m.t, err)
		if string(b[:n]) == "WATCHDOG=1" {
			continue
		}
		name, ok := strings.CutPrefix(string(b[:n]), "FDSTORE=1\nFDPOLL=0\nFDNAME=")
		require.True(m.t, ok, string(b[:n]))
		messages, err := unix.ParseSocketControlMessage(control[:c])
		require.NoError(m.t, err)
		fds, err := unix.ParseUnixRights(&messages[0])
		require.NoError(m.t, err)
		f := os.NewFile(uintptr(fds[0]), name)
		m.t.Cleanup(func() { f.Close() })
		names, sockets = append(names, name), append(sockets, f)
	}
	return names, sockets
}

// TestPortsOutliveRestart checks that the ports of a daemon that a service manager
// starts again are never free for another user of the host, and that clients that
// connect during the restart are served by the next daemon.
func TestPortsOutliveRestart(t *testing.T) {
	m := newFakeManager(t, filepath.Join(t.TempDir(), "notify"))
	args := []string{t.TempDir() + "=/x"}
	p := startAsService(t, m.sock.LocalAddr().String(), nil, nil, args...)
	names, sockets := m.receiveSockets(2)
	rdma, tcp := p.transportAddr(t, "rdma"), p.transportAddr(t, "tcp")
	assert.Regexp(t, "^READY=1\n", m.nextNotification())
	require.NoError(t, p.cmd.Process.Signal(unix.SIGTERM))
	assert.Equal(t, cli.ExitOK, p.waitExit().ExitStatus())

	for _, addr := range []string{rdma, tcp} {
		_, err := net.Listen("tcp", addr)
		assert.ErrorIs(t, err, unix.EADDRINUSE)
	}
	c, err := net.Dial("tcp", tcp)
	require.NoError(t, err)
	defer c.Close()
	next := startAsService(t, "", names, sockets, args...)
	assert.Equal(t, p.ready, next.ready)
	parseAccepted(t, tcpCall(t, c, encodeCall(7, nfs3.Program, nfs3.Version, nfs3.ProcNull, nil)), 7, 0)
	require.NoError(t, next.cmd.Process.Signal(unix.SIGTERM))
	assert.Equal(t, cli.ExitOK, next.waitExit().ExitStatus())
}

// TestSocketActivation checks that passed sockets replace the addresses.
func TestSocketActivation(t *testing.T) {
	rdma, rdmaAddr := newListenerFile(t)
	tcp, tcpAddr := newListenerFile(t)
	metrics, metricsAddr := newListenerFile(t)
	p := startAsService(t, "", []string{"metrics", "tcp", "rdma"}, []*os.File{metrics, tcp, rdma}, t.TempDir()+"=/x")
	assert.Equal(t, "ready rdma="+rdmaAddr+" tcp="+tcpAddr+" metrics="+metricsAddr+" exports=/x\n", p.ready)
	c, err := net.Dial("tcp", tcpAddr)
	require.NoError(t, err)
	defer c.Close()
	parseAccepted(t, tcpCall(t, c, encodeCall(7, nfs3.Program, nfs3.Version, nfs3.ProcNull, nil)), 7, 0)
	r, _ := p.dialRDMA(t)
	r.Close()
	require.NoError(t, p.cmd.Process.Signal(unix.SIGTERM))
	assert.Equal(t, cli.ExitOK, p.waitExit().ExitStatus())
}

// TestSeveralSockets checks that all passed sockets of one name are served and reported, and
// that the first is the one that rpcbind would name.
func TestSeveralSockets(t *testing.T) {
	control := filepath.Join(t.TempDir(), "control")
	var files []*os.File
	var addrs []string
	names := []string{"tcp", "rdma", "tcp", "rdma", "rdma"}
	for range names {
		f, addr := newListenerFile(t)
		files, addrs = append(files, f), append(addrs, addr)
	}
	p := startAsService(t, "", names, files, "--control", control, t.TempDir()+"=/x")
	assert.Equal(t, fmt.Sprintf("ready rdma=%s rdma=%s rdma=%s tcp=%s tcp=%s exports=/x\n", addrs[1], addrs[3], addrs[4], addrs[0], addrs[2]), p.ready)
	for i, name := range names {
		c, err := nfsrdma.Dial(t.Context(), addrs[i], nfsrdma.ClientConfig{TCP: name == "tcp"})
		require.NoError(t, err, name)
		require.NoError(t, c.Close())
	}
	var status report.Status
	_, text, _ := runCommand(t, "status", "--json", "--control", control)
	require.NoError(t, json.Unmarshal([]byte(text), &status))
	assert.Equal(t, []string{addrs[1], addrs[3], addrs[4]}, status.Transports[0].Addresses)
	assert.Equal(t, addrs[0], status.Transports[1].Address)
	assert.EqualValues(t, 3, status.Transports[0].Connections.Total, "of all sockets")
	_, text, _ = runCommand(t, "status", "--control", control)
	assert.Contains(t, text, addrs[0]+", "+addrs[2]+", ")
	require.NoError(t, p.cmd.Process.Signal(unix.SIGTERM))
	assert.Equal(t, cli.ExitOK, p.waitExit().ExitStatus())
}

// TestServicesOfSeveralSockets checks that rpcbind gets one address of each transport.
func TestServicesOfSeveralSockets(t *testing.T) {
	at := func(name string, port int) cli.Endpoint {
		return cli.Endpoint{Name: name, Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}}
	}
	assert.Equal(t, rpcServices([]cli.Endpoint{at("rdma", 1), at("tcp", 3)}), rpcServices([]cli.Endpoint{at("rdma", 1), at("rdma", 2), at("tcp", 3), at("tcp", 4)}))
}

// TestSocketActivationErrors checks that unknown sockets end the daemon, with
// an error that contains a remedy.
func TestSocketActivationErrors(t *testing.T) {
	f, _ := newListenerFile(t)
	g, _ := newListenerFile(t)
	for _, tt := range []struct {
		names []string
		want  string
	}{
		{[]string{"rdma", "nfs"}, `received a socket named "nfs": set its FileDescriptorName= to rdma or tcp or metrics`},
		{[]string{"metrics", "metrics"}, `--metrics: received 2 sockets named "metrics", of which one is possible: remove the others; a socket on [::] accepts all addresses`},
	} {
		p := startAsService(t, "", tt.names, []*os.File{f, g}, t.TempDir()+"=/x")
		assert.Empty(t, p.ready)
		line, err := p.log.ReadString('\n')
		require.NoError(t, err)
		assert.Equal(t, "nfsrdmad: "+tt.want+"\n", line)
		assert.Equal(t, cli.ExitError, p.waitExit().ExitStatus())
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	unix.Close(pair[1])
	other := os.NewFile(uintptr(pair[0]), "tcp")
	p := startAsService(t, "", []string{"tcp"}, []*os.File{other}, t.TempDir()+"=/x")
	line, err := p.log.ReadString('\n')
	require.NoError(t, err)
	assert.Contains(t, line, `the socket passed as "tcp"`)
	assert.Equal(t, cli.ExitError, p.waitExit().ExitStatus())
}
