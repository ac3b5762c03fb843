package nfs4client

import (
	"bytes"
	"context"
	"errors"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A repair makes a session in place of a lost one.
type repair struct {
	done chan struct{} // closed when err is set
	err  error
}

// present returns the session in force.
func (s *Session) present(ctx context.Context) (*generation, error) {
	switch {
	case s.life.Err() != nil:
		return nil, ErrClosed
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return s.now.Load(), nil
}

// recover replaces a broken session, unless another call has done that. The
// work goes on if ctx ends.
func (s *Session) recover(ctx context.Context, broken *generation) error {
	s.mu.Lock()
	if s.now.Load() != broken {
		s.mu.Unlock()
		return nil
	}
	if s.life.Err() != nil {
		s.mu.Unlock()
		return ErrClosed
	}
	r := s.repair
	if r == nil {
		r = &repair{done: make(chan struct{})}
		s.repair = r
		s.under.Go(func() { s.mend(r, broken) })
	}
	s.mu.Unlock()
	select {
	case <-r.done:
		return s.ended(r.err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// mend makes a session, and reclaims the files if the client ID is lost too.
func (s *Session) mend(r *repair, broken *generation) {
	g, err := s.renovate(s.life, broken)
	for lostAgain(err) && s.life.Err() == nil { // lost again before the session was complete
		if err = sleep(s.life, firstDelay); err == nil {
			g, err = s.renovate(s.life, broken)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.now.Store(g)
	}
	s.repair, r.err = nil, err
	close(r.done)
}

// lostAgain reports whether err says that the server has lost a session, or a
// client ID, that is being made. All that is done with it may be done again.
func lostAgain(err error) bool {
	return errors.Is(err, errBroken) || errors.Is(err, ErrUncertain) || statusIs(err, nfs4.ErrStaleClientID)
}

// renovate makes a session for the client ID, or a new client ID.
func (s *Session) renovate(ctx context.Context, broken *generation) (*generation, error) {
	scope := s.Server().Scope
	g, err := s.createSession(ctx)
	if statusIs(err, nfs4.ErrStaleClientID, nfs4.ErrSeqMisordered) {
		if statusIs(err, nfs4.ErrSeqMisordered) {
			s.verf = newVerifier() // the server knows the client ID, but not its CREATE_SESSION: start over
		}
		g, err = s.connect(ctx)
	}
	if err != nil {
		return nil, err
	}
	if g.epoch == broken.epoch {
		return g, nil
	}
	if !bytes.Equal(scope, s.Server().Scope) {
		s.cfg.Log.Warn("another NFS server answers, so all open files are lost")
		for _, f := range s.list(g.epoch) {
			s.lose(f, g, ErrOtherServer)
		}
		err = s.complete(ctx, g)
	} else {
		s.cfg.Log.Info("the server has lost the client ID, so its files are reclaimed", "clientid", g.epoch)
		err = s.reclaim(ctx, g)
	}
	if err == nil {
		err = s.learnLease(ctx, g) // which may be another lease (RFC 8881, Section 8.4.2.1)
	}
	return g, err
}

// reclaim gets the open files back from a server that has restarted (RFC 8881,
// Section 8.4.2), and opens the files anew that the server does not give back.
// A file that cannot be opened any more is lost: its calls fail.
func (s *Session) reclaim(ctx context.Context, g *generation) error {
	var rest []*File
	for _, f := range s.list(g.epoch) {
		err := f.reopen(ctx, g, nfs4.ClaimPrevious)
		switch {
		case err == nil:
		case errors.Is(err, ErrLockLost):
			s.warn(err)
			s.lose(f, g, err)
		case refused(err):
			rest = append(rest, f)
		default:
			return err
		}
	}
	if err := s.complete(ctx, g); err != nil {
		return err
	}
	for _, f := range rest {
		err := f.reopen(ctx, g, nfs4.ClaimFH)
		switch {
		case err == nil:
		case refused(err):
			s.warn(err)
			s.lose(f, g, err)
		default:
			return err
		}
	}
	return nil
}

// warn tells that a file is lost.
func (s *Session) warn(err error) {
	s.cfg.Log.Warn("an open file was lost with the server's state", "err", err)
}

// lose makes all calls of f fail. A later restart of the server gives f back
// neither.
func (s *Session) lose(f *File, g *generation, err error) {
	f.mu.Lock()
	f.epoch, f.err = g.epoch, err
	f.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.files, f)
}

// refused reports whether err is a server's refusal of an operation.
func refused(err error) bool {
	_, ok := errors.AsType[*Error](err)
	return ok
}

// list returns the open files, and notes that later answers of the server of an
// earlier epoch are not among them.
func (s *Session) list(epoch uint64) []*File {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed.Store(epoch)
	all := make([]*File, 0, len(s.files))
	for f := range s.files {
		all = append(all, f)
	}
	return all
}
