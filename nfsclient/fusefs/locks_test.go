package fusefs

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4/nlm4test"
	"github.com/nfsrdma/nfsrdma/nfsclient/nlmclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// shareLocks makes the mounts of a server share locks through a lock manager.
func shareLocks(t *testing.T, nlm *nlm4test.Server) func(*Config) {
	return func(c *Config) {
		var err error
		c.Locks, err = nlmclient.New(t.Context(), nlmclient.Config{
			Server: nlmclient.Server{NFS: nlm, Conn: nlm.Conn, Hosts: []string{"127.0.0.1"}}, NoCallback: true, Log: discard,
		})
		require.NoError(t, err)
		t.Cleanup(c.Locks.Close)
	}
}

// A lockProcess is a process with a file open.
type lockProcess struct {
	*exec.Cmd
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Scanner
}

func newLocker(t *testing.T, path string) *lockProcess {
	l := &lockProcess{Cmd: newChild(t, nil, "lock", path), t: t}
	l.Stderr = os.Stderr
	var err error
	l.in, err = l.StdinPipe()
	require.NoError(t, err)
	out, err := l.StdoutPipe()
	require.NoError(t, err)
	l.out = bufio.NewScanner(out)
	require.NoError(t, l.Start())
	t.Cleanup(func() {
		_ = l.Process.Kill()
		_ = l.Wait()
	})
	l.expectReply("ready")
	return l
}

// sendCommand sends a command to the process; expectReply waits for its outcome.
func (l *lockProcess) sendCommand(words string) { fmt.Fprintln(l.in, words) }

func (l *lockProcess) expectReply(want string) {
	l.t.Helper()
	require.True(l.t, l.out.Scan(), "the process has ended")
	require.Equal(l.t, want, l.out.Text())
}

func (l *lockProcess) runCommand(words, want string) {
	l.t.Helper()
	l.sendCommand(words)
	l.expectReply(want)
}

// lockFile is a child that locks a file as it is told on its standard input.
func lockFile(args []string) error {
	f, err := os.OpenFile(args[0], os.O_RDWR, 0)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	kinds := map[string]int16{"shared": unix.F_RDLCK, "exclusive": unix.F_WRLCK, "none": unix.F_UNLCK}
	flocks := map[string]int{"shared": unix.LOCK_SH, "exclusive": unix.LOCK_EX, "none": unix.LOCK_UN}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		w := strings.Fields(in.Text())
		var lk unix.Flock_t
		if len(w) > 2 {
			lk.Type = kinds[w[1]]
			_, _ = fmt.Sscan(w[2], &lk.Start)
			_, _ = fmt.Sscan(w[3], &lk.Len)
		}
		switch w[0] {
		case "try":
			err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lk)
		case "wait":
			err = unix.FcntlFlock(f.Fd(), unix.F_SETLKW, &lk)
		case "ofd":
			err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lk)
		case "get":
			err = unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lk)
			if err == nil {
				fmt.Println(lk.Type, lk.Start, lk.Len, lk.Pid)
				continue
			}
		case "flock":
			err = unix.Flock(int(f.Fd()), flocks[w[1]])
		case "tryflock":
			err = unix.Flock(int(f.Fd()), flocks[w[1]]|unix.LOCK_NB)
		case "reopen":
			f.Close()
			f, err = os.OpenFile(args[0], os.O_RDWR, 0)
		case "other": // the close of another descriptor unlocks too
			var g *os.File
			if g, err = os.Open(args[0]); err == nil {
				err = g.Close()
			}
		case "write":
			_, err = f.WriteAt([]byte(w[1]), 0)
		case "sync":
			err = f.Sync()
		case "read":
			p := make([]byte, 100)
			var n int
			if n, err = f.ReadAt(p, 0); err == nil || err == io.EOF {
				fmt.Printf("%q\n", p[:n])
				continue
			}
		case "add": // one to the number in the file, many times, each under a lock
			err = incrementUnderLock(f, w[1] == "flock")
		}
		fmt.Println(errnoName(err))
	}
	return nil
}

const adds = 100

func incrementUnderLock(f *os.File, flock bool) error {
	set := func(kind int16, how int) error {
		if flock {
			return unix.Flock(int(f.Fd()), how)
		}
		return unix.FcntlFlock(f.Fd(), unix.F_SETLKW, &unix.Flock_t{Type: kind})
	}
	p := make([]byte, 8)
	for range adds {
		if err := set(unix.F_WRLCK, unix.LOCK_EX); err != nil {
			return err
		}
		if _, err := f.ReadAt(p, 0); err != nil {
			return err
		}
		binary.BigEndian.PutUint64(p, binary.BigEndian.Uint64(p)+1)
		if _, err := f.WriteAt(p, 0); err != nil {
			return err
		}
		if err := set(unix.F_UNLCK, unix.LOCK_UN); err != nil {
			return err
		}
	}
	return nil
}

