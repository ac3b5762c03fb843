package nfs4server

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// A hostLockServer is a testServer that exports a host directory twice, and another open file
// description for a file in it.
type hostLockServer struct {
	*testServer
	list  []exportset.Export
	file  string
	other int
	fh    nfs4.FH
}

func newHostLockServer(t *testing.T) *hostLockServer {
	var file unix.Stat_t
	t.Cleanup(func() {
		closed := func() bool { return countDescriptors(t, &file) == 0 } // a removed export's files are closed in the background
		assert.Eventually(t, closed, 5*time.Second, time.Millisecond, "descriptors left open")
	})
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o777))
	var list []exportset.Export
	for _, path := range []string{"/x", "/y"} {
		f, err := posix.Open(dir, posix.Options{StateDir: t.TempDir(), TableHandles: true})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, f.Close()) })
		list = append(list, exportset.Export{Path: path, FS: f, Clients: exports.Everyone(exports.Options{Insecure: true, NoRootSquash: true})})
	}
	g := newTestServer(t, list...).connectClient().becomeRoot()
	t.Cleanup(g.s.Close)
	d := &hostLockServer{testServer: g, list: list, file: filepath.Join(dir, "f")}
	d.fh = g.makeFile("f", "content")
	require.NoError(t, unix.Stat(d.file, &file))
	var err error
	d.other, err = unix.Open(d.file, unix.O_RDWR|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Close(d.other)) })
	return d
}

// countDescriptors returns how many descriptors of a file the process has open.
func countDescriptors(t testing.TB, file *unix.Stat_t) (n int) {
	dir, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, e := range dir {
		fd, err := strconv.Atoi(e.Name())
		require.NoError(t, err)
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && st.Dev == file.Dev && st.Ino == file.Ino {
			n++
		}
	}
	return n
}

// lockOnHost lets a host process lock a range, and reports whether it may.
func (d *hostLockServer) lockOnHost(kind int16, start, length int64) bool {
	d.t.Helper()
	err := unix.FcntlFlock(uintptr(d.other), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind, Start: start, Len: length})
	if err != unix.EAGAIN {
		require.NoError(d.t, err)
	}
	return err == nil
}

// firstHostLock returns the first lock that conflicts with a host process from an offset on:
// F_RDLCK, F_WRLCK or F_UNLCK, with start and length.
func (d *hostLockServer) firstHostLock(from int64) (kind int16, start, length int64) {
	d.t.Helper()
	l := unix.Flock_t{Type: unix.F_WRLCK, Start: from}
	require.NoError(d.t, unix.FcntlFlock(uintptr(d.other), unix.F_OFD_GETLK, &l))
	return l.Type, l.Start, l.Len
}

func (d *hostLockServer) checkHostLock(kind int16, start, length int64) {
	d.t.Helper()
	k, s, l := d.firstHostLock(0)
	if k == unix.F_UNLCK {
		s, l = 0, 0
	}
	assert.Equal(d.t, [3]int64{int64(kind), start, length}, [3]int64{int64(k), s, l})
}

