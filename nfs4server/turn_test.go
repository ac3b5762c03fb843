package nfs4server

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/internal/racetest"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// plain makes a client of version 4.0.
func (g *rig) plain(name, netID, addr string) (id uint64) {
	g.t.Helper()
	g.minor = nfs4.Minor0
	var res nfs4.SetClientIDRes
	st, _ := g.raw(step{nfs4.OpSetClientID, &nfs4.SetClientIDArgs{
		ID: []byte(name), CBProgram: 0x40000001, CBIdent: 7, Callback: nfs4.ClientAddr{NetID: []byte(netID), Addr: []byte(addr)},
	}, &res})
	require.Equal(g.t, nfs4.OK, st)
	st, _ = g.raw(step{nfs4.OpSetClientIDConfirm, &nfs4.SetClientIDConfirmArgs{ClientID: res.ClientID, Confirm: res.Confirm}, status()})
	require.Equal(g.t, nfs4.OK, st)
	return res.ClientID
}

// opened40 opens a file of export x for a new owner, with the numbers 1 and 2.
func (g *rig) opened40(id uint64, owner, name string) (nfs4.FH, nfs4.StateID) {
	g.t.Helper()
	var fh nfs4.HandleRes
	var res nfs4.OpenRes
	var confirmed nfs4.StateIDRes
	a := openArgs(owner, name, nfs4.ShareBoth, 0, nfs4.Unchecked)
	a.SeqID, a.Owner.ClientID = 1, id
	st, _ := g.raw(root(), look("x"), step{nfs4.OpOpen, a, &res}, step{nfs4.OpGetFH, &void, &fh})
	require.Equal(g.t, nfs4.OK, st)
	object := append(nfs4.FH(nil), fh.Object...)
	st, _ = g.raw(put(object), step{nfs4.OpOpenConfirm, &nfs4.OpenConfirmArgs{StateID: res.StateID, SeqID: 2}, &confirmed})
	require.Equal(g.t, nfs4.OK, st)
	return object, confirmed.StateID
}

// TestCallbackOfSetClientID: the list of clients has the callback of a client of
// version 4.0 as the client says it (R7530-2.2.10-1, R8881-3.3.9-1, R7530-2.2.11-1). An address
// counts only if it is the client's own, by TCP: no client makes the server call
// others.
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
		{"tcp", string(make([]byte, maxCallback+1)), ""},
	} {
		g := newRig(t)
		g.plain("client", tt.netID, tt.addr)
		list, _ := g.s.Clients(10)
		require.Len(t, list, 1)
		c := list[0].Callback
		assert.Equal(t, nfs4state.Callback{Program: 0x40000001, Ident: 7}, nfs4state.Callback{Program: c.Program, Ident: c.Ident})
		got := ""
		if c.Addr.IsValid() {
			got = c.Addr.String()
		}
		assert.Equal(t, tt.want, got, "%s %q", tt.netID, tt.addr)
		assert.LessOrEqual(t, len(c.UAddr), maxCallback)
		assert.EqualValues(t, 0, list[0].Minor)
		assert.Equal(t, g.peer.Addr, list[0].Addrs[0])
	}
}