// TestLocksBetween checks locks of fcntl and of flock between processes of one mount and
// of two (RNLM-LINUX-8).
func TestLocksBetween(t *testing.T) {
	for _, mounts := range []int{1, 2} {
		t.Run(fmt.Sprint(mounts), func(t *testing.T) {
			s, nlm := newServer(t, nil), nlm4test.New(t)
			writeFile(t, s.path("a"), []byte("x"))
			one := s.mount(shareLocks(t, nlm))
			two := one
			if mounts > 1 {
				two = s.mount(shareLocks(t, nlm))
			}
			a, b := newLocker(t, one.path("a")), newLocker(t, two.path("a"))
			a.runCommand("try exclusive 0 10", "ok")
			b.runCommand("try shared 9 1", "EAGAIN")
			b.runCommand("try shared 10 0", "ok")
			a.runCommand("try exclusive 5 20", "EAGAIN")
			pid := a.Process.Pid
			if mounts > 1 {
				pid = 0 // another host's, for all that the server says
			}
			b.runCommand("get exclusive 0 0", fmt.Sprintf("%d 0 10 %d", unix.F_WRLCK, pid))
			b.runCommand("get shared 10 5", fmt.Sprintf("%d 10 5 0", unix.F_UNLCK))
			b.sendCommand("wait exclusive 3 1")
			a.runCommand("try none 0 10", "ok")
			b.expectReply("ok")
			a.runCommand("try shared 3 1", "EAGAIN")
			b.runCommand("other", "ok")
			a.runCommand("try exclusive 0 0", "ok")

			// A lock of flock(2) is one of the whole file at the server.
			b.runCommand("tryflock shared", "EAGAIN")
			a.runCommand("reopen", "ok")
			b.runCommand("tryflock shared", "ok")
			a.runCommand("tryflock shared", "ok")
			a.runCommand("tryflock exclusive", "EAGAIN")
			a.sendCommand("flock exclusive")
			b.runCommand("flock none", "ok")
			a.expectReply("ok")
			b.runCommand("tryflock shared", "EAGAIN")
			a.runCommand("flock none", "ok")
			b.runCommand("tryflock exclusive", "ok")
			require.NoError(t, b.Process.Kill()) // its locks go with it
			a.runCommand("wait exclusive 0 0", "ok")
			a.runCommand("tryflock shared", "EAGAIN") // the server knows no processes
			a.runCommand("reopen", "ok")
			assert.Zero(t, nlm.Waiting())
			eventuallyFree(t, nlm)
		})
	}
}

