package nfs4client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// Pauses before a call that the server has postponed is repeated.
const (
	firstRetryPause = 5 * time.Millisecond
	lastRetryPause  = 2 * time.Second
)

// maxSessions is the number of sessions in which a call is tried. A server that
// loses more is broken.
const maxSessions = 8

// Do executes c, preceded by SEQUENCE. Do waits for a slot, creates a new
// connection and a new session if necessary, and repeats a call that the server
// postpones (NFS4ERR_DELAY, NFS4ERR_GRACE) before its first change. A failed
// operation terminates the COMPOUND, and the error is an Error. If ctx ends, Do
// returns immediately, and the server may have executed c.
func (s *Session) Do(ctx context.Context, c *Compound) error {
	var delay time.Duration
	for range maxSessions {
		g, err := s.currentSession(ctx)
		if err != nil {
			return err
		}
		err = s.callWithRetries(ctx, g, c, &delay)
		if !errors.Is(err, errBroken) {
			return err
		}
		if err := s.recoverFrom(ctx, g); err != nil {
			return err
		}
	}
	return replyError("SEQUENCE: the server has lost %d sessions in a row", maxSessions)
}

// doInSession executes c in the session g, and does not replace g if it is
// lost.
func (s *Session) doInSession(ctx context.Context, g *sessionState, c *Compound) error {
	var delay time.Duration
	return s.callWithRetries(ctx, g, c, &delay)
}

// callWithRetries executes c in one session, and repeats it while the server
// postpones it.
func (s *Session) callWithRetries(ctx context.Context, g *sessionState, c *Compound, delay *time.Duration) error {
	if err := s.checkSize(g, c); err != nil {
		return err
	}
	for {
		again, err := s.callInSlot(ctx, g, c)
		if !again {
			return err
		}
		c.x.Release()
		if hasStatus(err, nfs4.ErrRetryUncachedRep) {
			continue
		}
		if err := pauseBeforeRetry(ctx, delay, err); err != nil {
			return err
		}
	}
}

// pauseBeforeRetry waits before a postponed call is repeated, each time longer.
// If ctx ends, the error contains its cause and the server's status, because
// the server did reply.
func pauseBeforeRetry(ctx context.Context, delay *time.Duration, refusal error) error {
	*delay = min(max(2**delay, firstRetryPause), lastRetryPause)
	err := sleepContext(ctx, *delay)
	if e, ok := errors.AsType[*Error](refusal); ok && err != nil {
		return fmt.Errorf("%w, while the server postponed %v (%w)", err, e.Op, e.Status)
	}
	return err
}

// checkSize checks c against the session's limits.
func (s *Session) checkSize(g *sessionState, c *Compound) error {
	switch n := c.requestLen(); {
	case c.err != nil:
		return c.err
	case len(c.steps)+1 > int(g.fore.MaxOperations):
		return fmt.Errorf("nfs4client: the COMPOUND has %d operations, but the server accepts %d", len(c.steps)+1, g.fore.MaxOperations)
	case n > int(g.fore.MaxRequestSize)+headerSlack:
		return fmt.Errorf("nfs4client: the request has %d bytes, but the server accepts %d", n-headerSlack, g.fore.MaxRequestSize)
	}
	return nil
}

// callInSlot executes a call in its own slot. again reports that the call was
// not executed, or can be repeated safely; err is then the reason.
func (s *Session) callInSlot(ctx context.Context, g *sessionState, c *Compound) (again bool, err error) {
	id, highest, err := g.slots.acquireSlot(ctx, c)
	if err != nil {
		return false, s.errorOrClosed(err)
	}
	defer g.slots.releaseSlot(id)
	sl := &g.slots.slot[id]
	if sl.uncertain {
		if err := s.probeSlot(ctx, g, id); err != nil {
			return false, err
		}
	}
	c.seqArgs = nfs4.SequenceArgs{Session: g.id, Slot: id, Sequence: sl.nextSeqID, HighestSlotID: highest, CacheThis: c.cacheThis}
	if err := s.sendUntilSequenced(ctx, g, sl, c); err != nil {
		return false, err
	}
	ran, err := c.decodeResults(1)
	if err == nil {
		return false, nil
	}
	return s.canRepeat(c, ran, err)
}

// canRepeat decides whether to repeat a call that failed with err after ran
// operations.
func (s *Session) canRepeat(c *Compound, ran int, err error) (again bool, _ error) {
	switch {
	case hasStatus(err, nfs4.ErrRetryUncachedRep):
		if c.cacheThis {
			return false, ErrUncertain
		}
		return true, err
	case hasStatus(err, nfs4.ErrDelay, nfs4.ErrGrace):
		for _, done := range c.steps[:ran] {
			if mustCacheReply(done.op) {
				return false, err
			}
		}
		return true, err
	}
	return false, err
}

