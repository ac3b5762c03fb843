package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// makeTree creates a tree with everything that a copy must handle.
func makeTree(t *testing.T, dir string) {
	sizes := []int{0, 1, 4095, 4096, 4097, 1 << 20, 64<<20 + 3}
	if testing.Short() {
		sizes[len(sizes)-1] = 5<<20 + 3
	}
	for i, n := range sizes {
		writeFile(t, randomBytes(n, byte(i)), dir, "sizes", fmt.Sprint(n))
	}
	for i := range 30 {
		writeFile(t, fmt.Append(nil, i), dir, "many", fmt.Sprint(i%3), fmt.Sprint(i))
	}
	writeFile(t, []byte("x"), dir, "na\xffme\n", "\xfe%?#")
	writeFile(t, []byte("x"), dir, "-r")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "empty"), 0o750))
	require.NoError(t, os.Symlink("/no/such\xff", filepath.Join(dir, "dangling")))
	require.NoError(t, os.Symlink("many", filepath.Join(dir, "link")))
	writeFile(t, []byte("read only"), dir, "many", "ro")
	require.NoError(t, os.Chmod(filepath.Join(dir, "many", "ro"), 0o444))
	require.NoError(t, os.Chmod(filepath.Join(dir, "sizes", "0"), 0o711))
}

// TestCpTree copies a tree to a server, to another server, and back.
func TestCpTree(t *testing.T) {
	checkLeaks(t)
	one, two := startTestServer(t), startTestServer(t)
	src, back := t.TempDir(), t.TempDir()
	makeTree(t, src)
	want := snapshotTree(t, src)

	mustRun(t, "cp", "-r", src, one.url+"/there")
	assert.Equal(t, want, snapshotTree(t, filepath.Join(one.dir, "there")))
	mustRun(t, "cp", "-r", one.url+"/there", two.url)
	assert.Equal(t, want, snapshotTree(t, filepath.Join(two.dir, "there")))
	mustRun(t, "cp", "-r", two.url+"/there", back)
	assert.Equal(t, want, snapshotTree(t, filepath.Join(back, "there")))

	// Copy whole exports again over the existing files, one file at a time.
	mustRun(t, "cp", "-r", "--jobs=1", src+"/.", one.url+"/there")
	assert.Equal(t, want, snapshotTree(t, filepath.Join(one.dir, "there")))
	mustRun(t, "cp", "-r", one.url, filepath.Join(back, "x"))
	assert.Equal(t, want, snapshotTree(t, filepath.Join(back, "x", "there")))
}

// TestCpPath checks the forms in which a path can be written.
func TestCpPath(t *testing.T) {
	r := newTestServer(t)
	dir := t.TempDir()
	t.Chdir(dir)
	writeFile(t, []byte("a"), dir, "a")
	writeFile(t, []byte("b"), dir, "b")
	writeFile(t, []byte("old and longer"), r.dir, "old")
	require.NoError(t, os.Symlink("a", "l"))
	mustRun(t, "cp", "a", r.url)
	mustRun(t, "cp", "a", r.url+"/a2")
	mustRun(t, "cp", "a", r.url+"/old")
	mustRun(t, "cp", "l", r.url+"/l")
	mustRun(t, "mkdir", r.url+"/d")
	mustRun(t, "cp", "./a", dir+"/b", r.url+"/d/")
	mustRun(t, "cp", r.url+"/d/a", ".")
	mustRun(t, "cp", r.url+"/d/b", "new")
	mustRun(t, "cp", r.url+"/a2", r.url+"/%FF")
	for _, name := range []string{"a", "a2", "old", "l", "d/a", "\xff"} {
		got, err := os.ReadFile(filepath.Join(r.dir, name))
		require.NoError(t, err)
		assert.Equal(t, "a", string(got), name)
	}
	got, err := os.ReadFile("new")
	require.NoError(t, err)
	assert.Equal(t, "b", string(got))
	info, err := os.Lstat(filepath.Join(r.dir, "l"))
	require.NoError(t, err)
	assert.Zero(t, info.Mode().Type(), "without -r a link is followed")
}