// eventuallyFree waits until no process has a lock: the kernel does not wait for
// the release of a file.
func eventuallyFree(t *testing.T, nlm *nlm4test.Server) {
	t.Helper()
	for range 2000 {
		free := true
		for _, a := range nlm.Log() {
			free = free && len(nlm.Held(string(a.Lock.Handle))) == 0
		}
		if free {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Error("locks are left")
}

// TestLocksOFD checks that locks of open files go when their file is closed.
func TestLocksOFD(t *testing.T) {
	s, nlm := newServer(t, nil), nlm4test.New(t)
	writeFile(t, s.path("a"), []byte("x"))
	m := s.mount(shareLocks(t, nlm))
	a, b := newLocker(t, m.path("a")), newLocker(t, m.path("a"))
	a.runCommand("ofd exclusive 0 0", "ok")
	a.runCommand("other", "ok")
	b.runCommand("ofd shared 0 0", "EAGAIN")
	for range 50 { // close returns before the kernel sends RELEASE
		a.runCommand("reopen", "ok")
		b.runCommand("ofd shared 0 0", "ok")
		a.runCommand("ofd exclusive 0 0", "EAGAIN")
		b.runCommand("reopen", "ok")
		a.runCommand("tryflock exclusive", "ok")
		b.runCommand("ofd shared 0 0", "EAGAIN")
	}
}

// TestCloses checks that a request for a lock waits for the RELEASE of a file
// that may have been closed, and not for others.
func TestCloses(t *testing.T) {
	var c pendingReleases
	f, g := &openFile{n: new(node)}, &openFile{n: new(node)}
	c.expectRelease(f)
	c.awaitReleases(t.Context(), g.n)
	c.awaitReleases(t.Context(), f.n) // RELEASE does not come: the file has another descriptor
	c.expectRelease(f)
	c.mu.Lock()
	k := c.all[f]
	c.last, k.since = time.Now().Add(time.Hour), time.Now().Add(time.Hour)
	c.all[f] = k
	c.mu.Unlock()
	var over atomic.Bool
	go func() {
		over.Store(true)
		c.finishRelease(f)
	}()
	c.awaitReleases(t.Context(), f.n)
	assert.True(t, over.Load())
	c.awaitReleases(t.Context(), f.n)
	assert.False(t, c.any.Load())
}

// TestLocksKilled checks that the locks of a process that has ended are not in
// the way of the next.
func TestLocksKilled(t *testing.T) {
	s, nlm := newServer(t, nil), nlm4test.New(t)
	writeFile(t, s.path("a"), []byte("x"))
	m := s.mount(shareLocks(t, nlm))
	a := newLocker(t, m.path("a"))
	for i := range 20 {
		b := newLocker(t, m.path("a"))
		b.runCommand([]string{"try exclusive 0 0", "ofd exclusive 0 0", "tryflock exclusive"}[i%3], "ok")
		require.NoError(t, b.Process.Kill())
		_ = b.Wait()
		a.runCommand("tryflock shared", "ok")
		a.runCommand("flock none", "ok")
	}
}

// TestLocksFresh has processes of two mounts add to a number in a file, under
// locks, with the file open all the time.
func TestLocksFresh(t *testing.T) {
	for _, kind := range []string{"fcntl", "flock"} {
		t.Run(kind, func(t *testing.T) {
			s, nlm := newServer(t, nil), nlm4test.New(t)
			writeFile(t, s.path("a"), make([]byte, 8))
			var all []*lockProcess
			for range 2 {
				m := s.mount(shareLocks(t, nlm))
				all = append(all, newLocker(t, m.path("a")), newLocker(t, m.path("a")))
			}
			for _, l := range all {
				l.sendCommand("add " + kind)
			}
			for _, l := range all {
				l.expectReply("ok")
			}
			data, err := os.ReadFile(s.path("a"))
			require.NoError(t, err)
			assert.EqualValues(t, adds*len(all), binary.BigEndian.Uint64(data))
		})
	}
}

// TestLocksSignal checks that a signal ends a wait, at the server too, and that
// SIGKILL does (RNLM-LINUX-2).
func TestLocksSignal(t *testing.T) {
	s, nlm := newServer(t, nil), nlm4test.New(t)
	writeFile(t, s.path("a"), []byte("x"))
	m := s.mount(shareLocks(t, nlm))
	a := newLocker(t, m.path("a"))
	a.runCommand("flock exclusive", "ok")
	cmd := exec.Command("flock", "--timeout", "0.1", m.path("a"), "true") // a timer's signal ends the wait
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Run(), &exit)
	assert.Equal(t, 1, exit.ExitCode())

	b := newLocker(t, m.path("a"))
	calls := nlm.Count(nlm4.ProcLock)
	b.sendCommand("wait exclusive 0 0")
	c := newLocker(t, m.path("a"))
	c.sendCommand("flock exclusive")
	for m.ops.countOps() < 2 {
		time.Sleep(time.Millisecond)
	}
	require.NoError(t, b.Process.Kill())
	require.Error(t, b.Wait())
	assert.Equal(t, calls, nlm.Count(nlm4.ProcLock), "conflicts within the mount take no call")
	a.runCommand("flock none", "ok")
	c.expectReply("ok")
}

// TestLocksLocal checks that the kernel keeps the locks that must hold on this
// host only.
func TestLocksLocal(t *testing.T) {
	for _, tt := range []struct {
		name         string
		posix, flock bool
	}{{"posix", true, false}, {"flock", false, true}, {"all", true, true}} {
		t.Run(tt.name, func(t *testing.T) {
			s, nlm := newServer(t, nil), nlm4test.New(t)
			writeFile(t, s.path("a"), []byte("x"))
			m := s.mount(func(c *Config) {
				shareLocks(t, nlm)(c)
				c.LocalPOSIX, c.LocalFlock = tt.posix, tt.flock
			})
			a, b := newLocker(t, m.path("a")), newLocker(t, m.path("a"))
			a.runCommand("try exclusive 0 1", "ok")
			b.runCommand("try exclusive 0 1", "EAGAIN")
			assert.Equal(t, tt.posix, nlm.Count(nlm4.ProcLock) == 0)
			a.runCommand("try none 0 1", "ok")
			calls := nlm.Count(nlm4.ProcLock)
			a.runCommand("tryflock exclusive", "ok")
			b.runCommand("tryflock exclusive", "EAGAIN")
			assert.Equal(t, tt.flock, nlm.Count(nlm4.ProcLock) == calls)
		})
	}
}

// TestLocksLost checks that reads and writes fail through a file whose lock
// another client has got, until the lock is given up.
func TestLocksLost(t *testing.T) {
	s, nlm := newServer(t, nil), nlm4test.New(t)
	writeFile(t, s.path("a"), []byte("x"))
	m := s.mount(shareLocks(t, nlm))
	a, b := newLocker(t, m.path("a")), newLocker(t, m.path("a"))
	a.runCommand("try exclusive 0 1", "ok")
	a.runCommand("read", `"x"`)
	m.handleLostLock(m.table.findChild(m.table.findNode(1), "a").fh, onlyOwner(t, m))
	a.runCommand("write y", "EIO")
	a.runCommand("sync", "EIO")
	b.runCommand("sync", "ok")
	for a.sendCommand("read"); ; a.sendCommand("read") { // the kernel drops its pages soon
		require.True(t, a.out.Scan())
		if a.out.Text() == "EIO" {
			break
		}
	}
	b.runCommand("write z", "ok")
	a.runCommand("try none 0 1", "ok")
	a.runCommand("write y", "ok")
	b.runCommand("read", `"y"`)
}

func onlyOwner(t *testing.T, m *testMount) nlmclient.Owner {
	for _, f := range m.files.listNodeFiles(m.table.findChild(m.table.findNode(1), "a")) {
		for _, o := range f.lockers.listOwners() {
			return o
		}
	}
	require.Fail(t, "no file is locked")
	return nlmclient.Owner{}
}

// TestLocksMany has 1,000 open files wait for one byte: each gets the lock once.
func TestLocksMany(t *testing.T) {
	const many = 1000
	s, nlm := newServer(t, nil), nlm4test.New(t)
	writeFile(t, s.path("a"), []byte("x"))
	m := s.mount(shareLocks(t, nlm))
	lock := func(f *os.File, kind int16) error {
		return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLKW, &unix.Flock_t{Type: kind, Len: 1})
	}
	first := openAt(t, m.path("a"), os.O_RDWR)
	require.NoError(t, lock(first, unix.F_WRLCK))
	var all sync.WaitGroup
	var inside, got atomic.Int32 // atomic because the race detector does not know the lock
	for range many {
		f := openAt(t, m.path("a"), os.O_RDWR)
		all.Go(func() {
			assert.NoError(t, lock(f, unix.F_WRLCK))
			assert.EqualValues(t, 1, inside.Add(1))
			got.Add(1)
			inside.Add(-1)
			assert.NoError(t, lock(f, unix.F_UNLCK))
		})
	}
	for m.ops.countOps() < many {
		time.Sleep(time.Millisecond)
	}
	require.NoError(t, lock(first, unix.F_UNLCK))
	all.Wait()
	assert.EqualValues(t, many, got.Load())
}

