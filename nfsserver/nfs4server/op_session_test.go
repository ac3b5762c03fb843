package nfs4server

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// exchangeID sends EXCHANGE_ID alone.
func (g *testServer) exchangeID(owner string, verf byte, flags uint32) (nfs4.ExchangeIDRes, nfs4.Status) {
	g.t.Helper()
	var res nfs4.ExchangeIDRes
	st, _ := g.sendRaw(step{nfs4.OpExchangeID, &nfs4.ExchangeIDArgs{Owner: []byte(owner), Verifier: nfs4.Verifier{verf}, Flags: flags}, &res})
	return res, st
}

// channel is a fore channel that requests little.
var channel = nfs4.ChannelAttrs{MaxRequestSize: 8192, MaxResponseSize: 8192, MaxResponseSizeCached: 1024, MaxOperations: 8, MaxRequests: 4}

// TestExchangeID checks flags, identity and role.
//
// R8881-18.35.3-6.
func TestExchangeID(t *testing.T) {
	g := newTestServer(t)
	for flags, want := range map[uint32]nfs4.Status{
		0: nfs4.OK, nfs4.ExchangeSuppMovedRefer | nfs4.ExchangeBindPrincStateID: nfs4.OK, nfs4.ExchangeUseNonPNFS: nfs4.OK,
		nfs4.ExchangeConfirmed: nfs4.ErrInval, 0x8: nfs4.ErrInval, // R8881-18.35.3-2
		nfs4.ExchangeUpdConfirmed: nfs4.ErrNoEnt,
	} {
		res, st := g.exchangeID("a", 1, flags)
		assert.Equal(t, want, st, "%#x", flags)
		if st == nfs4.OK {
			assert.Equal(t, nfs4.ExchangeUseNonPNFS|nfs4.ExchangeSuppMovedRefer, res.Flags, "R8881-18.35.3-3, -6, -7")
			assert.Equal(t, nfs4.ProtectNone, res.Protect.How)
		}
	}
	g.minor = 1
	_, st := g.exchangeID("a", 1, nfs4.ExchangeSuppFenceOps)
	assert.Equal(t, nfs4.ErrInval, st)
	g.minor = 2
	_, st = g.exchangeID("a", 1, nfs4.ExchangeSuppFenceOps)
	assert.Equal(t, nfs4.OK, st)
	tcp, _ := g.exchangeID("a", 1, 0)
	again, _ := g.exchangeID("b", 1, 0)
	assert.Equal(t, tcp.MajorID, again.MajorID)
	assert.Equal(t, tcp.Scope, again.Scope)
	g.peer.Network = "rdma"
	rdma, _ := g.exchangeID("a", 1, 0)
	assert.NotEqual(t, tcp.MajorID, rdma.MajorID, "Linux merges mounts by major ID")
	assert.NotEqual(t, tcp.ClientID, rdma.ClientID)
	assert.Equal(t, tcp.Scope, rdma.Scope)
	g.cred.Flavor = 0
	_, st = g.exchangeID("c", 1, 0)
	assert.Equal(t, nfs4.OK, st)

	g.connectAs("confirmed")
	for _, flags := range []uint32{0, nfs4.ExchangeUpdConfirmed} {
		res, st := g.exchangeID("confirmed", 0, flags)
		assert.Equal(t, nfs4.OK, st)
		assert.Equal(t, nfs4.ExchangeUseNonPNFS|nfs4.ExchangeSuppMovedRefer|nfs4.ExchangeConfirmed, res.Flags, "R8881-18.35.3-3")
	}
}

