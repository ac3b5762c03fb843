//go:build interop

package interop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsclient/nfs4client"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

const (
	heldUp   = 2 * time.Second  // the longest time for which a restart may hold up a call
	held     = 3 * time.Second  // for a call that must wait, until it is believed to wait
	released = 5 * time.Second  // for such a call, once nothing is in its way: it is made again each 2 s
	graceful = 50 * time.Second // the longest grace: lease and slack, and a call's pause
	shortest = 40 * time.Second // the lease
)

// A cutOffClient is a client that can be cut off for ever.
type cutOffClient struct {
	*nfs4client.Session
	dir  nfs4.FH
	line tcpLine
	dead atomic.Bool
}

func newCorpse(t *testing.T, d *daemon) *cutOffClient {
	c := new(cutOffClient)
	c.Session = dialTCP4(t, func(ctx context.Context) (nfs4client.Conn, error) {
		if c.dead.Load() {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return c.line.dialConn(ctx, d.tcp)
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = c.Close(ctx) // no server answers
	})
	c.dir = exportRoot(t, c.Session)
	return c
}

// cutOff cuts the client off.
func (c *cutOffClient) cutOff() {
	c.dead.Store(true)
	c.line.resetConn()
}

func exportRoot(t *testing.T, s *nfs4client.Session) nfs4.FH {
	t.Helper()
	dir, err := s.Walk(t.Context(), "/x")
	require.NoError(t, err)
	return dir
}

func openFile(t *testing.T, s *nfs4client.Session, dir nfs4.FH, name string, flags nfs4client.OpenFlags) *nfs4client.File {
	t.Helper()
	flags.Read, flags.Write, flags.Create, flags.Mode = true, true, true, 0o666
	f, err := s.Open(t.Context(), dir, name, flags)
	require.NoError(t, err)
	return f
}

// A busyClient makes steps all the time, and notes the longest.
type busyClient struct {
	name    string
	step    func(ctx context.Context) error
	steps   atomic.Int64
	since   atomic.Int64 // when the longest is counted from, in ns of the Unix time
	longest atomic.Int64 // ns
	err     error
}

// runSteps makes steps until ctx ends.
func (b *busyClient) runSteps(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now().UnixNano()
		if b.err = b.step(context.WithoutCancel(ctx)); b.err != nil {
			return
		}
		if since := b.since.Load(); since > 0 {
			b.longest.Store(max(b.longest.Load(), time.Now().UnixNano()-max(began, since)))
		}
		b.steps.Add(1)
	}
}

// useFile writes to an open file, and reads it.
func useFile(ctx context.Context, f *nfs4client.File) error {
	data := []byte(time.Now().String())
	if _, err := f.WriteAt(ctx, data, 0, nfs4.Unstable); err != nil {
		return err
	}
	got := make([]byte, len(data))
	if _, err := f.ReadAt(ctx, got, 0); err != nil && err != io.EOF {
		return err
	}
	if string(got) != string(data) {
		return fmt.Errorf("%w: %q, not %q", errLost, got, data)
	}
	return nil
}

// startClients is clients over RDMA and TCP that open, read and write all the time.
func startClients(t *testing.T, d *daemon, opens bool) (all []*busyClient, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, network := range []string{"rdma", "tcp"} {
		s := newSession4(t, d, network)
		dir := exportRoot(t, s)
		open := openFile(t, s, dir, network+"-open", nfs4client.OpenFlags{})
		all = append(all, &busyClient{name: network + ": an open file", step: func(ctx context.Context) error { return useFile(ctx, open) }})
		if opens {
			all = append(all, &busyClient{name: network + ": new opens", step: func(ctx context.Context) error {
				f, err := s.Open(ctx, dir, network+"-new", nfs4client.OpenFlags{Read: true, Write: true, Create: true, Mode: 0o666})
				if err != nil {
					return err
				}
				return errors.Join(useFile(ctx, f), f.Close(ctx))
			}})
		}
	}
	for _, b := range all {
		running.Go(func() { b.runSteps(ctx) })
	}
	return all, sync.OnceFunc(func() {
		cancel()
		running.Wait()
		for _, b := range all {
			assert.NoError(t, b.err, b.name)
		}
	})
}

// restartUnder kills the daemon under a crowd and starts it again. No client may be held
// up.
func restartUnder(t *testing.T, d *daemon, all []*busyClient) {
	t.Helper()
	for _, b := range all {
		for before := b.steps.Load(); b.steps.Load() < before+3 && b.err == nil; {
			time.Sleep(time.Millisecond)
		}
	}
	d.proc.Kill()
	d.startProcess()
	now := time.Now().UnixNano()
	for _, b := range all {
		b.longest.Store(0)
		b.since.Store(now)
	}
	time.Sleep(heldUp)
	for _, b := range all {
		steps := b.steps.Load()
		for b.steps.Load() < steps+3 && b.err == nil && time.Since(time.Unix(0, now)) < progressLimit {
			time.Sleep(time.Millisecond)
		}
		t.Logf("%s: at most %.3f s for a step after the restart", b.name, time.Duration(b.longest.Load()).Seconds())
		assert.Less(t, time.Duration(b.longest.Load()), heldUp, b.name)
		b.since.Store(0)
	}
}