// sendUntilSequenced sends a call until the server has accepted its sequence
// ID, and decodes SEQUENCE's results. After an error the slot is uncertain,
// unless the session is broken.
func (s *Session) sendUntilSequenced(ctx context.Context, g *sessionState, sl *slot, c *Compound) error {
	sl.uncertain = true
	retransmitted := false // an earlier transmission may have been executed
	var delay time.Duration
	for {
		c.prepareExchange(s, true)
		c.limitResults(g)
		sent := time.Since(s.startTime)
		replyCtx := ctx
		if c.outlastsCaller {
			replyCtx = s.ctx
		}
		err := s.redialer.callServer(ctx, replyCtx, &c.x)
		switch {
		case err != nil && isConnLost(err) && ctx.Err() == nil && !s.redialer.isClosed():
			retransmitted = true
			continue
		case err != nil:
			return s.errorOrClosed(err)
		}
		status := nfs4.OK
		if err = c.decodeHeader(true); err == nil {
			status, err = c.decodeSequence()
		}
		switch {
		case err != nil:
			return err
		case status == nfs4.OK:
			sl.nextSeqID++
			sl.uncertain = false
			c.epoch = g.epoch
			s.lastRenewal.Store(int64(sent)) // the server's lease starts no earlier
			if !retransmitted {              // a repeated reply may be old (RFC 8881, Section 2.10.6.1.1)
				g.slots.setTarget(min(c.seqRes.TargetHighestSlotID, c.seqRes.HighestSlotID))
				s.handleFlags(g, c.seqRes.Flags)
			}
			return nil
		}
		c.x.Release()
		switch status {
		case nfs4.ErrDelay:
			if err := pauseBeforeRetry(ctx, &delay, &Error{nfs4.OpSequence, status}); err != nil {
				return err
			}
		case nfs4.ErrConnNotBoundToSession:
			if err := s.bindConn(ctx, g); err != nil {
				return err
			}
		case nfs4.ErrBadSession, nfs4.ErrDeadSession, nfs4.ErrBadSlot, nfs4.ErrBadHighSlot, nfs4.ErrSeqMisordered, nfs4.ErrSeqFalseRetry:
			g.slots.breakSession()
			if retransmitted && c.unrepeatable {
				return ErrUncertain
			}
			return errBroken
		default:
			return &Error{nfs4.OpSequence, status}
		}
	}
}

// probeSlot resynchronizes a slot whose last call was abandoned, by a single
// SEQUENCE with the same sequence ID. If the server has not seen the abandoned
// call, it will no longer execute it. If the server has seen it, the reply is
// the cached one or NFS4ERR_SEQ_FALSE_RETRY. In both cases that sequence ID is
// used up.
func (s *Session) probeSlot(ctx context.Context, g *sessionState, id uint32) error {
	c := s.getCompound()
	defer s.putCompound(c)
	sl := &g.slots.slot[id]
	c.seqArgs = nfs4.SequenceArgs{Session: g.id, Slot: id, Sequence: sl.nextSeqID, HighestSlotID: id}
	var delay time.Duration
	for {
		c.prepareExchange(s, true)
		c.x.MaxResults = max(c.x.MaxResults, maxCachedReply) // the abandoned call's cached reply may be this long
		c.limitResults(g)
		err := s.redialer.callServer(ctx, ctx, &c.x)
		switch {
		case err != nil && isConnLost(err) && ctx.Err() == nil && !s.redialer.isClosed():
			continue
		case err != nil:
			return s.errorOrClosed(err)
		}
		c.head.Decode(&c.x.Results)
		op, status := nfs4.Op(c.x.Results.Uint32()), nfs4.Status(c.x.Results.Uint32())
		if c.x.Results.Err() != nil || op != nfs4.OpSequence {
			return replyError("single SEQUENCE: status %v for %v", status, op)
		}
		c.x.Release()
		switch status {
		case nfs4.OK, nfs4.ErrSeqFalseRetry, nfs4.ErrRetryUncachedRep:
			sl.nextSeqID++
			sl.uncertain = false
			return nil
		case nfs4.ErrDelay:
			if err := pauseBeforeRetry(ctx, &delay, &Error{nfs4.OpSequence, status}); err != nil {
				return err
			}
		case nfs4.ErrConnNotBoundToSession:
			if err := s.bindConn(ctx, g); err != nil {
				return err
			}
		default:
			g.slots.breakSession()
			return errBroken
		}
	}
}

// bindConn binds the connection to the session's fore channel (RFC 8881,
// Section 18.34). Most servers bind a connection at its first SEQUENCE.
func (s *Session) bindConn(ctx context.Context, g *sessionState) error {
	c := s.getCompound()
	defer s.putCompound(c)
	var res nfs4.BindConnRes
	c.Add(nfs4.OpBindConnToSession, &nfs4.BindConnArgs{Session: g.id, Dir: nfs4.BindFore}, &res)
	return s.doWithoutSequence(ctx, c)
}

// doWithoutSequence executes a one-operation Compound without SEQUENCE. Such
// operations may be repeated.
func (s *Session) doWithoutSequence(ctx context.Context, c *Compound) error {
	var delay time.Duration
	for {
		c.prepareExchange(s, false)
		err := s.redialer.callServer(ctx, ctx, &c.x)
		switch {
		case err != nil && isConnLost(err) && ctx.Err() == nil && !s.redialer.isClosed():
			continue
		case err != nil:
			return err
		}
		if err = c.decodeHeader(false); err == nil {
			_, err = c.decodeResults(0)
		}
		if err == nil {
			return nil
		}
		c.x.Release()
		if !hasStatus(err, nfs4.ErrDelay) {
			return err
		}
		if err := pauseBeforeRetry(ctx, &delay, err); err != nil {
			return err
		}
	}
}

// errorOrClosed returns ErrClosed if the Session is closed, and otherwise err.
func (s *Session) errorOrClosed(err error) error {
	if s.ctx.Err() != nil {
		return ErrClosed
	}
	return err
}
