package fusefs

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// createTree makes files in directories of a server, and returns their names.
func (s *testServer) createTree(dirs, files int) (names []string) {
	s.t.Helper()
	for d := range dirs {
		require.NoError(s.t, os.Mkdir(s.path(fmt.Sprint("d", d)), 0o777))
		for f := range files {
			name := fmt.Sprintf("d%d/f%d", d, f)
			writeFile(s.t, s.path(name), []byte(name))
			names = append(names, name)
		}
	}
	return names
}

// readFiles reads files, and returns the number of calls.
func (m *testMount) readFiles(names []string) int {
	m.t.Helper()
	calls := m.totalCalls()
	for _, name := range names {
		_, content := statAndRead(m.t, m.path(name))
		assert.Equal(m.t, name, content)
	}
	return m.totalCalls() - calls
}

// TestHeldElsewhere has another mount make a file, and checks that delegations
// of other directories stay and are served.
func TestHeldElsewhere(t *testing.T) {
	s := newGrantingServer(t, true)
	names := s.createTree(4, 10)
	require.NoError(t, os.Mkdir(s.path("x"), 0o777))
	m, other := s.mount(nil), s.mount(nil)
	m.readFiles(names)
	require.Zero(t, m.readFiles(names))
	for round := range 3 {
		made := m.path(fmt.Sprint("x/new", round))
		for range 2 {
			assert.NoFileExists(t, made)
		}
		writeFile(t, other.path(fmt.Sprint("x/new", round)), nil)
		assert.FileExists(t, made, "the cached absence is void")
		assert.Zero(t, m.readFiles(names))
	}
	assert.Zero(t, m.lastEpoch())
}

// lastEpoch returns the tick of the last notification to look up all names again.
func (m *testMount) lastEpoch() uint64 {
	m.epoch.mu.Lock()
	defer m.epoch.mu.Unlock()
	return m.epoch.began
}

// TestHeldForgotten has the kernel forget a tree, and checks that its
// delegations stay and only the data is read again.
func TestHeldForgotten(t *testing.T) {
	s := newGrantingServer(t, true)
	names := s.createTree(2, 10)
	m := s.mount(nil)
	m.readFiles(names)
	require.Zero(t, m.readFiles(names))
	m.awaitNoOpenFiles()
	for _, dir := range []string{"d0", "d1"} {
		require.Zero(t, m.server.EntryNotify(fuse.FUSE_ROOT_ID, dir))
	}
	require.Eventually(t, func() bool {
		m.table.mu.RLock()
		defer m.table.mu.RUnlock()
		return m.table.parked.Len() == len(names)+2
	}, 10*time.Second, time.Millisecond)
	asked, reading := m.set.Stats().Asked, m.callCount(nfs3.ProcRead)
	assert.Equal(t, len(names), m.readFiles(names))
	assert.Equal(t, asked, m.set.Stats().Asked)
	assert.Equal(t, reading+len(names), m.callCount(nfs3.ProcRead))
}

// blockCalls makes calls of a procedure wait. begun returns when such a call
// waits, and end lets the calls proceed.
func (m *testMount) blockCalls(proc uint32) (begun, end func()) {
	began, ended := make(chan struct{}), make(chan struct{})
	var once sync.Once
	m.setBefore(func(_ context.Context, x *oncrpc.Exchange) error {
		if x.Prog == nfs3.Program && x.Proc == proc {
			once.Do(func() { close(began) })
			<-ended
		}
		return nil
	})
	end = sync.OnceFunc(func() { close(ended) })
	m.t.Cleanup(end)
	return func() {
		m.t.Helper()
		select {
		case <-began:
		case <-time.After(10 * time.Second):
			require.Fail(m.t, "no such call")
		}
	}, end
}