// TestProtection checks that a client without a machine credential gets no state
// protection but SP4_NONE: the server has no secret state verifiers (R8881-2.10.9-1).
//
// R8881-18.35.3-8, R8881-18.35.3-9, R8881-18.35.3-11.
func TestProtection(t *testing.T) {
	g := newTestServer(t)
	none := (&nfs4.ExchangeIDArgs{Owner: []byte("c")}).AppendTo(nil)
	front := none[:len(none)-8] // without the protection and the empty list of implementations
	ops := make([]byte, 8)      // two empty sets of operations
	ssv := func(hash, encryption, window uint32) []byte {
		b := append([]byte(nil), ops...)
		for _, n := range []uint32{hash, encryption} {
			b = xdr.AppendUint32(b, n)
			for range n {
				b = xdr.AppendOpaque(b, []byte("algorithm"))
			}
		}
		return xdr.AppendUint32(xdr.AppendUint32(b, window), 0)
	}
	ask := func(how nfs4.ProtectHow, parms []byte) (nfs4.ProtectHow, nfs4.Status) {
		args := xdr.AppendUint32(append([]byte(nil), front...), uint32(how))
		args = xdr.AppendUint32(append(args, parms...), 0)
		var res nfs4.ExchangeIDRes
		st, _ := g.sendRaw(step{nfs4.OpExchangeID, cutArgs(args), &res})
		return res.Protect.How, st
	}
	for _, parms := range [][]byte{ssv(0, 1, 1), ssv(1, 0, 1), ssv(1, 1, 0)} {
		_, st := ask(nfs4.ProtectSSV, parms)
		assert.Equal(t, nfs4.ErrInval, st)
	}
	for how, tt := range map[nfs4.ProtectHow]struct {
		parms []byte
		want  nfs4.Status
	}{
		nfs4.ProtectNone:     {nil, nfs4.OK},
		nfs4.ProtectMachCred: {ops, nfs4.ErrInval},
		nfs4.ProtectSSV:      {ssv(1, 1, 1), nfs4.ErrEncrAlgUnsupp},
		3:                    {nil, nfs4.ErrBadXDR},
	} {
		protect, st := ask(how, tt.parms)
		assert.Equal(t, tt.want, st, how)
		assert.Equal(t, nfs4.ProtectNone, protect)
	}
}

// TestPositions checks the permitted positions of operations (R8881-2.10.2.1-1,
// R8881-15.1.3.3-1, R8881-15.1.3.5-1, R8881-18.46.3-1): only the operations that create or
// destroy sessions may come without a session (R8881-2.10-1).
//
// R8881-16.2.1-2, R8881-18.35.3-1, R8881-18.36.3-1, R8881-18.50.3-2.
func TestPositions(t *testing.T) {
	g := newTestServer(t).connectClient()
	seq := func() step {
		return step{nfs4.OpSequence, &nfs4.SequenceArgs{Session: g.session, Sequence: g.seq + 1}, new(nfs4.SequenceRes)}
	}
	st, n := g.sendRaw(putRootStep(), seq())
	assert.Equal(t, nfs4.ErrOpNotInSession, st)
	assert.Equal(t, 1, n)
	st, n = g.sendSteps(step{nfs4.OpSequence, &nfs4.SequenceArgs{Session: g.session, Sequence: 9}, new(nfs4.SequenceRes)})
	assert.Equal(t, nfs4.ErrSequencePos, st)
	assert.Equal(t, 1, n)
	for _, s := range []step{
		{nfs4.OpExchangeID, &nfs4.ExchangeIDArgs{Owner: []byte("o")}, new(nfs4.ExchangeIDRes)},
		{nfs4.OpCreateSession, &nfs4.CreateSessionArgs{}, new(nfs4.CreateSessionRes)},
		{nfs4.OpBindConnToSession, &nfs4.BindConnArgs{Dir: nfs4.BindFore}, new(nfs4.BindConnRes)},
		{nfs4.OpDestroySession, &nfs4.SessionArgs{}, newStatusRes()},
		{nfs4.OpDestroyClientID, &nfs4.ClientIDArgs{}, newStatusRes()},
	} {
		st, n := g.sendRaw(s, putRootStep())
		assert.Equal(t, nfs4.ErrNotOnlyOp, st, s.op)
		assert.Equal(t, 1, n)
	}
	st, _ = g.sendSteps(step{nfs4.OpBindConnToSession, &nfs4.BindConnArgs{Session: g.session, Dir: nfs4.BindFore}, new(nfs4.BindConnRes)})
	assert.Equal(t, nfs4.ErrNotOnlyOp, st, "R8881-18.34.3-1")
	st, n = g.sendRaw()
	assert.Equal(t, nfs4.OK, st, "an empty COMPOUND")
	assert.Zero(t, n)
	g.minor = 3
	st, n = g.sendRaw(putRootStep())
	assert.Equal(t, nfs4.ErrMinorVersMismatch, st)
	assert.Zero(t, n)
	g.s.minors[0], g.minor = false, 0
	st, _ = g.sendRaw(putRootStep())
	assert.Equal(t, nfs4.ErrMinorVersMismatch, st, "R8881-2.7-1, R7530-15.2-1: 4.0 is off")
}

