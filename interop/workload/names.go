package workload

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// testRename moves files and directories, also over existing and open files.
func testRename(t *T, dir string) {
	p := pathIn(dir)
	createFile(t, p("a"), []byte("new"))
	createFile(t, p("b"), []byte("old"))
	open, err := os.OpenFile(p("b"), os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Rename(p("a"), p("b")))
	checkContent(t, p("b"), []byte("new"))
	_, err = os.Lstat(p("a"))
	require.ErrorIs(t, err, syscall.ENOENT)

	// The replaced file exists until its last close.
	_, err = open.WriteAt([]byte("OLD+"), 0)
	require.NoError(t, err)
	require.NoError(t, open.Sync())
	dropCache(t, open)
	got := make([]byte, 4)
	_, err = open.ReadAt(got, 0)
	require.NoError(t, err)
	assert.Equal(t, "OLD+", string(got))
	require.NoError(t, open.Close())
	// Linux removes the file's hidden name by a call for which close does not wait.
	for end := time.Now().Add(10 * time.Second); len(listNames(t, dir)) > 1 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	assert.Equal(t, []string{"b"}, listNames(t, dir), "the replaced file is gone")

	// A descriptor follows its file.
	open, err = os.OpenFile(p("b"), os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(p("d1"), 0o755))
	require.NoError(t, os.Mkdir(p("d2"), 0o755))
	require.NoError(t, unix.Rename(p("b"), p("d1/c")))
	_, err = open.WriteAt([]byte("moved"), 0)
	require.NoError(t, err)
	require.NoError(t, open.Close())
	checkContent(t, p("d1/c"), []byte("moved"))

	require.NoError(t, unix.Rename(p("d1"), p("d3")), "a directory with a file")
	checkContent(t, p("d3/c"), []byte("moved"))
	require.NoError(t, unix.Rename(p("d3"), p("d2")), "over an empty directory")
	assert.Equal(t, []string{"d2"}, listNames(t, dir))

	createFile(t, p("f"), nil)
	require.NoError(t, os.Mkdir(p("d4"), 0o755))
	assert.ErrorIs(t, unix.Rename(p("d4"), p("d2")), syscall.ENOTEMPTY)
	assert.ErrorIs(t, unix.Rename(p("d4"), p("f")), syscall.ENOTDIR)
	assert.ErrorIs(t, unix.Rename(p("f"), p("d4")), syscall.EISDIR)
	assert.ErrorIs(t, unix.Rename(p("d4"), p("d4/below")), syscall.EINVAL)
	assert.ErrorIs(t, unix.Rename(p("gone"), p("x")), syscall.ENOENT)
	require.NoError(t, unix.Rename(p("f"), p("f")), "onto itself")
	require.NoError(t, os.Link(p("f"), p("same")))
	require.NoError(t, unix.Rename(p("f"), p("same")), "rename onto a link to itself has no effect")
	assert.Equal(t, []string{"d2", "d4", "f", "same"}, listNames(t, dir))
}

