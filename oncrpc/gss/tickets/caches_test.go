package tickets

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCaches checks that a user's own caches are found, the newest first, and none
// that others could have made or can read.
func TestCaches(t *testing.T) {
	dir := t.TempDir()
	start := time.Now().Add(-time.Hour)
	add := func(name string, mode os.FileMode, age int) {
		t.Helper()
		path := filepath.Join(dir, name)
		if mode.IsDir() {
			require.NoError(t, os.Mkdir(path, mode.Perm()))
		} else {
			require.NoError(t, os.WriteFile(path, nil, mode))
		}
		require.NoError(t, os.Chmod(path, mode.Perm()))
		at := start.Add(-time.Duration(age) * time.Minute)
		require.NoError(t, os.Chtimes(path, at, at))
	}
	self := uint32(os.Geteuid())
	own := fmt.Sprintf("krb5cc_%d", self)
	add(own, 0o600, 2)
	add(own+"_new", 0o600, 1)
	add(own+"_old", 0o600, 9)
	add(own+"_readable", 0o640, 0)
	add(own+"0", 0o600, 0) // another user's, by its name
	add("krb5cc", os.ModeDir|0o700, 3)
	require.NoError(t, os.Symlink(own, filepath.Join(dir, own+"_link")))
	assert.Equal(t, []string{
		"", "FILE:" + dir + "/" + own + "_new", "FILE:" + dir + "/" + own, "DIR:" + dir + "/krb5cc", "FILE:" + dir + "/" + own + "_old",
	}, findCaches(self, []string{"/nonexistent", dir}))
	assert.Equal(t, []string{""}, findCaches(self+1, []string{dir}))
	for i := range maxCaches {
		add(fmt.Sprintf("%s_%d", own, i), 0o600, 0)
	}
	assert.Len(t, findCaches(self, []string{dir}), 1+maxCaches)
}

// TestOtherOwner checks that a cache of another user is not used, whatever its name.
func TestOtherOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, _, ok := checkCacheOwner(path, uint32(os.Geteuid()))
	assert.True(t, ok)
	_, _, ok = checkCacheOwner(path, uint32(os.Geteuid())+1)
	assert.False(t, ok)
}

// TestMachinePrincipals checks the order of gssd(8).
func TestMachinePrincipals(t *testing.T) {
	assert.Equal(t, []string{"CLIENT$", "root/client.test.example", "nfs/client.test.example", "host/client.test.example", ""},
		machinePrincipals("client.test.example"))
}
