package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

// A fullStateTest is a daemon whose state directory is a small file system. It serves
// the directory a with a handle table.
type fullStateTest struct {
	t    *testing.T
	base string // contains a, b and the exports file
	args []string
	proc *daemonProc
	log  chan string
}

func newFullStateTest(t *testing.T) *fullStateTest {
	t.Helper()
	vfstest.NeedRoot(t)
	r := &fullStateTest{t: t, base: t.TempDir()}
	state := filepath.Join(r.base, "state")
	for _, dir := range []string{"a", "b", "state"} {
		require.NoError(t, os.Mkdir(filepath.Join(r.base, dir), 0o755))
	}
	require.NoError(t, unix.Mount("nfsrdma-test", state, "tmpfs", 0, "size=256k,mode=0700"))
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(state, unix.MNT_DETACH)) })
	r.writeExports("a *(rw,insecure,no_root_squash,exclusive,subtree_check)")
	r.args = []string{
		"serve", "--state", state, "--control", "", "--listen", "127.0.0.1:0", "--tcp", "",
		"--exports", filepath.Join(r.base, "exports"),
	}
	return r
}

// writeExports writes the exports file, whose lines are relative to the base.
func (r *fullStateTest) writeExports(lines ...string) {
	r.t.Helper()
	text := ""
	for _, line := range lines {
		text += r.base + "/" + line + "\n"
	}
	require.NoError(r.t, os.WriteFile(filepath.Join(r.base, "exports"), []byte(text), 0o600))
}

// startDaemon starts the daemon. Its log is read until its end.
func (r *fullStateTest) startDaemon() {
	r.t.Helper()
	self, err := os.Executable()
	require.NoError(r.t, err)
	p := &daemonProc{t: r.t, cmd: exec.CommandContext(r.t.Context(), self, r.args...)}
	p.cmd.Env = append(os.Environ(), mainEnv+"=1", "GORACE=atexit_sleep_ms=0")
	out, err := p.cmd.StdoutPipe()
	require.NoError(r.t, err)
	errs, err := p.cmd.StderrPipe()
	require.NoError(r.t, err)
	p.log = bufio.NewReader(errs)
	require.NoError(r.t, p.cmd.Start())
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(errs); s.Scan(); {
			lines <- s.Text()
		}
	}()
	p.ready, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(r.t, err)
	r.proc, r.log = p, lines
}

// killDaemon ends the daemon as a crash would.
func (r *fullStateTest) killDaemon() {
	r.t.Helper()
	require.NoError(r.t, r.proc.cmd.Process.Kill())
	for range r.log { // until the end of the pipe
	}
	_ = r.proc.cmd.Wait()
}

// waitLog waits for a line of the log.
func (r *fullStateTest) waitLog(what string) {
	r.t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case line, ok := <-r.log:
			require.True(r.t, ok, "the log ends without: "+what)
			if strings.Contains(line, what) {
				return
			}
		case <-late:
			r.t.Fatal("the log does not say: ", what)
		}
	}
}

// fillState fills the state directory, until freeSpace is called.
func (r *fullStateTest) fillState() (freeSpace func()) {
	r.t.Helper()
	name := filepath.Join(r.base, "state", "ballast")
	f, err := os.Create(name)
	require.NoError(r.t, err)
	for err == nil {
		_, err = f.Write(make([]byte, os.Getpagesize()))
	}
	require.ErrorIs(r.t, err, unix.ENOSPC)
	require.NoError(r.t, f.Close())
	return func() { require.NoError(r.t, os.Remove(name)) }
}

// dialExport returns a client that takes delegations, and the handle of a directory's
// root.
func (r *fullStateTest) dialExport(dir string) (*rpcrdma.ClientConn, *nfsclient.Client, nfs3.FH, error) {
	r.t.Helper()
	cfg := rpcrdma.ExtensionConfig{
		ImmediateRecvs: 4, Atomics: true, Delegation: true,
		Attach: func(l *rpcrdma.ExtensionConn) rpcrdma.ExtensionHandler { return fakeReturningClient{l} },
	}
	conn, err := rpcrdma.DialConn(r.t.Context(), iwarp.Open(iwarp.Config{}), r.proc.transportAddr(r.t, "rdma"), rpcrdma.ClientConnConfig{Extensions: &cfg})
	require.NoError(r.t, err)
	r.t.Cleanup(func() { conn.Close() })
	root, err := nfsclient.NewMount(conn, nil).Mnt(r.t.Context(), filepath.Join(r.base, dir))
	return conn, nfsclient.New(conn, nfsclient.Config{}), root, err
}

