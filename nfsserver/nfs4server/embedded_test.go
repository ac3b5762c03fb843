package nfs4server

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// TestBehindSequence checks that the operations that make and end sessions may
// also stand behind SEQUENCE (R8881-18.35.3-1, R8881-18.36.3-1, R8881-18.36.4-4,
// R8881-18.37.3-2, R8881-18.50.3-2).
func TestBehindSequence(t *testing.T) {
	g := newTestServer(t).connectClient()
	var id nfs4.ExchangeIDRes
	st, _ := g.sendSteps(putRootStep(), step{nfs4.OpExchangeID, &nfs4.ExchangeIDArgs{Owner: []byte("second")}, &id}, putRootStep())
	require.Equal(t, nfs4.OK, st)
	a := &nfs4.CreateSessionArgs{ClientID: id.ClientID, Sequence: id.SequenceID, Fore: channel, Back: channel}
	var made [3]nfs4.CreateSessionRes
	st, _ = g.sendSteps(step{nfs4.OpCreateSession, a, &made[0]}, putRootStep())
	require.Equal(t, nfs4.OK, st)
	st, _ = g.sendSteps(putRootStep(), step{nfs4.OpCreateSession, a, &made[1]})
	assert.Equal(t, nfs4.OK, st)
	st, _ = g.sendRaw(step{nfs4.OpCreateSession, a, &made[2]})
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, made[0], made[1], "a retry, whatever stands before it")
	assert.Equal(t, made[0], made[2])
	st, n := g.sendSteps(putRootStep(), step{nfs4.OpDestroySession, &nfs4.SessionArgs{Session: made[0].Session}, newStatusRes()},
		step{nfs4.OpDestroyClientID, &nfs4.ClientIDArgs{ClientID: id.ClientID}, newStatusRes()}, putRootStep())
	assert.Equal(t, nfs4.OK, st, "another session and another client")
	assert.Equal(t, 4, n)
}

// TestSetSSV checks that there is no secret state verifier to set
// (R8881-18.47.3-1).
func TestSetSSV(t *testing.T) {
	g := newTestServer(t).connectClient()
	st, _ := g.sendSteps(step{nfs4.OpSetSSV, cutArgs(make([]byte, 8)), newStatusRes()})
	assert.Equal(t, nfs4.ErrInval, st)
}

// TestSessionIDs checks that session IDs cannot be guessed (R8881-21-4).
func TestSessionIDs(t *testing.T) {
	g := newTestServer(t)
	seen := map[[8]byte]bool{}
	for i := range 100 {
		g.connectAs("client" + string(rune('a'+i)))
		random := [8]byte(g.session[8:])
		assert.False(t, seen[random])
		seen[random] = true
		other := *g
		other.session[15] ^= 1
		st, _ := other.sendSteps(putRootStep())
		assert.Equal(t, nfs4.ErrBadSession, st)
	}
}

// TestBindArguments checks the BIND_CONN_TO_SESSION fields that the state does not see
// (R8881-18.34.3-4, R8881-18.34.3-5).
func TestBindArguments(t *testing.T) {
	g := newTestServer(t).connectClient()
	g.cred.UID++ // without state protection any principal may bind
	res := nfs4.BindConnRes{RDMA: true}
	st, _ := g.sendRaw(step{nfs4.OpBindConnToSession, &nfs4.BindConnArgs{Session: g.session, Dir: nfs4.BindForeOrBoth, RDMA: true}, &res})
	assert.Equal(t, nfs4.OK, st)
	assert.False(t, res.RDMA)
	assert.Equal(t, g.session, res.Session)
	st, _ = g.sendRaw(step{nfs4.OpBindConnToSession, &nfs4.BindConnArgs{Dir: nfs4.BindFore}, &res})
	assert.Equal(t, nfs4.ErrBadSession, st)
}

// TestBindWithNewCertificate checks that a host whose certificate was replaced by one from
// another authority continues its sessions over new connections.
func TestBindWithNewCertificate(t *testing.T) {
	g := newTestServer(t)
	g.peer.Security = &oncrpc.Security{Mutual: true, Owner: [32]byte{1}}
	g.connectClient()
	other := *g
	other.peer = &oncrpc.Peer{Addr: g.peer.Addr, Network: "tcp", Security: &oncrpc.Security{Mutual: true, Owner: [32]byte{2}}}
	st, _ := other.sendRaw(step{nfs4.OpBindConnToSession, &nfs4.BindConnArgs{Session: g.session, Dir: nfs4.BindForeOrBoth}, new(nfs4.BindConnRes)})
	assert.Equal(t, nfs4.OK, st)
	st, _ = other.sendSteps(putRootStep(), attrs)
	assert.Equal(t, nfs4.OK, st)
}

