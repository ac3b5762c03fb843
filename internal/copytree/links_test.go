package copytree

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// copyTree copies one object, and returns what was reported.
func copyTree(t *testing.T, jobs int, from Tree, path string, to Tree, target string) (reports []string, err error) {
	t.Helper()
	var mu sync.Mutex
	c := New(t.Context(), Config{
		Recursive: true, Preserve: true, Jobs: jobs,
		Report: func(err error) { mu.Lock(); defer mu.Unlock(); reports = append(reports, err.Error()) },
		Lost:   func(context.Context, error) error { return nil },
	})
	c.Copy(from, path, to, target)
	return reports, c.Wait()
}

// newLinkedTree creates a tree with a file that has three names in two directories,
// one with two names, and one whose second name is elsewhere.
func newLinkedTree(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "t")
	for _, sub := range []string{"a", "b/deep"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, sub), 0o755))
	}
	for name, text := range map[string]string{"a/one": strings.Repeat("three names ", 100_000), "a/other": "two names", "b/out": "one here"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	for name, old := range map[string]string{"b/two": "a/one", "b/deep/three": "a/one", "a/another": "a/other", "../outside": "b/out"} {
		require.NoError(t, os.Link(filepath.Join(dir, old), filepath.Join(dir, name)))
	}
	return dir
}

// checkLinks compares the names of each file with those in newLinkedTree.
func checkLinks(t *testing.T, dir string) {
	t.Helper()
	inode := func(name string) unix.Stat_t {
		var st unix.Stat_t
		require.NoError(t, unix.Lstat(filepath.Join(dir, name), &st), name)
		return st
	}
	for _, names := range [][]string{{"a/one", "b/two", "b/deep/three"}, {"a/other", "a/another"}, {"b/out"}} {
		first := inode(names[0])
		assert.EqualValues(t, len(names), first.Nlink, names[0])
		for _, name := range names {
			assert.Equal(t, first.Ino, inode(name).Ino, name)
		}
	}
	got, err := os.ReadFile(filepath.Join(dir, "b/deep/three"))
	require.NoError(t, err)
	assert.Equal(t, strings.Repeat("three names ", 100_000), string(got))
}

// TestHardLinks checks that names of one file are names of one file after a copy to
// a server, within it, and back, also if the target exists.
func TestHardLinks(t *testing.T) {
	for _, jobs := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d jobs", jobs), func(t *testing.T) {
			r := newServer(t)
			src, back := newLinkedTree(t), filepath.Join(t.TempDir(), "back")
			for range 2 {
				reports, err := copyTree(t, jobs, localTree(), src, r.Tree(), "up")
				require.NoError(t, err, reports)
				reports, err = copyTree(t, jobs, r.Tree(), "up", r.Tree(), "within")
				require.NoError(t, err, reports)
				reports, err = copyTree(t, jobs, r.Tree(), "within", localTree(), back)
				require.NoError(t, err, reports)
				assert.Empty(t, reports)
				checkLinks(t, back)
			}
		})
	}
}

