package stablefile

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errSync = errors.New("no stable storage")

// listNames returns the names in a directory.
func listNames(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// TestReplace writes a file twice. Each time the content is synced under another
// name, and then the directory with the file's own name. A file left by a crash,
// even a symbolic link, is harmless.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	name, other := filepath.Join(dir, "x"), filepath.Join(t.TempDir(), "other")
	require.NoError(t, os.WriteFile(other, []byte("kept"), 0o600))
	require.NoError(t, os.Symlink(other, name+nextSuffix))
	for _, content := range []string{"first", "second"} {
		var synced []string
		require.NoError(t, Replace(name, []byte(content), func(f *os.File) error {
			b, err := os.ReadFile(f.Name())
			if err != nil {
				b, err = os.ReadFile(name)
			}
			synced = append(synced, f.Name(), string(b))
			return errors.Join(err, f.Sync())
		}))
		assert.Equal(t, []string{name + nextSuffix, content, dir, content}, synced)
		assert.Equal(t, []string{"x"}, listNames(t, dir))
	}
	info, err := os.Stat(name)
	require.NoError(t, err)
	assert.EqualValues(t, 0o600, info.Mode())
	b, err := os.ReadFile(other)
	require.NoError(t, err)
	assert.Equal(t, "kept", string(b))
}

// TestReplaceFails lets each step fail: an error is returned, no other file
// remains, and the file has its old content as long as it has its old name.
func TestReplaceFails(t *testing.T) {
	for failing, want := range []string{"old", "new"} {
		name := filepath.Join(t.TempDir(), "x")
		require.NoError(t, os.WriteFile(name, []byte("old"), 0o600))
		n := 0
		require.ErrorIs(t, Replace(name, []byte("new"), func(*os.File) error {
			if n++; n == failing+1 {
				return errSync
			}
			return nil
		}), errSync)
		assert.Equal(t, []string{"x"}, listNames(t, filepath.Dir(name)))
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.Equal(t, want, string(b))
	}
	require.ErrorIs(t, Replace(filepath.Join(t.TempDir(), "missing", "x"), nil, (*os.File).Sync), os.ErrNotExist)
	for _, path := range []string{"x.new/y", "x/y"} { // no remove, no rename
		dir := t.TempDir()
		require.NoError(t, os.MkdirAll(filepath.Join(dir, path), 0o700))
		name := filepath.Join(dir, "x")
		before := listNames(t, dir)
		require.Error(t, Replace(name, nil, (*os.File).Sync), path)
		assert.Equal(t, before, listNames(t, dir), path)
	}
}

// TestReplaceAs checks that a file keeps its mode and its owner, and that no other file is
// harmed.
func TestReplaceAs(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name+".new", []byte("a draft"), 0o600))
	require.NoError(t, os.WriteFile(name, []byte("old"), 0o600))
	require.NoError(t, os.Chmod(name, 0o664))
	uid := os.Getuid()
	if uid == 0 {
		uid = 1234
		require.NoError(t, os.Chown(name, uid, uid))
	}
	old, err := os.Stat(name)
	require.NoError(t, err)
	require.NoError(t, ReplaceAs(name, []byte("new"), old, (*os.File).Sync))
	now, err := os.Stat(name)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o664), now.Mode())
	assert.Equal(t, uint32(uid), now.Sys().(*syscall.Stat_t).Uid)
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.Equal(t, "new", string(b))
	b, err = os.ReadFile(name + ".new")
	require.NoError(t, err)
	assert.Equal(t, "a draft", string(b), "a file of the user's")
}
