//go:build linux

package posix

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// freeze stops the clock of ctime for an FS that takes times for coarse.
func freeze(t *testing.T, f *FS) {
	const tick = 1 << 50 // 13 days
	c := newChangeCounts(maxChangeCounts/changeParts, func() int64 { now := kernelNow(); return now - now%tick })
	was := counted
	counted = func() *changeCounts { return c }
	t.Cleanup(func() { counted = was })
	f.clockTick = tick
	f.coarseCtime.Store(true)
}

// eachClock runs a test with the kernel's times, and with one tick that does not end.
func eachClock(t *testing.T, run func(t *testing.T, c *fakeClient, s *exportedDir)) {
	for where, base := range map[string]string{"tmpfs": "/dev/shm", "disk": "/tmp"} {
		for _, frozen := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, frozen %v", where, frozen), func(t *testing.T) {
				c, s := newFakeClient(t, base)
				if frozen {
					freeze(t, c.f)
				}
				run(t, c, s)
			})
		}
	}
}

// prepareDir makes the client know of the directory d and its witness.
func (c *fakeClient) prepareDir() {
	c.t.Helper()
	c.create(c.d, "first")
	c.assertAgrees(c.d)
	require.True(c.t, c.create(c.d, "a"))
}

// TestChangeBeside checks that changes by other processes show at the next read, although the
// client knows the names by atomic changes in the same tick.
func TestChangeBeside(t *testing.T) {
	eachClock(t, func(t *testing.T, c *fakeClient, s *exportedDir) {
		c.prepareDir()
		for what, change := range map[string]func() error{
			"create": func() error { return os.WriteFile(s.path("d", "other"), nil, 0o600) },
			"mkdir":  func() error { return os.Mkdir(s.path("d", "dir"), 0o700) },
			"link":   func() error { return os.Link(s.path("d", "first"), s.path("d", "hard")) },
			"rename": func() error { return os.Rename(s.path("d", "first"), s.path("d", "second")) },
			"remove": func() error { return os.Remove(s.path("d", "a")) },
			"move":   func() error { return os.Rename(s.path("d", "second"), s.path("second")) },
			"nameless file": func() error {
				fd, err := unix.Open(s.path("d"), unix.O_TMPFILE|unix.O_RDWR, 0o600)
				if err != nil {
					return err
				}
				defer closeFD(fd)
				return unix.Linkat(unix.AT_FDCWD, magicPath(fd), unix.AT_FDCWD, s.path("d", "named"), unix.AT_SYMLINK_FOLLOW)
			},
			"version 3": func() error {
				_, err := c.f.Mkdir(t.Context(), &c.c, c.d, "three", vfs.SetAttr{})
				return err
			},
		} {
			if what == "rename" || what == "move" {
				continue // below, in their order
			}
			require.NoError(t, change(), what)
			c.assertAgrees(c.d, what)
			require.True(t, c.create(c.d, "new"), what)
			require.True(t, c.remove(c.d, "new"), what)
		}
		require.NoError(t, os.Rename(s.path("d", "first"), s.path("d", "second")))
		c.assertAgrees(c.d, "rename")
		require.True(t, c.create(c.d, "new"))
		require.NoError(t, os.Rename(s.path("d", "second"), s.path("second")))
		c.assertAgrees(c.d, "move away")
		require.True(t, c.remove(c.d, "new"))
		require.NoError(t, os.Rename(s.path("second"), s.path("d", "third")))
		c.assertAgrees(c.d, "move here")
		require.True(t, c.create(c.d, "new"))

		require.NoError(t, os.WriteFile(s.path("d", "before"), nil, 0o600))
		assert.False(t, c.remove(c.d, "new"), "the client does not know what was before")
		c.assertAgrees(c.d)
		require.NoError(t, os.Rename(s.path("d"), s.path("moved")))
		c.known[c.d].path = s.path("moved")
		c.create(c.d, "after")
		c.assertAgrees(c.d, "a directory that was moved")
	})
}

// createOnHost creates a file on the host, for which the FS has no handle yet.
func (c *fakeClient) createOnHost(name string) {
	c.t.Helper()
	require.NoError(c.t, os.WriteFile(filepath.Join(c.known[c.d].path, name), nil, 0o600))
	c.assertAgrees(c.d)
}