// TestSequenceResults checks SEQUENCE's results, even if it is the only operation, and the
// order of its checks (R8881-18.46.3-2, R8881-18.46.3-6, R8881-18.46.3-11).
func TestSequenceResults(t *testing.T) {
	g := newTestServer(t).connectClient()
	highest := g.s.state.Session(g.session).Fore.MaxRequests - 1
	for slot := range highest + 1 {
		var res nfs4.SequenceRes
		st, n := g.sendRaw(step{nfs4.OpSequence, &nfs4.SequenceArgs{Session: g.session, Sequence: 1 + slotOffset(slot, g.seq), Slot: slot, HighestSlotID: highest}, &res})
		assert.Equal(t, nfs4.OK, st)
		assert.Equal(t, 1, n)
		assert.Equal(t, nfs4.SequenceRes{Session: g.session, Sequence: 1 + slotOffset(slot, g.seq), Slot: slot, HighestSlotID: highest, TargetHighestSlotID: highest}, res)
	}
	tooMany := make([]step, 17) // one more than the session allows
	for i := range tooMany {
		tooMany[i] = putRootStep()
	}
	for name, tt := range map[string]struct {
		a    nfs4.SequenceArgs
		more []step
		want nfs4.Status
	}{
		"no session, no slot":        {nfs4.SequenceArgs{Slot: 99}, nil, nfs4.ErrBadSession},
		"too long, no slot":          {nfs4.SequenceArgs{Session: g.session, Slot: 99}, tooMany, nfs4.ErrTooManyOps},
		"no slot, no sequence":       {nfs4.SequenceArgs{Session: g.session, Slot: highest + 1, Sequence: 99}, nil, nfs4.ErrBadSlot},
		"bad highest, no sequence":   {nfs4.SequenceArgs{Session: g.session, HighestSlotID: highest + 1, Sequence: 99}, nil, nfs4.ErrBadHighSlot},
		"sequence, after all others": {nfs4.SequenceArgs{Session: g.session, Sequence: 99}, nil, nfs4.ErrSeqMisordered},
	} {
		st, n := g.sendRaw(append([]step{{nfs4.OpSequence, &tt.a, new(nfs4.SequenceRes)}}, tt.more...)...)
		assert.Equal(t, tt.want, st, name)
		assert.Equal(t, 1, n)
	}
}

// slotOffset returns seq for slot 0, which has executed calls already, and 0 for other slots.
func slotOffset(slot, seq uint32) uint32 {
	if slot == 0 {
		return seq
	}
	return 0
}

// A testStateIDs is TEST_STATEID's arguments with its list, and its results.
type testStateIDs []nfs4.StateID

func (s testStateIDs) AppendTo(b []byte) []byte {
	b = (&nfs4.TestStateIDArgs{N: uint32(len(s))}).AppendTo(b)
	for i := range s {
		b = s[i].AppendTo(b)
	}
	return b
}

func (testStateIDs) Decode(*xdr.Reader) {}

type testStatuses []nfs4.Status

func (testStatuses) AppendTo(b []byte) []byte { return b }

func (s *testStatuses) Decode(r *xdr.Reader) {
	var head nfs4.TestStateIDRes
	head.Decode(r)
	*s = nil
	for range head.N {
		*s = append(*s, nfs4.Status(r.Uint32()))
	}
}