// TestHostLocks lets a client and a host process lock bytes in a file.
//
// R8881-18.10.3-6: the process has a client ID that no client has.
func TestHostLocks(t *testing.T) {
	d := newHostLockServer(t)
	open, _, st := d.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	locked, st := d.lockFile(d.fh, lockArgs(open.StateID, "l", nfs4.LockWrite, 10, 10))
	require.Equal(t, nfs4.OK, st)
	d.checkHostLock(unix.F_WRLCK, 10, 10)
	assert.False(t, d.lockOnHost(unix.F_RDLCK, 19, 1))
	require.True(t, d.lockOnHost(unix.F_RDLCK, 20, 5))
	denied := nfs4.LockDenied{Offset: 20, Length: 5, Type: nfs4.LockRead, Owner: nfs4.StateOwner{ClientID: 7 << 32, Owner: []byte("host")}}
	again := &nfs4.LockArgs{Type: nfs4.LockWriteWait, Length: toEnd, StateID: locked.StateID}
	res, st := d.lockFile(d.fh, again)
	require.Equal(t, nfs4.ErrDenied, st)
	assert.Equal(t, denied, res.Denied)
	tested, st := d.testLock(d.fh, "l", nfs4.LockWrite, 0, toEnd)
	require.Equal(t, nfs4.ErrDenied, st)
	assert.Equal(t, denied, tested.Denied)
	_, st = d.testLock(d.fh, "l", nfs4.LockRead, 0, toEnd)
	assert.Equal(t, nfs4.OK, st)
	d.checkHostLock(unix.F_WRLCK, 10, 10)
	again.Type = nfs4.LockRead
	res, st = d.lockFile(d.fh, again)
	require.Equal(t, nfs4.OK, st, "the stateid is as before the denial")
	assert.EqualValues(t, 2, res.StateID.SeqID)
	d.checkHostLock(unix.F_RDLCK, 0, 0)
	require.True(t, d.lockOnHost(unix.F_UNLCK, 0, 0))

	// The table has 64 bits, and the host 63.
	unlock := func(id nfs4.StateID, offset, length uint64) nfs4.StateID {
		res, st := d.unlockFile(d.fh, &nfs4.LockUArgs{Type: nfs4.LockWrite, StateID: id, Offset: offset, Length: length})
		require.Equal(t, nfs4.OK, st)
		return res.StateID
	}
	id := unlock(res.StateID, 0, toEnd)
	d.checkHostLock(unix.F_UNLCK, 0, 0)
	for _, r := range []struct{ offset, length, hostStart, hostLen uint64 }{
		{math.MaxInt64 - 1, 1, math.MaxInt64 - 1, 1},
		{math.MaxInt64, 1, math.MaxInt64, 0},
		{math.MaxInt64 - 1, 3, math.MaxInt64 - 1, 0},
		{1 << 63, 1, 0, 0},
		{1 << 63, toEnd, 0, 0},
		{5, toEnd, 5, 0},
	} {
		res, st := d.lockFile(d.fh, &nfs4.LockArgs{Type: nfs4.LockWrite, Offset: r.offset, Length: r.length, StateID: id})
		require.Equal(t, nfs4.OK, st)
		kind := int16(unix.F_WRLCK)
		if r.offset > math.MaxInt64 {
			kind = unix.F_UNLCK
		}
		d.checkHostLock(kind, int64(r.hostStart), int64(r.hostLen))
		_, st = d.testLock(d.fh, "other", nfs4.LockRead, r.offset, 1)
		assert.Equal(t, nfs4.ErrDenied, st, "between clients")
		id = unlock(res.StateID, r.offset, r.length)
		d.checkHostLock(unix.F_UNLCK, 0, 0)
	}

	// A removed file is locked until its close.
	res, st = d.lockFile(d.fh, &nfs4.LockArgs{Type: nfs4.LockRead, Length: 5, StateID: id})
	require.Equal(t, nfs4.OK, st)
	st, _ = d.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte("f")}, new(nfs4.ChangeRes)})
	require.Equal(t, nfs4.OK, st)
	_, st = d.lockFile(d.fh, &nfs4.LockArgs{Type: nfs4.LockWrite, Offset: 2, Length: 3, StateID: res.StateID})
	require.Equal(t, nfs4.OK, st)
	d.checkHostLock(unix.F_RDLCK, 0, 2)
	assert.False(t, d.lockOnHost(unix.F_RDLCK, 2, 1))
	require.Equal(t, nfs4.OK, d.closeFile(d.fh, open.StateID))
	d.checkHostLock(unix.F_UNLCK, 0, 0)
}

// TestHostLocksOfTwoExports locks a file through two exports of one directory: the locks
// conflict as those in one export, and removing an export releases only those made through it.
func TestHostLocksOfTwoExports(t *testing.T) {
	d := newHostLockServer(t)
	openIn := func(g *testServer, export string) (nfs4.StateID, nfs4.FH) {
		var res nfs4.OpenRes
		var fh nfs4.HandleRes
		st, _ := g.sendSteps(putRootStep(), lookupStep(export), step{nfs4.OpOpen, openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate), &res}, step{nfs4.OpGetFH, &void, &fh})
		require.Equal(t, nfs4.OK, st)
		return res.StateID, append(nfs4.FH(nil), fh.Object...)
	}
	g, other := d.testServer, d.testServer.newOtherClient()
	x, fx := openIn(g, "x")
	y, fy := openIn(other, "y")
	_, st := g.lockFile(fx, lockArgs(x, "l", nfs4.LockRead, 0, 10))
	require.Equal(t, nfs4.OK, st)
	_, st = other.lockFile(fy, lockArgs(y, "l", nfs4.LockRead, 5, 10))
	require.Equal(t, nfs4.OK, st, "no lock of the host is in the way")
	_, st = other.lockFile(fy, lockArgs(y, "l", nfs4.LockWrite, 11, 1))
	require.Equal(t, nfs4.OK, st)
	res, st := other.lockFile(fy, lockArgs(y, "l", nfs4.LockWrite, 3, 10))
	assert.Equal(t, nfs4.ErrDenied, st)
	assert.Equal(t, g.clientID(), res.Denied.Owner.ClientID)
	d.checkHostLock(unix.F_RDLCK, 0, 11)

	require.NoError(t, g.s.exports.SetExports(d.list[1:]))
	g.s.state.WaitForHostLocks()
	d.checkHostLock(unix.F_RDLCK, 5, 6)
	assert.True(t, d.lockOnHost(unix.F_WRLCK, 0, 5))
	kind, start, length := d.firstHostLock(11)
	assert.Equal(t, [3]int64{unix.F_WRLCK, 11, 1}, [3]int64{int64(kind), start, length})
	_, st = other.lockFile(fy, lockArgs(y, "l", nfs4.LockWrite, 5, toEnd))
	assert.Equal(t, nfs4.OK, st, "after the end of the export through which the host's file was opened")
	d.checkHostLock(unix.F_WRLCK, 5, 0)
}