func TestCpPreserve(t *testing.T) {
	r := newTestServer(t)
	src, back := filepath.Join(t.TempDir(), "t"), t.TempDir()
	writeFile(t, []byte("x"), src, "d", "f")
	f, d := filepath.Join(src, "d", "f"), filepath.Join(src, "d")
	require.NoError(t, os.Chmod(f, 0o640|fs.ModeSetuid))
	require.NoError(t, os.Chmod(d, 0o770|fs.ModeSticky))
	at, mt := time.Unix(1_000_000_000, 123456789), time.Unix(1_100_000_000, 987654321)
	l := filepath.Join(src, "l")
	require.NoError(t, os.Symlink("/nowhere", l))
	times := []unix.Timespec{unix.NsecToTimespec(at.UnixNano()), unix.NsecToTimespec(mt.UnixNano())}
	require.NoError(t, unix.UtimesNanoAt(unix.AT_FDCWD, l, times, unix.AT_SYMLINK_NOFOLLOW))
	require.NoError(t, os.Chtimes(f, at, mt))
	require.NoError(t, os.Chtimes(d, at, mt.Add(time.Hour)))

	mustRun(t, "cp", "-rp", src, r.url)
	mustRun(t, "cp", "-rp", r.url+"/t", back)
	for _, root := range []string{filepath.Join(r.dir, "t"), filepath.Join(back, "t")} {
		info, err := os.Stat(filepath.Join(root, "d", "f"))
		require.NoError(t, err)
		assert.Equal(t, 0o640|fs.ModeSetuid, info.Mode(), root)
		assert.True(t, mt.Equal(info.ModTime()), "%s: %v", root, info.ModTime())
		info, err = os.Lstat(filepath.Join(root, "l"))
		require.NoError(t, err)
		assert.True(t, mt.Equal(info.ModTime()), "%s: %v", root, info.ModTime())
		info, err = os.Stat(filepath.Join(root, "d"))
		require.NoError(t, err)
		assert.Equal(t, 0o770|fs.ModeSticky|fs.ModeDir, info.Mode(), root)
		assert.True(t, mt.Add(time.Hour).Equal(info.ModTime()), "%s: %v", root, info.ModTime())
	}
}

// TestCpSparse checks that holes stay holes, and that the length of a file does
// not change.
func TestCpSparse(t *testing.T) {
	r := newTestServer(t)
	src := filepath.Join(t.TempDir(), "sparse")
	f, err := os.Create(src)
	require.NoError(t, err)
	want := make([]byte, 48<<20+5)
	for _, off := range []int{3 << 20, 20<<20 + 1, 21 << 20} {
		copy(want[off:], randomBytes(100_000, byte(off)))
		_, err := f.WriteAt(want[off:off+100_000], int64(off))
		require.NoError(t, err)
	}
	require.NoError(t, f.Truncate(int64(len(want))))
	require.NoError(t, f.Close())
	back := filepath.Join(t.TempDir(), "back")

	mustRun(t, "cp", src, r.url)
	mustRun(t, "cp", r.url+"/sparse", r.url+"/relayed")
	mustRun(t, "cp", r.url+"/sparse", back)
	for _, name := range []string{filepath.Join(r.dir, "sparse"), filepath.Join(r.dir, "relayed"), back} {
		got, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(want, got), name)
	}
	for _, name := range []string{src, filepath.Join(r.dir, "sparse"), back} {
		var st unix.Stat_t
		require.NoError(t, unix.Stat(name, &st))
		assert.Less(t, st.Blocks*512, int64(4<<20), "%s takes disk space", name)
	}
}

// TestCpErrors checks that each error names its object, and that the rest is
// copied.
func TestCpErrors(t *testing.T) {
	r := newTestServer(t)
	dir, out := t.TempDir(), t.TempDir()
	writeFile(t, []byte("a"), dir, "t", "a")
	writeFile(t, []byte("c"), dir, "t", "c", "f")
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "t", "b"), 0o600))
	writeFile(t, nil, r.dir, "t", "c") // conflicts with a directory
	tree := filepath.Join(dir, "t")

	got := mustFail(t, "cp", "-r", tree, filepath.Join(dir, "nosuch"), r.url)
	assert.ElementsMatch(t, []string{
		fmt.Sprintf("mountrdma: %q: not copied: not a file, directory or symbolic link", filepath.Join(tree, "b")),
		"mountrdma: " + r.url + "/t/c: file exists (NFS3ERR_EXIST)",
		fmt.Sprintf("mountrdma: %q: no such file or directory", filepath.Join(dir, "nosuch")),
	}, strings.Split(strings.TrimSpace(got), "\n"))
	assert.FileExists(t, filepath.Join(r.dir, "t", "a"))

	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{tree, r.url}, fmt.Sprintf("%q: is a directory: -r copies it with its content", tree)},
		{[]string{tree + "/a", r.url + "/no/such"}, r.url + "/no/such: no such file or directory (NFS3ERR_NOENT)"},
		{[]string{r.url + "/t/a", filepath.Join(out, "no", "such")}, fmt.Sprintf("%q: no such file or directory", filepath.Join(out, "no", "such"))},
		{[]string{tree + "/a", tree + "/c/f", r.url + "/t/a"}, r.url + "/t/a: no such directory: several sources need one"},
		{[]string{r.url + "/t/a", r.url + "/t"}, r.url + "/t/a: source and destination are the same file"},
		{[]string{"-r", r.url + "/t", r.url + "/t/sub"}, r.url + "/t/sub: not copied: it is the destination itself"},
		{[]string{r.url + "/t/a", "/dev/full"}, `"/dev/full": no space left on device`},
	} {
		assert.Equal(t, "mountrdma: "+tt.want+"\n", mustFail(t, append([]string{"cp"}, tt.args...)...))
	}
	got = mustFail(t, "cp", r.url+"/t/a", scheme+r.addr+"/y/b", out)
	assert.Contains(t, got, "no export holds /y/b")
	assert.FileExists(t, filepath.Join(out, "a"))
	assert.FileExists(t, filepath.Join(r.dir, "t", "sub", "a"), "what is not in the way is copied")
	assert.NoDirExists(t, filepath.Join(r.dir, "t", "sub", "sub"))
}