// TestUndefined checks operations that the minor version does not have
// (R8881-2.7-3, R8881-15.1.3.4-1, R8881-18.52.3-1).
//
// R8881-15.1.1.5-1, R8881-16.2.1-1.
func TestUndefined(t *testing.T) {
	for minor := uint32(1); minor <= 2; minor++ {
		g := newTestServer(t)
		g.minor = minor
		g.connectClient()
		for op := nfs4.Op(0); op <= nfs4.NumOp+2; op++ {
			first, last, ok := op.Minors()
			if ok && first <= minor && minor <= last {
				continue
			}
			want := nfs4.ErrOpIllegal
			if ok && minor > last {
				want = nfs4.ErrNotSupp
			}
			st, n := g.sendSteps(putRootStep(), step{op, &void, newStatusRes()})
			assert.Equal(t, want, st, "%s in minor version %d", op, minor)
			assert.Equal(t, 2, n)
		}
		st, _ := g.sendSteps(step{nfs4.OpIllegal, &void, newStatusRes()})
		assert.Equal(t, nfs4.ErrOpIllegal, st)
	}
}

// TestReplay checks that a retry gets the first call's reply, and that the call is executed
// once (R8881-2.10.6-1).
func TestReplay(t *testing.T) {
	g := newTestServer(t).connectClient()
	g.cred.UID, g.cred.GID = 0, 0
	st, _ := g.sendSteps(putRootStep(), lookupStep("x"), mkdirStep("d"))
	require.Equal(t, nfs4.OK, st)
	g.seq--
	again := mkdirStep("d")
	st, n := g.sendSteps(putRootStep(), lookupStep("x"), again)
	assert.Equal(t, nfs4.OK, st, "otherwise it would exist")
	assert.Equal(t, 3, n)
	g.seq--
	st, _ = g.sendSteps(putRootStep(), lookupStep("x"))
	assert.Equal(t, nfs4.ErrSeqFalseRetry, st, "R8881-2.10.6.1.3.1-1")
	cred := g.cred
	for _, other := range []rpcmsg.Cred{{Flavor: rpcmsg.AuthSys, UID: 5}, {Flavor: rpcmsg.AuthNone, UID: cred.UID}} {
		g.seq--
		g.cred = other
		st, _ = g.sendSteps(putRootStep(), lookupStep("x"), mkdirStep("d"))
		assert.Equal(t, nfs4.ErrSeqFalseRetry, st, "R8881-2.10.6.1.3.1-2: another principal")
	}
	g.cred = cred
	g.seq++
	st, _ = g.sendSteps()
	assert.Equal(t, nfs4.ErrSeqMisordered, st)
	g.seq -= 2
	st, _ = g.sendSteps(putRootStep(), lookupStep("x"), mkdirStep("d"))
	assert.Equal(t, nfs4.ErrExist, st, "errors of SEQUENCE have left the slot alone (R8881-2.10.6.1.2-1)")
}

