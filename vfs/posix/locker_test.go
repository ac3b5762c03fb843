//go:build linux

package posix

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// lockerFile names the variable with the file that this program, run by a test,
// locks as another process.
const lockerFile = "NFSRDMA_TEST_LOCKER"

// lockProcess reads lines of a type, an offset and a length, locks bytes of a
// file by fcntl's locks of processes, and answers with ok, or with no if another
// process is in the way.
func lockProcess(file string, in io.Reader, out io.Writer) error {
	fd, err := unix.Open(file, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var lk unix.Flock_t
		if _, err := fmt.Sscan(lines.Text(), &lk.Type, &lk.Start, &lk.Len); err != nil {
			return err
		}
		answer := "ok"
		switch err := unix.FcntlFlock(uintptr(fd), unix.F_SETLK, &lk); err {
		case nil:
		case unix.EAGAIN, unix.EACCES:
			answer = "no"
		default:
			return err
		}
		fmt.Fprintln(out, answer)
	}
	return nil
}

// A fakeLocker locks bytes of a file as other processes of the host do. It reports
// whether no lock is in the way.
type fakeLocker func(r locks.Range, kind locks.Kind) bool

// description returns a rival with locks of an open file description, and the
// descriptor.
func (w *testFS) description(name string) (fakeLocker, int) {
	w.Helper()
	fd, err := unix.Open(w.s.path(name), unix.O_RDWR|unix.O_CLOEXEC, 0)
	require.NoError(w, err)
	w.Cleanup(func() { closeFD(fd) })
	return func(r locks.Range, kind locks.Kind) bool {
		lk := flockOf(r, kind)
		err := fcntlLock(fd, unix.F_OFD_SETLK, &lk)
		if err != unix.EAGAIN {
			require.NoError(w, err)
		}
		return err == nil
	}, fd
}

// process returns a rival that is another process.
func (w *testFS) process(name string) fakeLocker {
	w.Helper()
	self, err := os.Executable()
	require.NoError(w, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), lockerFile+"="+w.s.path(name))
	in, err := cmd.StdinPipe()
	require.NoError(w, err)
	out, err := cmd.StdoutPipe()
	require.NoError(w, err)
	require.NoError(w, cmd.Start())
	w.Cleanup(func() {
		assert.NoError(w, in.Close())
		assert.NoError(w, cmd.Wait())
	})
	answers := bufio.NewReader(out)
	return func(r locks.Range, kind locks.Kind) bool {
		lk := flockOf(r, kind)
		fmt.Fprintln(in, lk.Type, lk.Start, lk.Len)
		answer, err := answers.ReadString('\n')
		require.NoError(w, err)
		require.Contains(w, []string{"ok\n", "no\n"}, answer)
		return answer == "ok\n"
	}
}

// kindAt returns the lock of one byte by others than the description fd.
func kindAt(t testing.TB, fd int, at uint64) locks.Kind {
	t.Helper()
	lk := flockOf(locks.Range{Start: at, End: at}, locks.Exclusive)
	require.NoError(t, fcntlLock(fd, unix.F_OFD_GETLK, &lk))
	switch lk.Type {
	case unix.F_RDLCK:
		return locks.Shared
	case unix.F_WRLCK:
		return locks.Exclusive
	}
	return locks.None
}

func (w *testFS) openLocks(h vfs.Handle) vfs.FileLocks {
	w.Helper()
	l, err := w.f.OpenLocks(w.Context(), h)
	require.NoError(w, err)
	return l
}

func mustLock(t testing.TB, l vfs.FileLocks, r locks.Range, kind locks.Kind) bool {
	t.Helper()
	done, err := l.SetLock(r, kind)
	require.NoError(t, err)
	return done
}

