package rpcsec

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// A session is the caller's end of a complete context, with the other end's handle for
// it.
type session struct {
	gss.Context
	handle []byte
	minEnd time.Time // calls may begin until then even if the context has expired
	*sequenceNumbers
}

// sequenceNumbers allocates the sequence numbers for a context's calls in one direction.
type sequenceNumbers struct {
	// slots has an element for each call in flight, at most the server's window (RFC
	// 2203, Section 5.2.3.1).
	slots chan struct{}

	// A number that was allocated but not sent must stay within the window while others
	// overtake it.
	mu       sync.Mutex
	sentCond sync.Cond // on mu; a number was removed from unsent
	next     uint32
	limit    uint32   // never reached; see firstBack
	unsent   []uint32 // in ascending order
}

// newSequenceNumbers returns the numbers from first up to end, for at most places
// concurrent calls.
func newSequenceNumbers(first, end, places uint32) *sequenceNumbers {
	k := &sequenceNumbers{slots: make(chan struct{}, places), next: first, limit: end}
	k.sentCond.L = &k.mu
	return k
}

// makeCall makes a call with s, which must be empty, as its Signer.
func (k *session) makeCall(ctx context.Context, next oncrpc.Caller, x *oncrpc.Exchange, s *signature, service uint32) error {
	if err := k.acquireSlot(ctx); err != nil {
		return err
	}
	defer k.releaseSlot()
	s.session, s.proc, s.service, s.xid = k, procData, service, x.XID
	x.Signer = s
	err := next.Call(ctx, x)
	x.Signer, x.XID = nil, s.xid
	s.reset()
	return err
}

// isUsable reports whether new calls may use the context.
func (k *session) isUsable(now time.Time) bool {
	return (now.Before(k.Expires()) || now.Before(k.minEnd)) && k.hasReserve()
}

// hasReserve reports whether there are numbers for many more calls.
func (k *sequenceNumbers) hasReserve() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.next < k.limit-maxNumbers*window
}

// acquireSlot waits for a slot for a call.
func (k *sequenceNumbers) acquireSlot(ctx context.Context) error {
	select {
	case k.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (k *sequenceNumbers) releaseSlot() { <-k.slots }

// takeNumber allocates the next number for a transmission. It waits while an earlier
// number is still unsent and would fall out of the window. That wait is short, because no
// goroutine waits for the server between takeNumber and markSent.
func (k *sequenceNumbers) takeNumber() uint32 {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.unsent) > 0 && int(k.next-k.unsent[0]) >= cap(k.slots) {
		k.sentCond.Wait()
	}
	n := k.next
	k.next++
	k.unsent = append(k.unsent, n)
	return n
}

// markSent records that the transmission with a number was sent, or will not be.
func (k *sequenceNumbers) markSent(n uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i, ok := slices.BinarySearch(k.unsent, n); ok {
		k.unsent = slices.Delete(k.unsent, i, i+1)
		k.sentCond.Broadcast()
	}
}

// A signature is one call's Signer, with its transmissions' sequence numbers: a slow
// server may reply to an earlier one (RFC 2203, Section 5.3.3.1).
type signature struct {
	session       *session
	proc          uint32
	service       uint32
	xid           uint32 // the last transmission's, or an earlier call's
	scratch       sliceScratch
	numbers       [maxNumbers]uint32 // the last ones, as a ring
	transmissions int
}

var _ oncrpc.Signer = (*signature)(nil)

// Whole reports whether arguments and results are protected too.
func (s *signature) Whole() bool { return s.service != serviceNone }

// Overhead returns the header's length, with the bytes that protection adds to a call, and
// the number of bytes that it adds to the reply.
func (s *signature) Overhead() (call, reply int) {
	front, behind := bodyOverhead(s.session, s.service)
	mic := opaqueLen(s.session.MICSize())
	return 6*4 + credentialLen(s.session.handle) + 4 + mic + front + behind, mic - 4 + front + behind
}

// AppendCall appends the call with a new sequence number.
func (s *signature) AppendCall(b []byte, xid uint32, x *oncrpc.Exchange) ([]byte, error) {
	k := s.session
	s.markLastSent()
	s.xid = xid
	n := k.takeNumber()
	s.numbers[s.transmissions%maxNumbers] = n
	s.transmissions++
	b, err := s.appendSigned(b, n, xid, x)
	if err != nil {
		return b, fmt.Errorf("rpcsec: the call cannot be protected: %w", err)
	}
	return b, nil
}

func (s *signature) appendSigned(b []byte, n, xid uint32, x *oncrpc.Exchange) (_ []byte, err error) {
	k, start := s.session, len(b)
	b = appendHeader(b, xid, x)
	b = appendCredential(b, credential{proc: s.proc, seq: n, service: s.service, handle: k.handle})
	signed := s.scratch.listOf(b[start:])
	b = xdr.AppendUint32(b, rpcmsg.AuthGSS)
	b = xdr.AppendUint32(b, uint32(k.MICSize()))
	if b, err = k.AppendMIC(b, signed); err != nil {
		return b, err
	}
	b = append(b, zeros[:xdr.Pad(k.MICSize())]...)
	if s.service == serviceNone {
		return append(b, x.Args...), nil
	}
	at := len(b)
	front, _ := bodyOverhead(k, s.service)
	b = append(b, make([]byte, front)...)
	b = append(b, x.Args...)
	b = append(b, x.Item...)
	b = append(b, zeros[:xdr.Pad(len(x.Item))]...)
	b = append(b, x.Tail...)
	if b, _, err = s.scratch.sealBody(k, s.service, n, b, at, nil); err != nil {
		return b[:start], err
	}
	return append(b, zeros[:xdr.Pad(len(b)-start)]...), nil
}

// Sent records that the last transmission was sent.
func (s *signature) Sent() { s.markLastSent() }

func (s *signature) markLastSent() {
	if s.transmissions > 0 {
		s.session.markSent(s.numbers[(s.transmissions-1)%maxNumbers])
	}
}

// reset makes s ready for another call.
func (s *signature) reset() {
	s.markLastSent()
	s.scratch.reset()
	*s = signature{scratch: sliceScratch{parts: s.scratch.parts}}
}

// Open verifies a reply. Its verifier signs one transmission's sequence number.
func (s *signature) Open(verf rpcmsg.OpaqueAuth, stat uint32, r *xdr.Reader) error {
	n, ok := s.matchTransmission(verf)
	if !ok {
		return ErrReply // RFC 2203, Section 5.3.3.2: it must not be used
	}
	if stat != rpcmsg.Success || s.service == serviceNone {
		return nil
	}
	plain, _, err := s.scratch.openBody(s.session, s.service, n, r.Rest())
	if err != nil {
		return fmt.Errorf("%w: %w", ErrReply, err)
	}
	*r = xdr.NewReader(plain)
	return nil
}

// matchTransmission returns the sequence number that the reply's verifier signs.
func (s *signature) matchTransmission(verf rpcmsg.OpaqueAuth) (n uint32, ok bool) {
	if verf.Flavor != rpcmsg.AuthGSS {
		return 0, false
	}
	for i := range min(s.transmissions, maxNumbers) {
		n = s.numbers[(s.transmissions-1-i)%maxNumbers]
		if s.session.VerifyMIC(verf.Body, s.scratch.wordList(n)) == nil {
			return n, true
		}
	}
	return 0, false
}
