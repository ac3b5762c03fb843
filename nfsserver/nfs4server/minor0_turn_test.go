package nfs4server

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/racetest"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// newMinor0Client creates an NFSv4.0 client.
func (g *testServer) newMinor0Client(name, netID, addr string) (id uint64) {
	g.t.Helper()
	g.minor = nfs4.Minor0
	var res nfs4.SetClientIDRes
	st, _ := g.sendRaw(step{nfs4.OpSetClientID, &nfs4.SetClientIDArgs{
		ID: []byte(name), CBProgram: 0x40000001, CBIdent: 7, Callback: nfs4.ClientAddr{NetID: []byte(netID), Addr: []byte(addr)},
	}, &res})
	require.Equal(g.t, nfs4.OK, st)
	st, _ = g.sendRaw(step{nfs4.OpSetClientIDConfirm, &nfs4.SetClientIDConfirmArgs{ClientID: res.ClientID, Confirm: res.Confirm}, newStatusRes()})
	require.Equal(g.t, nfs4.OK, st)
	return res.ClientID
}

// openFile40 opens a file in export x for a new owner, with the seqids 1 and 2.
func (g *testServer) openFile40(id uint64, owner, name string) (nfs4.FH, nfs4.StateID) {
	g.t.Helper()
	var fh nfs4.HandleRes
	var res nfs4.OpenRes
	var confirmed nfs4.StateIDRes
	a := openArgs(owner, name, nfs4.ShareBoth, 0, nfs4.Unchecked)
	a.SeqID, a.Owner.ClientID = 1, id
	st, _ := g.sendRaw(putRootStep(), lookupStep("x"), step{nfs4.OpOpen, a, &res}, step{nfs4.OpGetFH, &void, &fh})
	require.Equal(g.t, nfs4.OK, st)
	object := append(nfs4.FH(nil), fh.Object...)
	st, _ = g.sendRaw(putStep(object), step{nfs4.OpOpenConfirm, &nfs4.OpenConfirmArgs{StateID: res.StateID, SeqID: 2}, &confirmed})
	require.Equal(g.t, nfs4.OK, st)
	return object, confirmed.StateID
}

// A minor0Client is an NFSv4.0 client to which the server grants delegations, although it has
// no callback.
type minor0Client struct {
	testServer
	client uint64
}

// newCallableClient40 creates an NFSv4.0 client at an address.
func (g *testServer) newCallableClient40(name, addr string) *minor0Client {
	v := &minor0Client{testServer: *g}
	v.minor, v.peer = nfs4.Minor0, &oncrpc.Peer{Addr: netip.MustParseAddrPort(addr), Network: "tcp"}
	v.client = v.newMinor0Client(name, "", "")
	list, _ := g.s.Clients(100)
	for i := range list {
		if list[i].ID == v.client {
			g.s.state.CallbackAnswers(v.client, list[i].Callback, true)
		}
	}
	return v
}

