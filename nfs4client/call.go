package nfs4client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// Pauses before a call that the server has put off is made again.
const (
	firstDelay = 5 * time.Millisecond
	lastDelay  = 2 * time.Second
)

// maxSessions is how many sessions a call may outlive. A server that loses more
// of them does not work.
const maxSessions = 8

// Do executes c, with SEQUENCE in front. Do waits for a slot, makes a new
// connection and a new session if necessary, and repeats a call that the server
// puts off (NFS4ERR_DELAY, NFS4ERR_GRACE) before its first change. An operation
// that fails ends the COMPOUND, and the error is an Error. If ctx ends, Do
// returns at once, and the server may have executed c.
func (s *Session) Do(ctx context.Context, c *Compound) error {
	var delay time.Duration
	for range maxSessions {
		g, err := s.present(ctx)
		if err != nil {
			return err
		}
		err = s.patiently(ctx, g, c, &delay)
		if !errors.Is(err, errBroken) {
			return err
		}
		if err := s.recover(ctx, g); err != nil {
			return err
		}
	}
	return bad("SEQUENCE: the server has lost %d sessions in a row", maxSessions)
}

// within is Do in one session, which is not replaced.
func (s *Session) within(ctx context.Context, g *generation, c *Compound) error {
	var delay time.Duration
	return s.patiently(ctx, g, c, &delay)
}

// patiently makes a call in one session, and repeats the call if the server
// puts the call off.
func (s *Session) patiently(ctx context.Context, g *generation, c *Compound, delay *time.Duration) error {
	if err := s.check(g, c); err != nil {
		return err
	}
	for {
		again, err := s.once(ctx, g, c)
		if !again {
			return err
		}
		c.x.Release()
		if statusIs(err, nfs4.ErrRetryUncachedRep) {
			continue
		}
		if err := pause(ctx, delay, err); err != nil {
			return err
		}
	}
}

// pause waits before a call is made again that the server has put off, each time
// longer. If ctx ends, the error is its cause, and tells the server's status as
// well: for that status the server was not silent.
func pause(ctx context.Context, delay *time.Duration, refusal error) error {
	*delay = min(max(2**delay, firstDelay), lastDelay)
	err := sleep(ctx, *delay)
	if e, ok := errors.AsType[*Error](refusal); ok && err != nil {
		return fmt.Errorf("%w, while the server put off %v (%w)", err, e.Op, e.Status)
	}
	return err
}

// check checks that a call fits into the session.
func (s *Session) check(g *generation, c *Compound) error {
	switch n := c.requestLen(); {
	case c.err != nil:
		return c.err
	case len(c.steps)+1 > int(g.fore.MaxOperations):
		return fmt.Errorf("nfs4client: a COMPOUND of %d operations, but the server takes %d", len(c.steps)+1, g.fore.MaxOperations)
	case n > int(g.fore.MaxRequestSize)+slack:
		return fmt.Errorf("nfs4client: a request of %d bytes, but the server takes %d", n-slack, g.fore.MaxRequestSize)
	}
	return nil
}

// once makes a call in a slot of its own. again reports that the call was not
// executed, or that its repetition does no harm; err is then the reason.
func (s *Session) once(ctx context.Context, g *generation, c *Compound) (again bool, err error) {
	id, highest, err := g.slots.take(ctx, c)
	if err != nil {
		return false, s.ended(err)
	}
	defer g.slots.give(id)
	sl := &g.slots.slot[id]
	if sl.uncertain {
		if err := s.probe(ctx, g, id); err != nil {
			return false, err
		}
	}
	c.seq = nfs4.SequenceArgs{Session: g.id, Slot: id, Sequence: sl.next, HighestSlotID: highest, CacheThis: c.keep}
	if err := s.send(ctx, g, sl, c); err != nil {
		return false, err
	}
	ran, err := c.rest(1)
	if err == nil {
		return false, nil
	}
	return s.putOff(c, ran, err)
}

// putOff decides about a call that ended with an error after ran operations.
func (s *Session) putOff(c *Compound, ran int, err error) (again bool, _ error) {
	switch {
	case statusIs(err, nfs4.ErrRetryUncachedRep):
		if c.keep {
			return false, ErrUncertain
		}
		return true, err
	case statusIs(err, nfs4.ErrDelay, nfs4.ErrGrace):
		for _, done := range c.steps[:ran] {
			if changes(done.op) {
				return false, err
			}
		}
		return true, err
	}
	return false, err
}