// TestCpStaysInside checks that a tree from a server cannot lead outside the
// destination.
func TestCpStaysInside(t *testing.T) {
	r := newTestServer(t)
	out, secret := t.TempDir(), t.TempDir()
	writeFile(t, []byte("evil"), r.dir, "t", "d", "f")
	writeFile(t, []byte("evil"), r.dir, "t", "g")
	require.NoError(t, os.Mkdir(filepath.Join(out, "t"), 0o755))
	require.NoError(t, os.Symlink(secret, filepath.Join(out, "t", "d")))
	require.NoError(t, os.Symlink(filepath.Join(secret, "g"), filepath.Join(out, "t", "g")))
	got := mustFail(t, "cp", "-r", r.url+"/t", out)
	assert.Equal(t, 2, strings.Count(got, "\n"), got)
	left, err := os.ReadDir(secret)
	require.NoError(t, err)
	assert.Empty(t, left)
}

// TestCpCalls checks that a small file in a new directory needs one CREATE, one WRITE
// and one RENAME, and one READ when it is copied back.
func TestCpCalls(t *testing.T) {
	r := newTestServer(t)
	src := t.TempDir()
	const files = 100
	for i := range files {
		writeFile(t, []byte("x"), src, "t", fmt.Sprint(i))
	}
	few := int64(30) // to connect, to mount, for the directory
	mustRun(t, "cp", "-r", src+"/t", r.url)
	assert.LessOrEqual(t, r.calls.Swap(0), 3*files+few)
	mustRun(t, "cp", "-r", r.url+"/t", t.TempDir())
	assert.LessOrEqual(t, r.calls.Load(), files+few)
}

// TestCpStream checks a source of unknown size, such as a pipe.
func TestCpStream(t *testing.T) {
	r := newTestServer(t)
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	data := randomBytes(5<<20+1, 1)
	done := make(chan error, 1)
	go func() { done <- os.WriteFile(pipe, data, 0) }()
	mustRun(t, "cp", pipe, r.url+"/f")
	require.NoError(t, <-done)
	got, err := os.ReadFile(filepath.Join(r.dir, "f"))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(data, got))
}

func noChange(*rpcrdma.Server, *iwarp.Config, *nfsserver.Config) {}

// TestCpOverAnything copies over connections with all kinds of settings.
func TestCpOverAnything(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		set  serverSetting
	}{
		{"client asks for CRC", []string{"--crc=on"}, noChange},
		{"server asks for CRC", []string{"--crc=off"}, func(_ *rpcrdma.Server, c *iwarp.Config, _ *nfsserver.Config) { c.CRC = mpa.CRCOn }},
		{"least threshold", []string{"--inline=1024"}, noChange},
		{"largest threshold", []string{"--inline=256KiB"}, func(s *rpcrdma.Server, _ *iwarp.Config, _ *nfsserver.Config) { s.Inline = 256 << 10 }},
		{"one credit", []string{"--credits=1"}, noChange},
		{"server has one credit", nil, func(s *rpcrdma.Server, _ *iwarp.Config, _ *nfsserver.Config) { s.Credits = 1 }},
		{"many credits", []string{"--credits=1024"}, func(s *rpcrdma.Server, _ *iwarp.Config, _ *nfsserver.Config) { s.Credits = 1024 }},
		{"short transfers", nil, func(_ *rpcrdma.Server, _ *iwarp.Config, c *nfsserver.Config) { c.MaxPayload = 8 << 10 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newTestServer(t, tt.set)
			src, back := t.TempDir(), t.TempDir()
			for _, n := range []int{0, 1, 3000, 4097, 2<<20 + 1} {
				writeFile(t, randomBytes(n, 1), src, "t", fmt.Sprint(n))
			}
			mustRun(t, append([]string{"cp", "-r", src + "/t", r.url}, tt.args...)...)
			mustRun(t, append([]string{"cp", "-r", r.url + "/t", back}, tt.args...)...)
			assert.Equal(t, snapshotTree(t, src), snapshotTree(t, back))
		})
	}
}
