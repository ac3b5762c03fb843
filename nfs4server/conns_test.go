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

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// on returns the rig's client on another connection.
func (g *rig) on(addr, network string) *rig {
	other := *g
	other.peer = &oncrpc.Peer{Addr: netip.MustParseAddrPort(addr), Network: network}
	return &other
}

// TestTrunking checks a client's rights over several connections: they tell
// it of one server (R8881-2.5-1, R8881-2.10.5-2), each may use any of its
// sessions (R8881-2.10.3.1-2, R8881-2.10.3.1-4, R8881-2.10.5-1) and make more
// (R8881-2.10.5-3), and state goes with the client (R8881-2.10.2.2-2,
// R8881-8.2-2).
func TestTrunking(t *testing.T) {
	g := newRig(t).asRoot().connect()
	g.make("f", "content")
	res, fh, st := g.open(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	here, st := g.exchange("client", 0, 0)
	require.Equal(t, nfs4.OK, st)
	there := g.on("[2001:db8::1]:900", "tcp")
	same, st := there.exchange("client", 0, 0)
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, here, same)

	_, st = there.read(fh, res.StateID)
	assert.Equal(t, nfs4.OK, st, "the session over another connection")
	rdma := there.on("192.0.2.9:700", "rdma")
	_, st = rdma.read(fh, res.StateID)
	assert.Equal(t, nfs4.OK, st, "the session over another transport")

	var cs nfs4.CreateSessionRes
	st, _ = there.raw(step{nfs4.OpCreateSession, &nfs4.CreateSessionArgs{ClientID: here.ClientID, Sequence: here.SequenceID, Fore: channel, Back: channel}, &cs})
	require.Equal(t, nfs4.OK, st)
	assert.NotEqual(t, g.session, cs.Session)
	there.session, there.seq = cs.Session, 0
	assert.Equal(t, nfs4.OK, there.close(fh, res.StateID), "a stateid of the other session")

	stranger := newRig(t)
	stranger.s.id[0]++
	other, st := stranger.exchange("client", 0, 0)
	assert.Equal(t, nfs4.OK, st)
	assert.NotEqual(t, here.Scope, other.Scope, "R8881-2.10.4-1: another daemon")
	assert.NotEqual(t, here.MajorID, other.MajorID)
}

// TestSessionsOfClients checks that a connection serves several clients, and a
// session one only (R8881-2.10.1-1, R8881-2.10.3.1-3).
func TestSessionsOfClients(t *testing.T) {
	g := newRig(t).asRoot().connect()
	other := *g
	other.connectAs("other")
	for _, r := range []*rig{g, &other, g} {
		st, _ := r.do(root())
		assert.Equal(t, nfs4.OK, st)
	}
	id, _ := other.exchange("other", 0, 0)
	assert.NotEqual(t, id.ClientID, g.s.state.Session(g.session).ClientID())
	assert.Equal(t, id.ClientID, g.s.state.Session(other.session).ClientID())
}

// A slowFS is a file system whose writes wait, and are counted.
type slowFS struct {
	*mem.FS
	began chan struct{} // receives at the beginning of each Write
	pass  chan struct{} // Write waits until it is closed
	done  atomic.Int32
}

func (f *slowFS) Write(ctx context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64, how vfs.Stable) (int, vfs.Stable, vfs.WCC, error) {
	f.began <- struct{}{}
	<-f.pass
	f.done.Add(1)
	return f.FS.Write(ctx, c, h, p, off, how)
}

// A tcpConn is a connection to a rig's server, on which a test writes calls and
// reads replies.
type tcpConn struct {
	t testing.TB
	net.Conn
}

func (c tcpConn) call(g *rig, xid uint32, steps ...step) {
	c.t.Helper()
	b := oncrpc.AppendCall(make([]byte, 4), xid, &oncrpc.Exchange{Prog: nfs4.Program, Vers: nfs4.Version, Proc: nfs4.ProcCompound, Cred: g.cred}, "host")
	b = append(b, g.message(steps...)...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4)|1<<31)
	_, err := c.Write(b)
	require.NoError(c.t, err)
}

// reply reads the next reply, and returns its XID and results.
func (c tcpConn) reply() (uint32, []byte) {
	c.t.Helper()
	var mark [4]byte
	_, err := io.ReadFull(c, mark[:])
	require.NoError(c.t, err)
	b := make([]byte, binary.BigEndian.Uint32(mark[:])&^(1<<31))
	_, err = io.ReadFull(c, b)
	require.NoError(c.t, err)
	return binary.BigEndian.Uint32(b), b[replyHeader:]
}

// overTCP serves a rig with a slow file system over TCP. dial connects to it.
func overTCP(t *testing.T) (g *rig, slow *slowFS, dial func() tcpConn) {
	slow = &slowFS{FS: mem.New(mem.Options{Size: 1 << 20}), began: make(chan struct{}, 9), pass: make(chan struct{})}
	g = newRig(t, realm.Export{Path: "/x", FS: slow, Clients: exports.Everyone(exports.Options{Insecure: true, NoRootSquash: true})}).connect().asRoot()
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
	return g, slow, func() tcpConn {
		c, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)), "a call without a reply fails the test")
		t.Cleanup(func() { c.Close() })
		return tcpConn{t, c}
	}
}