// TestRecallForNamedClient: over NFSv4.0 any caller may name any client in a COMPOUND. A change
// that follows still recalls the client's delegation, unless the client itself makes the
// change: the caller has created the client, or uses a stateid for the object.
//
// R7530-10.4.4-1.
func TestRecallForNamedClient(t *testing.T) {
	write := func(id nfs4.StateID) step {
		return step{nfs4.OpWrite, &nfs4.WriteArgs{StateID: id, Data: []byte("HELLO")}, new(nfs4.WriteRes)}
	}
	chmod := nfs4.SetAttrArgs{StateID: nfs4.AnonymousStateID}
	chmod.Attrs.Mask, chmod.Attrs.Mode = nfs4.BitmapOf(nfs4.AttrMode), 0o600
	change := step{nfs4.OpSetAttr, &chmod, new(nfs4.SetAttrRes)}
	const own, strange = "192.0.2.1:700", "198.51.100.66:5555"
	for _, tt := range []struct {
		name, from string
		uid        uint32
		steps      func(client uint64, of, other nfs4.StateID) []step // stateid of is for the object, other for another one
		recalled   bool
	}{
		{"another host's LOCKT, and WRITE", strange, 0, func(client uint64, _, _ nfs4.StateID) []step {
			return []step{{nfs4.OpLockT, &nfs4.LockTArgs{Type: nfs4.LockRead, Length: 1, Owner: nfs4.StateOwner{ClientID: client, Owner: []byte("q")}}, new(nfs4.LockTRes)}, write(nfs4.AnonymousStateID)}
		}, true},
		{"another user's RELEASE_LOCKOWNER, and SETATTR", own, 1000, func(client uint64, _, _ nfs4.StateID) []step {
			return []step{{nfs4.OpReleaseLockOwner, &nfs4.ReleaseLockOwnerArgs{Owner: nfs4.StateOwner{ClientID: client, Owner: []byte("q")}}, newStatusRes()}, change}
		}, true},
		{"SETATTR with a stateid of another object", strange, 0, func(_ uint64, _, other nfs4.StateID) []step {
			with := chmod
			with.StateID = other
			return []step{{nfs4.OpSetAttr, &with, new(nfs4.SetAttrRes)}}
		}, true},
		{"the maker's RENEW, and SETATTR", own, 0, func(client uint64, _, _ nfs4.StateID) []step {
			return []step{{nfs4.OpRenew, &nfs4.ClientIDArgs{ClientID: client}, newStatusRes()}, change}
		}, false},
		{"another user's SETATTR with the delegation", own, 1000, func(_ uint64, of, _ nfs4.StateID) []step {
			with := chmod
			with.StateID = of
			return []step{{nfs4.OpSetAttr, &with, new(nfs4.SetAttrRes)}}
		}, false},
		{"another user's READ with the delegation, and SETATTR", own, 1000, func(_ uint64, of, _ nfs4.StateID) []step {
			return []step{{nfs4.OpRead, &nfs4.ReadArgs{StateID: of, Count: 1}, new(nfs4.ReadRes)}, change}
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, _ := newDelegServer(t)
				chown := func() {
					g.cred.UID = 0
					attrs := nfs4.SetAttrArgs{}
					attrs.Attrs.Mask, attrs.Attrs.Owner = nfs4.BitmapOf(nfs4.AttrOwner), []byte("1000")
					st, _ := g.sendSteps(putRootStep(), lookupStep("x"), lookupStep("f"), step{nfs4.OpSetAttr, &attrs, new(nfs4.SetAttrRes)})
					require.Equal(t, nfs4.OK, st)
				}
				g.makeFileStep("f")
				chown()
				v := g.newCallableClient40("victim", own)
				_, other := v.openFile40(v.client, "o", "other")
				a := openArgs("o", "f", nfs4.ShareRead, 0, nfs4.NoCreate)
				a.SeqID, a.Owner.ClientID = 3, v.client
				var res nfs4.OpenRes
				var fh nfs4.HandleRes
				st, _ := v.sendRaw(putRootStep(), lookupStep("x"), step{nfs4.OpOpen, a, &res}, step{nfs4.OpGetFH, &void, &fh})
				require.Equal(t, nfs4.OK, st)
				require.Equal(t, nfs4.DelegateRead, res.Delegation.Type)
				object := append(nfs4.FH(nil), fh.Object...)

				caller := v.testServer
				caller.cred.UID = tt.uid
				caller.peer = &oncrpc.Peer{Addr: netip.MustParseAddrPort(tt.from), Network: "tcp"}
				st, _ = caller.sendRaw(append([]step{putStep(object)}, tt.steps(v.client, res.Delegation.StateID, other)...)...)
				want := nfs4.OK
				if tt.recalled {
					want = nfs4.ErrDelay
				}
				assert.Equal(t, want, st)
				assert.Equal(t, tt.recalled, g.s.state.Counts().Recalled > 0)
				st, _ = v.sendRaw(putStep(object), step{nfs4.OpDelegReturn, &nfs4.StateIDArgs{StateID: res.Delegation.StateID}, newStatusRes()})
				assert.Equal(t, nfs4.OK, st)
			})
		})
	}
}