// countOps returns the number of requests in flight.
func (s *ops) countOps() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// TestLocksKilledWriter kills a process whose data the server does not take, while
// another process has the file open too: the lock goes once the data are there, and
// not before.
func TestLocksKilledWriter(t *testing.T) {
	s, nlm := newServer(t, nil), nlm4test.New(t)
	writeFile(t, s.path("a"), []byte("old"))
	gone := exec.Command("true") // before the file is open: a child closes it
	require.NoError(t, gone.Run())
	m := s.mount(shareLocks(t, nlm))
	f := openAt(t, m.path("a"), os.O_RDWR)
	require.NoError(t, unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}))
	owner := onlyOwner(t, m)
	over := make(chan struct{})
	m.setBefore(func(_ context.Context, x *oncrpc.Exchange) error {
		if x.Proc == nfs3.ProcWrite {
			<-over
		}
		return nil
	})
	_, err := f.WriteAt([]byte("new"), 0)
	require.NoError(t, err)
	signal := make(chan struct{})
	close(signal)
	n := m.table.findChild(m.table.findNode(1), "a")
	h := &fuse.InHeader{Caller: fuse.Caller{Pid: uint32(gone.Process.Pid)}}
	m.releaseLocks(signal, h, m.files.listNodeFiles(n)[0], owner) // as FLUSH does
	early := false
	for range 50 {
		early = early || len(nlm.Held(string(n.fh))) == 0
		time.Sleep(time.Millisecond)
	}
	close(over)
	assert.False(t, early, "unlocked before the server has the data")
	eventuallyFree(t, nlm)
	data, err := os.ReadFile(s.path("a"))
	require.NoError(t, err)
	assert.Equal(t, "new", string(data))
}

