package main

import (
	"bufio"
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

// next returns the next notification that is not the watchdog's.
func (m *fakeManager) next() string {
	m.t.Helper()
	b := make([]byte, 4096)
	require.NoError(m.t, m.sock.SetReadDeadline(time.Now().Add(time.Minute)))
	for {
		n, err := m.sock.Read(b)
		require.NoError(m.t, err)
		if said := string(b[:n]); said != "WATCHDOG=1" {
			return said
		}
	}
}

// untilWatchdog waits for the next notification of the watchdog.
func (m *fakeManager) untilWatchdog() {
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

// launch starts the daemon as a service manager does. The sockets are named in
// the order of names.
func launch(t *testing.T, notify string, names []string, sockets []*os.File, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	args = append([]string{
		"-c", `LISTEN_PID=$$ exec "$0" "$@"`, self, "serve", "--state", t.TempDir(), "--control", "", "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0",
	}, args...)
	p := &process{t: t, cmd: exec.CommandContext(t.Context(), "sh", args...)}
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

// inherited returns a listener as a file, and its address.
func inherited(t *testing.T) (*os.File, string) {
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
			p := launch(t, notify, nil, nil, "--exports", file)
			status := regexp.QuoteMeta("STATUS=Serving 1 exports on rdma " + p.addr(t, "rdma") + ", tcp " + p.addr(t, "tcp"))
			assert.Regexp(t, "^READY=1\n"+status+"$", m.next())
			m.untilWatchdog()
			require.NoError(t, p.cmd.Process.Signal(unix.SIGHUP))
			assert.Regexp(t, `^RELOADING=1\nMONOTONIC_USEC=[1-9]\d*$`, m.next())
			assert.Regexp(t, "^READY=1\n"+status+"$", m.next())
			m.untilWatchdog()
			require.NoError(t, p.cmd.Process.Signal(unix.SIGTERM))
			assert.Equal(t, "STOPPING=1\nSTATUS=Finishing the calls under way", m.next())
			assert.Equal(t, cli.ExitOK, p.end().ExitStatus())
		})
	}
}

// TestSocketActivation checks that passed sockets replace the addresses.
func TestSocketActivation(t *testing.T) {
	rdma, rdmaAddr := inherited(t)
	tcp, tcpAddr := inherited(t)
	metrics, metricsAddr := inherited(t)
	p := launch(t, "", []string{"metrics", "tcp", "rdma"}, []*os.File{metrics, tcp, rdma}, t.TempDir()+"=/x")
	assert.Equal(t, "ready rdma="+rdmaAddr+" tcp="+tcpAddr+" metrics="+metricsAddr+" exports=/x\n", p.ready)
	c, err := net.Dial("tcp", tcpAddr)
	require.NoError(t, err)
	defer c.Close()
	accepted(t, tcpCall(t, c, call(7, nfs3.Program, nfs3.Version, nfs3.ProcNull, nil)), 7, 0)
	r, _ := p.dialRDMA(t)
	r.Close()
	require.NoError(t, p.cmd.Process.Signal(unix.SIGTERM))
	assert.Equal(t, cli.ExitOK, p.end().ExitStatus())
}

// TestSocketActivationErrors checks that unknown sockets end the daemon, with
// an error that contains a remedy.
func TestSocketActivationErrors(t *testing.T) {
	f, _ := inherited(t)
	g, _ := inherited(t)
	for _, tt := range []struct {
		names []string
		want  string
	}{
		{[]string{"rdma", "nfs"}, `received a socket named "nfs": set its FileDescriptorName= to rdma or tcp or metrics`},
		{[]string{"rdma", "rdma"}, `received two sockets named "rdma": remove one; a socket on [::] accepts IPv4 too`},
	} {
		p := launch(t, "", tt.names, []*os.File{f, g}, t.TempDir()+"=/x")
		assert.Empty(t, p.ready)
		line, err := p.log.ReadString('\n')
		require.NoError(t, err)
		assert.Equal(t, "nfsrdmad: "+tt.want+"\n", line)
		assert.Equal(t, cli.ExitError, p.end().ExitStatus())
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	unix.Close(pair[1])
	other := os.NewFile(uintptr(pair[0]), "tcp")
	_, err = passed{"tcp": other}.listen("tcp", "")
	assert.ErrorContains(t, err, `the socket passed as "tcp"`)
}