// TestStateFull checks a daemon whose state directory is full for all its files
// at once: the handle table, the list of clients and the identities. Known
// objects are served, and operations that need a new block are refused without a
// change; the record of a delegation has space in the list. All operations work as
// soon as there is space, and after a crash.
func TestStateFull(t *testing.T) {
	const many = 200
	r := newFullStateTest(t)
	name := func(i int) string { return fmt.Sprint("file", i) }
	for i := range many {
		require.NoError(t, os.WriteFile(filepath.Join(r.base, "a", name(i)), []byte("content"), 0o644))
	}
	probe, err := posix.Open(filepath.Join(r.base, "b"), posix.Options{})
	require.NoError(t, err)
	identified := probe.RootID() != nil // otherwise there is no record of it
	require.NoError(t, probe.Close())

	r.startDaemon()
	conn, c, root, err := r.dialExport("a")
	require.NoError(t, err)
	ctx := t.Context()
	at := func(name string) nfs3.DirOpArgs { return nfs3.DirOpArgs{Dir: root, Name: []byte(name)} }
	known, err := c.Lookup(ctx, root, name(0))
	require.NoError(t, err)
	freeSpace := r.fillState()

	// Lookups succeed until the last page of the table is full.
	fresh := 0
	for err == nil {
		fresh++
		require.Less(t, fresh, many)
		_, err = c.Lookup(ctx, root, name(fresh))
	}
	require.ErrorIs(t, err, nfs3.ErrNoSpc)
	_, err = c.Create(ctx, &nfs3.CreateArgs{Where: at("made"), Mode: nfs3.Guarded})
	assert.ErrorIs(t, err, nfs3.ErrNoSpc)
	assert.NoFileExists(t, filepath.Join(r.base, "a", "made"))
	_, err = c.Rename(ctx, &nfs3.RenameArgs{From: at(name(0)), To: at("moved")})
	assert.ErrorIs(t, err, nfs3.ErrNoSpc)
	assert.FileExists(t, filepath.Join(r.base, "a", name(0)))

	a := delegation.AcquireArgs{Handle: root, Types: delegation.Directory}
	res, _ := callForStatus(t, conn, delegation.Program, delegation.Version, delegation.ProcAcquire, a.AppendTo(nil))
	assert.Zero(t, res)

	const plain = "b *(rw,insecure)"
	r.writeExports("a *(rw,insecure,no_root_squash,exclusive,subtree_check)", plain)
	hangUp := func() { require.NoError(t, r.proc.cmd.Process.Signal(unix.SIGHUP)) }
	if identified {
		hangUp()
		r.waitLog("free some space")
		_, _, _, err = r.dialExport("b")
		assert.Error(t, err)
	}
	left, err := filepath.Glob(filepath.Join(r.base, "state", "*.new"))
	require.NoError(t, err)
	assert.Empty(t, left)

	// Known objects are served.
	data, err := c.Read(ctx, known.Object, 0, make([]byte, 100))
	require.NoError(t, err)
	assert.Equal(t, "content", string(data.Data))
	_, err = c.Write(ctx, known.Object, 0, []byte("changed"), nfs3.FileSync)
	assert.NoError(t, err)
	_, err = c.Remove(ctx, root, name(1))
	assert.NoError(t, err)

	freeSpace()
	_, err = c.Lookup(ctx, root, name(fresh))
	assert.NoError(t, err)
	_, err = c.Create(ctx, &nfs3.CreateArgs{Where: at("made"), Mode: nfs3.Guarded})
	assert.NoError(t, err)
	_, err = c.Rename(ctx, &nfs3.RenameArgs{From: at(name(0)), To: at("moved")})
	assert.NoError(t, err)
	hangUp()
	require.Eventually(t, func() bool {
		_, _, _, err := r.dialExport("b")
		return err == nil
	}, time.Minute, 10*time.Millisecond)

	r.killDaemon()
	r.startDaemon()
	conn, c, root, err = r.dialExport("a")
	require.NoError(t, err)
	data, err = c.Read(ctx, known.Object, 0, make([]byte, 100))
	require.NoError(t, err, "the handle is valid, by its new name")
	assert.Equal(t, "changed", string(data.Data))
	touch := nfs3.SetAttrArgs{Object: root}
	res, _ = callForStatus(t, conn, nfs3.Program, nfs3.Version, nfs3.ProcSetAttr, touch.AppendTo(nil))
	assert.Equal(t, nfs3.ErrJukebox, nfs3.Status(res), "a client may hold the directory")
	r.killDaemon()
}