// TestManyStateIDs checks TEST_STATEID (R8881-18.48.3-1).
func TestManyStateIDs(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	fh := g.makeFile("f", "")
	first, _, st := g.openName(openArgs("o", "f", nfs4.ShareRead, 0, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	second, _, st := g.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	closed, _, st := g.openName(openArgs("p", "f", nfs4.ShareRead, 0, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	require.Equal(t, nfs4.OK, g.closeFile(fh, closed.StateID))
	now, late := second.StateID, second.StateID
	now.SeqID, late.SeqID = 0, late.SeqID+1
	list := testStateIDs{
		second.StateID, first.StateID, now, late, closed.StateID, nfs4.AnonymousStateID, nfs4.BypassStateID, nfs4.CurrentStateID,
		nfs4.InvalidStateID,
		{SeqID: 7, Other: [nfs4.OtherSize]byte{1, 2, 3}},
		second.StateID,
	}
	const bad = nfs4.ErrBadStateID
	want := testStatuses{nfs4.OK, nfs4.ErrOldStateID, nfs4.OK, bad, bad, bad, bad, bad, bad, bad, nfs4.OK}
	var got testStatuses
	st, _ = g.sendSteps(step{nfs4.OpTestStateID, list, &got})
	assert.Equal(t, nfs4.OK, st, "without a filehandle")
	assert.Equal(t, want, got)
	st, _ = g.sendSteps(step{nfs4.OpTestStateID, testStateIDs{}, &got})
	assert.Equal(t, nfs4.OK, st)
	assert.Empty(t, got)

	small := channel
	small.MaxRequestSize, small.MaxResponseSize, small.MaxResponseSizeCached = 1<<20, 8192, 400
	g.connectWith("small", small)
	for i, tt := range []struct {
		n     int
		cache bool
		want  nfs4.Status
	}{
		{50, true, nfs4.OK},
		{100, false, nfs4.OK},
		{100, true, nfs4.ErrRepTooBigToCache},
		{3000, false, nfs4.ErrRepTooBig},
		{3000, true, nfs4.ErrRepTooBig},
	} {
		st, _ := g.sendRaw(g.sequenceStep(uint32(i+1), tt.cache), step{nfs4.OpTestStateID, make(testStateIDs, tt.n), &got})
		assert.Equal(t, tt.want, st, tt)
	}
}

// TestWants checks the wishes for delegations (R8881-18.16.3-19 to -22).
//
// R8881-18.16.3-20, R8881-18.16.3-21, R8881-18.16.3-22, R8881-18.16.4-1,
// R8881-18.16.3-14.
func TestWants(t *testing.T) {
	none := nfs4.OpenDelegation{}
	because := func(why nfs4.WhyNone) nfs4.OpenDelegation {
		return nfs4.OpenDelegation{Type: nfs4.DelegateNoneExt, Why: why}
	}
	g := newTestServer(t)
	g.minor = 1
	g.connectClient().becomeRoot()
	g.makeFile("f", "")
	for want, answer := range map[uint32]nfs4.OpenDelegation{
		0: none, 0x100: because(nfs4.WhyResource), 0x200: because(nfs4.WhyResource), 0x300: because(nfs4.WhyResource),
		0x400: because(nfs4.WhyNotWanted), 0x500: because(nfs4.WhyCancelled), 0x10000: none, 0x20000: none, 0x30100: because(nfs4.WhyResource),
	} {
		res, _, st := g.openName(openArgs("o", "f", nfs4.ShareRead|want, 0, nfs4.NoCreate))
		assert.Equal(t, nfs4.OK, st, "%#x", want)
		assert.Equal(t, answer, res.Delegation, "%#x", want)
		assert.Equal(t, nfs4.OpenLocktypePosix, res.Flags, "R8881-18.16.3-13, R8881-18.16.3-14")
	}
	for _, want := range []uint32{0x600, 0xff00, 0x40000, 0x80000000} {
		_, _, st := g.openName(openArgs("o", "f", nfs4.ShareRead|want, 0, nfs4.NoCreate))
		assert.Equal(t, nfs4.ErrInval, st, "%#x", want)
	}
}

// TestLaterWants checks the want bits that RFC 9754 adds to NFSv4.2: delegated times, and only
// an open or a delegation.
func TestLaterWants(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	g.makeFile("f", "")
	for want, answer := range map[uint32]nfs4.OpenDelegation{
		0x100000: {}, 0x200000: {}, 0x300000: {},
		0x300300: {Type: nfs4.DelegateNoneExt, Why: nfs4.WhyResource},
		0x300400: {Type: nfs4.DelegateNoneExt, Why: nfs4.WhyNotWanted},
	} {
		res, _, st := g.openName(openArgs("o", "f", nfs4.ShareRead|want, 0, nfs4.NoCreate))
		assert.Equal(t, nfs4.OK, st, "%#x", want)
		assert.Equal(t, answer, res.Delegation, "%#x", want)
	}
}

// TestDowngradeArguments checks modes that OPEN_DOWNGRADE may not have
// (R8881-18.18.3-1).
func TestDowngradeArguments(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	fh := g.makeFile("f", "")
	res, _, st := g.openName(openArgs("o", "f", nfs4.ShareBoth, nfs4.ShareBoth, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	for access := range uint32(6) {
		for deny := range uint32(6) {
			want := nfs4.ErrInval
			if access == 3 && deny == 3 {
				want = nfs4.OK
			}
			a := &nfs4.OpenDowngradeArgs{StateID: nfs4.StateID{Other: res.StateID.Other}, SeqID: access * 1000, ShareAccess: access, ShareDeny: deny}
			st, _ := g.sendSteps(putStep(fh), step{nfs4.OpOpenDowngrade, a, new(nfs4.StateIDRes)})
			assert.Equal(t, want, st, "%d %d", access, deny)
		}
	}
	a := &nfs4.OpenDowngradeArgs{StateID: nfs4.StateID{Other: res.StateID.Other}, ShareAccess: 3 | nfs4.WantNoDeleg, ShareDeny: 3}
	st, _ = g.sendSteps(putStep(fh), step{nfs4.OpOpenDowngrade, a, new(nfs4.StateIDRes)})
	assert.Equal(t, nfs4.OK, st)
}

// TestCreateByHandle checks that only a name can be created (R8881-18.16.3-1).
func TestCreateByHandle(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	fh := g.makeFile("f", "content")
	for _, claim := range []nfs4.Claim{nfs4.ClaimFH, nfs4.ClaimPrevious, nfs4.ClaimDelegCurFH, nfs4.ClaimDelegPrevFH} {
		for how := nfs4.Unchecked; how <= nfs4.Exclusive1; how++ {
			a := openArgs("o", "", nfs4.ShareBoth, 0, how)
			a.Claim = claim
			st, _ := g.sendSteps(putStep(fh), step{nfs4.OpOpen, a, new(nfs4.OpenRes)})
			assert.Equal(t, nfs4.ErrInval, st, "%d %d", claim, how)
		}
	}
}

// TestListing checks listings of an empty directory, with any hint, of one that loses names
// concurrently, and cookies (R8881-18.23.3-1 to -5, R8881-18.23.3-7).
//
// R8881-18.23.3-2, R8881-18.23.3-3, R8881-18.23.3-4, R8881-18.23.3-5.
func TestListing(t *testing.T) {
	g := newTestServer(t, newMemoryExport("/x", free)).connectClient().becomeRoot()
	var list dirListing
	st, _ := g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpReadDir, &nfs4.ReadDirArgs{MaxCount: 1000}, &list})
	assert.Equal(t, nfs4.OK, st)
	assert.True(t, list.eof)
	assert.Empty(t, list.names)
	want := map[string]bool{}
	for i := range 60 {
		name := string([]byte{'a' + byte(i/10), '0' + byte(i%10)})
		st, _ := g.sendSteps(putRootStep(), lookupStep("x"), mkdirStep(name))
		require.Equal(t, nfs4.OK, st)
		want[name] = true
	}
	for _, hint := range []uint32{0, 1, 1 << 30} {
		list = dirListing{}
		st, _ := g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpReadDir, &nfs4.ReadDirArgs{DirCount: hint, MaxCount: 10_000}, &list})
		assert.Equal(t, nfs4.OK, st)
		assert.Len(t, list.names, 60)
		assert.NotContains(t, list.names, ".")
		assert.NotContains(t, list.names, "..")
	}
	got := map[string]int{}
	a := nfs4.ReadDirArgs{MaxCount: 200}
	for list = (dirListing{}); !list.eof; a.Cookie, a.Verf = list.cookie, list.Verf {
		list = dirListing{}
		st, _ := g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpReadDir, &a, &list})
		require.Equal(t, nfs4.OK, st)
		assert.Greater(t, list.cookie, uint64(2))
		for _, name := range list.names {
			got[name]++
		}
		last := list.names[len(list.names)-1]
		st, _ = g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte(last)}, new(nfs4.ChangeRes)})
		require.Equal(t, nfs4.OK, st)
	}
	for name := range want {
		assert.Equal(t, 1, got[name], name)
	}
	a.Verf[0]++
	st, _ = g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpReadDir, &a, &list})
	assert.Contains(t, []nfs4.Status{nfs4.ErrNotSame, nfs4.ErrBadCookie}, st)
	for _, most := range []uint32{0, 10, 20} {
		st, _ = g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpReadDir, &nfs4.ReadDirArgs{MaxCount: most}, &list})
		assert.Equal(t, nfs4.ErrTooSmall, st)
	}
}

