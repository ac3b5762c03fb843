package nfs4test

import (
	"strings"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// replyHeader is the length of an RPC reply header in bytes. A session's limits
// include it.
const replyHeader = 24

// newSmallSession creates a session after change has reduced the fore channel's
// limits.
func (t *T) newSmallSession(change func(a *nfs4.ChannelAttrs)) *session {
	return t.newClient().newSession(func(a *nfs4.CreateSessionArgs) {
		a.Fore.MaxOperations = 32
		change(&a.Fore)
	}).completeReclaim()
}

// limits are scenarios for replies that would be longer than a session's
// limits.
var limits = []Scenario{
	{Name: "a change whose reply would be too long is not made", By: "RFC 8881, 2.10.6.4: NFS4ERR_REP_TOO_BIG", run: func(t *T) {
		t.ownDir()
		s := t.newSmallSession(func(a *nfs4.ChannelAttrs) { a.MaxResponseSize, a.MaxResponseSizeCached = 220, 220 })
		made := false
		for _, n := range []int{0, 1, 2, 3, 4} { // GETATTRs before it fill the reply
			name := strings.Repeat("d", n+1)
			ops := []op{putFH(t.ownDir())}
			for range n {
				ops = append(ops, getAttr(new(nfs4.GetAttrRes), nfs4.AttrChange))
			}
			rep := s.callWithSequence(append(ops, createOp(nfs4.TypeDir, name, modeAttrs(0o755)))...)
			assert.LessOrEqual(t, len(rep.raw)+replyHeader, 220)
			want := nfs4.ErrNoEnt
			if rep.status == nfs4.OK {
				want, made = nfs4.OK, true
			} else {
				assert.Equal(t, nfs4.ErrRepTooBig, rep.status)
			}
			t.expectStatus(want, putFH(t.ownDir()), lookupOp(name))
		}
		assert.True(t, made, "an only operation fits")
	}},
	{Name: "a change whose reply cannot be kept is not made", By: "RFC 8881, 2.10.6.4: MUST return NFS4ERR_REP_TOO_BIG_TO_CACHE", run: func(t *T) {
		t.ownDir()
		s := t.newSmallSession(func(a *nfs4.ChannelAttrs) { a.MaxResponseSizeCached = 150 })
		a := withCreate(openName("f", "a", nfs4.ShareBoth, 0), nfs4.Guarded, modeAttrs(0o644))
		ops := []op{withCacheThis(s.sequenceOp(0)), putFH(t.ownDir()), openOp(a, new(nfs4.OpenRes)), getFH(new(nfs4.HandleRes))}
		rep := s.callCompound(ops...).checkStatus(t, 3, nfs4.ErrRepTooBigToCache)
		assert.Equal(t, rep.replayable(), s.callCompound(ops...).replayable(), "this reply is kept")
		s.seq[0]++
		s.expectStatus(nfs4.ErrNoEnt, putFH(t.ownDir()), lookupOp("f"))
		s.expectStatus(nfs4.OK, ops[1:]...) // without sa_cachethis
	}},
	{Name: "a reply that is not to be kept may be longer than the cache", By: "RFC 8881, 18.36.3: ca_maxresponsesize_cached is for cached replies", run: func(t *T) {
		s := t.newSmallSession(func(a *nfs4.ChannelAttrs) { a.MaxResponseSizeCached = 200 })
		s.expectStatus(nfs4.OK, longResultOps()...)
	}},
	{Name: "SEQUENCE asks to keep what no cache has room for", By: "RFC 8881, 2.10.6.4: NFS4ERR_REP_TOO_BIG_TO_CACHE", run: func(t *T) {
		s := t.newSmallSession(func(a *nfs4.ChannelAttrs) { a.MaxResponseSizeCached = 10 })
		rep := s.callCompound(withCacheThis(s.sequenceOp(0)), putRootFH(), getAttr(new(nfs4.GetAttrRes), nfs4.AttrSupportedAttrs))
		assert.Equal(t, nfs4.ErrRepTooBigToCache, rep.status)
		if rep.resultCount > 1 {
			s.seq[0]++
		}
		s.expectStatus(nfs4.OK, putRootFH())
	}},
	{Name: "READs that are too long together", By: "RFC 8881, 2.10.6.4, 18.22.3: NFS4ERR_REP_TOO_BIG, or fewer bytes", run: func(t *T) {
		f := t.newFile("f", strings.Repeat("x", 3000))
		s := f.s.client.newSession(func(a *nfs4.CreateSessionArgs) { a.Fore.MaxResponseSize = 2000 })
		var one, two, three nfs4.ReadRes
		rep := s.callWithSequence(putFH(f.fh), readOp(f.id, 0, 1500, &one), readOp(f.id, 1500, 1500, &two), readOp(f.id, 0, 1500, &three))
		assert.Contains(t, []nfs4.Status{nfs4.OK, nfs4.ErrRepTooBig}, rep.status)
		assert.LessOrEqual(t, len(rep.raw)+replyHeader, 2000)
		assert.Len(t, one.Data, 1500)
		s.expectStatus(nfs4.OK, putRootFH())
	}},
	{Name: "READDIR is as long as the reply may be", By: "RFC 8881, 18.23.3: the server MAY return less", run: func(t *T) {
		fh, _ := t.makeFullDir(40)
		s := t.newSmallSession(func(a *nfs4.ChannelAttrs) { a.MaxResponseSize = 600 })
		var res listing
		rep := s.callWithSequence(putFH(fh), readDir(nfs4.ReadDirArgs{DirCount: 8192, MaxCount: 8192}, &res))
		assert.Contains(t, []nfs4.Status{nfs4.OK, nfs4.ErrRepTooBig}, rep.status)
		assert.LessOrEqual(t, len(rep.raw)+replyHeader, 600)
		assert.True(t, rep.status != nfs4.OK || len(res.names) > 0 && !res.eof)
	}},
	{Name: "READLINK with too long a reply", By: "RFC 8881, 2.10.6.4: NFS4ERR_REP_TOO_BIG", run: func(t *T) {
		o := createOp(nfs4.TypeLnk, "l", nfs4.Attrs{})
		o.args.(*nfs4.CreateArgs).LinkData = []byte(strings.Repeat("p", 1000))
		var res nfs4.HandleRes
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), o, getFH(&res))
		fh := append(nfs4.FH(nil), res.Object...)
		s := t.newSmallSession(func(a *nfs4.ChannelAttrs) { a.MaxResponseSize = 500 })
		s.expectStatus(nfs4.ErrRepTooBig, putFH(fh), readLink(new(nfs4.ReadLinkRes)))
		t.expectStatus(nfs4.OK, putFH(fh), readLink(new(nfs4.ReadLinkRes)))
	}},
	{Name: "a long tag and a short reply", By: "RFC 8881, 2.10.6.4: NFS4ERR_REP_TOO_BIG", Linux: "GARBAGE_ARGS for long tags", run: func(t *T) {
		s := t.newSmallSession(func(a *nfs4.ChannelAttrs) { a.MaxResponseSize = 300 })
		x := compound{tag: strings.Repeat("t", 400), minor: t.Minor, ops: []op{s.sequenceOp(0), putRootFH()}}
		stat, results, err := s.callProc(nfs4.ProcCompound, x.encodeArgs())
		assert.NoError(t, err)
		if assert.Zero(t, stat) {
			assert.Equal(t, nfs4.ErrRepTooBig, x.decodeResults(t, results).status)
		}
	}},
	{Name: "WRITE as long as the session's requests", By: "RFC 8881, 18.36.3: ca_maxrequestsize", run: func(t *T) {
		f := t.newFile("f", "")
		s := f.s.client.newSession(func(a *nfs4.CreateSessionArgs) { a.Fore.MaxRequestSize = 4096 })
		var res nfs4.WriteRes
		s.expectStatus(nfs4.OK, putFH(f.fh), writeOp(f.id, 0, nfs4.Unstable, strings.Repeat("w", 3600), &res))
		assert.NotZero(t, res.Count)
		assert.Equal(t, nfs4.ErrReqTooBig, s.callWithSequence(putFH(f.fh), writeOp(f.id, 0, nfs4.Unstable, strings.Repeat("w", 4200), &res)).status)
		s.expectStatus(nfs4.OK, putRootFH())
	}},
	{Name: "COMPOUND of the most operations", By: "RFC 8881, 18.36.3: ca_maxoperations", run: func(t *T) {
		s := t.newClient().newSession(func(a *nfs4.CreateSessionArgs) { a.Fore.MaxOperations = 16 })
		var ops []op
		for range s.fore.MaxOperations - 1 {
			ops = append(ops, putRootFH())
		}
		s.expectStatus(nfs4.OK, ops...)
		assert.Equal(t, nfs4.ErrTooManyOps, s.callWithSequence(append(ops, putRootFH())...).status)
		s.expectStatus(nfs4.OK, ops...)
	}},
}