// hot40 is hot by version 4.0. change, if not nil, sets the number of the call.
func (g *rig) hot40(change func(), steps ...step) func() {
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

// TestAllocs40 checks that the operations of version 4.0 allocate nothing that
// those of later versions do not.
func TestAllocs40(t *testing.T) {
	g := newRig(t).asRoot()
	id := g.plain("client", "", "")
	fh, opened := g.opened40(id, "o", "f")
	request := nfs4.BitmapOf(nfs4.AttrType, nfs4.AttrChange, nfs4.AttrSize, nfs4.AttrOwner, nfs4.AttrOwnerGroup)
	down := &nfs4.OpenDowngradeArgs{StateID: opened, SeqID: 2, ShareAccess: nfs4.ShareBoth}
	for name, x := range map[string]struct {
		change func()
		steps  []step
	}{
		"RENEW":   {nil, []step{{nfs4.OpRenew, &nfs4.ClientIDArgs{ClientID: id}, nil}}},
		"GETATTR": {nil, []step{put(fh), {nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: request}, nil}}},
		"READ":    {nil, []step{put(fh), {nfs4.OpRead, &nfs4.ReadArgs{StateID: opened, Count: 4096}, nil}}},
		"WRITE":   {nil, []step{put(fh), {nfs4.OpWrite, &nfs4.WriteArgs{StateID: opened, Data: []byte("data")}, nil}}},
		"COMMIT":  {nil, []step{put(fh), {nfs4.OpCommit, &nfs4.CommitArgs{}, nil}}},
	} {
		assert.LessOrEqual(t, testing.AllocsPerRun(100, g.hot40(x.change, x.steps...)), racetest.PoolLosses(4), name)
	}
	down.StateID.SeqID--
	n := testing.AllocsPerRun(100, g.hot40(func() {
		down.SeqID++
		down.StateID.SeqID++
	}, put(fh), step{nfs4.OpOpenDowngrade, down, nil}))
	later := newRig(t).connect().asRoot()
	object := later.make("f", "content")
	res, _, st := later.open(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	same := &nfs4.OpenDowngradeArgs{StateID: nfs4.StateID{Other: res.StateID.Other}, ShareAccess: nfs4.ShareBoth}
	without := testing.AllocsPerRun(100, later.hot(put(object), step{nfs4.OpOpenDowngrade, same, nil}))
	assert.LessOrEqual(t, n, without+racetest.PoolLosses(4), "OPEN_DOWNGRADE in its turn")
	const runs = 100
	var closes []func()
	for n := range runs + 1 { // AllocsPerRun makes one more
		fh, opened := g.opened40(id, fmt.Sprint(n), "f")
		closes = append(closes, g.hot40(nil, put(fh), step{nfs4.OpClose, &nfs4.CloseArgs{SeqID: 3, StateID: opened}, nil}))
	}
	n = testing.AllocsPerRun(runs, func() {
		closes[0]()
		closes = closes[1:]
	})
	assert.LessOrEqual(t, n, racetest.PoolLosses(4)+1, "CLOSE, with the rest of the owner")
}

// TestTurnsLeavePermits: operations that wait for the turn of their owner have no
// permit, so that other calls of their host are answered, and the operation that has
// the turn ends. Storage that does not answer then still costs few goroutines: the
// number of an operation that is NFS4ERR_RESOURCE is not used up (R7530-9.1.7-4).
func TestTurnsLeavePermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := counting(mem.New(mem.Options{Size: 1 << 20, Mode: 0o777}))
		g := newRig(t, realm.Export{Path: "/x", FS: fs, Clients: exports.Everyone(exports.Options{Insecure: true, NoRootSquash: true})}).asRoot()
		id := g.plain("client", "", "")
		answer := make(chan struct{})
		answers := make(chan nfs4.Status, 1000)
		const owners, each = 20, 20 // the waiting operations are more than the permits of a host
		ids := make([]nfs4.StateID, owners)
		var fh nfs4.FH
		for i := range ids {
			fh, ids[i] = g.opened40(id, fmt.Sprint(i), "f")
		}
		fs.opening = func() { <-answer }
		send := func(steps ...step) {
			go func() {
				st, _ := g.raw(steps...)
				answers <- st
			}()
			synctest.Wait()
		}
		for i := range owners {
			a := openArgs(fmt.Sprint(i), "f", nfs4.ShareBoth, 0, nfs4.NoCreate)
			a.SeqID, a.Owner.ClientID = 3, id
			send(root(), look("x"), step{nfs4.OpOpen, a, new(nfs4.OpenRes)})
			for range each {
				send(put(fh), step{nfs4.OpClose, &nfs4.CloseArgs{SeqID: 7, StateID: ids[i]}, new(nfs4.StateIDRes)})
			}
		}
		for n := len(answers); n > 0; n-- {
			require.Equal(t, nfs4.ErrResource, <-answers)
		}
		send(put(fh), step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrSize)}, new(nfs4.GetAttrRes)})
		require.Len(t, answers, 1, "another call waits")
		require.Equal(t, nfs4.OK, <-answers)
		close(answer)
		synctest.Wait()
		seen := make(map[nfs4.Status]int)
		for len(answers) > 0 {
			seen[<-answers]++
		}
		assert.Equal(t, map[nfs4.Status]int{nfs4.OK: owners, nfs4.ErrBadSeqID: owners * 15}, seen)
		send(put(fh), step{nfs4.OpClose, &nfs4.CloseArgs{SeqID: 4, StateID: nfs4.StateID{SeqID: 3, Other: ids[0].Other}}, new(nfs4.StateIDRes)})
		assert.Equal(t, nfs4.OK, <-answers)
	})
}

// TestCloseOfOverloadedStorage: CLOSE of a file whose storage is overloaded is put off.
// Its stateid is as good as before.
func TestCloseOfOverloadedStorage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := counting(mem.New(mem.Options{Size: 1 << 20, Mode: 0o777}))
		g := newRig(t, realm.Export{Path: "/x", FS: fs, Clients: exports.Everyone(exports.Options{Insecure: true, NoRootSquash: true})}).asRoot()
		id := g.plain("client", "", "")
		fh, opened := g.opened40(id, "o", "f")
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
			running.Go(func() { g.raw(root(), look("x"), step{nfs4.OpOpen, a, new(nfs4.OpenRes)}) })
			synctest.Wait()
		}
		open("o", 3)
		status := make(chan nfs4.Status, 1)
		closing := func(seqid uint32) {
			st, _ := g.raw(put(fh), step{nfs4.OpClose, &nfs4.CloseArgs{SeqID: seqid, StateID: nfs4.StateID{SeqID: 3, Other: opened.Other}}, new(nfs4.StateIDRes)})
			status <- st
		}
		go closing(4)
		synctest.Wait()
		for i := range 250 {
			open(fmt.Sprint(i), 1)
		}
		time.Sleep(time.Minute)
		go g.raw(root(), look("x")) // a call that looks at the clock
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
	g := newRig(t).asRoot()
	id := g.plain("client", "", "")
	fh, opened := g.opened40(id, "o", "f")
	args := (&nfs4.CompoundArgs{N: 2}).AppendTo(nil)
	args = nfs4.AppendOp(args, nfs4.OpPutFH, &nfs4.HandleArgs{Object: fh})
	args = nfs4.AppendOp(args, nfs4.OpClose, &nfs4.CloseArgs{SeqID: 3, StateID: opened})
	for _, room := range []int{12 + 8 + 8, 1 << 20} {
		call := oncrpc.Call{Proc: nfs4.ProcCompound, Cred: g.cred, Peer: g.peer, Args: xdr.NewReader(args), MaxReply: room}
		var rep oncrpc.Reply
		require.NoError(t, g.s.ServeRPC(t.Context(), &call, &rep))
		r := xdr.NewReader(rep.Head)
		want := nfs4.ErrResource
		if room > 100 {
			want = nfs4.OK
		}
		assert.Equal(t, want, nfs4.Status(r.Uint32()))
	}
}
