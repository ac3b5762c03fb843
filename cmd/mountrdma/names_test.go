package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLs(t *testing.T) {
	r := newTestServer(t)
	writeFile(t, []byte("12345"), r.dir, "b")
	writeFile(t, nil, r.dir, "a\xffb")
	writeFile(t, nil, r.dir, "d", "e", "f")
	require.NoError(t, os.Symlink("b", filepath.Join(r.dir, "c")))
	require.NoError(t, os.Chmod(filepath.Join(r.dir, "b"), 0o751|fs.ModeSetuid))

	assert.Equal(t, "a\xffb\nb\nc\nd\n", mustRun(t, "ls", r.url))
	assert.Equal(t, "b\n", mustRun(t, "ls", r.url+"/b"))
	long := mustRun(t, "ls", "-l", r.url)
	assert.Regexp(t, `(?m)^-rwsr-x--x 1 \d+ \d+ +5 \d{4}-\d\d-\d\d \d\d:\d\d b$`, long)
	assert.Regexp(t, `(?m)^lrwxrwxrwx 1 \d+ \d+ +1 .* c -> b$`, long)
	assert.Regexp(t, `(?m)^drwxr-xr-x 3 `, long)
	assert.Equal(t, r.url+":\na\xffb\nb\nc\nd\n\n"+r.url+"/d:\ne\n\n"+r.url+"/d/e:\nf\n", mustRun(t, "ls", "-R", r.url))
	assert.Equal(t, r.url+"/d:\ne\n\n"+r.url+"/d/e:\nf\n", mustRun(t, "ls", r.url+"/d", r.url+"/d/e"))
	assert.Contains(t, mustRun(t, "ls", "-l", r.url+"/c"), "c -> b\n", "a link itself")
	assert.Equal(t, "c\n", mustRun(t, "ls", r.url+"/c"))
}

// TestLsUnsorted checks that a listing that is printed in several parts is complete.
func TestLsUnsorted(t *testing.T) {
	r := newTestServer(t)
	var want []string
	for i := range 2*lsPiece + 7 {
		want = append(want, fmt.Sprint("file-", i))
		writeFile(t, nil, r.dir, want[i])
	}
	writeFile(t, nil, r.dir, "d", "e")
	want = append(want, "d")
	lines := func(args ...string) []string {
		return strings.Split(strings.TrimSuffix(mustRun(t, append([]string{"ls", "-U"}, args...)...), "\n"), "\n")
	}
	assert.ElementsMatch(t, want, lines(r.url))
	assert.ElementsMatch(t, append(want, r.url+":", "", r.url+"/d:", "e"), lines("-R", r.url))
	long := lines("-l", r.url)
	assert.Len(t, long, len(want))
	for _, line := range long {
		assert.Regexp(t, `^[d-]rw.r-.r-. +\d \d+ \d+ +\d+ \d{4}-\d\d-\d\d \d\d:\d\d (d|file-\d+)$`, line)
	}
}

func TestTame(t *testing.T) {
	assert.Equal(t, "ä?b?c?", replaceUnprintable("ä\xffb\x1bc\n"))
}

func TestStat(t *testing.T) {
	r := newTestServer(t)
	writeFile(t, []byte("12345"), r.dir, "b")
	require.NoError(t, os.Symlink("b\xff", filepath.Join(r.dir, "c")))
	out := mustRun(t, "stat", r.url+"/b", r.url+"/c")
	assert.Contains(t, out, r.url+"/b\n    type  regular file\n    size  5 bytes, ")
	assert.Contains(t, out, "    mode  0644 -rw-r--r--\n")
	assert.Contains(t, out, `symbolic link to "b\xff"`)
}

func TestCat(t *testing.T) {
	r := newTestServer(t)
	big := randomBytes(3<<20+17, 1)
	writeFile(t, big, r.dir, "big")
	writeFile(t, []byte("end\n"), r.dir, "d", "%?#")
	assert.Equal(t, string(big)+"end\n", mustRun(t, "cat", r.url+"/big", r.url+"/d/%25%3F#"))
}

func TestMkdirRm(t *testing.T) {
	r := newTestServer(t)
	mustRun(t, "mkdir", r.url+"/a", r.url+"/%FE/")
	mustRun(t, "mkdir", "-p", r.url+"/a/b/c", r.url+"/a/b", r.url)
	assert.DirExists(t, filepath.Join(r.dir, "a/b/c"))
	assert.DirExists(t, filepath.Join(r.dir, "\xfe"))
	writeFile(t, nil, r.dir, "a/b/f")

	url := r.url + "/a"
	assert.Equal(t, "mountrdma: "+url+": file exists (NFS3ERR_EXIST)\n", mustFail(t, "mkdir", url))
	assert.Equal(t, "mountrdma: "+url+": is a directory: -r removes it with its contents\n", mustFail(t, "rm", url))
	assert.Equal(t, "mountrdma: "+r.url+": this is the export itself, which only the server can remove\n", mustFail(t, "rm", "-r", r.url))
	mustRun(t, "rm", url+"/b/f", url+"/nosuch", "-f")
	assert.NoFileExists(t, filepath.Join(r.dir, "a/b/f"))
	mustRun(t, "rm", "-r", url)
	assert.NoDirExists(t, filepath.Join(r.dir, "a"))
	mustRun(t, "rm", "-f", url)
	assert.Equal(t, "mountrdma: "+url+": no such file or directory (NFS3ERR_NOENT)\n", mustFail(t, "rm", url))
}

// TestOneAfterTheOther checks that a failure with one URL does not prevent a
// command from processing the others.
func TestOneAfterTheOther(t *testing.T) {
	r := newTestServer(t)
	writeFile(t, []byte("yes"), r.dir, "f")
	status, stdout, stderr := runCommand(t, "cat", r.url+"/nosuch", scheme+r.addr+"/y", r.url+"/f")
	assert.Equal(t, 1, status)
	assert.Equal(t, "yes", stdout)
	assert.Equal(t, 2, strings.Count(stderr, "\n"), stderr)
	assert.Contains(t, stderr, "mountrdma: "+r.url+"/nosuch: no such file or directory (NFS3ERR_NOENT)\n")
	assert.Contains(t, stderr, r.addr+": MOUNT: no export holds /y; correct the path: the server exports /x\n")
}
