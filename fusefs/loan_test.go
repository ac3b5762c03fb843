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

// aTree makes files in directories of a server, and returns their names.
func (s *server) aTree(dirs, files int) (names []string) {
	s.t.Helper()
	for d := range dirs {
		require.NoError(s.t, os.Mkdir(s.file(fmt.Sprint("d", d)), 0o777))
		for f := range files {
			name := fmt.Sprintf("d%d/f%d", d, f)
			put(s.t, s.file(name), []byte(name))
			names = append(names, name)
		}
	}
	return names
}

// pass reads files, and returns the number of calls.
func (m *mounted) pass(names []string) int {
	m.t.Helper()
	calls := m.total()
	for _, name := range names {
		_, content := reads(m.t, m.file(name))
		assert.Equal(m.t, name, content)
	}
	return m.total() - calls
}

// TestHeldElsewhere has another mount make a file, and checks that delegations
// of other directories stay and are served.
func TestHeldElsewhere(t *testing.T) {
	s := newGranting(t, true)
	names := s.aTree(4, 10)
	require.NoError(t, os.Mkdir(s.file("x"), 0o777))
	m, other := s.mount(nil), s.mount(nil)
	m.pass(names)
	require.Zero(t, m.pass(names))
	for round := range 3 {
		made := m.file(fmt.Sprint("x/new", round))
		for range 2 {
			assert.NoFileExists(t, made)
		}
		put(t, other.file(fmt.Sprint("x/new", round)), nil)
		assert.FileExists(t, made, "the cached absence is void")
		assert.Zero(t, m.pass(names))
	}
	assert.Zero(t, m.epochs())
}

// epochs returns the tick of the last notification to look up all names anew.
func (m *mounted) epochs() uint64 {
	m.epoch.mu.Lock()
	defer m.epoch.mu.Unlock()
	return m.epoch.began
}

// TestHeldForgotten has the kernel forget a tree, and checks that its
// delegations stay and only the data is read again.
func TestHeldForgotten(t *testing.T) {
	s := newGranting(t, true)
	names := s.aTree(2, 10)
	m := s.mount(nil)
	m.pass(names)
	require.Zero(t, m.pass(names))
	m.settled()
	for _, dir := range []string{"d0", "d1"} {
		require.Zero(t, m.server.EntryNotify(fuse.FUSE_ROOT_ID, dir))
	}
	require.Eventually(t, func() bool {
		m.table.mu.RLock()
		defer m.table.mu.RUnlock()
		return m.table.parked.Len() == len(names)+2
	}, 10*time.Second, time.Millisecond)
	asked, reading := m.set.Stats().Asked, m.calls(nfs3.ProcRead)
	assert.Equal(t, len(names), m.pass(names))
	assert.Equal(t, asked, m.set.Stats().Asked)
	assert.Equal(t, reading+len(names), m.calls(nfs3.ProcRead))
}

// blocked makes calls of a procedure wait. begun returns when such a call
// waits, and end lets the calls proceed.
func (m *mounted) blocked(proc uint32) (begun, end func()) {
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
			s := newGranting(t, true)
			names := s.aTree(1, 3)
			m, other := s.mount(nil), s.mount(nil)
			for range 2 {
				m.pass(names)
				assert.NoFileExists(t, m.file("d0/made"))
			}
			begun, end := m.blocked(proc)
			done := make(chan struct{})
			go func() {
				defer close(done)
				use(m.file("d0"))
			}()
			begun()
			made := make(chan error, 1)
			go func() { made <- os.WriteFile(other.file("d0/made"), nil, 0o644) }()
			select {
			case err := <-made:
				require.NoError(t, err)
			case <-time.After(10 * time.Second):
				require.Fail(t, "the change waits for the request")
			}
			assert.NotZero(t, m.epochs())
			end()
			select {
			case <-done:
			case <-time.After(10 * time.Second):
				require.Fail(t, "the request does not end")
			}
			assert.FileExists(t, m.file("d0/made"))
			assert.Zero(t, s.keep.Stats().Late)
			n := m.table.child(m.table.node(fuse.FUSE_ROOT_ID), "d0")
			assert.Eventually(t, func() bool {
				n.mu.Lock()
				defer n.mu.Unlock()
				return !n.asDir().loan.noting && n.asDir().loan.changing == 0
			}, 10*time.Second, time.Millisecond)
		})
	}
}

// TestLoanMoved renames a lent name to another directory, which then changes,
// and checks that the new name is taken back too: if the directory is lent, if
// it is delegated and not lent, and if it is not even delegated.
func TestLoanMoved(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, m, other *mounted, d1 *node){
		"lent": func(*testing.T, *mounted, *mounted, *node) {},
		"shy": func(_ *testing.T, _, _ *mounted, d1 *node) {
			d1.mu.Lock()
			defer d1.mu.Unlock()
			d1.asDir().loan.shy = time.Now().Add(time.Hour)
		},
		"not delegated": func(t *testing.T, _, other *mounted, d1 *node) {
			put(t, other.file("d1/new"), nil)
			d1.mu.Lock()
			defer d1.mu.Unlock()
			require.Zero(t, d1.grant)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newGranting(t, true)
			names := s.aTree(2, 1)
			m, other := s.mount(nil), s.mount(nil)
			m.pass(names)
			m.pass(names)
			m.settled()
			before(t, m, other, m.table.child(m.table.node(fuse.FUSE_ROOT_ID), "d1"))
			require.NoError(t, os.Rename(m.file("d0/f0"), m.file("d1/f")))
			require.NoError(t, os.Rename(other.file("d1/f"), other.file("d0/f0")))
			assert.NoFileExists(t, m.file("d1/f"))
			assert.FileExists(t, m.file("d0/f0"))
		})
	}
}

