package nfs4server

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// onConnection returns the server's client on another connection.
func (g *testServer) onConnection(addr, network string) *testServer {
	other := *g
	other.peer = &oncrpc.Peer{Addr: netip.MustParseAddrPort(addr), Network: network}
	return &other
}

// TestTrunking checks a client's rights over several connections: they show it one server
// (R8881-2.5-1, R8881-2.10.5-2), each may use any of its sessions (R8881-2.10.3.1-2,
// R8881-2.10.3.1-4, R8881-2.10.5-1) and create more (R8881-2.10.5-3), and state follows the
// client (R8881-2.10.2.2-2, R8881-8.2-2).
func TestTrunking(t *testing.T) {
	g := newTestServer(t).becomeRoot().connectClient()
	g.makeFile("f", "content")
	res, fh, st := g.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	here, st := g.exchangeID("client", 0, 0)
	require.Equal(t, nfs4.OK, st)
	there := g.onConnection("[2001:db8::1]:900", "tcp")
	same, st := there.exchangeID("client", 0, 0)
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, here, same)

	_, st = there.readFile(fh, res.StateID)
	assert.Equal(t, nfs4.OK, st, "the session over another connection")
	rdma := there.onConnection("192.0.2.9:700", "rdma")
	_, st = rdma.readFile(fh, res.StateID)
	assert.Equal(t, nfs4.OK, st, "the session over another transport")

	var cs nfs4.CreateSessionRes
	st, _ = there.sendRaw(step{nfs4.OpCreateSession, &nfs4.CreateSessionArgs{ClientID: here.ClientID, Sequence: here.SequenceID, Fore: channel, Back: channel}, &cs})
	require.Equal(t, nfs4.OK, st)
	assert.NotEqual(t, g.session, cs.Session)
	there.session, there.seq = cs.Session, 0
	assert.Equal(t, nfs4.OK, there.closeFile(fh, res.StateID), "a stateid of the other session")

	stranger := newTestServer(t)
	stranger.s.id[0]++
	other, st := stranger.exchangeID("client", 0, 0)
	assert.Equal(t, nfs4.OK, st)
	assert.NotEqual(t, here.Scope, other.Scope, "R8881-2.10.4-1: another daemon")
	assert.NotEqual(t, here.MajorID, other.MajorID)
}

// TestSessionsOfClients checks that a connection serves several clients, and a
// session one only (R8881-2.10.1-1, R8881-2.10.3.1-3).
func TestSessionsOfClients(t *testing.T) {
	g := newTestServer(t).becomeRoot().connectClient()
	other := *g
	other.connectAs("other")
	for _, r := range []*testServer{g, &other, g} {
		st, _ := r.sendSteps(putRootStep())
		assert.Equal(t, nfs4.OK, st)
	}
	id, _ := other.exchangeID("other", 0, 0)
	assert.NotEqual(t, id.ClientID, g.s.state.Session(g.session).ClientID())
	assert.Equal(t, id.ClientID, g.s.state.Session(other.session).ClientID())
}

// A fakeSlowFS is a file system whose writes wait, and are counted.
type fakeSlowFS struct {
	*mem.FS
	began chan struct{} // receives at the beginning of each Write
	pass  chan struct{} // Write waits until it is closed
	done  atomic.Int32
}

func (f *fakeSlowFS) Write(ctx context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64, how vfs.Stable) (int, vfs.Stable, vfs.WCC, error) {
	f.began <- struct{}{}
	<-f.pass
	f.done.Add(1)
	return f.FS.Write(ctx, c, h, p, off, how)
}

// A testConn is a connection to a testServer, on which a test writes calls and reads replies.
type testConn struct {
	t testing.TB
	net.Conn
}

func (c testConn) sendCompound(g *testServer, xid uint32, steps ...step) {
	c.t.Helper()
	b := oncrpc.AppendCall(make([]byte, 4), xid, &oncrpc.Exchange{Prog: nfs4.Program, Vers: nfs4.Version, Proc: nfs4.ProcCompound, Cred: g.cred}, "host")
	b = append(b, g.encodeCompound(steps...)...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4)|1<<31)
	_, err := c.Write(b)
	require.NoError(c.t, err)
}

// readReply reads the next reply, and returns its XID and results.
func (c testConn) readReply() (uint32, []byte) {
	c.t.Helper()
	b := c.readMessage()
	return binary.BigEndian.Uint32(b), b[replyHeaderLen:]
}

// readMessage reads the next message.
func (c testConn) readMessage() []byte {
	c.t.Helper()
	var mark [4]byte
	_, err := io.ReadFull(c, mark[:])
	require.NoError(c.t, err)
	b := make([]byte, binary.BigEndian.Uint32(mark[:])&^(1<<31))
	_, err = io.ReadFull(c, b)
	require.NoError(c.t, err)
	return b
}

// serveOverTCP serves a testServer with a slow file system over TCP. dial connects to it.
func serveOverTCP(t *testing.T) (g *testServer, slow *fakeSlowFS, dial func() testConn) {
	slow = &fakeSlowFS{FS: mem.New(mem.Options{Size: 1 << 20}), began: make(chan struct{}, 9), pass: make(chan struct{})}
	g = newTestServer(t, exportset.Export{Path: "/x", FS: slow, Clients: exports.Everyone(exports.Options{Insecure: true, NoRootSquash: true})}).connectClient().becomeRoot()
	var mux oncrpc.Mux
	g.s.Register(&mux)
	server := &oncrpc.Server{Handler: &mux}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		assert.NoError(t, server.Shutdown(context.Background()))
		assert.NoError(t, <-served)
	})
	return g, slow, func() testConn {
		c, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)), "a call without a reply fails the test")
		t.Cleanup(func() { c.Close() })
		return testConn{t, c}
	}
}