// TestChangeInstead makes a call's change on the host, before the call does. The report is the one
// that the call expects.
func TestChangeInstead(t *testing.T) {
	eachClock(t, func(t *testing.T, c *fakeClient, s *exportedDir) {
		c.prepareDir()
		c.createOnHost("z")
		meddled := false
		c.f.openNamed = func(dir int, name string) (int, error) {
			fd, err := openPath(dir, name)
			require.NoError(t, os.Remove(s.path("d", "z")))
			meddled = true
			return fd, err
		}
		_, err := c.f.Remove(c.ctx, &c.c, c.d, "z")
		require.ErrorIs(t, err, unix.ENOENT)
		require.True(t, meddled)
		c.assertAgrees(c.d)
	})
}

// TestChangeBoth makes a change on the host in the middle of a call, and another client looks in
// between. Both changes are in the same tick, and the call began in an earlier one.
func TestChangeBoth(t *testing.T) {
	c, s := newFakeClient(t, "/dev/shm")
	c.f.coarseCtime.Store(true)
	c.prepareDir()
	c.createOnHost("z")
	meddled := false
	c.f.openNamed = func(dir int, name string) (int, error) {
		fd, err := openPath(dir, name)
		time.Sleep(20 * time.Millisecond)
		c.f.clockTick = kernelNow() // the only tick from now on
		require.NoError(t, os.WriteFile(s.path("d", "other"), nil, 0o600))
		c.readNames(c.d)
		meddled = true
		return fd, err
	}
	_, err := c.f.Remove(c.ctx, &c.c, c.d, "z")
	require.NoError(t, err)
	require.True(t, meddled)
	c.assertAgrees(c.d)
}

// TestAtomicClock checks that no change is reported as atomic while counts are not used, because
// the clock was set back or they were forgotten.
func TestAtomicClock(t *testing.T) {
	for what, spoil := range map[string]func(*changeCounts, inode, int64){
		"set back":  func(c *changeCounts, of inode, now int64) { c.noteChange(of, now, now, true) },
		"forgotten": func(c *changeCounts, _ inode, now int64) { c.lost.Store(now) },
	} {
		t.Run(what, func(t *testing.T) {
			c, _ := newFakeClient(t, "/dev/shm")
			later := kernelNow() + int64(time.Hour)
			counts := newChangeCounts(maxChangeCounts/changeParts, func() int64 { return later })
			was := counted
			counted = func() *changeCounts { return counts }
			defer func() { counted = was }()
			c.prepareDir()
			o, err := c.f.getDirectory(c.d)
			require.NoError(t, err)
			defer c.f.putObject(o)
			spoil(counts, c.f.idOf(o.ino), later)
			c.assertAgrees(c.d)
			assert.False(t, c.fakeNameCreator.create("x"))
			assert.False(t, c.fakeNameCreator.remove("x"))
		})
	}
}

// TestReportLate holds back the report of a change that has moved ctime already, until the
// attributes from after a change of the FS have been told.
func TestReportLate(t *testing.T) {
	eachClock(t, func(t *testing.T, c *fakeClient, s *exportedDir) {
		c.prepareDir()
		c.createOnHost("z")
		w := &c.f.witness
		meddled := false
		handles := &brokenHandles{handles: c.f.handles, beforeEndMove: func() {
			require.NoError(t, os.WriteFile(s.path("e", "late"), nil, 0o600))
			meddled = true
		}}
		c.create(c.e, "x")
		c.assertAgrees(c.e)
		c.f.handles = handles
		var held []byte
		w.read = func(fd int, b []byte) (int, error) {
			n, err := unix.Read(fd, b)
			if err != nil {
				return n, err
			}
			out := 0
			for rest := slices.Clone(b[:n]); len(rest) > 0; {
				e, next := nextReport(rest)
				if string(e.name) == "late" {
					held = append(held, rest[:len(rest)-len(next)]...)
				} else {
					out += copy(b[out:], rest[:len(rest)-len(next)])
				}
				rest = next
			}
			if out == 0 {
				return 0, unix.EAGAIN
			}
			return out, nil
		}
		kept := c.move(c.d, "z", c.e, "b")
		require.True(t, meddled)
		require.NotEmpty(t, held)
		assert.True(t, kept, "nobody has told of the other change yet")
		w.read = func(_ int, b []byte) (int, error) {
			w.read = unix.Read
			return copy(b, held), nil
		}
		c.assertAgrees(c.e)
	})
}

