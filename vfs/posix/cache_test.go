//go:build linux

package posix

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// TestCacheBound uses many more files than descriptors at once. It checks that
// none is closed during an operation, and that the bound holds except for files
// in use.
func TestCacheBound(t *testing.T) {
	const files, workers = 300, 8
	eachKind(t, func(t *testing.T, o Options) {
		o.MaxFiles = 1
		w := newTestFS(t, o)
		var hs []vfs.Handle
		for i := range files {
			name := fmt.Sprint("f", i)
			w.hostFile(name)
			hs = append(hs, w.walk(name))
		}
		var wg sync.WaitGroup
		for n := range workers {
			wg.Go(func() {
				p := make([]byte, 100)
				su := vfs.Cred{UID: uint32(os.Geteuid())}
				for i := range files {
					i := (i*(2*n+1) + n) % files
					n, _, _, err := w.f.Read(t.Context(), &su, hs[i], p, 0)
					if assert.NoError(t, err) {
						assert.Equal(t, fmt.Sprint("f", i), string(p[:n]))
					}
					_, _, _, err = w.f.Write(t.Context(), &su, hs[i], p[:n], 0, vfs.Unstable)
					assert.NoError(t, err)
				}
			})
		}
		wg.Wait()
		assert.LessOrEqual(t, w.f.cache.fds.Load(), int64(minMaxFiles+3*workers))
		_, _, _, err := w.f.Write(t.Context(), &vfs.Cred{UID: uint32(os.Geteuid())}, hs[0], []byte("f0"), 0, vfs.Unstable)
		require.NoError(t, err)
		assert.LessOrEqual(t, w.f.cache.fds.Load(), int64(minMaxFiles+2))
		assert.Len(t, w.f.cache.objs, countRing(&w.f.cache))
	})
}

func countRing(c *cache) (n int) {
	for o := c.ring.next; o != &c.ring; o = o.next {
		n++
	}
	return n
}

// TestCacheChance checks that among the oldest objects those stay that were used since.
func TestCacheChance(t *testing.T) {
	w := newTestFS(t, Options{TableHandles: true, MaxFiles: 1})
	var hs []vfs.Handle
	for i := range 3 * minMaxFiles {
		name := fmt.Sprint("f", i)
		w.hostFile(name)
		hs = append(hs, w.walk(name))
		require.True(t, w.f.cache.hasObject(hs[0]), "used each time")
		require.NoError(t, w.getattr(hs[0]))
	}
	assert.False(t, w.f.cache.hasObject(hs[1]), "entered later, and not used")
	assert.True(t, w.f.cache.hasObject(hs[len(hs)-1]), "the newest")
	assert.LessOrEqual(t, w.f.cache.fds.Load(), int64(minMaxFiles))
	for _, h := range hs {
		if w.f.cache.hasObject(h) {
			require.NoError(t, w.getattr(h)) // all that are left are used
		}
	}
	w.hostFile("last")
	w.walk("last")
	assert.LessOrEqual(t, w.f.cache.fds.Load(), int64(minMaxFiles), "one of them goes all the same")
}

// TestCacheIdle checks that idle files are closed, even of an object that is
// used all the time.
func TestCacheIdle(t *testing.T) { synctest.Test(t, testCacheIdle) }

func testCacheIdle(t *testing.T) {
	const idle = time.Minute
	w := newTestFS(t, Options{TableHandles: true, IdleTime: idle})
	w.hostFile("f")
	h := w.walk("f")
	su := vfs.Cred{UID: uint32(os.Geteuid())}
	_, _, _, err := w.f.Read(t.Context(), &su, h, make([]byte, 1), 0)
	require.NoError(t, err)
	require.EqualValues(t, 3, w.f.cache.fds.Load(), "the root, the file's place, the file")
	for range 4 {
		time.Sleep(idle / 2)
		require.NoError(t, w.getattr(h))
	}
	require.EqualValues(t, 2, w.f.cache.fds.Load(), "the file is closed")
	time.Sleep(2 * idle)
	require.EqualValues(t, 1, w.f.cache.fds.Load(), "all except the root")
	require.NoError(t, w.getattr(h))
}