// TestLockersLost checks that a loss lasts until its owner unlocks, whatever other
// owners do through the same open file.
func TestLockersLost(t *testing.T) {
	var l lockOwners
	a, b := nlmclient.Owner{ID: 1}, nlmclient.Owner{ID: 2}
	none := func() bool { return false }
	l.add(a)
	l.add(b)
	l.markLost(nlmclient.Owner{ID: 3})
	assert.False(t, l.lost.Load())
	l.markLost(a)
	l.add(a) // another lock
	l.remove(b, none)
	assert.True(t, l.lost.Load())
	l.remove(a, func() bool { return true }) // part of its locks, or another thread has locked
	assert.True(t, l.lost.Load())
	assert.Equal(t, []nlmclient.Owner{a}, l.listOwners())
	l.remove(a, none)
	assert.False(t, l.lost.Load())
	assert.Empty(t, l.listOwners())
}

// TestLocksDelegated checks that a lock makes the kernel drop pages that it read
// before a delegation was granted, and no others.
func TestLocksDelegated(t *testing.T) {
	s, nlm := newGrantingServer(t, true), nlm4test.New(t)
	writeFile(t, s.path("a"), []byte("old"))
	m := s.mount(shareLocks(t, nlm))
	f := openAt(t, m.path("a"), os.O_RDWR)
	read := func() string {
		p := make([]byte, 3)
		_, err := f.ReadAt(p, 0)
		require.NoError(t, err)
		return string(p)
	}
	require.Equal(t, "old", read())
	st, err := os.Stat(s.path("a"))
	require.NoError(t, err)
	writeFile(t, s.path("a"), []byte("new")) // as another client
	require.NoError(t, os.Chtimes(s.path("a"), st.ModTime(), st.ModTime()))
	n := m.table.findChild(m.table.findNode(1), "a")
	o := m.beginRequest(nil, new(fuse.InHeader))
	require.True(t, m.acquireDelegation(o, n, fileTypes))
	m.endRequest(o)
	opened := m.files.listNodeFiles(n)[0]
	opened.prefetch.Store(&prefetch{data: []byte("old"), began: m.nextTick()})
	require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_SH))
	assert.Nil(t, opened.prefetch.Load())
	assert.Equal(t, "new", read())
	calls := m.totalCalls()
	for range 3 {
		require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_UN))
		require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_SH))
		assert.Equal(t, "new", read())
	}
	assert.Equal(t, calls, m.totalCalls(), "the delegation says that the pages are current")
}

// TestLocksUnmount unmounts while a lock manager that is in its grace period does not
// take the unlock of a file that was closed: the mount ends nevertheless, and leaves
// the lock to Config.Locks.
func TestLocksUnmount(t *testing.T) {
	s, nlm := newServer(t, nil), nlm4test.New(t)
	writeFile(t, s.path("a"), []byte("x"))
	m := s.mount(shareLocks(t, nlm))
	f := openAt(t, m.path("a"), os.O_RDWR)
	require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	nlm.SetGrace()
	require.NoError(t, f.Close())
	for nlm.Count(nlm4.ProcUnlock) == 0 {
		time.Sleep(time.Millisecond)
	}
	done := make(chan error, 1)
	go func() { done <- m.Unmount() }()
	select {
	case err := <-done:
		assert.NoError(t, err)
	case <-time.After(20 * killPoll):
		assert.Fail(t, "the mount waits for the end of the grace period")
	}
	nlm.EndGrace()
}