// TestWatchEnds checks that changes after the end of a watch, and those of which reports were
// lost, do not hide behind an atomic change.
func TestWatchEnds(t *testing.T) {
	eachClock(t, func(t *testing.T, c *fakeClient, s *exportedDir) {
		for what, end := range map[string]func(){
			"idle": func() {
				for range 2 * idleTicks {
					c.f.cache.sweepAll()
				}
			},
			"by the kernel": func() {
				o, err := c.f.getDirectory(c.d)
				require.NoError(t, err)
				_, err = unix.InotifyRmWatch(c.f.witness.fd, uint32(o.watched.wd))
				require.NoError(t, err)
				c.f.putObject(o)
				_, err = c.f.GetAttr(c.ctx, &c.c, c.e)
				require.NoError(t, err)
			},
		} {
			c.create(c.d, "x")
			c.assertAgrees(c.d)
			require.True(t, c.remove(c.d, "x"), what)
			k := c.known[c.d].change
			end()
			a, err := c.f.GetAttr(c.ctx, &c.c, c.d)
			require.NoError(t, err)
			assert.NotEqual(t, k, a.Change, what)
			assert.Zero(t, c.f.witness.live.Load(), what)
		}
		c.create(c.d, "x")
		c.assertAgrees(c.d)
		require.True(t, c.remove(c.d, "x"))
		w := &c.f.witness
		w.read = func(fd int, b []byte) (int, error) { // loses all that there is
			w.read = unix.Read
			_, err := unix.Read(fd, b)
			require.NoError(t, err)
			clear(b[:unix.SizeofInotifyEvent])
			b[0], b[1], b[2], b[3] = 255, 255, 255, 255
			b[inotifyMask+1] = unix.IN_Q_OVERFLOW >> 8
			return unix.SizeofInotifyEvent, nil
		}
		require.NoError(t, os.WriteFile(s.path("d", "lost"), nil, 0o600))
		c.assertAgrees(c.d)
	})
}

// TestAtomicRestart checks that a process that follows, with no counts, does not return the change
// attribute from before a change whose report was not read.
func TestAtomicRestart(t *testing.T) {
	eachClock(t, func(t *testing.T, c *fakeClient, s *exportedDir) {
		c.prepareDir()
		require.NoError(t, os.WriteFile(s.path("d", "other"), nil, 0o600))
		next := newChangeCounts(maxChangeCounts/changeParts, kernelNow)
		next.lost.Store(kernelNow())
		was := counted
		counted = func() *changeCounts { return next }
		defer func() { counted = was }()
		c.f.witness.mu.Lock() // the reports are lost
		_, err := unix.Read(c.f.witness.fd, make([]byte, reportsLen))
		c.f.witness.mu.Unlock()
		require.NoError(t, err)
		c.assertAgrees(c.d)
	})
}

// TestAtomicRandom changes names through an FS and on the host, concurrently and in turn.
func TestAtomicRandom(t *testing.T) {
	eachClock(t, func(t *testing.T, c *fakeClient, s *exportedDir) {
		require.NoError(t, os.Mkdir(s.path("outside"), 0o777))
		names := func(r *rand.Rand) string { return fmt.Sprint("n", r.IntN(4)) }
		beside := func(r *rand.Rand) {
			path := func() string {
				return filepath.Join([]string{s.path("d"), s.path("e"), s.path("outside")}[r.IntN(3)], names(r))
			}
			switch r.IntN(4) {
			case 0:
				_ = os.WriteFile(path(), nil, 0o600)
			case 1:
				_ = os.Remove(path())
			case 2:
				_ = os.Link(path(), path())
			default:
				_ = os.Rename(path(), path())
			}
		}
		kept := 0
		through := func(r *rand.Rand) {
			dir := func() vfs.Handle { return []vfs.Handle{c.d, c.e}[r.IntN(2)] }
			var ok bool
			switch r.IntN(5) {
			case 0:
				ok = c.create(dir(), names(r))
			case 1:
				ok = c.remove(dir(), names(r))
			case 2:
				ok = c.link(dir(), names(r), dir(), names(r))
			case 3:
				ok = c.move(dir(), names(r), dir(), names(r))
			default:
				c.readNames(dir())
			}
			if ok {
				kept++
			}
		}
		r := rand.New(rand.NewPCG(1, 2))
		for round := range 300 {
			var others sync.WaitGroup
			for i := range r.IntN(3) {
				others.Go(func() {
					r := rand.New(rand.NewPCG(uint64(round), uint64(i)))
					for range r.IntN(4) {
						beside(r)
					}
				})
			}
			for range r.IntN(5) {
				through(r)
			}
			others.Wait()
			if r.IntN(3) == 0 {
				through(r)
			}
			c.assertAgrees(c.d, round)
			c.assertAgrees(c.e, round)
		}
		assert.Greater(t, kept, 30)
	})
}