// TestLockPairs has the server and another process lock the same byte, each
// first, with every pair of kinds.
func TestLockPairs(t *testing.T) {
	for place, base := range places {
		for name, by := range map[string]func(w *testFS) fakeLocker{
			"description": func(w *testFS) fakeLocker { r, _ := w.description("f"); return r },
			"process":     func(w *testFS) fakeLocker { return w.process("f") },
		} {
			t.Run(place+"/"+name, func(t *testing.T) {
				checkCleanup(t)
				s := newExportedDir(t, base, tableKind())
				w := &testFS{t, s, s.open(t), user()}
				w.hostFile("f")
				other, l := by(w), w.openLocks(w.walk("f"))
				defer l.Close()
				wide, byte5 := locks.Range{Start: 3, End: 9}, locks.Range{Start: 5, End: 5}
				for mine := locks.None; mine <= locks.Exclusive; mine++ {
					for theirs := locks.None; theirs <= locks.Exclusive; theirs++ {
						meet := mine == locks.None || theirs == locks.None || mine == locks.Shared && theirs == locks.Shared
						require.True(t, mustLock(t, l, wide, mine))
						assert.Equal(t, meet, other(byte5, theirs), "another process asks for %d, and the server has %d", theirs, mine)
						require.True(t, other(byte5, locks.None))
						require.True(t, mustLock(t, l, wide, locks.None))

						require.True(t, other(byte5, theirs))
						r, kind, err := l.TestLock(wide, mine)
						require.NoError(t, err)
						if mine != locks.None { // a test for no lock means nothing
							assert.Equal(t, meet, kind == locks.None)
						}
						if !meet {
							assert.Equal(t, byte5, r)
							assert.Equal(t, theirs, kind)
						}
						assert.Equal(t, meet, mustLock(t, l, wide, mine), "the server asks for %d, and another process has %d", mine, theirs)
						require.True(t, other(byte5, locks.None))
						require.True(t, mustLock(t, l, wide, locks.None))
					}
				}
				require.True(t, other(locks.Range{Start: 7, End: locks.ToEnd}, locks.Exclusive))
				r, kind, err := l.TestLock(wide, locks.Shared)
				require.NoError(t, err)
				assert.Equal(t, locks.Range{Start: 7, End: locks.ToEnd}, r)
				assert.Equal(t, locks.Exclusive, kind)
			})
		}
	}
}

// TestLocksAgainstModel makes random calls, and compares each byte of the host's
// locks with a model. Calls that a local process stands in the way of change
// nothing.
func TestLocksAgainstModel(t *testing.T) {
	const around = 8 // bytes at the start, and on both sides of the greatest offset
	offset := func(i int) uint64 {
		if i < around {
			return uint64(i)
		}
		return math.MaxInt64 - around/2 + 1 + uint64(i-around)
	}
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			checkCleanup(t)
			s := newExportedDir(t, "/dev/shm", tableKind())
			w := &testFS{t, s, s.open(t), user()}
			w.hostFile("f")
			other, fd := w.description("f")
			_, probe := w.description("f")
			h := w.walk("f")
			l := w.openLocks(h)
			self := vfs.Cred{UID: uint32(os.Geteuid())}
			var opened []vfs.Opened // whose descriptors the locks may have
			var mine, theirs [2 * around]locks.Kind
			for range 300 {
				switch k := r.IntN(4); {
				case k == 0 && len(opened) < 4:
					o, err := w.f.OpenFile(t.Context(), &self, h, vfs.OpenAccess(1+r.IntN(3)))
					require.NoError(t, err)
					opened = append(opened, o)
				case k == 1 && len(opened) > 0:
					k = r.IntN(len(opened))
					opened[k].Close()
					opened = slices.Delete(opened, k, k+1)
				}
				i := r.IntN(around)
				j := i + r.IntN(around-i)
				if r.IntN(2) == 0 { // no range has bytes in between, but to be unlocked
					i, j = i+around, j+around
				}
				bytes, kind := locks.Range{Start: offset(i), End: offset(j)}, locks.Kind(r.IntN(3))
				if r.IntN(20) == 0 {
					i, j, bytes, kind = 0, 2*around-1, everything, locks.None
				}
				have, others, ask := &mine, &theirs, func() bool { return mustLock(t, l, bytes, kind) }
				if r.IntN(4) == 0 {
					if bytes.Start > math.MaxInt64 {
						continue
					}
					have, others, ask = others, have, func() bool { return other(bytes, kind) }
				}
				meet := true
				for k := i; k <= j && kind != locks.None && offset(k) <= math.MaxInt64; k++ {
					meet = meet && (others[k] == locks.None || others[k] == locks.Shared && kind == locks.Shared)
				}
				require.Equal(t, meet, ask(), "%v for kind %d", bytes, kind)
				if meet {
					for k := i; k <= j; k++ {
						have[k] = kind
					}
				}
				exclusive := false
				for k := range mine {
					if offset(k) > math.MaxInt64 {
						break
					}
					exclusive = exclusive || mine[k] == locks.Exclusive
					require.Equal(t, mine[k], kindAt(t, fd, offset(k)), "the server's lock of byte %d", offset(k))
					require.Equal(t, max(mine[k], theirs[k]), kindAt(t, probe, offset(k)))
				}
				require.Equal(t, exclusive, l.(*fileLocks).writable, "open for writing")
			}
			l.Close()
			for _, o := range opened {
				o.Close()
			}
			assert.Zero(t, w.f.cache.opened.Load())
			assert.Zero(t, w.f.cache.locked.Load())
			for k := range around {
				assert.Equal(t, theirs[k], kindAt(t, probe, offset(k)))
			}
		})
	}
}