// TestLocksStable checks that data are on stable storage before their lock goes, or
// becomes shared. After a crash of the server, data that are not would be sent again,
// over those of the next owner.
func TestLocksStable(t *testing.T) {
	s, nlm := newServer(t, nil), nlm4test.New(t)
	writeFile(t, s.path("a"), []byte("old"))
	m := s.mount(shareLocks(t, nlm))
	f := openAt(t, m.path("a"), os.O_RDWR)
	set := map[string]func(how int) error{
		"fcntl": func(how int) error {
			kind := map[int]int16{unix.LOCK_EX: unix.F_WRLCK, unix.LOCK_SH: unix.F_RDLCK, unix.LOCK_UN: unix.F_UNLCK}[how]
			return unix.FcntlFlock(f.Fd(), unix.F_SETLKW, &unix.Flock_t{Type: kind})
		},
		"flock": func(how int) error { return unix.Flock(int(f.Fd()), how) },
	}
	for kind, lock := range set {
		for _, how := range []int{unix.LOCK_SH, unix.LOCK_UN} {
			require.NoError(t, lock(unix.LOCK_EX))
			locked := nlm.Count(nlm4.ProcLock) + nlm.Count(nlm4.ProcUnlock)
			var early atomic.Bool
			m.setBefore(func(_ context.Context, x *oncrpc.Exchange) error {
				if (x.Proc == nfs3.ProcWrite || x.Proc == nfs3.ProcCommit) && nlm.Count(nlm4.ProcLock)+nlm.Count(nlm4.ProcUnlock) > locked {
					early.Store(true)
				}
				return nil
			})
			_, err := f.WriteAt([]byte("new"), 0)
			require.NoError(t, err)
			require.NoError(t, lock(how))
			require.NoError(t, f.Sync())
			m.setBefore(nil)
			assert.False(t, early.Load(), "%s %d", kind, how)
			require.NoError(t, lock(unix.LOCK_UN))
		}
	}
}

// TestLocksClose checks that the close of a file without locks makes no call, although
// the kernel asks for it, in case that the process has locks of the file.
func TestLocksClose(t *testing.T) {
	s, nlm := newServer(t, nil), nlm4test.New(t)
	writeFile(t, s.path("a"), []byte("x"))
	m := s.mount(shareLocks(t, nlm))
	_, content := statAndRead(t, m.path("a"))
	require.Equal(t, "x", content)
	m.awaitNoOpenFiles()
	calls := m.totalCalls()
	for range 10 {
		statAndRead(t, m.path("a"))
	}
	m.awaitNoOpenFiles()
	assert.LessOrEqual(t, m.totalCalls(), calls+10, "one call opens, and none closes")
	for _, proc := range []uint32{nlm4.ProcLock, nlm4.ProcUnlock, nlm4.ProcTest} {
		assert.Zero(t, nlm.Count(proc))
	}
}

// TestLocksWait checks that a request which does not wait for locks waits for those of
// files that are being closed, and of processes that have ended.
func TestLocksWait(t *testing.T) {
	gone := exec.Command("true")
	require.NoError(t, gone.Run())
	s, nlm := newServer(t, nil), nlm4test.New(t)
	writeFile(t, s.path("a"), []byte("x"))
	m := s.mount(shareLocks(t, nlm))
	f := openAt(t, m.path("a"), os.O_RDWR)
	n := m.table.findChild(m.table.findNode(1), "a")
	other := nlmclient.Owner{ID: 1}
	lock := func(pid int) {
		require.NoError(t, m.cfg.Locks.Lock(t.Context(), &nlmclient.Request{
			Handle: n.fh, Owner: other, PID: uint32(pid), Cred: m.files.listNodeFiles(n)[0].who.cred, Range: nlm4test.Whole, Exclusive: true,
		}))
	}
	// try locks, and has the other owner unlock in the meantime.
	try := func(unlocked func()) error {
		done := make(chan error, 1)
		go func() { done <- unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}) }()
		for m.ops.countOps() == 0 && len(done) == 0 {
			time.Sleep(time.Millisecond)
		}
		require.NoError(t, m.cfg.Locks.Release(t.Context(), n.fh, other))
		unlocked()
		return <-done
	}

	lock(os.Getpid())
	closing := &openFile{n: n}
	m.releases.expectRelease(closing)
	m.releases.mu.Lock()
	k := m.releases.all[closing]
	m.releases.last, k.since = time.Now().Add(time.Hour), time.Now().Add(time.Hour)
	m.releases.all[closing] = k
	m.releases.mu.Unlock()
	require.NoError(t, try(func() { m.releases.finishRelease(closing) }))
	require.NoError(t, unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_UNLCK}))

	for range 20 { // on a busy host, a try can take longer than closeWait
		m.exitedHolder.Store(0)
		lock(gone.Process.Pid)
		if try(func() {}) == nil {
			return
		}
	}
	assert.Fail(t, "no request has waited for the unlock by a process that has ended")
}
