package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// addMemoryExport adds the export /m to a server.
func addMemoryExport(_ *rpcrdma.Server, _ *iwarp.Config, c *nfsserver.Config) {
	c.Exports = append(c.Exports, nfsserver.Export{
		Path: "/m", FS: mem.New(mem.Options{Size: 64 << 20}), Clients: exports.Everyone(exports.Options{NoRootSquash: true, Insecure: true}),
	})
}

func TestMv(t *testing.T) {
	r := newTestServer(t, addMemoryExport)
	other := scheme + r.addr + "/m"
	for _, name := range []string{"a", "b", "c", "d/e"} {
		writeFile(t, []byte(name), r.dir, name)
	}
	mustRun(t, "mv", r.url+"/a", r.url+"/b")
	assertContent(t, []byte("a"), r.dir, "b")
	mustRun(t, "mv", r.url+"/b", r.url+"/c", r.url+"/d/")
	mustRun(t, "mv", r.url+"/d/", r.url+"/new")
	for _, name := range []string{"b", "c", "e"} {
		assert.FileExists(t, filepath.Join(r.dir, "new", name))
	}
	for args, want := range map[string]string{
		r.url + "/new/b " + other:                            r.url + "/new/b: cannot move to " + other + "/b, in another export or server: use cp -r -p, then rm -r",
		r.url + " " + r.url + "/x":                           r.url + ": " + errIsRoot.Error(),
		r.url + "/none " + r.url + "/x":                      r.url + "/none -> " + r.url + "/x: no such file or directory (NFS3ERR_NOENT)",
		r.url + "/new/b " + r.url + "/new/c " + r.url + "/x": r.url + "/x: no such directory: several sources need one",
		r.url + "/new/b " + r.url + "/x/":                    r.url + "/x/: no such file or directory (NFS3ERR_NOENT)",
	} {
		assert.Equal(t, "mountrdma: "+want+"\n", mustFail(t, append([]string{"mv"}, strings.Fields(args)...)...))
	}
	assert.FileExists(t, filepath.Join(r.dir, "new", "b"))

	require.NoError(t, os.Link(filepath.Join(r.dir, "new", "b"), filepath.Join(r.dir, "b")))
	assert.Contains(t, mustFail(t, "mv", r.url+"/b", r.url+"/new"), "are the same file")
	assert.Contains(t, mustFail(t, "mv", r.url+"/b", r.url+"/b"), "are the same file")
	mustFail(t, "mv", r.url+"/new", r.url+"/new/in")
	status, _, stderr := runCommand(t, "mv", r.url+"/b", r.url+"/new/b", r.url+"/new")
	assert.Equal(t, cli.ExitUsage, status)
	assert.Contains(t, stderr, "would become the same file")
}

// TestWalkReplaced checks that a walk does not follow a symbolic link that replaces a
// directory meanwhile.
func TestWalkReplaced(t *testing.T) {
	r := newTestServer(t)
	writeFile(t, nil, r.dir, "d", "e", "f")
	writeFile(t, nil, r.dir, "other", "g")
	var errs strings.Builder
	a := newApp(io.Discard, &errs)
	a.newRoot() // sets the defaults of flags
	defer a.closeSessions()
	at, err := parseURL(r.url+"/d", false)
	require.NoError(t, err)
	in, err := a.openURL(t.Context(), at)
	require.NoError(t, err)
	top, err := in.openObject(t.Context())
	require.NoError(t, err)
	var seen []string
	replace := func(o object) error {
		if seen = append(seen, o.lastName()); o.lastName() == "e" {
			require.NoError(t, os.Rename(filepath.Join(r.dir, "d", "e"), filepath.Join(r.dir, "away")))
			require.NoError(t, os.Symlink("../other", filepath.Join(r.dir, "d", "e")))
		}
		return nil
	}
	assert.ErrorIs(t, (&treeWalk{app: a, before: replace}).run(t.Context(), top), cli.ErrReported)
	assert.Equal(t, []string{"d", "e"}, seen)
	assert.Equal(t, "mountrdma: "+r.url+"/d/e: was replaced while the tree was read\n", errs.String())
}

