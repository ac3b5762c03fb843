package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestState(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	first, err := openState(dir)
	require.NoError(t, err)
	info, err := os.Stat(dir)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm(), "names of files are nobody else's business")

	_, err = openState(dir)
	assert.EqualError(t, err, "another nfsrdmad uses the state directory "+dir+
		": stop that daemon, or name another directory with --state")

	require.NoError(t, first.Close())
	second, err := openState(dir)
	require.NoError(t, err, "the lock ends with its holder")
	require.NoError(t, second.Close())
}

func TestStateOfExport(t *testing.T) {
	s := stateDir{dir: "/state"}
	assert.Equal(t, "/state/exports/%2Fsrv%2Fa", s.exportDir(&exportSpec{name: "/srv/a"}))
	assert.Equal(t, "/state/exports/%2F", s.exportDir(&exportSpec{name: "/"}))
	assert.Equal(t, "/state/exports/%2F..", s.exportDir(&exportSpec{name: "/.."}))
}

func TestStateCannotBeUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := openState(file)
	assert.EqualError(t, err, "state directory "+file+" cannot be used (not a directory): name a writable one with --state")
	_, err = openState("")
	assert.ErrorContains(t, err, "--state")
}

// TestStateRemedy checks that nobody is told to name another state directory
// for a reason that has another remedy: the clients' handles would end.
func TestStateRemedy(t *testing.T) {
	for err, want := range map[error]string{
		unix.ENOSPC:  "free some space there",
		unix.EDQUOT:  "free some space there",
		unix.EIO:     "check its disk",
		unix.EMFILE:  "ulimit",
		unix.EROFS:   "make it writable, or name another with --state if it was never used",
		unix.EACCES:  "make it writable, or name another with --state if it was never used",
		unix.ENOTDIR: "name a writable one with --state",
	} {
		err := stateError("/state", errors.Join(&os.PathError{Op: "write", Path: "/state/x", Err: err}, os.ErrClosed))
		assert.ErrorContains(t, err, want)
	}
}

// TestReplaceFails checks that a file that could not be replaced stays, and
// that nothing else does.
func TestReplaceFails(t *testing.T) {
	s := &stateDir{dir: t.TempDir()}
	name := filepath.Join(s.dir, "x")
	require.NoError(t, os.MkdirAll(filepath.Join(name, "y"), 0o700))
	require.Error(t, s.replaceFile(name, []byte("secret")))
	entries, err := os.ReadDir(s.dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1)
	require.NoError(t, os.RemoveAll(name))
	require.NoError(t, s.replaceFile(name, []byte("secret")))
}

func TestDefaultState(t *testing.T) {
	if os.Geteuid() == 0 {
		assert.Equal(t, "/var/lib/nfsrdmad", defaultState())
		return
	}
	t.Setenv("XDG_STATE_HOME", "/x/state")
	assert.Equal(t, "/x/state/nfsrdmad", defaultState())
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "/home/u")
	assert.Equal(t, "/home/u/.local/state/nfsrdmad", defaultState())
}

// TestStateLayout checks that a daemon does not use the state of a newer one, which it could lose.
func TestStateLayout(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "layout")
	for range 2 { // without the file, as in older directories, and with it
		st, err := openState(dir)
		require.NoError(t, err)
		require.NoError(t, st.Close())
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, "1\n", string(text))
	}
	for text, want := range map[string]string{
		"2\n":   "a newer nfsrdmad has written the state directory " + dir + " (layout 2, and this one has 1): install that version again",
		"":      file + " is not the version of a layout: restore a backup",
		"one\n": file + " is not the version of a layout: restore a backup",
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := openState(dir)
		assert.ErrorContains(t, err, want)
		now, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, text, string(now), "the file stays")
	}
	require.NoError(t, os.WriteFile(file, []byte("1\n"), 0o600))
	st, err := openState(dir)
	require.NoError(t, err, "the lock was released")
	require.NoError(t, st.Close())
}
