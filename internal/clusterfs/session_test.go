package clusterfs

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// openFile opens a file of a host.
func openFile(t *testing.T, h *Host, name string) *os.File {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(h.Dir, name), os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// flock calls flock(2), again if a signal of the Go runtime interrupts it.
func flock(f *os.File, how int) (err error) {
	for {
		if err = unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}

func fcntl(f *os.File, command int, kind int16, start, length int64) error {
	return unix.FcntlFlock(f.Fd(), command, &unix.Flock_t{Type: kind, Start: start, Len: length})
}

// TestLocks checks both kinds of locks between two hosts.
func TestLocks(t *testing.T) {
	_, a, b := startPair(t, Options{})
	fa, fb := openFile(t, a, "file"), openFile(t, b, "file")

	require.NoError(t, flock(fa, unix.LOCK_EX|unix.LOCK_NB))
	assert.ErrorIs(t, flock(fb, unix.LOCK_EX|unix.LOCK_NB), unix.EAGAIN)
	require.NoError(t, flock(fa, unix.LOCK_SH|unix.LOCK_NB))
	require.NoError(t, flock(fb, unix.LOCK_SH|unix.LOCK_NB))

	require.NoError(t, fcntl(fa, unix.F_OFD_SETLK, unix.F_WRLCK, 10, 10), "no conflict with flock")
	assert.ErrorIs(t, fcntl(fb, unix.F_OFD_SETLK, unix.F_RDLCK, 19, 1), unix.EAGAIN)
	require.NoError(t, fcntl(fb, unix.F_OFD_SETLK, unix.F_RDLCK, 20, 0))
	l := unix.Flock_t{Type: unix.F_WRLCK, Start: 0}
	require.NoError(t, unix.FcntlFlock(fb.Fd(), unix.F_OFD_GETLK, &l))
	assert.Equal(t, [3]int64{unix.F_WRLCK, 10, 10}, [3]int64{int64(l.Type), l.Start, l.Len})

	locked := make(chan error)
	go func() { locked <- fcntl(fb, unix.F_OFD_SETLKW, unix.F_WRLCK, 0, 20) }()
	require.NoError(t, flock(fb, unix.LOCK_UN))
	require.NoError(t, fa.Close(), "releases both locks")
	assert.NoError(t, <-locked)
	require.NoError(t, flock(fb, unix.LOCK_EX|unix.LOCK_NB))
}

// awaitFlock waits until the lock of f is free.
func awaitFlock(t *testing.T, f *os.File) {
	t.Helper()
	require.NoError(t, flock(f, unix.LOCK_EX))
}

// TestLateWrite checks what becomes of a write that a stopped host sends after
// another host has got its lock.
func TestLateWrite(t *testing.T) {
	for _, tt := range []struct {
		name   string
		fences bool
		err    error
		want   string
		turns  []string
	}{
		{"fences", true, unix.ESHUTDOWN, "new", []string{"a", "b"}},
		{"does not fence", false, nil, "old", []string{"a", "b", "a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, a, b := startPair(t, Options{Fences: tt.fences})
			fa, fb := openFile(t, a, "file"), openFile(t, b, "file")
			require.NoError(t, flock(fa, unix.LOCK_EX))
			a.Stop()
			late := make(chan error)
			go func() {
				_, err := fa.WriteAt([]byte("old"), 0)
				late <- err
			}()
			awaitFlock(t, fb)
			_, err := fb.WriteAt([]byte("new"), 0)
			require.NoError(t, err)
			require.NoError(t, fb.Sync())
			a.Continue()
			assert.ErrorIs(t, <-late, tt.err)
			assert.ErrorIs(t, fa.Sync(), tt.err)
			got, err := os.ReadFile(filepath.Join(e.Backing, "file"))
			require.NoError(t, err)
			assert.Equal(t, tt.want, string(got))
			assert.Equal(t, tt.turns, e.Turns(func(r Record) bool { return r.Op != "setattr" && r.Path == "/file" }))
		})
	}
}

// TestLocksAreKept checks that the engine keeps the locks of a silent host, and of a
// host whose mount process was killed, until a fence.
func TestLocksAreKept(t *testing.T) {
	for _, tt := range []struct {
		name string
		lose func(*Host)
	}{
		{"stopped", (*Host).Stop},
		{"cut", (*Host).Cut},
		{"killed", (*Host).Kill},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, a, b := startPair(t, Options{KeepLocks: Never, Silence: time.Millisecond})
			fa, fb := openFile(t, a, "file"), openFile(t, b, "file")
			require.NoError(t, flock(fa, unix.LOCK_EX))
			t.Cleanup(a.Kill) // otherwise the file cannot be closed
			tt.lose(a)
			assert.ErrorIs(t, flock(fb, unix.LOCK_EX|unix.LOCK_NB), unix.EAGAIN)
			e.Fence("a")
			require.NoError(t, flock(fb, unix.LOCK_EX|unix.LOCK_NB))
		})
	}
}