// TestCacheCallers checks that a caller beyond an object's bound of descriptors
// replaces another caller.
func TestCacheCallers(t *testing.T) {
	w := newTestFS(t, tableKind())
	w.f.switches = false // so that all callers have permission
	w.hostFile("f")
	o, err := w.f.getObject(w.walk("f"))
	require.NoError(t, err)
	defer w.f.putObject(o)
	var used []*file
	for i := range uint32(2 * maxObjectFiles) {
		c := vfs.Cred{UID: 1, GID: i, Groups: []uint32{i, i + 1}}
		w.f.switches = true
		class := w.f.credKeyOf(&c)
		w.f.switches = false
		fl, over, err := w.f.openLocked(o, &c, &class, accRead)
		require.NoError(t, err)
		for _, old := range over {
			w.f.cache.closeFile(old)
		}
		if i < 3 {
			used = append(used, fl)
			continue
		}
		w.f.closeFile(o, fl)
	}
	assert.LessOrEqual(t, len(o.files), maxObjectFiles)
	for _, fl := range used {
		assert.Contains(t, o.files, fl, "objects in use stay")
		w.f.closeFile(o, fl)
	}
}

// TestRemoveFreesStorage checks that a removed file frees its storage without
// becoming idle first.
func TestRemoveFreesStorage(t *testing.T) {
	eachKind(t, func(t *testing.T, o Options) {
		w := newTestFS(t, o)
		for _, over := range []bool{false, true} {
			m, err := w.f.Create(t.Context(), &w.c, w.f.Root(), "f", vfs.CreateHow{})
			require.NoError(t, err)
			_, _, _, err = w.f.Write(t.Context(), &w.c, m.Handle, make([]byte, 1000), 0, vfs.Unstable)
			require.NoError(t, err)
			open := w.f.cache.getObject(m.Handle)
			require.NotNil(t, open)
			w.f.cache.releaseObject(open)
			if over {
				_, err = w.f.Create(t.Context(), &w.c, w.f.Root(), "g", vfs.CreateHow{})
				require.NoError(t, err)
				_, _, err = w.f.Rename(t.Context(), &w.c, w.f.Root(), "g", w.f.Root(), "f")
			} else {
				_, err = w.f.Remove(t.Context(), &w.c, w.f.Root(), "f")
			}
			require.NoError(t, err)
			assert.Nil(t, w.f.cache.getObject(m.Handle))
			var st unix.Statx_t
			assert.ErrorIs(t, statFD(open.fd, &st), unix.EBADF, "closed")
		}
	})
}

// TestLostAtClose checks that a failure to sync data when a file is closed
// changes the verifier, which is the only way to tell the writer.
func TestLostAtClose(t *testing.T) {
	w, tp := syncTestFS(t)
	tp.setAnswer(func(string, int) error { return unix.EIO })
	su := vfs.Cred{UID: uint32(os.Geteuid())}
	idle := func() {
		for range idleTicks {
			w.f.cache.sweepAll()
		}
	}
	before := w.f.WriteVerifier()
	_, _, _, err := w.f.Read(t.Context(), &su, w.walk("f"), make([]byte, 1), 0)
	require.NoError(t, err)
	idle()
	assert.Equal(t, before, w.f.WriteVerifier(), "no writer")
	require.NoError(t, w.write(&w.c, vfs.Unstable))
	idle()
	assert.Equal(t, []string{"fsync f"}, tp.takeCalls(w))
	assert.NotEqual(t, before, w.f.WriteVerifier())
}

// TestVerifierGiven checks that the caller can choose the verifier.
func TestVerifierGiven(t *testing.T) {
	n := uint64(41)
	w := newTestFS(t, Options{TableHandles: true, Verifier: func() uint64 { n++; return n }})
	assert.EqualValues(t, 42, w.f.WriteVerifier())
	w.f.reportLoss(unix.EIO)
	assert.EqualValues(t, 43, w.f.WriteVerifier())
}

// TestRecheckByCtime checks that an access control list that removes
// permission, without a trace in the mode, takes effect soon.
func TestRecheckByCtime(t *testing.T) {
	var st unix.Statx_t
	st.Mode, st.Uid, st.Mtime.Sec, st.Ctime.Sec = 0o100600, 5, 77, 77
	p := permsOf(&st)
	assert.True(t, p.areValid(&st))
	later := st
	later.Ctime.Sec++
	assert.False(t, p.areValid(&later), "a list changes ctime alone")
	later.Mtime.Sec++
	assert.True(t, p.areValid(&later), "writing changes both all the time")
	p.at = time.Now().Add(-2 * recheckTime)
	assert.False(t, p.areValid(&later))
	assert.True(t, p.areValid(&st))
	for _, change := range []func(*unix.Statx_t){
		func(st *unix.Statx_t) { st.Mode = 0o100640 }, func(st *unix.Statx_t) { st.Uid++ }, func(st *unix.Statx_t) { st.Gid++ },
	} {
		other := st
		change(&other)
		assert.False(t, permsOf(&st).areValid(&other))
	}
}