// TestLoanClosed checks that the absence of a name that was lent is taken back
// with a directory that not everyone may search any more.
func TestLoanClosed(t *testing.T) {
	s := newGranting(t, true)
	names := s.aTree(1, 1)
	m, other := s.mount(nil), s.mount(nil)
	made := []string{"d0/before", "d0/after"}
	for range 2 {
		m.pass(names)
		for _, name := range made {
			assert.NoFileExists(t, m.file(name))
		}
	}
	calls := m.total()
	for _, name := range made {
		assert.NoFileExists(t, m.file(name))
	}
	require.Equal(t, calls, m.total(), "the absence is lent")
	require.NoError(t, os.Chmod(m.file("d0"), 0o700))
	for _, name := range made {
		assert.NoFileExists(t, m.file(name))
		put(t, other.file(name), nil)
		assert.FileExists(t, m.file(name))
	}
}

// TestLoanCounted checks which names can be taken back one by one.
func TestLoanCounted(t *testing.T) {
	var l loan
	for i := range maxLent {
		l.lendLocked(fmt.Sprint(i), 1, time.Hour)
		l.lendLocked(fmt.Sprint(i), 2, time.Minute)
	}
	assert.Len(t, l.names, maxLent)
	assert.EqualValues(t, 2, l.tick)
	assert.Greater(t, time.Until(l.until), 2*time.Minute)
	for range 2 {
		l.lendLocked("another", 3, time.Hour)
		assert.True(t, l.many)
		assert.Empty(t, l.names)
	}
	l.until = time.Now().Add(-time.Second)
	l.lendLocked("later", 4, time.Hour)
	assert.False(t, l.many, "no earlier loan remains")
	assert.Len(t, l.names, 1)
}

// TestLoanShy checks that a directory with many recalls is not lent for a time
// that doubles.
func TestLoanShy(t *testing.T) {
	var l loan
	now := time.Now()
	recall := func() time.Duration {
		l.until = now.Add(time.Second)
		l.recallLocked(now)
		return max(0, l.shy.Sub(now))
	}
	for range manyRecalls - 1 {
		assert.Zero(t, recall())
	}
	assert.Equal(t, firstShy, recall())
	assert.Equal(t, 2*firstShy, recall())
	for range 100 {
		assert.LessOrEqual(t, recall(), maxShy)
	}
	now = now.Add(recallSpan + time.Second)
	l.recallLocked(now)
	assert.Equal(t, maxShy, l.shy.Sub(l.recalled), "no loan")
	now = now.Add(maxShy)
	assert.Zero(t, recall())
}

// TestLoanUnseen checks that a name lent to a thread that cannot be seen is not
// tracked.
func TestLoanUnseen(t *testing.T) {
	s := newGranting(t, true)
	m := s.mount(nil)
	names := s.aTree(1, 1)
	m.pass(names)
	m.pass(names)
	root := m.table.node(fuse.FUSE_ROOT_ID)
	o := m.begin(nil, new(fuse.InHeader))
	defer m.end(o)
	require.NotZero(t, m.nameLife(o, root, "d0", root.grant, true))
	assert.True(t, root.asDir().loan.many)
}

// TestAnswers checks that untaken waits for the reply that tells a thread of a
// name.
func TestAnswers(t *testing.T) {
	s := newGranting(t, true)
	m := s.mount(nil)
	s.aTree(1, 1)
	begun, end := m.blocked(nfs3.ProcLookup)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = os.Lstat(m.file("d0"))
	}()
	begun()
	m.ops.mu.Lock()
	require.Len(t, m.ops.all, 1)
	unique, thread := m.ops.all[0].unique, m.ops.all[0].from.Pid
	m.ops.mu.Unlock()
	root := m.table.node(fuse.FUSE_ROOT_ID)
	long := time.Now().Add(-time.Hour)
	m.answers.add(thread, answer{root, unique, long})
	assert.True(t, m.untaken(root))
	end()
	<-done
	m.answers.add(thread, answer{root, unique, long})
	assert.False(t, m.underway(unique))
	assert.False(t, m.untaken(root))
	m.answers.add(thread, answer{root, unique, time.Now()})
	assert.True(t, m.untaken(root), "the thread may not have run yet")
	m.answers.next(thread)
	assert.False(t, m.untaken(root))
	for i := range uint32(2 * maxAnswers) {
		m.answers.add(i+1, answer{root, unique, long.Add(time.Duration(i) * time.Minute)})
	}
	assert.LessOrEqual(t, len(m.answers.all), maxAnswers)
}

// TestExpireAllTaken checks that the names of a directory are taken back only
// after the kernel has taken the replies that told of them.
func TestExpireAllTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ends [2]int
		require.NoError(t, unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK))
		defer unix.Close(ends[0])
		defer unix.Close(ends[1])
		m := &Mount{notifyFD: ends[1], answers: answers{all: make(map[uint32]answer)}}
		m.table = newTable(m, nfs3.FH("root"))
		root := m.table.node(fuse.FUSE_ROOT_ID)
		m.table.refer(nfs3.FH("a"), root, "a", sight{})
		const thread = 1
		m.answers.add(thread, answer{root, 2, time.Now().Add(time.Hour)})
		root.mu.Lock()
		m.expireAllLocked(root)
		root.mu.Unlock()
		time.Sleep(time.Second)
		synctest.Wait()
		b := make([]byte, 1000)
		_, err := unix.Read(ends[0], b)
		assert.ErrorIs(t, err, unix.EAGAIN, "a reply is on its way")
		m.answers.next(thread)
		m.notes.Wait()
		n, err := unix.Read(ends[0], b)
		require.NoError(t, err)
		assert.Equal(t, entryNote(root.id, "a", fuse.EXPIRE_ONLY), b[:n])
	})
}