// TestLoanBusy recalls a directory while the kernel waits for a request of ours
// in it, and checks that an epoch takes its names back without waiting.
func TestLoanBusy(t *testing.T) {
	for proc, use := range map[uint32]func(dir string){
		nfs3.ProcReadDirPlus: func(dir string) { _, _ = os.ReadDir(dir) },
		nfs3.ProcMkdir:       func(dir string) { _ = os.Mkdir(dir+"/new", 0o755) },
	} {
		t.Run(fmt.Sprint(proc), func(t *testing.T) {
			s := newGrantingServer(t, true)
			names := s.createTree(1, 3)
			m, other := s.mount(nil), s.mount(nil)
			for range 2 {
				m.readFiles(names)
				assert.NoFileExists(t, m.path("d0/made"))
			}
			begun, end := m.blockCalls(proc)
			done := make(chan struct{})
			go func() {
				defer close(done)
				use(m.path("d0"))
			}()
			begun()
			made := make(chan error, 1)
			go func() { made <- os.WriteFile(other.path("d0/made"), nil, 0o644) }()
			select {
			case err := <-made:
				require.NoError(t, err)
			case <-time.After(10 * time.Second):
				require.Fail(t, "the change waits for the request")
			}
			assert.NotZero(t, m.lastEpoch())
			end()
			select {
			case <-done:
			case <-time.After(10 * time.Second):
				require.Fail(t, "the request does not end")
			}
			assert.FileExists(t, m.path("d0/made"))
			assert.Zero(t, s.keeper.Stats().Late)
			n := m.table.findChild(m.table.findNode(fuse.FUSE_ROOT_ID), "d0")
			assert.Eventually(t, func() bool {
				n.mu.Lock()
				defer n.mu.Unlock()
				return !n.directoryState().loan.notifying && n.directoryState().loan.nameChanges == 0
			}, 10*time.Second, time.Millisecond)
		})
	}
}

// TestLoanMoved renames a lent name to another directory, which then changes, and
// checks that the new name is recalled too: if the directory is lent, if it is
// delegated and not lent, and if it is not even delegated.
func TestLoanMoved(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, m, other *testMount, d1 *node){
		"lent": func(*testing.T, *testMount, *testMount, *node) {},
		"shy": func(_ *testing.T, _, _ *testMount, d1 *node) {
			d1.mu.Lock()
			defer d1.mu.Unlock()
			d1.directoryState().loan.notBefore = time.Now().Add(time.Hour)
		},
		"not delegated": func(t *testing.T, _, other *testMount, d1 *node) {
			writeFile(t, other.path("d1/new"), nil)
			d1.mu.Lock()
			defer d1.mu.Unlock()
			require.Zero(t, d1.grant)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newGrantingServer(t, true)
			names := s.createTree(2, 1)
			m, other := s.mount(nil), s.mount(nil)
			m.readFiles(names)
			m.readFiles(names)
			m.awaitNoOpenFiles()
			before(t, m, other, m.table.findChild(m.table.findNode(fuse.FUSE_ROOT_ID), "d1"))
			require.NoError(t, os.Rename(m.path("d0/f0"), m.path("d1/f")))
			require.NoError(t, os.Rename(other.path("d1/f"), other.path("d0/f0")))
			assert.NoFileExists(t, m.path("d1/f"))
			assert.FileExists(t, m.path("d0/f0"))
		})
	}
}

// TestLoanClosed checks that the absence of a name that was lent is recalled with a
// directory that not everyone may search any more.
func TestLoanClosed(t *testing.T) {
	s := newGrantingServer(t, true)
	names := s.createTree(1, 1)
	m, other := s.mount(nil), s.mount(nil)
	made := []string{"d0/before", "d0/after"}
	for range 2 {
		m.readFiles(names)
		for _, name := range made {
			assert.NoFileExists(t, m.path(name))
		}
	}
	calls := m.totalCalls()
	for _, name := range made {
		assert.NoFileExists(t, m.path(name))
	}
	require.Equal(t, calls, m.totalCalls(), "the absence is lent")
	require.NoError(t, os.Chmod(m.path("d0"), 0o700))
	for _, name := range made {
		assert.NoFileExists(t, m.path(name))
		writeFile(t, other.path(name), nil)
		assert.FileExists(t, m.path(name))
	}
}

// TestLoanCounted checks which names can be taken back one by one.
func TestLoanCounted(t *testing.T) {
	var l loan
	for i := range maxLent {
		l.lendNameLocked(fmt.Sprint(i), 1, time.Hour)
		l.lendNameLocked(fmt.Sprint(i), 2, time.Minute)
	}
	assert.Len(t, l.names, maxLent)
	assert.EqualValues(t, 2, l.lastTick)
	assert.Greater(t, time.Until(l.until), 2*time.Minute)
	for range 2 {
		l.lendNameLocked("another", 3, time.Hour)
		assert.True(t, l.tooMany)
		assert.Empty(t, l.names)
	}
	l.until = time.Now().Add(-time.Second)
	l.lendNameLocked("later", 4, time.Hour)
	assert.False(t, l.tooMany, "no earlier loan remains")
	assert.Len(t, l.names, 1)
}