// waitForRelease starts a call that must wait until it is released.
func waitForRelease(t *testing.T, call func() error, release func()) {
	t.Helper()
	eventuallyWithin(t, released, call, release)
}

// eventuallyWithin is eventually for a call that may take as long as limit after
// its release.
func eventuallyWithin(t *testing.T, limit time.Duration, call func() error, release func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		t.Fatalf("it does not wait: %v", err)
	case <-time.After(held):
	}
	release()
	start := time.Now()
	select {
	case err := <-done:
		require.NoError(t, err)
		t.Logf("%.2f s after the release", time.Since(start).Seconds())
	case <-time.After(limit):
		t.Fatalf("it waits %v after the release", limit)
	}
}

// TestRestartHoldsUp restarts nfsrdmad with a client that has died while it had
// a file open: only what the client could reclaim holds others up, until an
// administrator ends that.
func TestRestartHoldsUp(t *testing.T) {
	buildOnce(t)
	socket := filepath.Join(t.TempDir(), "control")
	d := startDaemon(t, "--no-root-squash", "--control", socket)
	endGrace := func() {
		t.Helper()
		assert.Contains(t, onHost(t, "/", programPath("nfsrdmad")+" clients --control "+socket+" --end-grace"), "the grace period has ended")
	}
	t.Run("an open file", func(t *testing.T) {
		all, stop := startClients(t, d, true)
		defer stop()
		c := newCorpse(t, d)
		openFile(t, c.Session, c.dir, "dead", nfs4client.OpenFlags{})
		c.cutOff()
		for range 3 {
			restartUnder(t, d, all)
		}
		s := newSession4(t, d, "tcp")
		f := openFile(t, s, exportRoot(t, s), "other", nfs4client.OpenFlags{})
		require.NoError(t, f.Lock(t.Context(), nfs4client.Range{End: 9}, true), "no other client had locks")
		require.NoError(t, f.Close(t.Context()))
		endGrace()
	})
	t.Run("a lock", func(t *testing.T) {
		all, stop := startClients(t, d, true)
		defer stop()
		s := newSession4(t, d, "tcp")
		f := openFile(t, s, exportRoot(t, s), "other", nfs4client.OpenFlags{})
		c := newCorpse(t, d)
		require.NoError(t, openFile(t, c.Session, c.dir, "dead", nfs4client.OpenFlags{}).Lock(t.Context(), nfs4client.Range{End: 9}, true))
		c.cutOff()
		restartUnder(t, d, all)
		waitForRelease(t, func() error { return f.Lock(t.Context(), nfs4client.Range{End: 9}, true) }, endGrace)
		restartUnder(t, d, all)
		require.NoError(t, f.Lock(t.Context(), nfs4client.Range{Start: 20, End: 29}, true), "all clients have come back")
		require.NoError(t, f.Close(t.Context()))
	})
	t.Run("a deny mode", func(t *testing.T) {
		all, stop := startClients(t, d, false)
		defer stop()
		s := newSession4(t, d, "rdma")
		dir := exportRoot(t, s)
		c := newCorpse(t, d)
		openFile(t, c.Session, c.dir, "dead", nfs4client.OpenFlags{DenyWrite: true})
		c.cutOff()
		restartUnder(t, d, all)
		var f *nfs4client.File
		waitForRelease(t, func() (err error) {
			f, err = s.Open(t.Context(), dir, "dead", nfs4client.OpenFlags{Write: true})
			return err
		}, endGrace)
		require.NoError(t, f.Close(t.Context()))
		restartUnder(t, d, all)
	})
	if os.Getenv("INTEROP_SOAK") != "" {
		t.Run("no administrator", func(t *testing.T) {
			s := newSession4(t, d, "tcp")
			f := openFile(t, s, exportRoot(t, s), "other", nfs4client.OpenFlags{})
			c := newCorpse(t, d)
			require.NoError(t, openFile(t, c.Session, c.dir, "dead", nfs4client.OpenFlags{}).Lock(t.Context(), nfs4client.Range{End: 9}, true))
			c.cutOff()
			d.proc.Kill()
			d.startProcess()
			start := time.Now()
			require.NoError(t, f.Lock(t.Context(), nfs4client.Range{End: 9}, true))
			assert.Greater(t, time.Since(start), shortest)
			assert.Less(t, time.Since(start), graceful)
		})
	}
	d.stopGracefully()
	assert.NotContains(t, d.stderr.String(), "level=WARN")
}