// TestBusyHost checks that a host which sends nothing is not silent: the engine keeps its
// lock until it is stopped.
func TestBusyHost(t *testing.T) {
	_, a, b := startPair(t, Options{Silence: time.Millisecond, Fences: true})
	fa, fb := openFile(t, a, "file"), openFile(t, b, "file")
	require.NoError(t, flock(fa, unix.LOCK_EX))
	time.Sleep(4 * watchPeriod)
	assert.ErrorIs(t, flock(fb, unix.LOCK_EX|unix.LOCK_NB), unix.EAGAIN)
	t.Cleanup(a.Kill) // otherwise the file cannot be closed
	a.Stop()
	awaitFlock(t, fb)
}

// TestFenceCommand checks that a command fences a host.
func TestFenceCommand(t *testing.T) {
	e, a, _ := startPair(t, Options{KeepLocks: Never})
	fence := append(e.FenceCommand(), "a")
	require.NoError(t, exec.Command(fence[0], fence[1:]...).Run())
	assert.ErrorIs(t, os.Mkdir(filepath.Join(a.Dir, "dir"), 0o700), unix.ESHUTDOWN)
}

// TestKeepLocks checks that locks are released after KeepLocks, and not before.
func TestKeepLocks(t *testing.T) {
	const keep = 700 * time.Millisecond
	_, a, b := startPair(t, Options{KeepLocks: keep})
	fa, fb := openFile(t, a, "file"), openFile(t, b, "file")
	require.NoError(t, flock(fa, unix.LOCK_EX))
	start := time.Now()
	a.Kill()
	awaitFlock(t, fb)
	assert.GreaterOrEqual(t, time.Since(start), keep)
}

// TestFenceOfHungOperation checks that a hung write is not executed after a fence.
func TestFenceOfHungOperation(t *testing.T) {
	e, a, b := startPair(t, Options{KeepLocks: Never})
	fa := openFile(t, a, "file")
	a.Hang()
	late := make(chan error)
	go func() {
		_, err := fa.Write([]byte("old"))
		late <- err
	}()
	e.Fence("a")
	require.NoError(t, os.WriteFile(filepath.Join(b.Dir, "file"), []byte("new"), 0o600))
	a.Restore()
	assert.ErrorIs(t, <-late, unix.ESHUTDOWN)
	got, err := os.ReadFile(filepath.Join(e.Mount("a").Dir, "file"))
	require.NoError(t, err, "a new mount is served")
	assert.Equal(t, "new", string(got))
}

// TestLoad checks writers with fsync and readers on both hosts, and their record.
func TestLoad(t *testing.T) {
	e, a, b := startPair(t, Options{})
	var all sync.WaitGroup
	for i := range 16 {
		name := string(rune('a' + i))
		from, to := a, b
		if i%2 == 1 {
			from, to = b, a
		}
		w := openFile(t, from, name)
		all.Go(func() {
			for k := range 50 {
				_, err := w.WriteAt([]byte{byte(k)}, int64(k))
				assert.NoError(t, err)
				assert.NoError(t, w.Sync())
				got, err := os.ReadFile(filepath.Join(to.Dir, name))
				assert.NoError(t, err)
				assert.Len(t, got, k+1)
				assert.Equal(t, byte(k), got[k])
			}
		})
	}
	all.Wait()
	counts := map[string]int{}
	for _, r := range e.Records() {
		counts[r.Op]++
		assert.Zero(t, r.Errno, r)
	}
	assert.Equal(t, 16*50, counts["write"])
	assert.Equal(t, 16*50, counts["fsync"])
	assert.GreaterOrEqual(t, counts["read"], 16*50)
}

// TestDelay checks that a delay delays each operation.
func TestDelay(t *testing.T) {
	_, a, _ := startPair(t, Options{})
	f := openFile(t, a, "file")
	const delay = 50 * time.Millisecond
	a.Delay(delay)
	start := time.Now()
	require.NoError(t, f.Sync())
	assert.GreaterOrEqual(t, time.Since(start), delay)
}