// TestLoanShy checks that a directory with many recalls is not lent for a time
// that doubles.
func TestLoanShy(t *testing.T) {
	var l loan
	now := time.Now()
	recall := func() time.Duration {
		l.until = now.Add(time.Second)
		l.countRecallLocked(now)
		return max(0, l.notBefore.Sub(now))
	}
	for range manyRecalls - 1 {
		assert.Zero(t, recall())
	}
	assert.Equal(t, firstNoLend, recall())
	assert.Equal(t, 2*firstNoLend, recall())
	for range 100 {
		assert.LessOrEqual(t, recall(), maxNoLend)
	}
	now = now.Add(recallSpan + time.Second)
	l.countRecallLocked(now)
	assert.Equal(t, maxNoLend, l.notBefore.Sub(l.lastRecall), "no loan")
	now = now.Add(maxNoLend)
	assert.Zero(t, recall())
}

// TestLoanUnseen checks that a name lent to a thread that cannot be seen is not
// tracked.
func TestLoanUnseen(t *testing.T) {
	s := newGrantingServer(t, true)
	m := s.mount(nil)
	names := s.createTree(1, 1)
	m.readFiles(names)
	m.readFiles(names)
	root := m.table.findNode(fuse.FUSE_ROOT_ID)
	o := m.beginRequest(nil, new(fuse.InHeader))
	defer m.endRequest(o)
	require.NotZero(t, m.nameLifetime(o, root, "d0", root.grant, true))
	assert.True(t, root.directoryState().loan.tooMany)
}

// TestAnswers checks that untaken waits for the reply that tells a thread of a
// name.
func TestAnswers(t *testing.T) {
	s := newGrantingServer(t, true)
	m := s.mount(nil)
	s.createTree(1, 1)
	begun, end := m.blockCalls(nfs3.ProcLookup)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = os.Lstat(m.path("d0"))
	}()
	begun()
	m.ops.mu.Lock()
	require.Len(t, m.ops.all, 1)
	unique, thread := m.ops.all[0].unique, m.ops.all[0].from.Pid
	m.ops.mu.Unlock()
	root := m.table.findNode(fuse.FUSE_ROOT_ID)
	long := time.Now().Add(-time.Hour)
	m.nameReplies.add(thread, nameReply{root, unique, long})
	assert.True(t, m.hasUntakenReplies(root))
	end()
	<-done
	m.nameReplies.add(thread, nameReply{root, unique, long})
	assert.False(t, m.isAwaitingReply(unique))
	assert.False(t, m.hasUntakenReplies(root))
	m.nameReplies.add(thread, nameReply{root, unique, time.Now()})
	assert.True(t, m.hasUntakenReplies(root), "the thread may not have run yet")
	m.nameReplies.forgetThread(thread)
	assert.False(t, m.hasUntakenReplies(root))
	for i := range uint32(2 * maxAnswers) {
		m.nameReplies.add(i+1, nameReply{root, unique, long.Add(time.Duration(i) * time.Minute)})
	}
	assert.LessOrEqual(t, len(m.nameReplies.all), maxAnswers)
}

// TestExpireAllTaken checks that the names of a directory are taken back only
// after the kernel has taken the replies that told of them.
func TestExpireAllTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ends [2]int
		require.NoError(t, unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK))
		defer unix.Close(ends[0])
		defer unix.Close(ends[1])
		m := &Mount{notifyFD: ends[1], nameReplies: nameReplies{all: make(map[uint32]nameReply)}}
		m.table = newTable(m, nfs3.FH("root"))
		root := m.table.findNode(fuse.FUSE_ROOT_ID)
		m.table.referNode(nfs3.FH("a"), root, "a", sighting{})
		const thread = 1
		m.nameReplies.add(thread, nameReply{root, 2, time.Now().Add(time.Hour)})
		root.mu.Lock()
		m.expireAllNamesLocked(root)
		root.mu.Unlock()
		time.Sleep(time.Second)
		synctest.Wait()
		b := make([]byte, 1000)
		_, err := unix.Read(ends[0], b)
		assert.ErrorIs(t, err, unix.EAGAIN, "a reply is on its way")
		m.nameReplies.forgetThread(thread)
		m.notifications.Wait()
		n, err := unix.Read(ends[0], b)
		require.NoError(t, err)
		assert.Equal(t, encodeEntryNote(root.id, "a", fuse.EXPIRE_ONLY), b[:n])
	})
}