// TestOwnOpenToWrite40: over NFSv4.0 a client that root has created opens files for all users.
// An OPEN for writing, by another user, of a file for which the client has a read delegation
// does not wait for the client itself. From another address it does.
func TestOwnOpenToWrite40(t *testing.T) {
	for _, tt := range []struct {
		uid  uint32
		from string
		wait time.Duration
	}{
		{0, "192.0.2.1:701", 0},
		{1000, "192.0.2.1:700", 0},
		{1000, "198.51.100.66:700", recall.MaxWait},
		{0, "198.51.100.66:700", recall.MaxWait},
	} {
		synctest.Test(t, func(t *testing.T) {
			g, _ := newDelegServer(t)
			put := g.makeFileStep("f")
			set := nfs4.SetAttrArgs{}
			set.Attrs.Mask, set.Attrs.Mode = nfs4.BitmapOf(nfs4.AttrMode), 0o666
			st, _ := g.sendSteps(put, step{nfs4.OpSetAttr, &set, new(nfs4.SetAttrRes)})
			require.Equal(t, nfs4.OK, st)
			v := g.newCallableClient40("plain", "192.0.2.1:700")
			v.openFile40(v.client, "o", "other")
			v.cred.UID = tt.uid
			open := func(seq, access uint32) (nfs4.OpenRes, nfs4.Status) {
				a := openArgs("o", "f", access, 0, nfs4.NoCreate)
				a.SeqID, a.Owner.ClientID = seq, v.client
				var res nfs4.OpenRes
				st, _ := v.sendRaw(putRootStep(), lookupStep("x"), step{nfs4.OpOpen, a, &res})
				return res, st
			}
			res, st := open(3, nfs4.ShareRead)
			require.Equal(t, nfs4.OK, st)
			require.Equal(t, nfs4.DelegateRead, res.Delegation.Type)
			v.peer = &oncrpc.Peer{Addr: netip.MustParseAddrPort(tt.from), Network: "tcp"}
			begun, want := time.Now(), nfs4.OK
			if tt.wait > 0 {
				want = nfs4.ErrDelay
			}
			_, st = open(4, nfs4.ShareBoth)
			assert.Equal(t, want, st, tt)
			assert.Equal(t, tt.wait, time.Since(begun), tt)
		})
	}
}

// TestCallbackOfSetClientID: the client list shows an NFSv4.0 client's callback in the client's
// words (R7530-2.2.10-1, R8881-3.3.9-1, R7530-2.2.11-1). An address counts only if it is the
// client's own, over TCP: no client makes the server call others.
func TestCallbackOfSetClientID(t *testing.T) {
	for _, tt := range []struct{ netID, addr, want string }{
		{"tcp", "192.0.2.1.8.1", "192.0.2.1:2049"},
		{"tcp6", "::ffff:192.0.2.1.156.64", "192.0.2.1:40000"},
		{"tcp", "192.0.2.2.8.1", ""},
		{"tcp", "127.0.0.1.8.1", ""},
		{"tcp", "192.0.2.1.0.0", ""},
		{"udp", "192.0.2.1.8.1", ""},
		{"rdma", "192.0.2.1.8.1", ""},
		{"tcp", "nonsense", ""},
		{"", "", ""},
		{"tcp", string(make([]byte, maxCallbackAddr+1)), ""},
	} {
		g := newTestServer(t)
		g.newMinor0Client("client", tt.netID, tt.addr)
		list, _ := g.s.Clients(10)
		require.Len(t, list, 1)
		c := list[0].Callback
		assert.Equal(t, nfs4state.Callback{Program: 0x40000001, Ident: 7}, nfs4state.Callback{Program: c.Program, Ident: c.Ident})
		got := ""
		if c.Addr.IsValid() {
			got = c.Addr.String()
		}
		assert.Equal(t, tt.want, got, "%s %q", tt.netID, tt.addr)
		assert.LessOrEqual(t, len(c.UAddr), maxCallbackAddr)
		assert.EqualValues(t, 0, list[0].Minor)
		assert.Equal(t, g.peer.Addr, list[0].Addrs[0])
	}
}

// repeatCompound40 is repeatCompound over NFSv4.0. change, if not nil, sets the call's seqid.
func (g *testServer) repeatCompound40(change func(), steps ...step) func() {
	buf := make([]byte, 0, 4096)
	reply := make([]byte, 0, 4096)
	call := oncrpc.Call{Proc: nfs4.ProcCompound, Cred: g.cred, Peer: g.peer, MaxReply: 1 << 20}
	var rep oncrpc.Reply
	ctx := context.Background()
	return func() {
		if change != nil {
			change()
		}
		buf = (&nfs4.CompoundArgs{N: uint32(len(steps))}).AppendTo(buf[:0])
		for i := range steps {
			buf = nfs4.AppendOp(buf, steps[i].op, steps[i].args)
			if w, ok := steps[i].args.(*nfs4.WriteArgs); ok {
				buf = xdr.AppendFixed(buf, w.Data)
			}
		}
		call.Args = xdr.NewReader(buf)
		rep.Head, rep.Tail = reply[:0], nil
		if err := g.s.ServeRPC(ctx, &call, &rep); err != nil {
			panic(err)
		}
		if status := nfs4.Status(uint32(rep.Head[2])<<8 | uint32(rep.Head[3])); status != nfs4.OK {
			panic(status)
		}
		rep.DropItem()
	}
}