// TestChannels checks the limits that a session gets (R8881-18.36.3).
//
// R8881-18.36.3-3, R8881-18.36.3-5.
func TestChannels(t *testing.T) {
	g := newTestServer(t)
	create := func(owner string, change func(a *nfs4.CreateSessionArgs)) (nfs4.CreateSessionRes, nfs4.Status) {
		id, st := g.exchangeID(owner, 1, 0)
		require.Equal(t, nfs4.OK, st)
		a := nfs4.CreateSessionArgs{ClientID: id.ClientID, Sequence: id.SequenceID, Fore: channel, Back: channel}
		change(&a)
		var res nfs4.CreateSessionRes
		st, _ = g.sendRaw(step{nfs4.OpCreateSession, &a, &res})
		return res, st
	}
	res, st := create("small", func(*nfs4.CreateSessionArgs) {})
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, channel, res.Fore, "nothing is raised")
	res, st = create("huge", func(a *nfs4.CreateSessionArgs) {
		a.Flags = nfs4.SessionPersist | nfs4.SessionConnBackChan | nfs4.SessionConnRDMA
		a.Fore = nfs4.ChannelAttrs{HeaderPadSize: 9, MaxRequestSize: ^uint32(0), MaxResponseSize: ^uint32(0), MaxResponseSizeCached: ^uint32(0), MaxOperations: ^uint32(0), MaxRequests: ^uint32(0), HasIRD: true, RDMAIRD: 5}
	})
	assert.Equal(t, nfs4.OK, st)
	assert.Zero(t, res.Flags, "neither persistent (R8881-2.10.6.5-1) nor stepped up, and this connection has no way back")
	assert.Less(t, res.Fore.MaxRequestSize, uint32(2<<20))
	highest := res.Fore.MaxRequests - 1
	assert.EqualValues(t, 63, highest, "more slots come with use")
	assert.EqualValues(t, maxOps, res.Fore.MaxOperations)
	assert.Zero(t, res.Fore.HeaderPadSize, "R8881-2.10.7.3-1")
	g.session = res.Session
	seq := g.sequenceStep(1, false)
	seq.args.(*nfs4.SequenceArgs).HighestSlotID = highest
	st, _ = g.sendRaw(seq)
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, highest, seq.res.(*nfs4.SequenceRes).HighestSlotID, "R8881-2.10.6.1-10")
	_, st = create("flags", func(a *nfs4.CreateSessionArgs) { a.Flags = 8 })
	assert.Equal(t, nfs4.ErrInval, st, "R8881-18.36.3-10")
	for _, tiny := range []func(c *nfs4.ChannelAttrs){
		func(c *nfs4.ChannelAttrs) { c.MaxResponseSize = minResponse - 1 }, func(c *nfs4.ChannelAttrs) { c.MaxRequestSize = 16 },
		func(c *nfs4.ChannelAttrs) { c.MaxOperations = 1 }, func(c *nfs4.ChannelAttrs) { c.MaxRequests = 0 },
	} {
		_, st = create("tiny", func(a *nfs4.CreateSessionArgs) { tiny(&a.Fore) })
		assert.Equal(t, nfs4.ErrTooSmall, st, "R8881-18.36.3-6")
	}
	for i, tiny := range []func(c *nfs4.ChannelAttrs){
		func(c *nfs4.ChannelAttrs) { c.MaxResponseSize = minCallbackRes - 1 }, func(c *nfs4.ChannelAttrs) { c.MaxRequestSize = minCallback - 1 },
		func(c *nfs4.ChannelAttrs) { c.MaxOperations = 1 }, func(c *nfs4.ChannelAttrs) { c.MaxRequests = 0 },
		func(c *nfs4.ChannelAttrs) { *c = nfs4.ChannelAttrs{} },
	} {
		_, st = create("no callback", func(a *nfs4.CreateSessionArgs) {
			a.Flags = nfs4.SessionConnBackChan
			tiny(&a.Back)
		})
		assert.Equal(t, nfs4.ErrTooSmall, st, "%d: R8881-18.36.3-6", i)
		var limits nfs4.ChannelAttrs
		_, st = create(fmt.Sprint("no backchannel ", i), func(a *nfs4.CreateSessionArgs) {
			tiny(&a.Back)
			limits = a.Back
		})
		want := nfs4.ErrTooSmall // a connection may be bound to it later
		if limits == (nfs4.ChannelAttrs{}) {
			want = nfs4.OK
		}
		assert.Equal(t, want, st, "%d: no backchannel is asked for", i)
	}
	_, st = create("callbacks", func(a *nfs4.CreateSessionArgs) {
		a.Flags = nfs4.SessionConnBackChan
		a.Back = nfs4.ChannelAttrs{MaxRequestSize: minCallback, MaxResponseSize: minCallbackRes, MaxOperations: 2, MaxRequests: 1}
	})
	assert.Equal(t, nfs4.OK, st)
}

