package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A standbyPair is the state and the data that several hosts share.
type standbyPair struct {
	t                    *testing.T
	state, data, exports string
}

func newStandbyPair(t *testing.T) *standbyPair {
	t.Helper()
	dir := t.TempDir()
	p := &standbyPair{t, filepath.Join(dir, "state"), filepath.Join(dir, "data"), filepath.Join(dir, "exports")}
	require.NoError(t, os.Mkdir(p.state, 0o700))
	require.NoError(t, os.Mkdir(p.data, 0o777))
	require.NoError(t, os.Chmod(p.data, 0o777))
	p.writeExports("rw,insecure,no_root_squash,fsid=7")
	return p
}

func (p *standbyPair) writeExports(options string) {
	line := fmt.Sprintf("%s 127.0.0.1(%s)\n", p.data, options)
	require.NoError(p.t, os.WriteFile(p.exports, []byte(line), 0o600))
}

// args are the arguments of a host.
func (p *standbyPair) args(more ...string) []string {
	return append([]string{
		"serve", "--state", p.state, "--exports", p.exports, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--tenure-time", "1s",
	}, more...)
}

// A standbyHost is a host in its own process.
type standbyHost struct {
	t       *testing.T
	cmd     *exec.Cmd
	control string
	ready   chan string // gets the ready line, and is closed at the end of the output

	mu   sync.Mutex
	said strings.Builder // on standard error
	logs sync.WaitGroup
}

// start starts a host with a fence command that succeeds.
func (p *standbyPair) start(more ...string) *standbyHost {
	p.t.Helper()
	self, err := os.Executable()
	require.NoError(p.t, err)
	h := &standbyHost{t: p.t, control: filepath.Join(p.t.TempDir(), "control"), ready: make(chan string, 1)}
	h.cmd = exec.Command(self, p.args(append([]string{"--standby", "--fence", "true", "--control", h.control, "--metrics", "127.0.0.1:0"}, more...)...)...)
	h.cmd.Env = append(os.Environ(), mainEnv+"=1")
	out, err := h.cmd.StdoutPipe()
	require.NoError(p.t, err)
	errs, err := h.cmd.StderrPipe()
	require.NoError(p.t, err)
	require.NoError(p.t, h.cmd.Start())
	h.logs.Go(func() {
		defer close(h.ready)
		if line, err := bufio.NewReader(out).ReadString('\n'); err == nil {
			h.ready <- line
		}
	})
	h.logs.Go(func() {
		for s := bufio.NewScanner(errs); s.Scan(); {
			h.mu.Lock()
			h.said.WriteString(s.Text() + "\n")
			h.mu.Unlock()
		}
	})
	p.t.Cleanup(func() {
		_ = h.cmd.Process.Kill()
		h.wait()
	})
	return h
}

func (h *standbyHost) log() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.said.String()
}

// address waits for the ready line and returns a transport's address.
func (h *standbyHost) address(transport string) string {
	h.t.Helper()
	line, ok := <-h.ready
	require.True(h.t, ok, h.log())
	return (&testDaemon{ready: line}).transportAddr(h.t, transport)
}

func (h *standbyHost) signal(s syscall.Signal) { require.NoError(h.t, h.cmd.Process.Signal(s)) }

// wait returns the exit status, or -1 after a signal.
func (h *standbyHost) wait() int {
	h.logs.Wait()
	_ = h.cmd.Wait()
	return h.cmd.ProcessState.ExitCode()
}

// status returns the host's status as soon as it satisfies a condition.
func (h *standbyHost) status(is func(*report.Status) bool) (d report.Status) {
	h.t.Helper()
	require.Eventually(h.t, func() bool {
		body, err := requestDaemon(h.t.Context(), h.control, http.MethodGet, "status")
		if err != nil {
			return false
		}
		defer body.Close()
		d = report.Status{}
		return json.NewDecoder(body).Decode(&d) == nil && is(&d)
	}, time.Minute, time.Millisecond, "%s", h.log())
	return d
}

// awaitWatching waits until the host has seen another one serve.
func (h *standbyHost) awaitWatching() {
	h.t.Helper()
	h.status(func(d *report.Status) bool { return d.Standby.Waiting && d.Standby.Host != "" })
}

// dialRoot returns a client's connection, and the handle of the pair's export.
func (p *standbyPair) dialRoot(addr string) (*oncrpc.TCPClient, nfs3.FH) {
	p.t.Helper()
	c, err := oncrpc.DialTCP(p.t.Context(), addr, oncrpc.ClientConfig{})
	require.NoError(p.t, err)
	p.t.Cleanup(func() { _ = c.Close() })
	root, err := nfsclient.NewMount(c, nil).Mnt(p.t.Context(), p.data)
	require.NoError(p.t, err)
	return c, root
}

// makeDir creates a directory below root.
func makeDir(t *testing.T, c *oncrpc.TCPClient, root nfs3.FH, name string) (nfs3.Status, error) {
	args := nfs3.MkdirArgs{Where: nfs3.DirOpArgs{Dir: root, Name: []byte(name)}}
	x := oncrpc.Exchange{Prog: nfs3.Program, Vers: nfs3.Version, Proc: nfs3.ProcMkdir, Args: args.AppendTo(nil), MaxResults: 500}
	if err := c.Call(t.Context(), &x); err != nil {
		return 0, err
	}
	defer x.Release()
	return nfs3.Status(x.Results.Uint32()), nil
}

