package main

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// TestFormatColumn checks sizes against those of ls -h.
func TestFormatColumn(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0", 1023: "1023", 1024: "1.0K", 1025: "1.1K", 10239: "10K", 10240: "10K", 10241: "11K", 1<<20 - 1: "1.0M",
		1 << 20: "1.0M", 1<<20 + 1: "1.1M", 5 << 30: "5.0G", 1 << 60: "1.0E", 1<<64 - 1: "16E",
	} {
		assert.Equal(t, want, formatColumn(n), n)
	}
	for n, want := range map[int64]string{0: "0 bytes", 1023: "1023 bytes", 1536: "1.5 KiB", 1<<20 - 1: "1.0 MiB", 600 << 20: "600.0 MiB"} {
		assert.Equal(t, want, formatSize(n), n)
	}
}

func TestLsHuman(t *testing.T) {
	r := newTestServer(t)
	writeFile(t, make([]byte, 1536), r.dir, "f")
	assert.Regexp(t, `^-rw-r--r-- 1 \d+ \d+ 1\.5K .* f\n$`, mustRun(t, "ls", "-lh", r.url))
	assert.Contains(t, mustRun(t, "ls", "--help"), "List directories")
}

// TestLsJSON checks the objects of ls --json and stat --json, also for names that JSON
// cannot represent.
func TestLsJSON(t *testing.T) {
	r := newTestServer(t)
	writeFile(t, []byte("12345"), r.dir, "d", "f\xff")
	require.NoError(t, os.Symlink("f", filepath.Join(r.dir, "d", "l")))
	lines := bufio.NewScanner(strings.NewReader(mustRun(t, "ls", "-R", "--json", r.url)))
	var all []map[string]any
	for lines.Scan() {
		all = append(all, decodeObject(t, lines.Text()))
	}
	require.Len(t, all, 3)
	assert.Equal(t, []any{r.url + "/d", "d", "directory", "0755"}, []any{all[0]["url"], all[0]["name"], all[0]["type"], all[0]["mode"]})
	assert.Equal(t, []any{r.url + "/d/f%FF", "file", 5.0}, []any{all[1]["url"], all[1]["type"], all[1]["size"]})
	assert.Equal(t, []any{"symlink", "f"}, []any{all[2]["type"], all[2]["target"]})

	f := decodeObject(t, mustRun(t, "stat", "--json", r.url+"/d/f%FF"))
	assert.Equal(t, all[1], f)
	assert.Equal(t, all[1], decodeObject(t, mustRun(t, "ls", "--json", r.url+"/d/f%FF")))
	for _, key := range []string{"nlink", "uid", "gid", "used", "fsid", "fileid", "atime", "mtime", "ctime"} {
		assert.Contains(t, f, key)
	}
}

// TestLsExports checks that the exports look like directories, up to the server.
func TestLsExports(t *testing.T) {
	r := newTestServer(t, func(_ *rpcrdma.Server, _ *iwarp.Config, c *nfsserver.Config) {
		for _, path := range []string{"/srv/a", "/srv/deep/b"} {
			c.Exports = append(c.Exports, nfsserver.Export{Path: path, FS: mem.New(mem.Options{}), Clients: exports.Everyone(exports.Options{Insecure: true})})
		}
	})
	writeFile(t, nil, r.dir, "f")
	server := scheme + r.addr
	assert.Equal(t, "srv\nx\n", mustRun(t, "ls", server))
	assert.Equal(t, "a\ndeep\n", mustRun(t, "ls", server+"/srv/"))
	assert.Equal(t, "b\n", mustRun(t, "ls", server+"/srv/deep"))
	assert.Regexp(t, `(?m)^drwxr.xr.x .* x$`, mustRun(t, "ls", "-l", server))
	assert.Equal(t, server+"/:\nsrv\nx\n\n"+server+"/srv:\na\ndeep\n\n"+server+"/srv/a:\n\n"+server+"/srv/deep:\nb\n\n"+
		server+"/srv/deep/b:\n\n"+server+"/x:\nf\n", mustRun(t, "ls", "-R", server))
	assert.Contains(t, mustRun(t, "ls", "--json", server), `{"url":"`+server+`/x","name":"x","type":"directory",`)
	assert.Contains(t, mustFail(t, "ls", server+"/srv/c"), "no export holds /srv/c")
	assert.Contains(t, mustFail(t, "ls", server+"/xx"), "no export holds /xx")
}

// TestServerColonPath checks that SERVER:/PATH may replace each URL.
func TestServerColonPath(t *testing.T) {
	r := newTestServer(t)
	spec := r.addr + ":/x"
	here := t.TempDir()
	t.Chdir(here)
	writeFile(t, []byte("data"), here, "f")
	mustRun(t, "cp", "f", spec)
	mustRun(t, "mkdir", spec+"/d")
	assert.Equal(t, "d\nf\n", mustRun(t, "ls", spec+"/"))
	assert.Equal(t, "data", mustRun(t, "cat", spec+"/f"))
	mustRun(t, "cp", spec+"/f", spec+"/d/%41")
	assert.FileExists(t, filepath.Join(r.dir, "d", "%41"), "without escapes")
	writeFile(t, []byte("local"), here, "h:/x")
	mustRun(t, "cp", "./h:/x", r.url)
	assert.FileExists(t, filepath.Join(r.dir, "x"))
	mustRun(t, "rm", "-r", spec+"/d")
}