// TestMinCallback checks the lengths of the shortest useful CB_COMPOUND against the wire forms:
// an RPC header without credentials, CB_SEQUENCE and CB_RECALL.
func TestMinCallback(t *testing.T) {
	call := 6*4 + 8 + 8                          // for RPC
	call += 4 + 4 + 4 + 4                        // tag, minorversion, callback_ident, count
	call += 4 + nfs4.SessionIDSize + 3*4 + 4 + 4 // CB_SEQUENCE: slot, sa_cachethis, no referring calls
	call += 4 + 16 + 4 + 4 + exportset.MaxHandle // CB_RECALL: stateid, truncate, filehandle
	assert.Equal(t, call, minCallback)
	reply := 6 * 4
	reply += 4 + 4 + 4                        // status, tag, count
	reply += 4 + 4 + nfs4.SessionIDSize + 4*4 // CB_SEQUENCE
	reply += 4 + 4                            // CB_RECALL
	assert.Equal(t, reply, minCallbackRes)
}

// TestLimits checks a session's COMPOUND limits.
//
// R8881-15.1.3.11-1, R8881-18.36.3-7.
func TestLimits(t *testing.T) {
	g := newTestServer(t)
	id, _ := g.exchangeID("c", 1, 0)
	var cs nfs4.CreateSessionRes
	small := channel
	small.MaxOperations, small.MaxResponseSize, small.MaxResponseSizeCached = 4, 512, 200
	st, _ := g.sendRaw(step{nfs4.OpCreateSession, &nfs4.CreateSessionArgs{ClientID: id.ClientID, Sequence: id.SequenceID, Fore: small, Back: channel}, &cs})
	require.Equal(t, nfs4.OK, st)
	g.session = cs.Session
	st, n := g.sendSteps(putRootStep(), putRootStep(), putRootStep(), putRootStep())
	assert.Equal(t, nfs4.ErrTooManyOps, st)
	assert.Zero(t, n)
	g.seq--
	all := nfs4.BitmapOf(nfs4.AttrSupportedAttrs, nfs4.AttrType, nfs4.AttrChange, nfs4.AttrSize, nfs4.AttrFSID, nfs4.AttrFileID,
		nfs4.AttrMode, nfs4.AttrOwner, nfs4.AttrTimeAccess, nfs4.AttrTimeModify, nfs4.AttrTimeMetadata, nfs4.AttrSpaceUsed,
		nfs4.AttrSpaceTotal, nfs4.AttrFilesTotal, nfs4.AttrMaxRead, nfs4.AttrMaxWrite, nfs4.AttrSuppattrExclCreat)
	attr := func() step { return step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: all}, new(nfs4.GetAttrRes)} }
	st, n = g.sendSteps(putRootStep(), attr())
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, 2, n)
	all.Set(nfs4.AttrFilesFree)
	all.Set(nfs4.AttrFilesAvail)
	all.Set(nfs4.AttrSpaceFree)
	st, n = g.sendSteps(putRootStep(), attr(), attr())
	assert.Equal(t, nfs4.ErrRepTooBig, st, "R8881-2.10.6.4-2")
	assert.Equal(t, 3, n)
	seq := step{nfs4.OpSequence, &nfs4.SequenceArgs{Session: g.session, Sequence: g.seq + 1, CacheThis: true}, new(nfs4.SequenceRes)}
	st, n = g.sendRaw(seq, putRootStep(), attr())
	assert.Equal(t, nfs4.ErrRepTooBigToCache, st)
	assert.Equal(t, 3, n)
}