// TestRetryOverConnections checks a call and its retry over another connection
// while the call runs: it is executed once (R8881-2.10.6-1), each gets a reply (R8881-2.9.2-3)
// over its own connection (R8881-2.9.2-4), and a connection whose call is not
// retried gets nothing (R8881-2.9.2-5).
func TestRetryOverConnections(t *testing.T) {
	g, slow, dial := serveOverTCP(t)
	_, fh, st := g.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.Unchecked))
	require.Equal(t, nfs4.OK, st)
	write := func(seq uint32) []step {
		return []step{g.sequenceStep(seq, true), putStep(fh), {nfs4.OpWrite, &nfs4.WriteArgs{Data: []byte("data")}, nil}}
	}
	first, second, lost, idle := dial(), dial(), dial(), dial()
	first.sendCompound(g, 1, write(g.seq+1)...)
	<-slow.began
	second.sendCompound(g, 2, write(g.seq+1)...)
	second.sendCompound(g, 3, write(g.seq+1)...)
	delayed, results := second.readReply()
	st, _ = statusOfReply(t, results)
	assert.Equal(t, nfs4.ErrDelay, st, "a newer retry has come")

	slotOfLost := write(1)
	slotOfLost[0].args.(*nfs4.SequenceArgs).Slot = 1
	slotOfLost[0].args.(*nfs4.SequenceArgs).HighestSlotID = 1
	lost.sendCompound(g, 4, slotOfLost...)
	<-slow.began
	lost.Close()
	close(slow.pass)

	xid, results := first.readReply()
	assert.EqualValues(t, 1, xid)
	st, _ = statusOfReply(t, results)
	assert.Equal(t, nfs4.OK, st)
	xid, again := second.readReply()
	assert.EqualValues(t, 2+3-delayed, xid)
	assert.Equal(t, results, again)
	for xid := uint32(5); xid < 7; xid++ {
		idle.sendCompound(g, xid, slotOfLost...)
		got, results := idle.readReply()
		assert.Equal(t, xid, got, "nothing came that was not asked for")
		st, _ = statusOfReply(t, results)
		assert.Equal(t, nfs4.OK, st)
	}
	assert.EqualValues(t, 2, slow.done.Load())
}

// TestDenyDuringWrite checks that an OPEN does not deny the access for a WRITE with a special
// stateid that still runs (R8881-9.1.2-7).
func TestDenyDuringWrite(t *testing.T) {
	g, slow, dial := serveOverTCP(t)
	res, fh, st := g.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.Unchecked))
	require.Equal(t, nfs4.OK, st)
	require.Equal(t, nfs4.OK, g.closeFile(fh, res.StateID))
	c := dial()
	write := []step{g.sequenceStep(1, true), putStep(fh), {nfs4.OpWrite, &nfs4.WriteArgs{Data: []byte("data")}, nil}}
	write[0].args.(*nfs4.SequenceArgs).Slot, write[0].args.(*nfs4.SequenceArgs).HighestSlotID = 1, 1
	c.sendCompound(g, 1, write...)
	<-slow.began
	_, _, st = g.openName(openArgs("o", "f", nfs4.ShareRead, nfs4.ShareWrite, nfs4.NoCreate))
	assert.Equal(t, nfs4.ErrDelay, st)
	_, _, st = g.openName(openArgs("p", "f", nfs4.ShareRead, nfs4.ShareRead, nfs4.NoCreate))
	assert.Equal(t, nfs4.OK, st)
	close(slow.pass)
	_, results := c.readReply()
	st, _ = statusOfReply(t, results)
	assert.Equal(t, nfs4.OK, st)
	_, _, st = g.openName(openArgs("o", "f", nfs4.ShareWrite, nfs4.ShareWrite, nfs4.NoCreate))
	assert.Equal(t, nfs4.OK, st)
}

// TestReadAfterReadDir checks that READDIR's results are correct when a READ or READLINK
// follows: the transport has lent memory for both.
func TestReadAfterReadDir(t *testing.T) {
	g, slow, dial := serveOverTCP(t)
	close(slow.pass)
	const long = 8000
	fh := g.makeFile("f", strings.Repeat("x", long))
	all := nfs4.Known.Without(writeOnlyAttrs)
	list := step{nfs4.OpReadDir, &nfs4.ReadDirArgs{DirCount: long, MaxCount: long, Request: all}, nil}
	c := dial()
	for name, steps := range map[string][]step{
		"READ":             {putRootStep(), lookupStep("x"), list, putStep(fh), readStep(0, long)},
		"a short READ":     {putRootStep(), lookupStep("x"), list, putStep(fh), readStep(0, 10)},
		"READDIR and READ": {putRootStep(), lookupStep("x"), list, list, putStep(fh), readStep(0, long)},
		"READ first":       {putStep(fh), readStep(0, long), putRootStep(), lookupStep("x"), list},
	} {
		g.seq++
		want := g.sendCompound(append([]step{g.sequenceStep(g.seq, false)}, steps...)...)
		st, _ := statusOfReply(t, want)
		require.Equal(t, nfs4.OK, st)
		g.seq++
		c.sendCompound(g, 1, append([]step{g.sequenceStep(g.seq, false)}, steps...)...)
		_, got := c.readReply()
		const front = 4 * 15 // the results of SEQUENCE differ
		assert.True(t, bytes.Equal(want[front:], got[front:]), name)
	}
}
