package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestCheckOwner checks that a credential cache is used only if no other user has access.
func TestCheckOwner(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, nil, mode))
		require.NoError(t, os.Chmod(path, mode))
		return path
	}
	own, open, in := file("own", 0o600), file("open", 0o644), file("collection/tkt", 0o600)
	file("shared/tkt", 0o600)
	require.NoError(t, os.Chmod(filepath.Join(dir, "shared"), 0o755))
	require.NoError(t, os.Symlink(own, filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink(open, filepath.Join(dir, "open link")))
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	me := uint32(os.Geteuid())
	for name, want := range map[string]string{
		"FILE:" + own:                 "",
		own:                           "",
		"WRFILE:" + own:               "",
		"FILE:" + dir + "/link":       "",
		"DIR:" + dir + "/collection":  "",
		"DIR::" + in:                  "",
		"KEYRING:persistent:1":        "",
		"KCM:":                        "",
		"MEMORY:0":                    "",
		"FILE:" + open:                "mode 0644",
		"FILE:" + dir + "/open link":  "mode 0644",
		"FILE:" + dir + "/fifo":       "wrong file type",
		"FILE:" + dir + "/collection": "wrong file type",
		"DIR:" + dir + "/shared":      "mode 0755",
		"DIR::" + dir + "/shared/tkt": "mode 0755",
		"FILE:" + dir + "/none":       errNoCache.Error(),
	} {
		err := checkOwner(name, me)
		if want == "" {
			assert.NoError(t, err, name)
		} else {
			assert.ErrorContains(t, err, want, name)
		}
	}
	for _, name := range []string{"FILE:" + own, "DIR:" + filepath.Dir(in), "DIR::" + in} {
		assert.ErrorContains(t, checkOwner(name, me+1), "belongs to user", name)
	}
}
