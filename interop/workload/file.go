package workload

import (
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const nfsMagic = 0x6969 // f_type of an NFS mount, statfs(2)

// onNFS reports whether dir is on an NFS mount.
func onNFS(t *T, dir string) bool {
	var s unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &s))
	return s.Type == nfsMagic
}

// direct returns the flag for unchanged reads and writes past the page cache.
// NFS accepts any offset and length with it; local file systems do not, and
// need no such test.
func direct(t *T, dir string) int {
	if onNFS(t, dir) {
		return unix.O_DIRECT
	}
	return 0
}

// create makes a file with this content on stable storage.
func create(t *T, path string, content []byte) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	_, err = f.Write(content)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}

// forget drops the client's cache of f's content. f must have no dirty data.
func forget(t *T, f *os.File) {
	require.NoError(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
}

// content reads the file from the server.
func content(t *T, path string) []byte {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	forget(t, f)
	b, err := io.ReadAll(f)
	require.NoError(t, err)
	return b
}

// holds asserts the content of a file.
func holds(t *T, path string, want []byte) {
	if d := differ(want, content(t, path)); d != "" {
		t.Errorf("%s: %s", path, d)
	}
}

// stat returns the attributes of path itself.
func stat(t *T, path string) *syscall.Stat_t {
	i, err := os.Lstat(path)
	require.NoError(t, err)
	return i.Sys().(*syscall.Stat_t)
}

// list returns the names in dir, sorted.
func list(t *T, dir string) []string {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// in returns a function that joins names to dir.
func in(dir string) func(name string) string {
	return func(name string) string { return filepath.Join(dir, name) }
}