func TestLn(t *testing.T) {
	r := newTestServer(t, addMemoryExport)
	writeFile(t, []byte("a"), r.dir, "a")
	mustRun(t, "mkdir", r.url+"/d")
	mustRun(t, "ln", r.url+"/a", r.url+"/b")
	mustRun(t, "ln", r.url+"/a", r.url+"/d")
	info, err := os.Stat(filepath.Join(r.dir, "a"))
	require.NoError(t, err)
	for _, name := range []string{"b", "d/a"} {
		same, err := os.Stat(filepath.Join(r.dir, name))
		require.NoError(t, err)
		assert.True(t, os.SameFile(info, same), name)
	}
	mustRun(t, "ln", "-s", "../none", r.url+"/l")
	mustRun(t, "ln", "-s", "/x/y", r.url+"/d")
	for name, want := range map[string]string{"l": "../none", "d/y": "/x/y"} {
		got, err := os.Readlink(filepath.Join(r.dir, name))
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	assert.Contains(t, mustFail(t, "ln", r.url+"/a", r.url+"/b"), "file exists (NFS3ERR_EXIST)")
	assert.Contains(t, mustFail(t, "ln", "-s", "x", r.url+"/a"), "file exists (NFS3ERR_EXIST)")
	assert.Contains(t, mustFail(t, "ln", r.url+"/a", scheme+r.addr+"/m/a"), "must be in the same export")
}

// TestParseMode checks modes against those of chmod(1), with the umask 022.
func TestParseMode(t *testing.T) {
	for _, tt := range []struct {
		word  string
		isDir bool
		from  uint32
		want  uint32
	}{
		{"640", false, 0o7777, 0o640},
		{"4755", false, 0, 0o4755},
		{"u+x,go-w", false, 0o666, 0o744},
		{"a=rX", false, 0o640, 0o444},
		{"a=rX", true, 0o640, 0o555},
		{"a=rX", false, 0o710, 0o555},
		{"+w", false, 0o444, 0o644},
		{"a+w", false, 0o444, 0o666},
		{"u+s,+t", false, 0o755, 0o5755},
		{"g+s,u-s", true, 0o4755, 0o2755},
		{"o=", false, 0o777, 0o770},
		{"=r", false, 0o666, 0o444},
		{"=rw", false, 0o777, 0o644},
	} {
		m, err := parseMode(tt.word, 0o022)
		require.NoError(t, err, tt.word)
		assert.Equal(t, fmt.Sprintf("%o", tt.want), fmt.Sprintf("%o", m.apply(tt.from, tt.isDir)), tt.word)
	}
	for _, word := range []string{"", "8", "77777", "x", "u+q", "z+r", "u+x,", "+-"} {
		_, err := parseMode(word, 0)
		assert.ErrorContains(t, err, "is not a mode", word)
	}
}

func TestChmod(t *testing.T) {
	r := newTestServer(t)
	writeFile(t, nil, r.dir, "d", "f")
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(r.dir, "d", "l")))
	mustRun(t, "chmod", "600", r.url+"/d/f")
	mustRun(t, "chmod", "-R", "go=X,u+w", r.url+"/d")
	got := snapshotTree(t, r.dir)
	assert.Equal(t, "drwx--x--x", got["d"])
	assert.True(t, strings.HasPrefix(got["d/f"], "-rw-------"), got["d/f"])
	assert.Contains(t, mustFail(t, "chmod", "600", r.url+"/none"), "no such file or directory")
}

func TestDf(t *testing.T) {
	r := newTestServer(t, addMemoryExport)
	out := mustRun(t, "df", scheme+r.addr+"/m", r.url)
	lines := strings.Split(out, "\n")
	assert.Equal(t, []string{"1K-blocks", "Used", "Available", "Use%", "URL"}, strings.Fields(lines[0]))
	assert.Regexp(t, `^ *65536 +\d+ +\d+ +\d+% +`+scheme+r.addr+`/m$`, lines[1])
	assert.Regexp(t, `(?m)^ *64M +\S+ +64M +\d% +.*/m$`, mustRun(t, "df", "-h", scheme+r.addr+"/m"))
	assert.Regexp(t, `(?s)Inodes.*/m\n.*/x\n$`, mustRun(t, "df", "-i", scheme+r.addr), "all exports of a server")
}