// TestExpire ends a client that has a lock: another client gets the lock at once,
// and the first one finds out that it has lost the file.
func TestExpire(t *testing.T) {
	buildOnce(t)
	socket := filepath.Join(t.TempDir(), "control")
	d := startDaemon(t, "--no-root-squash", "--control", socket)
	order := func(id string) (string, error) {
		out, err := exec.Command(programPath("nfsrdmad"), "clients", "--control", socket, "--expire", id).CombinedOutput()
		return string(out), err
	}
	holder, other := newSession4(t, d, "rdma"), newSession4(t, d, "tcp")
	dir := exportRoot(t, holder)
	mine, theirs := openFile(t, holder, dir, "f", nfs4client.OpenFlags{}), openFile(t, other, exportRoot(t, other), "f", nfs4client.OpenFlags{})
	free := openFile(t, holder, dir, "g", nfs4client.OpenFlags{})
	r := nfs4client.Range{End: 9}
	require.NoError(t, mine.Lock(t.Context(), r, true))
	assert.ErrorIs(t, theirs.Lock(t.Context(), r, true), nfs4.ErrDenied)
	id := fmt.Sprintf("%016x", holder.Server().ClientID)
	out, err := order(id)
	require.NoError(t, err, out)
	assert.Contains(t, out, id)
	require.NoError(t, theirs.Lock(t.Context(), r, true))
	_, err = mine.WriteAt(t.Context(), []byte("late"), 0, nfs4.FileSync)
	assert.ErrorIs(t, err, nfs4client.ErrLockLost)
	require.NoError(t, useFile(t.Context(), free), "without locks, it is opened again")
	require.NoError(t, free.Close(t.Context()))
	again, err := holder.Open(t.Context(), dir, "f", nfs4client.OpenFlags{Write: true})
	require.NoError(t, err)
	assert.ErrorIs(t, again.Lock(t.Context(), r, true), nfs4.ErrDenied)
	require.NoError(t, theirs.Close(t.Context()))
	require.NoError(t, again.Lock(t.Context(), r, true))

	d.proc.Kill()
	d.startProcess()
	require.NoError(t, again.Unlock(t.Context(), r), "what it had last is reclaimed")
	require.NoError(t, again.Close(t.Context()))
	for wrong, why := range map[string]string{id: "no client", "client": "first column"} {
		out, err := order(wrong)
		assert.Error(t, err)
		assert.Contains(t, out, why)
	}
}

// TestLockWhileDown has a process of the host take a lock that a client had, while
// nfsrdmad is down and the kernel has dropped the client's locks: the client has
// lost that file, and reclaims the others.
func TestLockWhileDown(t *testing.T) {
	buildOnce(t)
	d := startDaemon(t, "--no-root-squash")
	s, r := newSession4(t, d, "rdma"), nfs4client.Range{Start: 5, End: 14}
	dir := exportRoot(t, s)
	files := make(map[string]*nfs4client.File)
	for _, name := range []string{"taken", "shared", "free"} {
		files[name] = openFile(t, s, dir, name, nfs4client.OpenFlags{})
		require.NoError(t, files[name].Lock(t.Context(), r, name != "shared"))
	}
	here := make(map[string]*os.File)
	lock := func(name string, kind int16) error {
		return unix.FcntlFlock(here[name].Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind, Start: 14, Len: 2})
	}
	for name := range files {
		var err error
		here[name], err = os.OpenFile(filepath.Join(d.dir, name), os.O_RDWR, 0)
		require.NoError(t, err)
		defer here[name].Close()
		assert.ErrorIs(t, lock(name, unix.F_WRLCK), unix.EAGAIN, name)
	}
	d.proc.Kill()
	require.NoError(t, lock("taken", unix.F_WRLCK))
	require.NoError(t, lock("shared", unix.F_RDLCK))
	d.startProcess()
	_, err := files["taken"].WriteAt(t.Context(), []byte("late"), 5, nfs4.FileSync)
	assert.ErrorIs(t, err, nfs4client.ErrLockLost)
	assert.ErrorIs(t, err, nfs4.ErrReclaimConflict)
	for _, name := range []string{"shared", "free"} {
		require.NoError(t, useFile(t.Context(), files[name]), name)
		assert.ErrorIs(t, lock(name, unix.F_WRLCK), unix.EAGAIN, name)
		require.NoError(t, files[name].Close(t.Context()))
	}
	again := openFile(t, s, dir, "taken", nfs4client.OpenFlags{})
	assert.ErrorIs(t, again.Lock(t.Context(), r, false), nfs4.ErrDenied)
	require.NoError(t, lock("taken", unix.F_UNLCK))
	require.NoError(t, again.Lock(t.Context(), r, true))
}

// dialTCP4 makes a client over TCP. The caller closes it.
func dialTCP4(t *testing.T, dial func(ctx context.Context) (nfs4client.Conn, error)) *nfs4client.Session {
	t.Helper()
	s, err := nfs4client.Dial(t.Context(), nfs4client.Config{Dial: dial, Network: "tcp", Minor: nfs4.Minor2, Cred: cred4, Log: quiet})
	require.NoError(t, err)
	return s
}

func tcpConn(ctx context.Context, addr string) (nfs4client.Conn, error) {
	c, err := oncrpc.DialTCP(ctx, addr, oncrpc.ClientConfig{})
	if err != nil {
		return nil, err // not a nil *oncrpc.TCPClient
	}
	return c, nil
}