// TestLockRemoved removes a locked file: its locks change all the same, also
// after the FS has closed.
func TestLockRemoved(t *testing.T) {
	for place, base := range places {
		t.Run(place, func(t *testing.T) {
			eachKind(t, func(t *testing.T, o Options) {
				checkCleanup(t)
				s := newExportedDir(t, base, o)
				f, err := Open(s.dir, s.o)
				require.NoError(t, err)
				w := &testFS{t, s, f, user()}
				w.hostFile("f")
				other, fd := w.description("f")
				l := w.openLocks(w.walk("f"))
				require.True(t, mustLock(t, l, locks.Range{End: 9}, locks.Shared))
				_, err = f.Remove(t.Context(), &vfs.Cred{}, f.Root(), "f")
				require.NoError(t, err)
				require.NoError(t, f.Close())
				require.True(t, mustLock(t, l, locks.Range{Start: 5, End: 5}, locks.Exclusive))
				assert.Equal(t, locks.Exclusive, kindAt(t, fd, 5))
				assert.Equal(t, locks.Shared, kindAt(t, fd, 9))
				require.True(t, mustLock(t, l, locks.Range{Start: 5, End: 6}, locks.None))
				assert.True(t, other(locks.Range{Start: 5, End: 6}, locks.Exclusive))
				l.Close()
				assert.True(t, other(locks.Range{End: locks.ToEnd}, locks.Exclusive))
			})
		})
	}
}

// TestLockRights locks a file that its caller may not open.
func TestLockRights(t *testing.T) {
	w := newTestFS(t, tableKind())
	w.hostFile("f")
	_, fd := w.description("f")
	h := w.walk("f")
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chmod(w.s.path("f"), 0))
	}
	l := w.openLocks(h)
	defer l.Close()
	require.True(t, mustLock(t, l, locks.Range{}, locks.Exclusive))
	assert.Equal(t, locks.Exclusive, kindAt(t, fd, 0))
	_, err := w.f.OpenLocks(t.Context(), w.f.Root())
	assert.Equal(t, unix.EINVAL, err)
}

// TestLockLease checks that only an exclusive lock breaks the lease of a
// delegation, and only as long as it stands.
func TestLockLease(t *testing.T) {
	w := newLeaseTest(t, "")
	require.NoError(t, w.tryLease())
	broken, release := w.lease()
	l := w.openLocks(w.h)
	defer l.Close()
	require.True(t, mustLock(t, l, locks.Range{End: 9}, locks.Shared))
	assertNoReceive(t, broken, "a shared lock breaks a lease")
	_, err := l.SetLock(locks.Range{End: 4}, locks.Exclusive)
	assert.Equal(t, unix.EAGAIN, err, "until the lease is released")
	receiveSoon(t, broken, "no holder is notified")
	release()
	require.True(t, mustLock(t, l, locks.Range{End: 4}, locks.Exclusive))
	assert.Equal(t, unix.EAGAIN, w.tryLease())
	require.True(t, mustLock(t, l, locks.Range{End: 4}, locks.Shared))
	assert.NoError(t, w.tryLease())
}