// TestLocksNeedNoDescriptor checks that a locked file has as many descriptors as an open one.
func TestLocksNeedNoDescriptor(t *testing.T) {
	d := newHostLockServer(t)
	open, _, st := d.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	var file unix.Stat_t
	require.NoError(t, unix.Stat(d.file, &file))
	opened := countDescriptors(t, &file)
	for i, kind := range []nfs4.LockType{nfs4.LockRead, nfs4.LockWrite} {
		_, st = d.lockFile(d.fh, lockArgs(open.StateID, "l"+strconv.Itoa(i), kind, uint64(10*i), 10))
		require.Equal(t, nfs4.OK, st)
		assert.Equal(t, opened, countDescriptors(t, &file))
	}
	d.checkHostLock(unix.F_RDLCK, 0, 10)
	require.Equal(t, nfs4.OK, d.closeFile(d.fh, open.StateID))
	d.checkHostLock(unix.F_UNLCK, 0, 0)
}

// A fakeLocker is a file system in memory whose host has one reply for each
// call.
type fakeLocker struct {
	*mem.FS
	open, err error
	denies    bool
	hangs     chan struct{} // the host's locks are closed when the channel is
	held      int           // files
}

type fakeLocks struct{ of *fakeLocker }

func (f *fakeLocker) OpenLocks(context.Context, vfs.Handle) (vfs.FileLocks, error) {
	if f.open != nil {
		return nil, f.open
	}
	f.held++
	return fakeLocks{f}, nil
}

func (l fakeLocks) SetLock(locks.Range, locks.Kind) (bool, error) {
	return !l.of.denies && l.of.err == nil, l.of.err
}

func (l fakeLocks) TestLock(r locks.Range, kind locks.Kind) (locks.Range, locks.Kind, error) {
	if l.of.denies {
		return r, locks.Exclusive, l.of.err
	}
	return locks.Range{}, locks.None, l.of.err
}

func (l fakeLocks) Close() {
	if l.of.hangs != nil {
		<-l.of.hangs
	}
	l.of.held--
}

func newFakeHostServer(t *testing.T) (*testServer, *fakeLocker, nfs4.StateID, nfs4.FH) {
	f := &fakeLocker{FS: mem.New(mem.Options{Size: 1 << 30, Mode: 0o777})}
	g := newTestServer(t, exportset.Export{Path: "/x", FS: f, Clients: exports.Everyone(exports.Options{Insecure: true})}).connectClient()
	open, fh, st := g.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.Unchecked))
	require.Equal(t, nfs4.OK, st)
	return g, f, open.StateID, fh
}