// TestStandbyWaits checks what a host that waits says, and that it serves with the same handles when
// the other one has stopped.
func TestStandbyWaits(t *testing.T) {
	p := newStandbyPair(t)
	a := p.start()
	_, root := p.dialRoot(a.address("tcp"))
	serving := a.status(func(d *report.Status) bool { return d.Standby != nil && !d.Standby.Waiting })
	assert.Equal(t, "serving", serving.Daemon.State)
	assert.Positive(t, serving.Standby.Left)
	assert.Equal(t, "command true", serving.Standby.Fence)

	metrics := freeAddr(t, "127.0.0.1")
	b := p.start("--metrics", metrics)
	b.awaitWatching()
	d := b.status(func(d *report.Status) bool { return true })
	host, err := os.Hostname()
	require.NoError(t, err)
	assert.Equal(t, "standby", d.Daemon.State)
	assert.Contains(t, d.Standby.Text, "standby: host "+host+" serves (seen ")
	assert.Contains(t, d.Standby.Text, "; this host takes over when it is silent and the file system has given up its lock")
	for path, want := range map[string]string{"/healthz": "standby: host ", "/": "standby: host ", "/metrics": "nfsrdma_standby_waiting 1\n"} {
		resp, err := http.Get("http://" + metrics + path)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		resp.Body.Close()
		assert.Contains(t, string(body), want)
		assert.Equal(t, path == "/healthz", resp.StatusCode == http.StatusServiceUnavailable, path)
	}
	http.DefaultClient.CloseIdleConnections()
	status, _, stderr := runCommand(t, "exports", "add", "--control", b.control, p.data, "192.0.2.1(ro)")
	assert.Equal(t, cli.ExitError, status)
	assert.Contains(t, stderr, "this daemon does not serve yet, so use the one that does: standby: host ")
	assert.Empty(t, b.ready)

	begin := time.Now()
	a.signal(unix.SIGTERM)
	c, again := p.dialRoot(b.address("tcp"))
	t.Logf("a planned change took %v", time.Since(begin))
	assert.Equal(t, cli.ExitOK, a.wait())
	assert.Equal(t, root, again)
	made, err := makeDir(t, c, root, "d")
	require.NoError(t, err)
	assert.Equal(t, nfs3.OK, made)

	b.signal(unix.SIGTERM)
	assert.Equal(t, cli.ExitOK, b.wait())
	beat, err := os.ReadFile(filepath.Join(p.state, "beat"))
	require.NoError(t, err)
	assert.Contains(t, string(beat), `"state":"released"`)
}

// TestStandbyStops checks that a host that waits ends at SIGTERM.
func TestStandbyStops(t *testing.T) {
	p := newStandbyPair(t)
	a := p.start()
	a.address("tcp")
	b := p.start()
	b.awaitWatching()
	b.signal(unix.SIGTERM)
	assert.Equal(t, cli.ExitOK, b.wait())
	_, ready := <-b.ready
	assert.False(t, ready)
}

// TestStandbyAfterKill checks that a host takes over from one that was killed, after it was silent.
func TestStandbyAfterKill(t *testing.T) {
	p := newStandbyPair(t)
	a := p.start()
	_, root := p.dialRoot(a.address("tcp"))
	b := p.start()
	b.awaitWatching()
	begin := time.Now()
	a.signal(unix.SIGKILL)
	_, again := p.dialRoot(b.address("tcp"))
	t.Logf("taking over took %v", time.Since(begin))
	assert.Equal(t, root, again)
	assert.GreaterOrEqual(t, time.Since(begin), 700*time.Millisecond, "T after the last beat, which is T/5 old at most")
}

// TestStandbyAfterPause checks that a host that was stopped for several tenures executes no call that
// has arrived in the meantime, resets its connections, writes no beat, and exits with status 75.
func TestStandbyAfterPause(t *testing.T) {
	p := newStandbyPair(t)
	a := p.start()
	c, root := p.dialRoot(a.address("tcp"))
	made, err := makeDir(t, c, root, "before")
	require.NoError(t, err)
	require.Equal(t, nfs3.OK, made)
	a.signal(unix.SIGSTOP)
	before := awaitSilence(t, p)
	late := make(chan error, 1)
	go func() {
		_, err := makeDir(t, c, root, "late")
		late <- err
	}()
	require.Eventually(t, func() bool { return time.Since(before.at) > 3*time.Second }, time.Minute, 10*time.Millisecond)
	a.signal(unix.SIGCONT)
	assert.ErrorIs(t, <-late, syscall.ECONNRESET)
	assert.Equal(t, exitTenure, a.wait())
	assert.NoDirExists(t, filepath.Join(p.data, "late"))
	assert.Equal(t, 1, strings.Count(a.log(), "level=ERROR"), a.log())
	assert.Contains(t, a.log(), "this host may serve no longer")
	now, err := os.ReadFile(filepath.Join(p.state, "beat"))
	require.NoError(t, err)
	assert.Equal(t, before.beat, string(now))
}

// A silentBeat is a beat that does not change.
type silentBeat struct {
	beat string
	at   time.Time
}

// awaitSilence waits until the beat has not changed for a moment: the write of a host that was
// stopped may still be in the kernel.
func awaitSilence(t *testing.T, p *standbyPair) (s silentBeat) {
	t.Helper()
	require.Eventually(t, func() bool {
		b, err := os.ReadFile(filepath.Join(p.state, "beat"))
		if err != nil || string(b) != s.beat {
			s = silentBeat{string(b), time.Now()}
		}
		return time.Since(s.at) > 500*time.Millisecond
	}, time.Minute, 10*time.Millisecond)
	return s
}