// TestLockConflictLease checks that a lock which a local process keeps away
// breaks no lease.
func TestLockConflictLease(t *testing.T) {
	w := newLeaseTest(t, "")
	fd, err := unix.Open(w.s.path("f"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer closeFD(fd)
	require.NoError(t, w.f.setLock(fd, locks.Range{End: 9}, locks.Shared))
	broken, release := w.lease()
	defer release()
	l := w.openLocks(w.h)
	defer l.Close()
	assert.False(t, mustLock(t, l, locks.Range{Start: 5, End: 5}, locks.Exclusive))
	assertNoReceive(t, broken, "a lease is broken in vain")
}

// TestLockBudget locks more files than a quarter of the descriptors, while open
// files have their half, and need no more to be locked.
func TestLockBudget(t *testing.T) {
	checkCleanup(t)
	said := new(bytes.Buffer)
	o := tableKind()
	o.MaxFiles, o.Log = minMaxFiles, slog.New(slog.NewTextHandler(said, nil))
	s := newExportedDir(t, "", o)
	w := &testFS{t, s, s.open(t), user()}
	var opened []vfs.Opened
	for i := range minMaxFiles {
		_, each, err := w.f.CreateFile(t.Context(), &w.c, w.f.Root(), fmt.Sprint(i), vfs.CreateHow{Mode: vfs.Guarded}, openBoth)
		require.NoError(t, err)
		opened = append(opened, each)
	}
	var all []vfs.FileLocks
	for i := range minMaxFiles {
		l, err := w.f.OpenLocks(t.Context(), w.walk(fmt.Sprint(i)))
		if err != nil {
			assert.Equal(t, unix.EMFILE, err)
			break
		}
		all = append(all, l)
	}
	const lend = minMaxFiles/2/3 + 1 // the files that are kept open to read, all but one also to write
	assert.Len(t, all, lend+minMaxFiles/4)
	assert.Contains(t, said.String(), "RLIMIT_NOFILE")
	assert.LessOrEqual(t, w.f.cache.fds.Load(), int64(minMaxFiles+3))
	for _, l := range all {
		l.Close()
	}
	for i := range opened {
		opened[i].Close()
	}
	l := w.openLocks(w.walk("0"))
	l.Close()
	assert.Zero(t, w.f.cache.locked.Load())
}

// TestLockHostRefuses has a host that does not lock: the caller learns of it, and
// the log once.
func TestLockHostRefuses(t *testing.T) {
	everywhere := func(errno unix.Errno) func(int, int, *unix.Flock_t) error {
		return func(int, int, *unix.Flock_t) error { return errno }
	}
	for _, tt := range []struct {
		name  string
		local bool
		host  unix.Errno
		want  error
	}{
		{"EINVAL", true, unix.EINVAL, unix.EOPNOTSUPP},
		{"ENOSYS", true, unix.ENOSYS, unix.EOPNOTSUPP},
		{"EOPNOTSUPP", false, unix.EOPNOTSUPP, unix.EOPNOTSUPP},
		{"ENOLCK of a local file system", true, unix.ENOLCK, unix.ENOLCK},
		{"ENOLCK of another", false, unix.ENOLCK, unix.EOPNOTSUPP},
		{"EIO", true, unix.EIO, unix.EIO},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checkCleanup(t)
			said := new(bytes.Buffer)
			o := tableKind()
			o.Log = slog.New(slog.NewTextHandler(said, nil))
			s := newExportedDir(t, "", o)
			w := &testFS{t, s, s.open(t), user()}
			w.f.traits.local, w.f.traits.volatile = tt.local, false
			w.hostFile("f")
			l := w.openLocks(w.walk("f"))
			defer l.Close()
			w.f.fcntlLock = everywhere(tt.host)
			for range 2 {
				for kind := locks.Shared; kind <= locks.Exclusive; kind++ {
					done, err := l.SetLock(locks.Range{End: 9}, kind)
					assert.False(t, done)
					assert.Equal(t, tt.want, err)
				}
				_, _, err := l.TestLock(locks.Range{End: 9}, locks.Shared)
				assert.Equal(t, tt.want, err)
			}
			logged := 0
			if tt.want == unix.EOPNOTSUPP {
				logged = 1
			}
			assert.Equal(t, logged, strings.Count(said.String(), "cannot lock some files"))

			w.f.fcntlLock = fcntlLock
			require.True(t, mustLock(t, l, locks.Range{End: 9}, locks.Shared))
			w.f.fcntlLock = everywhere(unix.ENOLCK)
			_, err := l.SetLock(locks.Range{Start: 20, End: 29}, locks.Shared)
			assert.Equal(t, unix.ENOLCK, err, "the host has locked the file before")
		})
	}
}