// TestRoles checks that the server has no role in pNFS, whatever a client requests
// (R8881-13.1-1, R8881-13.1-3, R8881-18.35.3-5, R8881-18.35.3-7).
func TestRoles(t *testing.T) {
	g := newTestServer(t)
	const every = 0x70003 // the three roles, and referrals and migration
	for ask := range uint32(32) {
		flags := ask>>2<<16 | ask&3
		res, st := g.exchangeID("c", 1, flags)
		assert.Equal(t, nfs4.OK, st, "%#x", flags)
		assert.Equal(t, nfs4.ExchangeUseNonPNFS|nfs4.ExchangeSuppMovedRefer, res.Flags&every, "%#x", flags)
	}
}

// TestPrincipals checks that users on one host are two principals (R8881-21-6).
func TestPrincipals(t *testing.T) {
	g := newTestServer(t).connectClient()
	g.cred.UID++
	_, st := g.exchangeID("client", 1, 0)
	assert.Equal(t, nfs4.ErrClidInUse, st)
	g.cred.UID--
	g.cred.GID++
	_, st = g.exchangeID("client", 1, 0)
	assert.Equal(t, nfs4.OK, st, "groups make no difference")
	g.cred.Flavor = 0
	_, st = g.exchangeID("client", 1, 0)
	assert.Equal(t, nfs4.ErrClidInUse, st)
}