// TestDfForbidden checks that df names an export that this host may not mount, and shows the
// others.
func TestDfForbidden(t *testing.T) {
	r := newTestServer(t, func(_ *rpcrdma.Server, _ *iwarp.Config, c *nfsserver.Config) {
		other, err := exports.ParseHost("192.0.2.1")
		require.NoError(t, err)
		c.Exports = append(c.Exports, nfsserver.Export{Path: "/m", FS: mem.New(mem.Options{}), Clients: []exports.Client{{Host: other}}})
	})
	status, stdout, stderr := runCommand(t, "df", scheme+r.addr)
	assert.Equal(t, cli.ExitError, status)
	assert.Regexp(t, `/x\n$`, stdout)
	assert.Regexp(t, `^mountrdma: [^\n]* the export of /m; [^\n]*\n$`, stderr)
}

func TestDu(t *testing.T) {
	r := newTestServer(t)
	writeFile(t, make([]byte, 3000), r.dir, "d", "a")
	writeFile(t, make([]byte, 500), r.dir, "d", "e", "b")
	require.NoError(t, os.Link(filepath.Join(r.dir, "d", "a"), filepath.Join(r.dir, "d", "e", "a")))
	size := func(name string) int64 {
		info, err := os.Stat(filepath.Join(r.dir, name))
		require.NoError(t, err)
		return info.Size()
	}
	e := size("d/e") + 500
	want := e + size("d") + 3000
	lines := strings.Split(mustRun(t, "du", "--apparent-size", r.url+"/d"), "\n")
	require.Len(t, lines, 3)
	assert.Regexp(t, `^\d+\t`+r.url+`/d/e$`, lines[0])
	assert.Equal(t, fmt.Sprintf("%d\t%s/d", toKiB(uint64(want)), r.url), lines[1], "a file with two names counts once")
	assert.Equal(t, lines[1]+"\n", mustRun(t, "du", "-s", "--apparent-size", r.url+"/d"))
	assert.Equal(t, fmt.Sprintf("3.0K\t%s/d/a\n", r.url), mustRun(t, "du", "-h", "--apparent-size", r.url+"/d/a"))
	assert.Regexp(t, `^\d+\t`+r.url+`/d\n$`, mustRun(t, "du", "-s", r.url+"/d"))
}

func TestFind(t *testing.T) {
	r := newTestServer(t)
	writeFile(t, make([]byte, 1025), r.dir, "d", "a.log")
	writeFile(t, nil, r.dir, "d", "e", "b c.log")
	require.NoError(t, os.Symlink("a.log", filepath.Join(r.dir, "d", "l")))
	old := time.Now().Add(-49 * time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(r.dir, "d", "a.log"), old, old))
	top := r.url + "/d"
	for args, want := range map[string][]string{
		"":                         {top, top + "/a.log", top + "/e", top + "/e/b%20c.log", top + "/l"},
		"-name *.log":              {top + "/a.log", top + "/e/b%20c.log"},
		"-name a* --name e":        {top + "/a.log", top + "/e"},
		"-type d":                  {top, top + "/e"},
		"-type l":                  {top + "/l"},
		"-type f -size 2k":         {top + "/a.log"},
		"-type f -size +1k":        {top + "/a.log"},
		"-type f -size -1":         {top + "/e/b%20c.log"},
		"-type f -size 1025c":      {top + "/a.log"},
		"-type f -mtime +1":        {top + "/a.log"},
		"-type f -mtime 2":         {top + "/a.log"},
		"-type f -mtime -1":        {top + "/e/b%20c.log"},
		"-name *.log -size +9999G": {""},
	} {
		assert.Equal(t, want, sortedLines(mustRun(t, append([]string{"find", top}, strings.Fields(args)...)...)), args)
	}
	assert.Equal(t, top+"/e\x00", mustRun(t, "find", top, "-name", "e", "-print0"))
	var errs strings.Builder
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	for i := range 200 {
		writeFile(t, nil, r.dir, "d", fmt.Sprint(i))
	}
	assert.Equal(t, cli.ExitError, run(t.Context(), []string{"find", top}, full, &errs))
	assert.Equal(t, "mountrdma: write /dev/full: no space left on device\n", errs.String(), "once")
	for _, args := range []string{"-name [", "-type x", "-size k", "-size 1T", "-size +-1", "-mtime x", "-mtime 1k"} {
		status, _, stderr := runCommand(t, append([]string{"find", top}, strings.Fields(args)...)...)
		assert.Equal(t, cli.ExitUsage, status, args)
		assert.Contains(t, stderr, " is not a ", args)
	}
}
