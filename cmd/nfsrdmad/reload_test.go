package main

import (
	"bytes"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// A reloadTest has the exports of a daemon without transports.
type reloadTest struct {
	t          *testing.T
	dir        string // contains the directories a, b and c
	options    serveOptions
	shares     *shareSet
	replyCache oncrpc.Service
	log        bytes.Buffer
	logger     *slog.Logger
}

func newReloadTest(t *testing.T, text string) *reloadTest {
	t.Helper()
	world := countResources(t)
	g := &reloadTest{t: t, dir: t.TempDir()}
	g.logger = slog.New(slog.NewTextHandler(&g.log, nil))
	for _, name := range []string{"a", "b", "c"} {
		require.NoError(t, os.Mkdir(filepath.Join(g.dir, name), 0o755))
	}
	g.options.exportsFile = filepath.Join(g.dir, "exports")
	g.options.kerberos.keytab = filepath.Join(g.dir, "keytab")
	g.writeExports(text)
	st, err := openState(t.TempDir())
	require.NoError(t, err)
	g.shares = newShareSet(st, g.logger)
	taken, err := g.options.openExports(t.Context(), g.shares, g.logger)
	require.NoError(t, err)
	server, err := g.options.newServer(taken, st.dir, nil, g.logger)
	require.NoError(t, err)
	g.replyCache = g.options.daemon.replies
	t.Cleanup(func() {
		assert.NoError(t, g.shares.Close())
		assert.NoError(t, server.Close())
		require.NoError(t, st.Close())
		world.assertReleased(t)
	})
	return g
}

// writeExports writes the exports file. A ./ in text means the rig's directory.
func (g *reloadTest) writeExports(text string) {
	g.t.Helper()
	writeExports(g.t, g.dir, strings.ReplaceAll(text, "./", g.dir+"/"))
}

// reloadText applies a new file. It returns whether that succeeded, and the log.
func (g *reloadTest) reloadText(text string) (bool, string) {
	g.t.Helper()
	g.writeExports(text)
	g.log.Reset()
	done := g.options.reloadExports(g.t.Context(), g.shares, g.logger) == nil
	return done, g.log.String()
}

// mustCall makes one call from a host, and returns its results.
func (g *reloadTest) mustCall(from string, prog, proc uint32, args []byte) xdr.Reader {
	g.t.Helper()
	return parseAccepted(g.t, g.rawCall(from, prog, proc, args), 1, 0)
}

// rawCall makes one call from a host, and returns the reply.
func (g *reloadTest) rawCall(from string, prog, proc uint32, args []byte) []byte {
	g.t.Helper()
	peer := &oncrpc.Peer{Addr: netip.MustParseAddrPort(from), Network: "tcp"}
	req := oncrpc.Request{Msg: encodeCall(1, prog, 3, proc, args), Peer: peer, MaxReply: 1 << 16}
	var rep oncrpc.Reply
	require.True(g.t, g.replyCache.Serve(g.t.Context(), &req, &rep))
	return rep.Head
}

func (g *reloadTest) callMnt(from, name string) (fh nfs3.FH, status mount3.Status) {
	g.t.Helper()
	path := mount3.PathArgs{Path: []byte(filepath.Join(g.dir, name))}
	var res mount3.MntRes
	r := g.mustCall(from, mount3.Program, mount3.ProcMnt, path.AppendTo(nil))
	res.Decode(&r)
	return res.Handle, res.Status
}

func (g *reloadTest) callGetAttr(from string, fh nfs3.FH) nfs3.Status {
	g.t.Helper()
	args := nfs3.HandleArgs{Object: fh}
	var res nfs3.GetAttrRes
	r := g.mustCall(from, nfs3.Program, nfs3.ProcGetAttr, args.AppendTo(nil))
	res.Decode(&r)
	return res.Status
}

// waitOpen waits until n directories are open. Released directories are closed
// asynchronously.
func (g *reloadTest) waitOpen(n int, why string) {
	g.t.Helper()
	is := func() int {
		g.shares.mu.Lock()
		defer g.shares.mu.Unlock()
		return len(g.shares.open)
	}
	for end := time.Now().Add(10 * time.Second); is() != n && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	assert.Equal(g.t, n, is(), why)
}

const (
	hostA = "192.0.2.1:700"
	hostB = "192.0.2.2:700"
)

func TestReload(t *testing.T) {
	g := newReloadTest(t, "./a 192.0.2.1(rw)\n./b *(rw)")
	a, status := g.callMnt(hostA, "a")
	require.Equal(t, mount3.OK, status)
	b, _ := g.callMnt(hostA, "b")
	_, status = g.callMnt(hostB, "a")
	assert.Equal(t, mount3.ErrAcces, status)
	before := g.options.daemon.server.Exports()

	done, log := g.reloadText("./c *(rw)\n./a 192.0.2.2(rw)")
	assert.True(t, done, log)
	assert.Contains(t, log, "the exports were reloaded")
	assert.Equal(t, nfs3.ErrAcces, g.callGetAttr(hostA, a))
	assert.Equal(t, nfs3.OK, g.callGetAttr(hostB, a))
	assert.Equal(t, nfs3.ErrStale, g.callGetAttr(hostA, b), "it is exported no more")
	_, status = g.callMnt(hostA, "c")
	assert.Equal(t, mount3.OK, status)
	assert.Same(t, before[0].FS, g.options.daemon.server.Exports()[1].FS, "unchanged exports are not opened again")

	// The handle keeps its meaning after the export returns.
	done, log = g.reloadText("./a *(rw)\n./b *(rw)")
	assert.True(t, done, log)
	assert.Equal(t, nfs3.OK, g.callGetAttr(hostA, a))
	assert.Equal(t, nfs3.OK, g.callGetAttr(hostA, b))
	assert.NotSame(t, before[1].FS, g.options.daemon.server.Exports()[1].FS)

	done, log = g.reloadText("")
	assert.True(t, done, log)
	assert.Contains(t, log, "no export")
	g.waitOpen(0, "all were released")
	args := nfs3.HandleArgs{Object: a}
	assert.Equal(t, rpcmsg.AppendAuthError(nil, 1, rpcmsg.AuthBadCred), g.rawCall(hostA, nfs3.Program, nfs3.ProcGetAttr, args.AppendTo(nil)), "no export lists the host any more")
}

// TestReloadBad checks that a wrong file changes nothing, and that the log
// contains the reasons.
func TestReloadBad(t *testing.T) {
	g := newReloadTest(t, "./a *(rw)\n./b *(rw,fsid=1)")
	a, _ := g.callMnt(hostA, "a")
	before := g.options.daemon.server.Exports()
	for text, want := range map[string][]string{
		"./a *(ro)\n./c *(rx)\nx":     {"exports:2:", `unknown option \"rx\"`, "exports:3:1: "},
		"./c *(ro)\n./d *(rw)":        {"exports:2: ", "/d: no such directory: create it"},
		"./c *(rw)\n./a/../b *":       {"has . or .. in it"},
		"./a *(rw)\n./c *(sec=krb5)":  {"exports:2: ", "/c is exported to * with sec=krb5, but the keytab ", " cannot be read (no such file or directory): add the key with ktadd"},
		"./a *(rw)\n./c *(rw,fsid=1)": {"exports:2: ", "/b, which has the same fsid and is still exported"},
	} {
		done, log := g.reloadText(text)
		assert.False(t, done, text)
		for _, w := range want {
			assert.Contains(t, log, w, text)
		}
		assert.Contains(t, log, "the exports are unchanged")
		after := g.options.daemon.server.Exports()
		require.Len(t, after, len(before))
		for i := range after {
			assert.Same(t, before[i].FS, after[i].FS)
			assert.Equal(t, before[i].Clients, after[i].Clients)
		}
		assert.Equal(t, nfs3.OK, g.callGetAttr(hostA, a))
		g.waitOpen(2, "unused file systems are closed")
	}
	assert.ErrorContains(t, applyExports(g.options.daemon.server, g.shares, []exportSpec{{dir: g.dir + "/c", name: "c"}}), "not absolute")
	g.waitOpen(2, "file systems that a Server refuses are closed")
	require.NoError(t, os.Remove(g.options.exportsFile))
	assert.Error(t, g.options.reloadExports(t.Context(), g.shares, g.logger))
	assert.Equal(t, nfs3.OK, g.callGetAttr(hostA, a))
}

// TestReloadIdentity checks that fsid identifies an export in handles and
// attributes. Another fsid, or subtree_check, makes a different export.
func TestReloadIdentity(t *testing.T) {
	g := newReloadTest(t, "./a *(rw)")
	a, _ := g.callMnt(hostA, "a")
	for _, text := range []string{"./a *(fsid=77)", "./a *(fsid=78)", "./a *(fsid=78,subtree_check)", "./a *(subtree_check)", "./a *(fsid=77)"} {
		done, log := g.reloadText(text)
		require.True(t, done, log)
		fh, status := g.callMnt(hostA, "a")
		require.Equal(t, mount3.OK, status)
		assert.NotEqual(t, string(a), string(fh))
		assert.Equal(t, nfs3.ErrStale, g.callGetAttr(hostA, a), text)
		a = fh
	}
	args := nfs3.HandleArgs{Object: a}
	var res nfs3.GetAttrRes
	r := g.mustCall(hostA, nfs3.Program, nfs3.ProcGetAttr, args.AppendTo(nil))
	res.Decode(&r)
	assert.EqualValues(t, 77, res.Attr.FSID)
}

// TestServeExports checks that a daemon reads the file again at SIGHUP.
func TestServeExports(t *testing.T) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, unix.SIGHUP) // in any case this process survives the signal
	defer signal.Stop(caught)
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	file := writeExports(t, dir, dir+"/a *(rw,insecure)\n")
	s := startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--exports", file)
	assert.True(t, strings.HasSuffix(s.ready, " exports="+dir+"/a\n"), s.ready)
	c, err := net.Dial("tcp", s.transportAddr(t, "tcp"))
	require.NoError(t, err)
	defer c.Close()
	mnt := func(name string) mount3.Status {
		path := mount3.PathArgs{Path: []byte(dir + name)}
		r := parseAccepted(t, tcpCall(t, c, encodeCall(1, mount3.Program, 3, mount3.ProcMnt, path.AppendTo(nil))), 1, 0)
		return mount3.Status(r.Uint32())
	}
	assert.Equal(t, mount3.OK, mnt("/a"))
	assert.Equal(t, mount3.ErrNoEnt, mnt("/b"))
	writeExports(t, dir, dir+"/b *(rw,insecure)\n")
	require.NoError(t, unix.Kill(unix.Getpid(), unix.SIGHUP))
	for end := time.Now().Add(30 * time.Second); mnt("/b") != mount3.OK; time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(end), "the new file has no effect")
	}
	assert.Equal(t, mount3.ErrNoEnt, mnt("/a"))
}