// TestAllocs40 checks that NFSv4.0 operations allocate nothing that those in later versions do
// not.
func TestAllocs40(t *testing.T) {
	g := newTestServer(t).becomeRoot()
	id := g.newMinor0Client("client", "", "")
	fh, opened := g.openFile40(id, "o", "f")
	request := nfs4.BitmapOf(nfs4.AttrType, nfs4.AttrChange, nfs4.AttrSize, nfs4.AttrOwner, nfs4.AttrOwnerGroup)
	down := &nfs4.OpenDowngradeArgs{StateID: opened, SeqID: 2, ShareAccess: nfs4.ShareBoth}
	for name, x := range map[string]struct {
		change func()
		steps  []step
	}{
		"RENEW":   {nil, []step{{nfs4.OpRenew, &nfs4.ClientIDArgs{ClientID: id}, nil}}},
		"GETATTR": {nil, []step{putStep(fh), {nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: request}, nil}}},
		"READ":    {nil, []step{putStep(fh), {nfs4.OpRead, &nfs4.ReadArgs{StateID: opened, Count: 4096}, nil}}},
		"WRITE":   {nil, []step{putStep(fh), {nfs4.OpWrite, &nfs4.WriteArgs{StateID: opened, Data: []byte("data")}, nil}}},
		"COMMIT":  {nil, []step{putStep(fh), {nfs4.OpCommit, &nfs4.CommitArgs{}, nil}}},
	} {
		assert.LessOrEqual(t, testing.AllocsPerRun(100, g.repeatCompound40(x.change, x.steps...)), racetest.PoolLosses(4), name)
	}
	down.StateID.SeqID--
	n := testing.AllocsPerRun(100, g.repeatCompound40(func() {
		down.SeqID++
		down.StateID.SeqID++
	}, putStep(fh), step{nfs4.OpOpenDowngrade, down, nil}))
	later := newTestServer(t).connectClient().becomeRoot()
	object := later.makeFile("f", "content")
	res, _, st := later.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	same := &nfs4.OpenDowngradeArgs{StateID: nfs4.StateID{Other: res.StateID.Other}, ShareAccess: nfs4.ShareBoth}
	without := testing.AllocsPerRun(100, later.repeatCompound(putStep(object), step{nfs4.OpOpenDowngrade, same, nil}))
	assert.LessOrEqual(t, n, without+racetest.PoolLosses(4), "OPEN_DOWNGRADE in its turn")
	const runs = 100
	var closes []func()
	for n := range runs + 1 { // AllocsPerRun makes one more
		fh, opened := g.openFile40(id, fmt.Sprint(n), "f")
		closes = append(closes, g.repeatCompound40(nil, putStep(fh), step{nfs4.OpClose, &nfs4.CloseArgs{SeqID: 3, StateID: opened}, nil}))
	}
	n = testing.AllocsPerRun(runs, func() {
		closes[0]()
		closes = closes[1:]
	})
	assert.LessOrEqual(t, n, racetest.PoolLosses(4)+1, "CLOSE, with the rest of the owner")
}

// TestTurnsLeavePermits: operations that wait for their owner's turn have no permit, so that
// other calls from their host are served, and the operation that has the turn completes.
// Storage that does not respond then still costs few goroutines: the seqid of an operation that
// fails with NFS4ERR_RESOURCE is not used up (R7530-9.1.7-4).
func TestTurnsLeavePermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newCountingFS(mem.New(mem.Options{Size: 1 << 20, Mode: 0o777}))
		g := newTestServer(t, exportset.Export{Path: "/x", FS: fs, Clients: exports.Everyone(exports.Options{Insecure: true, NoRootSquash: true})}).becomeRoot()
		id := g.newMinor0Client("client", "", "")
		answer := make(chan struct{})
		answers := make(chan nfs4.Status, 1000)
		const owners, each = 20, 20 // the waiting operations are more than the permits of a host
		ids := make([]nfs4.StateID, owners)
		var fh nfs4.FH
		for i := range ids {
			fh, ids[i] = g.openFile40(id, fmt.Sprint(i), "f")
		}
		fs.opening = func() { <-answer }
		send := func(steps ...step) {
			go func() {
				st, _ := g.sendRaw(steps...)
				answers <- st
			}()
			synctest.Wait()
		}
		for i := range owners {
			a := openArgs(fmt.Sprint(i), "f", nfs4.ShareBoth, 0, nfs4.NoCreate)
			a.SeqID, a.Owner.ClientID = 3, id
			send(putRootStep(), lookupStep("x"), step{nfs4.OpOpen, a, new(nfs4.OpenRes)})
			for range each {
				send(putStep(fh), step{nfs4.OpClose, &nfs4.CloseArgs{SeqID: 7, StateID: ids[i]}, new(nfs4.StateIDRes)})
			}
		}
		for n := len(answers); n > 0; n-- {
			require.Equal(t, nfs4.ErrResource, <-answers)
		}
		send(putStep(fh), step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrSize)}, new(nfs4.GetAttrRes)})
		require.Len(t, answers, 1, "another call waits")
		require.Equal(t, nfs4.OK, <-answers)
		close(answer)
		synctest.Wait()
		seen := make(map[nfs4.Status]int)
		for len(answers) > 0 {
			seen[<-answers]++
		}
		assert.Equal(t, map[nfs4.Status]int{nfs4.OK: owners, nfs4.ErrBadSeqID: owners * 15}, seen)
		send(putStep(fh), step{nfs4.OpClose, &nfs4.CloseArgs{SeqID: 4, StateID: nfs4.StateID{SeqID: 3, Other: ids[0].Other}}, new(nfs4.StateIDRes)})
		assert.Equal(t, nfs4.OK, <-answers)
	})
}