// TestHardLinkOntoItself checks that the copy of a file stays if another of its names
// is copied to the same place, as in "cp a/x b/x to", and that a directory stays.
func TestHardLinkOntoItself(t *testing.T) {
	r := newServer(t)
	src, there := t.TempDir(), t.TempDir()
	for _, dir := range []string{"a", "b"} {
		require.NoError(t, os.Mkdir(filepath.Join(src, dir), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(src, "a/x"), []byte("text"), 0o644))
	require.NoError(t, os.Link(filepath.Join(src, "a/x"), filepath.Join(src, "b/x")))
	require.NoError(t, r.FS.Mkdir(t.Context(), "empty", 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(there, "empty"), 0o755))
	_, err := copyTree(t, 1, localTree(), src, r.Tree(), "up")
	require.NoError(t, err)
	copyBoth := func(from Tree, dir string, to Tree, one, two string) error {
		c := New(t.Context(), Config{Preserve: true, Jobs: 1, Report: func(error) {}, Lost: func(context.Context, error) error { return nil }})
		c.Copy(from, filepath.Join(dir, "a/x"), to, one)
		c.Copy(from, filepath.Join(dir, "b/x"), to, two)
		return c.Wait()
	}
	require.NoError(t, copyBoth(localTree(), src, r.Tree(), "x", "x"))
	node, err := r.FS.Stat(t.Context(), "x")
	require.NoError(t, err)
	assert.EqualValues(t, 4, node.Attr.Size)
	assert.EqualValues(t, 1, node.Attr.Nlink)
	here := filepath.Join(there, "x")
	require.NoError(t, copyBoth(r.Tree(), "up", localTree(), here, here))
	got, err := os.ReadFile(here)
	require.NoError(t, err)
	assert.Equal(t, "text", string(got))

	require.Error(t, copyBoth(localTree(), src, r.Tree(), "y", "empty"))
	node, err = r.FS.Stat(t.Context(), "empty")
	require.NoError(t, err)
	assert.Equal(t, nfs3.TypeDir, node.Attr.Type)
	require.Error(t, copyBoth(r.Tree(), "up", localTree(), filepath.Join(there, "y"), filepath.Join(there, "empty")))
	assert.DirExists(t, filepath.Join(there, "empty"))
}

// TestHardLinkWithoutFirst checks that the other names of a file are copied and
// linked if the first cannot be copied, and that one that cannot be linked is
// copied, with one warning.
func TestHardLinkWithoutFirst(t *testing.T) {
	r := newServer(t)
	src := newLinkedTree(t)
	require.NoError(t, r.FS.Mkdir(t.Context(), "up", 0o755))
	require.NoError(t, r.FS.Mkdir(t.Context(), "up/a", 0o755))
	require.NoError(t, r.FS.Mkdir(t.Context(), "up/a/one", 0o755))
	reports, err := copyTree(t, 4, localTree(), src, r.Tree(), "up")
	require.Error(t, err)
	require.Len(t, reports, 1)
	assert.Contains(t, reports[0], "one")
	two, err := r.FS.Stat(t.Context(), "up/b/two")
	require.NoError(t, err)
	three, err := r.FS.Stat(t.Context(), "up/b/deep/three")
	require.NoError(t, err)
	assert.Equal(t, two.Attr.FileID, three.Attr.FileID)
	assert.EqualValues(t, 2, three.Attr.Nlink)
}

// A fakeLinklessTree cannot have hard links.
type fakeLinklessTree struct{ Tree }

func (t fakeLinklessTree) link(context.Context, destination, string) error { return unix.EMLINK }

func (t fakeLinklessTree) openSub(ctx context.Context, path string, fresh bool) (Tree, error) {
	sub, err := t.Tree.openSub(ctx, path, fresh)
	return fakeLinklessTree{sub}, err
}

// TestNoHardLinks checks that names that cannot be links are copies, with one
// warning: at a server without hard links, and here if symbolic links of the
// target lead elsewhere.
func TestNoHardLinks(t *testing.T) {
	r := newServer(t)
	src, there := newLinkedTree(t), filepath.Join(t.TempDir(), "back")
	reports, err := copyTree(t, 4, localTree(), src, fakeLinklessTree{r.Tree()}, "up")
	require.NoError(t, err)
	require.Len(t, reports, 1)
	assert.Contains(t, reports[0], errNoLink.Error())
	three, err := r.FS.Stat(t.Context(), "up/b/deep/three")
	require.NoError(t, err)
	assert.EqualValues(t, 1, three.Attr.Nlink)
	assert.EqualValues(t, 1_200_000, three.Attr.Size)

	_, err = copyTree(t, 4, localTree(), src, r.Tree(), "linked")
	require.NoError(t, err)
	for _, name := range []string{"a/one", "b/two", "b/deep/three"} {
		path := filepath.Join(there, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path+"-target", nil, 0o644))
		require.NoError(t, os.Symlink(filepath.Base(path)+"-target", path))
	}
	reports, err = copyTree(t, 4, r.Tree(), "linked", localTree(), there)
	require.NoError(t, err)
	require.Len(t, reports, 1)
	for _, name := range []string{"a/one", "b/two", "b/deep/three"} {
		got, err := os.ReadFile(filepath.Join(there, name+"-target"))
		require.NoError(t, err)
		assert.Len(t, got, 1_200_000, name)
	}
}

// TestWarnings checks that a copy reports once what it cannot keep, and succeeds.
func TestWarnings(t *testing.T) {
	r := newServer(t)
	src := filepath.Join(t.TempDir(), "t")
	require.NoError(t, os.MkdirAll(filepath.Join(src, "d"), 0o755))
	for _, name := range []string{"a", "b", "d/c"} {
		path := filepath.Join(src, name)
		require.NoError(t, os.WriteFile(path, nil, 0o644))
		require.NoError(t, unix.Setxattr(path, "user.a", []byte("b"), 0))
		require.NoError(t, os.Chtimes(path, time.Unix(0, 0), time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)))
	}
	reports, err := copyTree(t, 4, localTree(), src, r.Tree(), "up")
	require.NoError(t, err)
	require.Len(t, reports, 2)
	all := strings.Join(reports, "\n")
	assert.Contains(t, all, "extended attributes")
	assert.Contains(t, all, "before 1970 or after 2106")
	reports, err = copyTree(t, 4, r.Tree(), "up", localTree(), filepath.Join(t.TempDir(), "back"))
	require.NoError(t, err)
	assert.Empty(t, reports)
}