// testLinks makes hard and symbolic links.
func testLinks(t *T, dir string) {
	p := pathIn(dir)
	createFile(t, p("one"), []byte("shared"))
	require.NoError(t, os.Link(p("one"), p("two")))
	require.NoError(t, os.Mkdir(p("d"), 0o755))
	require.NoError(t, os.Link(p("one"), p("d/three")))
	for _, name := range []string{"one", "two", "d/three"} {
		assert.EqualValues(t, 3, lstat(t, p(name)).Nlink)
		assert.Equal(t, lstat(t, p("one")).Ino, lstat(t, p(name)).Ino)
	}
	f, err := os.OpenFile(p("two"), os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = f.WriteString(", changed")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, os.Remove(p("one")))
	checkContent(t, p("d/three"), []byte("shared, changed"))
	assert.EqualValues(t, 2, lstat(t, p("two")).Nlink)
	assert.ErrorIs(t, os.Link(p("two"), p("d/three")), syscall.EEXIST)
	assert.ErrorIs(t, os.Link(p("d"), p("e")), syscall.EPERM)
	assert.ErrorIs(t, os.Link(p("none"), p("e")), syscall.ENOENT)

	for i, target := range []string{
		"two", "d/three", "/nowhere/at/all", ".", "with\nnewline", "\xff\xfe\x80 not text",
		strings.Repeat("x", 255), strings.Repeat("long/", 204) + "end", // 1,023 bytes
	} {
		link := p(fmt.Sprintf("sym%d", i))
		require.NoError(t, os.Symlink(target, link))
		got, err := os.Readlink(link)
		require.NoError(t, err)
		assert.Equal(t, target, got)
		assert.EqualValues(t, len(target), lstat(t, link).Size)
	}
	checkContent(t, p("sym1"), []byte("shared, changed"))
	_, err = os.ReadFile(p("sym2"))
	assert.ErrorIs(t, err, syscall.ENOENT)
	assert.ErrorIs(t, os.Symlink("x", p("two")), syscall.EEXIST)
	require.NoError(t, os.Symlink("loop", p("loop")))
	_, err = os.ReadFile(p("loop"))
	assert.ErrorIs(t, err, syscall.ELOOP)
}

// testNames uses every byte that is allowed in names, in names with many lengths, most of
// them not UTF-8.
func testNames(t *T, dir string) {
	want := []string{
		" ", "-rf", "...", "*", "\\", "new\nline", "caf\xe9", "café", "\xc0\xaf", "\xed\xa0\x80",
		"\xff\xff\xff\xff", "日本語", strings.Repeat("\xfe", 255), strings.Repeat("n", 255),
	}
	for c := 1; c < 256; c++ {
		if c != '/' {
			want = append(want, "byte-"+string([]byte{byte(c)}))
		}
	}
	for n := 1; n < 255; n += 23 {
		want = append(want, strings.Repeat("\x80", n)+"!")
	}
	for i, name := range want {
		path := filepath.Join(dir, name)
		if i%8 == 0 {
			require.NoError(t, os.Mkdir(path, 0o755), "%q", name)
			path = filepath.Join(path, "\xf0inside")
		}
		require.NoError(t, os.WriteFile(path, []byte(name), 0o644), "%q", name)
	}
	slices.Sort(want)
	assert.Equal(t, want, listNames(t, dir))

	long := filepath.Join(dir, strings.Repeat("n", 256))
	assert.ErrorIs(t, os.WriteFile(long, nil, 0o644), syscall.ENAMETOOLONG)
	from, to := filepath.Join(dir, "caf\xe9"), filepath.Join(dir, "caf\xe8")
	require.NoError(t, unix.Rename(from, to))
	checkContent(t, to, []byte("caf\xe9"))
	_, err := os.Lstat(from)
	assert.ErrorIs(t, err, syscall.ENOENT)
}

// testListing reads a directory with many long names, and removes entries while it reads:
// the listing's cookies remain valid.
func testListing(t *T, dir string) {
	const count = 1000
	createFile(t, filepath.Join(dir, "first"), nil)
	want := map[string]bool{"first": true}
	for n := range count {
		name := fmt.Sprintf("%04d-%s", n, strings.Repeat("n", 150+n%100))
		require.NoError(t, os.Link(filepath.Join(dir, "first"), filepath.Join(dir, name)))
		want[name] = true
	}
	assert.EqualValues(t, count+1, lstat(t, filepath.Join(dir, "first")).Nlink)
	assert.Len(t, listNames(t, dir), count+1)

	d, err := os.Open(dir)
	require.NoError(t, err)
	defer d.Close()
	for {
		batch, err := d.Readdirnames(100)
		for _, name := range batch {
			require.True(t, want[name], "twice, or never made: %q", name)
			delete(want, name)
			require.NoError(t, os.Remove(filepath.Join(dir, name)))
		}
		if err != nil { // io.EOF
			break
		}
	}
	for name := range want {
		t.Errorf("%d names were not listed, for example %q", len(want), name)
		return
	}
	assert.Empty(t, listNames(t, dir))
}