// TestHostLockErrors checks LOCK's and LOCKT's statuses for host errors.
func TestHostLockErrors(t *testing.T) {
	g, f, open, fh := newFakeHostServer(t)
	second := g.newOtherClient()
	for _, tt := range []struct {
		err         error
		lock, lockT nfs4.Status
	}{
		{nil, nfs4.OK, nfs4.OK},
		{syscall.EOPNOTSUPP, nfs4.OK, nfs4.OK},
		{syscall.EMFILE, nfs4.ErrDelay, nfs4.ErrDelay},
		{syscall.EAGAIN, nfs4.ErrDelay, nfs4.ErrDelay},
		{syscall.ENOLCK, nfs4.ErrDelay, nfs4.ErrDelay},
		{syscall.ESTALE, nfs4.ErrStale, nfs4.ErrStale},
		{syscall.EROFS, nfs4.ErrROFS, nfs4.ErrROFS},
		{syscall.EIO, nfs4.ErrServerFault, nfs4.OK},
	} {
		for _, opening := range []bool{true, false} {
			f.open, f.err = nil, tt.err
			if opening {
				f.open, f.err = tt.err, nil
			}
			_, st := g.testLock(fh, "l", nfs4.LockWrite, 0, 9)
			assert.Equal(t, tt.lockT, st, "LOCKT, %v", tt.err)
			res, st := g.lockFile(fh, lockArgs(open, "l", nfs4.LockWrite, 0, 9))
			require.Equal(t, tt.lock, st, "LOCK, %v", tt.err)
			_, other := second.testLock(fh, "l", nfs4.LockRead, 0, 9)
			if st == nfs4.OK {
				assert.Equal(t, nfs4.ErrDenied, other, "%v", tt.err)
				_, st = g.unlockFile(fh, &nfs4.LockUArgs{Type: nfs4.LockWrite, StateID: res.StateID, Length: toEnd})
				assert.Equal(t, nfs4.OK, st)
			} else {
				assert.NotEqual(t, nfs4.ErrDenied, other, "%v", tt.err)
			}
			assert.Zero(t, f.held)
		}
	}
	f.open, f.err, f.denies = nil, nil, true
	res, st := g.lockFile(fh, lockArgs(open, "l", nfs4.LockRead, 3, 9))
	require.Equal(t, nfs4.ErrDenied, st)
	assert.Equal(t, nfs4.LockDenied{Offset: 3, Length: 9, Type: nfs4.LockWrite, Owner: nfs4.StateOwner{ClientID: 7 << 32, Owner: []byte("host")}}, res.Denied)
}

// TestHungHostAtEnd checks that neither removing an export nor closing the server waits for a
// host that does not release locks.
func TestHungHostAtEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, f, open, fh := newFakeHostServer(t)
		_, st := g.lockFile(fh, lockArgs(open, "l", nfs4.LockRead, 3, 9))
		require.Equal(t, nfs4.OK, st)
		f.hangs = make(chan struct{})
		time.AfterFunc(time.Hour, func() { close(f.hangs) })
		began := time.Now()
		require.NoError(t, g.s.exports.SetExports(nil))
		assert.Zero(t, time.Since(began))
		g.s.Close()
		assert.Equal(t, 2*time.Second, time.Since(began))
		g.s.state.WaitForHostLocks()
		assert.Zero(t, f.held)
	})
}

// TestTwoHandles opens a file by its filehandles in two exports: an owner's opens are two,
// which are closed one by one (R8881-9.9-2). Share reservations still apply to the file.
func TestTwoHandles(t *testing.T) {
	d := newHostLockServer(t)
	var other nfs4.HandleRes
	st, _ := d.sendSteps(putRootStep(), lookupStep("y"), lookupStep("f"), step{nfs4.OpGetFH, &void, &other})
	require.Equal(t, nfs4.OK, st)
	handles := []nfs4.FH{d.fh, bytes.Clone(other.Object)}
	require.NotEqual(t, handles[0], handles[1])
	opened := func(fh nfs4.FH, access, deny uint32) (nfs4.StateID, nfs4.Status) {
		a := openArgs("o", "", access, deny, nfs4.NoCreate)
		a.Claim = nfs4.ClaimFH
		var res nfs4.OpenRes
		st, _ := d.sendSteps(putStep(fh), step{nfs4.OpOpen, a, &res})
		return res.StateID, st
	}
	var ids [2]nfs4.StateID
	for i, fh := range handles {
		ids[i], st = opened(fh, nfs4.ShareRead, 0)
		require.Equal(t, nfs4.OK, st)
		assert.EqualValues(t, 1, ids[i].SeqID)
	}
	assert.NotEqual(t, ids[0].Other, ids[1].Other)
	require.Equal(t, nfs4.OK, d.closeFile(handles[0], ids[0]))
	text, st := d.readFile(handles[1], ids[1])
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, "content", text)
	_, st = opened(handles[0], nfs4.ShareWrite, nfs4.ShareRead)
	assert.Equal(t, nfs4.ErrShareDenied, st)
	require.Equal(t, nfs4.OK, d.closeFile(handles[1], ids[1]))
}

