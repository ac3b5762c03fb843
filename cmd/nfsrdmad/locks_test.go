package main

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfsclient/nfs4client"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// A lockedDaemon is a daemon with an NFSv4.2 client, which has a file open and locked, and an NFSv3
// client that waits for the lock.
type lockedDaemon struct {
	*testDaemon
	dir, control string
	session      *nfs4client.Session
	root         nfs4.FH
	file         *nfs4client.File
}

func (d *lockedDaemon) run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return runCommand(t, append(args, "--control", d.control)...)
}

// list returns the output of a command with --json.
func (d *lockedDaemon) list(t *testing.T, args ...string) (l report.HeldList) {
	t.Helper()
	code, stdout, stderr := d.run(t, append(args, "--json")...)
	require.Equal(t, cli.ExitOK, code, stderr)
	require.NoError(t, json.Unmarshal([]byte(stdout), &l))
	return l
}

// getPage returns the live page as text.
func (d *lockedDaemon) getPage(t *testing.T) string {
	resp, err := http.Get("http://" + d.transportAddr(t, "metrics") + "/")
	require.NoError(t, err)
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return html.UnescapeString(string(text))
}

func startLockedDaemon(t *testing.T, name string, args ...string) *lockedDaemon {
	d := &lockedDaemon{dir: t.TempDir(), control: filepath.Join(t.TempDir(), "control")}
	require.NoError(t, os.WriteFile(filepath.Join(d.dir, name), []byte("data"), 0o666))
	require.NoError(t, os.Chmod(d.dir, 0o777))
	require.NoError(t, os.Chmod(filepath.Join(d.dir, name), 0o666))
	args = append([]string{"--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--control", d.control, d.dir + "=/x"}, args...)
	d.testDaemon = startDaemon(t, args...)
	var err error
	d.session, err = nfsrdma.DialV4(t.Context(), d.transportAddr(t, "tcp"), nfs4.Minor2, nfsrdma.ClientConfig{TCP: true})
	require.NoError(t, err)
	t.Cleanup(func() { d.session.Close(context.Background()) })
	d.root, err = d.session.Walk(t.Context(), "/x")
	require.NoError(t, err)
	d.file, err = d.session.Open(t.Context(), d.root, name, nfs4client.OpenFlags{Read: true, Write: true})
	require.NoError(t, err)
	require.NoError(t, d.file.Lock(t.Context(), locks.Range{Start: 10, End: 19}, true))
	return d
}

// waitForLock lets an NFSv3 client wait for bytes 0 to 14.
func (d *lockedDaemon) waitForLock(t *testing.T) {
	c, err := net.Dial("tcp", d.transportAddr(t, "tcp"))
	require.NoError(t, err)
	defer c.Close()
	a := nlm4.LockArgs{Block: true, Lock: nlm4.Lock{Caller: []byte("v3host"), Handle: d.file.Handle(), Owner: []byte("42@v3host"), SVID: 42, Length: 15}}
	r := parseAccepted(t, tcpCall(t, c, encodeNLMCall(nlm4.ProcLock, a.AppendTo)), 1, 0)
	var res nlm4.Res
	res.Decode(&r, nlm4.Version)
	require.Equal(t, nlm4.Blocked, res.Status)
}

// TestLocks checks what is listed of a file that an NFSv4 client has locked and that an NFSv3 client
// waits for: by file, by client, of all files, as text and JSON, and on the live page.
func TestLocks(t *testing.T) {
	d := startLockedDaemon(t, "f")
	d.waitForLock(t)
	path, err := filepath.EvalSymlinks(filepath.Join(d.dir, "f"))
	require.NoError(t, err)

	l := d.list(t, "locks", path)
	require.Len(t, l.Files, 1)
	f := l.Files[0]
	assert.Equal(t, []any{path, "/x", false}, []any{f.Path, f.Export, f.Removed})
	require.Len(t, f.Opens, 1)
	require.Len(t, f.Locks, 1)
	require.Len(t, f.Waiters, 1)
	id := f.Opens[0].Client
	assert.Equal(t, []any{"read+write", "none", "4.2"}, []any{f.Opens[0].Access, f.Opens[0].Deny, f.Opens[0].NFS})
	assert.True(t, strings.HasPrefix(f.Opens[0].Address, "127.0.0.1:"))
	assert.Equal(t, []any{id, "write", uint64(10), uint64(19)}, []any{f.Locks[0].Client, f.Locks[0].Type, f.Locks[0].Start, *f.Locks[0].End})
	w := f.Waiters[0]
	assert.Equal(t, []any{"v3host", "3", "127.0.0.1", "read", uint64(0), uint64(14)}, []any{w.Owner, w.NFS, w.Address, w.Type, w.Start, *w.End})
	assert.GreaterOrEqual(t, w.Seconds, 0.0)
	assert.Equal(t, "42@v3host svid 42", w.LockOwner)

	own := d.list(t, "clients", id)
	require.NotNil(t, own.Client)
	assert.Equal(t, id, own.Client.ID)
	require.Len(t, own.Files, 1)
	assert.Equal(t, f.Locks, own.Files[0].Locks)
	assert.Len(t, d.list(t, "clients", w.Client).Files[0].Waiters, 1)

	for _, args := range [][]string{{"locks"}, {"locks", path}, {"clients", id}} {
		code, stdout, stderr := d.run(t, args...)
		require.Equal(t, cli.ExitOK, code, stderr)
		assert.True(t, strings.HasPrefix(stdout, path+"\n  open "), stdout)
		assert.Regexp(t, `\n  open +read\+write +`+id+` +127\.0\.0\.1:\d+ +`, stdout)
		assert.Regexp(t, `\n  lock +write, bytes 10 to 19 +`+id+` `, stdout)
		assert.Regexp(t, `\n  waits \d+ s +read, bytes 0 to 14 +`+w.Client+` +127\.0\.0\.1 +v3host, lock-owner `, stdout)
	}

	var others []*nfs4client.File // more than the page has
	for i := range 100 {
		f, err := d.session.Open(t.Context(), d.root, fmt.Sprint("other", i), nfs4client.OpenFlags{Read: true, Create: true, Mode: 0o600})
		require.NoError(t, err)
		others = append(others, f)
	}
	page := d.getPage(t)
	assert.Contains(t, page, path)
	assert.Contains(t, page, "open read+write; lock write, bytes 10 to 19")
	assert.Contains(t, page, "read, bytes 0 to 14")

	assert.Contains(t, page, "and 51 more files")
	for _, f := range others {
		require.NoError(t, f.Close(t.Context()))
	}

	require.NoError(t, os.Remove(path))
	f = d.list(t, "locks").Files[0]
	assert.Equal(t, []any{path, true}, []any{f.Path, f.Removed})
	code, stdout, _ := d.run(t, "locks")
	assert.Equal(t, cli.ExitOK, code)
	assert.True(t, strings.HasPrefix(stdout, path+" (removed)\n"), stdout)
}

