package nfs4client

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// revokedFlags are the flags of SEQUENCE by which a server says that it has
// revoked state of the client.
const revokedFlags = nfs4.SeqExpiredAllStateRevoked | nfs4.SeqExpiredSomeStateRevoked | nfs4.SeqAdminStateRevoked |
	nfs4.SeqRecallableStateRevoked

// heed acts on the flags of a SEQUENCE (RFC 8881, Section 8.3). The flags about
// backchannels do not concern a client without one, and a session that a restart
// of the server outlives was not asked for.
func (s *Session) heed(g *generation, flags uint32) {
	s.flags.Store(flags)
	if flags&revokedFlags == 0 || int64(time.Since(s.began)) < s.notBefore.Load() || !s.acknowledging.CompareAndSwap(false, true) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil {
		return
	}
	s.under.Go(func() {
		defer s.acknowledging.Store(false)
		freed, err := s.acknowledge(s.life, g)
		if err != nil && s.life.Err() == nil {
			s.cfg.Log.Warn("state that an NFS server has revoked is not freed yet", "err", err)
		}
		if freed == 0 { // the server means state that no file has
			s.notBefore.Store(int64(time.Since(s.began) + acknowledgePause))
		}
	})
}

// acknowledgePause is the pause after a search for revoked state that found none.
const acknowledgePause = 10 * time.Second

// acknowledge finds the files whose state the server has revoked, and frees that
// state (RFC 8881, Section 18.38). These files are lost. freed is the number of
// stateids.
func (s *Session) acknowledge(ctx context.Context, g *generation) (freed int, _ error) {
	s.mu.Lock()
	files := slices.Collect(maps.Keys(s.files))
	s.mu.Unlock()
	for _, f := range files {
		open, lock, epoch, err := f.lockState()
		if err != nil || epoch != g.epoch {
			continue
		}
		ids := tested{open}
		if lock != (nfs4.StateID{}) {
			ids = tested{lock, open} // an open is freed after its locks
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
		if _, _, now, _ := f.lockState(); len(revoked) == 0 || now != epoch { // reclaimed meanwhile
			continue
		}
		lost := error(ErrRevoked)
		if f.locked() {
			lost = lockLost(lost)
		}
		s.cfg.Log.Warn("an NFS server has revoked the state of an open file", "err", lost)
		s.lose(f, g, lost)
	}
	return freed, nil
}

// testRevoked returns those of some stateids that the server has revoked.
func (s *Session) testRevoked(ctx context.Context, g *generation, ids tested) (revoked []nfs4.StateID, err error) {
	c := s.compound()
	defer s.put(c)
	statuses := make(testStatuses, len(ids))
	c.Add(nfs4.OpTestStateID, &ids, &statuses)
	if err := s.within(ctx, g, c); err != nil {
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

// freeState makes the server forget a revoked stateid.
func (s *Session) freeState(ctx context.Context, g *generation, id nfs4.StateID) error {
	c := s.compound()
	defer s.put(c)
	c.Add(nfs4.OpFreeStateID, &nfs4.StateIDArgs{StateID: id}, &c.done)
	if err := s.within(ctx, g, c); !statusIs(err, nfs4.ErrBadStateID) { // it has gone with another
		return err
	}
	return nil
}

// tested are the arguments of TEST_STATEID.
type tested []nfs4.StateID

// AppendTo appends the wire form of t to b.
func (t *tested) AppendTo(b []byte) []byte {
	head := nfs4.TestStateIDArgs{N: uint32(len(*t))}
	b = head.AppendTo(b)
	for i := range *t {
		b = (*t)[i].AppendTo(b)
	}
	return b
}

// Decode is not used: a client decodes no arguments.
func (t *tested) Decode(r *xdr.Reader) { r.Fail(xdr.ErrValue) }

// testStatuses are the results of TEST_STATEID: as many statuses as there were
// stateids.
type testStatuses []nfs4.Status

// AppendTo is not used: a client encodes no results.
func (t *testStatuses) AppendTo(b []byte) []byte { return b }

// Decode reads t.
func (t *testStatuses) Decode(r *xdr.Reader) {
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
