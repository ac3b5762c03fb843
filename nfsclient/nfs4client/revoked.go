package nfs4client

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// revokedFlags are the SEQUENCE flags with which a server reports that it has
// revoked the client's state.
const revokedFlags = nfs4.SeqExpiredAllStateRevoked | nfs4.SeqExpiredSomeStateRevoked | nfs4.SeqAdminStateRevoked |
	nfs4.SeqRecallableStateRevoked

// handleFlags acts on SEQUENCE's flags (RFC 8881, Section 8.3). Backchannel
// flags do not concern a client without one, nor does the flag for persistent
// sessions, which Session does not request.
func (s *Session) handleFlags(g *sessionState, flags uint32) {
	s.flags.Store(flags)
	if flags&revokedFlags == 0 || int64(time.Since(s.startTime)) < s.nextRevokedCheck.Load() || !s.freeingRevoked.CompareAndSwap(false, true) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return
	}
	s.background.Go(func() {
		defer s.freeingRevoked.Store(false)
		freed, err := s.freeRevokedStates(s.ctx, g)
		if err != nil && s.ctx.Err() == nil {
			s.cfg.Log.Warn("cannot free state that the NFS server has revoked", "err", err)
		}
		if freed == 0 { // the server means state that no File has
			s.nextRevokedCheck.Store(int64(time.Since(s.startTime) + revokedCheckPause))
		}
	})
}

// revokedCheckPause is the pause after a check for revoked state that found
// none.
const revokedCheckPause = 10 * time.Second

// freeRevokedStates finds the files whose state the server has revoked, and
// frees that state (RFC 8881, Section 18.38). These files are lost. freed is
// the number of freed stateids.
func (s *Session) freeRevokedStates(ctx context.Context, g *sessionState) (freed int, _ error) {
	s.mu.Lock()
	files := slices.Collect(maps.Keys(s.files))
	s.mu.Unlock()
	for _, f := range files {
		open, lock, epoch, err := f.lockState()
		if err != nil || epoch != g.epoch {
			continue
		}
		ids := testArgs{open}
		if lock != (nfs4.StateID{}) {
			ids = testArgs{lock, open} // locks are freed before their open
		}
		revoked, err := s.testRevoked(ctx, g, ids)
		if err != nil {
			return freed, err
		}
		for _, id := range revoked {
			if err := s.freeState(ctx, g, id); err != nil {
				return freed, err
			}
			freed++
		}
		if _, _, now, _ := f.lockState(); len(revoked) == 0 || now != epoch { // reclaimed since
			continue
		}
		lost := error(ErrRevoked)
		if f.hasLocks() {
			lost = lockLostError(lost)
		}
		s.cfg.Log.Warn("the NFS server has revoked an open file's state", "err", lost)
		s.markFileLost(f, g, lost)
	}
	return freed, nil
}

// testRevoked returns the stateids in ids that the server has revoked.
func (s *Session) testRevoked(ctx context.Context, g *sessionState, ids testArgs) (revoked []nfs4.StateID, err error) {
	c := s.getCompound()
	defer s.putCompound(c)
	statuses := make(testResults, len(ids))
	c.Add(nfs4.OpTestStateID, &ids, &statuses)
	if err := s.doInSession(ctx, g, c); err != nil {
		return nil, err
	}
	for i, status := range statuses {
		switch status {
		case nfs4.ErrAdminRevoked, nfs4.ErrDelegRevoked, nfs4.ErrExpired:
			revoked = append(revoked, ids[i])
		}
	}
	return revoked, nil
}

// freeState frees a revoked stateid on the server.
func (s *Session) freeState(ctx context.Context, g *sessionState, id nfs4.StateID) error {
	c := s.getCompound()
	defer s.putCompound(c)
	c.Add(nfs4.OpFreeStateID, &nfs4.StateIDArgs{StateID: id}, &c.statusRes)
	if err := s.doInSession(ctx, g, c); !hasStatus(err, nfs4.ErrBadStateID) { // it was freed with another
		return err
	}
	return nil
}

// testArgs are TEST_STATEID's arguments.
type testArgs []nfs4.StateID

// AppendTo appends the wire form of t to b.
func (t *testArgs) AppendTo(b []byte) []byte {
	head := nfs4.TestStateIDArgs{N: uint32(len(*t))}
	b = head.AppendTo(b)
	for i := range *t {
		b = (*t)[i].AppendTo(b)
	}
	return b
}

// Decode is not used: a client decodes no arguments.
func (t *testArgs) Decode(r *xdr.Reader) { r.Fail(xdr.ErrValue) }

// testResults are TEST_STATEID's results: one status per stateid.
type testResults []nfs4.Status

// AppendTo is not used: a client encodes no results.
func (t *testResults) AppendTo(b []byte) []byte { return b }

// Decode reads t.
func (t *testResults) Decode(r *xdr.Reader) {
	var head nfs4.TestStateIDRes
	if head.Decode(r); head.Status != nfs4.OK {
		return
	}
	if int64(head.N) != int64(len(*t)) {
		r.Fail(xdr.ErrValue)
	}
	for i := range *t {
		(*t)[i] = nfs4.Status(r.Uint32())
	}
}