// TestReloadUnderLoad checks calls while directories come and go. Calls in a
// directory that stays have no errors, and calls in others are answered or get
// NFS3ERR_STALE. Memory lent by a READ outlives its export, and everything is
// closed in the end.
func TestReloadUnderLoad(t *testing.T) {
	g := newReloadTest(t, "./a *(rw)\n./b *(rw)")
	data := bytes.Repeat([]byte("bytes "), 20_000)
	var fhs [2]nfs3.FH
	for i, name := range []string{"a", "b"} {
		require.NoError(t, os.WriteFile(filepath.Join(g.dir, name, "f"), data, 0o644))
		root, status := g.callMnt(hostA, name)
		require.Equal(t, mount3.OK, status)
		args := nfs3.DirOpArgs{Dir: root, Name: []byte("f")}
		var res nfs3.LookupRes
		r := g.mustCall(hostA, nfs3.Program, nfs3.ProcLookup, args.AppendTo(nil))
		res.Decode(&r)
		require.Equal(t, nfs3.OK, res.Status)
		fhs[i] = append(nfs3.FH{}, res.Object...)
	}
	var stop atomic.Bool
	var served, lent, stale atomic.Int64
	read := func(peer *oncrpc.Peer, stays bool, fh nfs3.FH) {
		args := nfs3.ReadArgs{File: fh, Count: uint32(len(data))}
		req := oncrpc.Request{Msg: encodeCall(1, nfs3.Program, 3, nfs3.ProcRead, args.AppendTo(nil)), Peer: peer, MaxReply: 1 << 18}
		rep := oncrpc.Reply{Mappable: true}
		if !assert.True(t, g.replyCache.Serve(t.Context(), &req, &rep)) {
			return
		}
		defer rep.DropItem()
		r := parseAccepted(t, rep.Head, 1, 0)
		status := nfs3.Status(r.Uint32())
		served.Add(1)
		switch {
		case status == nfs3.OK:
			runtime.Gosched() // lets exports be removed
			assert.True(t, bytes.Equal(data, rep.Item.B), "lent memory lasts until its return")
			if rep.Cut != nil {
				lent.Add(1)
			}
		case stays:
			assert.Equal(t, nfs3.OK, status, "the remaining export is undisturbed")
		default:
			assert.Equal(t, nfs3.ErrStale, status)
			stale.Add(1)
		}
	}
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() {
			peer := &oncrpc.Peer{Addr: netip.MustParseAddrPort(hostA), Network: "tcp"}
			for !stop.Load() {
				read(peer, i%2 == 0, fhs[i%2])
			}
		})
	}
	for i := 0; i < 40 || served.Load() < 200; i++ {
		with := []string{"./a *(rw)\n", "./a *(ro)\n./b *(rw)\n", "./c *(rw)\n./a *(rw)\n"}[i%3]
		g.writeExports(with)
		if !assert.NoError(t, g.options.reloadExports(t.Context(), g.shares, slog.New(slog.DiscardHandler))) {
			break
		}
	}
	stop.Store(true)
	clients.Wait()
	t.Logf("%d READs, %d of them lent, %d stale", served.Load(), lent.Load(), stale.Load())
	done, log := g.reloadText("./a *(rw)")
	assert.True(t, done, log)
	g.waitOpen(1, "all others were released")
}