// TestLocksOnOpenPage checks that the live page names no files at an address that others may reach.
func TestLocksOnOpenPage(t *testing.T) {
	d := startLockedDaemon(t, "secret", "--metrics", "0.0.0.0:0")
	d.waitForLock(t)
	page := d.getPage(t)
	assert.NotContains(t, page, "secret")
	assert.Contains(t, page, "1, 1 with waiters: nfsrdmad locks lists them")
}

// TestLocksHostileName checks that a client cannot write to the administrator's terminal by a file's
// name.
func TestLocksHostileName(t *testing.T) {
	d := startLockedDaemon(t, "a\x1b[2J\n\xff b")
	_, stdout, _ := d.run(t, "locks")
	assert.NotContains(t, stdout, "\x1b")
	assert.Contains(t, stdout, `/a\x1b[2J\n\xff b"`)
}

// TestLocksNobody checks what the commands say when there is nothing to list.
func TestLocksNobody(t *testing.T) {
	dir, other, control := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "control")
	for _, d := range []string{dir, other} {
		require.NoError(t, os.WriteFile(filepath.Join(d, "f"), nil, 0o600))
	}
	check := func(want int, text string, args ...string) {
		t.Helper()
		code, stdout, stderr := runCommand(t, append(args, "--control", control)...)
		assert.Equal(t, want, code)
		assert.Contains(t, stdout+stderr, text)
	}
	check(cli.ExitError, "no nfsrdmad responds at "+control, "locks")
	startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--control", control, dir+"=/x")
	check(cli.ExitOK, "no client holds a file\n", "locks")
	check(cli.ExitOK, "no client holds "+filepath.Join(dir, "f")+"\n", "locks", filepath.Join(dir, "f"))
	check(cli.ExitError, fmt.Sprintf("%q is in no export, and no client holds it: nfsrdmad exports list", filepath.Join(other, "f")), "locks", filepath.Join(other, "f"))
	check(cli.ExitError, "no such file on this host", "locks", filepath.Join(dir, "none"))
	check(cli.ExitError, "there is no client 0000000000000077: nfsrdmad clients lists them", "clients", "77")
	check(cli.ExitError, "--after has an invalid value", "locks", "--after", "xyz")
	check(cli.ExitUsage, "use the first column of nfsrdmad clients", "clients", "xyz")
	check(cli.ExitUsage, "name the client", "clients", "--after", "00")
	check(cli.ExitUsage, "cannot be combined", "locks", "f", "--after", "00")
	check(cli.ExitUsage, "cannot be combined", "clients", "77", "--end-grace")
}

// TestCompletion checks that the running daemon's clients and exports complete the command line.
func TestCompletion(t *testing.T) {
	d := startLockedDaemon(t, "f")
	id := d.list(t, "locks").Files[0].Opens[0].Client
	for _, words := range [][]string{{"clients", "--control", d.control, ""}, {"clients", "--control", d.control, "--expire", ""}} {
		_, stdout, _ := runCommand(t, append([]string{"__complete"}, words...)...)
		assert.Contains(t, stdout, id+"\t", words)
	}
	_, stdout, _ := runCommand(t, "__complete", "exports", "remove", "--control", d.control, "")
	assert.True(t, strings.HasPrefix(stdout, "/x\n"), stdout)
	_, stdout, _ = runCommand(t, "__complete", "clients", "--control", d.control+"none", "")
	assert.True(t, strings.HasPrefix(stdout, ":4\n"), "no daemon: %s", stdout)
}
