package main

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/clusterfs"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// mainEnv makes the test binary run as nfsrdmad.
const mainEnv = "NFSRDMAD_TEST_MAIN"

func TestMain(m *testing.M) {
	clusterfs.RunCommand()
	if os.Getenv(mainEnv) != "" {
		main()
	}
	// The first socket of package net opens two descriptors that stay.
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		l.Close()
	}
	os.Exit(m.Run())
}

// A daemonProc is nfsrdmad in its own process.
type daemonProc struct {
	testDaemon
	t   *testing.T
	cmd *exec.Cmd
	log *bufio.Reader
}

// startProc starts the daemon with further arguments and waits for its ready line.
// The export /x has 4 MiB in "file".
func startProc(t *testing.T, args ...string) *daemonProc {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), make([]byte, 4<<20), 0o666))
	return startServe(t, append([]string{
		"--state", t.TempDir(), "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--max-payload=4MiB", "--no-root-squash", dir + "=/x",
	}, args...)...)
}

// startServe starts the daemon with arguments of serve, and waits for its ready line.
func startServe(t *testing.T, args ...string) *daemonProc {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	args = append([]string{"serve", "--control", ""}, args...)
	p := &daemonProc{t: t, cmd: exec.CommandContext(t.Context(), self, args...)}
	// Otherwise the race detector would sleep for a second at the end.
	p.cmd.Env = append(os.Environ(), mainEnv+"=1", "GORACE=atexit_sleep_ms=0")
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	errs, err := p.cmd.StderrPipe()
	require.NoError(t, err)
	p.log = bufio.NewReader(errs)
	require.NoError(t, p.cmd.Start())
	p.ready, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return p
}

// sendTerm sends SIGTERM and waits until the daemon is about to stop.
func (p *daemonProc) sendTerm() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(unix.SIGTERM))
	for {
		line, err := p.log.ReadString('\n')
		require.NoError(p.t, err)
		if strings.Contains(line, "stopping") {
			return
		}
	}
}

// waitExit waits for the daemon's end and returns its wait status.
func (p *daemonProc) waitExit() syscall.WaitStatus {
	p.t.Helper()
	_, _ = io.Copy(io.Discard, p.log)
	_ = p.cmd.Wait()
	return p.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// mountFile returns a client and the handles of the root and the file.
func mountFile(t *testing.T, caller oncrpc.Caller) (c *nfsclient.Client, root, file nfs3.FH) {
	t.Helper()
	root, err := nfsclient.NewMount(caller, nil).Mnt(t.Context(), "/x")
	require.NoError(t, err)
	c = nfsclient.New(caller, nfsclient.Config{})
	found, err := c.Lookup(t.Context(), root, "file")
	require.NoError(t, err)
	return c, root, found.Object
}

// A slowWrite is a WRITE over RDMA whose data the server has requested but not
// received, because the network holds back the RDMA Read Request.
type slowWrite struct {
	release chan struct{}
	result  chan error
}

func newSlowWrite(t *testing.T, p *daemonProc) *slowWrite {
	t.Helper()
	w := &slowWrite{make(chan struct{}), make(chan error, 1)}
	var armed atomic.Bool
	frames, held := 0, make(chan struct{})
	c := newCuttingProxy(t, p.transportAddr(t, "rdma"), func() cutFunc {
		return func(int) (int, cutKind) {
			if armed.Load() {
				if frames++; frames == 2 { // after the call
					close(held)
					<-w.release
				}
			}
			return 0, noCut
		}
	})
	line, err := rpcrdma.Dial(t.Context(), iwarp.Open(iwarp.Config{}), c.addr(), rpcrdma.ClientConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { line.Close() })
	client, _, file := mountFile(t, line)
	armed.Store(true)
	go func() {
		_, err := client.Write(t.Context(), file, 0, make([]byte, 16<<10), nfs3.FileSync)
		w.result <- err
	}()
	<-held
	return w
}

// TestDrain checks that after SIGTERM a pending call over RDMA and another
// over TCP are answered, no connections are accepted, and the exit status is 0.
func TestDrain(t *testing.T) {
	p := startProc(t)
	w := newSlowWrite(t, p)
	c, rest := startSlowRead(t, p)
	p.sendTerm()
	close(w.release)
	assert.NoError(t, <-w.result)
	n, err := io.Copy(io.Discard, c)
	assert.NoError(t, err)
	assert.Equal(t, rest, n, "bytes of the reply, and the end")
	c.Close()
	status := p.waitExit()
	assert.True(t, status.Exited() && status.ExitStatus() == 0, "%#x", status)
	for _, transport := range []string{"rdma", "tcp"} {
		_, err := net.Dial("tcp", p.transportAddr(t, transport))
		assert.ErrorIs(t, err, unix.ECONNREFUSED)
	}
}

// startSlowRead makes a READ over TCP and reads only the start of its reply. It
// returns the number of bytes left.
func startSlowRead(t *testing.T, p *daemonProc) (c net.Conn, rest int64) {
	t.Helper()
	rpc, err := oncrpc.DialTCP(t.Context(), p.transportAddr(t, "tcp"), oncrpc.ClientConfig{})
	require.NoError(t, err)
	_, _, file := mountFile(t, rpc)
	require.NoError(t, rpc.Close())

	small := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<10)
		})
	}}
	c, err = small.DialContext(t.Context(), "tcp", p.transportAddr(t, "tcp"))
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	a := nfs3.ReadArgs{File: file, Count: 4 << 20}
	x := oncrpc.Exchange{Prog: nfs3.Program, Vers: nfs3.Version, Proc: nfs3.ProcRead, Cred: nfsclient.ProcessCred()}
	msg := a.AppendTo(oncrpc.AppendCall(nil, 1, &x, "host"))
	_, err = c.Write(append(binary.BigEndian.AppendUint32(nil, 1<<31|uint32(len(msg))), msg...))
	require.NoError(t, err)
	var mark [4]byte
	_, err = io.ReadFull(c, mark[:])
	require.NoError(t, err)
	rest = int64(binary.BigEndian.Uint32(mark[:]) &^ (1 << 31))
	require.Greater(t, rest, int64(4<<20))
	return c, rest
}

// TestSecondSignal checks that a second SIGTERM ends the daemon even with a
// pending call.
func TestSecondSignal(t *testing.T) {
	p := startProc(t)
	w := newSlowWrite(t, p)
	p.sendTerm()
	require.NoError(t, p.cmd.Process.Signal(unix.SIGTERM))
	status := p.waitExit()
	assert.True(t, status.Signaled() && status.Signal() == unix.SIGTERM, "%#x", status)
	close(w.release)
}
