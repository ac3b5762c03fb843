//go:build linux

package posix

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// noFDs uses up all descriptors that the process may have, except n.
func noFDs(t *testing.T, n int) (giveBack func()) {
	t.Helper()
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	few := limit
	few.Cur = 128
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
	var taken []int
	for {
		fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
		if err == unix.EMFILE {
			break
		}
		require.NoError(t, err)
		taken = append(taken, fd)
	}
	free := func(fds []int) {
		for _, fd := range fds {
			require.NoError(t, unix.Close(fd))
		}
	}
	n = min(n, len(taken))
	free(taken[:n])
	return func() {
		free(taken[n:])
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	}
}

// TestErrorsAfterChange checks that a change made before descriptors ran out
// does not return a temporary error, because a retry would repeat the change. A
// change that was not made does.
func TestErrorsAfterChange(t *testing.T) {
	w := newTestFS(t, Options{TableHandles: true})
	root := w.f.Root()
	mkdir := func(name string) error {
		_, err := w.f.Mkdir(t.Context(), &w.c, root, name, vfs.SetAttr{})
		return err
	}
	create := func(name string) error {
		_, err := w.f.Create(t.Context(), &w.c, root, name, vfs.CreateHow{Mode: vfs.Guarded})
		return err
	}
	require.NoError(t, mkdir("warm")) // leaves the directory open
	for free, op := range map[int]func(string) error{0: mkdir, 1: create} {
		name := "made"
		giveBack := noFDs(t, free)
		first, second := op(name), op(name)
		giveBack()
		assert.ErrorIs(t, first, unix.EIO, free)
		assert.ErrorIs(t, second, unix.EEXIST, free)
		require.NoError(t, os.Remove(w.s.path(name)))
	}
	giveBack := noFDs(t, 0)
	err := create("none")
	giveBack()
	assert.ErrorIs(t, err, unix.EMFILE)
	assert.NoFileExists(t, w.s.path("none"))
}

// TestNoDescriptorToLook checks that a name is not changed if its object cannot
// be opened for lack of descriptors: the table would not learn the object's new
// name.
func TestNoDescriptorToLook(t *testing.T) {
	w := newTestFS(t, tableKind())
	w.hostFile("f")
	w.hostFile("g")
	f := w.walk("f")
	w.walk("g")
	for name, op := range map[string]func() error{
		"REMOVE": func() error {
			_, err := w.f.Remove(t.Context(), &w.c, w.f.Root(), "f")
			return err
		},
		"RENAME": func() error { return w.rename("f", "h") },
	} {
		giveBack := noFDs(t, 0)
		err := op()
		giveBack()
		assert.ErrorIs(t, err, unix.EMFILE, name)
		assert.FileExists(t, w.s.path("f"), name)
	}
	giveBack := noFDs(t, 1) // for f
	err := w.rename("f", "g")
	giveBack()
	assert.ErrorIs(t, err, unix.EMFILE)
	assert.FileExists(t, w.s.path("f"))

	require.NoError(t, w.rename("f", "h"))
	assert.Equal(t, "h", w.entry(f).Places[0].Name)
}

// TestNotKept checks that a new file that does not keep the verifier of an
// exclusive CREATE is removed (RFC 1813, Section 3.3.8).
func TestNotKept(t *testing.T) {
	s := newExportedDir(t, "", Options{})
	f, c := s.open(t), user()
	m := f.exclusiveMaker(&c, "f", vfs.CreateHow{Mode: vfs.Exclusive, Verifier: 1})
	m.keptData = func(*unix.Statx_t) bool { return false }
	made, err := f.makeNew(t.Context(), &c, f.Root(), m)
	assert.Equal(t, unix.EOPNOTSUPP, err)
	assert.True(t, made.Dir.Before.OK && made.Dir.After.OK)
	assert.NoFileExists(t, s.path("f"))
}
