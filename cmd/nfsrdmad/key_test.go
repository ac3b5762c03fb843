package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func openKeyState(t *testing.T) (*stateDir, string) {
	s, err := openState(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s, filepath.Join(s.dir, "handle.key")
}

// TestHandleKey checks that the key is made once, readable for this user alone.
func TestHandleKey(t *testing.T) {
	s, name := openKeyState(t)
	require.NoError(t, os.WriteFile(name+".new", []byte("left by a killed daemon"), 0o600))
	key, err := s.handleKey()
	require.NoError(t, err)
	assert.NotZero(t, key)
	info, err := os.Stat(name)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
	assert.NoFileExists(t, name+".new")

	again, err := s.handleKey()
	require.NoError(t, err)
	assert.Equal(t, key, again)

	other, _ := openKeyState(t)
	another, err := other.handleKey()
	require.NoError(t, err)
	assert.NotEqual(t, key, another)
}

// TestHandleKeyDamaged checks that an incomplete key, or a key that other users
// may know, is neither used nor changed.
func TestHandleKeyDamaged(t *testing.T) {
	file := func(n int, mode os.FileMode) func(t *testing.T, name string) {
		return func(t *testing.T, name string) {
			require.NoError(t, os.WriteFile(name, bytes.Repeat([]byte{7}, n), 0o600))
			require.NoError(t, os.Chmod(name, mode))
		}
	}
	for what, tt := range map[string]struct {
		put  func(t *testing.T, name string)
		want string
	}{
		"empty":    {file(0, 0o600), "is not a file handle key, which has 32 bytes"},
		"short":    {file(31, 0o600), "is not a file handle key"},
		"long":     {file(33, 0o600), "is not a file handle key"},
		"readable": {file(32, 0o640), "mode 0640): if none has, make this user its owner and set mode 0600"},
		"writable": {file(32, 0o602), "mode 0602): if none has, make this user its owner and set mode 0600"},
		"zeros": {func(t *testing.T, name string) {
			require.NoError(t, os.WriteFile(name, make([]byte, 32), 0o600))
		}, "is all zeros"},
		"directory": {func(t *testing.T, name string) { require.NoError(t, os.Mkdir(name, 0o700)) }, "is not a file handle key"},
		"link": {func(t *testing.T, name string) {
			file(32, 0o600)(t, name+".real")
			require.NoError(t, os.Symlink(name+".real", name))
		}, "cannot read the file handle key"},
	} {
		t.Run(what, func(t *testing.T) {
			s, name := openKeyState(t)
			tt.put(t, name)
			before, err := os.Lstat(name)
			require.NoError(t, err)
			_, err = s.handleKey()
			assert.ErrorContains(t, err, name)
			assert.ErrorContains(t, err, tt.want)
			after, err := os.Lstat(name)
			require.NoError(t, err)
			assert.True(t, os.SameFile(before, after))
			assert.Equal(t, before.ModTime(), after.ModTime())
		})
	}
}

func TestHandleKeyCannotBeMade(t *testing.T) {
	s, name := openKeyState(t)
	require.NoError(t, os.MkdirAll(filepath.Join(name+".new", "full"), 0o700))
	_, err := s.handleKey()
	assert.ErrorContains(t, err, "state directory "+s.dir+" cannot be used (directory not empty): name a writable one with --state")
}
