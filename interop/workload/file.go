package workload

import (
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const nfsMagic = 0x6969 // NFS's f_type, statfs(2)

// onNFS reports whether dir is on an NFS mount.
func onNFS(t *T, dir string) bool {
	var s unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &s))
	return s.Type == nfsMagic
}

// directFlag returns the flag for unchanged reads and writes past the page cache.
// NFS accepts any offset and length with it; local file systems do not, and
// need no such test.
func directFlag(t *T, dir string) int {
	if onNFS(t, dir) {
		return unix.O_DIRECT
	}
	return 0
}

// createFile makes a file with this content on stable storage.
func createFile(t *T, path string, content []byte) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	_, err = f.Write(content)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}

// dropCache drops f's content from the client's cache. f must have no dirty data.
func dropCache(t *T, f *os.File) {
	require.NoError(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
}

// readContent reads the file from the server.
func readContent(t *T, path string) []byte {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	dropCache(t, f)
	b, err := io.ReadAll(f)
	require.NoError(t, err)
	return b
}

// checkContent asserts a file's content.
func checkContent(t *T, path string, want []byte) {
	if d := findDifference(want, readContent(t, path)); d != "" {
		t.Errorf("%s: %s", path, d)
	}
}

// lstat returns path's own attributes.
func lstat(t *T, path string) *syscall.Stat_t {
	i, err := os.Lstat(path)
	require.NoError(t, err)
	return i.Sys().(*syscall.Stat_t)
}

// listNames returns the names in dir, sorted.
func listNames(t *T, dir string) []string {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// pathIn returns a function that joins names to dir.
func pathIn(dir string) func(name string) string {
	return func(name string) string { return filepath.Join(dir, name) }
}