// TestCloseOfOverloadedStorage: CLOSE for a file whose storage is overloaded is deferred. Its
// stateid stays valid.
func TestCloseOfOverloadedStorage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newCountingFS(mem.New(mem.Options{Size: 1 << 20, Mode: 0o777}))
		g := newTestServer(t, exportset.Export{Path: "/x", FS: fs, Clients: exports.Everyone(exports.Options{Insecure: true, NoRootSquash: true})}).becomeRoot()
		id := g.newMinor0Client("client", "", "")
		fh, opened := g.openFile40(id, "o", "f")
		var calls atomic.Int32
		first, others := make(chan struct{}), make(chan struct{})
		fs.opening = func() {
			if calls.Add(1) == 1 {
				<-first
				return
			}
			<-others
		}
		var running sync.WaitGroup
		open := func(owner string, seqid uint32) {
			a := openArgs(owner, "f", nfs4.ShareBoth, 0, nfs4.NoCreate)
			a.SeqID, a.Owner.ClientID = seqid, id
			running.Go(func() { g.sendRaw(putRootStep(), lookupStep("x"), step{nfs4.OpOpen, a, new(nfs4.OpenRes)}) })
			synctest.Wait()
		}
		open("o", 3)
		status := make(chan nfs4.Status, 1)
		closing := func(seqid uint32) {
			st, _ := g.sendRaw(putStep(fh), step{nfs4.OpClose, &nfs4.CloseArgs{SeqID: seqid, StateID: nfs4.StateID{SeqID: 3, Other: opened.Other}}, new(nfs4.StateIDRes)})
			status <- st
		}
		go closing(4)
		synctest.Wait()
		for i := range 250 {
			open(fmt.Sprint(i), 1)
		}
		time.Sleep(time.Minute)
		go g.sendRaw(putRootStep(), lookupStep("x")) // a call that looks at the clock
		time.Sleep(time.Minute)
		close(first)
		assert.Equal(t, nfs4.ErrDelay, <-status)
		close(others)
		running.Wait()
		closing(5)
		assert.Equal(t, nfs4.OK, <-status)
	})
}

// TestRoom40: an operation whose results have no room is NFS4ERR_RESOURCE, and does
// not use up its number (R7530-13.1.3.4-1).
func TestRoom40(t *testing.T) {
	g := newTestServer(t).becomeRoot()
	id := g.newMinor0Client("client", "", "")
	fh, opened := g.openFile40(id, "o", "f")
	args := (&nfs4.CompoundArgs{N: 2}).AppendTo(nil)
	args = nfs4.AppendOp(args, nfs4.OpPutFH, &nfs4.HandleArgs{Object: fh})
	args = nfs4.AppendOp(args, nfs4.OpClose, &nfs4.CloseArgs{SeqID: 3, StateID: opened})
	for _, maxReply := range []int{12 + 8 + 8, 1 << 20} {
		call := oncrpc.Call{Proc: nfs4.ProcCompound, Cred: g.cred, Peer: g.peer, Args: xdr.NewReader(args), MaxReply: maxReply}
		var rep oncrpc.Reply
		require.NoError(t, g.s.ServeRPC(t.Context(), &call, &rep))
		r := xdr.NewReader(rep.Head)
		want := nfs4.ErrResource
		if maxReply > 100 {
			want = nfs4.OK
		}
		assert.Equal(t, want, nfs4.Status(r.Uint32()))
	}
}