// TestLimitsOfSealed checks that a session's limits count by how much a signature or
// encryption makes replies longer.
//
// R8881-18.36.3-7.
func TestLimitsOfSealed(t *testing.T) {
	const growth = 100
	for _, limit := range []struct {
		name  string
		of    func(c *nfs4.ChannelAttrs) *uint32
		keeps bool
		want  nfs4.Status
	}{
		{"ca_maxresponsesize", func(c *nfs4.ChannelAttrs) *uint32 { return &c.MaxResponseSize }, false, nfs4.ErrRepTooBig},
		{"ca_maxresponsesize_cached", func(c *nfs4.ChannelAttrs) *uint32 { return &c.MaxResponseSizeCached }, true, nfs4.ErrRepTooBigToCache},
	} {
		g := newTestServer(t)
		small := channel
		*limit.of(&small) = 512
		g.connectWith(limit.name, small)
		ask := func(n int) nfs4.Status { // SEQUENCE alone, whose reply has n bytes
			g.tag = strings.Repeat("t", n-minResponse)
			st, _ := g.sendRaw(g.sequenceStep(g.seq+1, limit.keeps))
			if st == nfs4.OK {
				g.seq++
			}
			return st
		}
		assert.Equal(t, nfs4.OK, ask(512), limit.name)
		g.growth = growth
		assert.Equal(t, nfs4.OK, ask(512-growth), limit.name)
		assert.Equal(t, limit.want, ask(512-growth+4), limit.name)
	}
	g := newTestServer(t)
	g.growth = growth
	for n, want := range map[int]nfs4.Status{minResponse + growth - 1: nfs4.ErrTooSmall, minResponse + growth: nfs4.OK} {
		id, _ := g.exchangeID(fmt.Sprint(n), 1, 0)
		small := channel
		small.MaxResponseSize = uint32(n)
		var cs nfs4.CreateSessionRes
		st, _ := g.sendRaw(step{nfs4.OpCreateSession, &nfs4.CreateSessionArgs{ClientID: id.ClientID, Sequence: id.SequenceID, Fore: small, Back: channel}, &cs})
		assert.Equal(t, want, st, n)
	}
}

// TestDestroy checks DESTROY_SESSION and DESTROY_CLIENTID by COMPOUNDs
// (R8881-18.37.3, R8881-18.50.3).
func TestDestroy(t *testing.T) {
	g := newTestServer(t).connectClient()
	id, _ := g.exchangeID("client", 0, 0)
	assert.Equal(t, nfs4.ExchangeConfirmed|nfs4.ExchangeUseNonPNFS|nfs4.ExchangeSuppMovedRefer, id.Flags)
	st, _ := g.sendSteps(step{nfs4.OpDestroyClientID, &nfs4.ClientIDArgs{ClientID: id.ClientID}, newStatusRes()})
	assert.Equal(t, nfs4.ErrClientIDBusy, st)
	st, n := g.sendSteps(step{nfs4.OpDestroySession, &nfs4.SessionArgs{Session: g.session}, newStatusRes()}, putRootStep())
	assert.Equal(t, nfs4.ErrNotOnlyOp, st, "R8881-18.37.3-2")
	assert.Equal(t, 1, n)
	st, _ = g.sendSteps(step{nfs4.OpDestroySession, &nfs4.SessionArgs{Session: g.session}, newStatusRes()})
	assert.Equal(t, nfs4.OK, st)
	g.seq--
	st, _ = g.sendSteps(step{nfs4.OpDestroySession, &nfs4.SessionArgs{Session: g.session}, newStatusRes()})
	assert.Equal(t, nfs4.ErrBadSession, st, "R8881-18.37.3-4")
	st, _ = g.sendRaw(step{nfs4.OpDestroyClientID, &nfs4.ClientIDArgs{ClientID: id.ClientID}, newStatusRes()})
	assert.Equal(t, nfs4.OK, st)
	st, _ = g.sendRaw(step{nfs4.OpDestroyClientID, &nfs4.ClientIDArgs{ClientID: id.ClientID}, newStatusRes()})
	assert.Equal(t, nfs4.ErrStaleClientID, st)
}

// TestSweep checks that the state that a client leaves behind goes after a lease
// (R8881-18.35.4-7).
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestServer(t)
		ctx, cancel := context.WithCancel(t.Context())
		go g.s.Sweep(ctx)
		id, st := g.exchangeID("gone", 1, 0)
		require.Equal(t, nfs4.OK, st)
		time.Sleep(2*g.s.lease + 1)
		synctest.Wait()
		st, _ = g.sendRaw(step{nfs4.OpCreateSession, &nfs4.CreateSessionArgs{ClientID: id.ClientID, Sequence: id.SequenceID, Fore: channel, Back: channel}, new(nfs4.CreateSessionRes)})
		assert.Equal(t, nfs4.ErrStaleClientID, st)
		cancel()
	})
}