// TestRetryOverConnections checks a call and its retry over another connection
// while the call runs: it is executed once (R8881-2.10.6-1), each is answered (R8881-2.9.2-3)
// over its own connection (R8881-2.9.2-4), and a connection whose call is not
// retried gets nothing (R8881-2.9.2-5).
func TestRetryOverConnections(t *testing.T) {
	g, slow, dial := overTCP(t)
	_, fh, st := g.open(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.Unchecked))
	require.Equal(t, nfs4.OK, st)
	write := func(seq uint32) []step {
		return []step{g.sequence(seq, true), put(fh), {nfs4.OpWrite, &nfs4.WriteArgs{Data: []byte("data")}, nil}}
	}
	first, second, lost, idle := dial(), dial(), dial(), dial()
	first.call(g, 1, write(g.seq+1)...)
	<-slow.began
	second.call(g, 2, write(g.seq+1)...)
	second.call(g, 3, write(g.seq+1)...)
	delayed, results := second.reply()
	st, _ = statusOfReply(t, results)
	assert.Equal(t, nfs4.ErrDelay, st, "a newer retry has come")

	slotOfLost := write(1)
	slotOfLost[0].args.(*nfs4.SequenceArgs).Slot = 1
	slotOfLost[0].args.(*nfs4.SequenceArgs).HighestSlotID = 1
	lost.call(g, 4, slotOfLost...)
	<-slow.began
	lost.Close()
	close(slow.pass)

	xid, results := first.reply()
	assert.EqualValues(t, 1, xid)
	st, _ = statusOfReply(t, results)
	assert.Equal(t, nfs4.OK, st)
	xid, again := second.reply()
	assert.EqualValues(t, 2+3-delayed, xid)
	assert.Equal(t, results, again)
	for xid := uint32(5); xid < 7; xid++ {
		idle.call(g, xid, slotOfLost...)
		got, results := idle.reply()
		assert.Equal(t, xid, got, "nothing came that was not asked for")
		st, _ = statusOfReply(t, results)
		assert.Equal(t, nfs4.OK, st)
	}
	assert.EqualValues(t, 2, slow.done.Load())
}

// TestDenyDuringWrite checks that an OPEN does not deny the access of a
// WRITE with a special stateid that still runs (R8881-9.1.2-7).
func TestDenyDuringWrite(t *testing.T) {
	g, slow, dial := overTCP(t)
	res, fh, st := g.open(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.Unchecked))
	require.Equal(t, nfs4.OK, st)
	require.Equal(t, nfs4.OK, g.close(fh, res.StateID))
	c := dial()
	write := []step{g.sequence(1, true), put(fh), {nfs4.OpWrite, &nfs4.WriteArgs{Data: []byte("data")}, nil}}
	write[0].args.(*nfs4.SequenceArgs).Slot, write[0].args.(*nfs4.SequenceArgs).HighestSlotID = 1, 1
	c.call(g, 1, write...)
	<-slow.began
	_, _, st = g.open(openArgs("o", "f", nfs4.ShareRead, nfs4.ShareWrite, nfs4.NoCreate))
	assert.Equal(t, nfs4.ErrDelay, st)
	_, _, st = g.open(openArgs("p", "f", nfs4.ShareRead, nfs4.ShareRead, nfs4.NoCreate))
	assert.Equal(t, nfs4.OK, st)
	close(slow.pass)
	_, results := c.reply()
	st, _ = statusOfReply(t, results)
	assert.Equal(t, nfs4.OK, st)
	_, _, st = g.open(openArgs("o", "f", nfs4.ShareWrite, nfs4.ShareWrite, nfs4.NoCreate))
	assert.Equal(t, nfs4.OK, st)
}

// TestReadAfterReadDir checks that the results of a READDIR are sound when a
// READ or READLINK follows: the transport has lent memory for both.
func TestReadAfterReadDir(t *testing.T) {
	g, slow, dial := overTCP(t)
	close(slow.pass)
	const long = 8000
	fh := g.make("f", strings.Repeat("x", long))
	all := nfs4.Known.Without(onlySet)
	list := step{nfs4.OpReadDir, &nfs4.ReadDirArgs{DirCount: long, MaxCount: long, Request: all}, nil}
	c := dial()
	for name, steps := range map[string][]step{
		"READ":             {root(), look("x"), list, put(fh), readOf(0, long)},
		"a short READ":     {root(), look("x"), list, put(fh), readOf(0, 10)},
		"READDIR and READ": {root(), look("x"), list, list, put(fh), readOf(0, long)},
		"READ first":       {put(fh), readOf(0, long), root(), look("x"), list},
	} {
		g.seq++
		want := g.send(append([]step{g.sequence(g.seq, false)}, steps...)...)
		st, _ := statusOfReply(t, want)
		require.Equal(t, nfs4.OK, st)
		g.seq++
		c.call(g, 1, append([]step{g.sequence(g.seq, false)}, steps...)...)
		_, got := c.reply()
		const front = 4 * 15 // the results of SEQUENCE differ
		assert.True(t, bytes.Equal(want[front:], got[front:]), name)
	}
}