// send sends a call until the server has taken its sequence ID, and reads the
// results of SEQUENCE. After an error the slot is uncertain, unless the session
// is broken.
func (s *Session) send(ctx context.Context, g *generation, sl *slot, c *Compound) error {
	sl.uncertain = true
	unsure := false // an earlier transmission may have been executed
	var delay time.Duration
	for {
		c.prepare(s, true)
		c.confine(g)
		sent := time.Since(s.began)
		err := s.redialer.call(ctx, &c.x)
		switch {
		case err != nil && lost(err) && ctx.Err() == nil && !s.redialer.closed():
			unsure = true
			continue
		case err != nil:
			return s.ended(err)
		}
		status := nfs4.OK
		if err = c.begin(true); err == nil {
			status, err = c.sequence()
		}
		switch {
		case err != nil:
			return err
		case status == nfs4.OK:
			sl.next++
			sl.uncertain = false
			c.epoch = g.epoch
			s.renewed.Store(int64(sent)) // the server counts from no earlier moment
			if !unsure {                 // a repeated reply may be old (RFC 8881, Section 2.10.6.1.1)
				g.slots.retarget(c.seqRes.TargetHighestSlotID)
				s.heed(g, c.seqRes.Flags)
			}
			return nil
		}
		c.x.Release()
		switch status {
		case nfs4.ErrDelay:
			if err := pause(ctx, &delay, &Error{nfs4.OpSequence, status}); err != nil {
				return err
			}
		case nfs4.ErrConnNotBoundToSession:
			if err := s.bind(ctx, g); err != nil {
				return err
			}
		case nfs4.ErrBadSession, nfs4.ErrDeadSession, nfs4.ErrBadSlot, nfs4.ErrBadHighSlot, nfs4.ErrSeqMisordered, nfs4.ErrSeqFalseRetry:
			g.slots.end()
			if unsure && c.harm {
				return ErrUncertain
			}
			return errBroken
		default:
			return &Error{nfs4.OpSequence, status}
		}
	}
}

// probe finds out the sequence ID that the server expects in a slot whose last
// call was abandoned. probe sends a SEQUENCE alone with the same sequence ID.
// Either the server has not seen the call: then the server will not execute the
// call any more. Or the server has seen the call, and says so, with the kept
// reply or NFS4ERR_SEQ_FALSE_RETRY. Both mean that the sequence ID is used up.
func (s *Session) probe(ctx context.Context, g *generation, id uint32) error {
	c := s.compound()
	defer s.put(c)
	sl := &g.slots.slot[id]
	c.seq = nfs4.SequenceArgs{Session: g.id, Slot: id, Sequence: sl.next, HighestSlotID: id}
	var delay time.Duration
	for {
		c.prepare(s, true)
		c.x.MaxResults = max(c.x.MaxResults, maxCached) // of the abandoned call
		c.confine(g)
		err := s.redialer.call(ctx, &c.x)
		switch {
		case err != nil && lost(err) && ctx.Err() == nil && !s.redialer.closed():
			continue
		case err != nil:
			return s.ended(err)
		}
		c.head.Decode(&c.x.Results)
		op, status := nfs4.Op(c.x.Results.Uint32()), nfs4.Status(c.x.Results.Uint32())
		if c.x.Results.Err() != nil || op != nfs4.OpSequence {
			return bad("SEQUENCE alone: %v of %v", status, op)
		}
		c.x.Release()
		switch status {
		case nfs4.OK, nfs4.ErrSeqFalseRetry, nfs4.ErrRetryUncachedRep:
			sl.next++
			sl.uncertain = false
			return nil
		case nfs4.ErrDelay:
			if err := pause(ctx, &delay, &Error{nfs4.OpSequence, status}); err != nil {
				return err
			}
		case nfs4.ErrConnNotBoundToSession:
			if err := s.bind(ctx, g); err != nil {
				return err
			}
		default:
			g.slots.end()
			return errBroken
		}
	}
}

// bind binds the connection to the session's fore channel (RFC 8881, Section
// 18.34). Most servers bind a connection by its first SEQUENCE.
func (s *Session) bind(ctx context.Context, g *generation) error {
	c := s.compound()
	defer s.put(c)
	var res nfs4.BindConnRes
	c.Add(nfs4.OpBindConnToSession, &nfs4.BindConnArgs{Session: g.id, Dir: nfs4.BindFore}, &res)
	return s.bare(ctx, c)
}

// bare executes a Compound of one operation without SEQUENCE. Such operations
// may be repeated.
func (s *Session) bare(ctx context.Context, c *Compound) error {
	var delay time.Duration
	for {
		c.prepare(s, false)
		err := s.redialer.call(ctx, &c.x)
		switch {
		case err != nil && lost(err) && ctx.Err() == nil && !s.redialer.closed():
			continue
		case err != nil:
			return err
		}
		if err = c.begin(false); err == nil {
			_, err = c.rest(0)
		}
		if err == nil {
			return nil
		}
		c.x.Release()
		if !statusIs(err, nfs4.ErrDelay) {
			return err
		}
		if err := pause(ctx, &delay, err); err != nil {
			return err
		}
	}
}

// ended returns ErrClosed if the Session is closed, otherwise err.
func (s *Session) ended(err error) error {
	if s.life.Err() != nil {
		return ErrClosed
	}
	return err
}
