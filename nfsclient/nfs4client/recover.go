package nfs4client

import (
	"bytes"
	"context"
	"errors"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A recovery replaces a lost session.
type recovery struct {
	done chan struct{} // closed when err is set
	err  error
}

// currentSession returns the current session.
func (s *Session) currentSession(ctx context.Context) (*sessionState, error) {
	switch {
	case s.ctx.Err() != nil:
		return nil, ErrClosed
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return s.current.Load(), nil
}

// recoverFrom replaces a broken session, unless another call has done so. The
// recovery continues if ctx ends.
func (s *Session) recoverFrom(ctx context.Context, broken *sessionState) error {
	s.mu.Lock()
	if s.current.Load() != broken {
		s.mu.Unlock()
		return nil
	}
	if s.ctx.Err() != nil {
		s.mu.Unlock()
		return ErrClosed
	}
	r := s.recovery
	if r == nil {
		r = &recovery{done: make(chan struct{})}
		s.recovery = r
		s.background.Go(func() { s.runRecovery(r, broken) })
	}
	s.mu.Unlock()
	select {
	case <-r.done:
		return s.errorOrClosed(r.err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// runRecovery creates a session, and reclaims the files if the client ID is
// lost too.
func (s *Session) runRecovery(r *recovery, broken *sessionState) {
	g, err := s.replaceSession(s.ctx, broken)
	for isLostAgain(err) && s.ctx.Err() == nil { // lost again before the session was complete
		if err = sleepContext(s.ctx, firstRetryPause); err == nil {
			g, err = s.replaceSession(s.ctx, broken)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.current.Store(g)
	}
	s.recovery, r.err = nil, err
	close(r.done)
}

// isLostAgain reports whether err says that the server has lost the session or
// client ID that is being created. All its operations may then be repeated.
func isLostAgain(err error) bool {
	return errors.Is(err, errBroken) || errors.Is(err, ErrUncertain) || hasStatus(err, nfs4.ErrStaleClientID)
}

// replaceSession creates a session for the client ID, or for a new one if that
// is lost, and reclaims the files.
func (s *Session) replaceSession(ctx context.Context, broken *sessionState) (*sessionState, error) {
	scope := s.Server().Scope
	g, err := s.createSession(ctx)
	if hasStatus(err, nfs4.ErrStaleClientID, nfs4.ErrSeqMisordered) {
		if hasStatus(err, nfs4.ErrSeqMisordered) {
			s.verifier = newVerifier() // the server knows the client ID, but not its CREATE_SESSION: start over
		}
		g, err = s.connectServer(ctx)
	}
	if err != nil {
		return nil, err
	}
	if g.epoch == broken.epoch {
		return g, nil
	}
	if !bytes.Equal(scope, s.Server().Scope) {
		s.cfg.Log.Warn("another NFS server has taken over; all open files are lost")
		for _, f := range s.listFiles(g.epoch) {
			s.markFileLost(f, g, ErrOtherServer)
		}
		err = s.sendReclaimComplete(ctx, g)
	} else {
		s.cfg.Log.Info("the server has lost the client ID; reclaiming open files", "clientid", g.epoch)
		err = s.reclaimFiles(ctx, g)
	}
	if err == nil {
		err = s.fetchLease(ctx, g) // the lease time may have changed (RFC 8881, Section 8.4.2.1)
	}
	return g, err
}

// reclaimFiles reclaims the open files on a server that has restarted (RFC
// 8881, Section 8.4.2), and opens the files whose reclaim the server rejects. A
// file that can no longer be opened is lost: its calls fail.
func (s *Session) reclaimFiles(ctx context.Context, g *sessionState) error {
	var rest []*File
	for _, f := range s.listFiles(g.epoch) {
		err := f.reclaimOpen(ctx, g, nfs4.ClaimPrevious)
		switch {
		case err == nil:
		case errors.Is(err, ErrLockLost):
			s.warnFileLost(err)
			s.markFileLost(f, g, err)
		case isStatusError(err):
			rest = append(rest, f)
		default:
			return err
		}
	}
	if err := s.sendReclaimComplete(ctx, g); err != nil {
		return err
	}
	for _, f := range rest {
		err := f.reclaimOpen(ctx, g, nfs4.ClaimFH)
		switch {
		case err == nil:
		case isStatusError(err):
			s.warnFileLost(err)
			s.markFileLost(f, g, err)
		default:
			return err
		}
	}
	return nil
}

// warnFileLost logs that a file is lost.
func (s *Session) warnFileLost(err error) {
	s.cfg.Log.Warn("an open file was lost with the server's state", "err", err)
}

// markFileLost makes all calls on f fail. It is not reclaimed after a later
// server restart either.
func (s *Session) markFileLost(f *File, g *sessionState, err error) {
	f.mu.Lock()
	f.epoch, f.err = g.epoch, err
	f.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.files, f)
}

// isStatusError reports whether err is an Error: the server has rejected an
// operation.
func isStatusError(err error) bool {
	_, ok := errors.AsType[*Error](err)
	return ok
}

// listFiles returns the open files, and records the epoch: files and locks from
// later replies in an earlier epoch are not included.
func (s *Session) listFiles(epoch uint64) []*File {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listedEpoch.Store(epoch)
	all := make([]*File, 0, len(s.files))
	for f := range s.files {
		all = append(all, f)
	}
	return all
}