// TestWaitedLock checks that the state knows about a host process that waits for a client's
// lock, and that it cannot tell for files that are not the host's.
func TestWaitedLock(t *testing.T) {
	d := newHostLockServer(t)
	open, _, st := d.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	locked, st := d.lockFile(d.fh, lockArgs(open.StateID, "l", nfs4.LockWrite, 10, 10))
	require.Equal(t, nfs4.OK, st)
	o, st := d.s.state.Open(d.s.state.Session(d.session), &open.StateID)
	require.Equal(t, nfs4.OK, st)
	export, hears := d.s.exports.Snapshot().List()[0], WithFiles(nfs4state.Config{}).LockWaited
	granted := make(chan error)
	go func() {
		granted <- unix.FcntlFlock(uintptr(d.other), unix.F_OFD_SETLKW, &unix.Flock_t{Type: unix.F_RDLCK, Start: 10})
	}()
	require.Eventually(t, func() bool {
		waited, known := hears(export, o.Key)
		require.True(t, known)
		return waited
	}, 10*time.Second, 10*time.Millisecond)
	_, st = d.unlockFile(d.fh, &nfs4.LockUArgs{Type: nfs4.LockWrite, StateID: locked.StateID, Length: toEnd})
	require.Equal(t, nfs4.OK, st)
	require.NoError(t, <-granted)
	_, known := hears(export, "handle")
	assert.False(t, known)
}

// TestCourtesyOfLocks lets a client with locks on the host be silent for hours: it keeps them, and
// its opens, until another client or a process of the host needs them.
func TestCourtesyOfLocks(t *testing.T) {
	byOther := func(d *hostLockServer, deny uint32, start uint64) {
		o := d.newOtherClient()
		open, _, st := o.openName(openArgs("other", "f", nfs4.ShareRead, deny, nfs4.NoCreate))
		require.Equal(d.t, nfs4.OK, st)
		_, st = o.lockFile(d.fh, lockArgs(open.StateID, "l", nfs4.LockRead, start, 10))
		require.Equal(d.t, nfs4.OK, st)
	}
	onHost := func(d *hostLockServer, wait func() error) {
		granted := make(chan error, 1)
		go func() { granted <- wait() }()
		assert.Eventually(d.t, func() bool {
			d.s.state.Sweep()
			return len(granted) > 0
		}, 20*time.Second, 10*time.Millisecond)
		assert.NoError(d.t, <-granted)
	}
	for _, tt := range []struct {
		name  string
		need  func(*hostLockServer)
		keeps bool
	}{
		{"nobody", func(*hostLockServer) {}, true},
		{"a client, other bytes", func(d *hostLockServer) { byOther(d, 0, 20) }, true},
		{"a client, by LOCK", func(d *hostLockServer) { byOther(d, 0, 19) }, false},
		{"a client, by a deny mode", func(d *hostLockServer) { byOther(d, nfs4.ShareWrite, 20) }, false},
		{"a process that tries", func(d *hostLockServer) {
			assert.False(d.t, d.lockOnHost(unix.F_RDLCK, 19, 1))
		}, true},
		{"a process that waits, by an OFD lock", func(d *hostLockServer) {
			onHost(d, func() error {
				return unix.FcntlFlock(uintptr(d.other), unix.F_OFD_SETLKW, &unix.Flock_t{Type: unix.F_RDLCK, Start: 19, Len: 1})
			})
		}, false},
		{"a process that waits, by fcntl", func(d *hostLockServer) {
			onHost(d, func() error {
				return unix.FcntlFlock(uintptr(d.other), unix.F_SETLKW, &unix.Flock_t{Type: unix.F_WRLCK, Start: 19, Len: 1})
			})
		}, false},
		{"a process, by flock", func(d *hostLockServer) { // an independent lock: it does not wait
			onHost(d, func() error { return unix.Flock(d.other, unix.LOCK_EX) })
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newHostLockServer(t)
			open, _, st := d.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
			require.Equal(t, nfs4.OK, st)
			locked, st := d.lockFile(d.fh, lockArgs(open.StateID, "l", nfs4.LockWrite, 10, 10))
			require.Equal(t, nfs4.OK, st)
			for range 12 {
				d.ahead.Add(int64(time.Hour))
				d.s.state.Sweep()
			}
			d.checkHostLock(unix.F_WRLCK, 10, 10)
			tt.need(d)
			d.s.state.Sweep()
			d.s.state.WaitForHostLocks()
			if !tt.keeps {
				st, _ = d.sendSteps(putStep(d.fh))
				assert.Equal(t, nfs4.ErrBadSession, st)
				return
			}
			d.checkHostLock(unix.F_WRLCK, 10, 10)
			_, st = d.unlockFile(d.fh, &nfs4.LockUArgs{Type: nfs4.LockWrite, StateID: locked.StateID, Length: toEnd})
			assert.Equal(t, nfs4.OK, st)
			assert.Equal(t, nfs4.OK, d.closeFile(d.fh, open.StateID))
		})
	}
}
